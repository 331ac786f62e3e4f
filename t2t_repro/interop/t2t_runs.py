"""Imports a run of tensor2tensor, and exports one."""

import contextlib
import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import __version__, registry
from t2t_repro.config import BYTENET, TRANSFORMER, HParams, parse_overrides
from t2t_repro.errors import UserError, unknown
from t2t_repro.files import write_text_atomic, writing
from t2t_repro.interop import (
    t2t_checkpoint,
    t2t_files,
    t2t_optimizer,
    t2t_shapes,
    tensor2tensor,
)
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import TrainedRun
from t2t_repro.training import checkpoints, optimizers, trainable

# A set that tensor2tensor has, for a run whose own it may lack: hparams.json wins over it.
_T2T_SETS = {TRANSFORMER: "transformer_base_v1", BYTENET: "bytenet_base"}
_T2T_LSTM = "lstm_seq2seq"
_WRITTEN = ("checkpoint", "hparams.json", "flags.txt")  # beside a checkpoint and the vocabulary
_TARGET_SPACES = "transformer/body/target_space_embedding/kernel"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImportRequest:
    """The flags of t2t-checkpoint import, by their names.

    Attributes:
        checkpoint: the folder of a T2T run, or the prefix of one checkpoint.
        output_dir: the run directory.
        problem: the problem's name; None: that of flags.txt.
        hparams_set: the named set; None: that of flags.txt, which may be unknown if there is an
            hparams.json. hparams.json overrides it.
        hparams: changes, "name=value,name=value"; they override hparams.json.
        data_dir: the folder of the vocabulary; None: beside the checkpoint, or where T2T had it.
        optimizer_state: also import the optimizer's state, if there is any.
        ignore_hparams: fields of hparams.json to leave out, separated by commas.
        target_space_id: the kind of target that was trained; None: the problem's.
        all_checkpoints: import all of the run, except those that `output_dir` has.
        t2t_usr_dir: the package of the problem, recorded in the run.
    """

    checkpoint: str | os.PathLike
    output_dir: str | os.PathLike
    problem: str | None = None
    hparams_set: str | None = None
    hparams: str = ""
    data_dir: str | None = None
    optimizer_state: bool = True
    ignore_hparams: str = ""
    target_space_id: int | None = None
    all_checkpoints: bool = False
    t2t_usr_dir: str | None = None


def import_checkpoint(
    request: ImportRequest,
    *,
    command: Sequence[str] = ("t2t-checkpoint", "import"),
    say: Callable[[str], None] = print,
) -> pathlib.Path:
    """Writes a run directory, or further checkpoints of one, from tensor2tensor's.

    Args:
        request: the checkpoint and the run.
        command: the command line, kept in the run directory.
        say: gets a line for each finding.

    Returns:
        The newest written checkpoint.

    Raises:
        UserError: if something is missing or does not fit; nothing was written then, except newer
            checkpoints than the one that is named.
    """
    every = t2t_checkpoint.beside if request.all_checkpoints else lambda path: [path]
    sources = map(t2t_checkpoint.Checkpoint, every(request.checkpoint))
    source, *older = sorted(sources, key=t2t_checkpoint.Checkpoint.step, reverse=True)
    shapes, folder = source.variable_shapes(), source.prefix.parent
    t2t_shapes.check_names(shapes, source.prefix)
    said = t2t_files.read_flags(folder / "flags.txt")
    known, set_name, given = _hparams(request, folder, said)
    resolved, notes = t2t_shapes.reconcile(known, shapes, given)
    if notes:
        say(f"Hparams taken from the shapes of the variables: {', '.join(notes)}.")
    problem_name = request.problem or said.get("problem") or said.get("problems") or ""
    problem = _problem(problem_name, folder)
    where = _vocabulary_folder(problem, request.data_dir, folder, said)
    usr_dir = request.t2t_usr_dir and os.path.expanduser(request.t2t_usr_dir)
    encoders = problem.feature_encoders(where)
    sizes = {name: encoders[name].vocab_size for name in ("inputs", "targets")}
    t2t_shapes.check_vocabularies(shapes, resolved, sizes, where or problem.name)
    _check_target_space(source, problem, resolved)
    config = RunConfig(
        hparams_set=set_name or _T2T_SETS.get(resolved.model, _T2T_LSTM),
        hparams=resolved,
        problem=problem_name,
        data_dir=os.path.abspath(os.path.expanduser(request.data_dir or where)),
        version=__version__,
        t2t_usr_dir=usr_dir and os.path.abspath(usr_dir),
    )
    run = RunDirectory(request.output_dir)
    where_to = {each: run.checkpoints_dir / f"ckpt-{each.step()}" for each in (source, *older)}
    new = [each for each, path in where_to.items() if not path.exists()]
    if not new:
        raise UserError(
            f"Expected no checkpoint of step {source.step()} in {run.path}. Received: "
            f"{where_to[source]}. Delete it, or give another --output_dir."
        )
    # An average has the slots of its members at best, and then begins at step 0.
    stateful = [each for each in new if request.optimizer_state and each.slots() and each.step()]
    keras.utils.set_random_seed(0)
    model = model_for(problem, resolved, where)
    if stateful:
        t2t_optimizer.check(resolved, t2t_optimizer.WITHOUT)
        model.compile(optimizer=optimizers.from_hparams(resolved))
    with contextlib.ExitStack() as stack:
        for each in new:
            tensor2tensor.load_variables(model, each.variables())
            if each in stateful:
                t2t_optimizer.load(model, each)
            if each is new[0]:
                stack.enter_context(run.locked())
                files = [os.path.join(where, name) for name in problem.vocab_files(where)]
                run.begin(config, command, files)
            arrays = checkpoints.snapshot(model)
            if each not in stateful:
                arrays.pop(checkpoints.TRAINING, None)
            checkpoints.write(run.checkpoints_dir, arrays, checkpoints.State(step=each.step()))
            state = "with optimizer state" if each in stateful else "without optimizer state"
            say(
                f"Imported {each.prefix} (step {each.step()}, {len(shapes)} variables, {state}) "
                f"as {where_to[each]}."
            )
    return where_to[new[0]]


