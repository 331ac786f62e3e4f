"""A trained model for the library transformers: Blenderbot if it is pre-norm, Marian if post-norm.

Both compute what T2T's Transformer does, except for an epsilon of 1e-5 in their norms. Nothing is
added to a position table or to the rows of a vocabulary there, so T2T's sinusoids are written out,
and one row of zeros behind the vocabulary stands before the first target; it is never chosen.
transformers is not needed here: model.safetensors is a length, JSON and the arrays.

D model size, F filter size, V vocabulary.
"""

import importlib.resources
import json
import os
import pathlib
import shutil
import string
import tempfile
from typing import Any

import numpy as np

from t2t_repro import provenance, registry
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export import hub, onnx, plain
from t2t_repro.export.forms import ExportJob
from t2t_repro.export.saved_model import EXAMPLE
from t2t_repro.files import writing
from t2t_repro.text.encoders import PAD_ID

USE = 'Load: AutoModelForSeq2SeqLM.from_pretrained("{path}"). {path}/README.md has an example.'
QUANTIZATIONS = {"float32": "F32", "float16": "F16"}  # as safetensors calls them
WEIGHTS = "model.safetensors"
EPSILON = 1e-5  # of its norms
_NEVER = -1e4  # the bias of a row that is no id
_KERNELS = ("q_proj", "k_proj", "v_proj", "out_proj")
_ENCODER = (("self_attn", "self_attn_layer_norm"), ("fc", "final_layer_norm"))
_DECODER = (_ENCODER[0], ("encoder_attn", "encoder_attn_layer_norm"), _ENCODER[1])
_SUBLAYERS = {"encoder": _ENCODER, "decoder": _DECODER}  # their names, and those of their norms
GREEDY = True  # its beam search has another length penalty
check = onnx.check  # ONNX Runtime tries what is written


def write(job: ExportJob) -> None:
    """Writes weights, configuration, tokenizer, and README.md as a model card.

    Raises:
        UserError: if transformers cannot compute the model, or tokenizers read its vocabulary.
    """
    found, folder = plain.read(job.model, "transformers"), job.folder
    quantize = job.request.quantize
    if not hub.write_tokenizers(folder, job.run.encoders):
        raise UserError(
            "Expected a SentencePiece unigram model for transformers. Received: another type of "
            "SentencePiece model. Use --format=onnx."
        )
    tensors = {name: array.astype(quantize) for name, array in tensors_of(found).items()}
    save(folder / WEIGHTS, tensors)
    rows, tied = tensors["final_logits_bias"].size, "lm_head.weight" not in tensors
    hub.write_model(folder, found, rows, rows - 1, tied, quantize)
    (folder / "README.md").write_text(_card(job, found.longest), encoding="utf-8")


def translate(
    folder: pathlib.Path, problem: str, settings: DecodeHParams, texts: list[str]
) -> provenance.Translations:
    """Returns the greedy translation of each text, and its score, by what the files hold.

    ONNX Runtime computes it, with the epsilon of transformers.
    """
    names = registry.get_problem(problem).vocab_files(os.fspath(folder))
    with tempfile.TemporaryDirectory() as path:
        there = pathlib.Path(path)
        files = [pathlib.Path(shutil.copy(folder / name, there)) for name in names]
        onnx.convert(read(folder), there, settings, files)
        return onnx.translate(there, problem, settings, texts)


def tensors_of(model: plain.Plain) -> dict[str, np.ndarray]:
    """Returns the arrays of a model under transformers' names; its kernels are (out, in)."""
    rows = max(len(model.encoder.table), len(model.softmax)) + 1
    width, length = model.softmax.shape[1], min(model.longest, plain.POSITIONS)
    bias = np.full((1, rows), _NEVER, "float32")
    bias[0, : len(model.softmax)] = 0
    tables = {
        "lm_head.weight": model.softmax,
        "model.encoder.embed_tokens.weight": model.encoder.table,
        "model.decoder.embed_tokens.weight": model.decoder.table,
    }
    if all(np.array_equal(table[1:], model.softmax[1:]) for table in tables.values()):
        tables = {"model.shared.weight": model.softmax}
    elif model.pre_norm:  # Blenderbot has it, and does not use it
        tables["model.shared.weight"] = model.encoder.table
    found = {n: np.pad(table, ((0, rows - len(table)), (0, 0))) for n, table in tables.items()}
    found["final_logits_bias"] = bias
    to_theirs = np.float32(model.query_scale * (width / model.heads) ** 0.5)

    def linear(name: str, kernel: np.ndarray, values: np.ndarray) -> None:
        found[f"{name}.weight"], found[f"{name}.bias"] = kernel.T, values

    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        positions = np.zeros((length, width)) if stack.positions is None else stack.positions
        found[f"model.{side}.embed_positions.weight"] = positions[:length]
        if stack.norm:
            linear(f"model.{side}.layer_norm", *stack.norm)
        for number, layer in enumerate(stack.layers):
            for sublayer, (name, norm) in zip(layer, _SUBLAYERS[side], strict=True):
                name = f"model.{side}.layers.{number}.{name}"
                norm = f"model.{side}.layers.{number}.{norm}"
                linear(norm, *sublayer.norm)
                if isinstance(sublayer, plain.FeedForward):
                    linear(f"{name}1", *sublayer.inner)
                    linear(f"{name}2", *sublayer.outer)
                    continue
                query, *others = sublayer.kernels
                for part, kernel in zip(_KERNELS, (query * to_theirs, *others), strict=True):
                    linear(f"{name}.{part}", kernel, np.zeros(width))
    return found


