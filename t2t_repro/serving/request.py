"""The request of t2t-server."""

import dataclasses
from collections.abc import Sequence

from t2t_repro.fields import flag


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServerRequest:
    """The flags of t2t-server."""

    model: Sequence[str] = flag(
        (), "A folder that t2t-exporter wrote. Two models: --model=de-en=DIR --model=en-de=DIR."
    )
    cors_origin: Sequence[str] = flag(
        (), "A site whose pages may send requests (CORS), such as https://example.org; *: any site."
    )
    host: str = flag("127.0.0.1", "The address to listen on; 0.0.0.0 or :: for all addresses.")
    port: int = flag(8000, "The port to listen on; 0: any free port.", least=0, most=65535)
    max_batch_size: int = flag(32, "At most N sentences in a batch.", least=1)
    max_queue: int = flag(256, "At most N sentences wait; others get status 503.", least=1)
    max_sentences: int = flag(64, "At most N sentences in a request (else status 413).", least=1)
    max_sentence_tokens: int = flag(256, "At most N tokens a sentence (else status 413).", least=1)
    timeout_s: float = flag(
        30.0, "Seconds to receive a request (else status 408), or answer it (else 504).", least=0.1
    )
    t2t_usr_dir: str | None = flag(None, "Your package of problems; CTranslate2 models need it.")
