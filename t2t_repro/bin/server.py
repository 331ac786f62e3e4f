"""Serve a model that t2t-exporter wrote: translations over HTTP, and a page to try it.

    t2t-server --model=RUN/export/STEP
    t2t-server --model=de-en=DIR --model=en-de=DIR

prints a line with its address when it is ready; open it in a browser, or

    curl http://127.0.0.1:8000/translate -d '{"inputs": "A man is sleeping."}'

Sentences of all clients are translated in batches. /healthz says whether it works, /metrics counts
for Prometheus, and who speaks LibreTranslate's protocol is understood; docs/server.md has every
path. It answers this machine alone, unless --host names another address: it knows no passwords, and
no encryption. Ctrl-C or SIGTERM: it answers what it was asked, and ends.
"""

import pathlib
from typing import TYPE_CHECKING

from absl import flags

from t2t_repro import cli, imports
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem

if TYPE_CHECKING:
    from t2t_repro.decoding.engine import Engine


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-server's flags."""
    text = "The folder that t2t-exporter wrote; of several: de-en=DIR,en-de=DIR, or one by one."
    flags.DEFINE_multi_string("model", [], text, flag_values=f)
    text = "The address to listen on; 0.0.0.0 or :: is every one that this machine has."
    flags.DEFINE_string("host", "127.0.0.1", text, flag_values=f)
    text = "The port to listen on; 0: any that is free."
    flags.DEFINE_integer("port", 8000, text, lower_bound=0, upper_bound=65535, flag_values=f)
    for name, default, text in (
        ("max_batch_size", 32, "Translate so many sentences at once, or fewer."),
        ("max_batch_tokens", 4096, "Of long sentences so many tokens at once, padding included."),
        ("batch_timeout_ms", 5, "Milliseconds that a sentence waits for others to join it."),
        ("max_queue", 256, "Sentences that wait; beyond, 503."),
        ("max_sentences", 64, "Sentences or texts in a request; beyond, 413."),
        ("max_body_bytes", 1_000_000, "Bytes in a request; beyond, 413."),
    ):
        least, most = (0, 3_600_000) if name == "batch_timeout_ms" else (1, None)
        flags.DEFINE_integer(
            name, default, text, lower_bound=least, upper_bound=most, flag_values=f
        )
    text = "Tokens in a sentence; beyond, 413. Default: 256, or as many as the model reads."
    flags.DEFINE_integer("max_sentence_tokens", None, text, lower_bound=1, flag_values=f)
    text = "Seconds within which a request must arrive (408), and then its answer be found (504)."
    flags.DEFINE_float("timeout_s", 30.0, text, 0.1, 24 * 3600.0, flag_values=f)
    text = "Your own package of problems: CTranslate2 needs that of a problem of your own."
    flags.DEFINE_string("t2t_usr_dir", None, text, flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Serves until a signal comes."""
    check_installed()
    from t2t_repro.serving import server

    server.serve(cli.request(args, server.ServerSettings), open_engine)


def open_engine(folder: pathlib.Path, problem: Problem, *, searches: int) -> "Engine":
    """Returns CTranslate2 with its model.

    Args:
        folder: of the export.
        problem: what it was trained on.
        searches: how many batches are decoded at the same time.

    Raises:
        UserError: if CTranslate2 cannot be had or cannot compute the model, or a CTranslate2 model
            has another vocabulary than that which lies with it.
    """
    imports.quiet_tensorflow()
    from t2t_repro.export import ctranslate2
    from t2t_repro.process import available_cores

    encoders = problem.feature_encoders(str(folder))
    threads = available_cores() // searches if searches > 1 else 0
    engine = ctranslate2.CTranslate2Engine(folder, threads=threads, searches=searches)
    engine.check_vocabularies(encoders)
    return engine


def check_installed() -> None:
    """Refuses to go on without what the extra brings.

    Raises:
        UserError: naming the extra.
    """
    try:
        import fastapi  # noqa: F401
        import prometheus_client  # noqa: F401
        import sentencex  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"Expected the packages of a server. Received: no {error.name}. Install them by "
            "pip install 't2t_repro[server]'."
        ) from error


console = cli.program(__name__, "t2t-server", __doc__, define_flags, main)
