"""The request for a training run, made once by t2t-trainer from its flags.

It loads nothing heavy, so that a wrong flag is refused at once.
"""

import dataclasses
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from t2t_repro.config import BASELINES
from t2t_repro.data.job import Job
from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import flag
from t2t_repro.problem import Problem, Split
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import trainable
from t2t_repro.training.state import DECODED_BLEU, check_folder

if TYPE_CHECKING:
    import keras

    from t2t_repro.training.best import EarlyStopping, KeepBest
    from t2t_repro.training.log import Samples

SCHEDULES = ("continuous_train_and_eval", "train_and_evaluate", "train", "evaluate")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """How long to train and what to do on the way; T2T's names where it has them.

    Attributes:
        train_steps: the step at which the run ends, counted from its start.
        keep_best: the best checkpoints to keep beside the newest; None: none.
        early_stopping: when to stop before `train_steps`; None: never.
        the others: the flags of t2t-trainer.
    """

    train_steps: int
    local_eval_frequency: int = flag(1000, "Save and evaluate every N steps.", least=1)
    save_checkpoints_secs: int = flag(
        0, "Save and evaluate every N seconds; 0: by --local_eval_frequency.", least=0
    )
    keep_checkpoint_max: int = flag(20, "Keep the newest N checkpoints; 0: keep all.", least=0)
    keep_checkpoint_every_n_hours: float = flag(
        10000, "Also keep one older checkpoint per N hours of training.", least=1e-3
    )
    log_step_count_steps: int = flag(100, "Report loss and learning rate every N steps.", least=1)
    max_nonfinite_steps: int = flag(
        0,
        "Skip up to N batches with non-finite loss or gradients; stop at the next such batch.",
        least=0,
    )
    keep_best: "KeepBest | None" = None
    early_stopping: "EarlyStopping | None" = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlanFlags:
    """What to do with the plan of a run (plan.py)."""

    plan: bool = flag(False, "Print the time, memory and disk that training will take, and exit.")
    yes: bool = flag(False, "Train even if the plan says that this machine cannot do it.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainRequest:
    """What to train, where and how.

    Attributes:
        run: its folder.
        config: the hparams, the problem's name, the data and the seed.
        problem: the problem itself.
        plan: how long, and when to save and evaluate.
        schedule: one of `SCHEDULES`.
        eval_steps: at most this many batches an evaluation, a fair sample of all; 0: all.
        eval_split: "dev" or "test".
        worker_gpu: on how many devices of each worker; None: as `devices.choose` finds them.
        warm_start_from: a run or checkpoint whose weights a new run begins with; None: none.
        warm_start_partial: take what fits; otherwise all must fit.
        command: the command line, kept in the run directory.
        named: the settings in it, which may differ in a resumed run.
        job: the data to make first; None: they exist.
        plan_flags: what to do with the plan; None: none is made.
        finish: whether to average and to choose a search at the end, as t2t-avg-all --tune.
        make_samples: makes the writer of samples for TensorBoard from the model and the split, in
            schedules that evaluate; None: there are none.
        make_bleu: makes a `decoding.dev_bleu.DevBleu` from the model and the split, which decodes
            at each evaluation: `score` is the metric `DECODED_BLEU`, `sample` its sentences,
            `signature` sacreBLEU's. None: nothing is decoded.
        samples_every: at the steps that are multiples of this; 0: never.
        load_user_code: loads the user's package in a new process; None: there is none. It is
            pickled.
    """

    run: RunDirectory
    config: RunConfig
    problem: Problem
    plan: Plan
    schedule: str = SCHEDULES[0]
    eval_steps: int = 100
    eval_split: str = Split.EVAL
    worker_gpu: int | None = None
    warm_start_from: str | None = None
    warm_start_partial: bool = False
    command: Sequence[str] = ()
    named: frozenset[str] = frozenset()
    job: Job | None = None
    plan_flags: PlanFlags | None = None
    finish: bool = False
    make_samples: "Callable[[keras.Model, str], Samples] | None" = None
    make_bleu: "Callable[[keras.Model, str], Any] | None" = None
    samples_every: int = 0
    load_user_code: Callable[[], None] | None = None

    def check(self) -> None:
        """Refuses, before anything heavy is loaded, requests that would fail later.

        Raises:
            UserError: on hparams that cannot be trained, a metric of early stopping or best
                checkpoints that is not evaluated (bleu is with --eval_bleu_sentences), packed
                examples with a model that would mix their sentences, another configuration than the
                existing run's, a warm start from nothing, or one of a run that has begun.
        """
        trains = self.schedule != "evaluate"
        if trains:
            trainable.check(self.config.hparams)
            self._check_metrics()
        self._check_packed()
        self.run.check(self.config, self.named)
        if trains and self.warm_start_from:
            self._check_warm_start(self.warm_start_from)

    def _check_packed(self) -> None:
        """Refuses packed examples where the model would mix their sentences."""
        model = self.config.hparams.model
        if self.problem.packed_length and model in BASELINES:
            raise UserError(
                f"Expected an unpacked problem for model={model}, which would mix the packed "
                f"sentences. Received: {self.problem.name}, which is packed. Use an unpacked "
                "problem, or a Transformer."
            )

    def _check_warm_start(self, source: str) -> None:
        """Refuses a missing parent, and another parent for a run that has begun."""
        if not any(self.run.checkpoints_dir.glob("ckpt-*")):
            check_folder(source)
            return
        parent = self.run.parent()
        path = parent and pathlib.Path(os.path.realpath(parent))
        same = path and pathlib.Path(os.path.realpath(source)) in (path, *path.parents[:2])
        if not same:
            raise UserError(
                f"Expected {self.run.path} to continue from its own checkpoint: it began with "
                f"{f'the weights of {parent}' if parent else 'random weights'}. Received: "
                f"--warm_start_from={source}. Remove this flag, or give another --output_dir for a "
                "new run."
            )

    def _check_metrics(self) -> None:
        """Refuses metrics that are not evaluated."""
        names = ["loss", *self.problem.eval_metrics(), *([DECODED_BLEU] if self.make_bleu else [])]
        best, early = self.plan.keep_best, self.plan.early_stopping
        for flag_, value in (("--best_metric", best), ("--eval_early_stopping_metric", early)):
            if value and value.metric not in names:
                raise unknown(f"metric of {flag_}", value.metric, names)
