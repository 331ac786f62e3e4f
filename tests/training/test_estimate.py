"""What a run is estimated to take, on a machine that is said."""

import dataclasses

import pytest

from t2t_repro import registry
from t2t_repro.data.job import Job
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import estimate
from t2t_repro.training.machine import Device, Machine
from t2t_repro.training.request import Plan, TrainRequest
from t2t_repro.training.trial import Trial

CORES = Machine((Device("Cores", 0),), "CPU", 1, 1e11)


@pytest.fixture
def make(tmp_path):
    """Returns a factory of requests whose data are not there yet."""

    def make(hparams="", problem="translate_ende_wmt14", plan=None, **config):
        found = registry.get_problem(problem)
        config = RunConfig(
            hparams_set="transformer_tiny",
            hparams=registry.get_hparams("transformer_tiny", hparams),
            problem=problem,
            data_dir=str(tmp_path / "data"),
            version="0",
            **config,
        )
        return TrainRequest(
            run=RunDirectory(tmp_path / "run"),
            config=config,
            problem=found,
            plan=plan or Plan(train_steps=9),
            job=Job(found, config.data_dir, str(tmp_path / "raw")),
        )

    return make


def test_text_that_weights_repeat_is_to_have_no_more_subwords(make, tmp_path):
    """Before there is a vocabulary, by the files that are named and by those that were made."""
    options = {}
    for name in ("train_source", "train_target", "dev_source", "dev_target"):
        path = tmp_path / name
        path.write_text("".join(f"a line of words {n}\n" for n in range(10_000)))
        options[name] = str(path)
    request = make(problem="text2text_tmpdir")
    named = dataclasses.replace(request.job, options=options)
    (before, _) = estimate.of(dataclasses.replace(request, job=named), CORES).vocabulary
    weights = {"train_weights": "30"}
    request.problem.prepare_raw_files(str(tmp_path / "raw"), options | weights)
    assert estimate.of(request, CORES).vocabulary == (before, before)


@pytest.mark.parametrize(
    "hparams_set, can",
    [
        ("transformer_base", True),
        ("transformer_own_text_bidirectional", False),  # which counts batches
        ("transformer_own_text_annealed", False),
    ],
)
def test_the_papers_batch_is_proposed_where_it_can_be(hparams_set, can):
    batch = estimate.batch_of(registry.get_hparams(hparams_set), (30.0, 50.0), replicas=2)
    assert batch.can_be_set == can and (batch.source_tokens, batch.target_tokens) == (60, 100)


def test_types_of_two_bytes_need_less_memory_beside_their_copy_of_the_weights(make):
    small, whole = (estimate.of(make(f"activation_dtype={t}"), CORES) for t in TYPES)
    assert small.memory < whole.memory
    of_one = "batch_size=1,activation_dtype="
    small, whole = (estimate.of(make(of_one + t), CORES) for t in TYPES)
    assert small.memory - whole.memory == pytest.approx(2 * whole.parameters, rel=0.03)


TYPES = ("bfloat16", "float32")


def test_packed_problems_are_planned_with_rows_of_their_length(make):
    name = "translate_ende_wmt32k_packed"
    request = make("batch_size=2048", name)
    length = request.problem.packed_length
    shape = estimate.shape_of(request, estimate.data_of(request))
    assert shape.source_length == shape.target_length == length > estimate.LENGTH
    assert shape.source_tokens == pytest.approx(0.9 * 2048)


def test_each_host_has_the_products_and_the_memory_of_its_own_replicas_alone(make):
    one = estimate.of(make(), dataclasses.replace(CORES, replicas=2))
    three = estimate.of(make(), dataclasses.replace(CORES, replicas=6, workers=3))
    assert three.memory == one.memory
    assert three.step_seconds == pytest.approx(one.step_seconds)
    assert three.flop == 3 * one.flop


def test_how_many_checkpoints_there_will_be_follows_from_the_measured_hours(make):
    plan = Plan(train_steps=1000, save_checkpoints_secs=3600)
    request = make(plan=plan)
    before = estimate.of(request, CORES)
    found = estimate.measured(before, request, Trial(step_seconds=36.0, memory=7))
    assert before.checkpoints < found.checkpoints == 10 and found.memory == 7


def test_what_the_data_say_changes_memory_and_obstacles(make, monkeypatch):
    request, small = make(), dataclasses.replace(CORES, devices=(Device("Cores", 5 << 29),))
    before = estimate.of(request, small)
    assert not before.obstacles
    shape = estimate.BatchShape(500, 40, 50)
    monkeypatch.setattr(estimate, "shape_of", lambda request, data: shape)
    after = estimate.again(before, request)
    assert after.memory > before.memory and after.lacks("memory") and after.data is before.data
    measured = estimate.measured(before, request, Trial(1.0, 5))
    assert estimate.again(measured, request).memory == 5  # which no estimate takes the place of
    failed = estimate.measured(before, request, Trial(failure="out of memory"))
    said = [str(obstacle) for obstacle in estimate.again(failed, request).obstacles]
    assert said[-1] == "a step was tried, and its process ended: out of memory"


def test_a_gpu_with_room_is_to_make_the_papers_update_of_one_batch(make):
    device = Device("NVIDIA H200", 150 << 30)
    plan = estimate.of(make("batch_size=3000"), Machine((device,), "GPU", 1, 3e14))
    tokens = plan.batch.mean_tokens
    assert 2000 < tokens < 3000
    size = -(-25_000 * 3000 / tokens // 1024) * 1024
    said = f"--hparams=batch_size={size:.0f}, for which there should be memory, "
    assert said in str(plan) and "effective_batch_size" not in str(plan)
    small = dataclasses.replace(device, memory=9 * plan.memory)
    assert "--hparams=effective_batch_size=25000" in str(
        dataclasses.replace(plan, machine=dataclasses.replace(plan.machine, devices=(small,)))
    )


def test_a_step_of_a_few_milliseconds_is_said_with_its_tenths(make):
    plan = estimate.of(make(), CORES)
    for seconds, said in ((0.0043, "4.3 ms"), (0.0361, "36 ms"), (1.26, "1.3 s")):
        assert f" steps of {said}: " in str(dataclasses.replace(plan, step_seconds=seconds))


def test_of_a_run_at_its_end_no_time_is_said(make):
    plan = estimate.of(make(), CORES)
    assert "effective_batch_size=25000" in str(plan) and " steps of " in str(plan)
    ended = str(dataclasses.replace(plan, steps=0))
    assert "  time         no step is left: the run is at its end\n" in ended
    assert "effective_batch_size" not in ended and "the paper's are 25,000 of each\n" in ended