def _hparams(
    request: ImportRequest, folder: pathlib.Path, said: dict[str, str]
) -> tuple[dict[str, Any] | None, str, set[str]]:
    """Returns {hparam: value} (None if unknown), the set's name, and the given hparams."""
    name = request.hparams_set or said.get("hparams_set") or ""
    file = folder / "hparams.json"
    values: dict[str, Any] = {}
    known = name in registry.list_hparams()
    # hparams.json says all that the set of flags.txt did, which need not be known.
    if name and not known and not (file.is_file() and name == said.get("hparams_set")):
        raise UserError(
            f"{unknown('hparam set', name, registry.list_hparams())} For your own set, give "
            "--t2t_usr_dir. Else give the most similar --hparams_set, and changes by --hparams."
        )
    if known:
        values = dataclasses.asdict(registry.get_hparams(name))
    elif not file.is_file():
        return None, name, set()
    if file.is_file():
        given = t2t_files.read_hparams(file, request.ignore_hparams.split(","))
    else:
        given = parse_overrides(said.get("hparams", ""))
    given |= parse_overrides(request.hparams)
    if request.target_space_id is not None:
        given["target_space_id"] = request.target_space_id
    return values | given, name, set(given)


def _problem(name: str, folder: pathlib.Path):
    if not name:
        raise UserError(
            f"Expected --problem=NAME, as a flag or a line in {folder}/flags.txt. Received: none."
        )
    try:
        return registry.get_problem(name)
    except UserError as error:
        raise UserError(
            f"{error} Give --t2t_usr_dir, or a --problem with the checkpoint's vocabulary."
        ) from error


def _vocabulary_folder(
    problem, data_dir: str | None, folder: pathlib.Path, said: dict[str, str]
) -> str:
    """Returns the folder that has the problem's vocabulary files."""
    known = (data_dir, str(folder), said.get("data_dir"))
    places = [os.path.expanduser(place) for place in known if place]
    for place in places:
        if all(os.path.isfile(os.path.join(place, name)) for name in problem.vocab_files(place)):
            return place
    raise UserError(
        f"Expected the vocabulary {', '.join(problem.vocab_filenames)}. Received: no such file in "
        f"{' or '.join(dict.fromkeys(places))}. Give its folder by --data_dir."
    )


def _check_target_space(source: t2t_checkpoint.Checkpoint, problem, hparams: HParams) -> None:
    """Refuses a problem with another target space than the checkpoint's.

    Adam's second moment tells: in the table of target spaces only the trained row is not 0. T2T up
    to 1.5.1 gave its WMT problems other target spaces than later versions.
    """
    slots = source.slots().get("Adam", {}).get(_TARGET_SPACES, [])
    if len(slots) < 2:
        return
    trained = np.flatnonzero(source.array(slots[1]).any(axis=-1))
    given = hparams.target_space_id
    target_space = int(problem.target_space_id) if given is None else given
    if len(trained) and target_space not in trained:
        rows = " or ".join(map(str, trained))
        raise UserError(
            f"Expected the target space id with which {source.prefix} was trained: {rows}. "
            f"Received: {target_space} for {problem.name}. If the problem is right, give "
            f"--target_space_id={rows}."
        )


