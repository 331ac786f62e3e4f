"""One run as a whole: its model, its data, and tensor2tensor's schedules over them."""

import contextlib
import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable
from typing import Any

import keras

from t2t_repro import progress
from t2t_repro.data.batching import MOST_SHAPES
from t2t_repro.errors import UserError
from t2t_repro.models.build import model_for
from t2t_repro.problem import Problem, Split
from t2t_repro.run_directory import RunConfig
from t2t_repro.training import (
    checkpoints,
    devices,
    effective_batch,
    model_state,
    optimizers,
    plan,
    training_data,
    warm_start,
)
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.evaluation import Evaluator, evaluation_data, evaluation_sample
from t2t_repro.training.events import EventWriter, make_writer
from t2t_repro.training.log import SilentLog, TrainingLog, make_log
from t2t_repro.training.plan import TrainingPlan
from t2t_repro.training.request import DecodedBleu, TrainRequest
from t2t_repro.training.state import DECODED_BLEU, DECODED_OF
from t2t_repro.training.summaries import Summaries
from t2t_repro.training.trainer import Trainer
from t2t_repro.training.warm_start import WarmStart


def run(request: TrainRequest) -> dict[str, Any]:
    """Does what is asked on the devices that are asked for; returns the last evaluation.

    It must come before anything else of TensorFlow or JAX.

    Raises:
        UserError: as `Experiment`, `devices.choose` and `plan.look_ahead`.
    """
    evaluates = request.schedule == "evaluate"
    where = (devices.here if evaluates else devices.choose)(request.worker_gpu)
    for warning in devices.warnings(where, request.worker_gpu):
        progress.on_stderr(f"Warning: {warning}")
    found, asked = None, request
    request = request if evaluates else effective_batch.choose(asked, where.replicas)
    if request.foresight and not evaluates:
        found = plan.look_ahead(request, where)
        if request.foresight.plan:
            return {}
    elif not evaluates and where.cluster.is_chief:
        print(f"Training on {devices.names(where)}.", flush=True)
    if request.generate:
        if where.cluster.size > 1:
            raise UserError(
                "Expected the data to be there before several workers train on them. Received: "
                "--generate_data. Make them by t2t-datagen, once for a folder that all share, else "
                "on every host."
            )
        request.generate()
        if not evaluates:  # of data that were not there before
            request = effective_batch.choose(asked, where.replicas)
            if found:
                data, machine = found.data, found.machine
                found = dataclasses.replace(plan.make(request, machine), data=data)
    return Experiment(request, where, found).run()


