"""From the pairs of a run to a shortlist, and to translations of its candidates alone."""

import numpy as np
import pytest

from t2t_repro import cli, progress, registry
from t2t_repro.bin import decoder, exporter, shortlist
from t2t_repro.data import candidates
from t2t_repro.interop import quality
from t2t_repro.text import shortlist as table
from t2t_repro.training import checkpoints, model_state
from tests import untrained

NAME = "text2text_tmpdir"
PAIRS = [
    ("a dog runs", "ein Hund rennt"),
    ("a cat runs", "eine Katze rennt"),
    ("the dog sleeps", "der Hund schläft"),
    ("the cat sleeps", "die Katze schläft"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a model that was not trained."""
    folder = tmp_path_factory.mktemp("shortlist")
    inputs, targets = zip(*PAIRS * 9, strict=True)
    untrained.write_pairs(folder, {"inputs": inputs, "targets": targets})
    run, model = untrained.run_on(folder, NAME)
    model_state.save(run.checkpoints_dir, model, checkpoints.State(step=3))
    return run.path


def program(module, *flags):
    cli.run("t2t", module.__doc__, module.define_flags, module.main, list(flags))


def error_of(capsys, module, *flags):
    with pytest.raises(SystemExit) as stop:
        program(module, *flags)
    assert stop.value.code == 2
    return capsys.readouterr().err


def test_what_goes_with_what_is_written_beside_the_vocabulary(run, tmp_path, capsys, monkeypatch):
    shown, report = [], progress.report
    monkeypatch.setattr(progress, "report", lambda *about: shown.append(about) or report(*about))
    program(shortlist, f"--output_dir={run}", "--frequent=2")
    said = capsys.readouterr().out
    path = run / "shortlist.txt"
    assert f"Wrote {path}. t2t-decoder --decode_hparams=" in said
    assert "100.00% of " in said and "tokens of dev are among the candidates" in said
    assert shown == [("Counting what goes with what", 36, "pairs")]
    lines = dict(line.split("\t") for line in path.read_text().splitlines())
    assert "<EOS>" in lines[""].split(" ") and len(lines[""].split(" ")) == 3
    few = tmp_path / "few"
    program(shortlist, f"--output_dir={run}", "--best=1", f"--shortlist_file={few}")
    assert len(few.read_text()) < len(path.read_text())
    capsys.readouterr()
    program(shortlist, f"--output_dir={run}", "--shortlist_file=/dev/null")
    said = capsys.readouterr()
    assert said.out == "" and "dev are among" in said.err and "Wrote /dev/null" in said.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--gate_samples=3", "--gate_samples has no effect without --max_bleu_drop."),
        (
            "--max_bleu_drop=1 --decode_hparams=num_samples=1,alpha=1",
            "Expected --decode_hparams that say how to search. Received: num_samples. Leave it",
        ),
        (
            "--max_bleu_drop=1 --decode_hparams=shortlist=RUN/run.json",
            "Expected --decode_hparams without a shortlist: what is tried is the one that is made.",
        ),
        (
            "--max_bleu_drop=1 --decode_hparams=beam_size=1,sampling_method=random",
            "it with sampling_method=random. Leave one of the two out. --max_bleu_drop tries the",
        ),
        ("--best=0", "--best"),
        ("--shortlist_file=RUN/run.json", "to be a file of your own. Received: "),
        ("--shortlist_file=", "Expected --shortlist_file with a value. Received: nothing"),
        ("--shortlist_file=RUN", "to be a file. Received: the folder "),
        ("--shortlist_file=RUN/run.json/x", "run.json"),
        ("--data_dir=nowhere", "nowhere"),
        ("--max_bleu_drop=nan", "nan"),
    ],
)
def test_errors(run, capsys, monkeypatch, flags, message):
    monkeypatch.setattr(candidates, "shortlist_of", None)  # all is known before the work
    flags = flags.replace("RUN", str(run))
    assert message in error_of(capsys, shortlist, f"--output_dir={run}", *flags.split())


@pytest.mark.parametrize(
    ("program_of", "flags", "message"),
    [
        (decoder, ["--t2t_exact"], "with --t2t_exact. Received: shortlist, which it does not read"),
        (decoder, ["--ensemble=x"], "which has the candidates of one. Received: --ensemble=x."),
        (decoder, ["--score_file=FILE", "--decode_to_file=x"], "--score_file reads the decode hpa"),
        (decoder, ["--decode_from_file=FILE", "--decode_to_file=FILE"], "another file than"),
        (exporter, ["--decode_hparams=shortlist=no"], "Expected a file with a shortlist."),
    ],
)
def test_what_cannot_be_among_candidates_is_refused(
    run, tmp_path, capsys, program_of, flags, message
):
    path = tmp_path / "shortlist"
    path.write_text("\t<EOS>\n")
    flags = [flag.replace("FILE", str(path)) for flag in flags]
    among = f"--decode_hparams=shortlist={path}"
    assert message in error_of(capsys, program_of, f"--output_dir={run}", among, *flags)


@pytest.mark.slow
def test_a_translation_is_of_candidates_in_each_engine(run, tmp_path, capsys):
    path, source = tmp_path / "shortlist", tmp_path / "in"
    program(
        shortlist, f"--output_dir={run}", f"--shortlist_file={path}", "--best=2", "--frequent=0"
    )
    source.write_text("a dog\n\nthe cat runs\na dog runs\n")
    settings = f"--decode_hparams=shortlist={path},identity_output=1,extra_length=5"
    encoder = registry.get_problem(NAME).feature_encoders(str(run))["inputs"]
    allowed = table.read(path, {"inputs": encoder, "targets": encoder})
    for engine in ("tensorflow", "ctranslate2"):
        target = tmp_path / engine
        flags = [f"--decode_from_file={source}", f"--decode_to_file={target}", settings]
        program(decoder, f"--output_dir={run}", f"--engine={engine}", *flags)
        written = [list(map(int, line.split())) for line in target.read_text().split("\n")[:-1]]
        assert len(written) == 4 and written[1] == []
        batch = [[*encoder.encode(line), 1] for line in source.read_text().split("\n")[:-1]]
        rows = [allowed.among(np.array([ids]))[0] for ids in batch]
        assert set().union(*written) <= set(np.flatnonzero(np.any(rows, axis=0)).tolist())
    (export,) = (run / "export").glob("ctranslate2-3-????????-shortlist-*")
    assert (export / "vmap.txt").read_bytes() == (path.read_bytes())
    assert " of the model itself " in capsys.readouterr().err
    other = tmp_path / "other"
    other.write_text("\t<EOS>\n")
    flags = [f"--output_dir={run}", "--engine=ctranslate2", f"--engine_dir={export}"]
    flags += [f"--decode_hparams=shortlist={other}"]
    message = f"Expected a CTranslate2 model with the shortlist {other}. Received: one with another"
    assert message in error_of(capsys, decoder, *flags)


@pytest.mark.slow
def test_one_that_costs_too_much_is_not_written(run, tmp_path, capsys, monkeypatch):
    compared = quality.Comparison(before=30.0, after=29.4, identical=7, sentences=11)
    monkeypatch.setattr(quality, "compare", lambda *arguments: compared)
    path = tmp_path / "shortlist"
    flags = [f"--output_dir={run}", f"--shortlist_file={path}", "--max_bleu_drop=0.5"]
    assert "Expected a drop of at most 0.5 BLEU. Received: BLEU 29.40" in error_of(
        capsys, shortlist, *flags
    )
    assert list(tmp_path.iterdir()) == []
    program(shortlist, *flags[:2], "--max_bleu_drop=0.7")
    assert path.exists()
