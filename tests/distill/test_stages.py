"""The stages of t2t-distill, with programs that only leave the files that the next one needs."""

import json
import pathlib

import pytest

from t2t_repro import process, registry
from t2t_repro.distill import pairs, stages
from tests.distill.conftest import DEV, TRAIN, request_of
from tests.programs import Programs

STAGES = ["sources", "translations", "pairs", "data", "training", "tuning"]
COMPARED = ["dev_teacher", "dev_student", "comparison"]
PROGRAMS = ["decoder", "datagen", "trainer", "avg-all", "decoder", "decoder", "bleu"]


class DistillPrograms(Programs):
    def flags_of(self, name):
        return next(flags for called, flags in self.called if called == name)

    def decoder(self, flags):
        """Writes each sentence backwards, and other beams; nothing of one that is "cd"."""
        sources = pathlib.Path(flags["decode_from_file"]).read_text().splitlines()
        lines = best = ["" if line == "cd" else line[::-1] for line in sources]
        if flags.get("output_format") == "jsonl":
            many = "return_beams" in flags.get("decode_hparams", "")
            beams = [
                [text, f" {text}\r\n", f"{text}\n2", "third"][: 4 if many else 1] for text in best
            ]
            lines = [json.dumps({"hypotheses": [{"text": t} for t in of]}) for of in beams]
        target = pathlib.Path(flags["decode_to_file"])
        target.parent.mkdir(exist_ok=True)
        target.write_text("".join(f"{line}\n" for line in lines))

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

    def bleu(self, flags):
        pathlib.Path(flags["json_file"]).write_text("{}")


@pytest.fixture
def programs(monkeypatch):
    made = DistillPrograms()
    monkeypatch.setattr(process, "program", made)
    return made


def run(request):
    said = []
    return stages.distill(request, said.append), "\n".join(said)


def text_of(folder, split="train"):
    files = [folder / "out" / "text" / split / name for name in pairs.FILES]
    return list(zip(*(file.read_text().splitlines() for file in files), strict=True))


def test_the_student_learns_what_the_teacher_writes(programs, folder):
    more = f"{folder / 'more'},{folder / 'more.gz'}"
    found, said = run(request_of(folder, monolingual=more, train_steps=4000))
    assert list(found.stages) == STAGES + COMPARED and programs.names == PROGRAMS
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
    decoder, trainer = programs.flags_of("decoder"), programs.flags_of("trainer")
    assert set(decoder) == {"output_dir", "decode_from_file", "decode_to_file", "output_format"}
    assert programs.flags_of("datagen")["vocab"].startswith(str(folder / "teach"))
    assert trainer["hparams_set"] == "transformer_own_text_small"
    assert len(found.inputs) == 3 and str(folder / "more.gz") in found.inputs
    assert trainer["train_steps"] == "4000" and trainer["local_eval_frequency"] == "200"
    hparams = registry.get_hparams(trainer["hparams_set"], trainer["hparams"])
    assert (hparams.num_encoder_layers, hparams.num_decoder_layers) == (6, 2)
    assert (hparams.hidden_size, hparams.filter_size) == (16, 24)
    assert programs.flags_of("avg-all")["beam_sizes"] == "1"
    of_teacher, of_student = (flags for name, flags in programs.called[1:] if name == "decoder")
    assert of_teacher["output_dir"] == str(folder / "teach")
    assert of_student["output_dir"] == str(folder / "out" / "model")
    compared = programs.flags_of("bleu")
    assert compared["baseline"] == of_teacher["decode_to_file"]
    assert compared["translation"] == of_student["decode_to_file"]
    for name, stage in found.stages.items():
        assert not stage.command or f"  {stage.command}" in said, name
    # The same again does nothing; more steps train on, and make what follows anew.
    del programs.called[:]
    again, said = run(request_of(folder, monolingual=more, train_steps=4000))
    assert again == found and not programs.called and said.count("done before") == len(found.stages)
    run(request_of(folder, monolingual=more, train_steps=5000))
    assert programs.names == PROGRAMS[2:]


def test_the_best_of_the_beam_each_once(programs, folder):
    run(request_of(folder, n_best=3, decode_hparams="beam_size=6"))
    decoder = programs.flags_of("decoder")
    assert decoder["decode_hparams"] == "beam_size=6,return_beams=True"
    rows = [row for row in text_of(folder) if row[0] == "ab cd"]
    assert rows == [("ab cd", "cd ab", text) for text in ("dc ba", "dc ba 2", "third")]


def test_what_is_known_comes_first_as_often_as_it_is_asked_for(programs, folder):
    run(request_of(folder, monolingual=str(folder / "more.gz"), repeat_gold=2, warm_start=True))
    rows = text_of(folder)
    gold = sorted((a, b, b) for a, b in TRAIN)
    assert sorted(rows[:3]) == sorted(rows[3:6]) == gold
    assert rows[-1] == ("ab cd cd", "dc dc ba", "dc dc ba") and len(rows) == 9
    trainer = programs.flags_of("trainer")
    assert trainer["warm_start_from"] == str(folder / "teach") and "warm_start_partial" in trainer


@pytest.mark.parametrize("flag", ["monolingual", "back_translate"])
def test_text_that_is_in_dev_is_left_out_and_counted(programs, folder, flag):
    (folder / "more").write_text("cd cd\ncd ab ab\n ab \n")  # the first and the last are in dev
    found, said = run(request_of(folder, **{flag: str(folder / "more")}))
    assert found.stages["sources"].found == 2 and "  2 sentences left out" in said
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
    for path, side in zip(programs.flags_of("datagen")["vocab"].split(","), sides, strict=True):
        assert path.endswith(f"vocab.text2text_tmpdir.{side}.subwords")
    assert "num_encoder_layers" not in programs.flags_of("trainer")["hparams"]
    assert "beam_sizes" not in programs.flags_of("avg-all")
    assert list(found.stages) == STAGES
