"""The stages of t2t-distill, with programs that only leave the files that the next one needs."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

from t2t_repro import files, process, registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.distilling import comparison, pairs, stages
from t2t_repro.distilling.comparison import Comparison, Side
from t2t_repro.errors import UserError
from t2t_repro.runs import trained_run
from t2t_repro.scoring.significance import Scored
from t2t_repro.training import checkpoints
from tests.data.record_files import write_examples
from tests.distilling.conftest import DEV, TRAIN, request_of, write_run
from tests.programs import Programs

STAGES = ["sources", "translations", "pairs", "data", "training", "tuning", "comparison"]
PROGRAMS = ["decoder", "datagen", "trainer", "avg-all"]
FOUND = Comparison(
    sentences="all 2 dev sentences",
    teacher=Side("teach", "beam_size=4,alpha=0.6", Scored(40.0, 1.5), 200.0),
    student=Side("out/model", "beam_size=1,alpha=0.6", Scored(39.75, 1.25), 900.0),
    p_value=0.25,
    signature="x",
)


class Stages(Programs):
    def of(self, name):
        return next(flags for called, flags in self.called if called == name)

    def decoder(self, flags):
        """Writes each sentence backwards; nothing of one that is "cd"."""
        sources = pathlib.Path(flags["decode_from_file"]).read_text().splitlines()
        best = ["" if line == "cd" else line[::-1] for line in sources]
        lines = best
        if flags.get("output_format") == "jsonl":
            beams = [[text, f" {text}\r\n", f"{text}\n2", "third"] for text in best]
            texts = [[{"text": text} for text in of] for of in beams]
            lines = [json.dumps({"hypotheses": of}) for of in texts]
        pathlib.Path(flags["decode_to_file"]).write_text("".join(f"{line}\n" for line in lines))

    def datagen(self, flags):
        data = pathlib.Path(flags["data_dir"])
        data.mkdir()
        (data / f"datagen.{flags['problem']}.json").write_text("{}")

    def trainer(self, flags):
        run = pathlib.Path(flags["output_dir"])
        run.mkdir(exist_ok=True)
        (run / "training-data.json").write_text("{}")

    def avg_all(self, flags):
        pathlib.Path(flags["output_dir"]).mkdir(exist_ok=True)
        pathlib.Path(flags["output_dir"], "decoding.json").write_text("{}")


@pytest.fixture
def programs(monkeypatch):
    made = Stages()
    monkeypatch.setattr(process, "program", made)
    monkeypatch.setattr(comparison, "compare", lambda *args: FOUND)
    return made


def run(request):
    said = []
    return stages.run(request, said.append), "\n".join(said)


def text_of(folder, split="train"):
    files = [folder / "out" / "text" / split / name for name in pairs.FILES]
    return list(zip(*(file.read_text().splitlines() for file in files), strict=True))


def test_the_student_learns_what_the_teacher_writes(programs, folder):
    more = f"{folder / 'more'},{folder / 'more.gz'}"
    found, said = run(request_of(folder, monolingual=more, train_steps=4000))
    assert list(found.stages) == STAGES and programs.names == PROGRAMS
    assert sorted(text_of(folder)) == [
        ("ab ab cd", "cd", "dc ba ba"),
        ("ab cd", "cd ab", "dc ba"),
        ("ab cd cd", "dc dc ba", "dc dc ba"),
        ("cd ab ab", "ba ba dc", "ba ba dc"),
    ]
    assert text_of(folder)[-2:] == [
        ("cd ab ab", "ba ba dc", "ba ba dc"),
        ("ab cd cd", "dc dc ba", "dc dc ba"),
    ]
    assert text_of(folder, "dev") == [(a, b, b) for a, b in DEV]
    assert found.stages["pairs"].found["translated"] == 4 and "  2 without a translation" in said
    decoder, trainer = programs.of("decoder"), programs.of("trainer")
    assert set(decoder) == {"output_dir", "decode_from_file", "decode_to_file"}
    assert programs.of("datagen")["vocab"].startswith(str(folder / "teach"))
    assert trainer["hparams_set"] == "transformer_own_text_small"
    assert len(found.inputs) == 3 and str(folder / "more.gz") in found.inputs
    assert trainer["train_steps"] == "4000" and trainer["local_eval_frequency"] == "200"
    hparams = registry.get_hparams(trainer["hparams_set"], trainer["hparams"])
    assert (hparams.num_encoder_layers, hparams.num_decoder_layers) == (6, 2)
    assert (hparams.hidden_size, hparams.filter_size) == (16, 24)
    assert programs.of("avg-all")["beam_sizes"] == "1"
    assert "-0.25 BLEU (p = 0.250), 4.5 times as fast" in said
    for name, stage in found.stages.items():
        assert not stage.command or f"  {stage.command}" in said, name
    record = json.loads((folder / "out" / "distill.json").read_text())
    assert record["stages"]["comparison"]["found"]["p_value"] == 0.25
    # The same again does nothing; more steps train on, and make what follows anew.
    del programs.called[:]
    again, said = run(request_of(folder, monolingual=more, train_steps=4000))
    assert (
        again == found and not programs.called and said.count(": done before, in ") == len(STAGES)
    )
    run(request_of(folder, monolingual=more, train_steps=5000))
    assert programs.names == PROGRAMS[2:]
    # Fewer than were made are refused before anything is.
    write_run(folder / "out" / "run", "text2text_tmpdir", folder / "data")  # its step is 12
    record = (folder / "out" / "distill.json").read_text()
    with pytest.raises(UserError, match="12"):
        run(request_of(folder, monolingual=more, train_steps=11))
    assert (folder / "out" / "distill.json").read_text() == record


def test_a_teacher_whose_data_are_of_another_problem(programs, folder, made, tmp_path):
    data = tmp_path / "others"
    shutil.copytree(made / "data", data)
    (shard,) = data.glob("text2text_tmpdir-train-*")
    write_examples(shard, [{"inputs": [3, 1], "labels": [1]}])
    run_file = folder / "teach" / "run.json"
    run_file.write_text(run_file.read_text().replace(str(made / "data"), str(data)))
    with pytest.raises(UserError, match="text2text_tmpdir"):
        run(request_of(folder))
    assert not programs.called


def test_it_goes_on_behind_what_is_done(programs, folder):
    programs.fails = "t2t-datagen"
    with pytest.raises(UserError, match="2"):
        run(request_of(folder))
    programs.fails = ""
    del programs.called[:]
    found, _ = run(request_of(folder))
    assert programs.names == PROGRAMS[1:] and list(found.stages) == STAGES


def test_what_another_has_done_meanwhile_is_not_done_again(programs, folder, monkeypatch):
    """Both were begun at once; this one waits for the other."""
    locked = files.locked

    def after_the_other(folders, say):
        monkeypatch.setattr(files, "locked", locked)
        run(request_of(folder))
        del programs.called[:]
        return locked(folders, say)

    monkeypatch.setattr(files, "locked", after_the_other)
    found, _ = run(request_of(folder))
    assert list(found.stages) == STAGES and not programs.called


def test_the_best_of_the_beam_each_once(programs, folder):
    shutil.copytree(folder / "teach", folder / "other")
    more = {"ensemble": str(folder / "other"), "only_data": True}
    found, _ = run(request_of(folder, n_best=3, decode_hparams="beam_size=6", **more))
    weights = [
        str(folder / name / "checkpoints/ckpt-12/weights.npz") for name in ("teach", "other")
    ]
    assert list(found.inputs) == weights and programs.of("decoder")["ensemble"] == more["ensemble"]
    decoder = programs.of("decoder")
    assert decoder["decode_hparams"] == "beam_size=6,return_beams=True"
    assert decoder["output_format"] == "jsonl"
    rows = [row for row in text_of(folder) if row[0] == "ab cd"]
    assert rows == [("ab cd", "cd ab", text) for text in ("dc ba", "dc ba 2", "third")]
    assert programs.names == PROGRAMS[:2]


def test_self_training_adds_text_to_what_is_known(programs, folder):
    more = {"training_sources": False, "repeat_gold": 2, "only_data": True}
    found, said = run(request_of(folder, monolingual=str(folder / "more.gz"), **more))
    rows = text_of(folder)
    gold = sorted((a, b, b) for a, b in TRAIN)
    assert sorted(rows[:3]) == sorted(rows[3:6]) == gold
    assert rows[6:] == [("ab cd cd", "dc dc ba", "dc dc ba")]
    assert "The student's data are in" in said and "  t2t-trainer --problem=text2text_tmp" in said
    # Without --only_data it goes on from there.
    more["only_data"] = False
    del programs.called[:]
    run(request_of(folder, monolingual=str(folder / "more.gz"), **more))
    assert programs.names == PROGRAMS[2:]


@pytest.mark.parametrize("flag", ["monolingual", "back_translate"])
def test_text_that_is_in_dev_is_left_out_and_counted(programs, folder, flag):
    (folder / "more").write_text("cd cd\ncd ab ab\n ab \n")  # the first and the last are in dev
    found, said = run(request_of(folder, **{flag: str(folder / "more")}))
    assert "  2 left out, as they are in dev" in said
    rows = [row for row in text_of(folder) if set(row) & {"cd ab ab", "cd cd", "ab"}]
    taught = ("♻ ba ba dc", "cd ab ab", "cd ab ab")
    given = [taught] if flag == "back_translate" else [("cd ab ab", "ba ba dc", "ba ba dc")]
    known = {(a, b, b) for a, b in TRAIN} | {(b, a, a) for a, b in TRAIN}
    assert [row for row in rows if row not in known] == given


@pytest.mark.parametrize("teacher, swapped", [("back", False), ("forth", True)])
def test_back_translations_have_a_tag_and_the_students_direction(
    programs, folder, teacher, swapped
):
    found, said = run(request_of(folder, teacher, back_translate=str(folder / "more")))
    rows = text_of(folder)
    known = [(b, a) for a, b in TRAIN] if swapped else TRAIN
    assert sorted(rows[:3]) == sorted((a, b, b) for a, b in known)
    assert rows[3:] == [("♻ ba ba dc", "cd ab ab", "cd ab ab")]
    dev = [(b, a) for a, b in DEV] if swapped else DEV
    assert text_of(folder, "dev") == [(a, b, b) for a, b in dev]
    sides = ("inputs", "targets")[:: -1 if swapped else 1]
    for flag, side in zip(("source_vocab", "target_vocab"), sides, strict=True):
        assert programs.of("datagen")[flag].endswith(f"vocab.text2text_tmpdir.{side}.subwords")
    assert "num_encoder_layers" not in programs.of("trainer")["hparams"]
    assert "beam_sizes" not in programs.of("avg-all")
    assert list(found.stages) == STAGES[:-1]


def test_a_reverse_teacher_writes_sources_for_what_is_known(programs, folder):
    """Data diversification: gold, then the teacher's translations, then the other's sources."""
    back = str(folder / "back")
    found, said = run(request_of(folder, "forth", reverse_teacher=back, warm_start=True))
    rows = text_of(folder)
    assert sorted(rows[:3]) == sorted((a, b, b) for a, b in TRAIN)
    assert sorted(rows[3:5]) == [("ab ab cd", "cd", "dc ba ba"), ("ab cd", "cd ab", "dc ba")]
    assert sorted(rows[5:]) == [("ba", "ab", "ab"), ("ba dc", "cd ab", "cd ab")]
    assert text_of(folder, "dev") == [(a, b, b) for a, b in DEV]
    assert "  2 translated by the reverse teacher" in said and "  2 without a translation" in said
    assert found.stages["pairs"].found["pairs of the teacher's data"] == 3
    after = STAGES.index("pairs")
    assert list(found.stages) == [
        *STAGES[:after],
        "targets",
        "reverse_translations",
        *STAGES[after:],
    ]
    assert [called for called, _ in programs.called][:2] == ["decoder", "decoder"]
    assert programs.called[1][1]["output_dir"] == back and back in str(found.inputs)
    trainer = programs.of("trainer")
    assert "num_encoder_layers" not in trainer["hparams"]
    assert trainer["warm_start_from"] == str(folder / "forth") and "warm_start_partial" in trainer
    assert "beam_sizes" not in programs.of("avg-all")


def test_a_reverse_teacher_of_the_teachers_own_direction_is_found_by_what_it_writes(
    programs, folder, monkeypatch
):
    monkeypatch.setattr(pairs, "_JUDGED", range(2, 4))
    sources = {"cd ab ab cd": "ab cd ab ab cd", "ab ab ab cd cd": "cd cd ab cd", "ab cd": "cd"}
    for split in ("train", "eval"):
        for side, lines in (("inputs", sources.values()), ("targets", sources)):
            (folder / f"{side}.{split}.txt").write_text("".join(f"{line}\n" for line in lines))
    problem = registry.get_problem("text2text_tmpdir")
    vocabularies = trained_run(folder / "forth").vocabularies
    generate_data(Job(problem, str(folder / "long"), str(folder), vocabularies=vocabularies))
    request = request_of(
        folder,
        "forth",
        data_dir=str(folder / "long"),
        reverse_teacher=str(folder / "back"),
        only_data=True,
    )
    with pytest.raises(UserError, match="3"):
        run(request)
    assert not (folder / "out" / "text").exists()

    def right(flags):
        lines = pathlib.Path(flags["decode_from_file"]).read_text().splitlines()
        text = "".join(f"{sources.get(line, line)}\n" for line in lines)
        pathlib.Path(flags["decode_to_file"]).write_text(text)

    programs.decoder = right
    found, _ = run(dataclasses.replace(request, output_dir=str(folder / "other")))
    assert found.stages["pairs"].found["translated by the reverse teacher"] == 3


def test_a_reversed_teachers_student_has_its_sides(programs, folder):
    run(request_of(folder, "back", only_data=True))
    assert text_of(folder, "dev") == [(b, a, a) for a, b in DEV]
    assert programs.of("datagen")["source_vocab"].endswith("targets.subwords")


def test_what_it_was_begun_with_must_stay(programs, folder, monkeypatch):
    request = request_of(folder, monolingual=str(folder / "more"), source_tag=None)
    run(request)
    monkeypatch.chdir(folder / "out")
    run(dataclasses.replace(request, output_dir="."))
    assert programs.names == PROGRAMS
    with pytest.raises(UserError, match="--n_best"):
        run(dataclasses.replace(request, n_best=2))
    before = (folder / "more").rename(folder / "before")
    (folder / "more").write_text("ab\n")
    with pytest.raises(UserError):
        run(request)
    before.rename(folder / "more")
    arrays, where = {checkpoints.WEIGHTS: {"kernel": np.ones(7)}}, folder / "teach" / "checkpoints"
    checkpoints.write(where, arrays, checkpoints.State(step=13))
    with pytest.raises(UserError, match="weights.npz"):
        run(request)


def test_other_records_of_the_teacher_are_noticed(programs, folder, made):
    programs.fails = "t2t-decoder"
    with pytest.raises(UserError):
        run(request_of(folder))
    programs.fails = ""
    with (folder / "out" / "teacher" / "sources.txt").open("a") as sources:
        sources.write("ab\n")
    with pytest.raises(UserError, match="sources.txt"):
        run(request_of(folder))


@pytest.mark.parametrize(
    "more, message",
    [
        ({"n_best": 5}, "--n_best of at most beam_size=4. Received: 5. Add --decode_hparams=beam"),
        ({"decode_hparams": "return_beams=True"}, "Received: return_beams. Leave it out"),
        ({"hparams": "num_decoder_layer=1"}, "'num_decoder_layer'.* mean 'num_decoder_layers'"),
        ({"hparams_set": "transformer_smal"}, "hparams set. Received: 'transformer_smal'"),
        ({"teacher": "none"}, "Expected a run directory .*Received: .*none without run.json"),
        ({"ensemble": "none"}, "Expected a run directory .*Received: .*none without run.json"),
        ({"ensemble": "forth"}, "Expected runs with the same vocabulary in --ensemble. Received"),
        ({"ensemble": "back"}, "Expected runs of text2text_tmpdir in --ensemble. Received"),
        (
            {"engine": "ctranslate2", "decode_hparams": "min_length_ratio=0.5"},
            "Expected what --engine=ctranslate2 can do. Received: min_length_ratio with",
        ),
        ({"reverse_teacher": "none"}, "a run directory .*Received: .*none without run.json"),
        ({"reverse_teacher": "forth"}, "to translate the other way. Received: .*forth, of text2te"),
        (
            {"warm_start": True, "hparams": "hidden_size=32"},
            "hidden_size, 16, with --warm_start. R",
        ),
        ({"output_dir": "teach/student"}, "--output_dir to be another file than --teacher"),
        ({"output_dir": "."}, "output_dir.*distill.json"),
        ({"data_dir": "data"}, "Expected files text2text_tmpdir-train"),
    ],
)
def test_what_cannot_be_is_refused_before_the_work(programs, folder, made, more, message):
    (folder / "data").mkdir()
    for path in (made / "data").glob("vocab*"):
        shutil.copy(path, folder / "data")
    paths = {
        name: str(folder / more[name])
        for name in ("teacher", "output_dir", "data_dir", "ensemble", "reverse_teacher")
        if name in more
    }
    request = dataclasses.replace(request_of(folder), **more | paths)
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=message):
        run(request)
    assert sorted(folder.rglob("*")) == before and not programs.called


@pytest.mark.parametrize(
    "problem, hparams_set, message",
    [
        ("wsj_parsing", "transformer_tiny", "that writes text.* wsj_parsing, which writes tree"),
        ("translate_ende_wmt_characters", "transformer_tiny", "which writes text, with characte"),
        ("algorithmic_reverse_nlplike8k", "transformer_tiny", "with no vocabulary. Name another"),
    ],
)
def test_a_run_that_cannot_teach_is_refused(folder, made, problem, hparams_set, message):
    write_run(folder / "other", problem, made / "data", "", hparams_set)
    with pytest.raises(UserError, match=message):
        run(request_of(folder, "other"))
    assert not (folder / "out").exists()


def test_a_reverse_teacher_that_writes_no_text_is_refused(folder, made):
    write_run(folder / "parser", "wsj_parsing", made / "data", "", "transformer_tiny")
    with pytest.raises(UserError, match="--reverse_teacher"):
        run(request_of(folder, reverse_teacher=str(folder / "parser")))


def test_a_text_without_sentences_is_named(programs, folder):
    (folder / "more").write_text("\n\n")
    two = f"{folder / 'more.gz'},{folder / 'more'}"
    for training_sources in (False, True):
        with pytest.raises(UserError):
            run(request_of(folder, monolingual=two, training_sources=training_sources))
        shutil.rmtree(folder / "out")
