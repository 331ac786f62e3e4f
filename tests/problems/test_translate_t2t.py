"""T2T's WMT problems: their definitions, and small archives in the shape of their real ones."""

import gzip
import json
import pathlib

import pytest

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.data.needs import requirements
from t2t_repro.problem import Split
from t2t_repro.text.subword import SubwordTextEncoder
from tests.problems.wmt14_archives import write_archive

GOLDEN_FILE = pathlib.Path(__file__).parents[1] / "golden" / "text" / "translate_problems.json"
GOLDEN = json.loads(GOLDEN_FILE.read_text(encoding="utf-8"))
ENDE = GOLDEN["lists"][GOLDEN["problems"]["translate_ende_wmt32k"]["train"]]
OF_EACH_LIST = {
    (of["train"], of["dev"], str(of["datatypes_to_clean"])): name
    for name, of in GOLDEN["problems"].items()
}.values()
BPE = "train.tok.clean.bpe.32000"


def lines(files):
    """Returns the pairs of two files, English first, or of a .tmx file."""
    count = 2 if files[0] == "tmx" else 2 + len(files[0]) % 5
    return [(f"Line {n} of {files[0]}, en.", f"Line {n} of it, other.") for n in range(count)]


@pytest.fixture
def raw_dir(tmp_path):
    """A folder of small archives, one for each URL of T2T's lists, and of its .tmx file."""
    archives = {}
    for url, files in (dataset for datasets in GOLDEN["lists"] for dataset in datasets):
        if files[0] == "tmx":
            tmx = "".join(f"  <seg>{text}</seg>\n" for pair in lines(files) for text in pair)
            (tmp_path / files[1]).write_bytes(gzip.compress(tmx.encode()))
            continue
        for file, texts in zip(files, zip(*lines(files), strict=True), strict=True):
            archives.setdefault(url, {})[file] = "\n".join(texts) + "\n"
    for url, files in archives.items():  # with more in them than is needed
        write_archive(tmp_path / url.rpartition("/")[2], {"README": "not needed", **files})
    return tmp_path


@pytest.mark.parametrize("name", GOLDEN["problems"])
def test_problems_are_defined_as_in_tensor2tensor(name):
    problem, golden = registry.get_problem(name), GOLDEN["problems"][name]

    def plain(lists):
        return json.loads(json.dumps(lists))

    assert plain(problem.source_data_files(Split.TRAIN)) == GOLDEN["lists"][golden["train"]]
    assert plain(problem.source_data_files(Split.EVAL)) == GOLDEN["lists"][golden["dev"]]
    assert plain(problem.vocab_data_files()) == GOLDEN["lists"][golden["vocab_files"]]
    splits = [[s["split"].replace("dev", "eval"), s["shards"]] for s in problem.dataset_splits]
    assert splits == golden["splits"]
    for key in ("vocab_filename", "vocab_type", "packed_length", "packed_spacing"):
        assert getattr(problem, key) == golden[key]
    if golden["vocab_type"] == "subwords":
        assert problem.approx_vocab_size == golden["approx_vocab_size"]
    assert problem.datatypes_to_clean == golden["datatypes_to_clean"]
    assert (problem.input_space_id, problem.target_space_id) == (0, 0)
    needs = requirements(problem, "none", "none")
    assert needs.data_disk > 100e6 and " 0 kB" not in str(needs)
    backwards = registry.get_problem(name + "_rev")
    assert backwards.was_reversed and backwards.vocab_filename == problem.vocab_filename


@pytest.mark.parametrize("name", OF_EACH_LIST)
def test_every_list_is_read_from_its_archives(name, raw_dir):
    problem, golden = registry.get_problem(name), GOLDEN["problems"][name]
    for split, kind in ((Split.TRAIN, "train"), (Split.EVAL, "dev")):
        pairs = [pair for _, files in GOLDEN["lists"][golden[kind]] for pair in lines(files)]
        expected = [{"inputs": source, "targets": target} for source, target in pairs]
        assert problem.num_samples(str(raw_dir), split) == len(expected)
        assert list(problem.generate_samples("", str(raw_dir), split)) == expected
    assert not (raw_dir / "README").exists()
    assert not list(raw_dir.rglob("*.incomplete"))


def test_data_from_archives_to_records(raw_dir):
    """The packed and the clean problem share the vocabulary of the plain one, as in T2T."""
    data_dir = raw_dir / "data"
    made = {}
    for name in ("translate_ende_wmt32k", "translate_ende_wmt_clean32k"):
        made[name] = generate_data(Job(registry.get_problem(name), data_dir, raw_dir, num_shards=2))
    lengths = [len(lines(files)) for _, files in ENDE]
    counts = [summary["splits"]["train"]["examples"] for summary in made.values()]
    assert counts == [sum(lengths)] * 2
    vocabularies = [path.name for path in data_dir.glob("vocab*.subwords")]
    assert vocabularies == ["vocab.translate_ende_wmt32k.32768.subwords"]
    problem = registry.get_problem("translate_ende_wmt32k")
    texts = list(problem.generate_text_for_vocab("", str(raw_dir)))
    assert len(texts) == 2 * sum(lengths) and texts[lengths[0]].endswith("other.")
    encoder = SubwordTextEncoder.build_from_generator(texts, 2**15, max_subtoken_length=200)
    encoder.store_to_file(raw_dir / "expected")
    assert (data_dir / vocabularies[0]).read_bytes() == (raw_dir / "expected").read_bytes()


def test_training_pairs_are_cleaned_and_others_not(raw_dir):
    for file in (*ENDE[0][1], "dev/newstest2013.en", "dev/newstest2013.de"):
        (raw_dir / file).parent.mkdir(exist_ok=True)
        (raw_dir / file).write_text("A sentence.\nnone\n")
    plain, clean = map(
        registry.get_problem, ("translate_ende_wmt32k", "translate_ende_wmt_clean32k")
    )
    counts = [p.num_samples(str(raw_dir), Split.TRAIN) for p in (plain, clean)]
    assert counts[0] - counts[1] == 1
    assert [p.num_samples(str(raw_dir), Split.EVAL) for p in (plain, clean)] == [2, 2]


def test_bpe_files_of_the_archive(tmp_path):
    """The vocabulary file is what T2T 1.5 wrote: reserved tokens before it, UNK behind it."""
    files = {"vocab.bpe.32000": "the\nca@@\nts\n"}
    for name, count in ((BPE, 3), ("newstest2013.tok.bpe.32000", 2)):
        files |= {f"{name}.en": "the ca@@ ts\n" * count, f"{name}.de": "die ca@@ ts\n" * count}
    write_archive(tmp_path / "wmt16_en_de.tar.gz", files)
    problem = registry.get_problem("translate_ende_wmt_bpe32k")
    summary = generate_data(Job(problem, tmp_path / "data", tmp_path, num_shards=1))
    assert (
        tmp_path / "data" / "vocab.bpe.32000"
    ).read_text() == "<pad>\n<EOS>\nthe\nca@@\nts\nUNK\n"
    assert summary["vocab_size"] == {"inputs": 6, "targets": 6}
    assert [made["examples"] for made in summary["splits"].values()] == [3, 2]
    samples = list(problem.generate_encoded_samples(str(tmp_path / "data"), str(tmp_path), "dev"))
    assert samples[0] == {"inputs": [2, 3, 4, 1], "targets": [5, 3, 4, 1]}
