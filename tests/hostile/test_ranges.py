"""Numbers beyond what they can be, in hparams, decode hparams and flags: refused with the range."""

import pathlib
import subprocess
import sys

import pytest

from t2t_repro import memory, registry
from t2t_repro.models import parameters
from tests.hostile.conftest import PROBLEM

HUGE = ("1e308", str(10**22), str(2**63), "-1e308")
WIDTHS = (*HUGE, str(2**31), str(2**20 + 1))
WHOLE = (*HUGE, str(10**17), str(2**31))
HPARAMS = {
    "hidden_size": WIDTHS,
    "filter_size": (*WIDTHS, "0"),
    "attention_key_channels": WIDTHS,
    "attention_value_channels": WIDTHS,
    "num_hidden_layers": (*WIDTHS, "1001"),
    "num_encoder_layers": (*WIDTHS, "1001"),
    "num_decoder_layers": (*WIDTHS, "1001"),
    "num_heads": (*WIDTHS, "0"),
    "max_length": WHOLE,
    "min_length": WHOLE,
    "min_length_bucket": WHOLE,
    "max_input_seq_length": WHOLE,
    "max_target_seq_length": WHOLE,
    "batch_size": WHOLE,
    "batch_shuffle_size": WHOLE,
    "attention_chunk_size": WHOLE,
    "vocab_divisor": (*WHOLE, str(10**9), "0"),
    "symbol_modality_num_shards": (*WHOLE, str(10**9)),
    "learning_rate_warmup_steps": (*HUGE, str(10**17)),
    "train_steps": (*HUGE, str(10**17)),
    "length_bucket_step": ("1e308", "1e39", "1001", "1"),
    "initializer_gain": ("1e308", "1e39", "1000001", "0"),
    "learning_rate": ("1e308", "1e39", "-1"),
    "clip_grad_norm": ("1e308", "1e39"),
    "weight_decay": ("1e308", "1e39"),
    "optimizer_adam_epsilon": ("1e308", "1e39"),
}
# Those that need another setting to be read.
WITH = {
    "max_relative_position": ("self_attention_type=dot_product_relative", WHOLE),
    "attention_block_length": ("self_attention_type=local_unmasked", WHOLE),
    "optimizer_multistep_accumulate_steps": ("optimizer=multistep_adam", WHOLE),
    "learning_rate_decay_steps": ("learning_rate_decay_scheme=exp", (*HUGE, str(10**17))),
    "learning_rate_cosine_cycle_steps": ("learning_rate_decay_scheme=cosine", ("1e308",)),
}
HPARAM_CASES = [
    *((name, "", value) for name, values in HPARAMS.items() for value in values),
    *((name, more, value) for name, (more, values) in WITH.items() for value in values),
]
# No text of an hparam is a number where these stand.
NO_NUMBERS = ("1e309", "nan", "inf", "9" * 5000, "0x10", "")
DECODE_HPARAMS = {
    "beam_size": (*WHOLE, "100000", "4097", "0"),
    "extra_length": (*WHOLE, "3e9", str(10**20), "100001"),
    "num_samples": HUGE,
    "batch_size": WHOLE,
    "max_input_size": WHOLE,
    "shards": WHOLE,
    "alpha": ("1e308", "inf", "nan", "10.1"),
    "min_length_ratio": ("1e308", "inf", "nan"),
    "max_length_ratio": ("1e308", "inf", "nan"),
    "beam_size=1,sampling_method=random,sampling_temp": ("1e308", "inf", "nan", "0"),
    "beam_size=1,sampling_method=random,sampling_keep_top_k": WHOLE,
}
DECODE_CASES = [(name, value) for name, values in DECODE_HPARAMS.items() for value in values]
BEYOND = (str(10**21), str(2**63), str(-(10**21)))
FLAGS = {
    "trainer": (
        *("train_steps", "eval_steps", "local_eval_frequency", "save_checkpoints_secs"),
        *("keep_checkpoint_max", "keep_best", "eval_early_stopping_steps", "samples_every"),
        *("eval_throttle_seconds", "log_step_count_steps", "random_seed", "worker_gpu"),
        *("inter_op_parallelism_threads", "intra_op_parallelism_threads", "memory_limit_mb"),
        "max_nonfinite_steps",
    ),
    "evaluator": ("eval_steps",),
    "decoder": ("decode_shards", "worker_id"),
    "datagen": ("num_shards", "max_cases", "random_seed", "num_concurrent_processes"),
    "avg_all": ("n", "min_steps", "wait_minutes"),
    "translate_all": ("min_steps", "beam_size"),
    "compare": ("seeds", "train_steps", "evaluations", "eval_steps", "bleu_sentences"),
    "score_trees": ("cutoff", "worst"),
    "reproduce": ("seeds", "train_steps", "batch", "warmup_steps", "worker_gpu"),
    "server": ("port", "max_batch_size", "max_queue", "max_sentence_tokens"),
    "bleu": ("min_steps",),
    "exporter": ("gate_samples",),
    "visualize": ("length", "last_step"),
}
FLAG_CASES = [
    (program, name, value) for program in FLAGS for name in FLAGS[program] for value in BEYOND
]
NOT_NUMBERS = {
    "trainer": ("keep_checkpoint_every_n_hours", "eval_early_stopping_metric_delta"),
    "compare": ("learning_rate_constant",),
    "server": ("timeout_s",),
    "translate_all": ("wait_minutes", "alpha"),
    "paper": ("efficiency",),
}
TOO_LARGE = {
    "hidden_size": "hidden_size=1000000",
    "filter_size": "filter_size=1048576,num_hidden_layers=1000",
    "layers": "num_hidden_layers=1000,hidden_size=65536",
    "relative": "self_attention_type=dot_product_relative,max_relative_position=10000000,"
    "hidden_size=131072",
    "vocabulary": "vocab_divisor=1048576,hidden_size=1048576,num_hidden_layers=1",
    "positions": "pos=emb,max_length=10000000,hidden_size=131072",
}


