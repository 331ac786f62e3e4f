"""A trained model as ONNX graphs under Optimum's names, and decoding with them by translate.py.

`encoder_model.onnx` takes ids to the encoder's outputs. `decoder_model_merged.onnx` makes steps of
the decoder: with `use_cache_branch` false it ignores the `past_key_values`, with true it continues
from them. The first target is id 0, whose embedding is zero, as T2T shifts its targets.

B batch, S source and T target tokens, P past ones, H heads, D model size, V vocabulary.
"""

import functools
import importlib.util
import itertools
import os
import pathlib
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from t2t_repro.decoding.settings import KEPT, LONGEST_INPUT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export import hub, plain
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.files import write_json
from t2t_repro.text.encoders import PAD_ID

USE = "Translate with numpy and onnxruntime alone: python {path}/translate.py < FILE"
QUANTIZATIONS = ("float32", "int8")
_HERE = pathlib.Path(__file__).parent
_OPSET = 17


def check(request: ExportRequest) -> None:
    """Refuses a machine without onnx or onnxruntime.

    Raises:
        UserError: naming it.
    """
    for name in ("onnx", "onnxruntime"):
        if importlib.util.find_spec(name) is None:
            raise UserError(
                f"Expected the package {name} to be installed. Received: no such package. Install "
                "it: pip install 't2t_repro[onnx]'."
            )


def write(job: ExportJob) -> None:
    """Writes the two graphs, translators that search with them, and files for Optimum.

    Raises:
        UserError: if the model is another than `plain.read` takes, or its vocabulary is neither of
            T2T's subwords nor SentencePiece's.
    """
    found, folder, files = plain.read(job.model, "ONNX"), job.folder, job.run.vocabulary_files
    hub.write_tokenizers(folder, job.run.encoders)
    hub.write_model(folder, found, len(found.softmax), PAD_ID)
    convert(found, folder, job.settings, files, job.request.quantize)
    for ending in ("py", "mjs", "html"):
        shutil.copy(_HERE / f"onnx_translate.{ending}", folder / f"translate.{ending}")
    shutil.copy(_HERE / "onnx_readme.md", folder / "README.md")


def convert(
    found: plain.Plain,
    folder: pathlib.Path,
    settings: DecodeHParams,
    vocabularies: Sequence[pathlib.Path],
    quantize: str = "float32",
) -> None:
    """Writes the two graphs, and search.json with the settings for translate.py.

    Args:
        found: the model.
        folder: where to.
        settings: how to decode.
        vocabularies: the names of files that will be in the folder.
        quantize: one of QUANTIZATIONS.
    """
    import onnx

    graphs = {"encoder_model": _encoder(found), "decoder_model_merged": _decoder(found)}
    for name, graph in graphs.items():
        path = os.fspath(folder / f"{name}.onnx")
        onnx.save_model(graph.model(name), path)
        if quantize == "int8":
            from onnxruntime import quantization

            quantization.quantize_dynamic(path, path)
    longest = settings.max_input_size if settings.max_input_size > 0 else LONGEST_INPUT
    search = {name: getattr(settings, name) for name in KEPT} | {
        "max_input_size": min(longest, found.longest),
        "max_length": found.longest,
        "vocabularies": [file.name for file in vocabularies],
        "heads": found.heads,
        "head_width": found.softmax.shape[1] // found.heads,
    }
    write_json(folder / "search.json", search, ensure_ascii=False)


def translate(
    folder: pathlib.Path, problem: str, settings: DecodeHParams, texts: list[str]
) -> list[tuple[str, float]]:
    """Returns the best translation of each text, and its score, by the folder's own search."""
    from t2t_repro.export import onnx_translate

    translator = onnx_translate.Translator(folder)
    return [translator.translate(text) for text in texts]


