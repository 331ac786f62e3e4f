import json

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training import cluster
from t2t_repro.training.cluster import Cluster

THREE = ["a:2222", "b:2222", "c:70"]


def parse(jobs, task) -> Cluster:
    return cluster.from_environment({"TF_CONFIG": json.dumps({"cluster": jobs, "task": task})})


def worker(index, kind="worker"):
    return {"type": kind, "index": index}


@pytest.mark.parametrize("environment", [{}, {"TF_CONFIG": ""}, {"TF_CONFIG": " \n"}])
def test_without_tf_config_a_worker_is_alone(environment):
    alone = cluster.from_environment(environment)
    assert alone == Cluster() and alone.size == 1 and alone.is_chief


def test_worker_0_is_the_chief():
    assert parse({"worker": THREE}, worker(0)) == Cluster(tuple(THREE), 0)
    assert parse({"worker": THREE}, worker(0)).is_chief
    second = parse({"worker": THREE}, worker(1))
    assert second.index == 1 and second.size == 3 and not second.is_chief
    assert str(second) == "worker 1 of 3"


def test_a_chief_by_name_comes_first():
    jobs = {"worker": THREE[:2], "chief": THREE[2:]}
    assert parse(jobs, worker(0, "chief")) == Cluster(("c:70", "a:2222", "b:2222"), 0)
    assert parse(jobs, worker(0)).index == 1
    assert not parse(jobs, worker(1)).is_chief and parse(jobs, worker(1)).index == 2


@pytest.mark.parametrize("text", ["{cluster", "[]", "3", "{}"])
def test_what_is_no_cluster_is_refused(text):
    with pytest.raises(UserError, match="TF_CONFIG"):
        cluster.from_environment({"TF_CONFIG": text})


@pytest.mark.parametrize(
    "jobs, task",
    [
        *((jobs, worker(0)) for jobs in (None, {}, {"worker": []}, {"worker": [["a:1"]]})),
        *(({"worker": THREE, job: ["d:1"]}, worker(0)) for job in ("ps", "evaluator")),
        ({"chief": ["a:2222"], "worker": THREE}, worker(0)),
        ({"chief": THREE}, worker(0, "chief")),
        *(({"worker": THREE}, task) for task in (None, {}, {"type": "worker"}, "worker")),
        *(({"worker": THREE}, worker(0, kind)) for kind in ("chief", ["worker"])),
        *(({"worker": THREE}, worker(index)) for index in (3, -1, "1")),
    ],
)
def test_workers_that_do_not_say_who_they_are_are_refused(jobs, task):
    with pytest.raises(UserError, match="TF_CONFIG"):
        parse(jobs, task)
