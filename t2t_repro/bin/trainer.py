"""t2t-trainer: trains and evaluates a model, mostly a Transformer, under tensor2tensor's flags.

  t2t-trainer

alone trains a small model on generated data, in about two minutes on two cores, and decodes
samples with it. With --hparams_set alone it trains that set on the problem that belongs to it, such
as transformer_big on translate_ende_wmt14, with data in t2t_data and the run in t2t_runs/SET. For
another training give a problem, an hparam set and two folders:

  t2t-trainer --problem=translate_ende_multi30k --hparams_set=transformer_multi30k \\
      --generate_data --tmp_dir=RAW_FILES --data_dir=t2t_data --output_dir=t2t_runs/multi30k

t2t-own-text trains on your own files of sentences; t2t-datagen makes data from them.

--registry_help lists problems and hparam sets. If a run stopped, run the same command to resume
from its newest checkpoint, as if it had not stopped; --output_dir alone is enough. SIGTERM and
Ctrl-C save a checkpoint first (exit codes 143 and 130); a second signal stops at once.
"""

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import __version__, cli, registry
from t2t_repro.bin import datagen, fine_tuning, quickstart
from t2t_repro.config import HParams
from t2t_repro.fields import flag, flags_of, parse_overrides
from t2t_repro.problem import Problem, check_text
from t2t_repro.run_directory import RunConfig, RunDirectory, problem_of
from t2t_repro.runs import trained_run
from t2t_repro.training import trainable
from t2t_repro.training.request import SCHEDULES, Plan, PlanFlags, TrainRequest

if TYPE_CHECKING:
    import keras

    from t2t_repro.data.job import Job
    from t2t_repro.decoding.dev_bleu import DevBleu
    from t2t_repro.training.log import Samples