class _Graph:
    """Collects nodes; each method returns the name of what it computes."""

    def __init__(self) -> None:
        self.count = 0
        self.nodes: list[Any] = []
        self.weights: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def op(self, kind: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        from onnx import helper

        output = name or self.name(kind)
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def name(self, kind: str) -> str:
        """A name that nothing has yet."""
        self.count += 1
        return f"{kind}_{self.count}"

    def const(self, value: Any, dtype: str = "float32") -> str:
        array = np.asarray(value, dtype)
        name = f"const_{len(self.weights)}"
        self.weights[name] = array
        return name

    def ints(self, *values: int) -> str:
        return self.const(values, "int64")

    def input(self, name: str, dtype: str, *shape: str | int) -> str:
        self.inputs.append(_info(name, dtype, shape))
        return name

    def output(self, value: str, name: str, *shape: str | int) -> None:
        self.op("Identity", value, name=name)
        self.outputs.append(_info(name, "float32", shape))

    def choose(self, condition: str, then: str, other: Callable[[], str]) -> str:
        """`then`, or what the nodes that `other` adds make, which are computed only then."""
        from onnx import helper

        outside, self.nodes = self.nodes, []
        made = other()
        inside, self.nodes = self.nodes, outside
        branches = {}
        for branch, nodes, value in (("then_branch", [], then), ("else_branch", inside, made)):
            out = self.name(branch)
            nodes.append(helper.make_node("Identity", [value], [out]))
            branches[branch] = helper.make_graph(nodes, out, [], [_info(out, "float32", None)])
        return self.op("If", condition, **branches)

    def model(self, name: str) -> Any:
        import onnx
        from onnx import helper, numpy_helper

        weights = [numpy_helper.from_array(array, n) for n, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, name, self.inputs, self.outputs, weights)
        version = [helper.make_opsetid("", _OPSET)]
        made = helper.make_model(graph, opset_imports=version, ir_version=8)
        onnx.checker.check_model(made)
        return made

    # --- what the model is made of ----------------------------------------------------------------

    def matmul(self, value: str, kernel: np.ndarray) -> str:
        return self.op("MatMul", value, self.const(kernel))

    def norm(self, value: str, norm: plain.Pair, epsilon: float) -> str:
        scale, bias = map(self.const, norm)
        return self.op("LayerNormalization", value, scale, bias, axis=-1, epsilon=epsilon)

    def embed(self, ids: str, stack: plain.Stack, scale: float, past: str | None) -> str:
        """(B, T) ids -> (B, T, D): scaled rows, and the positions from `past` on."""
        rows = self.op("Gather", self.const(stack.table), ids)
        rows = self.op("Mul", rows, self.const(scale))
        if stack.positions is None:
            return rows
        start = past or self.const(0, "int64")
        places = self.op(
            "Range", start, self.op("Add", start, self.size(ids, 1)), self.const(1, "int64")
        )
        return self.op("Add", rows, self.op("Gather", self.const(stack.positions), places))

    def size(self, value: str, axis: int) -> str:
        """The scalar size of an axis."""
        shape = self.op("Shape", value)
        return self.op("Gather", shape, self.const(axis, "int64"), axis=0)

    def heads(self, value: str, heads: int) -> str:
        """(B, T, D) -> (B, H, T, D / H)."""
        parted = self.op("Reshape", value, self.ints(0, 0, heads, -1))
        return self.op("Transpose", parted, perm=[0, 2, 1, 3])

    def attend(self, query: str, key: str, value: str, bias: str) -> str:
        """(B, H, T, d), (B, H, S, d), (B, H, S, d), and a bias for (B, H, T, S) -> (B, T, D)."""
        logits = self.op("MatMul", query, self.op("Transpose", key, perm=[0, 1, 3, 2]))
        weights = self.op("Softmax", self.op("Add", logits, bias), axis=-1)
        joined = self.op("Transpose", self.op("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.op("Reshape", joined, self.ints(0, 0, -1))

    def feed_forward(self, value: str, layer: plain.FeedForward) -> str:
        inner = self.op("Add", self.matmul(value, layer.inner[0]), self.const(layer.inner[1]))
        outer = self.matmul(self.op("Relu", inner), layer.outer[0])
        return self.op("Add", outer, self.const(layer.outer[1]))

    def padding(self, mask: str) -> str:
        """An attention mask (B, S), 1 at what is real -> the bias (B, 1, 1, S)."""
        real = self.op("Cast", mask, to=1)
        hidden = self.op("Sub", self.const(1), real)
        bias = self.op("Mul", hidden, self.const(-1e9))
        return self.op("Unsqueeze", bias, self.ints(1, 2))

    def stack(self, value: str, stack: plain.Stack, model: plain.Plain, attend: Any) -> str:
        """The layers; `attend` computes attention: (layer, sublayer, its number, value)."""
        for index, layer in enumerate(stack.layers):
            for number, sublayer in enumerate(layer):
                inside = value
                if model.pre_norm:
                    inside = self.norm(value, sublayer.norm, model.epsilon)
                if isinstance(sublayer, plain.FeedForward):
                    computed = self.feed_forward(inside, sublayer)
                else:
                    computed = attend(index, sublayer, number, inside)
                value = self.op("Add", value, computed)
                if not model.pre_norm:
                    value = self.norm(value, sublayer.norm, model.epsilon)
        return self.norm(value, stack.norm, model.epsilon) if stack.norm else value


def _info(name: str, dtype: str, shape: tuple[str | int, ...] | None) -> Any:
    from onnx import helper

    number = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, number, shape)


def _encoder(model: plain.Plain) -> _Graph:
    """ids (B, S) and their mask -> last_hidden_state (B, S, D)."""
    graph = _Graph()
    ids = graph.input("input_ids", "int64", "batch_size", "encoder_sequence_length")
    mask = graph.input("attention_mask", "int64", "batch_size", "encoder_sequence_length")
    bias = graph.padding(mask)

    def attend(_index: int, layer: plain.Attention, _number: int, value: str) -> str:
        query, key, source, output = layer.kernels
        query = query * np.float32(model.query_scale)
        q, k, v = (graph.heads(graph.matmul(value, of), model.heads) for of in (query, key, source))
        return graph.matmul(graph.attend(q, k, v, bias), output)

    embedded = graph.embed(ids, model.encoder, model.scale, None)
    hidden = graph.stack(embedded, model.encoder, model, attend)
    shape = ("batch_size", "encoder_sequence_length", model.encoder.table.shape[1])
    graph.output(hidden, "last_hidden_state", *shape)
    return graph


def _decoder(model: plain.Plain) -> _Graph:
    """ids (B, T), the encoder's outputs and mask, the past -> logits (B, T, V) and the present."""
    graph = _Graph()
    width = model.decoder.table.shape[1]
    mask = graph.input("encoder_attention_mask", "int64", "batch_size", "encoder_sequence_length")
    ids = graph.input("input_ids", "int64", "batch_size", "decoder_sequence_length")
    source = ("batch_size", "encoder_sequence_length", width)
    memory = graph.input("encoder_hidden_states", "float32", *source)

    def shape(length: str) -> tuple[str | int, ...]:
        return "batch_size", model.heads, length, width // model.heads

    past = {
        (i, *key): graph.input(name, "float32", *shape(f"past_{key[0]}_sequence_length"))
        for i in range(len(model.decoder.layers))
        for key in itertools.product(("decoder", "encoder"), ("key", "value"))
        for name in [".".join(("past_key_values", str(i), *key))]
    }
    cached = graph.input("use_cache_branch", "bool", 1)
    # Without a cache nothing of the past counts, whatever its length is.
    before = graph.size(past[0, "decoder", "key"], 2)
    count = graph.op("Mul", before, graph.op("Cast", cached, to=7))
    length = graph.op("Squeeze", count)
    first, steps = graph.const(0, "int64"), graph.const(1, "int64")
    total = graph.op("Add", length, graph.size(ids, 1))
    queries = graph.op("Unsqueeze", graph.op("Range", length, total, steps), graph.ints(1))
    later = graph.op("Less", queries, graph.op("Range", first, total, steps))
    causal = graph.op("Mul", graph.op("Cast", later, to=1), graph.const(-1e9))  # (T, P + T)
    source_bias = graph.padding(mask)

    def of_source(kernel: np.ndarray) -> str:
        return graph.heads(graph.matmul(memory, kernel), model.heads)

    def attend(index: int, layer: plain.Attention, number: int, value: str) -> str:
        first_kernel, *kernels, output = layer.kernels
        scaled = graph.matmul(value, first_kernel * np.float32(model.query_scale))
        keys = []
        for part, kernel in zip(("key", "value"), kernels, strict=True):
            if number:
                side, new = "encoder", functools.partial(of_source, kernel)
                made = graph.choose(cached, past[index, side, part], new)
            else:
                side, bounds = "decoder", (graph.ints(0), count, graph.ints(2))
                before = graph.op("Slice", past[index, side, part], *bounds)
                own = graph.heads(graph.matmul(value, kernel), model.heads)
                made = graph.op("Concat", before, own, axis=2)
            name = f"present.{index}.{side}.{part}"
            graph.output(made, name, *shape(f"{side}_sequence_length"))
            keys.append(name)
        bias = source_bias if number else causal
        attended = graph.attend(graph.heads(scaled, model.heads), keys[0], keys[1], bias)
        return graph.matmul(attended, output)

    embedded = graph.embed(ids, model.decoder, model.scale, length)
    hidden = graph.stack(embedded, model.decoder, model, attend)
    logits = graph.matmul(hidden, model.softmax.T.copy())
    graph.output(logits, "logits", "batch_size", "decoder_sequence_length", len(model.softmax))
    graph.outputs.insert(0, graph.outputs.pop())  # as Optimum has them
    return graph
