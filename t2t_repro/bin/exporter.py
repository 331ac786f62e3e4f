"""t2t-exporter: writes a SavedModel, or a model for CTranslate2, ONNX, transformers or Argos.

    t2t-exporter --output_dir=RUN

writes RUN/export/STEP from the newest checkpoint: raw text in, raw text out. It loads wherever
TensorFlow and tensorflow-text are, in TensorFlow Serving too, without t2t_repro; its README.md has
the calls. Its translations are those of t2t-decoder; for a parsing problem of subwords
(wsj_parsing, wsj_parsing4k) it returns the tags, which t2t-decoder reads as trees.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100" is fixed in it. --quantize=float16 halves
its size, and prints the cost in BLEU on the dev split. docs/serving.md has more.

    t2t-exporter --output_dir=RUN --format=ctranslate2 --quantize=int8 --max_bleu_drop=0.5

writes RUN/export/ctranslate2-STEP-int8 if that loses no more than 0.5 BLEU on the dev split.
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
