"""Made baselines/*.npz: what tensor2tensor 1.15.7's recurrent and convolutional models compute.

Run with a Python 3.7 that has tensor2tensor 1.15.7 and TensorFlow 1.15.5:

    python baselines.py FOLDER [CASE ...]

The arrays are those of the folder models/: `var:NAME`, random; what a batch gives in eval mode; the
loss and learning rate of 20 steps without dropout, and how far they moved each variable; `trained:`
weights, which end their sentences, and what greedy and beam search write with them.
"""

import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor import models  # noqa: F401
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.layers import common_layers
from tensor2tensor.utils import learning_rate, optimize, registry
from tensor2tensor.utils.hparam import HParams

VOCAB, BATCH, SOURCE, TARGET = 37, 4, 11, 7
SMALL = {"hidden_size": 12, "num_hidden_layers": 2}
BOTH = "lstm_seq2seq_attention_bidirectional_encoder"
CASES = {  # name: (model, set, changes)
    "lstm": ("lstm_seq2seq", "lstm_seq2seq", {"num_hidden_layers": 3}),
    "bahdanau": ("lstm_seq2seq_attention", "lstm_attention", {"attention_layer_size": 10}),
    "luong_multi": (
        "lstm_seq2seq_attention",
        "lstm_luong_attention_multi",
        {"attention_layer_size": 5, "num_heads": 3},
    ),
    "cell_output": (
        "lstm_seq2seq_attention",
        "lstm_luong_attention",
        {"attention_layer_size": 7, "output_attention": False, "shared_embedding": True},
    ),
    "bidirectional": ("lstm_seq2seq_bidirectional_encoder", "lstm_seq2seq", {}),
    "bidirectional_bahdanau_multi": (
        BOTH,
        "lstm_bahdanau_attention_multi",
        {"attention_layer_size": 8, "num_heads": 2},
    ),
    "bytenet": ("byte_net", "bytenet_base", {"num_block_repeat": 2, "weight_decay": 0.1}),
}


def settings(set_name, changes):
    """The set, small, with steps so short that rounding is not amplified."""
    hparams = registry.hparams(set_name)
    for name, value in dict(SMALL, **changes).items():
        hparams.set_hparam(name, value)
    hparams.symbol_modality_num_shards = 1
    hparams.learning_rate_warmup_steps = 400
    hparams.add_hparam("train_steps", 1000)
    return hparams


def batch(rng):
    """Rows of several lengths: the end of a sentence, then padding."""
    arrays = []
    for length in (SOURCE, TARGET):
        ids = rng.randint(2, VOCAB, (BATCH, length)).astype("int32")
        for i, end in enumerate([length, *rng.randint(3, length, BATCH - 1)]):
            ids[i, end - 1], ids[i, end:] = 1, 0
        arrays.append(ids)
    return arrays


def model_of(name, hparams, mode, **changes):
    """The model in a mode."""
    own = HParams()
    for key, value in dict(hparams.values(), **changes).items():
        own.add_hparam(key, value)
    own.problem_hparams = problem_hparams.test_problem_hparams(VOCAB, VOCAB, own)
    return registry.model(name)(own, mode, own.problem_hparams)


def features_of(inputs, targets=None):
    """What T2T's models take: ids (B, length, 1, 1)."""
    arrays = {"inputs": inputs, "targets": targets}
    found = {k: tf.constant(v[:, :, None, None]) for k, v in arrays.items() if v is not None}
    found["target_space_id"] = tf.constant(4, tf.int32)
    return found


def load(values, session):
    """Sets every variable but the step."""
    for variable in tf.global_variables():
        name = variable.name.split(":")[0]
        if name in values:
            variable.load(values[name], session)


def random_variables(rng):
    """Every variable random, so that nothing hides behind ones and zeros."""
    found = {}
    for variable in tf.trainable_variables():
        name, shape = variable.name.split(":")[0], variable.shape.as_list()
        rows = int(np.prod(shape[:-1])) if "weights_" not in name else shape[-1]
        scale = rows**-0.5 if len(shape) > 1 else 0.1
        found[name] = (scale * rng.randn(*shape) + name.endswith("_scale")).astype("float32")
    return found


