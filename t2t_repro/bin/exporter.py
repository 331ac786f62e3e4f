"""Write a trained model for serving: as a SavedModel, or for CTranslate2.

    t2t-exporter --output_dir=RUN

writes RUN/export/STEP from the newest checkpoint: raw text in, raw text out. It loads wherever
TensorFlow and tensorflow-text are, in TensorFlow Serving too, without t2t_repro; its README.md has
the calls. Its translations are those of t2t-decoder; of a parsing problem it gives the tags, which
t2t-decoder reads as trees.
--decode_hparams="beam_size=4,alpha=0.6,extra_length=100" is fixed in it, but a request may name its
own alpha and extra_length. --quantize=float16 halves its size, and prints what that costs in BLEU
on the dev split. docs/serving.md has more.

    t2t-exporter --output_dir=RUN --format=ctranslate2 --quantize=int8 --max_bleu_drop=0.5

writes RUN/export/ctranslate2-STEP-int8, if the translations of the dev split lose no more than 0.5
BLEU by it. t2t-decoder --engine=ctranslate2 --engine_dir=... decodes with it.
"""

import dataclasses
import itertools
import math
import os
import pathlib
from collections.abc import Callable
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.files import check_new_folder
from t2t_repro.runs import TrainedRun, trained_run


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-exporter's flags, as T2T's."""
    cli.define_run_flags(f)
    text = "The checkpoint; default: the newest of --output_dir."
    flags.DEFINE_string("checkpoint_path", None, text, flag_values=f)
    text = "The folder of the SavedModel; default: export/STEP in --output_dir."
    flags.DEFINE_string("export_dir", None, text, flag_values=f)
    text = 'How to decode: "name=value,name=value".'
    flags.DEFINE_string("decode_hparams", None, text, flag_values=f)
    text = "T2T's; a SavedModel is written, so it must be off."
    flags.DEFINE_bool("export_as_tfhub", False, text, flag_values=f)
    formats = ["saved_model", "ctranslate2"]
    flags.DEFINE_enum("format", "saved_model", formats, "What to write.", flag_values=f)
    text = "How the weights are stored: float32 or float16; for CTranslate2 also bfloat16, int16,"
    flags.DEFINE_string("quantize", "float32", f"{text} int8 or int8_float32.", flag_values=f)
    text = "Make T2T's signature, of tf.Examples, the SavedModel's default, for T2T's own clients."
    flags.DEFINE_bool("t2t_serving", False, text, flag_values=f)
    text = "Refuse a quantized model whose translations lose more BLEU than this on the dev split."
    flags.DEFINE_float("max_bleu_drop", None, text, lower_bound=0.0, flag_values=f)
    text = "How many sentences of the dev split say how much BLEU is lost."
    flags.DEFINE_integer("gate_samples", 500, text, lower_bound=1, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Exports what the flags name."""
    from t2t_repro.decoding.settings import DecodeHParams

    if args.export_as_tfhub:
        raise UserError(
            "--export_as_tfhub is not supported: a SavedModel is written. Received: True. Leave it "
            "out."
        )
    if args.max_bleu_drop is not None and math.isnan(args.max_bleu_drop):
        raise UserError(
            "Expected --max_bleu_drop to be a number, which a drop can be compared with. Received: "
            "nan. Give one, or leave it out."
        )
    run = trained_run(**cli.run_flags(args))
    settings = DecodeHParams.parse(args.decode_hparams or "", run.problem.decode_hparams)
    arguments: dict[str, Any] = {
        "checkpoint": args.checkpoint_path,
        "quantize": args.quantize,
        "gate": Gate(args.max_bleu_drop, args.gate_samples),
    }
    if args.format == "ctranslate2":
        if args.t2t_serving:
            raise UserError(
                "Expected --t2t_serving with --format=saved_model. Received: --format=ctranslate2. "
                "Leave it out."
            )
        export_ctranslate2(run, args.export_dir, settings, **arguments)
        return
    export_run(run, args.export_dir, settings, **arguments, t2t_serving=args.t2t_serving)


