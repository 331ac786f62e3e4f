"""t2t-trainer: trains and evaluates a model, mostly a Transformer, under tensor2tensor's flags.

  t2t-trainer

alone trains a small model on data that it makes itself, in about two minutes on two cores, and
shows what it has learned. With --hparams_set alone it trains that set on the problem that it was
made for, such as transformer_big on translate_ende_wmt14, with its data in t2t_data and the run in
t2t_runs/SET. Your own training needs a problem, a configuration and two folders:

  t2t-trainer --problem=translate_ende_multi30k --hparams_set=transformer_multi30k \\
      --generate_data --tmp_dir=RAW_FILES --data_dir=t2t_data --output_dir=t2t_runs/multi30k

or two files of sentences, with data and configuration as they suit (t2t-own-text does more):

  t2t-trainer --train_source=train.en --train_target=train.de --output_dir=run

--registry_help lists problems and configurations. The same command continues a run that stopped,
from its newest checkpoint, as if it had not stopped; --output_dir alone is enough to say which.
SIGTERM and Ctrl-C save a checkpoint first (exit code 143 and 130); a second one leaves at once.
"""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from absl import flags

from t2t_repro import __version__, cli, fields, process, progress, registry
from t2t_repro.bin import asked_hparams, defaults, quickstart
from t2t_repro.bin.data_flags import (
    check_needs,
    define_check_flags,
    define_raw_file_flags,
    define_vocabulary_flags,
    job_of,
)
from t2t_repro.errors import UserError
from t2t_repro.fields import flags_of
from t2t_repro.problem import Problem, check_text
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import trained_run
from t2t_repro.training import cluster
from t2t_repro.training.request import (
    Foresight,
    Plan,
    TrainRequest,
)

