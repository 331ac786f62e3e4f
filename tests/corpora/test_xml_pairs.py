import gzip

import pytest

from t2t_repro.corpora import formats
from t2t_repro.corpora.formats import Sides
from t2t_repro.errors import UserError

GERMAN = Sides(("en", "de"))

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

XLIFF = """<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
<file source-language="en-GB" target-language="de"><body>
<trans-unit id="1"><source>A <g id="1">dog</g><x id="2"/></source><seg-source>no</seg-source>
  <target>Ein Hund</target><alt-trans><source>no</source><target>nein</target></alt-trans>
</trans-unit>
<trans-unit id="2"><source>Untranslated</source></trans-unit>
<trans-unit id="3"><source>Copied</source><target state="new">Copied</target></trans-unit>
</body></file></xliff>
"""
XLIFF2 = """<xliff version="2.0" srcLang="en" trgLang="de" xmlns:mtc="urn:m"><file><unit>
<originalData><data id="1">no</data></originalData>
<mtc:match><source>no</source><target>nein</target></mtc:match>
<segment><source>A <pc id="1">dog</pc><ph id="2"/></source><target>Ein Hund</target></segment>
<ignorable><source> </source><target> </target></ignorable>
<segment state="initial"><source>b</source><target>b</target></segment>
</unit></file></xliff>
"""


def read(path, content, sides=GERMAN):
    path.write_bytes(content)
    return list(formats.pairs(path, None, sides))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_reads_tmx(tmp_path, encoding, capsys):
    text = TMX.format(encoding=encoding)
    assert read(tmp_path / "a.tmx", text.encode(encoding)) == TMX_PAIRS
    said = "left out 1 units without text on both sides; its languages are de-DE, en-US, EN_us, fr."
    assert said in capsys.readouterr().err
    packed = gzip.compress(text.encode(encoding))
    turned = read(tmp_path / "a.tmx.gz", packed, Sides(("de-de", "en-us")))
    assert turned == [(target, source) for source, target in TMX_PAIRS]


@pytest.mark.parametrize("name, text", [("a.xlf", XLIFF), ("b.xliff", XLIFF2)])
def test_reads_xliff(tmp_path, name, text, capsys):
    for sides in (GERMAN, Sides()):
        assert read(tmp_path / name, text.encode(), sides) == [("A dog", "Ein Hund")]
    left_out = 2 if name == "a.xlf" else 1
    assert f"left out {left_out} units" in capsys.readouterr().err


BROKEN_LINES = """<tmx><tu>
<tuv xml:lang="en"><seg>one<ph type="lb"/>two <ph type="lb"/>three<ph/>fold<ph type="lb"/></seg>
</tuv>
<tuv xml:lang="de"><seg>eins<ph type="lb">{1}</ph> zwei</seg></tuv></tu></tmx>"""
SEGMENTS = """<xliff><file><body><trans-unit>
<source><x ctype="lb"/>One.<x id="1" ctype="lb"/>Two</source>
<target><mrk mtype="seg">Eins.</mrk><mrk mtype="seg">Z<mrk mtype="term">w</mrk>ei</mrk></target>
</trans-unit></body></file></xliff>"""
XLIFF2_BREAK = """<xliff><file><unit><segment>
<source>One.<ph type="fmt" subType="xlf:lb"/>Two</source><target>Eins. Zwei</target>
</segment></unit></file></xliff>"""


@pytest.mark.parametrize(
    "name, text, pair",
    [
        ("a.tmx", BROKEN_LINES, ("one two threefold", "eins zwei")),
        ("a.xlf", SEGMENTS, ("One. Two", "Eins. Zwei")),
        ("a.xlf", XLIFF2_BREAK, ("One. Two", "Eins. Zwei")),
    ],
)
def test_words_do_not_grow_together_where_a_line_or_a_segment_ends(tmp_path, name, text, pair):
    assert read(tmp_path / name, text.encode()) == [pair]


def test_a_long_file_passes_in_blocks(tmp_path, monkeypatch):
    from t2t_repro.corpora import xml_pairs

    monkeypatch.setattr(xml_pairs, "_BLOCK", 7)
    assert read(tmp_path / "a.tmx", TMX.format(encoding="utf-8").encode()) == TMX_PAIRS


BOMB = '<!DOCTYPE t [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>\n<tmx><tu>&c;</tu></tmx>'


@pytest.mark.parametrize(
    "name, text, sides, message",
    [
        ("a.tmx", "<tmx>\n<tu></tmx>", GERMAN, "XML in .*a.tmx. .* mismatched tag at line 2"),
        ("a.tmx", TMX.format(encoding="utf-8")[:-20], GERMAN, "Received: no element found at line"),
        ("a.tmx", '<?xml version="1.0" encoding="no"?><tmx/>', GERMAN, "unknown encoding: no"),
        ("a.tmx", '<?xml version="1.0" encoding="big5"?><tmx/>', GERMAN, "multi-byte encodings"),
        ("a.tmx", BOMB, GERMAN, "without entities of its own .* EntitiesForbidden at line 1"),
        ("a.xlf", BOMB, GERMAN, "without entities of its own in .*a.xlf"),
        ("a.tmx", TMX.format(encoding="utf-8"), Sides(),
         "--source_language and --target_language, of those in .*a.tmx: de-DE, EN_us, fr. Rec"),
        ("a.tmx", TMX.format(encoding="utf-8"), Sides(("en", "pl")),
         "<tu> with text on both sides .* 3 without a pair; its languages are de-DE, en-US"),
        ("a.tmx", "<html/>", GERMAN, "Expected <tu> with .* Received: none. Check the file"),
        ("a.tmx", "<tmx>\n<tuv><seg>a</seg></tuv></tmx>", GERMAN, "xml:lang in .* at line 2"),
        ("a.tmx", "<tmx><tu>" + "".join(f'<tuv lang="{code}"><seg>{code}</seg></tuv>'
         for code in ("de", "en-GB", "en-US")) + "</tu></tmx>", GERMAN,
         "Expected one segment of en in the <tu> that ends at line 1 .* Received: en-GB, en-US"),
        ("a.xlf", XLIFF, Sides(("de", "en")), "source-language to be de at line 2 of .* en-"),
        ("a.xlf", XLIFF2, Sides(("en", "fr")), "target-language to be fr"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(tmp_path, name, text, sides, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path / name, text.encode(), sides)
