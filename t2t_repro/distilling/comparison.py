"""Student beside teacher on the dev split: BLEU with intervals, and sentences a second."""

import dataclasses
import time
from typing import Any

from t2t_repro import process
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.errors import UserError
from t2t_repro.runs import trained_run
from t2t_repro.scoring.significance import Scored, paired

SENTENCES = 1000  # at most; the first pass over them compiles, the quickest of the others counts
_PASSES = 3


@dataclasses.dataclass(frozen=True)
class Side:
    """A run, how it decodes, what that is worth and how long it takes here."""

    run: str
    search: str
    score: Scored
    sentences_per_second: float

    def __str__(self) -> str:
        return (
            f"{self.score} BLEU, {self.sentences_per_second:,.0f} sentences a second "
            f"({self.search})"
        )


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A student beside its teacher.

    Attributes:
        sentences: which were decoded, in words.
        teacher, student: the two.
        p_value: how likely the student would seem as different by chance.
        signature: sacreBLEU's.
    """

    sentences: str
    teacher: Side
    student: Side
    p_value: float
    signature: str

    @property
    def change(self) -> float:
        """BLEU gained by the student."""
        return self.student.score.bleu - self.teacher.score.bleu

    @property
    def speed(self) -> float:
        """How many times as fast as the teacher the student is."""
        return self.student.sentences_per_second / self.teacher.sentences_per_second

    def as_json(self) -> dict[str, Any]:
        """Returns it for the record, and what it says."""
        return dataclasses.asdict(self) | {"said": str(self)}

    def __str__(self) -> str:
        return (
            f"teacher: {self.teacher}\nstudent: {self.student}\n"
            f"{self.change:+.2f} BLEU (p = {self.p_value:.3f}), {self.speed:.1f} times as fast; "
            f"{self.sentences}; {self.signature}"
        )


def compare(request: DistillRequest, student: str, data_dir: str) -> Comparison:
    """Returns how teacher and student compare on the dev split of the student's data.

    Each decodes in a process of its own, on Keras's backend: the teacher, and those of its
    ensemble, as the request says, the student as its run says.

    Args:
        request: names the teacher.
        student: its run directory.
        data_dir: of the student's data.

    Raises:
        UserError: if one of them cannot decode.
    """
    found = []
    teacher = (request.teacher, request.ensemble, request.decode_hparams)
    for run, *how in (teacher, (student, "", "")):
        ended = process.run(_decoded, run, *how, student, data_dir, request.t2t_usr_dir)
        if ended.code:
            raise UserError(
                f"Expected {run} to decode the dev split of {data_dir}. Received: exit code "
                f"{ended.code}, {ended.last_line() or 'nothing said'}. Mend that, and give the "
                "same command again: what is done stays."
            )
        found.append(ended.result)
    (old, old_search, old_rate, references, said), (new, new_search, new_rate, _, _) = found
    of = paired(old, new, references)
    return Comparison(
        sentences=said,
        teacher=Side(request.teacher, old_search, of.baseline, old_rate),
        student=Side(student, new_search, of.translation, new_rate),
        p_value=of.p_value,
        signature=of.signature,
    )


def _decoded(
    run_dir: str,
    ensemble: str,
    decode_hparams: str,
    student: str,
    data_dir: str,
    usr_dir: str | None,
) -> tuple[list[str], str, float, list[str], str]:
    """Returns what a run writes, its search, sentences a second, the references, and of which."""
    if usr_dir:
        from t2t_repro.interop import usr_dir as usr_dirs

        usr_dirs.load(usr_dir, warn=lambda text: None)
    from t2t_repro.decoding.decode import ModelEngine
    from t2t_repro.decoding.dev_bleu import DevSample
    from t2t_repro.decoding.program import share_cores
    from t2t_repro.decoding.translate import BATCH_SENTENCES
    from t2t_repro.training import devices

    run = trained_run(run_dir).on(devices.here())
    settings = run.decode_settings(decode_hparams)
    others = [trained_run(path) for path in ensemble.split(",") if path]
    searches = share_cores(BATCH_SENTENCES * settings.beam_size)
    engine = ModelEngine(run.ensemble(others), searches)
    sample = DevSample(trained_run(student).problem, data_dir, count=SENTENCES)
    written, took = sample.written(engine, settings), []
    for _ in range(_PASSES):
        started = time.monotonic()
        sample.written(engine, settings)
        took.append(time.monotonic() - started)
    search = f"beam_size={settings.beam_size},alpha={settings.alpha:g}"
    search += f", {1 + len(others)} runs together" * bool(others)
    rate = round(len(written) / min(took), 1)
    return written, search, rate, sample.references, sample.described
