"""Runs of models that were not trained, for what is done with a run."""

from t2t_repro import registry
from t2t_repro.data.generate import generate_data
from t2t_repro.data.job import Job
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory


def run_on(folder, problem, overrides="num_hidden_layers=1"):
    """Makes a problem's data of the raw files in `folder`, and begins a run on them.

    Returns the run, which has no checkpoint, and its model as it was drawn.
    """
    made, data = registry.get_problem(problem), folder / "data"
    generate_data(Job(made, data, folder, num_shards=1))
    config = RunConfig(
        hparams_set="transformer_test",
        hparams=registry.get_hparams("transformer_test", overrides),
        problem=problem,
        data_dir=str(data),
        version="0",
    )
    run = RunDirectory(folder / "run")
    run.begin(config, ["t2t-trainer"], [data / name for name in made.vocab_files(data)])
    return run, model_for(made, config.hparams, config.data_dir)


def begun(path, hparams_set, problem, hparams=None):
    """Begins a run in a folder, of a set or of other hparams, without data; returns it."""
    config = RunConfig(
        hparams_set=hparams_set,
        hparams=hparams or registry.get_hparams(hparams_set),
        problem=problem,
        data_dir="data",
        version="0",
    )
    run = RunDirectory(path)
    run.begin(config, ["t2t-trainer"], [])
    return run


def write_pairs(folder, sides):
    """Writes {"inputs": lines, "targets": lines} as the raw files of text2text_tmpdir, twice:
    for training and for evaluation."""
    for split in ("train", "eval"):
        for name, lines in sides.items():
            (folder / f"{name}.{split}.txt").write_text("".join(f"{line}\n" for line in lines))
