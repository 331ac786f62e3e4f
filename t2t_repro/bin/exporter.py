"""t2t-exporter: writes a SavedModel, or a model for CTranslate2, ONNX, transformers or Argos.

    t2t-exporter --output_dir=RUN

writes RUN/export/STEP from the newest checkpoint: raw text in, raw text out. The SavedModel needs
only TensorFlow and tensorflow-text, not t2t_repro, and loads in TensorFlow Serving too. Its
README.md shows the calls. It translates as t2t-decoder does. For a parsing problem of subwords
(wsj_parsing, wsj_parsing4k) it returns linearised tags, which t2t-decoder would turn into trees.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100" become fixed in the export.
--quantize=float16 halves the SavedModel's size and prints the loss of BLEU on the dev split.
docs/serving.md has more.

    t2t-exporter --output_dir=RUN --format=ctranslate2 --quantize=int8 --max_bleu_drop=0.5

writes RUN/export/ctranslate2-STEP-int8, unless it loses more than 0.5 BLEU on the dev split.
t2t-decoder --engine=ctranslate2 --engine_dir=... decodes with it. --format=onnx, transformers and
argos write folders for ONNX Runtime and browsers, for the library transformers, and for Argos
Translate and LibreTranslate.
"""

from absl import flags

from t2t_repro import cli
from t2t_repro.export.forms import ExportRequest, export
from t2t_repro.runs import trained_run


def main(args: flags.FlagValues) -> None:
    """Exports what the flags name."""
    export(trained_run(**cli.run_flags(args)), cli.request(args, ExportRequest))


console = cli.program(__name__, "t2t-exporter", __doc__, (cli.RunFlags, ExportRequest), main)