def trainer(tmp_path, hparams, *more):
    return [
        *("trainer", f"--problem={PROBLEM}", "--hparams_set=transformer_test"),
        *(f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'out'}", f"--hparams={hparams}"),
        *more,
    ]


@pytest.fixture
def before_tensorflow(monkeypatch):
    """Lets a program fail that trains or loads a model."""

    def forbidden(*_):
        raise AssertionError("the value was not refused")

    monkeypatch.setattr("t2t_repro.training.experiment.run", forbidden)
    monkeypatch.setattr("t2t_repro.runs.TrainedRun.model", forbidden)


@pytest.mark.usefixtures("before_tensorflow")
@pytest.mark.parametrize("name, more, value", HPARAM_CASES)
def test_hparams(call, refused, tmp_path, name, more, value):
    hparams = ",".join(filter(None, (more, f"{name}={value}")))
    refused(call(*trainer(tmp_path, hparams)), f"{name} ", "Expected ", "Received: ")


@pytest.mark.usefixtures("before_tensorflow")
@pytest.mark.parametrize("name", ["hidden_size", "length_bucket_step", "initializer_gain"])
@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda text: text[:9])
def test_hparams_that_are_no_numbers(call, orderly, refused, tmp_path, name, value):
    outcome = call(*trainer(tmp_path, f"{name}={value}"))
    refused(outcome, f"hparam {name} to be", "Received: ")
    orderly(outcome)


@pytest.mark.usefixtures("before_tensorflow")
def test_no_layers(call, refused, tmp_path):
    refused(call(*trainer(tmp_path, "num_hidden_layers=0")), "num_hidden_layers >= 1", "=0")
    refused(call(*trainer(tmp_path, "num_hidden_layers=0,num_encoder_layers=2")), "both")


