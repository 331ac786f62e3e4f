"""tensor2tensor's variable names and shapes for the weights of a model, both ways."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import keras
import numpy as np

from t2t_repro.config import BYTENET, DOT_PRODUCTS
from t2t_repro.errors import UserError
from t2t_repro.interop.t2t_checkpoint import read_checkpoint
from t2t_repro.layers.attention import CrossAttention, RelativeSelfAttention
from t2t_repro.layers.dilated_convolution import ConvolutionBlock
from t2t_repro.layers.embedding import LearnedPositions, SymbolEmbedding, TargetSpaceEmbedding
from t2t_repro.layers.feed_forward import FeedForward
from t2t_repro.layers.layer import FusedVariable
from t2t_repro.layers.lstm import BahdanauScore, LSTMStack
from t2t_repro.layers.norms import BatchNorm, LayerNorm, NoamNorm
from t2t_repro.layers.prepostprocess import PrePostProcess
from t2t_repro.layers.stacks import Sublayer
from t2t_repro.models import sharing
from t2t_repro.models.bytenet import ByteNet
from t2t_repro.models.lstm import LSTMModel
from t2t_repro.models.sequence_model import SequenceModel
from t2t_repro.models.transformer import Transformer

__all__ = ["load_variables", "export_variables", "read_checkpoint"]
_BODY = "transformer/body"
# What T2T's Transformer has, of the settings that have more here.
_KNOWN: dict[str, tuple[str | None, ...]] = {
    "attention_score": DOT_PRODUCTS,
    "norm_type": ("layer", "batch", "noam", "l2", "none"),
    "pos": ("timing", "emb", "none", None),
}


class Entry(NamedTuple):
    """One of our variables, and T2T's variables that it stands for, in order along `axis`."""

    variable: keras.Variable
    axis: int
    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


def load_variables(model: SequenceModel, arrays: dict[str, np.ndarray]) -> None:
    """Sets every weight of `model` from T2T's variables.

    Args:
        model: made with the hparams and vocabulary sizes of the T2T model.
        arrays: {T2T's variable name: array}, "transformer/body/encoder/layer_0/..." and so on.

    Raises:
        UserError: if a variable is missing, extra or of another shape; all of them are listed, and
            the model stays as it was. Or if T2T has no such model.
    """
    advice = "Build the model with the checkpoint's hparams and vocabularies."
    assign(entries(model), arrays, "variables", advice)


def export_variables(model: SequenceModel) -> dict[str, np.ndarray]:
    """Returns every weight of `model` under T2T's names, in T2T's shapes: float32 arrays.

    Raises:
        UserError: if T2T has no such model.
    """
    return arrays_of(entries(model))


def assign(targets: Sequence[Entry], arrays: dict[str, np.ndarray], kind: str, advice: str) -> None:
    """Sets variables of ours from T2T's.

    Args:
        targets: our variables with T2T's names.
        arrays: {T2T's name: array}, exactly those.
        kind: their name in the error; `advice`: what to do then.
    """
    expected = dict(pair for e in targets for pair in zip(e.names, e.shapes, strict=True))
    problems = [f"not in the checkpoint: {n} {s}" for n, s in expected.items() if n not in arrays]
    problems += [f"extra {n} {np.shape(a)}" for n, a in arrays.items() if n not in expected]
    problems += [
        f"{n}: expected shape {s}, received {np.shape(arrays[n])}"
        for n, s in expected.items()
        if n in arrays and np.shape(arrays[n]) != s
    ]
    if problems:
        raise UserError(f"Expected this model's {kind}. Received: {'; '.join(problems)}. {advice}")
    for entry in targets:
        shape = entry.variable.shape
        parts = [np.asarray(arrays[name]) for name in entry.names]
        rows = [p.reshape(_part_shape(shape, entry.axis, p.size)) for p in parts]
        entry.variable.assign(np.concatenate(rows, axis=entry.axis))


def arrays_of(targets: Iterable[Entry]) -> dict[str, np.ndarray]:
    """Returns the values of our variables under T2T's names, in T2T's shapes."""
    arrays = {}
    for entry in targets:
        value = keras.ops.convert_to_numpy(entry.variable.value)
        sizes = [
            int(np.prod(shape)) * value.shape[entry.axis] // value.size for shape in entry.shapes
        ]
        pieces = np.split(value, np.cumsum(sizes)[:-1], axis=entry.axis)
        for name, shape, piece in zip(entry.names, entry.shapes, pieces, strict=True):
            arrays[name] = np.ascontiguousarray(piece).reshape(shape)
    return arrays


