"""Files of every form that the intake reads, damaged: pairs that are text, or one clear message."""

import gzip
import json
import random

import pytest

from t2t_repro.corpora import formats
from t2t_repro.corpora.formats import Sides
from t2t_repro.errors import UserError

TMX = (
    '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx><body>'
    '<tu><tuv xml:lang="en-GB"><seg>A <bpt>b</bpt>dog&amp;</seg></tuv><tuv xml:lang="de"><seg>'
    "Ein Hünd</seg></tuv></tu>\n<tu><tuv lang='en'><seg>x</seg></tuv></tu></body></tmx>\n"
)
FORMS = {
    "a.tsv": "one dog\tein Hünd\ntwo\tzwei\n",
    "a.tsv.gz": "source\ttarget\none dog\tein Hünd\n",
    "a.csv": 'source,target\n"one, ""dog""",ein Hünd\n',
    "a.jsonl": json.dumps({"source": "one dog", "target": "ein Hünd"}) + "\n",
    "a.json": json.dumps({"translation": {"en": "one", "de": "ein Hünd"}}) + "\n",
    "a.tmx": TMX,
}
SIDES = (
    Sides(),
    Sides(languages=("en", "de")),
    Sides(columns=("1", "2")),
    Sides(languages=("en", "de"), columns=("en", "de")),
)
INSERTED = (
    *(b"\0", b"\r", b"\n", b"\t", b",", b'"', b"{", b"[" * 3000, b"\xc3", b"\x85", b"\xff\xfe"),
    *(b"\xef\xbb\xbf", b"\\ud800", b"1e999", b"NaN", b"null", b"<seg>", b"</tu>", b"<tu>", b"]]>"),
    *(b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"&nbsp;", b"<![CDATA[", b"&#0;", b"&#xd800;"),
)
ENCODINGS = ("utf-16", "utf-16-le", "utf-32", "latin-1")


def damaged(content, rng):
    """Returns `content` with bytes changed, put in, taken out, or in another encoding."""
    if rng.random() < 0.05:
        return content.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")
    data = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place, kind = rng.randrange(len(data) + 1), rng.random()
        if kind < 0.3:
            data[place : place + 1] = bytes([rng.randrange(256)])
        elif kind < 0.7:
            data[place:place] = rng.choice(INSERTED)
        else:
            del data[place : place + rng.choice([1, 9, 999])]
    return bytes(data)


@pytest.mark.parametrize("name", FORMS)
def test_a_damaged_file_is_text_or_refused_by_name(name, tmp_path):
    rng = random.Random(f"{name} 3")
    path = tmp_path / name
    whole = FORMS[name].encode()
    refused = 0
    for _ in range(3000):
        data = damaged(whole, rng)
        if name.endswith(".gz"):
            data = gzip.compress(data, mtime=0)
            data = damaged(data, rng) if rng.random() < 0.3 else data
        path.write_bytes(data)
        try:
            for pair in formats.pairs(path, None, rng.choice(SIDES)):
                text = "".join(pair)
                assert not set("\0\r\n") & set(text) and text.encode("utf-8") is not None
        except UserError as error:
            assert str(path) in str(error)
            refused += 1
    assert 500 < refused < 3000
