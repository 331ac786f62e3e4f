"""Each kind of fault is found where it was put, and nowhere else."""

import json
import random
import unicodedata

import pytest

from t2t_repro.corpora import bad_pairs
from t2t_repro.corpora.checks import examine
from t2t_repro.corpora.checks.examine import path_of

# Sentences without sense, word by word in two languages.
WORDS = (
    "the small girl boy dog horse house river street window garden mother teacher friend bread "
    "water morning evening sees finds loves carries opens closes paints forgets beside under near "
    "without old young green quiet heavy bright"
).split()
GERMAN = (
    "die kleine Mädchen Junge Hund Pferd Haus Fluss Straße Fenster Garten Mutter Lehrerin Freund "
    "Brot Wasser Morgen Abend sieht findet liebt trägt öffnet schließt streicht vergisst neben "
    "unter nahe ohne alte junge grüne ruhige schwere helle"
).split()
SPELT = dict(zip(WORDS, GERMAN, strict=True))
LATIN, CYRILLIC = "abcdefghijklmnopqrstuvwxyz", "абцдефгхийклмнопярстужвхыз"
N = 1500


def clean(count=N, seed=3):
    rng, seen = random.Random(seed), set()
    while len(seen) < count:
        seen.add(tuple(rng.choices(WORDS, k=rng.randint(6, 13))))
    return [
        (" ".join(words).capitalize() + ".", " ".join(SPELT[word] for word in words) + ".")
        for words in rng.sample(sorted(seen), count)
    ]


def check(train, dev=()):
    return examine.examine({"train": lambda: iter(train), "dev": lambda: iter(dev)})


def found(report, name, split="train"):
    """The lines of a split that a check found, from 0."""
    bit = [each.check.name for each in report.findings].index(name)
    return [i for i, marks in enumerate(report.marks[split]) if marks >> bit & 1]


PAIRS, DEV = clean(), clean(40, seed=4)
LEAK = dict(zip((5, 600, 1499), DEV, strict=False))
AT = (7, 40, 801)
FAULTS = {
    "empty": lambda s, t: ("", t),
    "blank": lambda s, t: ("", ""),
    "copy": lambda s, t: (s, s),
    "markup": lambda s, t: (s, t.replace(".", " <b>x</b>")),
    "invisible": lambda s, t: (s[:4] + "\u200b" + s[4:], t),
    "encoding": lambda s, t: (s, f"{t} Mädchen".encode().decode("cp1252")),
    "swapped": lambda s, t: (t, s),
    "wrong_script": lambda s, t: (s, "Мужчина в чёрной куртке ждёт автобус"),
    "length_ratio": lambda s, t: (s, t[:7]),
}


@pytest.mark.parametrize(
    "line, marks",
    [
        ("הקובץ (GTK) נפתח", "\u200e\u200f\u202a\u202b\u202c\u2066\u2069"),
        ("فتح الملف (GTK)", "\u061c\u200c\u200e\u200f\u202a\u202b\u202c\u2066\u2069"),
        ("เปิดแฟ้ม (GTK)", "\u200b"),
    ],
)
def test_marks_without_width_belong_to_the_scripts_that_need_them(line, marks):
    of_script = [(PAIRS[0][0], line.replace("(", f"( {mark}")) for mark in marks]
    latin = [(PAIRS[0][0], f"Datei ( {mark}GTK)") for mark in marks]
    other = [(PAIRS[0][0], line + "\ufeff"), (f"open \u200b{PAIRS[0][0]}", line)]
    faults = range(len(PAIRS) + len(marks), len(PAIRS) + 2 * len(marks) + 2)
    assert found(check([*PAIRS, *of_script, *latin, *other]), "invisible") == list(faults)


def test_nothing_is_found_in_clean_pairs():
    report = check(PAIRS, DEV)
    assert {each.check.name: each.count for each in report.findings if each.count} == {}
    assert report.num_bad_pairs() == 0 and not report.errors
    assert len(list(report.lines())) == 1 and not report.notes


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_where_it_is(name):
    train = list(PAIRS)
    for i in AT:
        train[i] = FAULTS[name](*train[i])
    report = check(train, DEV)
    assert found(report, name) == list(AT)
    (of,) = (each for each in report.findings if each.check.name == name)
    assert (of.count, of.counts, of.first[0].line) == (3, {"train": 3, "dev": 0}, AT[0] + 1)
    left_out = [line - 1 for line, reasons in report.bad_pairs("train") if name in reasons]
    assert left_out == list(AT)


def test_what_is_there_again():
    train = list(PAIRS)
    train[20], train[1200] = train[900], (train[1200][0], train[30][1])
    for i, pair in LEAK.items():
        train[i] = pair[0].upper(), pair[1]
    train[80] = short = "Yes.", "Ja."
    report = check(train, [*DEV, short])
    assert found(report, "duplicate") == [900]
    assert found(report, "leakage") == sorted(LEAK)
    assert [each.check.name for each in report.errors] == ["leakage"]


def test_letters_in_another_form_are_the_same_and_reported():
    pair = "The café near the river was 'closed'.", "Das Café am Fluss war geschlossen."
    other = tuple(unicodedata.normalize("NFD", side) for side in pair)
    spelled = pair[0].translate({39: "’", 32: "\u00a0"}), pair[1].replace("s", "\uff53\u200d")
    soft = pair[0], pair[1].replace("ss", "s\u00ads")
    train = [*PAIRS[:900], pair, other, soft, other, spelled]
    report = check(train, [*DEV, pair])
    assert found(report, "duplicate") == [901, 902, 903, 904]
    assert found(report, "leakage") == [900, 901, 902, 903, 904]
    assert len(report.notes) == 2
    assert found(check([*PAIRS[:100], (pair[0], other[0])]), "copy") == [100]