def read(folder: pathlib.Path) -> plain.Plain:
    """Returns the model that a folder's files have, as transformers computes it."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    found = load(folder / WEIGHTS)
    shared: Any = found.get("model.shared.weight")

    def pair(name: str) -> tuple[np.ndarray, np.ndarray]:
        return found[f"{name}.weight"].T, found[f"{name}.bias"]

    def sublayer(name: str, norm: str) -> plain.Attention | plain.FeedForward:
        if name.endswith("fc"):
            return plain.FeedForward(pair(f"{name}1"), pair(f"{name}2"), pair(norm))
        kernels = tuple(pair(f"{name}.{part}")[0] for part in _KERNELS)
        return plain.Attention(kernels, pair(norm))

    def stack(side: str) -> plain.Stack:
        table = found.get(f"model.{side}.embed_tokens.weight", shared).copy()
        table[PAD_ID] = 0
        layers = [
            [sublayer(f"{prefix}.{name}", f"{prefix}.{norm}") for name, norm in _SUBLAYERS[side]]
            for prefix in (f"model.{side}.layers.{i}" for i in range(config[f"{side}_layers"]))
        ]
        norm = pair(f"model.{side}.layer_norm") if pre_norm else None
        return plain.Stack(table, found[f"model.{side}.embed_positions.weight"], layers, norm)

    pre_norm, heads = config["model_type"] == "blenderbot", config["encoder_attention_heads"]
    return plain.Plain(
        heads=heads,
        pre_norm=pre_norm,
        epsilon=EPSILON,
        scale=config["d_model"] ** 0.5 if config["scale_embedding"] else 1.0,
        query_scale=(config["d_model"] / heads) ** -0.5,
        encoder=stack("encoder"),
        decoder=stack("decoder"),
        softmax=found.get("lm_head.weight", shared)[found["final_logits_bias"][0] == 0],
    )


def save(path: pathlib.Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a file of safetensors: the length of a header of JSON, the header, the arrays."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        about = {"dtype": QUANTIZATIONS[array.dtype.name], "shape": array.shape}
        header[name] = {**about, "data_offsets": (begin, end)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with writing(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array).tobytes())


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns the arrays of a file of `save`, as float32."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    dtypes = {theirs: ours for ours, theirs in QUANTIZATIONS.items()}
    found = {}
    for name, about in json.loads(data[8:start]).items():
        if name != "__metadata__":
            begin, end = (start + offset for offset in about["data_offsets"])
            array = np.frombuffer(data[begin:end], dtypes[about["dtype"]])
            found[name] = array.reshape(about["shape"]).astype("float32")
    return found


def _card(job: ExportJob, longest: int) -> str:
    """Returns README.md: what Hugging Face's model cards begin with, then how and what."""
    record, config = provenance.read(job.run.path), job.run.config
    golden, scores = (record.example, record.scores) if record else (None, ())
    about = {"library_name": "transformers", "pipeline_tag": "translation"}
    if job.request.license:
        about["license"] = job.request.license
    if job.request.languages:
        about["language"] = f"[{', '.join(job.request.languages.split('-'))}]"
    text = importlib.resources.files(__package__).joinpath("transformers_readme.md")
    return string.Template(text.read_text(encoding="utf-8")).substitute(
        front="\n".join(f"{name}: {value}" for name, value in about.items()),
        problem=config.problem,
        hparams_set=config.hparams_set,
        example=json.dumps(golden.source if golden else EXAMPLE[0], ensure_ascii=False),
        scores="\n".join(f"- {s.name} {s.value:.4f} of {s.of}; {s.signature}" for s in scores),
        longest=longest,
    )
