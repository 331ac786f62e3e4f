"""Made vocabularies.npz: tensor2tensor 1.15.7's Transformer where the two sides' ids differ.

Run with a Python 3.7 that has tensor2tensor 1.15.7 and TensorFlow 1.15.5:

    python vocabularies.py vocabularies.npz

Of each case the `hparams` of which it is made, as JSON; every variable, `var:NAME`; `inputs`
(3, 7), `targets` (3, 5); the `logits` (3, 5, rows of the softmax's table); and `losses`, those of
five steps of training, dropout off.
"""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.models import transformer
from tensor2tensor.utils import hparam, learning_rate, optimize, registry

INPUTS, TARGETS = 41, 37
SMALL = {
    "hidden_size": 24,
    "filter_size": 40,
    "num_heads": 3,
    "num_hidden_layers": 1,
    "symbol_modality_num_shards": 4,
    "learning_rate_warmup_steps": 400,
}
CASES = {
    "two_sizes": {},
    "two_sizes_of_shared_embeddings": {
        "shared_embedding": True,
        "shared_embedding_and_softmax_weights": False,
    },
    "padded_to_one_size": {"vocab_divisor": 16},
}


def build(hparams, mode):
    """Returns T2T's model, which changes a copy of the hparams."""
    copy = hparam.HParams(**hparams.values())
    copy.problem_hparams = problem_hparams.test_problem_hparams(INPUTS, TARGETS, copy)
    return transformer.Transformer(copy, mode, copy.problem_hparams)


def features(arrays):
    """Returns what T2T's model reads."""
    ids = {side: tf.constant(ids[:, :, None, None]) for side, ids in arrays.items()}
    return dict(ids, target_space_id=tf.constant(4, tf.int32))


def case(changes, rng):
    """Returns the arrays of one case."""
    hparams = registry.hparams("transformer_base")
    for name, value in dict(SMALL, **changes).items():
        hparams.set_hparam(name, value)
    for name in hparams.values():
        if name.endswith("dropout"):
            hparams.set_hparam(name, 0.0)
    hparams.add_hparam("train_steps", 1000)
    arrays = {
        "inputs": rng.randint(2, INPUTS, (3, 7)).astype("int32"),
        "targets": rng.randint(2, TARGETS, (3, 5)).astype("int32"),
    }
    arrays["inputs"][1, 4:] = [1, 0, 0]
    arrays["targets"][2, 3:] = [1, 0]
    result = dict(arrays)
    with tf.Graph().as_default(), tf.Session() as session:
        logits, _ = build(hparams, tf.estimator.ModeKeys.EVAL)(features(arrays))
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            shape = variable.shape.as_list()
            value = rng.randn(*shape) * 0.2 + variable.name.endswith("layer_norm_scale:0")
            variable.load(value.astype("float32"), session)
            result["var:" + variable.name.split(":")[0]] = value.astype("float32")
        result["logits"] = session.run(logits)[:, :, 0, 0]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        _, losses = build(hparams, tf.estimator.ModeKeys.TRAIN)(features(arrays))
        rate = learning_rate.learning_rate_schedule(hparams)
        train = optimize.optimize(losses["training"], rate, hparams)
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            variable.load(result["var:" + variable.name.split(":")[0]], session)
        steps = [session.run([losses["training"], train])[0] for _ in range(5)]
        result["losses"] = np.array(steps)
    simple = (int, float, bool, str, type(None))
    values = {k: v for k, v in hparams.values().items() if isinstance(v, simple)}
    result["hparams"] = np.array(json.dumps(values, sort_keys=True))
    return result


def main(path):
    """Writes the arrays to `path`, each behind its case's name and a slash."""
    rng = np.random.RandomState(5)
    cases = {name: case(changes, rng) for name, changes in CASES.items()}
    arrays = {f"{c}/{n}": a for c, of in cases.items() for n, a in of.items()}
    np.savez_compressed(path, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
