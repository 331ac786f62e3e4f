"""A small run on text of the user's, with its certificate."""

import keras
import pytest

from t2t_repro import registry
from t2t_repro.certificate import certify
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import KEEP, Job
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import checkpoints, model_state

PROBLEM = "text2text_tmpdir"
WORDS = "ab ba aab bba abab baba aabb bbaa".split()
SENTENCES = [" ".join(WORDS[i // 8**k % 8] for k in range(3)) for i in range(70)]


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A folder with two files of the user's, the text and data made of them, and a run."""
    folder = tmp_path_factory.mktemp("certificate")
    for side, text in (("source", SENTENCES), ("target", map(str.upper, SENTENCES))):
        (folder / side).write_text("".join(f"{line}\n" for line in text))
    sides = {f"train_{side}": str(folder / side) for side in ("source", "target")}
    options = {**sides, "dev_size": 30}
    problem = registry.get_problem(PROBLEM)
    raw, data = folder / "raw", folder / "data"
    generate_data(Job(problem, data, raw, options=options, check=KEEP, vocab_size=40, seed=5))
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test", "num_hidden_layers=1"),
        problem=PROBLEM,
        data_dir=str(data),
        version="7",
        random_seed=3,
    )
    run = RunDirectory(folder / "run")
    run.begin(config, ["t2t-trainer"], [data / name for name in problem.vocab_files(data)])
    keras.utils.set_random_seed(4)
    model = model_for(problem, config.hparams, config.data_dir)
    for weight in model.weights:  # so that an end is likely enough to come
        weight.assign(3 * weight)
    model_state.save(run.checkpoints_dir, model, checkpoints.State(step=9))
    for step, loss, more in ((8, 3.0, {}), (9, 2.5, {"bleu_signature": "nrefs:1|tok:zh"})):
        row = {"kind": "eval", "step": step, "time": 1.0, "split": "dev", "sample": "all of it"}
        run.append_metrics({**row, "loss": loss, "bleu": 11.5, **more})
    said = []
    certify.certify_run(run.path, "t2t-trainer", say=said.append)
    assert said == [
        f"Certified: {run.path}/certificate.json. t2t-show {run.path} --verify checks it."
    ]
    return folder
