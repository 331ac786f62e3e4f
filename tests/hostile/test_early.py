"""What is wrong is said before TensorFlow is loaded: in a second, not in ten."""

import json
import re
import subprocess
import sys

import pytest

CODE = """
import importlib, sys
sys.argv = sys.argv[1:]
try:
    importlib.import_module("t2t_repro.bin." + sys.argv[0]).console()
finally:
    heavy = {"tensorflow", "keras"} & sys.modules.keys()
    print("loaded:", *heavy)
"""
NEW = (
    "--problem=algorithmic_reverse_binary40_test --hparams_set=transformer_test "
    "--data_dir=TRAINED/data --output_dir=NONE"
)
AGAIN = "--output_dir=TRAINED/run --data_dir=TRAINED/data"
BEST = "--eval_early_stopping_steps=5 --eval_early_stopping_metric"
CASES = {
    "an unknown schedule": ("trainer", f"{NEW} --schedule=trian", "Unknown schedule.*'trian'"),
    "another schedule with a metric": (
        *("trainer", f"{NEW} --schedule=trian {BEST}=loss --keep_best=1"),
        "Unknown schedule.*'trian'",
    ),
    "an unknown metric": ("trainer", f"{NEW} {BEST}=blue", "Unknown metric.*'blue'"),
    "an unknown metric of the best": (
        *("trainer", f"{NEW} --keep_best=1 --best_metric=blue"),
        "Unknown metric of --best_metric.*'blue'",
    ),
    "a metric that is not evaluated": (
        *("trainer", f"{NEW} --schedule=train --keep_best=1"),
        "Expected a schedule that evaluates",
    ),
    "the direction of a metric": (
        *("trainer", f"{NEW} {BEST}=accuracy --eval_early_stopping_metric_minimize"),
        "of accuracy, more is better",
    ),
    "a student's folder that holds something else": (
        *("distill", "--teacher=TRAINED/run --output_dir=TRAINED"),
        "Expected --output_dir to be a new or empty folder, or one of t2t-distill",
    ),
    "an unknown factor of the rate": (
        *("trainer", f"{NEW} --hparams=learning_rate_schedule=constant*linear_warmpu"),
        "Unknown factor in learning_rate_schedule.*linear_warmup",
    ),
    "an unknown optimizer": ("trainer", f"{NEW} --hparams=optimizer=adamm", "Unknown optimizer"),
    "a warm start from nowhere": (
        *("trainer", f"{NEW} --warm_start_from=NONE"),
        "Expected a checkpoint in .*none. Received: no such folder",
    ),
    "a warm start from a folder without a checkpoint": (
        *("trainer", f"{NEW} --warm_start_from=TRAINED/data"),
        "Expected a checkpoint in .*data. Received: a folder without a whole ckpt-STEP",
    ),
    "another configuration": (
        *("trainer", f"{AGAIN} --hparams=hidden_size=64"),
        "begun with another configuration: hidden_size was 16, now 64",
    ),
    "another configuration to evaluate": (
        *("trainer", f"{AGAIN} --schedule=evaluate --hparams=pos=none,num_heads=1"),
        "begun with another configuration: .*pos was 'timing', now 'none'",
    ),
    "another seed": (
        *("trainer", f"{AGAIN} --random_seed=7"),
        "begun with another configuration: random_seed was 0, now 7",
    ),
    "an unknown decode hparam": (
        *("decoder", "--output_dir=TRAINED/run --decode_hparams=beamsize=4"),
        "beamsize.*Did you mean 'beam_size'",
    ),
    "a decode hparam without effect": (
        *("decoder", "--output_dir=TRAINED/run --decode_hparams=sampling_temp=0.5"),
        "sampling_temp has no effect",
    ),
    "a decode hparam that the engine cannot follow": (
        "decoder",
        "--output_dir=TRAINED/run --engine=ctranslate2 --score_file=TRAINED/run/run.json",
        "Expected what --engine=ctranslate2 can do. Received: --score_file with",
    ),
    "an output that a run needs": (
        "decoder",
        "--output_dir=TRAINED/run --decode_from_file=TRAINED/run/run.json "
        "--decode_to_file=TRAINED/run/metrics.jsonl",
        "Expected --decode_to_file to be a file of your own.*which the run .* needs",
    ),
    "a folder as an output": (
        "decoder",
        "--output_dir=TRAINED/run --decode_from_file=TRAINED/run/run.json --decode_to_file=TRAINED",
        "Expected --decode_to_file to be a file. Received: the folder",
    ),
    "no checkpoint to decode with": (
        *("decoder", "--output_dir=TRAINED/run --checkpoint_path=NONE"),
        "Expected a checkpoint in .*none",
    ),
    "no checkpoint to evaluate": (
        *("evaluator", "--output_dir=TRAINED/run --checkpoint_path=NONE"),
        "Expected a checkpoint in .*none",
    ),
    "an unknown decode hparam of an export": (
        *("exporter", "--output_dir=TRAINED/run --decode_hparams=beamsize=4"),
        "beamsize.*Did you mean 'beam_size'",
    ),
    "no checkpoint to export": (
        *("exporter", "--output_dir=TRAINED/run --checkpoint_path=NONE"),
        "Expected a checkpoint in .*none",
    ),
    "an export into a folder that holds files": (
        *("exporter", "--output_dir=TRAINED/run --export_dir=TRAINED"),
        "Expected a new or empty folder. Received: .*which holds files",
    ),
    "an export below a file": (
        *("exporter", "--output_dir=TRAINED/run --export_dir=TRAINED/run/run.json/x"),
        "File exists: '.*run.json'",
    ),
    "translations below a file": (
        "decoder",
        "--output_dir=TRAINED/run --decode_from_file=TRAINED/run/run.json "
        "--decode_to_file=TRAINED/data/datagen.algorithmic_reverse_binary40_test.json/x",
        "File exists: '.*datagen.*json'",
    ),
    "a run below a file": (
        *("trainer", NEW.replace("NONE", "TRAINED/run/run.json/x")),
        "Not a directory: '.*run.json/x'",
    ),
    "translations of all checkpoints below a file": (
        "translate_all",
        "--model_dir=TRAINED/run --source=TRAINED/run/run.json "
        "--translations_dir=TRAINED/run/run.json",
        "run.json",
    ),
    "no checkpoint for tensor2tensor": (
        *("checkpoint", "export --output_dir=TRAINED/run --t2t_dir=NONE --checkpoint_path=NONE"),
        "Expected a checkpoint in .*none",
    ),
    "no checkpoint of which to draw pictures": (
        *("visualize", "--output_dir=TRAINED/run --source=1 --checkpoint_path=NONE"),
        "Expected a checkpoint in .*none",
    ),
    "gains of what is no text": (
        *("gains", "--output_dir=TRAINED/run --parent=TRAINED/run"),
        "t2t-gains scores text, which algorithmic_reverse_binary40_test",
    ),
    "an unknown decode hparam of all checkpoints": (
        "translate_all",
        "--model_dir=TRAINED/run --source=TRAINED/run/run.json --decode_hparams=beamsize=4",
        "beamsize.*Did you mean 'beam_size'",
    ),
    "a reference of another length for all checkpoints": (
        "translate_all",
        "--model_dir=TRAINED/run --source=TRAINED/run/run.json "
        "--reference=TRAINED/run/metrics.jsonl --translations_dir=NONE",
        "Expected a line in .*metrics.jsonl for each of .*run.json. Received: ",
    ),
    "an unknown decode hparam of a picture": (
        *("visualize", "--output_dir=TRAINED/run --source=1 --decode_hparams=beamsize=4"),
        "beamsize.*Did you mean 'beam_size'",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_before_anything_heavy_is_loaded(trained, tmp_path, name):
    program, flags, message = CASES[name]
    paths = {"TRAINED": str(trained), "NONE": str(tmp_path / "none")}
    argv = [re.sub("TRAINED|NONE", lambda found: paths[found[0]], flag) for flag in flags.split()]
    done = subprocess.run(
        [sys.executable, "-c", CODE, program, *argv], capture_output=True, text=True
    )
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done.stderr
    assert re.search(message, done.stderr), done.stderr
    assert done.stdout.endswith("loaded:\n"), done.stdout
    assert not (tmp_path / "none").exists()


PACKAGE = """
from t2t_repro import registry
from t2t_repro.registry import register_problem


@register_problem
class MyOwn(type(registry.get_problem("algorithmic_reverse_binary40_test"))):
    pass
"""


def test_a_problem_of_a_package_that_was_not_named(call, refused, tmp_path, monkeypatch):
    from t2t_repro import registry

    monkeypatch.setattr(registry, "_PROBLEMS", dict(registry._PROBLEMS))
    package, data, run = tmp_path / "package", tmp_path / "data", tmp_path / "run"
    package.mkdir()
    (package / "__init__.py").write_text(PACKAGE)
    flags = (
        *("--problem=my_own", "--hparams_set=transformer_test", "--generate_data"),
        *("--hparams=num_hidden_layers=1,batch_size=256", "--train_steps=1", "--eval_steps=1"),
        *(f"--data_dir={data}", f"--output_dir={run}", "--samples_every=0"),
    )
    outcome = call("trainer", *flags, f"--t2t_usr_dir={package}")
    assert outcome.code == 0, outcome.err
    assert json.loads((run / "run.json").read_text())["t2t_usr_dir"] == str(package)
    registry._PROBLEMS.pop("my_own")
    said = f"'my_own'. The run was made with --t2t_usr_dir={package}: give that."
    for program in ("trainer", "evaluator", "decoder", "exporter"):
        refused(call(program, f"--output_dir={run}"), "Unknown problem", said)
