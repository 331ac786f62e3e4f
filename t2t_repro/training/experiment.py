"""One run as a whole: its model, its data, and tensor2tensor's schedules over them."""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import keras

from t2t_repro.errors import UserError, unknown
from t2t_repro.files import write_text_atomic
from t2t_repro.models.build import transformer_for
from t2t_repro.problem import Problem, Split
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import batch_size, checkpoints, distribution, guards, optimizers
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.loop import Plan, make_progress, make_writer, train
from t2t_repro.training.progress import NoProgress, Progress
from t2t_repro.training.summaries import Samples, Summaries


@dataclasses.dataclass(frozen=True, kw_only=True)
class Experiment:
    """What to run. Its methods that are schedules have T2T's names (trainer_lib.T2TExperiment).

    Attributes:
        run: where it is written.
        config: the hparams, the problem's name, the data and the seed.
        problem: the problem itself.
        plan: how long, and when to save and evaluate.
        eval_steps: at most this many batches an evaluation; 0: all.
        eval_split: "dev" or "test".
        devices: where to train. Of several workers the chief alone writes and evaluates.
        warm_start_from: a run or checkpoint whose weights a new run begins with; None: none.
        command: the command line, kept in the run directory.
        make_samples: makes, of the model and the split, what writes samples for TensorBoard, in
            schedules that evaluate; None: there are none.
        samples_every: at the steps that are multiples of this; 0: never.
    """

    run: RunDirectory
    config: RunConfig
    problem: Problem
    plan: Plan
    eval_steps: int = 100
    eval_split: str = Split.EVAL
    devices: Devices = ONE
    warm_start_from: str | None = None
    command: Sequence[str] = ()
    make_samples: Callable[[keras.Model, str], Samples] | None = None
    samples_every: int = 0

    def continuous_train_and_eval(self) -> dict[str, float]:
        """Trains, and evaluates each checkpoint; returns the last evaluation."""
        return self._train(with_evaluation=True)

    train_and_evaluate = continuous_train_and_eval

    def train(self) -> dict[str, float]:
        """Trains and saves checkpoints, without evaluation."""
        return self._train(with_evaluation=False)

    def evaluate(self) -> dict[str, float]:
        """Evaluates the newest checkpoint of the run."""
        model = build_model(self.config, self.problem)
        state = checkpoints.load_weights(model, self.run.path)
        progress = make_progress(self.run, self.plan, make_writer(self.run))
        return self._evaluation(self._evaluator(model), progress)(state.step)

    def try_batch_size(self) -> dict[str, Any]:
        """Makes two steps on the largest batches that the hparams allow, on one device.

        Prints what they took, for `batch_size.run_trial`, and returns it.
        """
        from t2t_repro.data.pipeline import describe

        hparams, folder = self.config.hparams, self.config.data_dir
        data = describe(self.problem, Split.TRAIN, hparams, folder, training=True)
        model = build_model(self.config, self.problem)
        step = distribution.step_function(model)
        multiplier = self.problem.batch_size_multiplier
        seconds = 0.0
        for batch in 2 * batch_size.largest_batches(hparams, data.longest, multiplier):
            started = time.monotonic()
            with guards.naming_the_batch("a step", batch):
                step(batch)
            seconds = time.monotonic() - started
        return batch_size.report(seconds)

    def _train(self, with_evaluation: bool) -> dict[str, float]:
        from t2t_repro.data.pipeline import make_dataset

        files = [os.path.join(self.config.data_dir, n) for n in self.problem.vocab_filenames]
        cluster = self.devices.cluster
        with self.devices.scope():
            model = build_model(self.config, self.problem)
            model.optimizer.build(model.trainable_variables)
        progress: Progress = NoProgress(self.run, self.plan.train_steps, self.plan.train_steps)
        writer = make_writer(self.run) if cluster.is_chief else None
        if cluster.is_chief:
            progress = make_progress(self.run, self.plan, writer)

        def data(start: int):
            return make_dataset(
                self.problem,
                Split.TRAIN,
                self.config.hparams,
                self.config.data_dir,
                training=True,
                seed=self.config.random_seed,
                num_shards=cluster.size,
                shard_index=cluster.index,
                replicas=self.devices.local,
                start=start,
            )

        # Missing files and an empty filter are found before the run directory is made.
        data(0)
        self._check_what_evaluations_decide(with_evaluation)
        if with_evaluation:
            evaluation_data(self.problem, self.eval_split, self.config)
        if self.warm_start_from and cluster.is_chief:
            self._warm_start(model, self.warm_start_from, files, progress)
        evaluator = self._evaluator(model)
        evaluation = self._evaluation(evaluator, progress)
        samples = None
        if self.make_samples and writer and with_evaluation and self.samples_every:
            samples = self.make_samples(model, self.eval_split)
        summaries = Summaries(
            model,
            self.plan.log_step_count_steps,
            self.plan.train_steps,
            writer=writer,
            evaluator=evaluator if writer else None,
            samples=samples,
            samples_every=self.samples_every,
        )
        results: dict[str, float] = {}

        def evaluate(step: int, wait: Callable[[], None] = lambda: None) -> dict[str, float]:
            results.clear()
            results.update(evaluation(step, wait))
            return results

        with self.run.locked() if cluster.is_chief else contextlib.nullcontext():
            self.devices.check_alike(self._settings())
            if cluster.is_chief:
                self.run.begin(self.config, self.command, files)
                self._say_what_the_data_are(progress)
            if writer:
                names = ("loss", *self.problem.eval_metrics())
                metrics = [("train", "loss"), *(("eval", name) for name in names)]
                writer.hparams(self.run.path.name, self.config.hparams, metrics)
            train(
                model,
                data,
                self.run,
                self.plan,
                progress=progress,
                evaluate=evaluate if with_evaluation and cluster.is_chief else None,
                encoders=self.problem.feature_encoders(self.config.data_dir),
                devices=self.devices,
                summaries=summaries,
            )
            if with_evaluation and not results and cluster.is_chief:
                evaluate(checkpoints.load_weights(model, self.run.path).step)
            self.devices.totals([0])  # the others wait for the chief's last evaluation
        return results

    def _settings(self) -> dict[str, Any]:
        """Returns what must be the same on all workers."""
        from t2t_repro.data.pipeline import describe

        config, plan = self.config, self.plan
        data = describe(self.problem, Split.TRAIN, config.hparams, config.data_dir, training=True)
        return {
            "hparams": config.hparams.to_json(),
            "problem": config.problem,
            "random_seed": config.random_seed,
            "worker_gpu": self.devices.local,
            "local_eval_frequency": plan.local_eval_frequency,
            "save_checkpoints_secs": plan.save_checkpoints_secs,
            "max_nonfinite_steps": plan.max_nonfinite_steps,
            "eval_early_stopping": plan.early_stopping,
            "data": data,
        }

    def _warm_start(
        self, model: keras.Model, source: str, files: Sequence[str], progress: Progress
    ) -> None:
        """Begins a run that has no checkpoint yet with the weights of another.

        Raises:
            UserError: if they are of another model (all that differs is listed) or vocabulary.
        """
        if checkpoints.list_checkpoints(self.run.checkpoints_dir):
            return
        path = checkpoints.find(source)
        RunDirectory(path.parents[1]).check_vocabularies(files)
        state = checkpoints.load_weights(model, path)
        progress.say(f"Weights from {path} (its step {state.step}).")

    def _check_what_evaluations_decide(self, with_evaluation: bool) -> None:
        """Raises a UserError if the plan asks for a metric that no evaluation reports."""
        best, early = self.plan.keep_best, self.plan.early_stopping
        flags = {"--keep_best": best, "--eval_early_stopping_steps": early}
        for flag in (name for name, value in flags.items() if value and not with_evaluation):
            raise UserError(
                f"Expected a schedule that evaluates, such as {SCHEDULES[0]}, with {flag}. "
                "Received: train."
            )
        metrics = {"--best_metric": best, "--eval_early_stopping_metric": early}
        names = ("loss", *self.problem.eval_metrics())
        for flag, value in metrics.items():
            if value and value.metric not in names:
                raise unknown(f"metric of {flag}", value.metric, names)

    def _say_what_the_data_are(self, progress: Progress) -> None:
        """Says what the split holds and what a batch is, and writes it into the run."""
        from t2t_repro.data.pipeline import describe

        hparams, replicas = self.config.hparams, self.devices.replicas
        data = describe(
            self.problem,
            Split.TRAIN,
            hparams,
            self.config.data_dir,
            training=True,
            replicas=replicas,
        )
        unit = "sentences" if hparams.use_fixed_batch_size else "tokens, padding included,"
        progress.say(
            f"{data.kept:,} examples of {data.examples:,} ({data.too_long:,} too long, "
            f"{data.too_short:,} too short), {data.targets_tokens:,} target tokens, "
            f"{data.padding:.1%} padding, {data.batches:,} batches an epoch; a batch of "
            f"{hparams.batch_size:,} {unit} x {replicas} "
            f"replica{'s' * (replicas > 1)} (the paper's: 25,000 target "
            "tokens)"
        )
        statistics = {"kept": data.kept, **dataclasses.asdict(data)}
        text = json.dumps(statistics, indent=1) + "\n"
        write_text_atomic(self.run.path / "training-data.json", text)

    def _evaluator(self, model: keras.Model) -> Evaluator:
        return Evaluator(model, self.problem.eval_metrics())

    def _evaluation(self, evaluator, progress):
        """Returns a function that evaluates the model as it is at a step, waits, and reports."""

        def evaluate(step: int, wait: Callable[[], None] = lambda: None) -> dict[str, float]:
            started = time.monotonic()
            dataset = evaluation_data(self.problem, self.eval_split, self.config)
            values = evaluator.evaluate(dataset, self.eval_steps)
            seconds = time.monotonic() - started
            wait()
            progress.evaluation(step, values, self.eval_split, seconds)
            return values

        return evaluate