@pytest.mark.parametrize("offset", [1, -1, 2])
def test_a_stretch_that_slipped_is_found(offset):
    train = list(PAIRS)
    slipped = range(400, 420)
    for i in slipped:
        train[i] = PAIRS[i][0], PAIRS[i + offset][1]
    hits = found(check(train), "slipped")
    assert set(hits) <= set(slipped) and len(hits) >= 18


def test_long_targets_of_sources_without_known_words_have_not_slipped():
    dev = [(f"qua{i}", " ".join(t for _, t in PAIRS[i : i + 1 + i % 3])) for i in range(300)]
    assert found(check(PAIRS, dev), "slipped", "dev") == []


def test_a_third_language_and_the_other_side_s_are_told_from_short_lines():
    rng = random.Random(1)
    nouns = "garden river window teacher mother bread water evening street house".split()
    of = "Garten Fluss Fenster Lehrer Mutter Brot Wasser Abend Strasse Haus".split()
    english = "The {} is near the {} and the {}, without the {} or the {}"
    german = "Der {} ist nahe bei dem {} und dem {}, ohne den {} oder den {}"
    both = list(zip(nouns, of, strict=True))
    drawn = (zip(*rng.sample(both, 5), strict=True) for _ in range(400))
    train = [(english.format(*ours), german.format(*theirs)) for ours, theirs in drawn]
    train[33] = train[33][0], "Le train pour la montagne part tous les matins à sept heures."
    train[34] = train[34][0], train[35][0]
    train[36] = "Bread", "Brot"
    train[37] = ("Cuidado, perros bravos",) * 2
    report = check(train)
    assert report.languages == ("en", "de")
    assert found(report, "wrong_language") == [33, 34]
    assert found(report, "swapped") == []


def test_a_kind_that_is_everywhere_is_how_the_corpus_is():
    train = [(s.replace(" ", " <b>", 1), t) for s, t in PAIRS]
    report = check(train)
    assert len(found(report, "markup")) == N and report.num_bad_pairs() == 0
    assert len(report.notes) == 1
    assert check([("", t) for _, t in PAIRS]).num_bad_pairs() == N  # errors stay errors


def test_equal_sides_are_no_fault_within_one_language():
    train = [(s, s.replace("small", "little")) for s, _ in PAIRS[:300]]
    report = check(train)
    assert report.languages == ("en", "en") and report.num_bad_pairs() == 0
    assert found(report, "copy") and len(report.notes) == 1


def test_moses_escapes_are_no_markup():
    train = [(s.replace(".", " &apos; &quot; ."), t.replace(".", " .")) for s, t in PAIRS]
    train[3] = (train[3][0], "&nbsp; " + train[3][1])
    report = check(train)
    assert found(report, "markup") == [3]
    assert len(report.notes) == 1
    assert found(check([(s.replace(".", " &apos;"), t) for s, t in PAIRS[:50]]), "markup") != []


@pytest.mark.parametrize(
    "source, target, is_found",
    [
        ("Chet Ramey wrote it", "Чет Ремей (Chet Ramey)", False),
        ("PackageKit service", "Служба PackageKit daemon running", True),
        ("PackageKit service", "PackageKit daemon", True),
        ("The PackageKit daemon", "PackageKit的daemon", False),
    ],
)
def test_names_that_stand_on_both_sides_may_be_of_another_script(source, target, is_found):
    cyrillic = [(s, t.lower().translate(str.maketrans(LATIN, CYRILLIC))) for s, t in PAIRS[:300]]
    assert found(check([*cyrillic, (source, target)]), "wrong_script") == [300] * is_found


def test_dev_keeps_all_but_errors():
    report = check(PAIRS, [("", DEV[0][1]), (DEV[1][0], DEV[1][0]), *DEV[2:]])
    assert [*report.bad_pairs("dev"), *report.bad_pairs("train")] == [(1, ["empty"])]


@pytest.mark.parametrize(
    "train", [[], [("", "")], [("a", "b")], [("a\nb", "c\td"), ("\ud800", "x")]]
)
def test_little_and_odd_text_is_checked_as_well(train, tmp_path):
    report = check(train, train)
    assert report.pairs == {"train": len(train), "dev": len(train)}
    report.write(tmp_path / "report.json")


def test_the_files(tmp_path):
    train = list(PAIRS)
    train[7], train[11] = ("", "a\tb <script>"), (train[11][0],) * 2
    report = check(train, DEV)
    report.write(path_of(tmp_path, "toy"))
    corpus = {"train": lambda: iter(train), "dev": lambda: iter(DEV)}
    bad_pairs.write(tmp_path / "bad", report.texts_of_bad_pairs(corpus))
    said = json.loads((tmp_path / "datagen.toy.report.json").read_text())
    assert said["pairs"] == {"train": N, "dev": 40} and said["bad_pairs"] == 2
    assert {each["check"]: each["count"] for each in said["checks"] if each["count"]}["empty"] == 1
    assert bad_pairs.read(tmp_path / "bad", "train") == {8, 12}
    assert bad_pairs.read(tmp_path / "bad", "dev") == bad_pairs.read("none", "train") == set()
    rows = [row.split("\t") for row in (tmp_path / "bad").read_text().splitlines()]
    assert rows[0] == ["split", "line", "reasons", "source", "target"]
    assert rows[1] == ["train", "8", "empty,markup,invisible", "", "a b <script>"]
    assert [row[:2] for row in rows[2:]] == [["train", "12"]]
