"""Write a trained model as a SavedModel for serving: raw text in, raw text out.

    t2t-exporter --output_dir=RUN

writes RUN/export/STEP from the newest checkpoint. It loads wherever TensorFlow and tensorflow-text
are, in TensorFlow Serving too, without t2t_repro; its README.md has the calls. Its translations are
those of t2t-decoder. --decode_hparams="beam_size=4,alpha=0.6,extra_length=100" is fixed in it.
"""

import os
import pathlib
from collections.abc import Callable
from typing import Any

from absl import flags

from t2t_repro import cli, decoder, registry
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory


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


def main(args: flags.FlagValues) -> None:
    """Exports what the flags name."""
    from t2t_repro.decoding.settings import DecodeHParams

    if args.export_as_tfhub:
        raise UserError(
            "--export_as_tfhub is not supported: a SavedModel is written. Received: True. Leave it "
            "out."
        )
    if args.t2t_usr_dir:
        from t2t_repro.interop import usr_dir

        usr_dir.load(args.t2t_usr_dir)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    settings = DecodeHParams.parse(args.decode_hparams or "")
    run, config = cli.trained_run(args)
    export_run(
        run,
        config,
        args.export_dir,
        settings,
        data_dir=args.data_dir,
        checkpoint=args.checkpoint_path,
    )


def export_run(
    run: RunDirectory,
    config: RunConfig,
    export_dir: str | os.PathLike | None,
    settings: Any,
    *,
    data_dir: str | None = None,
    checkpoint: str | None = None,
    say: Callable[[str], None] = print,
) -> pathlib.Path:
    """Writes a checkpoint of a run as a SavedModel.

    Args:
        run: the run.
        config: what it is.
        export_dir: the folder to write; None: export/STEP in the run.
        settings: the `DecodeHParams`.
        data_dir: the folder of the vocabulary; None: the run's own copy, or where it was trained.
        checkpoint: a checkpoint or a run; None: the newest of `run`.
        say: gets a line about what was written.

    Returns:
        The folder.
    """
    from t2t_repro.interop import saved_model
    from t2t_repro.training import checkpoints

    saved_model.check_settings(settings)
    source = checkpoints.find(checkpoint or run.path)
    default = run.path / "export" / str(checkpoints.step_of(source))
    path = pathlib.Path(export_dir).expanduser() if export_dir else default
    saved_model.check_folder(path)
    model, encoders = decoder.load(run, config, data_dir, os.fspath(source))
    folders = [pathlib.Path(folder) for folder in (data_dir, run.path, config.data_dir) if folder]
    vocabularies = []
    for name in registry.get_problem(config.problem).vocab_filenames:
        vocabularies += [folder / name for folder in folders if (folder / name).is_file()][:1]
    saved_model.export(model, encoders, path, settings, vocabularies)
    say(f"Wrote {path} from {source}. {path / 'README.md'} has the calls.")
    return path


def console() -> None:
    """The console script."""
    cli.run("t2t-exporter", __doc__, define_flags, main)


if __name__ == "__main__":
    console()
