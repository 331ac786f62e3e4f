"""A training run, read from top to bottom: devices, set-up, resume, steps, evaluation, end.

`run` carries out a request, once bin/trainer.py has planned it and made its data. `train` builds
the model, opens its data and begins the run directory; a `Trainer` makes the steps; an `Evaluation`
follows its checkpoints.

The loop makes the model's own step, as Model.fit does. It is no fit, because fit reports the loss
averaged over an epoch where T2T reports the step's, and gives callbacks no batch, which the token
rate and the message about a bad batch need.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import process, schema
from t2t_repro.data.batching import MOST_SHAPES
from t2t_repro.errors import Interrupted, UserError, changes
from t2t_repro.files import write_json, write_text_atomic
from t2t_repro.models.build import model_for
from t2t_repro.models.finite_step import FiniteStepModel
from t2t_repro.problem import Problem, Split
from t2t_repro.run_directory import PLAN, TRAINING_DATA, WARM_START, RunConfig, RunDirectory
from t2t_repro.training import checkpoints, devices, distribution, optimizers, trainable, warm_start
from t2t_repro.training.devices import ONE, Devices
from t2t_repro.training.evaluation import Evaluator, evaluation_data
from t2t_repro.training.log import TrainingLog, make_writer, norms
from t2t_repro.training.request import Plan, TrainRequest
from t2t_repro.training.state import DECODED_BLEU, DECODED_OF

Hook = tuple[int, Callable[[int], None]]  # call the second with the step, at multiples of the first

# In the `extra` of a checkpoint's state:
_EVALUATE = "evaluate"  # an evaluation belongs to this checkpoint
_NOT_FINITE = "nonfinite_steps"  # how many steps were skipped since the run began
_PADDING = "padding"  # the places and the tokens of the batches since the last report
_SECONDS = "seconds"  # how long the run has trained, all its processes together

_REPLICAS = "replicas"
# What determines the batches of a split, besides hparams and devices.
_SAME_DATA = ("examples", "too_short", "too_long", "inputs_tokens", "targets_tokens")


def run(request: TrainRequest, where: Devices = ONE, plan: str = "") -> dict[str, float]:
    """Trains or evaluates as requested; returns the last evaluation.

    Args:
        request: what to do.
        where: the devices to compute on.
        plan: what a new run will take, as JSON, to keep in it; "": none.

    Raises:
        UserError: as `train` and `evaluate`.
    """
    if request.schedule == "evaluate":
        return evaluate(request, where)
    return train(request, where, plan)


def build_model(config: RunConfig, problem: Problem) -> keras.Model:
    """Returns a run's model, compiled with its optimizer; the seed decides the weights."""
    keras.utils.set_random_seed(config.random_seed)
    model = model_for(problem, config.hparams, config.data_dir)
    optimizer = optimizers.from_hparams(config.hparams)
    model.compile(optimizer=optimizer, jit_compile=devices.compiles(config.xla_compile))
    return model


def evaluate(request: TrainRequest, where: Devices = ONE) -> dict[str, float]:
    """Evaluates the newest checkpoint of a run; returns its metrics."""
    with where.scope():
        model = build_model(request.config, request.problem)
    state = checkpoints.load_weights(model, request.run.path)
    log = TrainingLog(request.run, state.step, 1, writer=make_writer(request.run))
    evaluator = Evaluator(model, request.problem.eval_metrics())
    return Evaluation(request, model, log, evaluator)(state.step, again=True)


