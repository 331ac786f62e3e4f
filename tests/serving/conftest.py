"""What the tests of the server share: a model that is no model, and a tiny real export."""

import threading
import types

import pytest

from t2t_repro.serving.exported import Attention, Hypothesis
from t2t_repro.serving.models import ServedModel


class FakeModel:
    """Translates into capitals, and keeps the batches that it was asked for.

    Attributes:
        go: cleared, a batch waits for it.
        began: is set when a batch began.
    """

    name, beam_size, alpha, has_attention, longest = "fake", 3, 0.6, True, 50
    counts_at_once = True
    sha256 = "5ab1"

    def __init__(self):
        self.batches: list[list] = []
        self.go, self.began = threading.Event(), threading.Event()
        self.go.set()

    def count_tokens(self, texts):
        return [len(text.split()) + 1 for text in texts]

    def count_target_tokens(self, texts):
        """A vocabulary that knows no letter in capitals."""
        return [len(text.split()) + 1 + sum(map(str.isupper, text)) for text in texts]

    def translate(self, questions):
        self.batches.append(list(questions))
        self.began.set()
        assert self.go.wait(20)
        if any(question.text == "poison" for question in questions):
            raise RuntimeError("no")
        return [
            [
                Hypothesis(q.text.upper(), -0.25),
                Hypothesis(q.text.title(), None),
            ]
            for q in questions
        ]

    def attend(self, pairs):
        self.batches.append(list(pairs))
        return [
            Attention(s.split(), t.split(), [[0.25] * len(s.split())] * len(t.split()))
            for s, t in pairs
        ]


def served(*models):
    """Models as a server has them: of English and German, German and English."""
    pairs = [("en", "de"), ("de", "en")]
    return [ServedModel(f"{s}-{t}", s, t, m) for (s, t), m in zip(pairs, models, strict=False)]


@pytest.fixture
def model():
    return FakeModel()


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """The folder of an export of a model that was not trained, and what made it."""
    import keras

    from t2t_repro import Transformer, get_hparams
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.export import saved_model
    from t2t_repro.text import SubwordTextEncoder

    keras.utils.set_random_seed(3)
    subtokens = ["<pad>_", "<EOS>_", *"\\_u;0123456789abcdefg ", "ab_", "cd_", ". "]
    encoder = SubwordTextEncoder.from_subtokens(subtokens)
    changes = "hidden_size=8,filter_size=12,num_heads=2,num_hidden_layers=1"
    hparams = get_hparams("transformer_test", changes)
    sizes = {"inputs_vocab_size": len(subtokens), "targets_vocab_size": len(subtokens)}
    made = Transformer.from_hparams(hparams, **sizes)
    for variable in made.variables:
        variable.assign(3 * variable)
    settings = DecodeHParams(beam_size=2, extra_length=20)
    encoders = {"inputs": encoder, "targets": encoder}
    path = tmp_path_factory.mktemp("export") / "7"
    saved_model.convert(made, encoders, path, settings)
    (path / "hparams.json").write_text(hparams.to_json())
    return types.SimpleNamespace(path=path, model=made, encoders=encoders, settings=settings)
