import gzip
import json

import pytest

from t2t_repro.corpora import formats
from t2t_repro.corpora.formats import Sides
from t2t_repro.errors import UserError

NONE, GERMAN = Sides(), Sides(("en", "de"))
PAIRS = [("A dog, runs.", 'Ein "Hund" rennt.'), ("Two cats", "Zwei Katzen")]


def read(path, sides=NONE, target=None):
    return list(formats.pairs(str(path), target and str(target), sides))


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
        ("deu.txt", TSV, NONE),  # no name of a format, but a tab
        ("a.tsv", "source\ttarget\n" + TSV, NONE),
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
    pairs = [("Yes; no; or; so", "Ja; oder; so"), ("No", "Nein")]
    assert read(path, Sides(columns=("1", "2"))) == pairs


def test_reads_two_files_and_keeps_empty_sides(tmp_path):
    source = write(tmp_path / "a.en", " one\u00a0two \n\nthree\rfour\n")
    target = write(tmp_path / "a.de.gz", "eins\nzwei\n\n")
    pairs = [("one\u00a0two", "eins"), ("", "zwei"), ("three four", "")]
    assert read(source, target=target) == pairs


TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" segtype="sentence"/><body>
<tu><note>x</note>
  <tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b&gt;</bpt>Hund<ept i="1">&lt;/b&gt;</ept> &amp;
    ein <hi>Ä</hi></seg></tuv>
  <tuv xml:lang="EN_us"><seg>A dog<ph>{{1}}<sub>no</sub></ph></seg></tuv>
  <tuv xml:lang="fr"><seg>Un chien</seg></tuv>
</tu>
<tu><tuv lang="en-US"><seg>Alone</seg></tuv></tu>
<tu><tuv lang="en-US"><seg>Two&nbsp;cats</seg></tuv><tuv lang="de-DE"><seg>Katzen</seg></tuv></tu>
</body></tmx>
"""
TMX_PAIRS = [("A dog", "Ein Hund & ein Ä"), ("Two\u00a0cats", "Katzen")]
BOMB = '<!DOCTYPE t [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>\n<tmx><tu>&c;</tu></tmx>'
FULL = TMX.format(encoding="utf-8")
TWO = "".join(f'<tuv lang="{c}"><seg>{c}</seg></tuv>' for c in ("de", "en-GB", "en-US"))


@pytest.mark.parametrize(
    "name, text, sides, named",
    [
        ("a.tsv", "a\tb\n\nalone\n", (), "line 3 .*alone"),
        ("a.tsv", "a\tb\tc\n", (), "a.tsv.*--columns"),
        ("a.tsv", "a\tb\n", (None, ("1", "3")), "1 and 3 .*--columns"),
        ("a.csv", "Hello,Hallo\n", (), "'Hello \\| Hallo'.*--columns"),
        ("a.csv", "german,english\n", (None, ("englisch", "german")), "englisch .*--columns"),
        ("a.csv", 'source,target\n"a" b,c\n', (), "a.csv.*line 2"),
        ("a.csv", 'source,target\na,"b\nc,d\n', (), "line 2"),
        ("a.jsonl", lines({"translation": {"en": "a", "de": "b"}}), (), "--source_language"),
        ("a.jsonl", '{"source": "a", "target": 7}\n', (), "target .*line 1 "),
        ("a.jsonl", '{"source": "a", "target": "\\ud83d"}\n', (), "line 1 "),
        ("a.jsonl", '{"source": "a"\n', (), "line 1 of .*a.jsonl"),
        ("a.tsv", b"a\tb\nna\xefve\tc\n", (), "a.tsv.* 0xef at line 2, column 3"),
        ("a.txt", "one side\n", (), "a.txt"),
        ("a.tmx", "<tmx>\n<tu></tmx>", GERMAN, "a.tmx.*line 2"),
        ("a.tmx", '<?xml version="1.0" encoding="big5"?><tmx/>', GERMAN, "a.tmx"),
        ("a.tmx", BOMB, GERMAN, "a.tmx.*EntitiesForbidden"),
        ("a.tmx", FULL, Sides(), "--source_language .*a.tmx"),
        ("a.tmx", FULL, Sides(("en", "pl")), "a.tmx.*de-DE, en-US.*--source_language"),
        ("a.tmx", f"<tmx><tu>{TWO}</tu></tmx>", GERMAN, "en-GB, en-US"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, text, sides, named):
    with pytest.raises(UserError, match=named):
        read(write(tmp_path / name, text), Sides(*sides))


def test_a_file_with_both_sides_needs_no_other(tmp_path):
    both, one = write(tmp_path / "a.tsv", TSV), write(tmp_path / "b.txt", "a\n")
    for source, target in ((both, one), (one, both)):
        with pytest.raises(UserError, match="a.tsv"):
            read(source, target=target)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_reads_tmx(tmp_path, encoding, capsys):
    text = TMX.format(encoding=encoding)
    assert read(write(tmp_path / "a.tmx", text, encoding), GERMAN) == TMX_PAIRS
    assert "de-DE, en-US, EN_us, fr" in capsys.readouterr().err
    turned = read(write(tmp_path / "a.tmx.gz", text, encoding), Sides(("de-de", "en-us")))
    assert turned == [(target, source) for source, target in TMX_PAIRS]
