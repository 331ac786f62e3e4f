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


BROKEN_LINES = """<tmx><tu>
<tuv xml:lang="en"><seg>one<ph type="lb"/>two <ph type="lb"/>three<ph/>fold<ph type="lb"/></seg>
</tuv>
<tuv xml:lang="de"><seg>eins<ph type="lb">{1}</ph> zwei</seg></tuv></tu></tmx>"""


def test_words_do_not_grow_together_where_a_line_ends(tmp_path):
    assert read(tmp_path / "a.tmx", BROKEN_LINES.encode()) == [("one two threefold", "eins zwei")]


def test_a_long_file_is_read_unit_by_unit(tmp_path):
    unit = '<tu><tuv lang="en"><seg>{}</seg></tuv><tuv lang="de"><seg>x</seg></tuv></tu>'
    text = "<tmx><body>" + "\n".join(map(unit.format, range(9999))) + "</body></tmx>"
    pairs = read(tmp_path / "a.tmx", text.encode())
    assert pairs == [(str(number), "x") for number in range(9999)]


BOMB = '<!DOCTYPE t [<!ENTITY a "b"><!ENTITY c "&a;&a;">]>\n<tmx><tu>&c;</tu></tmx>'
FULL = TMX.format(encoding="utf-8")
TWO = "".join(f'<tuv lang="{c}"><seg>{c}</seg></tuv>' for c in ("de", "en-GB", "en-US"))


@pytest.mark.parametrize(
    "text, sides, message",
    [
        ("<tmx>\n<tu></tmx>", GERMAN, "a.tmx.*line 2"),
        (FULL[:-20], GERMAN, "a.tmx.*line"),
        ('<?xml version="1.0" encoding="no"?><tmx/>', GERMAN, "a.tmx"),
        ('<?xml version="1.0" encoding="big5"?><tmx/>', GERMAN, "a.tmx"),
        (BOMB, GERMAN, "a.tmx.*EntitiesForbidden"),
        (FULL, Sides(), "--source_language .*a.tmx.*de-DE, EN_us, fr"),
        (FULL, Sides(("en", "pl")), "<tu>.* 3 .*de-DE, en-US.*--source_language"),
        ("<html/>", GERMAN, "<tu>.*a.tmx"),
        ("<tmx><tu><tuv><seg>a</seg></tuv></tu></tmx>", GERMAN, "xml:lang.*a.tmx.* 1"),
        (f"<tmx><tu>{TWO}</tu></tmx>", GERMAN, "<tu> 1 .*en-GB, en-US"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, text, sides, message):
    with pytest.raises(UserError, match=message):
        read(tmp_path / "a.tmx", text.encode(), sides)
