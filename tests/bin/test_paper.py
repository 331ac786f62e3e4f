import json

import pytest

from t2t_repro import cli, registry
from t2t_repro.bin import paper as program
from t2t_repro.run_directory import RunConfig, RunDirectory

BLEU = {
    "sacrebleu": {"score": 26.61, "signature": "tok:13a"},
    "compound_split": {"score": 27.11, "signature": "split"},
}
F1 = {"all": {"f1": 88.76, "precision": 89.1, "recall": 88.4, "valid_sentences": 237}}


def run(*argv):
    cli.run("t2t-paper", program.__doc__, program.define_flags, program.main, list(argv))


def refused(capsys, *argv):
    with pytest.raises(SystemExit) as leaving:
        run(*argv)
    assert leaving.value.code == 2
    return capsys.readouterr().err


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def trained(path, problem, name, score):
    hparams = registry.get_hparams("transformer_base_v1")
    config = RunConfig(
        hparams_set="transformer_base_v1",
        hparams=hparams,
        problem=problem,
        data_dir="data",
        version="0",
    )
    RunDirectory(path).begin(config, ["t2t-trainer"], [])
    (path / name).write_text(json.dumps(score))


def test_the_tables(folder, capsys):
    run()
    out = capsys.readouterr().out
    for text in ("ByteNet", "c_dmodel1024", "Luong et al. (2015)", "65.13"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 100
    values = json.loads((folder / "paper" / "paper.json").read_text())
    assert list(values) == ["2", "2-cost", "2-others", "3", "3-parameters", "4", "settings"]
    base, big = values["2-cost"]["rows"]
    assert base["FLOP by time"] == pytest.approx(3.2832e18)
    assert big["FLOP by time"] == pytest.approx(2.29824e19)
    markdown = (folder / "paper" / "paper.md").read_text()
    assert "| Transformer (big) | 28.4 | 41.8 | 2.3e19 | 2.3e19 | 27.7 |" in markdown


def test_runs_stand_beside_the_papers(folder, capsys):
    trained(folder / "a", "translate_ende_wmt32k", "bleu.json", BLEU)
    trained(folder / "b", "parsing_wsj16k", "f1.json", F1)
    (folder / "b" / "bleu.json").write_text(json.dumps(BLEU))  # a score more, and no row more
    (folder / "b" / "bleu-dev.json").write_text('{"sacrebleu": {"score": 3.25}}')
    run("--tables=2,3,4", "--runs=a,b")
    out = capsys.readouterr().out
    assert "26.61" in out and "27.11" in out and "tok:13a" in out and "88.76" in out
    values = json.loads((folder / "paper" / "paper.json").read_text())
    (bleu, _), (f1,), (dev,) = (values[f"{table}-runs"]["rows"] for table in (2, 4, 3))
    assert (dev["run"], dev["BLEU"]) == ("b", 3.25)
    assert (bleu["run"], bleu["sacreBLEU"]) == ("a", 26.61)
    assert (f1["run"], f1["F1"], f1["sentences"]) == ("b", 88.76, 237)


def test_settings_and_table_3_need_no_score(folder, capsys):
    trained(folder / "a", "translate_ende_wmt32k", "bleu.json", BLEU)
    (folder / "a" / "bleu.json").unlink()
    run("--tables=3,settings", "--runs=a")
    values = json.loads((folder / "paper" / "paper.json").read_text())
    assert any("a" in row for row in values["settings-runs"]["rows"])
    for table in ("2", "4"):
        assert "of the run. Received: neither. Make one" in refused(
            capsys, f"--tables={table},settings", "--runs=a"
        )


@pytest.mark.parametrize(
    "argv, named",
    [
        (["--tables=5"], "'5'"),
        (["--tables=setting"], "'settings'"),
        (["--tables="], "--tables"),
        (["--tables=2", "--runs=nowhere"], "nowhere"),
    ],
)
def test_what_is_refused(folder, capsys, argv, named):
    assert named in refused(capsys, *argv)
    assert not (folder / "paper").exists()
