import re
import types

import numpy as np
import pytest

from t2t_repro.decoding import translate
from t2t_repro.decoding.engine import decode
from t2t_repro.decoding.search import Engine
from t2t_repro.decoding.settings import FILLER
from t2t_repro.decoding.translate import Hypothesis
from t2t_repro.errors import UserError


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
        counts, pairs = [], ((line, "") for line in lines)
        windows = translator(settings).translate_windows(pairs, counts.append)
        assert [beams[0].text for _, results in windows for beams in results] == alone
        assert sum(counts) == 13


def begun(made, lines, prefixes):
    """Returns the hypotheses of each line, whose translations begin with the prefixes."""
    windows = made.translate_windows(zip(lines, prefixes, strict=True))
    return [beams for _, results in windows for beams in results]


SAMPLED = (
    "beam_size=1,sampling_method=random,sampling_temp=1.3,sampling_keep_top_k=7,"
    "sampling_keep_top_p=0.95"
)


@pytest.mark.parametrize(
    "settings", ["beam_size=1,return_token_scores=1", "beam_size=4,return_alignments=1", SAMPLED]
)
def test_a_batch_translates_as_its_sentences_one_by_one(translator, settings):
    """With ratios of length and beginnings, which hold for each."""
    lines = ["", *random_lines(5, seed=4)]
    prefixes = ["w9", "", "w5 w8", "w30", "", "w3 w4 w5"]
    made = translator(f"{settings},min_length_ratio=1.4,max_length_ratio=2.5")
    together = begun(made, lines, prefixes)
    assert together[0][0].text == ""
    for line, prefix, (found,) in list(zip(lines, prefixes, together, strict=True))[1:]:
        (((alone,)),) = begun(made, [line], [prefix])
        assert (alone.text, alone.alignment) == (found.text, found.alignment)
        np.testing.assert_allclose(alone.score, found.score, atol=1e-4)
        np.testing.assert_allclose(alone.token_scores or [], found.token_scores or [], atol=1e-4)
        assert found.text.startswith(prefix)
        count, given = len(line.split()), len(prefix.split())
        most = max(int(2.5 * count), given) + (not found.finished)
        assert min(np.ceil(1.4 * count), most) <= len(found.ids) <= most
        assert bool(found.token_scores) == ("token_scores" in settings)
        if found.token_scores:
            assert len(found.token_scores) == len(found.ids) + found.finished
            total = sum(found.token_scores[given:])
            assert total == pytest.approx(found.log_prob, abs=1e-4)
    if settings == SAMPLED:
        backwards = begun(made, lines[::-1], prefixes[::-1])
        assert [h[0].text for h in backwards] == [h[0].text for h in together[::-1]]
        made = translator(f"{settings},min_length_ratio=1.4,max_length_ratio=2.5,sampling_seed=3")
        other = begun(made, lines, prefixes)
        assert [h[0].text for h in other] != [h[0].text for h in together]


def test_limits_of_length(translator):
    """Of sentences of 1, 4 and 7 tokens and their ends, in the numbers that the search counts."""
    sentences = [[5] * count + [1] for count in (1, 4, 7)]
    prefixes = [[3, 3, 3], [], [4]]

    def limits(settings, given=prefixes, **options):
        batch = translator(settings, **options)._inputs(sentences, given)
        return batch.limits.tolist(), batch.facts.get("least", np.zeros(3)).tolist()

    assert limits("extra_length=10", None) == ([12, 15, 18], [0, 0, 0])
    assert limits("extra_length=10") == ([15, 15, 19], [0, 0, 0])
    # at most half as many, but as many as are given and at least one; the end comes on top
    assert limits("max_length_ratio=0.5") == ([4, 3, 4], [0, 0, 0])
    assert limits("max_length_ratio=0.5", None) == ([2, 3, 4], [0, 0, 0])
    assert limits("extra_length=0,min_length_ratio=1.5", None) == ([2, 5, 8], [1, 4, 7])
    assert limits("extra_length=9,min_length_ratio=1.5", None)[1] == [2, 6, 11]
    ten = translator("min_length_ratio=1.1")._inputs([[5] * 10 + [1]], None)
    assert ten.facts["least"].tolist() == [11]
    assert limits("max_length_ratio=0.75,min_length_ratio=0.75", None)[1] == [1, 3, 5]
    exact = limits("extra_length=10", None, t2t_exact=True)
    assert exact == ([18, 18, 18], [0, 0, 0])


def test_an_engine_follows_some_settings_only(translator):
    class Plain(Engine):
        fingerprint = "plain"

        def decode(self, sentences, search):
            return np.ones((len(sentences), 1, 1), "int32"), np.zeros((len(sentences), 1))

    for settings in (SAMPLED, "min_length_ratio=1", "return_token_scores=1"):
        with pytest.raises(UserError):
            translator(settings, engine=Plain())
    made = translator(engine=Plain())
    assert [row[0].text for row in made.translate_lines(["w5", "w6 w7"])] == ["", ""]


def test_a_beginning_needs_words_of_the_vocabulary(translator):
    with pytest.raises(UserError):
        begun(translator(), ["w5", "w5"], ["", "x"])


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
    assert len(warnings) == 1 and re.findall(r"\d+", warnings[0]) == ["2", "5", "4"]
    assert translator().longest == 1024 and translator(t2t_exact=True).longest is None


def test_scores_and_ends_of_hypotheses(translator):
    beams = translator("return_beams=True,alpha=0.7")
    hypotheses = next(iter(beams.translate_lines(["w36 w31 w25"])))
    real = [h for h in hypotheses if h.score > FILLER]
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


def test_what_is_typed_is_answered():
    detailed = Hypothesis("a", [5], -0.5, -0.75, True, [-0.25, -0.5], "0-0")
    found = [detailed, detailed._replace(score=2 * FILLER)]
    stub = types.SimpleNamespace(translate_lines=lambda lines: [found])
    typed, said = iter(["w5", "", " q "]), []
    translate.interact(stub, lambda prompt: next(typed), said.append)
    assert said[1:] == ["a\t-0.5000\t-0.2500 -0.5000\t0-0"]


def test_format(translator):
    hypotheses = [Hypothesis(f"a{i}\tb\nc", [], -i / 3, 0.0, True) for i in range(4)]
    assert translator().format(hypotheses) == "a0\tb c"
    assert translator("return_beams=1").format(hypotheses) == "a0 b c\ta1 b c\ta2 b c\ta3 b c"
    aligned = Hypothesis("a", [], -0.5, 0.0, True, alignment="0-0 1-0")
    assert translator().format([aligned]) == "a\t0-0 1-0"
    scored = translator("return_beams=1,write_beam_scores=1,beam_size=2")
    assert scored.format(hypotheses[1:3]) == "a1 b c\t-0.33\ta2 b c\t-0.67"
    assert scored.format([Hypothesis("", [], 0.0, 0.0, True)]) == "\t0.00\t\t0.00"


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