class Experiment:
    """A request on its devices. Its schedules have T2T's names (trainer_lib.T2TExperiment).

    Args:
        request: what to do.
        where: the devices to compute on. Of several workers the chief alone writes and evaluates.
        found: what a new run will take, which is written into it; None: nothing is.
    """

    def __init__(
        self, request: TrainRequest, where: Devices = ONE, found: TrainingPlan | None = None
    ):
        self._request, self._devices, self._plan = request, where, found
        self._config, self._problem = request.config, request.problem
        self._results: dict[str, float] = {}  # of the last evaluation

    def run(self) -> dict[str, Any]:
        """Runs the schedule of the request; returns the last evaluation, {} if there was none."""
        return getattr(self, self._request.schedule)()

    def continuous_train_and_eval(self) -> dict[str, float]:
        """Trains, and evaluates each checkpoint; returns the last evaluation."""
        return self._train(with_evaluation=True)

    train_and_evaluate = continuous_train_and_eval

    def train(self) -> dict[str, float]:
        """Trains and saves checkpoints, without evaluation; returns {}."""
        return self._train(with_evaluation=False)

    def evaluate(self) -> dict[str, float]:
        """Evaluates the newest checkpoint of the run; returns what it found."""
        request = self._request
        with self._devices.scope():
            model = build_model(self._config, self._problem)
        state = model_state.load_weights(model, request.run.path)
        log = make_log(request.run, request.plan, make_writer(request.run))
        evaluator = Evaluator(model, self._problem.eval_metrics())
        return self._evaluate(evaluator, self._bleu(model, log), log, state.step, again=True)

    def _train(self, with_evaluation: bool) -> dict[str, float]:
        request, where, is_chief = self._request, self._devices, self._devices.cluster.is_chief
        run, config, steps = request.run, self._config, request.plan.train_steps
        with where.scope():
            model = build_model(config, self._problem)
            model.optimizer.build(model.trainable_variables)
        log: TrainingLog = SilentLog(run, steps, steps)
        writer = make_writer(run) if is_chief else None
        if is_chief:
            log = make_log(run, request.plan, writer)
        self._check(with_evaluation)
        taken = self._warm_start(model, log) if is_chief else None
        if config.hparams.freeze:
            log.say(_what_is_trained(model))
        evaluator = Evaluator(model, self._problem.eval_metrics())
        summaries = self._summaries(model, evaluator, writer, with_evaluation)
        bleu = self._bleu(model, log) if with_evaluation and is_chief else None
        evaluate = functools.partial(self._evaluate, evaluator, bleu, log)
        sample = self._sample(bleu) if with_evaluation else ""
        with run.locked() if is_chief else contextlib.nullcontext():
            self._begin(log, writer)
            if taken:
                taken.write(run)
            Trainer(
                model,
                self._training_data,
                run,
                request.plan,
                log=log,
                evaluate=evaluate if with_evaluation and is_chief else None,
                split=request.eval_split,
                sample=sample,
                encoders=self._problem.feature_encoders(self._config.data_dir),
                devices=where,
                summaries=summaries,
            ).train()
            if with_evaluation and not self._results and is_chief:
                evaluate(model_state.load_weights(model, run.path).step)
            where.all_reduce([0])  # the others wait for the chief's last evaluation
        return self._results

    def _check(self, with_evaluation: bool) -> None:
        """Raises a UserError for what would stop the run later, before its directory is made."""
        self._training_data(0, most_shapes=0)
        if with_evaluation:
            _ = self._dev

    @functools.cached_property
    def _dev(self):
        """What is evaluated: opened once, so that files made anew meanwhile change nothing."""
        request = self._request
        return evaluation_data(self._problem, request.eval_split, self._config, request.eval_steps)

    @functools.cached_property
    def _dev_sample(self) -> str:
        request = self._request
        return evaluation_sample(
            self._problem, request.eval_split, self._config, request.eval_steps
        )

    def _training_data(self, start: int, most_shapes: int = MOST_SHAPES):
        """Returns the endless batches of this worker without the first `start`."""
        from t2t_repro.data.pipeline import make_dataset

        if not self._config.xla_compile and keras.backend.backend() == "tensorflow":
            most_shapes = 0  # a step is compiled once, for all
        return make_dataset(
            self._problem,
            Split.TRAIN,
            self._config.hparams,
            self._config.data_dir,
            training=True,
            seed=self._config.random_seed,
            num_shards=self._devices.cluster.size,
            shard_index=self._devices.cluster.index,
            replicas=self._devices.local,
            start=start,
            most_shapes=most_shapes,
        )

    def _warm_start(self, model: keras.Model, log: TrainingLog) -> WarmStart | None:
        """Begins a run that has no checkpoint yet with the weights of another, if one is named.

        Returns:
            What was taken; None: nothing.

        Raises:
            UserError: as `warm_start.begin`.
        """
        request = self._request
        if not request.warm_start_from or checkpoints.latest(request.run.checkpoints_dir):
            return None
        where = self._problem, self._config.data_dir
        source, partial = request.warm_start_from, request.warm_start_partial
        taken = warm_start.begin(model, *where, source, partial)
        for line in taken.lines():
            log.say(line)
        return taken

    def _vocabularies(self) -> list[str]:
        return [
            os.path.join(self._config.data_dir, n)
            for n in self._problem.vocab_files(self._config.data_dir)
        ]

    def _begin(self, log: TrainingLog, writer: EventWriter | None) -> None:
        """Begins the run directory, once all workers have said that they are about the same."""
        run, cluster = self._request.run, self._devices.cluster
        data = self._describe_data()
        self._devices.check_alike(self._settings(data))
        if not cluster.is_chief:
            return
        replicas = self._devices.replicas
        training_data.check_same(run, data, replicas, log.say)
        run.begin(self._config, self._request.command, self._vocabularies())
        if self._plan:
            plan.write(run, self._plan)
        log.say(training_data.described(data, self._config.hparams, replicas))
        training_data.write(run, data, replicas, self._request.plan.train_steps)
        if writer:
            decoded = [DECODED_BLEU] if self._request.make_bleu else []
            names = ("loss", *self._problem.eval_metrics(), *decoded)
            metrics = [("train", "loss"), *(("eval", name) for name in names)]
            writer.hparams(run.path.name, self._config.hparams, metrics)

    def _settings(self, data) -> dict[str, Any]:
        """Returns what must be the same on all workers."""
        config, times = self._config, self._request.plan
        return {
            "hparams": config.hparams.to_json(),
            "problem": config.problem,
            "random_seed": config.random_seed,
            "worker_gpu": self._devices.local,
            "log_step_count_steps": times.log_step_count_steps,  # all then sum up the norms
            "local_eval_frequency": times.local_eval_frequency,
            "save_checkpoints_secs": times.save_checkpoints_secs,
            "max_nonfinite_steps": times.max_nonfinite_steps,
            "eval_early_stopping": times.early_stopping,
            "data": data,
        }

    def _describe_data(self):
        """Returns the SplitStatistics of the training data in batches for all devices."""
        from t2t_repro.data.pipeline import describe

        config, replicas = self._config, self._devices.replicas
        where = (config.hparams, config.data_dir)
        return describe(self._problem, Split.TRAIN, *where, training=True, replicas=replicas)

    def _summaries(
        self,
        model: keras.Model,
        evaluator: Evaluator,
        writer: EventWriter | None,
        with_evaluation: bool,
    ) -> Summaries:
        request = self._request
        samples = None
        decodes = hasattr(model, "decode_step")  # a model of the user's need not
        wanted = request.samples_every and writer and with_evaluation
        if request.make_samples and wanted and decodes:
            samples = request.make_samples(model, request.eval_split)
        return Summaries(
            model,
            request.plan.log_step_count_steps,
            request.plan.train_steps,
            writer=writer,
            evaluator=evaluator if writer else None,
            samples=samples,
            samples_every=request.samples_every,
        )

    def _bleu(self, model: keras.Model, log: TrainingLog) -> DecodedBleu | None:
        """Returns what decodes at each evaluation, and says how its score is computed."""
        request = self._request
        if request.make_bleu is None:
            return None
        bleu = request.make_bleu(model, request.eval_split)
        log.say(f"{DECODED_BLEU} is sacreBLEU of {bleu.sample}: {bleu.signature}")
        return bleu

    def _sample(self, bleu: DecodedBleu | None) -> str:
        """Returns in words what is evaluated of the split, and what is decoded."""
        return f"{self._dev_sample}{DECODED_OF}{bleu.sample}" if bleu else self._dev_sample

    def _evaluate(
        self,
        evaluator: Evaluator,
        bleu: DecodedBleu | None,
        log: TrainingLog,
        step: int,
        wait: Callable[[], None] = lambda: None,
        again: bool = False,
    ) -> dict[str, float]:
        """Evaluates the model as it is at a step, waits, and reports.

        What metrics.jsonl has already is not evaluated unless `again`, and never written twice.
        """
        split, sample, started = self._request.eval_split, self._sample(bleu), time.monotonic()
        said = {"signature": bleu.signature} if bleu else {}
        known = log.recorded(step, split, sample)
        self._results = known
        if again or not known:
            self._results = evaluator.evaluate(self._dev)
            if bleu:
                self._results[DECODED_BLEU] = bleu.score()
        seconds = time.monotonic() - started
        wait()
        is_new = str(self._results) != str(known)  # as text nan is nan
        log.evaluation(step, self._results, split, seconds, sample=sample, record=is_new, **said)
        return self._results


def _what_is_trained(model: keras.Model) -> str:
    """Returns how many parameters a model trains, and which are frozen, in words."""
    trained = sum(math.prod(variable.shape) for variable in model.trainable_weights)
    frozen = sum(math.prod(variable.shape) for variable in model.weights) - trained
    parts = " and ".join(model.hparams.frozen)
    return f"{trained:,} parameters are trained, {frozen:,} are frozen: {parts}."


def build_model(config: RunConfig, problem: Problem) -> keras.Model:
    """Returns a run's Transformer, compiled with its optimizer; the seed decides the weights."""
    keras.utils.set_random_seed(config.random_seed)
    model = model_for(problem, config.hparams, config.data_dir)
    optimizer = optimizers.from_hparams(config.hparams)
    model.compile(optimizer=optimizer, jit_compile=devices.compiles(config.xla_compile))
    return model
