"""Writes a checkpoint of a run as tensor2tensor 1.15.7 reads it.

  t2t-export-checkpoint --output_dir=t2t_runs/mine --t2t_dir=for_t2t

writes for_t2t/model.ckpt-STEP with hparams.json, flags.txt, `checkpoint` and the vocabulary.
tensor2tensor then decodes with it, and trains on if the optimizer's state is there:

  t2t-decoder --output_dir=for_t2t --data_dir=for_t2t --problem=PROBLEM --model=transformer \\
      --hparams_set=SET --decode_from_file=FILE
"""

import os
import pathlib
import shutil
from collections.abc import Callable

from absl import flags

from t2t_repro import cli
from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.run_directory import RunDirectory
from t2t_repro.runs import TrainedRun, trained_run

# A set that tensor2tensor has, for a run whose own it may lack: hparams.json wins over it.
_T2T_SET = "transformer_base_v1"


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-export-checkpoint's flags."""
    flags.DEFINE_string("output_dir", None, "The run directory.", flag_values=f)
    flags.DEFINE_string("t2t_dir", None, "The folder to write.", flag_values=f)
    text = "The checkpoint: a ckpt-STEP folder, or a run (its newest)."
    flags.DEFINE_string("checkpoint_path", None, text, flag_values=f)
    flags.DEFINE_string("t2t_usr_dir", None, "Your own package of problems.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Exports what the flags name."""
    if not args.output_dir:
        raise UserError("Expected --output_dir, the run to export. Received: none.")
    if not args.t2t_dir:
        raise UserError("Expected --t2t_dir, the folder to write. Received: none.")
    export_checkpoint(trained_run(args.output_dir), args.t2t_dir, checkpoint=args.checkpoint_path)


def export_checkpoint(
    run: TrainedRun,
    t2t_dir: str | os.PathLike,
    *,
    checkpoint: str | None = None,
    say: Callable[[str], None] = print,
) -> pathlib.Path:
    """Writes a checkpoint of a run as T2T's files.

    Args:
        run: the run.
        t2t_dir: the folder to write.
        checkpoint: a checkpoint or a run; None: the newest of the run.
        say: gets a line about what was written.

    Returns:
        The prefix of T2T's checkpoint.

    Raises:
        UserError: if there is no checkpoint, the vocabulary is missing, `t2t_dir` is a run of
            t2t_repro, or tensor2tensor has no such model.
    """
    import numpy as np

    from t2t_repro.interop import t2t_checkpoint, t2t_files, t2t_optimizer, tensor2tensor
    from t2t_repro.training import checkpoints, optimizers

    config, target = run.config, pathlib.Path(t2t_dir).expanduser()
    if RunDirectory(target).exists():
        raise UserError(
            f"Expected --t2t_dir to be a folder for tensor2tensor. Received: {target}, a run of "
            "t2t_repro. Name another."
        )
    hparams = t2t_files.write_hparams(config.hparams)
    model, path = run.new_model(), run.checkpoint(checkpoint)
    with_optimizer = checkpoints.has_training_state(path)
    if with_optimizer:
        model.compile(optimizer=optimizers.from_hparams(config.hparams))
        state = checkpoints.restore(model, path)
    else:
        state = checkpoints.load_weights(model, path)
    arrays = tensor2tensor.export_variables(model) | t2t_checkpoint.BOOKKEEPING
    arrays[t2t_checkpoint.STEP] = np.array(state.step, "int64")
    if with_optimizer:
        arrays |= t2t_optimizer.export(model)
    prefix = t2t_checkpoint.write(target, state.step, arrays)
    for file in run.vocabulary_files:
        shutil.copyfile(file, target / file.name)
    write_text_atomic(target / "hparams.json", hparams)
    text = t2t_files.write_flags(
        model="transformer",
        problem=config.problem,
        hparams_set=config.hparams_set,
        data_dir=config.data_dir,
        train_steps=str(config.hparams.train_steps),
    )
    write_text_atomic(target / "flags.txt", text)
    rest = "the optimizer's state" if with_optimizer else "no optimizer state, as it has none"
    say(f"Wrote {prefix} from {path}: the weights and {rest}.")
    say(
        f"If tensor2tensor lacks the set {config.hparams_set!r}, give it --hparams_set={_T2T_SET}: "
        "hparams.json wins over it."
    )
    return prefix


console = cli.program(__name__, "t2t-export-checkpoint", __doc__, define_flags, main)
