"""Which raw files a problem says it needs before it has them."""

import pytest

from t2t_repro import registry
from t2t_repro.corpora import sources
from t2t_repro.corpora.sources import RawFile
from t2t_repro.problem import TranslateProblem

URL = "http://host.example/a.tgz"
PAIR = ("x/a.en", "x/a.de")


@pytest.mark.parametrize(
    "url, names, there, missing",
    [
        (URL, PAIR, [], [RawFile("a.tgz", URL)]),
        (URL, PAIR, ["x/a.en"], [RawFile("a.tgz", URL)]),
        (URL, PAIR, ["x/a.en", "x/a.de.gz"], []),
        (URL, PAIR, ["a.tgz"], []),
        ("a.tgz", PAIR, [], [RawFile("a.tgz")]),
        ("", PAIR, [], [RawFile("x/a.en, x/a.de")]),
        ("", PAIR, ["x/a.en", "x/a.de"], []),
        (URL, ("tsv", 0, 1, "y/*.tsv"), ["x/a.en"], [RawFile("a.tgz", URL)]),
        (URL, ("tsv", 0, 1, "y/*.tsv"), ["y/b.tsv"], []),
        (URL, ("tmx", "y/b.tmx"), ["y/b.tmx"], []),
        ("", ("tsv", 0, 1, "*.tsv"), [], [RawFile("*.tsv")]),
        ("", ("tmx", "b.tmx"), [], [RawFile("b.tmx")]),
    ],
)
def test_archives(tmp_path, url, names, there, missing):
    for name in there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sources.missing_archives(str(tmp_path), [[url, names]]) == missing


def test_the_sizes_of_wmt14_are_those_of_its_documentation():
    files = registry.get_problem("translate_enfr_wmt14").missing_files("/nowhere")
    assert [file.size for file in files] == [
        *(657_632_379, 918_311_367, 2_365_634_246),
        *(80_418_416, 2_595_102_720, 38_654_961),
    ]
    assert set(sources.BYTES) == set(sources.SHA256)


def test_captions_that_are_there_are_not_missing(tmp_path):
    problem = registry.get_problem("translate_ende_multi30k")
    assert len(problem.missing_files(str(tmp_path))) == 10
    (tmp_path / "train.en").touch()
    names = [file.name for file in problem.missing_files(str(tmp_path))]
    assert len(names) == 9 and "train.en.gz" not in names


def test_one_with_files_of_its_own_says_nothing():
    class Mine(TranslateProblem):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            return []

    assert Mine().missing_files("/nowhere") == []
    text = type(registry.get_problem("text2text_tmpdir"))

    class Other(text):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            return []

    assert len(text().missing_files("/nowhere")) == 4 and Other().missing_files("/nowhere") == []
