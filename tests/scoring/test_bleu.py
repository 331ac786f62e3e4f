import dataclasses
import json
import pathlib
import re
import unicodedata

import pytest
import sacrebleu

from t2t_repro.errors import UserError
from t2t_repro.scoring import bleu

GOLDEN = json.loads(
    (pathlib.Path(__file__).parents[1] / "golden" / "text" / "bleu.json").read_text("utf-8")
)
# What Perl prints for these four: tokenizer.perl -l de, the ##AT## line, multi-bleu.perl.
MULTI_BLEU = [100.00, 88.06, 62.98, 36.71]


@pytest.mark.parametrize("case", range(4))
def test_equals_t2t_sacrebleu_and_the_papers_script(case):
    hypotheses, references = GOLDEN[case]["hypotheses"], GOLDEN[case]["references"]
    result = bleu.score(hypotheses, references)
    assert result.t2t_uncased.score / 100 == pytest.approx(GOLDEN[case]["uncased"], abs=1e-6)
    assert result.t2t_cased.score / 100 == pytest.approx(GOLDEN[case]["cased"], abs=1e-6)
    assert round(result.compound_split.score, 2) == MULTI_BLEU[case]
    for ours, theirs in [
        (result.sacrebleu, sacrebleu.corpus_bleu(hypotheses, [references])),
        (
            result.sacrebleu_lowercase,
            sacrebleu.corpus_bleu(hypotheses, [references], lowercase=True),
        ),
        (result.chrf2, sacrebleu.corpus_chrf(hypotheses, [references])),
    ]:
        assert ours.score == theirs.score
    assert result.sentences == 220


def test_every_score_has_its_signature():
    result = bleu.score(["Ein Hut."], ["Ein roter Hut."])
    version = sacrebleu.__version__
    assert result.sacrebleu.signature == (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    )
    assert "case:lc" in result.sacrebleu_lowercase.signature
    assert "nc:6|nw:0" in result.chrf2.signature
    assert result.t2t_uncased.signature == (
        "t2t-bleu|nrefs:1|case:lc|tok:mteval-v14|smooth:exp|version:1.15.7"
    )
    assert "case:mixed" in result.t2t_cased.signature
    assert "tok:moses-de+##AT##" in result.compound_split.signature
    as_dict = result.as_dict()
    assert as_dict.pop("sentences") == 1
    assert list(as_dict) == [f.name for f in dataclasses.fields(result)][:-1]
    assert all(set(score) == {"score", "signature"} for score in as_dict.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.sentences = 2


def test_t2t_tokenize_equals_a_literal_reading_of_t2t():
    """T2T puts every punctuation character, unescaped, between square brackets."""
    every = [chr(i) for i in range(0x30000)]
    punctuation = "".join(c for c in every if unicodedata.category(c).startswith("P"))
    symbols = "".join(c for c in every if unicodedata.category(c).startswith("S"))

    def naive(line):
        line = re.sub(r"([^\d])([" + punctuation + "])", r"\1 \2 ", line)
        line = re.sub("([" + punctuation + r"])([^\d])", r" \1 \2", line)
        return re.sub("([" + symbols + "])", r" \1 ", line).split()

    for line in [
        "Am 3.5., um 1,234.56 Uhr: „E-Mail“ (d.h. 100%)!",
        "c:\\tmp\\x \\. a\\b 1½. ½,x ². Ⅷ.",
        "in 2017.",
        "...--'' [x]_y^z ~`| $5€ 5$",
        "北京、2017年。 ٣.٣ ١،x",
        "\u00a0a\u2028b\u0301.",
    ]:
        assert bleu.t2t_tokenize(line) == naive(line)


# What tokenizer.perl -l de prints, its XML escapes undone.
@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        (
            'Herr Dr. Müller, z.B. am 3. Mai: "E-Mail-Adresse"...',
            'Herr Dr. Müller , z.B. am 3. Mai : " E-Mail-Adresse " ...',
        ),
        ("Es kostet 1,5 Mio. Euro, nicht 2,", "Es kostet 1,5 Mio. Euro , nicht 2 ,"),
        ("Am 100. Tag war es gut. und aus. Ende.", "Am 100 . Tag war es gut. und aus . Ende ."),
        ("Karl's Haus im 99. Jahr", "Karl ' s Haus im 99. Jahr"),
        ("Naja ... oder..Was ?", "Naja ... oder .. Was ?"),
        ("A,B,C,1,D", "A , B , C , 1 , D"),
        ("„Ja“, sagte er – 50% & mehr", "„ Ja “ , sagte er – 50 % & mehr"),
        ("x\x01y\u00a0z  .", "xy z ."),
        ("   ", ""),
    ],
)
def test_moses_german(line, tokens):
    assert bleu.moses_tokenize_german(line) == tokens.split()


