"""The server under requests of all forms, cancelled ones, time that passes and its end.

Each request gets its own answer, of a status that can be; at the end nothing is left.
"""

import asyncio
import threading

import httpx2 as httpx
import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from t2t_repro.serving import app
from t2t_repro.serving.request import ServerRequest
from tests.serving.conftest import FakeModel, served

LIMITS = ServerRequest(max_sentences=4, max_sentence_tokens=20, max_queue=3, max_batch_size=2)
HOW = st.sampled_from(["", "halts", "held", "held"])


def forms_of(n):
    """{form: the n-th request, how many sentences it has, its status, what it translates to}."""
    libre = {"q": f"w{n}\no{n} é", "source": "en", "target": "de"}
    return {
        "t2t": ({"json": {"inputs": [f"w{n}\n\no{n} ", "v"]}}, 3, 200, [f"W{n}\n\nO{n}", "V"]),
        "german": ({"json": {"inputs": [f"g{n}", ""], "model": "de-en"}}, 1, 200, [f"G{n}", ""]),
        "libre": ({"json": libre | {"q": [f"w{n}"]}}, 1, 200, [f"W{n}"]),
        "form": ({"data": libre}, 2, 200, f"W{n}\nO{n} É"),
        "poison": ({"json": {"inputs": "poison"}}, 1, 500, None),
        "no JSON": ({"content": "[" * n}, 0, 400, None),
        "long": ({"json": {"inputs": "w " * 20}}, 0, 413, None),
        "large": ({"content": " " * 1_000_001}, 0, 413, None),
    }


class Asked:
    """A request that is half sent, the statuses that its answer may have, and what it says."""

    def __init__(self, client, loop, sent, sentences, status, says):
        self.sentences, self.may, self.says, self.whole = sentences, {status}, says, asyncio.Event()
        whole = client.build_request("POST", "/translate", **sent)
        body, self.reads = whole.read(), False

        async def halves():
            yield body[: len(body) // 2]
            self.reads = True
            await self.whole.wait()
            yield body[len(body) // 2 :]

        again = client.build_request("POST", whole.url, headers=whole.headers, content=halves())
        self.task = loop.create_task(client.send(again))
        self.done = self.task.done

    @property
    def computes(self):
        return self.sentences and self.whole.is_set() and not self.done()

    def check(self):
        if not self.done() or self.task.cancelled():
            return
        answer = self.task.result()
        assert answer.status_code in self.may
        if answer.status_code == 200:
            found = answer.json()
            texts = [each["translation"] for each in found.get("translations", [])]
            assert (texts or found["translatedText"]) == self.says
        else:
            assert isinstance(answer.json()["error"], str)
            assert (answer.status_code == 503) == ("retry-after" in answer.headers)
            assert answer.status_code != 408 or answer.headers["connection"] == "close"


class ServerMachine(RuleBasedStateMachine):
    """The models of both directions compute only while `go` is set; `began`: they are to."""

    def __init__(self):
        super().__init__()
        self.threads, self.later, self.runner = set(threading.enumerate()), 0.0, asyncio.Runner()
        self.loop = self.runner.get_loop()
        clock = self.loop.time
        self.loop.time = lambda: clock() + self.later
        self.models = one, other = FakeModel(), FakeModel()
        self.go, self.began = other.go, other.began = one.go, one.began
        service = app.create(served(one, other), LIMITS, batch_timeout=0.0)
        self.lifespan = service.router.lifespan_context(service)
        (of,) = [each.endpoint for each in service.routes if each.path == "/healthz"]
        self.batcher = of.__self__.batcher
        self.runner.run(self.lifespan.__aenter__())
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(service), base_url="http://s")
        self.asked, self.closing, self.count = [], None, 0

    def until(self, done):
        async def wait():
            async with asyncio.timeout(50):
                while not done():
                    await asyncio.sleep(0.001)

        self.runner.run(wait())

    def get(self, path):
        self.count += 1
        return self.runner.run(self.client.get(path))

    def computed(self):
        return [{text for batch in model.batches for text in batch} for model in self.models]

    def complete(self, asked):
        """Sends the rest of a request, and waits until it is answered, or a batch is held."""
        waits = sum(each.sentences for each in self.asked if each.computes)
        more = waits + asked.sentences - LIMITS.max_queue
        if asked.sentences and (more > 0 or self.closing):
            of_batch = self.began.is_set() and LIMITS.max_batch_size
            asked.may = {503} if more > of_batch or self.closing else {503, *asked.may}
        began, before = self.began.is_set(), set(self.batcher._waiting)
        asked.whole.set()
        there = (lambda: set(self.batcher._waiting) - before) if began else self.began.is_set
        self.until(lambda: asked.done() or not self.go.is_set() and there())

    @rule(forms=st.lists(st.sampled_from(sorted(forms_of(1))), min_size=1, max_size=4), how=HOW)
    def ask(self, forms, how=""):
        if how == "held" and self.go.is_set():
            self.go.clear(), self.began.clear()
        for form in forms:
            self.count += 1
            self.asked.append(Asked(self.client, self.loop, *forms_of(self.count)[form]))
            if how == "halts":
                self.until(lambda: self.asked[-1].reads)
            else:
                self.complete(self.asked[-1])

    @rule(which=st.integers(0, 5), cancels=st.booleans())
    def end(self, which, cancels=False):
        for asked in self.asked[which : which + 1]:
            if cancels:
                asked.task.cancel()
                self.until(asked.done)
            elif not asked.whole.is_set() and not asked.done():
                self.complete(asked)

    @rule()
    def release(self):
        self.go.set()
        self.until(lambda: not any(asked.computes for asked in self.asked))
        self.until(lambda: not self.closing or self.closing.done())
        self.ask(["german"])  # what is computed for nobody is before it

    @rule()
    def pass_time(self):
        """Beyond the limit: what waits is not computed any more, and makes room."""
        for asked in self.asked:
            if not asked.done():
                asked.may = {504, *asked.may} if asked.computes else {408}
        self.later += 70
        self.until(lambda: all(asked.done() for asked in self.asked))
        english, german = self.computed()
        self.ask(["t2t"])
        self.release()
        if not self.closing:
            english |= {f"w{self.count - 1}", f"o{self.count - 1}", "v"}
            german.add(f"g{self.count}")
        assert self.computed() == [english, german]

    @rule()
    def close(self):
        if not self.closing:
            self.closing = self.loop.create_task(self.lifespan.__aexit__(None, None, None))
            while self.get("/healthz").status_code == 200:
                pass

    @invariant()
    def it_is_alive_and_answers_belong_to_questions(self):
        assert self.get("/healthz").status_code == (503 if self.closing else 200)
        for asked in self.asked:
            asked.check()

    def teardown(self):
        self.release()
        for which in range(len(self.asked)):
            self.end(which)
        self.close()
        self.until(self.closing.done)
        self.it_is_alive_and_answers_belong_to_questions()
        rows = self.get("/metrics").text.splitlines()
        counted = [row.split()[-1] for row in rows if row.startswith("t2t_requests_total{")]
        assert sum(map(float, counted)) == self.count - 1
        assert not asyncio.all_tasks(self.loop)
        self.runner.close()
        english, german = self.computed()
        assert not any(text[0] == "g" for text in english) and all(t[0] == "g" for t in german)
        assert set(threading.enumerate()) <= self.threads


TestServerMachine = ServerMachine.TestCase
TestServerMachine.settings = hypothesis.settings(
    max_examples=40, stateful_step_count=8, deadline=None, derandomize=True, phases=["generate"]
)
