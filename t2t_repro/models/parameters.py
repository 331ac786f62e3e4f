"""Parameters and operations of a model, counted from the model itself, built without values."""

import dataclasses
import functools
import math
import random

from t2t_repro import registry
from t2t_repro.config import BYTENET, RECURRENT, HParams


@dataclasses.dataclass(frozen=True)
class Parameters:
    """The variables of a model, by what they belong to."""

    embeddings: int  # (V, D): inputs, targets and softmax, once where they are shared
    attention: int  # kernels of queries, keys, values and outputs, and of scores; no biases
    feed_forward: int  # two kernels, two biases
    norms: int  # a scale and a bias each, where the type has them; and gates of residuals
    others: int  # T2T's embedding of the target space; positions; relative ones; baselines

    @property
    def total(self) -> int:
        """All of them."""
        return sum(dataclasses.astuple(self))


@functools.lru_cache(maxsize=32)  # plans and tables ask several times; a big model takes a second
def shapes(
    hparams: HParams, vocab_size: int, targets_vocab_size: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Returns {name: shape} of a model's trainable variables, which are given no values.

    Args:
        hparams: the model's settings.
        vocab_size: of the inputs.
        targets_vocab_size: of the targets; None: they have one vocabulary.
    """
    import keras
    from keras.src.backend.common import global_state

    state = random.getstate()  # of which layers take their seeds
    with keras.StatelessScope():
        model = registry.get_model(hparams.model).from_hparams(
            hparams,
            inputs_vocab_size=vocab_size,
            targets_vocab_size=targets_vocab_size or vocab_size,
        )
        # Otherwise all would get values at the end of the scope.
        global_state.set_global_attribute("uninitialized_variables", [])
    random.setstate(state)
    own = len(f"{model.name}/")
    return {v.path[own:]: tuple(v.shape) for v in model.trainable_variables}


def count(hparams: HParams, vocab_size: int, targets_vocab_size: int | None = None) -> Parameters:
    """Returns the parameters of the model of `hparams`; arguments as `shapes`."""
    groups = dict.fromkeys((field.name for field in dataclasses.fields(Parameters)), 0)
    for name, shape in shapes(hparams, vocab_size, targets_vocab_size or vocab_size).items():
        groups[_group(name)] += math.prod(shape)
    return Parameters(**groups)


def forward_flop(
    hparams: HParams,
    vocab_size: int,
    sentences: float,
    source_length: float,
    target_length: float,
    beams: int = 1,
) -> float:
    """Returns the floating-point operations of a forward pass.

    Those of the matrix products: 2 for each value of a kernel and each token that it multiplies,
    and those of attention with itself. All else is under 2% of them.

    Args:
        hparams: the model's settings.
        vocab_size: of both sides.
        sentences: of a batch.
        source_length: tokens of each, padding included; may be a mean.
        target_length: the same.
        beams: translations of each sentence.
    """
    source, target = sentences * source_length, beams * sentences * target_length
    found = shapes(hparams, vocab_size, vocab_size)
    tables = [shape for name, shape in found.items() if _group(name) == "embeddings"]
    # The softmax; a user's model may have none.
    products = target * math.prod(tables[-1]) if tables else 0.0
    for name, shape in found.items():
        of_memory = "encdec_attention" in name and "key_value" in name or "memory" in name
        if len(shape) > 1 and "embedding" not in name and "relative" not in name:
            products += math.prod(shape) * (source if "encoder/" in name or of_memory else target)
    if hparams.model not in (*RECURRENT, BYTENET):
        keys, values = hparams.attention_key_channels, hparams.attention_value_channels
        pairs = hparams.encoder_layers * source * source_length
        pairs += hparams.decoder_layers * target * (source_length + target_length)
        products += pairs * ((keys or hparams.hidden_size) + (values or hparams.hidden_size))
    return 2 * products


def train_step_flop(hparams: HParams, *batch: *tuple[int, float, float, float]) -> float:
    """Returns what `forward_flop` does, of a training step, forward and backward; of R-Drop twice.

    A product has two backward: the gradients of its factors.
    """
    return 3 * (2 if hparams.r_drop_alpha else 1) * forward_flop(hparams, *batch)


def _group(name: str) -> str:
    kinds = {
        **dict.fromkeys(("target_space", "positional", "relative"), "others"),
        **{"postprocess/": "norms", "norm": "norms", "/embeddings": "embeddings"},
        **{"attention/": "attention", "feed_forward/": "feed_forward"},
    }
    return next((kind for part, kind in kinds.items() if part in name), "others")