def _part_shape(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    """Returns the shape of a part with `size` values of a variable of `shape` split along
    `axis`."""
    others = int(np.prod(shape)) // shape[axis]
    return (*shape[:axis], size // others, *shape[axis + 1 :])


def entries(model: SequenceModel) -> list[Entry]:
    """Returns every variable of the model with T2T's names, each once.

    Raises:
        UserError: if T2T has no such model.
    """
    for name, known in _KNOWN.items():
        value = getattr(model.hparams, name)
        if value not in known:
            raise UserError(
                f"Expected {name}={' or '.join(map(str, known))}, the only values in "
                f"tensor2tensor. Received: {name}={value}. tensor2tensor cannot run this model."
            )
    return [*_of_tables(model), *_of_body(model)]


def _of_tables(model: SequenceModel) -> Iterator[Entry]:
    for scope, table in _tables(model):
        axis, sizes = table.embeddings.axis, table.embeddings.sizes
        names = tuple(f"{model.hparams.model}/{scope}/weights_{i}" for i in range(len(sizes)))
        shapes = tuple((size, table.hidden_size) for size in sizes)
        yield Entry(table.embeddings, axis, names, shapes)


def _of_body(model: SequenceModel) -> Iterator[Entry]:
    if isinstance(model, LSTMModel):
        return _of_lstms(model)
    return _of_bytenet(model) if isinstance(model, ByteNet) else _of_transformer(model)


def _of_bytenet(model: ByteNet) -> Iterator[Entry]:
    body = f"{BYTENET}/body/bytenet"
    yield from _of_convolutions(model.start, f"{body}/conv_block")
    for stack in (model.encoder, model.decoder):
        for i, (norm, block) in enumerate(zip(stack.norms, stack.blocks, strict=True)):
            scope = f"{body}/{stack.name}/repeat_{i}"
            yield from _layer_norm(norm, f"{scope}/lnorm")
            yield from _of_convolutions(block, f"{scope}/residual_conv")


def _of_convolutions(block: ConvolutionBlock, scope: str) -> Iterator[Entry]:
    for i, (layer, norm) in enumerate(zip(block.convolutions, block.norms, strict=True)):
        width, *rest = layer.kernel.shape
        name = f"{scope}/conv_block_{i}_single/kernel"
        yield Entry(layer.kernel, 0, (name,), ((width, 1, *rest),))
        yield from _layer_norm(norm, f"{scope}/conv_block_norm_{i}")


def _layer_norm(norm: LayerNorm, scope: str) -> Iterator[Entry]:
    yield _whole(norm.scale, f"{scope}/layer_norm_scale")
    yield _whole(norm.bias, f"{scope}/layer_norm_bias")


def _of_lstms(model: LSTMModel) -> Iterator[Entry]:
    name = model.hparams.model
    body = f"{name}/body/{name.replace('bidirectional', 'bid')}"
    if model.bidirectional:
        for stack in (model.encoder.forward, model.encoder.backward):
            yield from _cells(stack, f"{body}/encoder/bidirectional_rnn/{stack.name}")
    else:
        yield from _cells(model.encoder, f"{body}/encoder/rnn")
    if not model.attends:
        yield from _cells(model.decoder, f"{body}/decoder/rnn")
        return
    decoder, scope = model.decoder, f"{body}/decoder/rnn/attention_wrapper"
    heads = [f"_{i}" * (i > 0) for i in range(decoder.score.num_heads)]
    yield from _cells(decoder.stack, scope)
    yield _whole(decoder.score.memory_kernel, f"{body}/memory_layer/kernel")
    if isinstance(decoder.score, BahdanauScore):
        yield _whole(decoder.score.query_kernel, f"{scope}/bahdanau_attention/query_layer/kernel")
        units = ((decoder.score.units,),) * len(heads)
        names = tuple(f"{scope}/bahdanau_attention{head}/attention_v" for head in heads)
        yield Entry(decoder.score.attention_v, 0, names, units)
    rows, sizes = decoder.kernel.shape[0], decoder.kernel.sizes
    names = tuple(f"{scope}/attention_layer{head}/kernel" for head in heads)
    yield Entry(decoder.kernel, 1, names, tuple((rows, size) for size in sizes))
    if model.output_dense is not None:
        yield _whole(model.output_dense.kernel, f"{body}/decoder/dense/kernel")
        yield _whole(model.output_dense.bias, f"{body}/decoder/dense/bias")


def _cells(stack: LSTMStack, scope: str) -> Iterator[Entry]:
    for i, layer in enumerate(stack.layers):
        name = f"{scope}/multi_rnn_cell/cell_{i}/lstm_cell"
        yield _whole(layer.kernel, f"{name}/kernel")
        yield _whole(layer.bias, f"{name}/bias")


def _of_transformer(model: Transformer) -> Iterator[Entry]:
    hp = model.hparams
    if isinstance(model.target_space, TargetSpaceEmbedding):
        yield _whole(model.target_space.embeddings, f"{_BODY}/target_space_embedding/kernel")
    for positions in (model.inputs_position, model.targets_position):
        if isinstance(positions, LearnedPositions):
            yield _whole(positions.embeddings, f"{_BODY}/{positions.name}")
    for stack in (model.encoder, model.decoder):
        scope = f"{_BODY}/{stack.name}"
        for i, layer in enumerate(stack.layers):
            for name in ("self_attention", "encdec_attention", "ffn"):
                if hasattr(layer, name):
                    yield from _sublayer(getattr(layer, name), f"{scope}/layer_{i}/{name}", hp)
        yield from _norms(stack.preprocess, scope)


def _tables(model: SequenceModel) -> Iterator[tuple[str, SymbolEmbedding]]:
    """Yields each table once, with T2T's scope for it: one modality for each vocabulary size."""
    hp = model.hparams

    def modality(size: int) -> str:
        return f"symbol_modality_{size}_{hp.hidden_size}"

    one = sharing.tied_tables(hp, model.inputs_vocab_size, model.targets_vocab_size)
    shared = hp.shared_embedding or one.both_sides  # by name; those of two modalities are two
    inputs, targets, softmax = model.inputs_embedding, model.targets_embedding, model.softmax
    yield f"{modality(inputs.vocab_size)}/{'shared' if shared else 'input_emb'}", inputs
    if targets is not inputs:
        yield f"{modality(targets.vocab_size)}/{'shared' if shared else 'target_emb'}", targets
    if softmax is not targets:
        yield f"{modality(softmax.vocab_size)}/softmax", softmax


def _sublayer(sublayer: Sublayer, scope: str, hp) -> Iterator[Entry]:
    yield from _norms(sublayer.preprocess, scope)
    yield from _norms(sublayer.postprocess, scope)
    layer = sublayer.layer
    if isinstance(layer, FeedForward):
        for name, dense in (("conv1", layer.intermediate_dense), ("conv2", layer.output_dense)):
            yield _whole(dense.kernel, f"{scope}/{name}/kernel")
            yield _whole(dense.bias, f"{scope}/{name}/bias")
        return
    scope = f"{scope}/multihead_attention"
    if isinstance(layer, CrossAttention):
        yield _heads(layer.query, scope, "q", hp)
        yield _heads(layer.key_value, scope, "kv", hp)
    else:
        yield _heads(layer.query_key_value, scope, "qkv", hp)
    output = layer.output_transform
    if hp.attention_variables_3d:
        shape = (hp.num_heads, output.shape[0] // hp.num_heads, output.shape[1])
        yield Entry(output, 0, (f"{scope}/o",), (shape,))
    else:
        yield _whole(output, f"{scope}/output_transform/kernel")
    if isinstance(layer, RelativeSelfAttention):
        scope = f"{scope}/dot_product_attention_relative"
        for name in ("keys", "values"):
            table = getattr(layer, f"relative_positions_{name}")
            yield _whole(table, f"{scope}/relative_positions_{name}/embeddings")


def _heads(variable: FusedVariable, scope: str, letters: str, hp) -> Entry:
    axis, sizes = variable.axis, variable.sizes
    depth = variable.shape[0]
    if hp.attention_variables_3d:
        names = tuple(f"{scope}/{letter}" for letter in letters)
        shapes = tuple((depth, hp.num_heads, size // hp.num_heads) for size in sizes)
        return Entry(variable, axis, names, shapes)
    names = tuple(f"{scope}/{letter}/kernel" for letter in letters)
    return Entry(variable, axis, names, tuple((depth, size) for size in sizes))


def _norms(process: PrePostProcess, scope: str) -> Iterator[Entry]:
    scope = f"{scope}/{process.name}"
    for norm in process.norms:
        if isinstance(norm, BatchNorm):
            name = f"{scope}/{norm.name.replace('batch_norm', 'batch_normalization')}"
            yield _whole(norm.scale, f"{name}/gamma")
            yield _whole(norm.bias, f"{name}/beta")
            yield _whole(norm.moving_mean, f"{name}/moving_mean")
            yield _whole(norm.moving_variance, f"{name}/moving_variance")
        elif not isinstance(norm, NoamNorm):
            kind = f"{process.norm_type}_norm"
            yield _whole(norm.scale, f"{scope}/{norm.name}/{kind}_scale")
            yield _whole(norm.bias, f"{scope}/{norm.name}/{kind}_bias")
    for gate in process.gates:
        yield Entry(gate.gamma, 0, (f"{scope}/{gate.name}/gamma",), ((),))


def _whole(variable: keras.Variable, name: str) -> Entry:
    return Entry(variable, 0, (name,), (tuple(variable.shape),))