SCHEDULES = ("continuous_train_and_eval", "train_and_evaluate", "train", "evaluate")


def run_schedule(experiment: Experiment, schedule: str) -> dict[str, float]:
    """Runs one of `SCHEDULES`; returns the last evaluation, {} if there was none.

    Raises:
        UserError: on an unknown schedule.
    """
    if schedule not in SCHEDULES:
        raise unknown("schedule", schedule, SCHEDULES)
    return getattr(experiment, schedule)()


def evaluation_data(problem: Problem, split: str, config: RunConfig):
    """Returns one pass over a split, as tf.data.Dataset.

    Raises:
        UserError: if the problem has no such split.
    """
    splits = [entry["split"] for entry in problem.dataset_splits]
    if split not in splits:
        raise UserError(
            f"Expected one of the splits of {problem.name}: {', '.join(splits)}. "
            f"Received: {split!r}."
        )
    from t2t_repro.data.pipeline import make_dataset

    return make_dataset(problem, split, config.hparams, config.data_dir, training=False)


def build_model(config: RunConfig, problem: Problem) -> keras.Model:
    """Returns a run's Transformer, compiled with its optimizer; the seed decides the weights.

    Under JAX XLA compiles its steps. Under TensorFlow it would compile each shape of a batch anew,
    and its step is no faster (benchmarks/RESULTS.md).
    """
    keras.utils.set_random_seed(config.random_seed)
    model = transformer_for(problem, config.hparams, config.data_dir)
    xla = keras.backend.backend() == "jax"
    model.compile(optimizer=optimizers.from_hparams(config.hparams), jit_compile=xla)
    return model
