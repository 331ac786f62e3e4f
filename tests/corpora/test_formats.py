import gzip
import json

import pytest

from t2t_repro.corpora import formats
from t2t_repro.corpora.formats import Sides
from t2t_repro.errors import UserError

NONE, GERMAN = Sides(), Sides(("en", "de"))
PAIRS = [("A dog, runs.", 'Ein "Hund" rennt.'), ("Two cats", "Zwei Katzen")]


def read(path, sides=NONE, target=None):
    return list(formats.pairs(path, target, sides))


def write(path, text, encoding="utf-8"):
    content = text if isinstance(text, bytes) else text.encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def lines(*objects):
    return "".join(json.dumps(entry) + "\n" for entry in objects)


TSV = 'A dog, runs.\tEin "Hund" rennt.\nTwo cats\tZwei Katzen\n'
CSV = 'id,Target,source\n1,"Ein ""Hund"" rennt.","A dog, runs."\n2,Zwei Katzen,"Two\ncats"\n'


@pytest.mark.parametrize(
    "name, text, sides",
    [
        ("a.tsv", TSV, NONE),
        ("a.tsv", "\ufeff" + TSV.replace("\n", "\r\n") + "\n", NONE),
        ("a.tsv.gz", TSV, NONE),
        ("deu.txt", TSV, NONE),  # no name of a format, but a tab
        ("a.tsv", "source\ttarget\n" + TSV, NONE),
        ("a.tsv", "en\tde\n" + TSV, GERMAN),
        ("a.tsv", TSV.replace("\n", "\tCC-BY\n"), Sides(columns=("1", "2"))),
        ("a.csv", CSV, NONE),
        ("a.csv", CSV, Sides(columns=("3", "2"))),
        ("a.csv", CSV.replace("source", "English"), Sides(columns=("english", "target"))),
        ("a.csv", CSV.replace("dog, runs", "dog; runs").replace(",", ";").replace("dog;", "dog,"),
         NONE),
        ("a.jsonl", lines(*({"source": s, "target": t, "id": 7} for s, t in PAIRS)), NONE),
        ("a.json.gz", lines(*({"de": t, "en": s} for s, t in PAIRS)), GERMAN),
        ("a.json", lines(*({"translation": {"de": t, "en": s}} for s, t in PAIRS)), GERMAN),
        ("a.jsonl", lines(*({"source": "EU", "target": 7, "en": s, "de": t} for s, t in PAIRS)),
         GERMAN),
        ("a.jsonl", lines(*({"source": "EU", "target": "v7", "translation": {"en": s, "de": t}}
                            for s, t in PAIRS)), GERMAN),
        ("a.jsonl", lines(*({"source": s, "target": t} for s, t in PAIRS)), GERMAN),
        ("a.csv", "source,target,en,de\nEU,v7,"
         + '"A dog, runs.","Ein ""Hund"" rennt."\nEU,v8,Two cats,Zwei Katzen\n', GERMAN),
        ("a.ndjson", lines(*({"x": s + "\n", "y": t} for s, t in PAIRS)),
         Sides(columns=("x", "y"))),
    ],
)  # fmt: skip
def test_reads_every_form(tmp_path, name, text, sides):
    assert read(write(tmp_path / name, text), sides) == PAIRS


def test_what_separates_columns_is_not_what_stands_within_quotes(tmp_path):
    path = write(tmp_path / "a.csv", '"Yes; no; or; so","Ja;\noder; so"\nNo,Nein\n')
    assert read(path, Sides(columns=("1", "2"))) == [
        ("Yes; no; or; so", "Ja; oder; so"),
        ("No", "Nein"),
    ]


def test_reads_two_files_and_keeps_empty_sides(tmp_path):
    source = write(tmp_path / "a.en", " one\u00a0two \n\nthree\rfour\n")
    target = write(tmp_path / "a.de.gz", "eins\nzwei\n\n")
    assert read(source, target=target) == [
        ("one\u00a0two", "eins"),
        ("", "zwei"),
        ("three four", ""),
    ]