@dataclasses.dataclass(frozen=True)
class Gate:
    """What a quantized model may cost, measured on the dev split before it is written.

    Attributes:
        max_bleu_drop: refuse it if more BLEU than this is lost; None: whatever is lost.
        samples: how many examples of the dev split say what is lost.
    """

    max_bleu_drop: float | None = None
    samples: int = 500

    def examples(self, quantize: str, run: TrainedRun, say: Callable[[str], None]) -> list[Any]:
        """The examples to measure by, none where nothing is to be measured.

        Args:
            quantize: how the weights are stored; "float32" is measured only if there is a limit.
            run: whose dev split.
            say: gets a line where there is no dev split, and no limit.

        Raises:
            UserError: if there is a limit, and no dev split.
        """
        from t2t_repro.data import records
        from t2t_repro.problem import Split

        if quantize == "float32" and self.max_bleu_drop is None:
            return []
        try:
            found = records.read_split(run.problem, Split.EVAL, run.data_dir)
            return list(itertools.islice(found, self.samples))
        except UserError as error:
            if self.max_bleu_drop is not None:
                raise
            say(f"What {quantize} costs is not measured. {error}")
            return []

    def check(self, lost: Any, say: Callable[[str], None]) -> None:
        """Says what is lost, a `quality.Comparison`; too much is a UserError."""
        from t2t_repro.interop import quality

        say(str(lost))
        quality.check(lost, self.max_bleu_drop)


def export_run(
    run: TrainedRun,
    export_dir: str | os.PathLike | None,
    settings: Any,
    *,
    checkpoint: str | None = None,
    quantize: str = "float32",
    t2t_serving: bool = False,
    gate: Gate = Gate(),
    say: Callable[[str], None] = print,
) -> pathlib.Path:
    """Writes a checkpoint of a run as a SavedModel.

    Args:
        run: the run.
        export_dir: the folder to write; None: export/STEP, with -QUANTIZE where it is not float32,
            in the run.
        settings: the `DecodeHParams`.
        checkpoint: a checkpoint or a run; None: the newest of `run`.
        quantize: the type in which the weights are kept.
        t2t_serving: make tensor2tensor's signature the default one.
        gate: what may be lost.
        say: gets a line about what was written, and what was lost.

    Returns:
        The folder.
    """
    from t2t_repro.interop import quality, saved_model
    from t2t_repro.training import checkpoints

    saved_model.check_settings(settings)
    saved_model.check_storage(quantize)
    source = run.checkpoint(checkpoint)
    path = _new_folder(run, export_dir, str(checkpoints.step_of(source)), quantize)
    examples = gate.examples(quantize, run, say)
    model, encoders = run.model(source, say=cli.say), run.encoders

    def accept(folder: pathlib.Path) -> None:
        if examples:
            engine = saved_model.SavedModelEngine(folder, model.learned_positions)
            gate.check(quality.compare(model, engine, encoders, examples, settings), say)

    options: dict[str, Any] = {"storage": quantize, "t2t_serving": t2t_serving, "accept": accept}
    saved_model.export(model, encoders, path, settings, run.vocabulary_files, **options)
    say(f"Wrote {path} from {source}. {path / 'README.md'} has the calls.")
    return path


def _new_folder(
    run: TrainedRun, export_dir: str | os.PathLike | None, name: str, quantize: str
) -> pathlib.Path:
    """Returns the folder to write, which is checked before the model is loaded."""
    name += "" if quantize == "float32" else f"-{quantize}"
    path = pathlib.Path(export_dir).expanduser() if export_dir else run.path / "export" / name
    check_new_folder(path)
    return path


def export_ctranslate2(
    run: TrainedRun,
    export_dir: str | os.PathLike | None,
    settings: Any,
    *,
    checkpoint: str | None = None,
    quantize: str = "float32",
    gate: Gate = Gate(),
    say: Callable[[str], None] = print,
) -> pathlib.Path:
    """Writes a checkpoint of a run for CTranslate2.

    Args:
        run: the run.
        export_dir: the folder to write; None: export/ctranslate2-STEP, with -QUANTIZE where it is
            not float32, in the run.
        settings: the `DecodeHParams` with which the loss of BLEU is measured.
        checkpoint: a checkpoint or a run; None: the newest of `run`.
        quantize: how the weights are stored.
        gate: what may be lost.
        say: gets a line about what was written, and what was lost.

    Returns:
        The folder.
    """
    from t2t_repro.interop import ctranslate2, ctranslate2_engine, quality
    from t2t_repro.training import checkpoints

    ctranslate2.check_quantization(quantize)
    source = run.checkpoint(checkpoint)
    path = _new_folder(run, export_dir, f"ctranslate2-{checkpoints.step_of(source)}", quantize)
    examples = gate.examples(quantize, run, say)
    model, encoders = run.model(source, say=cli.say), run.encoders

    def accept(folder: pathlib.Path) -> None:
        if examples:
            engine = ctranslate2_engine.CTranslate2Engine(folder)
            gate.check(quality.compare(model, engine, encoders, examples, settings), say)

    ctranslate2.export(model, encoders, path, quantize, run.vocabulary_files, accept)
    say(f"Wrote {path} from {source}. t2t-decoder --engine=ctranslate2 decodes with it.")
    return path


console = cli.program(__name__, "t2t-exporter", __doc__, define_flags, main)