def export_checkpoint(
    run: TrainedRun,
    t2t_dir: str | os.PathLike,
    *,
    checkpoint: str | None = None,
) -> pathlib.Path:
    """Writes a checkpoint of a run as T2T's files.

    Args:
        run: the run.
        t2t_dir: the folder to write.
        checkpoint: a checkpoint or a run; None: the newest of the run.

    Returns:
        The prefix of T2T's checkpoint.

    Raises:
        UserError: if there is no checkpoint, the vocabulary is missing, `t2t_dir` is a run of
            t2t_repro or a folder that holds what was not exported, or tensor2tensor has no such
            model.
    """
    config, target = run.config, pathlib.Path(t2t_dir).expanduser()
    _check_target(target, run)
    hparams = t2t_files.write_hparams(config.hparams)
    model, path = run.new_model(), run.checkpoint(checkpoint)
    # The slots belong to the trained weights, which T2T would decode by, and not by the averages.
    hp, unknown_there = config.hparams, t2t_optimizer.unknown_there(config.hparams)
    has_state = checkpoints.TRAINING in checkpoints.read_state(path).files
    with_optimizer = has_state and not (hp.ema_decay or unknown_there)
    if with_optimizer:
        model.compile(optimizer=optimizers.from_hparams(config.hparams))
        state = checkpoints.restore(model, path)
    else:
        state = checkpoints.load_weights(model, path)
    arrays = tensor2tensor.export_variables(model) | t2t_checkpoint.BOOKKEEPING
    step = state.step * trainable.batches_per_step(config.hparams)  # T2T counts batches
    arrays[t2t_checkpoint.STEP] = np.array(step, "int64")
    if with_optimizer:
        arrays |= t2t_optimizer.export(model)
    target.mkdir(parents=True, exist_ok=True)
    # First, so that after a kill the folder is known for an export that may be written again; the
    # checkpoint last, as what is beside it would be taken for what belongs to it.
    write_text_atomic(target / "flags.txt", t2t_files.write_flags(**_flags(run)))
    write_text_atomic(target / "hparams.json", hparams)
    names = _vocabulary_names(run)
    for file, name in names.items():
        with writing(target / name, "wb") as copy:
            copy.write(file.read_bytes())
    prefix = t2t_checkpoint.write(target, step, arrays)
    if (own := list(names.values())) != run.problem.vocab_filenames:
        print(
            f"tensor2tensor cannot read {' and '.join(own)}: to decode, give token ids, not text."
        )
    rest = "with optimizer state" if with_optimizer else "without optimizer state"
    if has_state and not with_optimizer:  # of the moving average there is none either
        rest += f", because of {unknown_there or f'ema_decay={hp.ema_decay}'}"
    print(f"Wrote {prefix} from {path}: weights {rest}.")
    name, other = config.hparams_set, _T2T_SETS.get(config.hparams.model, _T2T_LSTM)
    print(f"If tensor2tensor lacks hparam set {name!r}, use --hparams_set={other}.")
    return prefix


def _flags(run: TrainedRun) -> dict[str, str]:
    hparams = run.config.hparams
    return {
        "model": hparams.model,
        "problem": run.config.problem,
        "hparams_set": run.config.hparams_set,
        "data_dir": run.config.data_dir,
        "output_dir": os.path.abspath(run.path),
        "train_steps": str(hparams.train_steps * trainable.batches_per_step(hparams)),
    }


def _vocabulary_names(run: TrainedRun) -> dict[pathlib.Path, str]:
    """Returns {file: its name}; T2T looks for 2^15 in the name however many subwords there are."""
    files, there = run.vocabulary_files, run.problem.vocab_filenames
    alone = len(files) == len(there) == 1 and files[0].suffix == pathlib.Path(there[0]).suffix
    return {file: there[0] if alone else file.name for file in files}


def _check_target(target: pathlib.Path, run: TrainedRun) -> None:
    """Refuses to overwrite files of tensor2tensor or of another run.

    An export of the run itself may be written again; its flags.txt tells it.

    Raises:
        UserError: naming a file that would be lost.
    """
    said = t2t_files.read_flags(target / "flags.txt")
    exported = said | {"train_steps": ""} == _flags(run) | {"train_steps": ""}
    trained_there = any(any(target.glob(name)) for name in ("graph.pbtxt", "model.ckpt-*.meta"))
    if exported and not trained_there:
        return
    there = [*target.glob("model.ckpt-*"), *(target / name for name in _WRITTEN)]
    for file, name in _vocabulary_names(run).items():
        copy = target / name
        if copy.exists() and copy.read_bytes() != file.read_bytes():
            there.append(copy)
    for path in there:
        if path.exists():
            raise UserError(
                "Expected --t2t_dir to be a new folder, or an earlier export of this run. "
                f"Received: {target}, which holds {path.name}. Name another folder."
            )
