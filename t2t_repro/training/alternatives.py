"""What a machine can do in the place of what it plainly cannot: the nearest things, as commands."""

import dataclasses
import os
import shlex
from collections.abc import Iterator

from t2t_repro import fields, registry
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError
from t2t_repro.problem import OutputType
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import effective_batch, estimate
from t2t_repro.training.forecast import Forecast, span
from t2t_repro.training.request import TrainRequest

COUNT = 3
MOST_HOURS = 48.0  # of what is proposed
_LEAST_STEPS = 10_000
_SMALLER = ("transformer_base", "transformer_small", "transformer_tiny")
_SMALLEST_BATCH = 256
# Flags that are another model's or another run's, or that ask for no training.
_OF_THE_MODEL = (
    *("model", "hparams_set", "hparams", "train_steps", "output_dir"),
    *("warm_start_from", "warm_start_partial", "nowarm_start_partial", "freeze", "yes"),
)
_QUICKSTART = ("t2t-trainer", "the embedded default, without data: it learns to reverse digits")


@dataclasses.dataclass(frozen=True)
class Alternative:
    """A command, and what it does."""

    command: str
    what: str


def text(request: TrainRequest, plan: Forecast) -> str:
    """Returns what to do instead of a run, a command and a line on each."""
    listed = (f"  {each.command}\n      {each.what}" for each in of(request, plan))
    return "\n".join(["What this machine can do:", *listed])


def of(request: TrainRequest, plan: Forecast) -> list[Alternative]:
    """Returns the nearest things that the machine of `plan` can do, `COUNT` of them at most."""
    found: list[Alternative] = []
    for candidate in _candidates(request, plan):
        if len(found) < COUNT and candidate.command not in {each.command for each in found}:
            found.append(candidate)
    return found


