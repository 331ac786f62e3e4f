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


def test_text_that_is_no_json_is_refused():
    expected = "JSON in the environment variable TF_CONFIG, such as .*Received: '{cluster'.*unset"
    with pytest.raises(UserError, match=expected):
        cluster.from_environment({"TF_CONFIG": "{cluster"})


@pytest.mark.parametrize(
    "jobs", [None, {}, [], {"worker": []}, {"worker": "a:1"}, {"worker": [["a:1"]]}]
)
def test_a_cluster_without_workers_is_refused(jobs):
    with pytest.raises(UserError):
        parse(jobs, worker(0))


@pytest.mark.parametrize("config", ["[]", "3", "{}"])
def test_json_that_is_no_cluster_is_refused(config):
    with pytest.raises(UserError):
        cluster.from_environment({"TF_CONFIG": config})


@pytest.mark.parametrize("job", ["ps", "evaluator", "workers"])
def test_other_kinds_of_workers_are_refused(job):
    with pytest.raises(UserError, match=f'only "chief" and "worker".*Received: {job!r}'):
        parse({"worker": THREE, job: ["d:1"]}, worker(0))


@pytest.mark.parametrize("address", ["a", ":2222", "a:", "a:b"])
def test_an_address_has_a_host_and_a_port(address):
    with pytest.raises(UserError, match=f'each worker as HOST:PORT. Received: "{address}"'):
        parse({"worker": ["b:1", address]}, worker(0))


def test_two_workers_at_one_address_are_refused():
    with pytest.raises(UserError, match="2222"):
        parse({"chief": ["a:2222"], "worker": THREE}, worker(0))


def test_two_chiefs_are_refused():
    with pytest.raises(UserError):
        parse({"chief": THREE}, worker(0, "chief"))


@pytest.mark.parametrize("task", [None, {}, {"type": "worker"}, {"index": 0}, "worker"])
def test_a_task_says_who_it_is(task):
    with pytest.raises(UserError):
        parse({"worker": THREE}, task)


@pytest.mark.parametrize("kind, shown", [("chief", '"chief"'), (["worker"], r'\["worker"\]')])
def test_a_task_of_no_kind_in_the_cluster_is_refused(kind, shown):
    with pytest.raises(UserError, match=f'"type" that the cluster has .worker.. Received: {shown}'):
        parse({"worker": THREE}, worker(0, kind))


@pytest.mark.parametrize("index, shown", [(3, "3"), (-1, "-1"), ("1", '"1"'), (True, "true")])
def test_an_index_is_that_of_a_worker(index, shown):
    expected = f'"index" from 0 to 2: the cluster has 3 worker. Received: {shown}'
    with pytest.raises(UserError, match=expected):
        parse({"worker": THREE}, worker(index))
