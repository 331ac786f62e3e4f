"""Derives hparams from the names and shapes of tensor2tensor's variables."""

import dataclasses
import re
from collections import Counter
from collections.abc import Collection
from typing import Any

from t2t_repro.config import BASELINES, BYTENET, HParams
from t2t_repro.errors import UserError

Shapes = dict[str, tuple[int, ...]]
VERSIONS = "1.4 to 1.15"  # of T2T: their Transformers' variables have the same names
_MODALITY = re.compile(r"(?P<model>\w+)/symbol_modality_(\d+)_(\d+)/(\w+)/weights_(\d+)")
_AFTER = "layer_postprocess_sequence"
_SPOKEN = re.compile(r"/attention_layer(?:_\d+)?/kernel$")
_CONVOLUTION = re.compile(r"/encoder/repeat_(\d+)/residual_conv/conv_block_(\d+)_single/kernel$")
_PLACES = ("norm_before", "norm_after", "gates")
_LAYER = re.compile(r"transformer/body/(encoder|decoder)/layer_(\d+)/")
_ATTENTION = "transformer/body/{}/layer_0/self_attention/multihead_attention"
_RELATIVE = "dot_product_attention_relative/relative_positions_keys/embeddings"


def check_names(names: Collection[str], prefix: Any) -> None:
    """Raises a UserError unless these are the variables of a supported model."""
    has_tables = any(_MODALITY.match(name) for name in names)
    if has_tables and any(_LAYER.match(name) for name in names):
        return
    if has_tables and _model(names) in BASELINES:
        return
    tops = sorted({name.partition("/")[0] for name in names})
    raise UserError(
        f"Expected a Transformer of tensor2tensor {VERSIONS}: variables transformer/body/... and "
        f"transformer/symbol_modality_... Received: {prefix}, with variables of "
        f"{', '.join(tops[:10]) or 'nothing'}. Other supported models: {', '.join(BASELINES)}."
    )


def _model(names: Collection[str]) -> str:
    """Returns the name of the model that has these variables."""
    return next(match["model"] for name in names if (match := _MODALITY.match(name)))


def facts(shapes: Shapes) -> dict[str, Any]:
    """Returns {hparam: value} for each hparam that the variables determine."""
    tables = _tables(shapes)
    kinds = {kind for *_, kind in tables}
    are_of_one_size = len({rows for rows, *_ in tables}) == 1
    (_, hidden_size, _), shards = next(iter(tables.items()))
    found: dict[str, Any] = {
        "hidden_size": hidden_size,
        "symbol_modality_num_shards": shards,
        "model": (model := _model(shapes)),
    }
    if are_of_one_size:  # others share nothing, whatever the hparam says
        found["shared_embedding_and_softmax_weights"] = kinds == {"shared"}
    if kinds != {"shared"}:
        found["shared_embedding"] = "shared" in kinds
    if model in BASELINES:
        return found | (_bytenet_facts(shapes) if model == BYTENET else _lstm_facts(shapes))
    found["use_target_space_embedding"] = "transformer/body/target_space_embedding/kernel" in shapes
    layers = [match for name in shapes if (match := _LAYER.match(name))]
    for side in ("encoder", "decoder"):
        numbers = {int(match[2]) for match in layers if match[1] == side}
        found[f"num_{side}_layers"] = len(numbers)
    side = layers[0][1]
    conv = shapes.get(f"transformer/body/{side}/layer_0/ffn/conv1/kernel")
    if conv:
        found["filter_size"] = conv[-1]
    positions = shapes.get("transformer/body/inputs_positional_embedding")
    if positions:
        found |= {"pos": "emb", "max_length": positions[0]}
    return found | _attention_facts(shapes, _ATTENTION.format(side)) | _norm_facts(shapes, side)


def _lstm_facts(shapes: Shapes) -> dict[str, Any]:
    cells = {match[1] for name in shapes if (match := re.search(r"/cell_(\d+)/", name))}
    found: dict[str, Any] = {"num_hidden_layers": len(cells)}
    kernels = [shape for name, shape in shapes.items() if _SPOKEN.search(name)]
    if kernels:
        bahdanau = any("/bahdanau_attention/" in name for name in shapes)
        found["attention_mechanism"] = "bahdanau" if bahdanau else "luong"
        found |= {"num_heads": len(kernels), "attention_layer_size": kernels[0][-1]}
    return found


def _bytenet_facts(shapes: Shapes) -> dict[str, Any]:
    blocks = [(match, shapes[name]) for name in shapes if (match := _CONVOLUTION.search(name))]
    return {
        "num_block_repeat": len({match[1] for match, _ in blocks}),
        "num_hidden_layers": len({match[2] for match, _ in blocks}),
        "kernel_height": blocks[0][1][0],
    }


def _attention_facts(shapes: Shapes, scope: str) -> dict[str, Any]:
    found: dict[str, Any] = {"attention_variables_3d": f"{scope}/q" in shapes}
    for letter, name in (("q", "key"), ("v", "value")):
        kernel = shapes.get(f"{scope}/{letter}")
        if kernel:  # (D, N, H)
            found["num_heads"] = kernel[1]
            found[f"attention_{name}_channels"] = kernel[1] * kernel[2]
        elif f"{scope}/{letter}/kernel" in shapes:
            found[f"attention_{name}_channels"] = shapes[f"{scope}/{letter}/kernel"][-1]
    relative = shapes.get(f"{scope}/{_RELATIVE}")
    if relative:
        found["self_attention_type"] = "dot_product_relative"
        found["max_relative_position"] = relative[0] // 2
        found["num_heads"] = found["attention_key_channels"] // relative[1]
    return found


