"""The request of t2t-server."""

import dataclasses
from collections.abc import Sequence

from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerRequest:
    """The flags of t2t-server."""

    model: Sequence[str] = flag(
        (), "The folder that t2t-exporter wrote; of several: --model=de-en=DIR --model=en-de=DIR."
    )
    cors_origin: Sequence[str] = flag(
        (), "The site whose pages may ask from a browser, such as https://example.org; *: all."
    )
    host: str = flag("127.0.0.1", "The address to listen on; 0.0.0.0 and :: are all of them.")
    port: int = flag(8000, "The port to listen on; 0: any that is free.", least=0, most=65535)
    max_batch_size: int = flag(32, "Most sentences in a batch.", least=1)
    max_queue: int = flag(256, "Most sentences that wait; beyond, 503.", least=1)
    max_sentences: int = flag(64, "Most sentences or texts in a request; beyond, 413.", least=1)
    max_sentence_tokens: int = flag(256, "Most tokens in a sentence; beyond, 413.", least=1)
    timeout_s: float = flag(30.0, "Seconds to receive a request (408), to answer (504).", least=0.1)
    t2t_usr_dir: str | None = flag(
        None, "Your own package of problems: CTranslate2 needs that of a problem of your own."
    )
