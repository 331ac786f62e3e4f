"""Runs of models that were not trained, for what is done with a run."""

from t2t_repro import registry
from t2t_repro.models.build import model_for
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import checkpoints


def config(hparams_set, problem, hparams="", data_dir="data"):
    """Returns what a run is, of a set with changes or of other hparams."""
    if isinstance(hparams, str):
        hparams = registry.get_hparams(hparams_set, hparams)
    return RunConfig(
        hparams_set=hparams_set,
        hparams=hparams,
        problem=problem,
        data_dir=str(data_dir),
        version="0",
    )


def begun(path, hparams_set, problem, hparams="", data_dir="data", files=()):
    """Begins the run of a `config` in a folder; returns it."""
    run = RunDirectory(path)
    run.begin(config(hparams_set, problem, hparams, data_dir), ["t2t-trainer"], files)
    return run


def save(run, *steps):
    """Saves a model of its own for each step of a run; returns the last."""
    import keras

    of = run.config
    for step in steps:
        keras.utils.set_random_seed(step)
        model = model_for(registry.get_problem(of.problem), of.hparams, of.data_dir)
        checkpoints.save(run.checkpoints_dir, model, checkpoints.State(step=step))
    return model
