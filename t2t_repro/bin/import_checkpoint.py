"""Makes a run of a tensor2tensor checkpoint: translate with it, evaluate it, train it on.

  t2t-import-checkpoint --checkpoint=T2T_RUN --data_dir=T2T_DATA --output_dir=t2t_runs/imported
  t2t-decoder --output_dir=t2t_runs/imported --decode_from_file=FILE --decode_to_file=OUT

T2T_RUN is a folder with a `checkpoint` file (its newest is taken), or a prefix such as
T2T_RUN/model.ckpt-250000. The hparams come from hparams.json beside it, the problem from flags.txt;
where they are missing, --hparams_set, --hparams and --problem say it. Weights, optimizer state and
step are carried over. Import further checkpoints into the same --output_dir to average them.
"""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-import-checkpoint's flags."""
    cli.define_run_flags(f)
    text = "The folder of a tensor2tensor run, or the prefix of one checkpoint."
    flags.DEFINE_string("checkpoint", None, text, flag_values=f)
    text = "Carry the optimizer's state over, where the checkpoint has it."
    flags.DEFINE_bool("optimizer_state", True, text, flag_values=f)
    text = "Fields of hparams.json to leave out, separated by commas."
    flags.DEFINE_list("ignore_hparams", [], text, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Imports what the flags name."""
    for name in ("checkpoint", "output_dir"):
        if not getattr(args, name):
            raise UserError(f"Expected --{name}. Received: none. {_HINTS[name]}")
    import_checkpoint(
        args.checkpoint,
        args.output_dir,
        problem_name=args.problem,
        hparams_set=args.hparams_set,
        hparams=args.hparams,
        data_dir=args.data_dir,
        optimizer_state=args.optimizer_state,
        ignore_hparams=args.ignore_hparams,
        command=["t2t-import-checkpoint", *sys.argv[1:]],
    )


_HINTS = {
    "checkpoint": "It is the folder of a tensor2tensor run, or the path of one model.ckpt-STEP.",
    "output_dir": "It is the folder of the run to make.",
}


def import_checkpoint(
    checkpoint: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    problem_name: str | None = None,
    hparams_set: str | None = None,
    hparams: str = "",
    data_dir: str | None = None,
    optimizer_state: bool = True,
    ignore_hparams: Collection[str] = (),
    command: Sequence[str] = ("t2t-import-checkpoint",),
    say: Callable[[str], None] = print,
) -> pathlib.Path:
    """Writes a run directory, or another checkpoint of one, from a tensor2tensor checkpoint.

    Args:
        checkpoint: the folder of a T2T run, or the prefix of one checkpoint.
        output_dir: the run directory.
        problem_name: the problem; None: that of flags.txt.
        hparams_set: the named set; None: that of flags.txt. hparams.json wins over it.
        hparams: changes, "name=value,name=value"; they win over hparams.json.
        data_dir: the folder of the vocabulary; None: beside the checkpoint, or where T2T had it.
        optimizer_state: carry the optimizer's state over, where there is any.
        ignore_hparams: fields of hparams.json to leave out.
        command: the command line, kept in the run directory.
        say: gets a line for each thing that was worked out.

    Returns:
        The checkpoint that was written.

    Raises:
        UserError: if something is missing or does not fit; nothing was written then.
    """
    from t2t_repro import __version__
    from t2t_repro.interop import t2t_checkpoint, t2t_files, t2t_shapes
    from t2t_repro.training import checkpoints

    source = t2t_checkpoint.Checkpoint(checkpoint)
    shapes, folder = source.variable_shapes(), source.prefix.parent
    t2t_shapes.check_names(shapes, source.prefix)
    said = t2t_files.read_flags(folder / "flags.txt")
    known, set_name, given = _hparams(folder, said, hparams_set, hparams, ignore_hparams)
    resolved, notes = t2t_shapes.reconcile(known, shapes, given)
    if notes:
        say(f"From the variables' shapes: {', '.join(notes)}.")
    problem_name = problem_name or said.get("problem") or said.get("problems") or ""
    problem = _problem(problem_name, folder)
    where = _vocabulary_folder(problem, data_dir, folder, said)
    encoders = problem.feature_encoders(where)
    sizes = {name: encoders[name].vocab_size for name in ("inputs", "targets")}
    t2t_shapes.check_vocabularies(shapes, resolved, sizes, where or problem.name)
    # An average has the slots of its members at best, and then begins at step 0.
    with_optimizer = optimizer_state and bool(source.slots()) and source.step() > 0
    config = RunConfig(
        hparams_set=set_name,
        hparams=resolved,
        problem=problem_name,
        data_dir=os.path.abspath(where),
        version=__version__,
    )
    run = RunDirectory(output_dir)
    _check_free(run, source.step())
    model = _model(resolved, sizes, problem, source, with_optimizer)
    run.begin(config, command, [os.path.join(where, name) for name in problem.vocab_filenames])
    written = checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=source.step()))
    state = "optimizer state and all" if with_optimizer else "without optimizer state"
    say(
        f"Imported {source.prefix} (step {source.step()}, {len(shapes)} variables, {state}) "
        f"as {written}."
    )
    return written


def _hparams(
    folder: pathlib.Path,
    said: dict[str, str],
    hparams_set: str | None,
    overrides: str,
    ignored: Collection[str],
) -> tuple[dict[str, Any] | None, str, set[str]]:
    """Returns {hparam: value} (None if nothing says them), the set's name, and what was given."""
    from t2t_repro.interop import t2t_files

    name = hparams_set or said.get("hparams_set") or ""
    file = folder / "hparams.json"
    values: dict[str, Any] = {}
    if hparams_set or name in registry.list_hparams() or (name and not file.is_file()):
        values = dataclasses.asdict(registry.get_hparams(name))
    elif not file.is_file():
        return None, name, set()
    if file.is_file():
        given = t2t_files.read_hparams(file, ignored)
    else:
        given = t2t_files.read_overrides(said.get("hparams", ""))
    given |= t2t_files.read_overrides(overrides)
    return values | given, name or "transformer_base_v1", set(given)


def _problem(name: str, folder: pathlib.Path):
    if not name:
        raise UserError(
            f"Expected --problem, or a flags.txt in {folder} that names it. Received: neither. "
            "t2t-trainer --registry_help lists the problems."
        )
    try:
        return registry.get_problem(name)
    except UserError as error:
        raise UserError(
            f"{error} Give --t2t_usr_dir if it is a problem of yours, or --problem=NAME for one "
            "with the same vocabulary."
        ) from error


def _vocabulary_folder(
    problem, data_dir: str | None, folder: pathlib.Path, said: dict[str, str]
) -> str:
    """Returns the folder that has the problem's vocabulary files."""
    if data_dir:
        return os.path.expanduser(data_dir)  # the encoders' own error says what is missing
    places = [str(folder), os.path.expanduser(said.get("data_dir") or str(folder))]
    for place in places:
        if all(os.path.isfile(os.path.join(place, name)) for name in problem.vocab_filenames):
            return place
    raise UserError(
        f"Expected the vocabulary {', '.join(problem.vocab_filenames)}. Received: no such file in "
        f"{' or '.join(dict.fromkeys(places))}. Give --data_dir, the folder that has it."
    )


def _check_free(run: RunDirectory, step: int) -> None:
    path = run.checkpoints_dir / f"ckpt-{step}"
    if path.exists():
        raise UserError(
            f"Expected no checkpoint of step {step} in {run.path}. Received: {path}. Delete it, or "
            "give another --output_dir."
        )


def _model(hparams, sizes: dict[str, int], problem, source, with_optimizer: bool):
    """Returns the model with all that the checkpoint holds; compiled if it has an optimizer."""
    import keras

    from t2t_repro.interop import t2t_optimizer, tensor2tensor
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import optimizers

    keras.utils.set_random_seed(0)
    model = Transformer.from_hparams(
        hparams,
        inputs_vocab_size=sizes["inputs"],
        targets_vocab_size=sizes["targets"],
        target_space_id=problem.target_space_id,
    )
    tensor2tensor.load_variables(model, source.variables())
    if with_optimizer:
        model.compile(optimizer=optimizers.from_hparams(hparams))
        t2t_optimizer.load(model, source)
    return model


console = cli.program(__name__, "t2t-import-checkpoint", __doc__, define_flags, main)