def _candidates(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """Yields what would work, the nearest first."""
    if plan.lacks("disk"):
        yield from _with_fewer_checkpoints(request, plan)
    request = effective_batch.as_asked(request)  # other batches make updates of the same size
    if plan.lacks("memory") and not request.run.exists():  # which keeps its batches
        yield from _with_smaller_batches(request, plan)
    yield from _with_smaller_models(request, plan)
    yield from _with_raw_files(request, plan)
    if request.problem.output_type == OutputType.TREE:
        yield from _of_the_sample(request, plan)
    yield from _on_captions(request, plan)
    yield Alternative(_QUICKSTART[0], f"{_QUICKSTART[1]}, in minutes")


def _with_fewer_checkpoints(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """The same, with fewer on the disk."""
    for keep in (5, 2, 1):
        if keep < plan.checkpoints:
            changed = dataclasses.replace(request.plan, keep_checkpoint_max=keep)
            other = dataclasses.replace(request, plan=changed)
            if not estimate.of(other, plan.machine).obstacles:
                flag = f"--keep_checkpoint_max={keep}"
                yield Alternative(_again(request, flag), f"the same, keeping {keep} checkpoints")
                return


def _with_smaller_batches(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """The same, with less in the memory at once."""
    hparams = request.config.hparams
    size = hparams.batch_size // 2
    while size >= _SMALLEST_BATCH and not hparams.use_fixed_batch_size:
        config = dataclasses.replace(
            request.config, hparams=dataclasses.replace(hparams, batch_size=size)
        )
        other = dataclasses.replace(request, config=config)
        found = estimate.of(effective_batch.choose(other, plan.machine.replicas), plan.machine)
        if not found.obstacles:
            flag = _with_hparam(request, "batch_size", size)
            what = f"the same in batches of {found.batch.size:,} tokens"
            yield Alternative(_again(request, flag), what)
            return
        size //= 2


def _with_smaller_models(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """The same data, the largest model for which two days have room, for as many steps."""
    for name in _SMALLER:
        other = _request_of(request, name, request.config.problem, request.config.data_dir)
        if other is None:
            continue
        smaller = estimate.of(other, plan.machine)
        if smaller.parameters >= plan.parameters:
            continue
        room = int(smaller.steps * min(1.0, MOST_HOURS / max(smaller.hours, 1e-9)))
        steps = room // 1000 * 1000 or room
        if steps < min(_LEAST_STEPS, smaller.steps):
            continue
        shorter = dataclasses.replace(
            other, plan=dataclasses.replace(other.plan, train_steps=steps)
        )
        smaller = estimate.of(shorter, plan.machine)
        if not smaller.obstacles:
            yield Alternative(
                _command(shorter, f"--train_steps={steps}"),
                f"the same data, a model of {smaller.parameters:,} parameters: "
                f"{span(smaller.hours)}",
            )
            return


def _with_raw_files(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """The same, where the user has what nobody can download, and nothing else is lacking."""
    problem = request.problem.forward()
    only_data = all(obstacle.kind == "data" for obstacle in plan.obstacles)
    if problem.raw_file_flags and only_data:
        again = _again(request, *problem.raw_file_flags)
        yield Alternative(again, f"the same, {problem.raw_file_hint}")


def _on_captions(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """A translation of real sentences, from files of a megabyte."""
    name, steps = "transformer_multi30k", 10_000
    yield from _own_problem(
        request, plan, name, steps, "29,000 real caption pairs, English to German, as in the README"
    )


def _of_the_sample(request: TrainRequest, plan: Forecast) -> Iterator[Alternative]:
    """The parser that the treebank's public sample is enough for."""
    yield Alternative(
        "t2t-trainer --hparams_set=transformer_parsing_regularized --treebank_dir=SAMPLE "
        "--treebank_split=0.8,0.1,0.1",
        "a parser of the treebank's public sample, nltk.download('treebank'): docs/parsing.md",
    )


def _own_problem(
    request: TrainRequest, plan: Forecast, name: str, steps: int, what: str
) -> Iterator[Alternative]:
    problem = registry.problem_of_hparams(name)
    other = _request_of(request, name, problem, "t2t_data")
    if other is None or name == request.config.hparams_set:
        return
    shorter = dataclasses.replace(other, plan=dataclasses.replace(other.plan, train_steps=steps))
    found = estimate.of(shorter, plan.machine)
    if not found.obstacles:
        devices = f" --worker_gpu={request.worker_gpu}" if request.worker_gpu else ""
        command = f"t2t-trainer --hparams_set={name}{devices} --train_steps={steps}"
        yield Alternative(command, f"{what}: {span(found.hours)}")


def _request_of(
    request: TrainRequest, hparams_set: str, problem: str, data_dir: str
) -> TrainRequest | None:
    """Returns the request with another set and problem; None: the two do not go together."""
    before, made = request.config, registry.get_problem(problem)
    tmp_dir = request.job.tmp_dir if request.job else "/tmp/t2t_datagen"
    try:
        hparams = registry.get_hparams(hparams_set)
    except UserError:  # of the user's
        return None
    job = request.job if problem == before.problem else Job(made, data_dir, tmp_dir)
    config = RunConfig(
        hparams_set=hparams_set,
        hparams=hparams,
        problem=problem,
        data_dir=data_dir,
        version=before.version,
        random_seed=before.random_seed,
    )
    return dataclasses.replace(
        request,
        run=RunDirectory(request.run.path.parent / hparams_set),
        config=config,
        problem=made,
        plan=dataclasses.replace(request.plan, train_steps=hparams.train_steps),
        job=job,
    )


def _again(request: TrainRequest, *flags: str) -> str:
    """Returns the command of the request with some flags more."""
    return shlex.join([*_without(request, *map(_name, flags)), *flags])


def _with_hparam(request: TrainRequest, name: str, value: object) -> str:
    """Returns --hparams of the request's command with one of them changed."""
    given = [w.partition("=")[2] for w in _words(request) if _name(w) == "hparams"]
    changes = fields.parse_overrides(given[-1] if given else "")
    changes.pop(name, None)
    changes[name] = str(value)
    return "--hparams=" + ",".join(f"{name}={value}" for name, value in changes.items())


def _words(request: TrainRequest) -> list[str]:
    """Returns the request's command with each flag as one word, "--name=value"; a --plan is none
    of what is proposed."""
    words: list[str] = []
    for word in request.command:
        if words and words[-1].startswith("-") and "=" not in words[-1] and word[:1] != "-":
            words[-1] += f"={word}"
        else:
            words.append(word)
    words = [f"--{word.lstrip('-')}" if word.startswith("-") else word for word in words]
    return [word for word in words if _name(word) != "plan"]


def _name(word: str) -> str:
    return word.partition("=")[0].removeprefix("--")


def _without(request: TrainRequest, *names: str) -> list[str]:
    """Returns the words of the request's command but for the flags of these names."""
    return [word for word in _words(request) if _name(word) not in names]


def _command(request: TrainRequest, *more: str) -> str:
    """Returns the command of the request with its set and its run, in the place of the user's."""
    config, job = request.config, request.job
    words = _without(request, *_OF_THE_MODEL)
    given = {_name(word) for word in words}
    of_data: dict[str, str | None] = {}
    if "train_source" not in given:  # which says of what problem it is, and where its data are
        of_data = {"problem": config.problem, "data_dir": os.path.relpath(config.data_dir)}
        of_data |= {"generate_data": None, "tmp_dir": str(job.tmp_dir)} if job else {}
    for name, value in of_data.items():
        if name not in given:
            words.append(f"--{name}" if value is None else f"--{name}={value}")
    of_model = [f"--hparams_set={config.hparams_set}", f"--output_dir={request.run.path}"]
    return shlex.join([*words, *of_model, *more])
