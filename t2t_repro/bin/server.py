"""t2t-server: serves translations of an export over HTTP, with a page to try it.

    t2t-server --model=RUN/export/STEP
    t2t-server --model=de-en=DIR --model=en-de=DIR

prints its address when it is ready; open it in a browser, or

    curl http://127.0.0.1:8000/translate -d '{"inputs": "A man is sleeping."}'

Sentences of all clients are translated in batches. /healthz reports health, /metrics is for
Prometheus, and clients may use LibreTranslate's protocol; docs/serving.md has every path. It has no
passwords and no encryption. It therefore answers only this machine, unless you give --host.
On Ctrl-C or SIGTERM it answers pending requests and ends.
"""

from absl import flags

from t2t_repro import cli
from t2t_repro.serving.request import ServerRequest
from t2t_repro.serving.server import serve


def main(args: flags.FlagValues) -> None:
    """Serves until a signal comes."""
    serve(cli.request(args, ServerRequest))


console = cli.program(__name__, "t2t-server", __doc__, (ServerRequest,), main)