if TYPE_CHECKING:
    import keras

    from t2t_repro.data.job import Job
    from t2t_repro.training.best import KeepBest
    from t2t_repro.training.early_stopping import EarlyStopping
    from t2t_repro.training.request import DecodedBleu
    from t2t_repro.training.summaries import Samples


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-trainer's flags, as T2T's bin/t2t_trainer.py and utils/flags.py."""
    cli.define_run_flags(f)
    cli.define_task_flags(f)
    text = "The folder of raw files, as t2t-datagen's."
    flags.DEFINE_string("tmp_dir", "/tmp/t2t_datagen", text, flag_values=f)
    text = "The model's name (--registry_help); default: that of the run, or of the set."
    flags.DEFINE_string("model", None, text, flag_values=f)
    define_raw_file_flags(f)
    define_vocabulary_flags(f)
    define_check_flags(f)
    cli.define_request_flags(f, Plan)
    cli.define_request_flags(f, Foresight)

    def whole(
        name: str, default: int | None, text: str, least: int = 0, most: int = fields.INT64
    ) -> None:
        flags.DEFINE_integer(name, default, text, least, most, flag_values=f)

    def boolean(name: str, text: str) -> None:
        flags.DEFINE_bool(name, False, text, flag_values=f)

    boolean("registry_help", "List problems, hparam sets and models, and stop.")
    boolean("generate_data", "Make the problem's files first.")
    text = "continuous_train_and_eval, train_and_evaluate (the same), train or evaluate."
    flags.DEFINE_string("schedule", "continuous_train_and_eval", text, flag_values=f)
    text = (
        "The step (with effective_batch_size the update) at which the run ends; default: its set's."
    )
    whole("train_steps", None, text, 1)
    text = "At most this many batches an evaluation, spread over all lengths; 0: the whole split."
    whole("eval_steps", 100, text)
    text = "Keep this many of the best checkpoints, in the folder best of the run; 0: none."
    whole("keep_best", 0, text)
    text = "What --keep_best goes by: loss, or another metric of the evaluation."
    flags.DEFINE_string("best_metric", "loss", text, flag_values=f)
    text = "Stop when the metric has not got better for this many steps; 0: never."
    whole("eval_early_stopping_steps", None, text)
    text = "That metric: loss, or another of the evaluation."
    flags.DEFINE_string("eval_early_stopping_metric", "loss", text, flag_values=f)
    text = "A gain of less than this is none; 0: any gain counts (T2T's default is 0.1)."
    name = "eval_early_stopping_metric_delta"
    flags.DEFINE_float(name, 0, text, lower_bound=0, flag_values=f)
    text = "T2T's: that less is better; taken where it says what is so of the metric."
    flags.DEFINE_bool("eval_early_stopping_metric_minimize", None, text, flag_values=f)
    boolean("eval_use_test_set", "Evaluate the test split instead of dev.")
    text = (
        "For TensorBoard: decode sentences of dev, and draw their attention, every this many "
        "steps; 0: never."
    )
    whole("samples_every", 5000, text)
    text = (
        "At each evaluation decode this many sentences, spread over the split, greedily: the "
        "metric bleu, also for --best_metric and --eval_early_stopping_metric; 0: none."
    )
    whole("eval_bleu_sentences", 0, text)
    text = "Of the weights, the dropout and the order of the data."
    flags.DEFINE_integer("random_seed", 0, text, 0, 2**32 - 1, flag_values=f)
    text = "On how many GPUs to train; default: all, or one CPU. batch_size is that of each."
    whole("worker_gpu", None, text, 1)
    text = "Let XLA compile TensorFlow's steps on a GPU, each shape of a batch anew."
    boolean("xla_compile", text)
    text = "TensorFlow's threads among operations; 0: its own."
    whole("inter_op_parallelism_threads", 0, text, 0, 2**15)
    text = "TensorFlow's threads in an operation; 0: its own."
    whole("intra_op_parallelism_threads", 0, text, 0, 2**15)
    text = "A run or checkpoint whose weights a new run begins with."
    flags.DEFINE_string("warm_start_from", None, text, flag_values=f)
    text = "Take what fits of it, of another depth, problem or vocabulary too, and say what it is."
    boolean("warm_start_partial", text)
    text = "Leave these as they are: some of embeddings, encoder, decoder (hparam freeze)."
    flags.DEFINE_string("freeze", None, text, flag_values=f)
    text = "At the end choose weights, beams and alpha on dev (t2t-avg-all --tune): RUN/finished."
    boolean("finish", text)
    text = "At the end write provenance.json, for which it translates 20 sentences of dev."
    flags.DEFINE_bool("certify", True, text, flag_values=f)
    boolean("find_batch_size", "Halve batch_size until steps of it fit into memory, and stop.")
    text = "With --find_batch_size: how much memory there is, in MB; 0: what is free."
    whole("memory_limit_mb", 0, text)


def main(args: flags.FlagValues) -> None:
    """Does what the flags say; SIGTERM and SIGINT end it in order."""
    with process.handle_signals():
        if args.registry_help:
            print(registry_help())
            return
        request = request_of(args)
        if args.find_batch_size:
            from t2t_repro.training import batch_size

            if request.generate:
                request.generate()
            batch_size.find(request, args.memory_limit_mb)
            return
        if request.finish:
            check_finish(request)
        request.check()
        plans = request.foresight is not None and request.foresight.plan
        check_tables(request)
        from t2t_repro.provenance import write_of_run
        from t2t_repro.training import experiment

        train = functools.partial(experiment.run, request)
        if defaults.is_quickstart(args) and not plans:
            quickstart.run(request.run, train)
        else:
            train()
        if request.certify and not plans and not os.environ.get(cluster.VARIABLE):
            write_of_run(request.run.path, "t2t-trainer", data_dir=request.config.data_dir)
        if request.finish and not plans:
            finish(request)


class _Values(dict):
    """{flag: value}, which knows what was read of it."""

    def __init__(self, values: Mapping[str, Any]):
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def request_of(args: flags.FlagValues) -> TrainRequest:
    """Returns what the flags ask for; what they leave out is as `defaults` knows it.

    Flags that were given and that nothing reads beside the others are named in a warning.

    Raises:
        UserError: if they lack something or contradict each other.
    """
    check_needs(args)
    if args.warm_start_from == "":  # it would begin with random weights
        raise UserError("Expected --warm_start_from to name a run. Received: nothing.")
    before, known = defaults.run_before(args), defaults.known(args)
    given = {name: args[name].value for name in args}
    # What fits the user's text changes beside what --hparams does.
    given |= {n: value for n, value in known.items() if n == "hparams" or not args[n].present}
    values = _Values(given)
    defaults.check_complete(values, before)
    hparams_set, hparams = asked_hparams.of(values, before)
    problem = registry.get_problem(values["problem"])
    schedule, finds = values["schedule"], values["find_batch_size"]
    trains, evaluates = schedule != "evaluate" and not finds, schedule != "train" and not finds
    split = "test" if evaluates and values["eval_use_test_set"] else "dev"
    job = job_of(args, values, problem)
    usr_dir = args.t2t_usr_dir and os.path.abspath(os.path.expanduser(args.t2t_usr_dir))
    config = RunConfig(
        hparams_set=hparams_set,
        hparams=hparams,
        problem=values["problem"],
        data_dir=os.path.abspath(os.path.expanduser(values["data_dir"])),
        version=__version__,
        random_seed=values["random_seed"],
        xla_compile=values["xla_compile"],
        t2t_usr_dir=usr_dir,
        options=defaults.flags_to_persist(args, values),
    )
    both = trains and evaluates
    of_plan = [name for name in flags_of(Plan) if both or trains and not name.startswith("eval_")]
    foresight = Foresight(plan=values["plan"], yes=values["yes"]) if trains else None
    if foresight and defaults.is_quickstart(args) and not foresight.plan:
        foresight = None  # it is short
    # The devices that train are not those that evaluate.
    devices = values["worker_gpu"]
    if schedule == "evaluate" and not args["worker_gpu"].present:
        devices = None
    sentences = values["eval_bleu_sentences"] if evaluates else 0
    request = TrainRequest(
        run=RunDirectory(values["output_dir"]),
        config=config,
        problem=problem,
        plan=Plan(
            train_steps=hparams.train_steps,
            keep_best=keep_best(values) if both else None,
            early_stopping=early_stopping(values, split) if both else None,
            **{name: values[name] for name in of_plan},
        ),
        schedule=schedule,
        eval_steps=values["eval_steps"] if evaluates else 0,
        eval_split=split,
        worker_gpu=devices,
        threads=tuple(values[f"{kind}_op_parallelism_threads"] for kind in ("inter", "intra")),
        warm_start_from=values["warm_start_from"],
        warm_start_partial=bool(values["warm_start_from"]) and values["warm_start_partial"],
        command=["t2t-trainer", *sys.argv[1:]],
        generate=functools.partial(generate, job, usr_dir, args.vocab_from) if job else None,
        job=job,
        foresight=foresight,
        finish=trains and values["finish"],
        certify=trains and values["certify"],
        make_samples=functools.partial(make_samples, problem=problem, config=config),
        make_bleu=make_bleu(problem, config, sentences),
        samples_every=values["samples_every"] if both else 0,
        load_user_code=functools.partial(load_user_code, usr_dir) if usr_dir else None,
    )
    said = (name for name in (*defaults.KEPT, "plan", "yes") if args[name].present)
    unread = [f"--{n}" for n in said if n not in values.read and args[n].value is not False]
    if unread:
        progress.on_stderr(f"Warning: beside the other flags {', '.join(unread)} had no effect.")
    return request


def keep_best(values: Mapping[str, Any]) -> "KeepBest | None":
    """Returns which checkpoints the flags say to keep beside the newest; None: none."""
    if not values["keep_best"]:
        return None
    from t2t_repro.training.best import KeepBest

    return KeepBest(count=values["keep_best"], metric=values["best_metric"])


def early_stopping(values: Mapping[str, Any], split: str) -> "EarlyStopping | None":
    """Returns the early stopping that the flags describe; None: none."""
    stopping = "eval_early_stopping_"
    if not values[f"{stopping}steps"]:
        return None
    from t2t_repro.training.early_stopping import EarlyStopping

    names = ("steps", "metric", "metric_delta", "metric_minimize")
    return EarlyStopping(**{name: values[stopping + name] for name in names}, split=split)


def check_tables(request: TrainRequest) -> None:
    """Refuses one table for two vocabularies, where these are there already."""
    from t2t_repro.models import sharing

    if not request.generate:
        sharing.check(request.config.hparams, request.problem, request.config.data_dir)


def check_finish(request: TrainRequest) -> None:
    """Refuses --finish by several processes, or where there is no text."""
    check_text(request.problem, "--finish")
    if os.environ.get(cluster.VARIABLE):
        raise UserError(
            f"Expected one process with --finish. Received: {cluster.VARIABLE}. Leave it out, and "
            "tune the run by t2t-avg-all --tune when it has ended."
        )


def finish(request: TrainRequest) -> None:
    """Finishes a run that was trained, with what t2t-avg-all --tune tries by default."""
    from t2t_repro.decoding import tune
    from t2t_repro.provenance import write_of_run
    from t2t_repro.training import devices

    out, data_dir = RunDirectory(request.run.path / "finished"), request.config.data_dir
    run = trained_run(request.run.path, data_dir).on(devices.here(request.worker_gpu))
    tune.tune(run, out, tune.TuneRequest())
    if request.certify:
        write_of_run(out.path, "t2t-avg-all", request.run.path, data_dir=data_dir)


def generate(job: "Job", usr_dir: str | None, vocab_from: str | None) -> None:
    """Makes the files that are not there yet, as t2t-datagen does, on all cores."""
    from t2t_repro.bin import datagen
    from t2t_repro.data import tfrecord

    # Where they are there, it was said when they were made.
    there = tfrecord.are_there(job.problem.forward(), os.path.expanduser(job.data_dir))
    datagen.run(job, datagen.this_machine(usr_dir), None if there else vocab_from)


def load_user_code(usr_dir: str) -> None:
    """Loads the user's package in another process."""
    from t2t_repro.bin import datagen

    datagen.load_usr_dir(usr_dir)


def make_samples(
    model: "keras.Model", split: str, *, problem: Problem, config: RunConfig
) -> "Samples":
    """Returns what writes samples of a run for TensorBoard; see `views/samples.py`."""
    from t2t_repro.views import samples

    return samples.make(model, problem, config, split)


def make_bleu(
    problem: Problem, config: RunConfig, sentences: int
) -> "Callable[[keras.Model, str], DecodedBleu] | None":
    """Returns what makes, of a model and a split, the BLEU of that many; None: of none.

    Raises:
        UserError: if the problem has no text to decode.
    """
    if not sentences:
        return None
    check_text(problem, "--eval_bleu_sentences")

    def make(model: "keras.Model", split: str) -> "DecodedBleu":
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


console = cli.program(__name__, "t2t-trainer", __doc__, define_flags, main)
