"""Every BLEU that readers of the paper need, each with its signature.

The numbers differ by points on the same two files, because they cut text into tokens differently:

* `sacrebleu`, `sacrebleu_lowercase`: tokenised as WMT's mteval-v13a; into characters for scripts
  without spaces. The one to report.
* `chrf2`: character n-grams, for languages where words are a poor unit.
* `t2t_uncased`, `t2t_cased`: what tensor2tensor's `t2t-bleu` prints (mteval-v14, international).
* `compound_split`: the tokenised BLEU after splitting hyphenated compounds, in which the paper's
  En-De 28.4 was reported; see `moses_tokenize_german`.
"""

import dataclasses
import functools
import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Hashable, Sequence

from t2t_repro.errors import UserError

_SPACELESS = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")
_JUDGED = 1000  # sentences


@dataclasses.dataclass(frozen=True)
class Score:
    """A score in percent and the signature that says how it was computed."""

    score: float
    signature: str


@dataclasses.dataclass(frozen=True)
class BleuScores:
    """The result of `score`; the module's docstring describes each."""

    sacrebleu: Score
    sacrebleu_lowercase: Score
    chrf2: Score
    t2t_uncased: Score
    t2t_cased: Score
    compound_split: Score
    sentences: int

    def as_dict(self) -> dict:
        """Returns {"sacrebleu": {"score": ..., "signature": ...}, ..., "sentences": ...}."""
        return dataclasses.asdict(self)


class SacreBleu:
    """`BleuScores.sacrebleu` of any number of translations of the same sentences.

    Args:
        references: as those of `score`.
    """

    def __init__(self, references: Sequence[str]):
        from sacrebleu.metrics import BLEU

        _check(references, references)
        self._references = references
        tokenize = tokenizer_of(references)
        self._metric = BLEU(references=[references], tokenize=tokenize, force=True)
        self.signature = str(self._metric.get_signature())

    def score(self, hypotheses: Sequence[str]) -> float:
        """Returns the BLEU in percent of one translation for each reference."""
        _check(hypotheses, self._references)
        return self._metric.corpus_score(hypotheses, None).score


def score(hypotheses: Sequence[str], references: Sequence[str]) -> BleuScores:
    """Scores translations against one reference each.

    Args:
        hypotheses: translations as a reader sees them: detokenised, with case.
        references: the reference translations, in the same order and form.

    Returns:
        Every BLEU, in percent, over the corpus.
    """
    _check(hypotheses, references)
    from sacrebleu.metrics import BLEU, CHRF

    tokenize = tokenizer_of(references)

    def library(metric: BLEU | CHRF) -> Score:
        value = metric.corpus_score(hypotheses, [references]).score
        return Score(value, str(metric.get_signature()))

    def tokenised(tokenize, smooth: bool, lower: bool, signature: str) -> Score:
        def prepare(lines: Sequence[str]) -> list[list[str]]:
            return [tokenize(line.lower() if lower else line) for line in lines]

        value = token_bleu(prepare(hypotheses), prepare(references), smooth=smooth)
        return Score(100 * value, signature)

    t2t = "t2t-bleu|nrefs:1|case:{}|tok:mteval-v14|smooth:exp|version:1.15.7"
    return BleuScores(
        sacrebleu=library(BLEU(tokenize=tokenize)),
        sacrebleu_lowercase=library(BLEU(lowercase=True, tokenize=tokenize, force=True)),
        chrf2=library(CHRF()),
        t2t_uncased=tokenised(t2t_tokenize, True, True, t2t.format("lc")),
        t2t_cased=tokenised(t2t_tokenize, True, False, t2t.format("mixed")),
        compound_split=tokenised(
            lambda line: split_compounds(moses_tokenize_german(line)),
            smooth=False,
            lower=False,
            signature="multi-bleu|nrefs:1|case:mixed|tok:moses-de+##AT##|smooth:none",
        ),
        sentences=len(hypotheses),
    )


def tokenizer_of(references: Sequence[str]) -> str:
    """Returns sacreBLEU's tokeniser for a text: 13a if spaces separate words.

    Where most letters are of a script without spaces, a sentence would be one token, and BLEU 0:
    "zh", which separates Chinese characters and treats the rest as 13a, or "char" for other
    scripts, as in Japanese or Thai.
    """
    scripts = Counter(
        unicodedata.name(letter, "").partition(" ")[0]
        for line in references[:_JUDGED]
        for letter in line
        if letter.isalpha()
    )
    spaceless = sum(scripts[script] for script in _SPACELESS)
    if 2 * spaceless <= scripts.total():
        return "13a"
    return "zh" if scripts["CJK"] >= 0.9 * spaceless else "char"


def token_bleu(
    hypotheses: Sequence[Sequence[Hashable]],
    references: Sequence[Sequence[Hashable]],
    *,
    max_order: int = 4,
    smooth: bool = True,
) -> float:
    """Returns the BLEU, between 0 and 1, of sequences of tokens of any kind.

    Args:
        hypotheses: the tokens of each translation.
        references: the tokens of each reference.
        max_order: the longest n-gram.
        smooth: True: as T2T, the k-th order without a match counts 1/2^k matches, and an order
            that has no n-gram at all is left out of the sum of logarithms. False: as
            multi-bleu.perl, an order without a match makes the score 0.
    """
    matches, totals = [0] * max_order, [0] * max_order
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, max_order + 1):
            ngrams = _ngrams(hypothesis, n)
            totals[n - 1] += ngrams.total()
            matches[n - 1] += (ngrams & _ngrams(reference, n)).total()
    if not any(totals):
        return 0.0
    log_precision, halving = 0.0, 1.0
    for match, total in zip(matches, totals, strict=True):
        if match:
            log_precision += math.log(match / total)
        elif not smooth:
            return 0.0
        elif total:
            halving *= 2
            log_precision -= math.log(halving * total)
    ratio = sum(map(len, references)) / sum(map(len, hypotheses))
    return math.exp(log_precision / max_order + min(0.0, 1 - ratio))