def train(request: TrainRequest, where: Devices = ONE, plan: str = "") -> dict[str, float]:
    """Trains to the end, and evaluates each checkpoint unless the schedule is "train".

    Args:
        request: what to train.
        where: the devices to compute on. Of several workers the chief alone writes and evaluates.
        plan: see `run`.

    Returns:
        The last evaluation; {}: there was none.
    """
    run, config, problem = request.run, request.config, request.problem
    is_chief = where.cluster.is_chief
    with where.scope():
        model = build_model(config, problem)
        model.optimizer.build(model.trainable_variables)
    writer = make_writer(run) if is_chief else None
    steps, every = request.plan.train_steps, request.plan.log_step_count_steps
    log = TrainingLog(run if is_chief else None, steps, every, writer=writer)
    _training_data(request, where, 0, most_shapes=0)  # errors in them show now
    evaluator = Evaluator(model, problem.eval_metrics())
    evaluation, taken = None, None
    hooks: list[Hook] = []
    if is_chief and request.schedule != "train":
        evaluation = Evaluation(request, model, log, evaluator)
        decodes = hasattr(model, "decode_step")  # a model of the user's need not
        if request.make_samples and request.samples_every and writer and decodes:
            write = request.make_samples(model, request.eval_split)
            hooks.append((request.samples_every, lambda step: write(step, writer)))
    source, partial = request.warm_start_from, request.warm_start_partial
    if is_chief and source and not run.newest_step():
        taken = warm_start.begin(model, problem, config.data_dir, source, partial)
        log.say(f"{taken} Details: {WARM_START}.")
    if config.hparams.freeze:
        trained = sum(math.prod(variable.shape) for variable in model.trainable_weights)
        frozen = f"{model.count_params() - trained:,} are frozen (freeze={config.hparams.freeze})"
        log.say(f"{trained:,} parameters are trained, {frozen}.")
    with run.locked() if is_chief else contextlib.nullcontext():
        _begin(request, where, plan, log)
        if taken:
            taken.write(run)
        Trainer(
            model,
            lambda start: _training_data(request, where, start),
            run,
            request.plan,
            log,
            evaluate=evaluation,
            plain_loss=evaluator.loss if writer else None,
            hooks=hooks,
            encoders=problem.feature_encoders(config.data_dir),
            devices=where,
            batches_per_step=trainable.batches_per_step(config.hparams),
        ).train()
        if evaluation and not evaluation.results:
            evaluation(checkpoints.load_weights(model, run.path).step)
        where.all_reduce([0])  # the others wait for the chief's last evaluation
        with contextlib.suppress(Exception):  # another has left: all have the sum above
            where.all_reduce([0])  # none leaves while another still receives that sum
    return evaluation.results if evaluation else {}


def _training_data(
    request: TrainRequest, where: Devices, start: int, most_shapes: int = MOST_SHAPES
) -> Any:
    """Returns the endless batches of this worker without the first `start`."""
    from t2t_repro.data.pipeline import make_dataset

    config = request.config
    if not config.xla_compile and keras.backend.backend() == "tensorflow":
        most_shapes = 0  # a step is compiled once, for all
    return make_dataset(
        request.problem,
        Split.TRAIN,
        config.hparams,
        config.data_dir,
        training=True,
        seed=config.random_seed,
        num_shards=where.cluster.size,
        shard_index=where.cluster.index,
        replicas=where.local,
        start=start,
        most_shapes=most_shapes,
    )


def _begin(request: TrainRequest, where: Devices, plan: str, log: TrainingLog) -> None:
    """Begins the run directory, once all workers agree."""
    from t2t_repro.data.pipeline import describe

    run, config, problem, replicas = request.run, request.config, request.problem, where.replicas
    hparams, data_dir = config.hparams, config.data_dir
    data = describe(problem, Split.TRAIN, hparams, data_dir, training=True, replicas=replicas)
    own = {"hparams": hparams.to_json(), "problem": config.problem, "data": data}
    own |= {"random_seed": config.random_seed, "worker_gpu": where.local}
    where.check_alike(own | vars(request.plan))
    if not where.cluster.is_chief:
        return
    _check_same_data(run, data, replicas, log)
    vocabularies = [os.path.join(data_dir, name) for name in problem.vocab_files(data_dir)]
    for news in run.begin(config, request.command, vocabularies, request.named):
        log.say(f"From step {run.newest_step():,} on, this has changed: {news}.")
    if plan and not (run.path / PLAN).exists():  # a resumed run keeps its first
        write_text_atomic(run.path / PLAN, plan)
    unit = "sentences" if hparams.use_fixed_batch_size else "tokens (with padding)"
    log.say(
        f"{data.kept:,} of {data.examples:,} examples kept ({data.too_long:,} too long, "
        f"{data.too_short:,} too short), {data.targets_tokens:,} target tokens, {data.padding:.1%} "
        f"padding, {data.batches:,.1f} batches per epoch; a batch is {hparams.batch_size:,} {unit} "
        f"x {replicas} replica{'s' * (replicas > 1)} (in the paper: 25,000 target tokens)"
    )
    file = run.path / TRAINING_DATA
    if not file.exists() or run.newest_step() < request.plan.train_steps:
        values = {"kept": data.kept, **dataclasses.asdict(data), _REPLICAS: replicas}
        write_json(file, values)


