"""Made local_attention.npz: what tensor2tensor 1.15.7 computes under restricted self-attention.

Run with a Python 3.7 that has tensor2tensor 1.15.7 and TensorFlow 1.15.5:

    python local_attention.py local_attention.npz

`function:KIND:LENGTH:BLOCK` is its function on the heads `q`, `k`, `v` cut to LENGTH, the keys of
the second sentence 0 from KEYS on. `KIND:...` is a small Transformer with self_attention_type=KIND,
whose blocks are always 128 long: `var:NAME`, random, are the variables of both.
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.data_generators import problem_hparams
from tensor2tensor.layers import common_attention
from tensor2tensor.models import transformer
from tensor2tensor.utils import registry

BLOCKS = [(5, 8), (8, 8), (11, 8), (16, 8), (29, 8), (29, 5), (29, 29), (29, 40)]
KEYS = 21
VOCAB, SOURCE, TARGET = 19, 400, 270


def functions(rng, result):
    """The two functions on random heads."""
    shape = [2, 3, 29]
    for name, width in (("q", 4), ("k", 4), ("v", 5)):
        result[name] = rng.randn(*shape, width).astype("float32")
    result["k"][1, :, KEYS:] = 0
    for length, block in BLOCKS:
        q, k, v = (tf.constant(result[name][:, :, :length]) for name in "qkv")
        outputs = {
            "local_mask_right": common_attention.masked_local_attention_1d(q, k, v, block),
            "local_unmasked": common_attention.local_attention_1d(q, k, v, block, block),
        }
        with tf.Session() as session:
            for kind, output in outputs.items():
                result[f"function:{kind}:{length}:{block}"] = session.run(output)


def model(rng, result, kind):
    """A Transformer of two layers; the second sentence is padded."""
    tf.reset_default_graph()
    hparams = registry.hparams("transformer_base_v2")
    sizes = {"hidden_size": 12, "filter_size": 20, "num_heads": 3, "num_hidden_layers": 2}
    for name, value in dict(sizes, self_attention_type=kind, symbol_modality_num_shards=1).items():
        hparams.set_hparam(name, value)
    hparams.problem_hparams = problem_hparams.test_problem_hparams(VOCAB, VOCAB, hparams)
    mode = tf.estimator.ModeKeys.EVAL
    net = transformer.Transformer(hparams, mode, hparams.problem_hparams)
    features = {name: tf.constant(result[name][:, :, None, None]) for name in ("inputs", "targets")}
    features["target_space_id"] = tf.constant(4, tf.int32)
    encoded = []
    encode = net.encode
    net.encode = lambda *args, **kwargs: encoded.append(encode(*args, **kwargs)) or encoded[-1]
    with tf.variable_scope(tf.get_variable_scope(), reuse=tf.AUTO_REUSE):
        logits, _ = net(features)
    with tf.Session() as session:
        for variable in tf.global_variables():
            name, shape = variable.name.split(":")[0], variable.shape.as_list()
            if "var:" + name not in result:
                scale = shape[0] ** -0.5 if len(shape) > 1 else 0.2
                value = scale * rng.randn(*shape) + name.endswith("layer_norm_scale")
                result["var:" + name] = value.astype("float32")
            variable.load(result["var:" + name], session)
        values = session.run([encoded[0][0], logits])
    result[kind + ":encoder_output"] = values[0]
    if kind == "local_mask_right":
        result[kind + ":logits"] = values[1].reshape(2, TARGET, VOCAB)


def main(path):
    """Writes the arrays to `path`."""
    rng, result = np.random.RandomState(7), {}
    for name, length in (("inputs", SOURCE), ("targets", TARGET)):
        result[name] = rng.randint(2, VOCAB, (2, length)).astype("int32")
        result[name][0, -1] = result[name][1, length - 15] = 1
        result[name][1, length - 14 :] = 0
    functions(rng, result)
    for kind in ("local_mask_right", "local_unmasked"):
        model(rng, result, kind)
    np.savez_compressed(path, **result)


if __name__ == "__main__":
    main(*sys.argv[1:])
