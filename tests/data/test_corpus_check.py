"""What t2t-datagen does about bad pairs: it stops, leaves them out everywhere, or takes them."""

import itertools

import pytest

from t2t_repro import problem as problems
from t2t_repro import registry
from t2t_repro.corpora import raw_record
from t2t_repro.data import corpus_check, generate
from t2t_repro.data.job import DROP, KEEP, STOP, Job
from t2t_repro.errors import UserError
from t2t_repro.problem import Split
from tests.data.record_files import read_examples

NOUNS = "dog cat house tree river stone bird cloud road field".split()
TRAIN = [
    (f"the {a} is near the {b} of the {c}", f"der {a[::-1]}o bei dem {b[::-1]}o des {c[::-1]}o")
    for a, b, c in itertools.product(NOUNS, NOUNS[:6], NOUNS[7:])
]
DEV = [
    (f"a {a} or a {b}, perhaps", f"ein {a[::-1]}o oder {b[::-1]}o etwa")
    for a, b in zip(NOUNS, NOUNS[3:], strict=False)
]
BAD = {
    4: ("", "quixotic"),
    10: DEV[2],
    77: ("zzyzx is the same on both", "zzyzx is the same on both"),
}


class Pairs(problems.Text2TextProblem):
    """Its text is in the class."""

    name = "pairs"
    approx_vocab_size = 300
    train = [BAD.get(i, pair) for i, pair in enumerate(TRAIN)]
    dataset_splits = [{"split": Split.TRAIN, "shards": 3}, {"split": Split.EVAL, "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for source, target in self.train if dataset_split == Split.TRAIN else DEV:
            yield {"inputs": source, "targets": target}


class Clean(Pairs):
    train = [pair for i, pair in enumerate(TRAIN) if i not in BAD]


def run(data_dir, check, problem=None, **more):
    job = Job(problem or Pairs(), str(data_dir), str(data_dir), check=check, **more)
    generate.generate_data(job)


def left_out(folder):
    rows = (folder / "datagen.pairs.bad_pairs.tsv").read_text().splitlines()[1:]
    return [row.split("\t")[:3] for row in rows]


def records(folder):
    return {path.name: path.read_bytes() for path in folder.glob("pairs-*")}


def sources(folder):
    return [example for path in folder.glob("pairs-train*") for example in read_examples(path)]


def test_errors_stop_before_anything_is_made(tmp_path):
    with pytest.raises(UserError) as stop:
        run(tmp_path, STOP)
    message = str(stop.value)
    assert "train pair 5" in message and "--drop_bad_pairs" in message
    name = "datagen.pairs.report.json"
    assert [path.name for path in tmp_path.iterdir()] == [name] and name in message
    run(tmp_path, STOP, Clean())
    assert len(sources(tmp_path)) == 177


def test_bad_pairs_are_left_out_of_vocabulary_and_files(tmp_path):
    dropped, never = tmp_path / "dropped", tmp_path / "never"
    run(dropped, DROP)
    run(never, "", Clean())
    assert records(dropped) == records(never) != {}
    vocabulary = next(never.glob("vocab.*")).name
    assert (dropped / vocabulary).read_bytes() == (never / vocabulary).read_bytes()
    assert left_out(dropped) == [
        ["train", "5", "empty"],
        ["train", "11", "leakage"],
        ["train", "78", "copy"],
    ]


class Scored(Pairs):
    """Has a test split of text alone, of which a pair is in training; another is no pair."""

    test = [DEV[0], TRAIN[20], ("nothing", "")]

    def text_alone(self, tmp_dir):
        return [Split.TEST]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        if dataset_split != Split.TEST:
            return super().generate_samples(data_dir, tmp_dir, dataset_split)
        return [{"inputs": source, "targets": target} for source, target in self.test]


def test_training_pairs_of_a_test_split_that_is_text_alone_are_found(tmp_path):
    with pytest.raises(UserError, match="2 .*train pair 11.* 4 "):
        run(tmp_path, STOP, Scored())
    run(tmp_path, DROP, Scored())
    rows = left_out(tmp_path)
    assert ["train", "21", "leakage"] in rows
    assert len(rows) == 4 and len(sources(tmp_path)) == 176


def test_a_choice_stays_until_another_is_made(tmp_path):
    listed = tmp_path / "datagen.pairs.bad_pairs.tsv"
    run(tmp_path, DROP, overwrite=True)
    chosen = listed.read_bytes()
    with pytest.raises(UserError):
        run(tmp_path, STOP, overwrite=True)
    assert listed.read_bytes() == chosen
    run(tmp_path, KEEP, overwrite=True)
    assert len(sources(tmp_path)) == 180 and not listed.exists()


def test_to_leave_out_none_is_to_take_all(tmp_path):
    run(tmp_path, STOP, Clean())
    whole = records(tmp_path)
    for then in (DROP, KEEP):
        (tmp_path / "pairs-dev-00000-of-00001").unlink()
        run(tmp_path, then, Clean())
        assert records(tmp_path) == whole


@pytest.mark.parametrize("weight, dropped, stay", [(2, 0, 197), (1, 20, 177)])
def test_what_weights_repeated_when_the_text_was_made_is_no_duplicate(
    tmp_path, weight, dropped, stay
):
    class Repeated(Clean):
        train = [*Clean.train, *Clean.train[:20]]

    asked = {"train_source": "a.tsv", "train_weights": f"{weight}"}
    share = raw_record.Share("train", "a.tsv", 177, weight, 177 * weight, 1)
    raw_record.Record("0", asked, [], [share], 0, {}).write(tmp_path)
    run(tmp_path, DROP, Repeated())
    assert (len(left_out(tmp_path)), len(sources(tmp_path))) == (dropped, stay)


def test_which_problems_are_checked_unasked():
    def unasked(name):
        return corpus_check.check_unasked(registry.get_problem(name))

    assert corpus_check.check_unasked(Pairs()) == STOP
    assert unasked("text2text_tmpdir") == unasked("text2text_tmpdir_rev") == STOP
    assert unasked("translate_ende_wmt32k") == unasked("translate_ende_multi30k") == ""
    assert unasked("algorithmic_reverse_binary40") == ""


def test_files_are_checked_alone(tmp_path):
    (tmp_path / "some.tsv").write_text("a house\tein Haus\n\tb\n")
    (tmp_path / "more.tsv").write_text("x\tde\ten\n1\tzwei Katzen\ttwo cats\n1\t\ty\n")
    out, raw, problem = tmp_path / "out", tmp_path / "raw", registry.get_problem("text2text_tmpdir")
    for files, lines in (("some", [2]), ("some more", [2, 4])):
        given = ",".join(f"{tmp_path}/{name}.tsv" for name in files.split())
        options = {"train_source": given, "source_language": "en", "target_language": "de"}
        job = Job(problem, str(out), str(raw), options=options)
        report = corpus_check.check_only(job, str)
        assert [line for line, _ in report.bad_pairs("train")] == lines and report.errors
    assert [path.name for path in out.iterdir()] == ["datagen.text2text_tmpdir.report.json"]
    assert not raw.exists()