SAMPLES_EVERY = 5000  # steps: translations of dev for TensorBoard
DATA_DIR, RUNS_DIR = "t2t_data", "t2t_runs"
# What is trained where no problem, set or folder is named: no download, two minutes.
_EMBEDDED: dict[str, Any] = {
    **{"problem": quickstart.PROBLEM, "hparams_set": quickstart.HPARAMS_SET, "generate_data": True},
    **{"local_eval_frequency": 600, "eval_steps": 10},
}
# Flags that a run keeps in its run.json: how it trains and is evaluated, not what it is.
KEPT = (
    *flags_of(Plan),
    *("schedule", "warm_start_from", "warm_start_partial", "worker_gpu", "finish"),
    *("eval_steps", "eval_use_test_set", "eval_bleu_sentences", "keep_best", "best_metric"),
    *("eval_early_stopping_steps", "eval_early_stopping_metric"),
    "eval_early_stopping_metric_delta",
)
_HINTS = {
    "problem": "t2t-trainer --registry_help lists the problems.",
    "hparams_set": "t2t-trainer --registry_help lists the hparam sets; t2t-datagen proposes one.",
    "data_dir": "Give the --data_dir that t2t-datagen wrote, or a new folder and --generate_data.",
    "output_dir": "Give a folder for the run.",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """The flags of t2t-trainer beside those of the run, of the task, of `Plan` and `PlanFlags`.

    They are T2T's (bin/t2t_trainer.py and utils/flags.py) where it has them.
    """

    model: str | None = flag(None, "The model; default: the existing run's, else the hparam set's.")
    tmp_dir: str = flag("/tmp/t2t_datagen", "The folder of the raw files, as in t2t-datagen.")
    registry_help: bool = flag(False, "List problems, hparam sets and models, and exit.")
    generate_data: bool = flag(False, "Make the problem's missing data files first.")
    schedule: str = flag(
        SCHEDULES[0],
        "Train, evaluate, or both; continuous_train_and_eval is the same as train_and_evaluate.",
        choices=SCHEDULES,
    )
    train_steps: int | None = flag(None, "The last step; default: that of the hparam set.", least=1)
    eval_steps: int = flag(
        100, "Batches per evaluation, of all sentence lengths; 0: the whole split.", least=0
    )
    keep_best: int = flag(0, "Keep this many best checkpoints in RUN/best; 0: none.", least=0)
    best_metric: str = flag("loss", "The metric of --keep_best, such as loss or bleu.")
    eval_early_stopping_steps: int | None = flag(
        None, "Stop early after this many steps without improvement; 0: never.", least=0
    )
    eval_early_stopping_metric: str = flag("loss", "The metric of early stopping, such as bleu.")
    eval_early_stopping_metric_delta: float = flag(
        0, "Early stopping ignores improvements below this; T2T's default is 0.1.", least=0
    )
    eval_use_test_set: bool = flag(False, "Evaluate the test split instead of dev.")
    eval_bleu_sentences: int = flag(
        0,
        "Decode this many sentences of the evaluated split greedily for bleu; 0: no bleu.",
        least=0,
    )
    random_seed: int = flag(
        0, "The seed of the weights, of dropout and of shuffling.", least=0, most=2**32 - 1
    )
    worker_gpu: int | None = flag(
        None, "Number of GPUs, with a batch on each; default: all, or the CPU if none.", least=1
    )
    xla_compile: bool = flag(False, "Compile TensorFlow's training step with XLA on a GPU.")
    warm_start_from: str | None = flag(None, "Start from the weights of this run or checkpoint.")
    warm_start_partial: bool = flag(
        False, "Warm start: load only matching weights; depth, problem and vocabulary may differ."
    )
    finish: bool = flag(False, "After training, tune decoding on dev (t2t-avg-all --tune).")
    find_batch_size: bool = flag(False, "Find a batch_size that fits into memory, and exit.")


def main(args: flags.FlagValues) -> None:
    """Trains or evaluates as the flags ask."""
    if args.registry_help:
        print(registry_help())
        return
    request = request_of(args)
    if args.find_batch_size:
        from t2t_repro.training import batch_size

        if request.job:
            generate(request.job, request.config.t2t_usr_dir)
        batch_size.find(request)
        return
    if request.finish:
        check_text(request.problem, "--finish")
    request.check()
    plans = request.plan_flags is not None and request.plan_flags.plan
    if not request.job:
        from t2t_repro.models import sharing

        sharing.check(request.config.hparams, request.problem, request.config.data_dir)
    from t2t_repro.provenance import write_of_run

    train = functools.partial(plan_and_train, request)
    if is_quickstart(args) and not plans:
        quickstart.train_and_show(request.run, train)
    else:
        train()
    if plans or request.schedule == "evaluate" or os.environ.get("TF_CONFIG"):
        return
    write_of_run(request.run.path, "t2t-trainer", data_dir=request.config.data_dir)
    if request.finish:
        finish(request)


def plan_and_train(request: TrainRequest) -> dict[str, float]:
    """Plans a run, makes its data and trains, or evaluates; returns the last evaluation.

    Call it before anything else of TensorFlow or JAX.

    Raises:
        UserError: as `plan.look_ahead`, `batch_size.choose` and `trainer.run`.
    """
    from t2t_repro import plan
    from t2t_repro.training import batch_size, devices, trainer

    choose = devices.here if request.schedule == "evaluate" else devices.choose
    where = choose(request.worker_gpu)
    found = plan.look_ahead(request, where)
    if request.plan_flags and request.plan_flags.plan:
        return {}
    if request.job:
        generate(request.job, request.config.t2t_usr_dir)
        found = found and plan.make(request, found.machine)  # of data that were not there before
    if request.schedule != "evaluate":
        request = batch_size.choose(request, where.replicas)
    return trainer.run(request, where, found.to_json() if found else "")


def request_of(args: flags.FlagValues) -> TrainRequest:
    """Returns the request of the flags, completed by `fill`.

    A warning names the flags without effect beside the others.

    Raises:
        UserError: if they lack something or contradict each other.
    """
    values, before = fill(args)
    usr_dir = args.t2t_usr_dir and os.path.abspath(os.path.expanduser(args.t2t_usr_dir))
    if (source := values["warm_start_from"]) and values["schedule"] != "evaluate":
        where = (values["output_dir"], os.path.expanduser(values["data_dir"]))
        values["warm_start_from"] = fine_tuning.imported(source, *where, usr_dir)
    hparams_set, hparams = hparams_of(values, before)
    problem = registry.get_problem(values["problem"])
    schedule, finds = values["schedule"], values["find_batch_size"]
    trains, evaluates = schedule != "evaluate" and not finds, schedule != "train" and not finds
    split = "test" if evaluates and values["eval_use_test_set"] else "dev"
    config = RunConfig(
        hparams_set=hparams_set,
        hparams=hparams,
        problem=values["problem"],
        data_dir=os.path.abspath(os.path.expanduser(values["data_dir"])),
        version=__version__,
        random_seed=values["random_seed"],
        xla_compile=values["xla_compile"],
        t2t_usr_dir=usr_dir,
        options=flags_to_persist(args, values),
    )
    both = trains and evaluates
    of_plan = [name for name in flags_of(Plan) if both or trains and not name.startswith("eval_")]
    plan_flags = PlanFlags(plan=values["plan"], yes=values["yes"]) if trains else None
    if plan_flags and is_quickstart(args) and not plan_flags.plan:
        plan_flags = None  # it is short
    # The devices that train are not those that evaluate.
    devices = values["worker_gpu"]
    if schedule == "evaluate" and not args["worker_gpu"].present:
        devices = None
    job = None
    if values["generate_data"]:
        from t2t_repro.data.job import Job

        job = Job(problem, values["data_dir"], values["tmp_dir"])
    request = TrainRequest(
        run=RunDirectory(values["output_dir"]),
        config=config,
        problem=problem,
        plan=Plan(
            train_steps=hparams.train_steps,
            **{name: values[name] for name in of_plan},
            **(choices(values, split) if both else {}),
        ),
        schedule=schedule,
        eval_steps=values["eval_steps"] if evaluates else 0,
        eval_split=split,
        worker_gpu=devices,
        warm_start_from=values["warm_start_from"],
        warm_start_partial=bool(values["warm_start_from"]) and values["warm_start_partial"],
        command=["t2t-trainer", *sys.argv[1:]],
        named=frozenset(parse_overrides(values["hparams"]))
        | {name for name in ("random_seed",) if args[name].present},
        job=job,
        plan_flags=plan_flags,
        finish=trains and values["finish"],
        make_samples=functools.partial(make_samples, problem=problem, config=config),
        make_bleu=make_bleu(problem, config, values["eval_bleu_sentences"] if evaluates else 0),
        samples_every=SAMPLES_EVERY if both else 0,
        load_user_code=functools.partial(datagen.load_usr_dir, usr_dir) if usr_dir else None,
    )
    flags_here = {*KEPT, "plan", "yes"} - values.read
    cli.warn_unused(args, [name for name in sorted(flags_here) if args[name].value is not False])
    return request


class Values(dict):
    """{flag: value}, which records what was read."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def is_quickstart(args: flags.FlagValues) -> bool:
    """Returns whether the flags ask for the embedded default, or name only its set."""
    own = ("problem", "data_dir", "find_batch_size", "warm_start_from")
    named = any(args[name].value for name in own)
    of_its_set = args.hparams_set in (None, quickstart.HPARAMS_SET)
    before = _run_in(args.output_dir)
    return of_its_set and not named and (not before or before.problem == quickstart.PROBLEM)


def fill(args: flags.FlagValues) -> tuple[Values, RunConfig | None]:
    """Returns {flag: value}, defaults included, and the existing run.

    Raises:
        UserError: if a problem, a set or a folder is missing, or the existing run's problem needs
            --t2t_usr_dir.
    """
    if is_quickstart(args):
        output_dir = args.output_dir or quickstart.OUTPUT_DIR
        known = _EMBEDDED | {"output_dir": output_dir, "data_dir": os.path.join(output_dir, "data")}
        before = _run_in(known["output_dir"])
        if before and before.problem != quickstart.PROBLEM:
            before = None  # it is refused
        elif before:
            del known["hparams_set"]  # the run's hparams may be others
    else:
        known = _of_the_set(args)
        before, made_for = _run_in(args.output_dir or known.get("output_dir")), known.get("problem")
        if before:
            problem_of(before)  # names the --t2t_usr_dir that is missing
            known |= {"problem": before.problem, "data_dir": before.data_dir}
        if made_for and made_for == known["problem"]:
            from t2t_repro.data import tfrecord

            there = args.data_dir or known["data_dir"]
            known["generate_data"] = not tfrecord.are_there(registry.get_problem(made_for), there)
    if before:
        known |= {"random_seed": before.random_seed, "xla_compile": before.xla_compile}
        known |= _kept_flags(args, before)
    given = {name: args[name].value for name in args}
    values = given | {name: v for name, v in known.items() if not args[name].present}
    says_set = before or values["warm_start_from"]
    needed = {name: hint for name, hint in _HINTS.items() if name != "hparams_set" or not says_set}
    cli.check_given(values, needed)
    return Values(values), before


def flags_to_persist(args: flags.FlagValues, values: Mapping[str, Any]) -> dict[str, str]:
    """Returns {flag: text} of the flags that a run keeps: those not at their defaults."""
    kept = {name: values.get(name) for name in KEPT if values.get(name) != args[name].default}
    if path := kept.get("warm_start_from"):
        kept["warm_start_from"] = os.path.abspath(path)
    return {name: str(value) for name, value in kept.items()}


def hparams_of(values: Mapping[str, Any], before: RunConfig | None) -> tuple[str, HParams]:
    """Returns the set's name and the hparams: those of a run, a parent or a set, changed.

    Args:
        values: {flag: value}, of `fill`.
        before: the existing run.

    Raises:
        UserError: on an unknown set or hparam, or one that would have no effect.
    """
    overrides, end = values["hparams"], values["train_steps"]
    if before and not values["hparams_set"]:  # those of the run, which may be of a set of its own
        hparams_set = before.hparams_set
        hparams = trainable.resumed(before.hparams.override(overrides), before.hparams)
    elif values["warm_start_from"] and not values["hparams_set"]:
        hparams_set, hparams = fine_tuning.proposed(values["warm_start_from"], overrides, end)
    else:
        hparams_set = values["hparams_set"]
        hparams = registry.get_hparams(hparams_set, overrides, values["model"])
        hparams = trainable.resumed(hparams, before.hparams) if before else hparams
    changes = {"train_steps": end, "model": values["model"]}
    given = {name: value for name, value in changes.items() if value is not None}
    return hparams_set, dataclasses.replace(hparams, **given)


def _kept_flags(args: flags.FlagValues, before: RunConfig) -> dict[str, Any]:
    """Returns {flag: value} of the flags that a run keeps."""
    options = (before.options or {}).items()
    found = {name: args[name].parser.parse(text) for name, text in options if name in KEPT}
    if args["local_eval_frequency"].present:  # which counts where no seconds are named
        found.pop("save_checkpoints_secs", None)
    return found


def _of_the_set(args: flags.FlagValues) -> dict[str, Any]:
    """Returns the flags of a set alone: its problem, and the default folders."""
    if args.problem or not args.hparams_set:
        return {}
    problem = registry.problem_of_hparams(args.hparams_set)
    if not problem:
        return {}
    output_dir = os.path.join(RUNS_DIR, args.hparams_set)
    return {"problem": problem, "data_dir": DATA_DIR, "output_dir": output_dir}


def _run_in(output_dir: str | None) -> RunConfig | None:
    """Returns the run's configuration, if there is a run."""
    run = RunDirectory(output_dir) if output_dir else None
    return run.config if run and run.exists() else None


def choices(values: Mapping[str, Any], split: str) -> dict[str, Any]:
    """Returns the fields of `Plan` for the flags of best checkpoints and early stopping."""
    from t2t_repro.training.best import EarlyStopping, KeepBest

    found: dict[str, Any] = {}
    if count := values["keep_best"]:
        found["keep_best"] = KeepBest(count=count, metric=values["best_metric"])
    if values["eval_early_stopping_steps"]:
        names = ("steps", "metric", "metric_delta")
        stopping = {name: values[f"eval_early_stopping_{name}"] for name in names}
        found["early_stopping"] = EarlyStopping(**stopping, split=split)
    return found


def finish(request: TrainRequest) -> None:
    """Tunes a trained run, as t2t-avg-all --tune does by default."""
    from t2t_repro.decoding import tune
    from t2t_repro.provenance import write_of_run
    from t2t_repro.training import devices

    out, data_dir = RunDirectory(request.run.path / "finished"), request.config.data_dir
    run = trained_run(request.run.path, data_dir).on(devices.here(request.worker_gpu))
    tune.tune(run, out, tune.TuneRequest())
    write_of_run(out.path, "t2t-avg-all", request.run.path, data_dir=data_dir)


def generate(job: "Job", usr_dir: str | None) -> None:
    """Makes the missing files, as t2t-datagen does, on all cores."""
    datagen.make_data(job, datagen.this_machine(usr_dir), None)


def make_samples(
    model: "keras.Model", split: str, *, problem: Problem, config: RunConfig
) -> "Samples":
    """Returns the writer of a run's samples for TensorBoard; see `views/samples.py`."""
    from t2t_repro.views import samples

    return samples.make(model, problem, config, split)


def make_bleu(
    problem: Problem, config: RunConfig, sentences: int
) -> "Callable[[keras.Model, str], DevBleu] | None":
    """Returns the function that makes a `DevBleu` from a model and a split; None: no sentences.

    Raises:
        UserError: if the problem has no text to decode.
    """
    if not sentences:
        return None
    check_text(problem, "--eval_bleu_sentences")

    def make(model: "keras.Model", split: str) -> "DevBleu":
        from t2t_repro.decoding.dev_bleu import DevBleu, DevSample

        return DevBleu(model, DevSample(problem, config.data_dir, split, sentences))

    return make


def registry_help() -> str:
    """Returns the names of all problems, hparam sets and models."""
    problems, sets = registry.list_problems(), registry.list_hparams()
    models = registry.list_models()
    lines = [f"Problems ({len(problems)}; NAME_rev swaps inputs and targets):"]
    lines += [f"  {name}" for name in problems]
    lines += ["", f"Hparam sets ({len(sets)}):", *(f"  {name}" for name in sets)]
    lines += ["", f"Models ({len(models)}):", *(f"  {name}" for name in models)]
    return "\n".join(lines)


console = cli.program(
    __name__,
    "t2t-trainer",
    __doc__,
    (cli.RunFlags, cli.TaskFlags, TrainFlags, Plan, PlanFlags),
    main,
)
