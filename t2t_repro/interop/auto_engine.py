"""The quicker of two engines that give the same text: the model itself, or CTranslate2 in float32.

Both translate the beginning of the file. CTranslate2 is taken if it writes the same and is quicker;
what half a file was written with goes on with the other half.
"""

import time
from collections.abc import Iterator
from itertools import islice

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.journal import job_of
from t2t_repro.decoding.translate import Report
from t2t_repro.errors import UserError
from t2t_repro.interop import ctranslate2_engine, model_engine
from t2t_repro.interop.ctranslate2 import library
from t2t_repro.text import raw

KIND = ModelEngine
LEAST = 4000  # lines; for fewer, two engines take longer to load and to try than one saves
SAMPLE = 128  # lines that both translate
_OWN, _OTHER = "the model itself", "CTranslate2"


def load(job: DecodeJob, say: Report) -> Engine:
    """The engine that is chosen; `say` is told which, and why."""
    own = model_engine.load(job, say)  # first: TensorFlow's threads are set before it computes
    if reason := _why_not(job):
        say(f"--engine=auto takes {_OWN}: {reason}")
        return own
    engines = {_OWN: own, _OTHER: ctranslate2_engine.load(job, say)}
    name, reason = _begun(job, engines) or _tried(job, engines)
    say(f"--engine=auto takes {name}: {reason}")
    return engines[name]


def _why_not(job: DecodeJob) -> str:
    """Why CTranslate2 need not be tried, or ""."""
    request, settings = job.request, job.settings
    if not request.decode_from_file:
        return "the other is tried on --decode_from_file alone"
    if asked := request.asks_for(settings):
        return f"the other has no {', '.join(asked)}"
    if settings.return_beams or request.output_format == "jsonl" or request.decode_json_file:
        return "the other's scores and further beams are not the same to the last digit"
    lines = sum(1 for _ in islice(_lines(job), LEAST))
    if lines < LEAST:
        return f"for {lines:,} lines, fewer than {LEAST:,}, it does not pay to try another"
    try:
        library()
    except UserError:
        return "ctranslate2 is not installed; pip install 't2t_repro[ctranslate2]'"
    return ""


def _begun(job: DecodeJob, engines: dict[str, Engine]) -> tuple[str, str] | None:
    """The engine that has begun the file, if it is one of these."""
    begun = job_of(job.target)
    for name, engine in engines.items():
        if begun.get("weights") == engine.fingerprint:
            return name, "it has begun the file"
    return None


def _tried(job: DecodeJob, engines: dict[str, Engine]) -> tuple[str, str]:
    """The engine that the beginning of the file speaks for."""
    sources = list(islice(_lines(job), SAMPLE))
    texts, seconds = {}, {}
    for name, engine in engines.items():
        translator = job.run.translator(engine, job.settings, warn=lambda text: None)
        for _ in range(2):  # the first time TensorFlow traces
            begin = time.perf_counter()
            found = list(translator.translate_lines(sources))
            seconds[name] = time.perf_counter() - begin
        texts[name] = [translator.format(hypotheses) for hypotheses in found]
    others = sum(a != b for a, b in zip(texts[_OWN], texts[_OTHER], strict=True))
    if others:
        return _OWN, f"{_OTHER} translates {others} of the first {SAMPLE} lines in another way"
    name = min(engines, key=lambda name: seconds[name])
    took = " and ".join(f"{seconds[n]:.2f} s by {n}" for n in engines)
    return name, f"the first {SAMPLE} lines are the same by both, in {took}"


def _lines(job: DecodeJob) -> Iterator[str]:
    """The sentences that are to be translated."""
    most = job.settings.num_samples
    source = job.request.decode_from_file
    assert source  # `_why_not` has seen to it
    return islice(raw.lines(source), most if most >= 0 else None)
