import re

import numpy as np
import pytest

from t2t_repro.decoding import translate
from t2t_repro.decoding.decode import decode
from t2t_repro.decoding.translate import Hypothesis, Translator


def random_lines(count, seed=0):
    rng = np.random.default_rng(seed)
    return [
        " ".join(f"w{i}" for i in rng.integers(3, 37, rng.integers(1, 10))) for _ in range(count)
    ]


def test_lines_keep_their_order_whatever_the_windows_and_batches(translator, monkeypatch):
    lines = random_lines(13)
    alone = [next(iter(translator().translate_lines([line])))[0].text for line in lines]
    assert len(set(alone)) > 5
    monkeypatch.setattr(translate, "WINDOW", 5)
    for settings in ("batch_size=3", ""):
        counts = []
        results = translator(settings).translate_lines(iter(lines), counts.append)
        assert [hypotheses[0].text for hypotheses in results] == alone
        assert sum(counts) == 13


def test_batches_are_bounded_in_sentences_and_tokens(translator, monkeypatch):
    monkeypatch.setattr(translate, "BATCH_TOKENS", 40)
    sentences = [[3] * n for n in (50, 30, 10, 9, 8, 8, 7, 1)]
    batches = translator()._batches(list(range(8)), sentences)
    assert list(batches) == [[0], [1], [2, 3, 4, 5], [6, 7]]
    assert [len(b) for b in translator("batch_size=3")._batches(list(range(8)), sentences)] == [
        3,
        3,
        2,
    ]


def test_empty_lines_stay_empty(translator):
    results = list(translator("return_beams=True").translate_lines(["", "w5 w7", " \t "]))
    assert [len(r) for r in results] == [1, 4, 1]
    assert results[0] == results[2] == [Hypothesis("", [], 0.0, 0.0, True)]


def test_long_inputs_are_cut_with_a_warning(translator):
    warnings = []
    cut = translator("max_input_size=4", warn=warnings.append)
    lines = ["w5 w7 w9", "w5 w7 w9 w11"]
    same, other = cut.translate_lines(lines)
    assert same == other
    assert len(warnings) == 1 and warnings[0].startswith("Line 2 has 5 tokens; 4 of them are")
    assert translator().longest == 1024 and translator(t2t_exact=True).longest is None


def test_learned_positions_bound_the_input(trained, translator):
    one = trained("learned_positions")
    assert Translator(one.model, translator().encoders).longest == one.hparams.max_length


def test_scores_and_ends_of_hypotheses(translator):
    beams = translator("return_beams=True,alpha=0.7")
    hypotheses = next(iter(beams.translate_lines(["w36 w31 w25"])))
    real = [h for h in hypotheses if h.score > translate.FILLER]
    assert len(real) >= 2
    for h in real:
        assert h.finished and 1 not in h.ids
        penalty = ((5 + len(h.ids) + 1) / 6) ** 0.7
        assert h.log_prob == pytest.approx(h.score * penalty)
    greedy = next(iter(translator("beam_size=1").translate_lines(["w5 w7 w9"])))[0]
    assert greedy.log_prob == greedy.score
    cut = translator()._hypothesis([5, 0, 7, 0, 0], -3.0)
    assert cut == Hypothesis("w5 w0 w7", [5, 0, 7], -3.0, -3.0, False)


def test_exact_batches_are_those_of_tensor2tensor(translator, base):
    """Longest first by words, 32 a batch; the limit follows the longest of the batch."""
    lines = random_lines(9, seed=3) + [""]
    exact = translator("batch_size=4,extra_length=3", t2t_exact=True)
    results = list(exact.translate_lines(lines))
    order = sorted(range(10), key=lambda i: -len(lines[i].split()))
    for start in (0, 4, 8):
        batch = [exact.encoders["inputs"].encode(lines[i]) + [1] for i in order[start : start + 4]]
        inputs = np.zeros((len(batch), len(batch[0])), "int32")
        for row, ids in zip(inputs, batch, strict=True):
            row[: len(ids)] = ids
        ids, scores = decode(base.model, inputs, decode_length=3)
        for i, row, score in zip(order[start : start + 4], ids[:, 0].tolist(), scores, strict=True):
            assert results[i][0].ids == row[: row.index(1) if 1 in row else None]
            assert results[i][0].score == pytest.approx(float(score[0]))


def test_format(translator):
    hypotheses = [Hypothesis(f"a{i}\tb\nc", [], -i / 3, 0.0, True) for i in range(4)]
    assert translator().format(hypotheses) == "a0\tb c"
    assert translator("return_beams=1").format(hypotheses) == "a0 b c\ta1 b c\ta2 b c\ta3 b c"
    scored = translator("return_beams=1,write_beam_scores=1,beam_size=2")
    assert scored.format(hypotheses[1:3]) == "a1 b c\t-0.33\ta2 b c\t-0.67"
    assert scored.format([Hypothesis("", [], 0.0, 0.0, True)]) == "\t0.00\t\t0.00"


def test_identity_output(translator):
    ids = next(iter(translator().translate_lines(["w5 w7"])))[0].ids
    text = next(iter(translator("identity_output=True").translate_lines(["w5 w7"])))[0].text
    assert text == " ".join(map(str, ids)) and ids


def test_what_follows_the_end_is_written_on_request(base, translator):
    lines = [" ".join(f"w{i}" for i in row if i > 1) for row in base.inputs]

    def hypotheses(settings):
        results = translator(f"beam_size=1,extra_length=7{settings}").translate_lines(lines)
        return [result[0] for result in results]

    plain, forced = hypotheses(""), hypotheses(",force_decode_length=1")
    assert any(h.finished for h in plain)
    assert [h.text for h in forced] == [h.text for h in plain]
    np.testing.assert_allclose([h.score for h in forced], [h.score for h in plain], atol=1e-4)
    shown = hypotheses(",force_decode_length=1,skip_eos_postprocess=1")
    for line, short, whole in zip(lines, plain, shown, strict=True):
        known = short.ids + [1] * short.finished
        assert whole.ids[: len(known)] == known
        assert len(whole.ids) == len(line.split()) + 1 + 7


def test_interactive(translator):
    typed, said = iter(["w5 w7", "", " q "]), []
    translate.interact(translator("return_beams=1"), lambda prompt: next(typed), said.append)
    assert len(said) == 5 and re.search(r"\t-\d+\.\d{4}$", said[1])

    def end(prompt):
        raise EOFError

    translate.interact(translator(), end, said.append)
