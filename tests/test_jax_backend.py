"""The same source on JAX, where no golden number says it: those are tests/models/test_golden.py."""

import pytest

from tests import forks

PROGRAM = """
import jax
import numpy as np
from t2t_repro.decoding.program import Program
from tests.models.test_transformer import tiny

class Twice(Program):
    def call(self, data):
        return dict(twice=2 * data["x"], weight=self.model.weights[0] + 0)

model = tiny()
program = Twice(model)
found = program.run(dict(x=np.arange(3.0)))
assert all(isinstance(array, jax.Array) for array in found.values()), "caches stay on a GPU"
np.testing.assert_array_equal(found["twice"], [0, 2, 4])
before = np.asarray(found["weight"])
model.weights[0].assign(before + 1)
again = program.run(dict(x=np.arange(3.0)))  # the weights are not those of the trace
np.testing.assert_array_equal(again["weight"], before + 1)
print("same numbers")
"""

OTHER_ATTENTION = """
import jax
import numpy as np
from t2t_repro.layers.attention import CausalMask, LocalSelfAttention, SelfAttention

x = np.random.default_rng(0).standard_normal((2, 7, 10), "float32")
segments = np.array([[1, 1, 1, 1, 2, 2, 2], [1, 1, 1, 1, 1, 0, 0]])
plain = SelfAttention(3, 12, 15)
plain.build((None, None, 10))


def squares(layer):
    return jax.jit(jax.value_and_grad(
        lambda x: (layer(x, CausalMask(segments, segments))[0] ** 2).sum()
    ))


expected = squares(plain)(x)
# Two blocks: masked attention sees all of them.
for layer in (SelfAttention(3, 12, 15, chunk_size=3), LocalSelfAttention(4, True, 3, 12, 15)):
    layer.build((None, None, 10))
    layer.set_weights(plain.get_weights())
    for ours, theirs in zip(squares(layer)(x), expected):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
print("same numbers")
"""

REGULARIZERS = """
import jax
import numpy as np
from t2t_repro.layers import cross_entropy
from t2t_repro.training import checkpoints, distribution, optimizers
from tests.models.test_transformer import BATCH, tiny
from tests.training.test_resume import ALL_ON

random = np.random.default_rng(0)
logits = [random.standard_normal((3, 5, 7)).astype("float32") for _ in range(2)]
forms = [jax.value_and_grad(lambda *of, form=form: (form(*of) ** 2).sum(), argnums=(0, 1))(*logits)
         for form in (cross_entropy.plain_divergence, cross_entropy.divergence_of_rows)]
for ours, theirs in zip(*map(jax.tree.leaves, forms)):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)

model = tiny(**ALL_ON)
model.compile(optimizer=optimizers.from_hparams(model.hparams))
step = distribution.step_function(model)
losses = [step(BATCH).loss for _ in range(4)]
assert np.isfinite(losses).all() and len(set(losses)) == 4, losses
averages = checkpoints.averages(model)
assert len(averages) == len(model.trainable_variables)
assert any(np.abs(averages[id(w)] - np.asarray(w)).max() > 1e-6 for w in model.trainable_variables)

model = tiny(activation_dtype="float16")
model.compile(optimizer=optimizers.from_hparams(model.hparams))
model.optimizer.build(model.trainable_variables)
model.optimizer.dynamic_scale.assign(0.0)  # halved so often that no step can be made any more
before = [np.array(w) for w in model.trainable_variables]
step = distribution.step_function(model)
for _ in range(2):
    assert not step(BATCH).finite
assert all(map(np.array_equal, before, model.trainable_variables))
print("same numbers")
"""


@pytest.mark.slow
@pytest.mark.parametrize("program", [PROGRAM, OTHER_ATTENTION, REGULARIZERS])
def test_on_jax(program):
    assert forks.said_by("-c", program, KERAS_BACKEND="jax") == "same numbers\n"