def run(case, folder):
    """Writes one case."""
    rng = np.random.RandomState(sum(map(ord, case)))
    name, set_name, changes = CASES[case]
    hparams = settings(set_name, changes)
    inputs, targets = batch(rng)
    result = {"inputs": inputs, "targets": targets}
    modes = tf.estimator.ModeKeys
    with tf.Graph().as_default(), tf.Session() as session:
        model = model_of(name, hparams, modes.EVAL)
        bodies, body = [], model.body
        model.body = lambda features: bodies.append(body(features)) or bodies[-1]
        features = features_of(inputs, targets)
        logits, losses = model(features)
        sums = common_layers.padded_cross_entropy(logits, features["targets"], 0.0)
        smoothed = common_layers.padded_cross_entropy(
            logits, features["targets"], hparams.label_smoothing
        )[0]
        session.run(tf.global_variables_initializer())
        variables = random_variables(rng)
        load(variables, session)
        values = session.run([bodies[0], logits, sums, smoothed, losses["training"]])
        assert abs(values[2][0] / values[2][1] - values[4]) < 1e-4
        result["decoder_output"] = values[0][:, :, 0]
        result["logits"] = values[1][:, :, 0, 0]
        result["loss_sum"], result["loss_weight"] = values[2]
        result["smoothed_loss_sum"] = values[3]
    result.update({"var:" + key: value for key, value in variables.items()})
    print(case, {k: v.shape for k, v in variables.items()}, flush=True)

    off = {key: 0.0 for key in hparams.values() if key.endswith("dropout")}
    with tf.Graph().as_default(), tf.Session() as session:
        model = model_of(name, hparams, modes.TRAIN, **off)
        tf.train.get_or_create_global_step()
        loss = model(features_of(inputs, targets))[1]["training"]
        rate = learning_rate.learning_rate_schedule(model.hparams)
        step = optimize.optimize(loss, rate, model.hparams)
        more = tf.train.AdamOptimizer(0.01, name="more").minimize(loss)
        session.run(tf.global_variables_initializer())
        load(variables, session)
        rows = []
        for _ in range(20):
            before = session.run(rate)
            rows.append((session.run([loss, step])[0], before))
        result["train_loss"], result["train_lr"] = np.array(rows, "float32").T
        for variable in tf.trainable_variables():
            key, now = variable.name.split(":")[0], session.run(variable)
            result["after20_norm:" + key] = np.float32(np.linalg.norm(now))
            result["after20_change:" + key] = np.float32(np.linalg.norm(now - variables[key]))
        for _ in range(300):
            session.run(more)
        result["trained_loss"] = session.run(loss)
        trained = {v.name.split(":")[0]: session.run(v) for v in tf.trainable_variables()}
    result.update({"trained:" + key: value for key, value in trained.items()})
    print(case, result["train_loss"], result["trained_loss"], flush=True)

    for tag, beam, top in (("greedy", 1, 1), ("beam", 4, 4)):
        with tf.Graph().as_default(), tf.Session() as session:
            model = model_of(name, hparams, modes.PREDICT)
            if name == "byte_net":  # its decoding takes the last position, which is padding
                model.body = lambda features, whole=model.body: whole(features)[
                    :, : tf.shape(features["targets"])[1]
                ]
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                found = model.infer(
                    features_of(inputs), decode_length=8, beam_size=beam, top_beams=top, alpha=0.6
                )
            session.run(tf.global_variables_initializer())
            load(trained, session)
            wanted = {k: found[k] for k in ("outputs", "scores") if found.get(k) is not None}
            got = session.run(wanted)
            result[tag + "_ids"] = np.squeeze(got["outputs"])
            if "scores" in got:
                result[tag + "_scores"] = got["scores"]
            print(case, tag, result[tag + "_ids"], got.get("scores"), flush=True)
    simple = (int, float, bool, str, type(None))
    kept = {k: v for k, v in hparams.values().items() if isinstance(v, simple)}
    result["hparams"] = np.array(json.dumps(kept, sort_keys=True))
    result["model"] = np.array(name)
    np.savez_compressed(os.path.join(folder, case + ".npz"), **result)


if __name__ == "__main__":
    for wanted in sys.argv[2:] or CASES:
        run(wanted, sys.argv[1])