@pytest.mark.parametrize(
    ("tokens", "split"),
    [
        ("E-Mail-Adresse", "E ##AT##-##AT## Mail ##AT##-##AT## Adresse"),
        ("A-B-C", "A ##AT##-##AT## B-C"),
        ("A-Ö-C", "A ##AT##-##AT## Ö ##AT##-##AT## C"),
        ("- -x x-", "- -x x-"),
    ],
)
def test_split_compounds_as_the_perl_line_does(tokens, split):
    assert bleu.split_compounds(tokens.split()) == split.split()


def test_token_bleu_by_hand():
    # 4 of 4 words, 2 of 3 pairs, 1 of 2 triples; no 4-gram matches: counts half
    hypothesis, reference = [1, 2, 3, 4], [1, 2, 3, 9, 4]
    expected = (1 * 2 / 3 * 1 / 2 * 1 / 2) ** 0.25 * 2.718281828459045 ** (1 - 5 / 4)
    assert bleu.token_bleu([hypothesis], [reference]) == pytest.approx(expected)
    assert bleu.token_bleu([hypothesis], [reference], smooth=False) == 0
    assert bleu.token_bleu([hypothesis], [reference], max_order=3, smooth=False) == pytest.approx(
        (1 * 2 / 3 * 1 / 2) ** (1 / 3) * 2.718281828459045 ** (1 - 5 / 4)
    )


def test_token_bleu_at_the_edges():
    # too short for an order: T2T leaves the order out, multi-bleu.perl gives 0
    assert bleu.token_bleu([["a", "b"]], [["a", "b"]]) == 1
    assert bleu.token_bleu([["a", "b"]], [["a", "b"]], smooth=False) == 0
    assert bleu.token_bleu([[]], [["a"]]) == 0
    # no brevity penalty for a translation that is longer
    assert bleu.token_bleu([list("abcde")], [list("abcd")], max_order=1) == pytest.approx(4 / 5)


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a"], ["a", "b"], "1 .* 2"),
        ([], [], "0"),
        ("text", ["text"], "hypotheses.*'text'"),
        (["a"], [["a"]], "references"),
    ],
)
def test_wrong_input(hypotheses, references, message):
    with pytest.raises(UserError, match=message):
        bleu.score(hypotheses, references)


@pytest.mark.parametrize(
    "reference, other, tokenizer",
    [
        ("Ein Hund rennt über die grüne Wiese 草.", "Ein Hund rennt über die Wiese 草.", "13a"),
        ("一只狗在绿色的草地上奔跑 GPS。", "一只狗在绿色的草地上跑 GPS。", "zh"),
        ("犬が緑の草原を走っています。", "犬が緑の草原を走っていた。", "char"),
        ("สุนัขกำลังวิ่งอยู่บนสนามหญ้า", "สุนัขกำลังวิ่งบนสนามหญ้า", "char"),
    ],
)
def test_scripts_without_spaces_are_parted_into_characters(reference, other, tokenizer):
    assert bleu.tokenizer_of([reference]) == tokenizer
    found, same = bleu.score([other], [reference]).sacrebleu, bleu.SacreBleu([reference])
    assert f"|tok:{tokenizer}|" in found.signature and found.signature == same.signature
    assert found.score == same.score([other])
    assert 30 < found.score < 100
