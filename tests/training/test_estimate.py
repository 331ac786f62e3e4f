"""What a run is estimated to take, on a machine that is said."""

import pytest

from t2t_repro import registry
from t2t_repro.data.job import Job
from t2t_repro.models import parameters
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.training import estimate
from t2t_repro.training.machine import Device, Machine
from t2t_repro.training.request import Plan, TrainRequest


def test_each_part_of_a_batch_has_gradients_of_its_own(tmp_path):
    problem, found = registry.get_problem("translate_ende_wmt14"), []
    for parts, replicas in ((1, 1), (3, 1), (1, 2), (3, 2)):
        config = RunConfig(
            hparams_set="transformer_tiny",
            hparams=registry.get_hparams("transformer_tiny"),
            problem=problem.name,
            data_dir=str(tmp_path / "data"),
            version="0",
            batch_parts=parts,
        )
        request = TrainRequest(
            run=RunDirectory(tmp_path / "run"),
            config=config,
            problem=problem,
            plan=Plan(train_steps=9),
            job=Job(problem, config.data_dir, str(tmp_path / "raw")),
        )
        found.append(estimate.of(request, Machine((Device("Cores", 0),), "CPU", replicas, 1e11)))
    whole, parted, shared, unparted = found
    hparams = registry.get_hparams("transformer_tiny")
    one, three = (parameters.gradients(hparams, *whole.vocabulary, parts) for parts in (1, 3))
    assert parted.memory - whole.memory == pytest.approx(4 * (three - one), abs=1)
    assert three > 2 * one
    assert unparted.memory == shared.memory  # devices that share a batch cut it themselves


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
