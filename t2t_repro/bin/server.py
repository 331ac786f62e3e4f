"""Serve a model that t2t-exporter wrote: translations over HTTP, and a page to try it.

    t2t-server --model=RUN/export/STEP
    t2t-server --model=de-en=DIR --model=en-de=DIR

prints a line with its address when it is ready; open it in a browser, or

    curl http://127.0.0.1:8000/translate -d '{"inputs": "A man is sleeping."}'

Sentences of all clients are translated in batches. /healthz says whether it works, /metrics counts
for Prometheus, and who speaks LibreTranslate's protocol is understood; docs/serving.md has every
path. It answers this machine alone, unless --host names another address: it knows no passwords, and
no encryption. Ctrl-C or SIGTERM: it answers what it was asked, and ends.
"""

from absl import flags

from t2t_repro import cli
from t2t_repro.serving.request import ServerRequest
from t2t_repro.serving.server import serve


def main(args: flags.FlagValues) -> None:
    """Serves until a signal comes."""
    serve(cli.request(args, ServerRequest))


console = cli.program(__name__, "t2t-server", __doc__, (ServerRequest,), main)
