"""The public door leads to all that it names, and keeps what its documentation writes."""

import numpy as np
import pytest

import t2t_repro
from t2t_repro.text import ShiftedEncoder

WORDS = ["[UNK]", "ein", "Hund"]  # the first is what would be padding here
ENCODER = ShiftedEncoder(
    lambda text: map(WORDS.index, text.split()), lambda ids: " ".join(WORDS[i] for i in ids), 3
)


def test_the_door_shows_what_it_leads_to():
    assert all(hasattr(t2t_repro, name) for name in t2t_repro.__all__)
    with pytest.raises(AttributeError, match="Transfomer"):
        t2t_repro.Transfomer  # noqa: B018


class Echo:
    """An engine that translates a sentence by itself."""

    cannot, learned_positions, sees_padding = frozenset(), None, False

    def decode_all(self, batches, search):
        assert (search.beam_size, search.alpha) == (2, 0.3)
        return [(each.inputs[:, None], np.zeros((len(each), 1))) for each in batches]


def test_another_librarys_tokenizer_translates(tmp_path, monkeypatch):
    assert ENCODER.encode("[UNK] Hund") == [2, 4] and ENCODER.decode([2, 4, 1, 0]) == "[UNK] Hund"
    sizes = dict.fromkeys(("inputs_vocab_size", "targets_vocab_size"), ENCODER.vocab_size)
    model = t2t_repro.Transformer.from_hparams("transformer_test", **sizes, num_hidden_layers=1)
    assert model.hparams == t2t_repro.get_hparams("transformer_test", num_hidden_layers=1)
    t2t_repro.write_attention_page(model, tmp_path / "a.html", "ein Hund", ENCODER, target="Hund")
    assert "ein Hund" in (tmp_path / "a.html").read_text(encoding="utf-8")
    monkeypatch.setattr("t2t_repro.decoding.engine.engine_of", lambda model: Echo())
    lines = ["ein Hund", "", "Hund [UNK] Hund"]
    assert t2t_repro.translate(model, lines, ENCODER, beam_size=2, alpha=0.3) == lines
