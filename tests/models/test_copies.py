"""What several devices compute of a model is what one computes; each reads its own weights."""

import json
import threading
import time

import keras
import numpy as np
import pytest

from t2t_repro.models import copies
from tests import forks


def test_devices_compute_side_by_side_and_the_order_is_kept():
    together, at_work = threading.Barrier(3, timeout=20), []

    def work(item, device):
        assert device not in at_work, "a device has two items"
        at_work.append(device)
        together.wait()  # goes on only where all three compute at once
        time.sleep(0.002 * (12 - item))
        at_work.remove(device)
        return item, device

    found = list(copies.map_over_devices(work, range(12), ["a", "b", "c"]))
    assert [item for item, _ in found] == list(range(12))
    assert {device for _, device in found} == {"a", "b", "c"}


def test_what_fails_is_raised_in_its_turn_and_ends_it():
    done = []

    def work(item, device):
        if item == 3:
            raise ValueError("the fourth")
        done.append(item)
        return item

    shared = copies.map_over_devices(work, range(1000), ["a", "b"])
    assert [next(shared) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError):
        next(shared)
    assert max(done) <= 8


@pytest.fixture(scope="module")
def measured(request):
    """What this module prints, run as a program: a backend's devices are fixed when it begins."""
    return json.loads(forks.said_by(__file__, KERAS_BACKEND=request.param).splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("measured", ["tensorflow", "jax"], indirect=True)
def test_two_devices_compute_what_one_computes(measured):
    for name, (one, two) in measured["results"].items():
        assert np.size(one) and two == pytest.approx(one, rel=1e-4, abs=1e-5), name


@pytest.mark.slow
@pytest.mark.parametrize("measured", ["tensorflow"], indirect=True)
def test_each_device_reads_its_own_copy(measured):
    """The second copy was set to zero: which of the batches meet it is a matter of time."""
    assert len(measured["devices"]) == 2
    assert measured["zero"]["one"] == 0 < measured["zero"]["two"] < measured["zero"]["of"]


def main():
    """Prints what a model computes on one device and on two."""
    from t2t_repro import registry
    from t2t_repro.decoding.engine import ModelEngine
    from t2t_repro.decoding.search import Search, Sentences
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import devices
    from t2t_repro.training.evaluation import Evaluator
    from t2t_repro.training.metrics import METRICS

    where = devices.here(2)
    hparams = registry.get_hparams("transformer_test", "num_hidden_layers=1")
    sizes = {"inputs_vocab_size": 50, "targets_vocab_size": 50, "target_space_id": 1}
    one = Transformer.from_hparams(hparams, **sizes)
    with where.scope():
        two = Transformer.from_hparams(hparams, **sizes)
    two.set_weights(one.get_weights())
    random = np.random.default_rng(1)

    class Batches:
        def as_numpy_iterator(self):
            rng = np.random.default_rng(2)
            for rows in (4, 3, 4, 3):
                yield {
                    "inputs": rng.integers(2, 50, (rows, 7)).astype("int32"),
                    "targets": rng.integers(2, 50, (rows, 5)).astype("int32"),
                }

    batches = [
        Sentences(random.integers(2, 50, (rows, 7)), np.full(rows, 9)) for rows in (6, 5, 6, 5, 6)
    ]
    pairs = [
        tuple([*random.integers(2, 50, random.integers(1, 9)).tolist(), 1] for _ in range(2))
        for _ in range(16)
    ]
    results: dict[str, list] = {}
    for model in (one, two):
        engine = ModelEngine(model)
        for beams, alone in ((3, True), (3, False)):
            some, search = batches if alone else batches[::2], Search(beams, per_sentence=alone)
            for n, (ids, scores) in enumerate(engine.decode_all(some, search)):
                for name, value in {"ids": ids, "scores": scores}.items():
                    key = f"{name} of {beams} beams, {n}, {alone}"
                    results.setdefault(key, []).append(value.ravel().tolist())
        for n, values in enumerate(engine.token_log_probs(pairs, 4)):
            results.setdefault(f"pair {n}", []).append(values.tolist())
        links = [float(ord(c)) for text in engine.align(pairs, None) for c in text]
        results.setdefault("links", []).append(links)
        for name, value in Evaluator(model, list(METRICS)).evaluate(Batches()).items():
            results.setdefault(name, []).append(value)
    said = {"results": results, "devices": copies.devices_of(two)}
    if keras.backend.backend() == "tensorflow":
        for variable in two.weights:
            variable.value.values[1].assign(np.zeros(variable.shape, variable.dtype))
        zero = {}
        for name, model in {"one": one, "two": two}.items():
            found = ModelEngine(model).token_log_probs(pairs[:8], 1)
            equal = [
                np.ptp(values) < 1e-6 and abs(values[0] + np.log(50)) < 1e-3 for values in found
            ]
            zero[name] = sum(map(bool, equal))
        said["zero"] = {**zero, "of": 8}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
