"""What the tests of the server share: a model that is no model, and a tiny real export."""

import threading

import pytest

from t2t_repro.serving.models import Attention, Hypothesis, ServedModel
from tests.provenances import recorded


class FakeModel:
    """Translates into capitals, and keeps the batches that it was asked for.

    Attributes:
        go: cleared, a batch waits for it.
        began: is set when a batch began.
    """

    has_attention, counts_at_once, longest, sha256 = True, True, 50, "5ab1"

    def __init__(self):
        self.batches: list[list] = []
        self.go, self.began = threading.Event(), threading.Event()
        self.go.set()

    def count_tokens(self, texts):
        return [len(text.split()) + 1 for text in texts]

    def count_target_tokens(self, texts):
        """A vocabulary that knows no letter in capitals."""
        return [len(text.split()) + 1 + sum(map(str.isupper, text)) for text in texts]

    def translate(self, texts, beams):
        self.batches.append(list(texts))
        self.began.set()
        assert self.go.wait(20)
        if "poison" in texts:
            raise RuntimeError("no")
        return [[Hypothesis(t.upper(), -0.25), Hypothesis(t.title(), None)] for t in texts]

    def attend(self, pairs):
        self.batches.append(list(pairs))
        return [
            Attention(s, t, s.split(), t.split(), [[0.25] * len(s.split())] * len(t.split()))
            for s, t in pairs
        ]


def served(*models, pairs=(("en", "de"), ("de", "en"))):
    """Models as a server has them: of English and German, German and English."""
    record = recorded("saved_model")
    named = zip(pairs, models, strict=False)
    return [ServedModel("-".join(pair).strip("-"), *pair, "", record, m) for pair, m in named]


@pytest.fixture
def model():
    return FakeModel()
