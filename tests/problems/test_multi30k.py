import gzip

import pytest

from t2t_repro import registry
from t2t_repro.corpora import downloads
from t2t_repro.problem import Split

SETS = ("train", "val", "test_2016_flickr", "test_2017_flickr", "test_2017_mscoco")


@pytest.fixture
def raw_dir(tmp_path):
    for place, name in enumerate(SETS):
        for language in ("en", "de"):
            text = "".join(f"{name} {language} {line}\n" for line in range(place + 1))
            if place % 2:
                (tmp_path / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode()))
            else:
                (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    return str(tmp_path)


def test_reads_plain_and_packed_files(raw_dir):
    problem = registry.get_problem("translate_ende_multi30k")
    assert problem.vocab_filename == "vocab.translate_ende_multi30k.8192.subwords"
    assert (problem.input_space_id, problem.target_space_id) == (0, 0)
    samples = list(problem.generate_samples("", raw_dir, Split.EVAL))
    assert samples[1] == {"inputs": "val en 1", "targets": "val de 1"}
    tests = [sample["targets"] for sample in problem.generate_samples("", raw_dir, Split.TEST)]
    assert tests[0] == "test_2016_flickr de 0" and tests[-1] == "test_2017_mscoco de 4"
    assert [problem.num_samples(raw_dir, split) for split in Split.ALL] == [1, 2, 12]
    counts = [len(problem.raw_text_files(raw_dir, split)) for split in Split.ALL]
    assert counts == [2, 2, 6]


def test_missing_files_are_downloaded(tmp_path, monkeypatch):
    asked = []

    def download(url, path, sha256):
        asked.append((url, sha256[:8]))
        path.write_bytes(gzip.compress(b"a line\n"))

    monkeypatch.setattr(downloads, "download", download)
    problem = registry.get_problem("translate_ende_multi30k")
    assert problem.num_samples(str(tmp_path), Split.EVAL) == 1
    base = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/"
    assert asked == [(base + "val.en.gz", "14f7d25d"), (base + "val.de.gz", "f0cba2f9")]
