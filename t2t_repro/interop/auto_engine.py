"""The quicker of two engines that give the same text: the model itself, or CTranslate2 in float32.

Both translate the beginning of the file. CTranslate2 is taken if it writes the same and is quicker;
what half a file was written with goes on with the other half.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from t2t_repro.decoding.decode import ModelEngine
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.files import described
from t2t_repro.decoding.job import DecodeJob
from t2t_repro.decoding.journal import as_read, job_of
from t2t_repro.decoding.quickest import Way, quickest
from t2t_repro.decoding.translate import Report
from t2t_repro.errors import UserError
from t2t_repro.interop import ctranslate2_engine, model_engine
from t2t_repro.interop.ctranslate2 import library
from t2t_repro.text import raw

LEAST = 4000  # lines; for fewer, two engines take longer to load and to try than one saves
SAMPLE = 256  # lines that both translate: a batch for each of two searches
_OWN, _OTHER = "the model itself", "CTranslate2"


def load(job: DecodeJob, say: Report) -> Engine:
    """The engine that is chosen; `say` is told which, and why."""
    own = model_engine.load(job, say)  # first: TensorFlow's threads are set before it computes
    return _choose(job, own, lambda: ctranslate2_engine.load(job, say), say)


def of_model(job: DecodeJob, own: ModelEngine, say: Report) -> Engine:
    """As `load`, with the model's own engine."""
    return _choose(job, own, lambda: ctranslate2_engine.of_model(job, own, say), say)


def _choose(job: DecodeJob, own: Engine, load_other: Callable[[], Engine], say: Report) -> Engine:
    name, engines, reason = _OWN, {_OWN: own}, _why_not(job)
    if not reason:
        try:
            engines[_OTHER] = load_other()
        except (UserError, OSError) as error:
            reason = f"{_OTHER} does not compute it. {error}"
    if not reason:
        name, reason = _begun(job, engines) or _tried(job, engines)
    say(f"--engine=auto takes {name}: {reason}")
    return engines[name]


def _why_not(job: DecodeJob) -> str:
    """Why CTranslate2 need not be tried, or ""."""
    request, settings = job.request, job.settings
    if not request.decode_from_file:
        return "the other is tried on --decode_from_file alone"
    if asked := request.asks_for(settings):
        return f"it alone decodes with {', '.join(asked)} as it is asked to"
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
    begun, source = job_of(job.target), job.request.decode_from_file
    assert source  # `_why_not` has seen to it
    for name, engine in engines.items():
        if begun.get("weights") != engine.fingerprint:
            continue
        translator = job.run.translator(engine, job.settings, warn=lambda text: None)
        if begun == as_read(described(translator, source)[1]):
            return name, "it has begun the file"
    return None


def _tried(job: DecodeJob, engines: dict[str, Engine]) -> tuple[str, str]:
    """The engine that the beginning of the file speaks for."""

    def way(engine: Engine) -> Way:
        translator = job.run.translator(engine, job.settings, warn=lambda text: None)
        return lambda lines: [translator.format(h) for h in translator.translate_lines(lines)]

    sources = list(islice(_lines(job), SAMPLE))
    ways = {name: way(engine) for name, engine in engines.items()}
    return quickest(ways, sources, f"the first {SAMPLE} lines")


def _lines(job: DecodeJob) -> Iterator[str]:
    """The sentences that are to be translated."""
    most = job.settings.num_samples
    source = job.request.decode_from_file
    assert source  # `_why_not` has seen to it
    return islice(raw.lines(source), most if most >= 0 else None)
