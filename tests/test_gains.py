"""What fine-tuning gained and lost: both dev sets, parent and child, with intervals."""

import dataclasses
import json
import re

import numpy as np
import pytest

from t2t_repro import cli, gains
from t2t_repro.bin import gains as program
from t2t_repro.decoding import dev_bleu
from t2t_repro.errors import UserError
from t2t_repro.runs import trained_run
from t2t_repro.training import checkpoints, model_state
from tests import untrained


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Returns {name: path} of two runs with data of their own; the weights of the child are 2."""
    folder = tmp_path_factory.mktemp("gains")
    found = {}
    for name, words in {"parent": "a bee saw the sea", "child": "one two three four five"}.items():
        (folder / name).mkdir()
        lines = [f"{words} {i}" for i in range(7)]
        untrained.write_pairs(folder / name, {"inputs": lines, "targets": lines})
        run, model = untrained.run_on(folder / name, "text2text_tmpdir")
        for weight in model.weights:
            weight.assign(np.full(weight.shape, 2 if name == "child" else 1, weight.dtype))
        model_state.save(run.checkpoints_dir, model, checkpoints.State(step=3))
        found[name] = run.path
    start = {"checkpoint": f"{found['parent']}/checkpoints/ckpt-3", "step": 3, "rows": []}
    (found["child"] / "warm-start.json").write_text(json.dumps(start))
    return found


@pytest.fixture
def decoded(monkeypatch):
    """The child knows the new domain and has lost of the old; the parent knows the old."""

    def written(self, engine, settings, encoders):
        child = float(np.asarray(engine.model.weights[0]).flat[0]) == 2
        new = self.references[0].startswith("one")
        assert encoders["inputs"].encode("x y")
        lost = [line.replace("the sea", "it") for line in self.references]
        return self.references if child == new else ["", *lost[1:]] if child else ["no"] * 7

    monkeypatch.setattr(dev_bleu.DevSample, "written", written)


def test_both_dev_sets_are_scored_with_both_runs(runs, decoded, tmp_path, capsys):
    argv = [f"--output_dir={runs['child']}", f"--json_file={tmp_path}/gains.json"]
    cli.run("t2t-gains", "", program.define_flags, program.main, argv)
    out = capsys.readouterr().out
    assert re.search(r"new domain: 0.00 ± 0.00 became 100.00 ± 0.00, \+100.00 BLEU \(p = 0", out)
    assert re.search(r"old domain: 100.00 ± 0.00 became \d\d.\d\d ± \d+.\d\d, -\d\d", out)
    assert "all 7 dev sentences of " in out and "nrefs:1|bs:1000|seed:12345|case:mixed" in out
    learned = "7 pairs of this dev stand in the training text of the"  # whose dev is no other
    assert re.search(rf"new domain: .*data\). {learned} child: what it", out)
    assert re.search(rf"old domain: .*data\). {learned} parent: what it", out)
    new, old = json.loads((tmp_path / "gains.json").read_text())["domains"]
    assert new["overlap"] == {"parent": 0, "child": 7}
    assert old["overlap"] == {"parent": 7, "child": 0}
    assert new["change"] == pytest.approx(100) and old["change"] < -30 and old["p_value"] < 0.05
    with pytest.raises(SystemExit):
        wrong = [argv[0], f"--json_file={runs['child']}/warm-start.json"]
        cli.run("t2t-gains", "", program.define_flags, program.main, wrong)
    assert "warm-start.json" in capsys.readouterr().err
    for name, said in {
        "identity_output": "that say how to search. Received: identity_output. Leave it out",
        "well_formed": "Decode hparam well_formed has no effect on text2text_tmpdir, which writes",
    }.items():
        with pytest.raises(SystemExit) as stopped:
            wrong = [argv[0], f"--decode_hparams=beam_size=1,{name}=True"]
            cli.run("t2t-gains", "", program.define_flags, program.main, wrong)
        assert stopped.value.code == 2 and said in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        argv.append("--max_bleu_drop=0.5")
        cli.run("t2t-gains", "", program.define_flags, program.main, argv)
    assert stopped.value.code == 2
    assert "old domain to fall by at most 0.5 BLEU. Received: -" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--json_file=", "--parent="])
def test_a_flag_without_a_value_is_refused(runs, capsys, flag):
    with pytest.raises(SystemExit):
        argv = [f"--output_dir={runs['child']}", flag]
        cli.run("t2t-gains", "", program.define_flags, program.main, argv)
    assert f"Expected {flag[:-1]} with a value. Received: nothing" in capsys.readouterr().err


def test_a_run_without_a_parent_says_so(runs):
    with pytest.raises(UserError, match="--parent"):
        gains.parent_of(trained_run(runs["parent"]))
    assert gains.parent_of(trained_run(runs["child"])).name == "ckpt-3"


def test_sentences_are_read_in_the_vocabulary_of_the_run_that_decodes(runs):
    """Decoding the other run's dev set with the model itself, untrained."""
    child, parent = trained_run(runs["child"]), trained_run(runs["parent"])
    request = gains.GainsRequest(sentences=2, decode_hparams="beam_size=1,extra_length=1")
    said = []
    new, old = gains.compare(child, parent, request, say=said.append)
    assert (new.name, new.data_dir) == ("new", child.data_dir) and old.data_dir == parent.data_dir
    assert new.sentences == "2 of 7 dev sentences" and len(said) == 6
    with pytest.raises(UserError, match="1"):
        gains.check_drop([dataclasses.replace(old, child=gains.Scored(old.parent.bleu - 2, 0))], 1)
