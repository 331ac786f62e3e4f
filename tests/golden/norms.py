"""Made norms.npz: what tensor2tensor 1.15.7's apply_norm computes.

Run with a Python 3.7 that has tensor2tensor 1.15.7 and TensorFlow 1.15.5:

    python norms.py norms.npz

`TYPE:EPSILON` is the norm of `x` (3, 5, 24), with `scale` and `bias` where it has them.
"""

import sys

import numpy as np
import tensorflow.compat.v1 as tf
from tensor2tensor.layers import common_layers


def main(path):
    """Writes the arrays to `path`."""
    rng = np.random.RandomState(3)
    result = {
        "x": rng.randn(3, 5, 24).astype("float32") * 2 + 1,
        "scale": (1 + 0.2 * rng.randn(24)).astype("float32"),
        "bias": (0.1 * rng.randn(24)).astype("float32"),
    }
    with tf.Session() as session:
        for kind in ("layer", "group", "batch", "noam", "l2"):
            for epsilon in (1e-6, 0.5):
                with tf.variable_scope(f"{kind}_{int(epsilon > 0.1)}") as scope:
                    x = tf.constant(result["x"])
                    # As in a Transformer; group norm takes four axes alone.
                    x = x[:, :, None] if kind == "group" else x
                    y = common_layers.apply_norm(x, kind, 24, epsilon)
                session.run(tf.global_variables_initializer())
                for variable in tf.global_variables(scope.name):
                    if variable.name.endswith(("scale:0", "gamma:0")):
                        variable.load(result["scale"], session)
                    elif variable.name.endswith(("bias:0", "beta:0")):
                        variable.load(result["bias"], session)
                result[f"{kind}:{epsilon}"] = session.run(y).reshape(3, 5, 24)
    np.savez_compressed(path, **result)


if __name__ == "__main__":
    main(*sys.argv[1:])
