"""The paper's data, through tensorflow-datasets' real wmt14_translate and small archives."""

import importlib.resources.abc
import sys

import pytest

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.problem import Split
from tests.problems.wmt14_archives import CORPORA, lines, write


def expected(language, split):
    result = []
    for _, (other, english) in CORPORA[language][split]:
        count = min(len(lines(other)), len(lines(english)))
        pairs = zip(lines(english)[:count], lines(other)[:count], strict=True)
        result += [(en, xx) for en, xx in pairs if en and xx]
    return result


@pytest.fixture
def raw_dir(tmp_path):
    write(tmp_path)
    return tmp_path


def pairs(problem, raw_dir, split):
    samples = problem.generate_samples("", str(raw_dir), split)
    return [(sample["inputs"], sample["targets"]) for sample in samples]


@pytest.mark.parametrize("language", ["de", "fr"])
def test_the_archives_of_the_real_builder_are_read(raw_dir, language):
    """In the order of its lists, Europarl first, English to the other language."""
    problem = registry.get_problem(f"translate_en{language}_wmt14")
    for split in Split.ALL:
        assert pairs(problem, raw_dir, split) == expected(language, split)
        assert problem.num_samples(str(raw_dir), split) == len(expected(language, split))
    assert not list(raw_dir.rglob("*.incomplete"))


def test_the_same_pairs_as_the_real_builder_prepares(raw_dir, monkeypatch):
    """And what it has prepared is read where it lies in tmp_dir, without any archive."""
    import tensorflow_datasets as tfds

    # tensorflow-datasets 4.9.10 imports the backport when it prepares, and does not require it.
    monkeypatch.setitem(sys.modules, "importlib_resources", importlib.resources)
    monkeypatch.setitem(sys.modules, "importlib_resources.abc", importlib.resources.abc)
    manager = tfds.download.DownloadManager
    # It finds the archives in its manual_dir; theirs are not the published checksums.
    monkeypatch.setattr(manager, "_register_or_validate_checksums", lambda *a, **k: None)
    prepared_dir = raw_dir / "prepared"
    builder = tfds.builder("wmt14_translate/fr-en", data_dir=prepared_dir)
    config = tfds.download.DownloadConfig(manual_dir=raw_dir, try_download_gcs=False)
    builder.download_and_prepare(download_dir=raw_dir / "downloads", download_config=config)
    problem = registry.get_problem("translate_enfr_wmt14")
    for split in Split.ALL:
        assert sorted(pairs(problem, prepared_dir, split)) == sorted(expected("fr", split))
    assert not list(prepared_dir.glob("*.tgz"))


def test_sizes_and_files(raw_dir):
    """About 37,000 subwords for German and 32,000 for French, as section 5.1; and 32k as T2T."""
    names = ["translate_ende_wmt14", "translate_ende_wmt14_32k", "translate_enfr_wmt14"]
    problems = [registry.get_problem(name) for name in names]
    assert [problem.approx_vocab_size for problem in problems] == [37000, 32768, 32000]
    assert problems[1].vocab_filename == "vocab.translate_ende_wmt14_32k.32768.subwords"
    shards = [[(s["split"], s["shards"]) for s in p.dataset_splits] for p in problems]
    assert shards == [[("train", 100), ("dev", 1), ("test", 1)]] * 3
    summary = generate_data(Job(problems[1], raw_dir / "data", raw_dir, num_shards=3))
    made = {split: counts["examples"] for split, counts in summary["splits"].items()}
    assert made == {split: len(expected("de", split)) for split in Split.ALL}
    text = list(problems[0].generate_text_for_vocab("", str(raw_dir)))
    english, german = zip(*expected("de", Split.TRAIN), strict=True)
    assert text == [*english, *german]


def test_byte_pairs_learnt_of_both_languages(raw_dir):
    """As section 5.1: 37,000 merges of the training text of both; text comes out as it went in."""
    problem = registry.get_problem("translate_ende_wmt14_bpe37k")
    assert problem.vocab_filename == "vocab.translate_ende_wmt14_bpe37k.37000.model"
    data_dir = raw_dir / "data"
    generate_data(Job(problem, data_dir, raw_dir, num_shards=2))
    encoders = problem.feature_encoders(str(data_dir))
    assert encoders["inputs"] is encoders["targets"]
    for text in (text for pair in expected("de", Split.TEST) for text in pair):
        assert encoders["inputs"].decode(encoders["inputs"].encode(text)) == text
    problem.prepare_vocabulary(str(data_dir), "nowhere")  # it is there already
    assert problem.decode_hparams == "extra_length=50"
