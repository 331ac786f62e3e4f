"""One run as a whole: its model, its data, and tensor2tensor's schedules over them."""

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
from t2t_repro.training.evaluation import Evaluator
from t2t_repro.training.loop import Plan, make_progress, train
from t2t_repro.training.progress import Progress


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
        num_replicas: on how many devices to train.
        xla_compile: compile the steps with XLA. On the JAX backend they always are.
        warm_start_from: a run or checkpoint whose weights a new run begins with; None: none.
        command: the command line, kept in the run directory.
    """

    run: RunDirectory
    config: RunConfig
    problem: Problem
    plan: Plan
    eval_steps: int = 100
    eval_split: str = Split.EVAL
    num_replicas: int = 1
    xla_compile: bool = False
    warm_start_from: str | None = None
    command: Sequence[str] = ()

    def continuous_train_and_eval(self) -> dict[str, float]:
        """Trains, and evaluates each checkpoint; returns the last evaluation."""
        return self._train(with_evaluation=True)

    train_and_evaluate = continuous_train_and_eval

    def train(self) -> dict[str, float]:
        """Trains and saves checkpoints, without evaluation."""
        return self._train(with_evaluation=False)

    def evaluate(self) -> dict[str, float]:
        """Evaluates the newest checkpoint of the run."""
        model = build_model(self.config, self.problem, xla_compile=self.xla_compile)
        state = checkpoints.load_weights(model, self.run.path)
        progress = make_progress(self.run, self.plan)
        return self._evaluation(model, progress)(state.step)

    def try_batch_size(self) -> dict[str, Any]:
        """Makes two steps on the largest batches that the hparams allow, on one device.

        Prints what they took, for `batch_size.run_trial`, and returns it.
        """
        from t2t_repro.data.pipeline import describe

        hparams, folder = self.config.hparams, self.config.data_dir
        data = describe(self.problem, Split.TRAIN, hparams, folder, training=True)
        model = build_model(self.config, self.problem, xla_compile=self.xla_compile)
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
        strategy = distribution.strategy(self.num_replicas)
        with distribution.scope(strategy):
            model = build_model(self.config, self.problem, xla_compile=self.xla_compile)
            model.optimizer.build(model.trainable_variables)
        progress = make_progress(self.run, self.plan)

        def data(start: int):
            return make_dataset(
                self.problem,
                Split.TRAIN,
                self.config.hparams,
                self.config.data_dir,
                training=True,
                seed=self.config.random_seed,
                replicas=self.num_replicas,
                start=start,
            )

        # Missing files and an empty filter are found before the run directory is made.
        data(0)
        self._check_what_evaluations_decide(with_evaluation)
        if with_evaluation:
            evaluation_data(self.problem, self.eval_split, self.config)
        if self.warm_start_from:
            self._warm_start(model, self.warm_start_from, files, progress)
        evaluation = self._evaluation(model, progress)
        results: dict[str, float] = {}

        def evaluate(step: int, wait: Callable[[], None] = lambda: None) -> dict[str, float]:
            results.clear()
            results.update(evaluation(step, wait))
            return results

        with self.run.locked():
            self.run.begin(self.config, self.command, files)
            self._say_what_the_data_are(progress)
            train(
                model,
                data,
                self.run,
                self.plan,
                progress=progress,
                evaluate=evaluate if with_evaluation else None,
                encoders=self.problem.feature_encoders(self.config.data_dir),
                strategy=strategy,
            )
            if with_evaluation and not results:
                evaluate(checkpoints.load_weights(model, self.run.path).step)
        return results

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

        hparams, replicas = self.config.hparams, self.num_replicas
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

    def _evaluation(self, model, progress):
        """Returns a function that evaluates `model` as it stands at a step, waits, and reports."""
        evaluator = Evaluator(model, self.problem.eval_metrics())

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


def build_model(config: RunConfig, problem: Problem, *, xla_compile: bool = False) -> keras.Model:
    """Returns a run's Transformer, compiled with its optimizer; the seed decides the weights."""
    keras.utils.set_random_seed(config.random_seed)
    model = transformer_for(problem, config.hparams, config.data_dir)
    xla = xla_compile or keras.backend.backend() == "jax"
    model.compile(optimizer=optimizers.from_hparams(config.hparams), jit_compile=xla)
    return model