def _check_same_data(run: RunDirectory, data: Any, replicas: int, log: TrainingLog) -> None:
    """Refuses to resume with other data, and warns of another number of devices."""
    file = run.path / TRAINING_DATA
    if not run.newest_step() or not file.is_file():
        return
    kept = schema.read(file, dict[str, int | float], "Delete this file.")
    known = {name: kept[name] for name in _SAME_DATA if name in kept}
    if differs := changes(known, dataclasses.asdict(data)):
        raise UserError(
            f"Expected the training data of {run.path}. Received: other data: "
            f"{'; '.join(differs)}. Give the --data_dir of that run; or start a new run on these "
            f"data with --warm_start_from={run.path}."
        )
    before = kept.get(_REPLICAS) or replicas
    if before != replicas:
        log.say(
            f"Warning: the run was trained on {before} replica{'s' * (before > 1)}, and continues "
            f"on {replicas}. A batch becomes {replicas / before:.3g} times as large, so the "
            f"results will differ from those on {before} replica{'s' * (before > 1)}."
        )


class Evaluation:
    """The evaluations of a run: a part of a split, and decoded sentences.

    Args:
        request: names them.
        model: evaluated with its current weights.
        log: reports it.
        evaluator: of the same model, with the problem's metrics.

    Attributes:
        split: the split.
        sample: in words, the part of it and the decoded sentences.
        results: the last ones.
    """

    def __init__(
        self, request: TrainRequest, model: keras.Model, log: TrainingLog, evaluator: Evaluator
    ):
        self.split, self._log, self._evaluator = request.eval_split, log, evaluator
        where = request.problem, request.eval_split, request.config, request.eval_steps
        self._data = evaluation_data(*where)  # opened once: new files change nothing
        self.sample = self._data.part
        self.results: dict[str, float] = {}
        self._bleu = request.make_bleu and request.make_bleu(model, request.eval_split)
        if self._bleu:
            log.say(f"{DECODED_BLEU}: sacreBLEU of {self._bleu.sample} ({self._bleu.signature})")
            self.sample += f"{DECODED_OF}{self._bleu.sample}"

    def __call__(
        self, step: int, wait: Callable[[], None] = lambda: None, again: bool = False
    ) -> dict[str, float]:
        """Evaluates the model, waits, reports and returns the metrics.

        It may begin while the checkpoint is written; `wait` waits until that is whole.

        What metrics.jsonl has is evaluated only if `again`, and never written twice.
        """
        started = time.monotonic()
        known = self._log.recorded(step, self.split, self.sample)
        self.results = known
        if again or not known:
            self.results = self._evaluator.evaluate(self._data)
            if self._bleu:
                self.results[DECODED_BLEU] = self._bleu.score()
        seconds = time.monotonic() - started
        wait()
        self._log.evaluation(
            *(step, self.results, self.split, seconds),
            sample=self.sample,
            signature=self._bleu.signature if self._bleu else "",
            record=str(self.results) != str(known),  # as text nan is nan
        )
        return self.results


