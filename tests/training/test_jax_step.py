"""What a GPU would need of the step under JAX, held where there is none: on what XLA makes of it.

In a process of its own, for a backend cannot be changed; one that measures all, for its start and
its compilations are slow.
"""

import json

import pytest

from t2t_repro.data import packing
from tests import forks
from tests.data.record_files import write_examples

pytestmark = pytest.mark.slow

PROGRAM = r"""
import json, logging, re, sys
import jax
import jax._src.array as arrays
import numpy as np

from t2t_repro import registry
from t2t_repro.data import pipeline
from t2t_repro.models import jax_step, parameters
from t2t_repro.models.transformer import Transformer
from t2t_repro.problem import Problem
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import distribution, optimizers

NO_ARRAYS = ("bitcast", "get-tuple-element")  # operations that make none

def make(size, **changes):
    overrides = ",".join(f"{name}={value}" for name, value in changes.items())
    hparams = registry.get_hparams("transformer_base_v1", overrides)
    model = Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
    model.compile(optimizer=optimizers.from_hparams(hparams), jit_compile=True)
    model.optimizer.build(model.trainable_variables)
    return model

def batch_of(size, rows, source, target):
    draw = np.random.default_rng(0)
    lengths = {"inputs": source, "targets": target}
    return {n: draw.integers(2, size, (rows, L)).astype("int32") for n, L in lengths.items()}

def lowered(dtype, size=2000, rows=16, source=24, target=20):
    changes = {"hidden_size": 256, "filter_size": 1024, "num_heads": 4, "num_hidden_layers": 1}
    model = make(size, activation_dtype=dtype, **changes)
    state = tuple([v.value for v in group] for group in jax_step.variables(model))
    step = jax.jit(lambda *of: jax_step.train_step(model, *of)[:4], donate_argnums=0)
    made = step.lower(state, batch_of(size, rows, source, target), None, False)
    own = parameters.train_step_flop(model.hparams, size, rows, source, target)
    jax.config.update("jax_disable_most_optimizations", False)
    compiled = made.compile()
    jax.config.update("jax_disable_most_optimizations", True)
    text = compiled.as_text()
    logits = []
    for line in text[text.index("ENTRY"):].splitlines():
        found = re.search(r"= \(?(\w+)\[([\d,]+)\]\S* ([\w-]+)", line)
        shape = [int(n) for n in found[2].split(",")] if found else []
        if np.prod(shape) == rows * target * size and found[3] not in NO_ARRAYS:
            logits.append(found[1])
    return {
        "flops": compiled.cost_analysis()["flops"] / own,
        "logits": logits,
        "talks": re.findall(r"infeed|outfeed|send-done|recv-done|callback", text),
    }

found = {dtype: lowered(dtype) for dtype in ("float32", "bfloat16")}

x, table = np.ones((12, 6), "float32"), np.ones((31, 6), "float32")
tied = make(31, hidden_size=6, filter_size=8, num_heads=2, num_hidden_layers=1).softmax
labels = np.ones((3, 4), "int32")
for dtype in ("float32", "bfloat16"):
    from t2t_repro.layers.cross_entropy import tied_cross_entropy
    loss = lambda x, table: tied_cross_entropy(x, table, labels, 0.1, compiled=True)[0]
    back = jax.vjp(loss, x.astype(dtype), table.astype(dtype))[1]
    found[dtype]["kept"] = [r.dtype.name for r in jax.tree.leaves(back) if r.size == 12 * 31]

class Plain(Problem):
    name = "plain"

    def feature_encoders(self, data_dir):
        return dict.fromkeys(("inputs", "targets"), ByteTextEncoder())

class Packed(Plain):
    name, packed_length, packed_spacing = "packed", 32, 1

compiled = []
class Counts(logging.Handler):
    def emit(self, record):
        compiled.extend(re.findall(r"Compiling jit\((\w+)\)", record.getMessage()))
logging.getLogger("jax").addHandler(Counts())

reads = []
value = arrays.ArrayImpl._value.fget
arrays.ArrayImpl._value = property(lambda a: reads.append(a.shape) or value(a))

for problem in (Plain(), Packed()):
    tiny = {"hidden_size": 8, "filter_size": 12, "num_heads": 2, "num_hidden_layers": 1}
    model = make(258, batch_size=96, max_length=20, length_bucket_step=1.5, **tiny)
    step = distribution.step_function(model)
    where = model.hparams, sys.argv[1]
    batches = iter(pipeline.make_dataset(problem, "train", *where, training=True))
    shapes, compiled[:] = [], []
    with jax.log_compiles():
        for _ in range(40):
            batch = next(batches)
            shapes.append(batch["targets"].shape)
            reads.clear()
            if len(set(shapes)) < len(shapes):  # not the first of its shape
                with jax.transfer_guard("disallow"):
                    step(batch)
            else:
                step(batch)
    found[problem.name] = {
        "compiled": compiled.count("step"), "shapes": len(set(shapes)), "reads": reads[:],
    }
try:
    with jax.transfer_guard("disallow"):
        jax.jit(lambda x: x + 1)(np.ones(3))
    found["guarded"] = False
except Exception:
    found["guarded"] = True
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("gpu")
    samples = [
        {"inputs": [2 + n % 9] * (2 + n % 17) + [1], "targets": [3 + n % 7] * (2 + n % 13) + [1]}
        for n in range(400)
    ]
    write_examples(folder / "plain-train-00000-of-00001", samples)
    write_examples(folder / "packed-train-00000-of-00001", list(packing.pack(samples, 32, 1)))
    return json.loads(forks.said_by("-c", PROGRAM, folder, KERAS_BACKEND="jax"))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_xla_computes_the_models_products_and_holds_the_logits_once(found, dtype):
    assert 0.95 < found[dtype]["flops"] <= 1.1
    # On a CPU XLA computes products of bfloat16 in float32; what is kept is the program's choice.
    assert len(found[dtype]["logits"]) <= 2  # and their gradient
    assert found[dtype]["kept"] == [dtype]


def test_a_step_reads_two_numbers_and_asks_the_host_for_nothing(found):
    assert found["float32"]["talks"] == [] and found["guarded"]
    assert found["plain"]["reads"] == [[], []]


def test_each_bucket_is_compiled_once(found):
    for corpus, most in {"plain": 12, "packed": 2}.items():
        assert 1 <= found[corpus]["compiled"] == found[corpus]["shapes"] <= most
    assert found["plain"]["shapes"] > 2