@pytest.mark.parametrize("name, value", DECODE_CASES)
def test_decode_hparams(call, refused, run, tmp_path, name, value):
    (tmp_path / "in").write_text("0 1 1\n")
    flags = [f"--output_dir={run}", f"--decode_from_file={tmp_path / 'in'}"]
    outcome = call("decoder", *flags, f"--decode_hparams={name}={value}")
    refused(outcome, name.rpartition(",")[2], "Expected ", "Received: ")


@pytest.mark.parametrize("program, name, value", FLAG_CASES)
def test_integer_flags(call, refused, program, name, value):
    refused(call(program, f"--{name}={value}"), name)


@pytest.mark.parametrize(
    "program, name", [(p, name) for p in NOT_NUMBERS for name in NOT_NUMBERS[p]]
)
def test_flags_that_are_not_a_number(call, refused, program, name):
    refused(call(program, f"--{name}=nan"), name)


@pytest.mark.usefixtures("before_tensorflow")
@pytest.mark.parametrize("case", TOO_LARGE)
def test_a_model_beyond_memory(call, refused, tmp_path, case):
    refused(call(*trainer(tmp_path, TOO_LARGE[case])), "GB of memory", "parameters", "Received: ")


SEARCHES = {
    "decoder": ("--output_dir=RUN", "--decode_from_file=IN"),
    "exporter": ("--output_dir=RUN", "--export_dir=OUT"),
    "translate_all": ("--model_dir=RUN", "--source=IN", "--translations_dir=OUT"),
    "visualize": ("--output_dir=RUN", "--source=0 1 1"),
}


@pytest.mark.parametrize("program", SEARCHES)
def test_a_search_beyond_memory(call, refused, run, tmp_path, monkeypatch, program):
    (tmp_path / "in").write_text("0 1 1\n")
    monkeypatch.setattr(memory, "total", lambda: 10**6)
    places = {"RUN": run, "IN": tmp_path / "in", "OUT": tmp_path / "out"}
    flags = list(SEARCHES[program])
    for name, path in places.items():
        flags = [flag.replace(f"={name}", f"={path}") for flag in flags]
    outcome = call(program, *flags, "--decode_hparams=beam_size=40,extra_length=999")
    refused(outcome, "Expected a search that fits into the ", "beam_size=40 of up to 1,000 tokens")
    assert not (tmp_path / "out").exists()


def test_the_memory_that_training_takes(monkeypatch):
    problem, hparams = registry.get_problem(PROBLEM), registry.get_hparams("transformer_test")
    size = problem.targets_vocab_size("")
    values = parameters.count(hparams, size).total
    monkeypatch.setattr(memory, "total", lambda: 12 * values)
    parameters.check_memory(hparams, problem, "", training=True)
    monkeypatch.setattr(memory, "total", lambda: 12 * values - 1)
    parameters.check_memory(hparams, problem, "", training=False)
    with pytest.raises(Exception, match=f"{values:,} parameters and 2 of the optimizer for each"):
        parameters.check_memory(hparams, problem, "", training=True)
    adafactor = hparams.override("optimizer=adafactor")
    parameters.check_memory(adafactor, problem, "", training=True)


def test_a_refusal_comes_before_tensorflow(tmp_path):
    cases = ["hidden_size=1e308", "hidden_size=1000000", "num_hidden_layers=1e22"]
    code = (
        "import sys; from t2t_repro.bin import trainer\n"
        "try: trainer.console()\n"
        "finally: assert 'tensorflow' not in sys.modules and 'keras' not in sys.modules\n"
    )
    for case in cases:
        flags = trainer(tmp_path, case)[1:]
        done = subprocess.run([sys.executable, "-c", code, *flags], capture_output=True, text=True)
        assert done.returncode == 2 and "Expected" in done.stderr, done.stderr
    assert not pathlib.Path(tmp_path, "out").exists()