@dataclasses.dataclass(eq=False)
class Trainer:
    """Trains a model in a run, from its newest whole checkpoint if there is one.

    Attributes:
        model: built and compiled; its loss is its own.
        make_dataset: called with the number of batches to skip; returns the rest of an endless
            iterable of {"inputs", "targets"} that is the same at every start.
        run: gets checkpoints and metrics.
        plan: how long to train, and when to save and evaluate.
        log: how to report.
        evaluate: the evaluation at each checkpoint; None: none.
        plain_loss: of a batch, without dropout and label smoothing, for reports; None: not
            reported.
        hooks: called between two steps, while the model has its moving averages.
        encoders: of "inputs" and "targets", to write bad batches as text.
        devices: what `devices.choose` returned. Of several workers the chief alone writes.
        batches_per_step: more than one if the optimizer gathers.
    """

    model: FiniteStepModel
    make_dataset: Callable[[int], Any]
    run: RunDirectory
    plan: Plan
    log: TrainingLog
    _: dataclasses.KW_ONLY
    evaluate: Evaluation | None = None
    plain_loss: Callable[[dict], float] | None = None
    hooks: Sequence[Hook] = ()
    encoders: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    devices: Devices = ONE
    batches_per_step: int = 1

    def __post_init__(self):
        self._is_chief = self.devices.cluster.is_chief
        folder = self.run.checkpoints_dir if self._is_chief else None
        self._saver = checkpoints.Saver(folder, self.plan.keep_checkpoint_max)

    def train(self) -> checkpoints.State:
        """Trains to the end of the plan; returns the state of the run.

        Raises:
            UserError: if the loss or a gradient is not finite (the step is named), or all
                checkpoints are damaged.
            Interrupted: on a signal, inside `process.handle_signals`. The step that ran is saved.
            OSError: if a checkpoint could not be written; the earlier ones are whole.
        """
        self._resume()
        log, saver, last = self.log, self._saver, self.plan.train_steps
        # A signal waits until the last checkpoint is whole, unless there is nothing to save.
        with contextlib.closing(log), process.defer_signals(), contextlib.closing(saver):
            self._finish_evaluation()
            reason = self._reason_to_stop() if self._is_chief else ""
            (stop,) = self.devices.all_reduce([bool(reason)])
            done = self._step >= last
            if done or stop:
                ended = "the run is at" if done else "the run stopped early at"
                why = "" if done else f": {reason}. To continue, give --eval_early_stopping_steps=0"
                log.say(f"Nothing to train: {ended} step {self._step} of {last}{why}.")
                return self._state
            with process.deliver_signals():
                dataset = self.make_dataset(self._batches)
            left = (last - self._step) * self.batches_per_step
            ahead = distribution.compile_ahead(dataset, self.devices, left, log.say)
            with contextlib.closing(ahead) as programs:
                train_step = distribution.step_function(self.model, self.devices, programs)
                self._saved_at = time.monotonic()
                batches = iter(getattr(dataset, "as_numpy_iterator", dataset.__iter__)())
                while self._step < last and not stop:
                    stop = self._make_step(train_step, batches)
            saver.wait()
        return self._state

    # --- resume

    def _resume(self) -> None:
        """Restores the newest checkpoint of the chief."""
        state = checkpoints.State(step=0)
        if self._is_chief:
            newest = checkpoints.newest_whole(self.run.checkpoints_dir, self.log.say)
            if newest is not None:
                state = checkpoints.restore(self.model, newest)
                self.log.say(f"Resuming from {newest} (step {state.step}).")
            self.log.restart(state.step)
        note = {"step": state.step, "batches": state.batches, "extra": state.extra}
        state = checkpoints.State(**self.devices.broadcast(self.model, note))
        self._state = state  # that of the newest checkpoint
        self._step, self._batches = state.step, state.batches
        self._skipped = state.extra.get(_NOT_FINITE, 0)
        # Of the batches since the last report.
        self._cells, self._tokens = state.extra.get(_PADDING, (0, 0))
        self._began = time.monotonic() - state.extra.get(_SECONDS, 0.0)

    # --- steps

    def _make_step(self, train_step: distribution.TrainStep, batches: Iterator[dict]) -> bool:
        """Makes a step, reports it, saves and evaluates if due; returns whether to stop."""
        started = time.monotonic()
        losses: list[float] = []
        tokens = 0
        while len(losses) < self.batches_per_step:
            batch = next(batches)
            self._batches += 1
            made = self._train_on(train_step, batch, len(losses))
            if made.finite:
                losses.append(made.loss)
                tokens += self._count(batch)
                continue
            self._skip(batch, made)
            if not losses:  # where no step was made since the last save, the batch comes again
                signum = process.received_signal()
                if self.devices.all_reduce([signum > 0])[0]:
                    self._save_and_stop(signum or signal.SIGTERM)
        self._step += 1
        # All workers must agree on these. The chief's clock decides what is due.
        signum = process.received_signal()
        own = [tokens, signum > 0, self._is_due() and self._is_chief]
        tokens, signalled, due = self.devices.all_reduce(own)
        signum = signum or (signal.SIGTERM if signalled else 0)
        self.log.step(
            *(self._step, statistics.fmean(losses), tokens, time.monotonic() - started),
            learning_rate=lambda: np.asarray(self.model.optimizer.learning_rate),
            more=lambda: self._details(batch, np.asarray(made.squares)),
        )
        for every, call in self.hooks:
            if self._step % every == 0:
                with checkpoints.averaged(self.model):
                    call(self._step)
        self._saver.check()
        if not due and not signum:
            return False
        self._save(due=bool(due))
        if signum:
            self._save_and_stop(signum)
        reason = self._reason_to_stop() if self._finish_evaluation() else ""
        if self.plan.early_stopping is None or not self.devices.all_reduce([bool(reason)])[0]:
            return False
        self.log.say(f"Stopping early at step {self._step}: {reason}.")
        return True

    def _count(self, batch: dict) -> int:
        """Adds a batch to the share of padding; returns its real target tokens."""
        tokens = {side: int(np.count_nonzero(batch[side])) for side in ("inputs", "targets")}
        self._cells += sum(int(np.size(batch[side])) for side in tokens)
        self._tokens += sum(tokens.values())
        return tokens["targets"]

    def _train_on(
        self, train_step: distribution.TrainStep, batch: dict, before: int
    ) -> distribution.Made:
        """Trains on a batch, after `before` others of its step."""
        last = before + 1 == self.batches_per_step
        try:
            return train_step(batch, last and self.log.is_due(self._step + 1))
        except Exception:
            # A terminal's signal also reaches XLA's compiler, which is another process.
            signum = process.received_signal()
            if signum and not before and distribution.was_compiling(self.model):
                self._batches -= 1  # it is still to come
                self._save_and_stop(signum)
            raise

    def _skip(self, batch: dict, made: distribution.Made) -> None:
        """Skips a batch whose loss or gradients are not finite, if that many may be skipped."""
        self._skipped += 1
        file = self._write_bad(batch, made.loss) if self._is_chief else "the chief's run"
        shapes, most = distribution.shapes(batch), self.plan.max_nonfinite_steps
        said = f"{made.fault()} at step {self._step + 1}, on a batch of {shapes} (saved in {file})"
        if self._skipped > most:
            newest = checkpoints.latest(self.run.checkpoints_dir)
            kept = f"the newest checkpoint is {newest}" if newest else "there is no checkpoint"
            raise UserError(
                f"Expected a finite loss and finite gradients. Received: {said}; {kept}. "
                f"{distribution.WHAT_TO_DO}; or skip this batch: "
                f"--max_nonfinite_steps={self._skipped}."
            )
        self.log.say(f"Skipped a batch ({self._skipped} of at most {most}): {said}.")

    def _write_bad(self, batch: Mapping[str, Any], loss: float) -> pathlib.Path:
        """Writes a batch whose loss or gradients are not finite into the run, and its text."""
        ids = {side: np.asarray(value).tolist() for side, value in batch.items()}
        examples = [dict(zip(ids, sides, strict=True)) for sides in zip(*ids.values(), strict=True)]
        for example in examples:
            for side, encoder in self.encoders.items():
                example[f"{side}_text"] = encoder.decode([i for i in example[side] if i > 1])
        content = {
            "step": self._step + 1,
            "batch": self._batches,
            "loss": loss if math.isfinite(loss) else str(loss),
            "shapes": distribution.shapes(batch),
            "examples": examples,
        }
        path = self.run.path / "nonfinite" / f"batch-{self._batches}.json"
        write_json(path, content, ensure_ascii=False)
        return path

    # --- report

    def _details(
        self, batch: dict, squares: np.ndarray
    ) -> tuple[dict[str, float], dict[str, float]]:
        """Returns the values reported beside the loss, and the norms of each part.

        The first are:
            gradient_norm: the global norm of the step's gradients, before they are clipped.
            weight_norm: that of all trainable weights after the step.
            padding: the share of padding in the batches since the last report.
            plain_loss: that of the step's batch after the step.
        """
        values, parts = norms(self.model, squares)
        values["padding"] = 1.0 - self._tokens / max(self._cells, 1)
        self._cells = self._tokens = 0
        if self.plain_loss is not None:
            values["plain_loss"] = self.plain_loss(batch)
        return values, parts

    # --- save

    def _is_due(self) -> bool:
        """Returns whether to save and evaluate after this step."""
        if self._step == self.plan.train_steps:
            return True
        if self.plan.save_checkpoints_secs:
            return time.monotonic() - self._saved_at >= self.plan.save_checkpoints_secs
        return self._step % self.plan.local_eval_frequency == 0

    def _save(self, *, due: bool) -> None:
        """Begins to write a checkpoint; one that is not due, of a signal, goes with the next."""
        now = time.monotonic()
        each = 3600 * self.plan.keep_checkpoint_every_n_hours
        before, seconds = self._state.extra.get(_SECONDS, 0.0), round(now - self._began, 3)
        extra = {
            **({_NOT_FINITE: self._skipped} if self._skipped else {}),
            **({} if due else {checkpoints.PASSING: True}),
            _SECONDS: seconds,
            _PADDING: [self._cells, self._tokens],
            _EVALUATE: due and self.evaluate is not None,
            checkpoints.PERMANENT: seconds // each > before // each,
        }
        self._state = checkpoints.State(step=self._step, batches=self._batches, extra=extra)
        self._saver.save(self.model, self._state)
        self._saved_at = time.monotonic()

    # --- evaluate

    def _finish_evaluation(self) -> bool:
        """Evaluates the newest checkpoint if due and not done; returns whether it was due.

        One that was evaluated before a kill is not evaluated again, but may be missing in best.
        """
        step = self._state.step
        if self.evaluate is None or not self._state.extra.get(_EVALUATE):
            return False
        of = self.evaluate.split, self.evaluate.sample
        done = self.log.recorded(step, *of)
        try:
            with process.deliver_signals(), checkpoints.averaged(self.model):
                values = done or self.evaluate(step, self._saver.wait)
        except Interrupted as stop:
            self._saver.wait()
            raise Interrupted(stop.signum, self._where()) from None
        self._saver.wait()
        best = self.plan.keep_best
        if best and best.add(self.run, step, values, *of) and not done:
            self.log.say(f"Saved among the best by {best.metric}: {best.directory(self.run).path}")
        return True

    def _reason_to_stop(self) -> str:
        """Returns the reason to stop, by the evaluations so far; "": none."""
        early = self.plan.early_stopping
        if early is None or self.evaluate is None:
            return ""
        return early.reason(self.run.read_metrics(), self.evaluate.sample)

    # --- end

    def _save_and_stop(self, signum: int) -> None:
        """Saves the last step if it is not saved, and raises Interrupted."""
        if self._step > self._state.step:
            self._save(due=False)
        self._saver.wait()
        self.devices.all_reduce([0])  # no worker leaves before the chief has saved
        raise Interrupted(signum, self._where() if self._step else "")

    def _where(self) -> str:
        """Returns where the run stands, for the message of a signal."""
        step = self._state.step
        if not self._is_chief:
            return f" at step {step}, saved by the chief"
        return f" at step {step}, saved as {self.run.checkpoints_dir / f'ckpt-{step}'}"