def _norm_facts(shapes: Shapes, side: str) -> dict[str, Any]:
    """Returns where norms are, and gates of the residuals; and the norms' type, where they are."""
    scope = f"transformer/body/{side}/layer_0/ffn"
    norms = [name for name in shapes if name.startswith(scope) and "_norm" in name]
    before = any(name.startswith(f"{scope}/layer_prepostprocess/") for name in norms)
    after = any(name.startswith(f"{scope}/layer_postprocess/") for name in norms)
    gates = any(name.startswith(f"{scope}/layer_postprocess/zero_add") for name in shapes)
    kinds = {"/batch_normalization": "batch", "/l2_norm": "l2", "/layer_norm": "layer"}
    types = {kind for part, kind in kinds.items() for name in norms if part in name}
    proven = {"norm_type": types.pop()} if types else {}
    return {"norm_before": before, "norm_after": after, "gates": gates, **proven}


def reconcile(
    values: dict[str, Any] | None, shapes: Shapes, given: Collection[str] = ()
) -> tuple[HParams, list[str]]:
    """Corrects hparams by the variables.

    Args:
        values: {hparam: value}, as far as known; None: none is.
        shapes: {T2T's variable name: shape}.
        given: the hparams that hparams.json or the user gave. The variables must agree with them;
            they override others, of the named set.

    Returns:
        The hparams, and a note "name=value" for each that the variables changed.

    Raises:
        UserError: if a given hparam and the variables contradict each other: all are named. Also if
            nothing is known: the error lists what the variables show.
    """
    found = facts(shapes)
    before, after, gates = (found.pop(name, None) for name in _PLACES)
    if values is None:
        said = ", ".join(f"{name}={value!r}" for name, value in found.items())
        raise UserError(
            "Expected hparams.json or flags.txt beside the checkpoint, or --hparams_set. Received: "
            "none of them. Give --hparams_set (and --hparams). The shapes of the variables show: "
            f"{said}."
        )
    values = dataclasses.asdict(HParams()) | values
    changes, wrong = {}, []
    for name, value in found.items():
        there = _effective(values, name, found["hidden_size"])
        if there == value:
            continue
        if name in given and name != "symbol_modality_num_shards":
            wrong.append(f"{name}={there!r}, but the variables show {value!r}")
        changes[name] = value
    norm_type, add = (values | changes)["norm_type"], "z" if gates else "a"
    places = (("layer_preprocess_sequence", before, False), (_AFTER, after, gates))
    for name, has, gated in places if before is not None else ():
        sequence = str(values[name])
        normalizes = "n" in sequence.replace("none", "") and norm_type != "none"
        # A norm without variables may be anywhere.
        if (normalizes == has or norm_type == "noam") and ("z" in sequence) == gated:
            continue
        if name in given or before == after:
            norm, gate = ("a" if there else "no" for there in (has, gated))
            wrong.append(f"{name}={sequence!r}, but the variables show {norm} norm, {gate} gate")
        pre_norm = {"layer_preprocess_sequence": "n", _AFTER: f"d{add}"}
        post_norm = {"layer_preprocess_sequence": "none", _AFTER: f"d{add}n"}
        changes |= pre_norm if before else post_norm
    if wrong:
        raise UserError(
            f"Expected hparams that fit the checkpoint's variables. Received: {'; '.join(wrong)}. "
            "Give the training's hparams.json, or its --hparams_set and --hparams."
        )
    return HParams(**values | changes), [f"{name}={value!r}" for name, value in changes.items()]


def check_vocabularies(shapes: Shapes, hparams: HParams, sizes: dict[str, int], source: str):
    """Checks the vocabularies' sizes against the tables'.

    Args:
        shapes: {T2T's variable name: shape}.
        hparams: the model's.
        sizes: {"inputs": number of ids, "targets": ...}.
        source: where the vocabularies are from, for the message.

    Raises:
        UserError: if a table is for a vocabulary of another size.
    """
    divisor = hparams.vocab_divisor
    padded = {name: -(-size // divisor) * divisor for name, size in sizes.items()}
    there = {size for size, *_ in _tables(shapes)}
    if set(padded.values()) == there:
        return
    ours = ", ".join(f"{size} tokens for {name}" for name, size in sizes.items())
    raise UserError(
        "Expected the vocabulary of the checkpoint's training: the checkpoint's embedding tables "
        f"have {' and '.join(map(str, sorted(there)))} rows. Received: {ours} in {source}. Give "
        "the --data_dir and --problem of that training."
    )


def _effective(values: dict[str, Any], name: str, hidden_size: int) -> Any:
    """Returns the effective value of an hparam: 0 may mean another one's."""
    if name in ("attention_key_channels", "attention_value_channels", "attention_layer_size"):
        return values[name] or hidden_size
    if name in ("num_encoder_layers", "num_decoder_layers"):
        return values[name] or values["num_hidden_layers"]
    return values[name]


def _tables(shapes: Shapes) -> Counter[tuple[int, int, str]]:
    """Returns {(rows, hidden size, "shared" or "input_emb" or "target_emb" or "softmax"): into how
    many variables the table is split}."""
    found = (m for name in shapes if (m := _MODALITY.match(name)))
    return Counter((int(m[2]), int(m[3]), m[4]) for m in found)
