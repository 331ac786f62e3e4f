"""Raw corpora as tensor2tensor's translation problems name them."""

import gzip
import os
import zipfile

import pytest

from t2t_repro.corpora import parallel as corpora
from t2t_repro.errors import UserError
from tests.problems.wmt14_archives import write_archive


def compiled(tmp_path, datasets, name="out", **options):
    base = corpora.compile_data(str(tmp_path), datasets, name, **options)
    return [open(base + end, encoding="utf-8").read() for end in (".lang1", ".lang2")]


def test_plain_files_an_archive_and_gz_one_after_the_other(tmp_path):
    (tmp_path / "a.en").write_text(" one \n\ntwo\n")
    (tmp_path / "a.de").write_text("eins\nleer\nzwei\n")
    write_archive(tmp_path / "b.tgz", {"b.en": "three\n", "b.de": "drei\n"})
    for language, text in (("en", "four\n"), ("de", "vier\n")):
        (tmp_path / f"c.{language}.gz").write_bytes(gzip.compress(text.encode()))
    datasets = [
        ["a.tgz", ("a.en", "a.de")],
        [str(tmp_path / "b.tgz"), ("b.en", "b.de")],
        ["c", ("c.en.gz", "c.de.gz")],
    ]
    assert compiled(tmp_path, datasets) == ["one\ntwo\nthree\nfour\n", "eins\nzwei\ndrei\nvier\n"]
    there = compiled(tmp_path, [["gone.tgz", ("gone.en", "gone.de")]])
    assert there == compiled(tmp_path, datasets)  # they are there already
    (tmp_path / "a.en").write_text("five\n\nsix\n")
    os.utime(tmp_path / "a.en", (2**31, 2**31))
    assert compiled(tmp_path, datasets)[0] == "five\nsix\nthree\nfour\n"


def test_sgm_pairs_segments_wherever_they_stand(tmp_path):
    (tmp_path / "a.sgm").write_text('<srcset>\n<seg id="1">one</seg>\n<seg id="2"></seg>\n')
    (tmp_path / "b.sgm").write_text('<seg id="1">eins</seg>\n<p>\n<seg id="2">zwei</seg>\n')
    assert compiled(tmp_path, [["x", ("a.sgm", "b.sgm")]]) == ["one\n", "eins\n"]
    (tmp_path / "b.sgm").write_text('<seg id="1">eins</seg>\n')
    with pytest.raises(UserError):
        compiled(tmp_path, [["x", ("a.sgm", "b.sgm")]], "again")


TMX = """<?xml version="1.0"?>
 <tu>
  <tuv xml:lang="en"> not a line of its own <seg>left out</seg></tuv>
   <seg>Tom &amp;amp; Jerry &amp; co. said &quot;no&quot; &amp;quot;.</seg>
   <seg>Er & apos; sagte & lt;nein&gt;.</seg>
<seg>no blank before</seg>
   <seg></seg>
   <seg>leer</seg>
"""


@pytest.mark.parametrize("name", ["a.tmx", "a.tmx.gz"])
def test_tmx_as_tensor2tensor_reads_it(tmp_path, name):
    """T2T 1.15.7 gives this pair for these lines."""
    pack = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(pack(TMX.encode()))
    expected = ['Tom & Jerry & co. said "no" ".\n', "Er ' sagte <nein>.\n"]
    assert compiled(tmp_path, [["http://host/" + name, ("tmx", name)]]) == expected
    (tmp_path / name).write_bytes(pack(TMX.encode() + b"  <seg>alone</seg>\n"))
    with pytest.raises(ValueError):
        compiled(tmp_path, [["x", ("tmx", name)]], "odd")


def test_kinds_of_files_are_cleaned_where_that_is_asked_for(tmp_path):
    dirty, good = "no sentence", "A whole sentence."
    (tmp_path / "a.en").write_text(f"{dirty}\n{good}\n")
    (tmp_path / "a.de").write_text("eins\nzwei\n")
    (tmp_path / "a.tsv").write_text(f"{dirty}\tdrei\n{good}\tvier\n")
    (tmp_path / "a.tmx").write_text(
        "".join(f" <seg>{text}</seg>\n" for text in (dirty, "fünf", good, "sechs"))
    )
    datasets = [["x", ("a.en", "a.de")], ["x", ("tsv", 0, 1, "*.tsv")], ["x", ("tmx", "a.tmx")]]
    everything = ["eins", "zwei", "drei", "vier", "fünf", "sechs"]
    for kinds, left_out in (
        ([], []),
        (["txt"], ["eins"]),
        (["tsv", "tmx"], ["drei", "fünf"]),
        (["txt", "tsv", "tmx"], ["eins", "drei", "fünf"]),
    ):
        result = compiled(tmp_path, datasets, "-".join(kinds), datatypes_to_clean=kinds)
        assert result[1].split() == [text for text in everything if text not in left_out]


def test_tsv_columns_of_files_in_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("part1.tsv", "id\tzwei\ttwo \nshort\n\tdrei\tthree\n")
    datasets = [["a.zip", ("tsv", 2, 1, "part*.tsv")]]
    assert compiled(tmp_path, datasets) == ["two\nthree\n", "zwei\ndrei\n"]


def test_a_half_finished_run_is_not_taken_for_whole(tmp_path):
    """One killed while it unpacked, and one while it wrote."""
    write_archive(tmp_path / "a.tgz", {"a.en": "one\ntwo\n", "a.de": "eins\nzwei\n"})
    (tmp_path / "a.de.incomplete").write_text("ei")
    (tmp_path / "out.lang1").write_text("one\ntwo\n")
    (tmp_path / "out.lang2.incomplete").write_text("eins\n")
    assert compiled(tmp_path, [["a.tgz", ("a.en", "a.de")]]) == ["one\ntwo\n", "eins\nzwei\n"]
    base = str(tmp_path / "out")
    assert corpora.count_compiled(base) == 2
    for cut in ("eins\nzw", "eins\n"):  # tensor2tensor writes under the final name
        (tmp_path / "out.lang2").write_text(cut)
        with pytest.raises(UserError):
            corpora.count_compiled(base)
