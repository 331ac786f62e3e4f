"""Programs that only leave the files that the next one of t2t-own-text needs, and requests."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from t2t_repro import process, registry
from t2t_repro.corpora.request import RawText
from t2t_repro.decoding.tune import Beams
from t2t_repro.own_text import plan, stages
from t2t_repro.own_text.request import OwnTextRequest
from t2t_repro.provenance import Golden
from t2t_repro.text import SubwordTextEncoder
from t2t_repro.training import checkpoints
from tests import untrained
from tests.programs import Programs
from tests.provenances import recorded
from tests.tuned import choice


class OwnTextPrograms(Programs):
    kind = "CPU"  # that trains
    pairs, seconds = 7, 0.5  # of training; a step
    sides = ("32768",)  # of which there is a vocabulary each

    def datagen(self, flags):
        text, data = pathlib.Path(flags["tmp_dir"]), pathlib.Path(flags["data_dir"])
        for folder in (text, data):
            folder.mkdir()
        for side in ("inputs", "targets"):
            for split in ("train", "eval", "test"):
                (text / f"{side}.{split}.txt").write_text("a <b> & c\nd\n")
        for side in self.sides:
            encoder = SubwordTextEncoder.build_to_target_size(30, {f"a{side}": 9, "d": 8}, 1, 9)
            encoder.store_to_file(str(data / f"vocab.text2text_tmpdir.{side}.subwords"))
        of = {"examples": self.pairs, "tokens": {"inputs": 3, "targets": 5}}
        summary = {
            "splits": {"train": of, "dev": of | {"examples": 7}},
            "vocab_size": {"targets": 11},
        }
        text_of = json.dumps(summary | {"vocabulary": None})
        (data / "datagen.text2text_tmpdir.json").write_text(text_of)
        checked = {"languages": ["en", "de"], "bad_pairs": 3}
        (data / "datagen.text2text_tmpdir.report.json").write_text(json.dumps(checked))

    def trainer(self, flags):
        hparams = registry.get_hparams(flags["hparams_set"], flags.get("hparams", ""))
        if hparams.effective_batch_size:
            chosen = {"optimizer": "multistep_adam", "optimizer_multistep_accumulate_steps": 8}
            hparams = dataclasses.replace(hparams, **chosen)
        named = flags["hparams_set"], "text2text_tmpdir", hparams, flags["data_dir"]
        run = untrained.begun(flags["output_dir"], *named)
        (run.path / "training-data.json").write_text('{"targets_tokens": 600, "batches": 6}')
        planned = {"machine": {"kind": self.kind}, "parameters": 210_000}
        (run.path / "plan.json").write_text(json.dumps(planned))
        for step in (10, 20, 30, 40):  # the first evaluation compiles
            row = {"step": step, "loss": 3.0, "time": self.seconds * step + 90 * (step > 20)}
            run.append_metrics(row | {"kind": "train"})
            if step % 20 == 0:
                of_dev = {"kind": "eval", "time": row["time"] + 2, "split": "dev", "bleu": 1.5}
                run.append_metrics(row | of_dev)
        arrays = {checkpoints.WEIGHTS: {"kernel": np.zeros((300, 700), "float32")}}
        checkpoints.write(run.checkpoints_dir, arrays, checkpoints.State(step=12))

    def avg_all(self, flags):
        out = pathlib.Path(flags["output_dir"])
        out.mkdir(exist_ok=True)
        choice(12, 2.0, Beams(5, 0.8, 2.5)).write(out)
        recorded("run").write(out)

    def decoder(self, flags):
        target = pathlib.Path(flags["decode_to_file"])
        target.parent.mkdir()
        target.write_text("a <b> & c\nd e\n")

    def visualize(self, flags):
        pathlib.Path(flags["explain"]).write_text("computes")

    def exporter(self, flags):
        folder = pathlib.Path(flags["export_dir"])
        folder.mkdir(parents=True)
        (folder / "saved_model.pb").write_text("model")
        golden = (Golden("a longer one", "A", -1.0), Golden("it's", "B", -2.0))
        recorded("saved_model", golden=golden).write(folder)


@pytest.fixture
def programs(monkeypatch):
    made = OwnTextPrograms()
    monkeypatch.setattr(process, "program", made)
    monkeypatch.setattr(stages.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(plan.preset, "has_gpu", lambda: False)
    return made


@pytest.fixture
def request_of(tmp_path):
    """Returns a factory of requests for 40 pairs."""
    for side in ("en", "de"):
        (tmp_path / side).write_text("".join(f"{side} {i}\n" for i in range(40)))
    files = {"train_source": str(tmp_path / "en"), "train_target": str(tmp_path / "de")}

    def make(output_dir="out", raw=files, **more):
        raw_text = RawText(**raw)
        return OwnTextRequest(raw=raw_text, output_dir=str(tmp_path / output_dir), **more)

    return make


def run(request):
    """Returns the record of all stages, and what they say."""
    said = []
    return stages.make_translator(request, said.append), "\n".join(said)


def plan_of(record):
    return plan.Plan(**record.stages["plan"].found)
