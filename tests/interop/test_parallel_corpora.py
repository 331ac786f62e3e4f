"""Raw corpora as tensor2tensor's translation problems name them."""

import gzip
import tarfile
import zipfile

import pytest

from t2t_repro.errors import UserError
from t2t_repro.interop import parallel_corpora as corpora
from t2t_repro.interop.t2t_modules import TranslateProblem
from t2t_repro.text.subword import SubwordTextEncoder


def compiled(tmp_path, datasets, name="out", **options):
    base = corpora.compile_data(str(tmp_path), datasets, name, **options)
    return [open(base + end, encoding="utf-8").read() for end in (".lang1", ".lang2")]


def archive(tmp_path, name, files):
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    with tarfile.open(tmp_path / name, "w:gz") as tar:
        for file in files:
            tar.add(tmp_path / file, file)
            (tmp_path / file).unlink()


def test_plain_files_an_archive_and_gz_one_after_the_other(tmp_path):
    (tmp_path / "a.en").write_text(" one \n\ntwo\n")
    (tmp_path / "a.de").write_text("eins\nleer\nzwei\n")
    archive(tmp_path, "b.tgz", {"b.en": "three\n", "b.de": "drei\n"})
    for language, text in (("en", "four\n"), ("de", "vier\n")):
        (tmp_path / f"c.{language}.gz").write_bytes(gzip.compress(text.encode()))
    datasets = [
        ["a.tgz", ("a.en", "a.de")],
        [str(tmp_path / "b.tgz"), ("b.en", "b.de")],
        ["c", ("c.en.gz", "c.de.gz")],
    ]
    assert compiled(tmp_path, datasets) == ["one\ntwo\nthree\nfour\n", "eins\nzwei\ndrei\nvier\n"]
    assert compiled(tmp_path, "never read") == compiled(tmp_path, [])  # they are there already


def test_sgm_keeps_the_segments(tmp_path):
    text = '<srcset setid="x">\n<doc>\n<p>\n<seg id="1">{}</seg>\n</p>\n</doc>\n</srcset>\n'
    (tmp_path / "a.sgm").write_text(text.format("one"))
    (tmp_path / "b.sgm").write_text(text.format("eins"))
    assert compiled(tmp_path, [["x", ("a.sgm", "b.sgm")]]) == ["one\n", "eins\n"]


def test_tsv_columns_of_files_in_an_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as zipped:
        zipped.writestr("part1.tsv", "id\tzwei\ttwo\nshort\n")
    datasets = [["a.zip", ("tsv", 2, 1, "part*.tsv")]]
    assert compiled(tmp_path, datasets) == ["two\n", "zwei\n"]


@pytest.mark.parametrize(
    ("datasets", "options", "message"),
    [
        ([["x", ("tmx", "a.tmx")]], {}, "reader of TMX files is not here. Received: 'a.tmx'"),
        ([["x", ("tsv", 0, 1, "*.tsv")]], {}, "Expected files '.*tsv' in .* or in x. Received"),
        ([["x", ("a.en", "a.de")]], {}, "Expected a.en .or a.en.gz. in"),
        ([], {"datatypes_to_clean": ["txt"]}, "Expected datatypes_to_clean to be empty.*'txt'"),
    ],
)
def test_what_cannot_be_read(tmp_path, datasets, options, message):
    with pytest.raises(UserError, match=message):
        compiled(tmp_path, datasets, **options)
    assert not list(tmp_path.glob("out*"))


def test_iterators(tmp_path):
    (tmp_path / "a").write_text("x\ty\tz\nno tab\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"1\n2\n"))
    tabs = list(corpora.text2text_txt_tab_iterator(tmp_path / "a"))
    assert tabs == [{"inputs": "x", "targets": "y\tz"}]
    pairs = list(corpora.text2text_txt_iterator(tmp_path / "a", tmp_path / "b"))
    assert pairs[1] == {"inputs": "no tab", "targets": "2"}
    (tmp_path / "c").write_text("1\n")
    with pytest.raises(UserError, match="Expected as many lines"):
        list(corpora.text2text_txt_iterator(tmp_path / "a", tmp_path / "c"))


def test_maybe_download_copies_once(tmp_path):
    (tmp_path / "source").write_text("first")
    path = corpora.maybe_download(tmp_path / "raw", "copy", str(tmp_path / "source"))
    (tmp_path / "source").write_text("second")
    assert path == corpora.maybe_download(tmp_path / "raw", "copy", str(tmp_path / "source"))
    assert open(path).read() == "first"
    with pytest.raises(UserError, match="Cannot download ftp://"):
        corpora.maybe_download(tmp_path, "other", "ftp://localhost:1/other")


def test_lines_for_the_vocabulary_come_from_all_over_a_file(tmp_path):
    """As tensor2tensor's: every (size / budget / 2 + 1)-th line, until the budget is used."""
    (tmp_path / "a").write_text("".join(f"{i:09d}\n" for i in range(100)))
    lines = list(corpora.generate_lines_for_vocab(str(tmp_path), [["x", ["a"]]], 100))
    assert lines == [f"{i:09d}" for i in range(5, 73, 6)]


def test_vocabularies_are_built_once(tmp_path):
    (tmp_path / "a").write_text("some words and some more words\n" * 30)
    arguments = (str(tmp_path), str(tmp_path), "vocab", 60, [["x", ["a"]]])
    encoder = corpora.get_or_generate_vocab(*arguments)
    assert isinstance(encoder, SubwordTextEncoder) and (tmp_path / "vocab").exists()
    (tmp_path / "a").unlink()
    assert corpora.get_or_generate_vocab(*arguments).vocab_size == encoder.vocab_size


def test_a_translation_problem_of_archives(tmp_path):
    class Mine(TranslateProblem):
        name = "mine"

        def source_data_files(self, dataset_split):
            return [["x", (f"{dataset_split}.en", f"{dataset_split}.de")]]

    for split in ("train", "dev"):
        (tmp_path / f"{split}.en").write_text(f"{split}\n")
        (tmp_path / f"{split}.de").write_text("wort\n")
    problem = Mine()
    samples = list(problem.generate_samples("", str(tmp_path), "train"))
    assert samples == [{"inputs": "train", "targets": "wort"}]
    assert list(problem.generate_samples("", str(tmp_path), "dev"))[0]["inputs"] == "dev"
    assert (tmp_path / "mine-compiled-dev.lang1").exists()
    assert list(problem.generate_text_for_vocab("", str(tmp_path))) == ["train", "wort"]
    with pytest.raises(NotImplementedError, match="must define source_data_files"):
        TranslateProblem().source_data_files("train")
