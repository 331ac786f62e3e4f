"""A model's attention weights for one pair of sentences, and statistics of its heads.

The weights are those that the model's own layers return (Transformer.attention_weights). T2T's
visualization/visualization.py, AttentionVisualizer, gathers the same and labels the decoder's
self-attention by the words being written; here its columns are the words that it reads.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.translate import Translator
from t2t_repro.errors import UserError
from t2t_repro.models.transformer import Transformer
from t2t_repro.text.encoders import EOS, EOS_ID

START = "<start>"  # the zero vector, which the decoder reads before it has written a word
LONGEST = 256  # tokens; beyond that a page of all heads holds too much for a browser
LOOKS_AT = 0.5  # a head looks at something if that gets at least this share of its weight

SHARES = ("previous", "same", "next", "first", "end")  # the places whose share is counted

# Name, title, and the scope of a layer's weights in what the model returns.
KINDS = (
    ("encoder", "Encoder self-attention", "encoder/layer_{}/self_attention"),
    ("encoder-decoder", "Encoder-decoder attention", "decoder/layer_{}/encdec_attention"),
    ("decoder", "Decoder self-attention", "decoder/layer_{}/self_attention"),
)


@dataclasses.dataclass(frozen=True)
class Maps:
    """All heads of one kind of attention, for one pair of sentences.

    Attributes:
        kind: "encoder", "encoder-decoder" or "decoder".
        title: how people call it.
        queries: T tokens; in a decoder the words as they are written.
        keys: S tokens; in the decoder's self-attention those read so far.
        weights: float32 (layers, N, T, S); each row sums to 1.
    """

    kind: str
    title: str
    queries: Sequence[str]
    keys: Sequence[str]
    weights: np.ndarray


@dataclasses.dataclass(frozen=True)
class Head:
    """The statistics of one head, averaged over the queries.

    Attributes:
        kind, layer, head: which one; both numbers count from 0.
        entropy: of its weights, in bits; 2 to its power is how many words it looks at.
        previous, same, next: the share of the weight at that position. In encoder-decoder attention
            the position is the other sentence's; a decoder's "same" is the word written last.
        first: the share at the first position; the start in a decoder's self-attention.
        end: the share at the end mark, of the words before it; None where it is never read.
        looks_at: the largest of these shares, if it is at least LOOKS_AT; else "".
    """

    kind: str
    layer: int
    head: int
    entropy: float
    previous: float | None
    same: float | None
    next: float | None
    first: float | None
    end: float | None
    looks_at: str


def sentence_ids(
    model: Transformer,
    encoders: Mapping[str, Any],
    source: str,
    target: str | None,
    translator: Translator | None = None,
) -> tuple[list[int], list[int]]:
    """Returns the ids of a sentence and of its translation, ends included.

    Args:
        model: a trained one.
        encoders: those of its "inputs" and "targets".
        source: the sentence.
        target: its translation; None: the model's own.
        translator: the model's own, as `TrainedRun.translator` makes it; None: one with the default
            decode hparams.

    Raises:
        UserError: if there are no words, or too many.
    """
    translator = translator or Translator(
        ModelEngine(model), dict(encoders), warn=lambda text: None
    )
    if not source.strip():
        raise UserError('Expected --source="a sentence". Received: no word.')
    inputs = [*encoders["inputs"].encode(source.strip()), EOS_ID]
    _check_length(model, "--source", inputs)
    if target is not None:
        targets = [*encoders["targets"].encode(target.strip()), EOS_ID]
    else:
        ((best, *_),) = translator.translate_ids([inputs])
        targets = best.ids + [EOS_ID] * best.finished
    _check_length(model, "--target, or the model's own translation,", targets)
    return inputs, targets


def maps(
    model: Transformer,
    encoders: Mapping[str, Any],
    inputs: Sequence[int],
    targets: Sequence[int],
) -> list[Maps]:
    """Returns the attention of a model that reads `inputs` and writes `targets`, in KINDS' order.

    Restricted self-attention (self_attention_type=local_...) has no weights of all pairs: left out.

    Args:
        model: a trained one.
        encoders: those of its "inputs" and "targets"; for the labels.
        inputs: ids, end included.
        targets: ids, end included.
    """
    batch = {"inputs": np.array([inputs], "int32"), "targets": np.array([targets], "int32")}
    weights = {
        name: np.asarray(value, "float32")[0]
        for name, value in model.attention_weights(batch).items()
    }
    read, written = tokens(encoders["inputs"], inputs), tokens(encoders["targets"], targets)
    labels = {
        "encoder": (read, read),
        "encoder-decoder": (written, read),
        "decoder": (written, [START, *written[:-1]]),
    }
    made = []
    for kind, title, scope in KINDS:
        names = (scope.format(i) for i in range(len(weights)))
        layers = [weights[name] for name in names if name in weights]
        if layers:
            made.append(Maps(kind, title, *labels[kind], np.stack(layers)))
    return made


def tokens(encoder: Any, ids: Sequence[int]) -> list[str]:
    """Returns one label for each id: the subword as the vocabulary spells it, if it says so."""
    # One by one: an encoder that writes from right to left would turn them round.
    spell = getattr(encoder, "decode_list", lambda one: [encoder.decode(one)])
    return [EOS if i == EOS_ID else spell([i])[0] for i in ids]


def heads(of: Maps) -> list[Head]:
    """Returns the statistics of each head of one kind of attention."""
    return [
        _head(of.kind, layer, head, weights)
        for layer, each in enumerate(of.weights)
        for head, weights in enumerate(each)
    ]


def entropy(weights: np.ndarray) -> np.ndarray:
    """Returns the entropy in bits of weights (..., S): (...)."""
    logarithm = np.log2(weights, out=np.zeros_like(weights), where=weights > 0)
    return -np.sum(weights * logarithm, axis=-1)


def summary(kind: str, heads: Sequence[Head]) -> str:
    """Returns such as "12 heads; position with most weight, by heads: next in 2 (...)"."""
    of_kind = [head for head in heads if head.kind == kind]
    places: dict[str, list[str]] = {}
    for head in of_kind:
        if head.looks_at:
            places.setdefault(head.looks_at, []).append(f"{head.layer}.{head.head}")
    what = [f"{name} in {len(at)} (LAYER.HEAD {' '.join(at)})" for name, at in places.items()]
    if not what:
        named = [name for name in SHARES if any(getattr(h, name) is not None for h in of_kind)]
        what = [f"none of {', '.join(named)}"]
    return f"{len(of_kind)} heads; position with most weight, by heads: {', '.join(what)}"


def _head(kind: str, layer: int, head: int, weights: np.ndarray) -> Head:
    """Returns the statistics of one head with weights (T, S)."""

    def share(values: np.ndarray) -> float | None:
        return float(values.mean()) if values.size else None

    shares = {
        "previous": share(np.diagonal(weights, -1)),
        "same": share(np.diagonal(weights)),
        "next": None if kind == "decoder" else share(np.diagonal(weights, 1)),
        "first": share(weights[:, 0]),
        "end": None if kind == "decoder" else share(weights[:-1, -1]),
    }
    name, most = max(shares.items(), key=lambda item: item[1] or 0.0)
    looks_at = name if most is not None and most >= LOOKS_AT else ""
    return Head(kind, layer, head, float(entropy(weights).mean()), **shares, looks_at=looks_at)


def _check_length(model: Transformer, what: str, ids: Sequence[int]) -> None:
    """Refuses a sentence longer than the model's limit or a page's."""
    trained = model.learned_positions or model.hparams.max_length or model.hparams.batch_size
    if len(ids) > (limit := min(trained, LONGEST)):
        raise UserError(
            f"Expected {what} of at most {limit} tokens, end token included. Received: {len(ids)} "
            "tokens. Give a shorter sentence."
        )