@pytest.mark.parametrize(
    "name, text, sides, message",
    [
        ("a.tsv", "a\tb\nc\td\te\tf\n", (), "2 columns at line 2 of .*a.tsv.*: 4: 'c \\| d"),
        ("a.tsv", "a\tb\n\nalone\n", (), "2 columns at line 3 .* Received: 1: 'alone'"),
        ("a.tsv", "a\tb\tc\n", (), "two columns, or a first line with source and target"),
        ("a.tsv", "a\tb\n", (None, ("1", "3")), "columns 1 and 3 in .* Received: 2 columns"),
        ("a.tsv", "a\tb\n", (None, ("0", "1")), "Expected columns 0 and 1"),
        ("a.csv", "Hello,Hallo\n", (), "a first line with source and target .*'Hello \\| Hallo'"),
        ("a.csv", "English,German\nHello,Hallo\n", (), "names, or, where this line is a pair"),
        ("a.csv", "german,english\n", (None, ("englisch", "german")), "Did you mean 'english'"),
        ("a.csv", 'source,target\n"a" b,c\n', (), "from line 2 on, .* Mend its quotes"),
        ("a.csv", f"source,target\na,{'b' * 131073}\n", (), "field limit .131072.*Or split the"),
        ("a.csv", 'source,target\na,"b\nc,d\n', (), "from line 2 on, unexpected end of data"),
        ("a.jsonl", '{"source": "a"}\n', (), "source and target on line 1 of .* Received: source"),
        ("a.jsonl", "{}\n", (), "Received: nothing. Name them by --columns"),
        ("a.jsonl", lines({"translation": {"en": "a", "de": "b"}}), (), "with en, de"),
        ("a.jsonl", '{"source": "a", "target": 7}\n', (), "target on line 1.* text. Received: 7"),
        ("a.jsonl", '{"source": "\\ud83d", "target": "b"}\n', (), r"text. Received: '\\ud83d'"),
        ("a.jsonl", '{"source": "a"\n', (), r"JSON object on line 1 of .*\(Expecting ',' delim"),
        ("a.jsonl", '[\n{"source": "a"}]\n', (), r"jq -c '\.\[\]' FILE > NEW.jsonl makes"),
        ("a.jsonl", "[" * 100_000, (), "Expected a JSON object on line 1"),
        ("a.jsonl", '{"source": "a\\u0000", "target": "b"}\n', (), "NUL character at line 1"),
        ("a.tsv", "a\tb\nc\0\td\n", (), "a.tsv. Received: a NUL character at line 2"),
        ("a.tsv", TSV.encode("utf-16"), (), "Received: UTF-16. Convert it: iconv -f UTF-16 -t"),
        ("a.tsv", b"a\tb\nna\xefve\tc\n", (), "a.tsv. Received: byte 0xef at line 2, column 3"),
        ("a.tsv", "en\tde\rHello\tHallo\r", (None, ("1", "2")), "one line, in which others end in"),
        ("a.csv", "source,target\rHello,Hallo\r", (), "one line, in which others end in"),
        ("a.tsv.bz2", "a", (), "text, plain or .gz. Received: .*a.tsv.bz2. Unpack it first"),
        ("a.tar.gz", "a", (), "text, plain or .gz. Received: .*a.tar.gz. Unpack it first"),
        ("a.txt", "one side\n", (), "Expected the other side of .*a.txt, or a file that holds"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(tmp_path, name, text, sides, message):
    with pytest.raises(UserError, match=message):
        read(write(tmp_path / name, text), Sides(*sides))


def test_a_file_with_both_sides_needs_no_other(tmp_path):
    both, one = write(tmp_path / "a.tsv", TSV), write(tmp_path / "b.txt", "a\n")
    for source, target in ((both, one), (one, both)):
        with pytest.raises(UserError, match="a.tsv"):
            read(source, target=target)


def test_a_broken_gzip_is_named(tmp_path):
    path = tmp_path / "b.gz"
    path.write_bytes(gzip.compress(b"text\n" * 999)[:-9])
    with pytest.raises(UserError, match="b.gz"):
        read(path, target=write(tmp_path / "c", "a\n" * 999))
