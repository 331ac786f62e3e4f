"""Downloads from a server of the test's own: whole, resumed, wrong, impossible."""

import hashlib
import http.server
import threading

import pytest

from t2t_repro.corpora import downloads
from t2t_repro.errors import UserError

CONTENT = bytes(range(256)) * 4000  # more than three blocks
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    """Serves `content` under every path; `stop_after` bytes of an answer it breaks off."""

    content = CONTENT
    headers_sent = {"ETag": '"1"'}
    stop_after = None
    ranges_asked: list = []

    def do_GET(self):
        asked = self.headers["Range"]
        type(self).ranges_asked.append(asked)
        start = int(asked[len("bytes=") : -1]) if asked else 0
        if start and self.headers["If-Range"] != self.headers_sent.get("ETag"):
            start = 0
        if start >= len(self.content):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(self.content) - start))
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.content[start:][: self.stop_after])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    """The class of the server's answers, to be changed, and its URL."""
    monkeypatch.setenv("no_proxy", "*")
    answers = type("Answers", (Server,), {"ranges_asked": []})
    running = http.server.HTTPServer(("127.0.0.1", 0), answers)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    answers.url = f"http://127.0.0.1:{running.server_port}/file.gz"
    yield answers
    running.shutdown()
    thread.join()
    running.server_close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_download_goes_on_where_it_stopped_and_appears_when_it_is_whole(tmp_path, server):
    path = tmp_path / "new" / "file.gz"
    server.stop_after = 300_007
    with pytest.raises(UserError, match=f"{server.url} .*{path}"):
        downloads.download(server.url, path)
    assert not path.exists()
    server.stop_after = None
    downloads.download(server.url, path, DIGEST)
    assert path.read_bytes() == CONTENT and server.ranges_asked == [None, "bytes=300007-"]
    assert names(path.parent) == ["file.gz"]


@pytest.mark.parametrize("headers", [{"ETag": '"2"'}, {}, {"ETag": 'W/"1"'}])
def test_a_part_of_another_file_is_not_gone_on_from(tmp_path, server, headers):
    """The file has changed, or nothing says that it has not."""
    path = tmp_path / "file.gz"
    if not headers.get("ETag") == '"2"':
        server.headers_sent = headers
    server.content, server.stop_after = b"old" * 1000, 100
    with pytest.raises(UserError):
        downloads.download(server.url, path)
    server.content, server.stop_after, server.headers_sent = CONTENT, None, headers
    downloads.download(server.url, path, DIGEST)
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("digest, kind", [("abc", "text/plain"), (None, "text/html; charset=x")])
def test_what_is_not_the_file_is_refused_and_nothing_kept(tmp_path, server, digest, kind):
    server.headers_sent = {"Content-Type": kind}
    with pytest.raises(UserError, match=server.url):
        downloads.download(server.url, tmp_path / "file.gz", digest)
    assert names(tmp_path) == []