def t2t_tokenize(line: str) -> list[str]:
    """Cuts a line as `t2t-bleu` does: mteval-v14's international rules.

    Punctuation is cut off unless digits stand on both sides; symbols always are. sacrebleu's
    tokeniser `intl` differs from T2T's in two ways, which this function takes T2T's side in: T2T
    does not take the backslash for punctuation, and takes for digits the decimal ones alone (not
    such numbers as "½").
    """
    before, after, symbol = _t2t_rules()
    line = before.sub(r"\1 \2 ", line)
    line = after.sub(r" \1 \2", line)
    return symbol.sub(r" \1 ", line).split()


@functools.cache
def _t2t_rules():
    import regex  # \p{...}; sacrebleu depends on it as well

    return (
        regex.compile(r"(\D)((?!\\)\p{P})"),
        regex.compile(r"((?!\\)\p{P})(\D)"),
        regex.compile(r"(\p{S})"),
    )


def split_compounds(tokens: Sequence[str]) -> list[str]:
    """Splits tokens at hyphens as papers since GNMT did: "a-b" becomes "a", "##AT##-##AT##", "b".

    The script that made those papers' numbers, `s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g` in Perl, sees
    bytes, and one character cannot serve two hyphens: "A-B-C" keeps its second hyphen, "A-Ö-C"
    (two bytes) does not. So does this function.
    """
    line = " ".join(tokens).encode()
    return re.sub(rb"(\S)-(\S)", rb"\1 ##AT##-##AT## \2", line).decode().split()


def moses_tokenize_german(line: str) -> list[str]:
    """Cuts a line as Moses' `tokenizer.perl -l de` does.

    Covered: control characters dropped; every character other than letters, digits and . ' ` , -
    stands alone; runs of dots stay together; commas are cut off except between digits; an
    apostrophe stands alone; a final dot is cut off except after an abbreviation (a list, or letters
    with a dot inside), after an ordinal up to 99, and before a word in lower case. Not covered,
    because they cannot change BLEU or are not asked for by the papers' script: escaping of XML
    characters, aggressive hyphens, protected patterns, other languages.
    """
    special, comma_after, comma_before, comma_last, letter, lower = _moses_rules()
    line = re.sub(r"[\x00-\x08\x0e-\x1f]", "", line)
    line = special.sub(r" \1 ", " ".join(line.split()))
    line = re.sub(r"\.{2,}", lambda dots: f" {_DOTS * len(dots[0])} ", line)
    line = comma_after.sub(r"\1 , ", line)
    line = comma_before.sub(r" , \1", line)
    line = comma_last.sub(r"\1 ,", line)
    words = line.replace("'", " ' ").split()
    tokens = []
    for word, following in itertools.zip_longest(words, words[1:]):
        stem = word.removesuffix(".")
        keeps_its_dot = following is not None and (
            ("." in stem and letter.search(stem))
            or stem in _GERMAN_ABBREVIATIONS
            or lower.match(following)
        )
        if stem and stem != word and not keeps_its_dot:
            tokens += [stem, "."]
        else:
            tokens.append(word.replace(_DOTS, "."))
    return tokens


@functools.cache
def _moses_rules():
    import regex

    return (
        regex.compile(r"([^\p{Alphabetic}\p{Nd}\s.'`,\-])"),
        regex.compile(r"(\P{N}),"),
        regex.compile(r",(\P{N})"),
        regex.compile(r"(\p{N}),$"),
        regex.compile(r"\p{Alphabetic}"),
        regex.compile(r"\p{Lowercase}"),
    )


_DOTS = "\ufdd0"  # stands for a dot of "..." while single dots are looked at; never a character
_ROMAN = "I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII XVIII XIX XX"
_GERMAN_ABBREVIATIONS = frozenset(
    [
        *"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
        *_ROMAN.split(),
        *_ROMAN.lower().split(),
        *map(str, range(1, 100)),
        # titles
        *"Adj Adm Adv Asst Bart Bldg Brig Bros Capt Cmdr Col Comdr Con Corp Cpl DR Dr Ens".split(),
        *"Gen Gov Hon Hosp Insp Lt MM MR MRS MS Maj Messrs Mlle Mme Mr Mrs Ms Msgr Op Ord".split(),
        *"Pfc Ph Prof Pvt Rep Reps Res Rev Rt Sen Sens Sfc Sgt Sr St Supt Surg".split(),
        # words; those with a dot and a letter inside need no entry
        *"BSE Buchst Chr Co Dkr Ltd Mio Mrd MwSt SA Std Zt bzgl bzw dergl dgl etc evtl ff".split(),
        *"ggf jun sen sog sogen spp usf usw vgl vs zzt".split(),
        # before numbers
        *"Art Ca No Nos Nr ca pp".split(),
    ]
)


def _ngrams(tokens: Sequence[Hashable], n: int) -> Counter:
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def _check(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    for name, lines in (("hypotheses", hypotheses), ("references", references)):
        if isinstance(lines, str) or not all(isinstance(line, str) for line in lines):
            raise UserError(
                f"Expected {name} to be a list of strings, one for each sentence. "
                f"Received: {lines!r:.80}."
            )
    counts = f"{len(hypotheses)} hypotheses and {len(references)} references"
    if len(hypotheses) != len(references):
        raise UserError(
            f"Expected one reference for each hypothesis. Received: {counts}. Give files with the "
            "same sentences in the same order."
        )
    if not hypotheses:
        raise UserError(f"Expected at least one sentence to score. Received: {counts}.")
