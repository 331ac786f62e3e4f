"""The files of JSON that transformers, its JavaScript and Optimum read beside weights or graphs.

tokenizer.json describes a vocabulary for the library tokenizers. T2T's subwords have the same ids
there, except for characters outside their alphabet: T2T spells them by numbers, which that library
cannot compute; they are read and written as U+3013.
"""

import base64
import io
import pathlib
from collections.abc import Mapping
from typing import Any, cast

from t2t_repro.errors import UserError
from t2t_repro.export.plain import POSITIONS, FeedForward, Plain
from t2t_repro.files import write_json
from t2t_repro.text.encoders import EOS_ID, PAD_ID, RESERVED_TOKENS, TextEncoder
from t2t_repro.text.escaping import UNKNOWN, escape_character
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder

_WORD, _SIGN = r"[\p{L}\p{N}]", r"[^\p{L}\p{N}_]"
_BACKSLASH, _UNDERSCORE = "\ufdd0", "\ufdd1"  # no characters: they stand for these two for a while
_BLANK = "\u2581"  # SentencePiece's sign for a blank
_UNIGRAM = 1  # SentencePiece's number of its default kind of model


def write_model(
    folder: pathlib.Path,
    model: Plain,
    vocab_size: int,
    start: int,
    tied: bool = False,
    dtype: str = "float32",
) -> None:
    """Writes config.json, which names a class of transformers, and generation_config.json.

    Args:
        folder: where to.
        model: the model.
        vocab_size: how many ids the files have.
        start: the id before the first target.
        tied: both sides and the softmax have one table.
        dtype: of the weights.
    """
    ids = {"pad_token_id": PAD_ID, "eos_token_id": EOS_ID, "bos_token_id": None}
    ids |= {"decoder_start_token_id": start, "forced_eos_token_id": None}
    kind, name = "marian", "MarianMTModel"
    if model.pre_norm:
        kind, name = "blenderbot", "BlenderbotForConditionalGeneration"
    sizes: dict[str, int] = {}
    for side, stack in (("encoder", model.encoder), ("decoder", model.decoder)):
        filters = len(cast(FeedForward, stack.layers[0][-1]).inner[1])
        sizes |= {f"{side}_layers": len(stack.layers), f"{side}_ffn_dim": filters}
        sizes[f"{side}_attention_heads"] = model.heads
    config = {
        "model_type": kind,
        "architectures": [name],
        "is_encoder_decoder": True,
        "vocab_size": vocab_size,
        "d_model": model.softmax.shape[1],
        **sizes,
        "activation_function": "relu",
        "scale_embedding": model.scale != 1,
        "encoder_no_repeat_ngram_size": 0,
        "decoder_vocab_size": vocab_size,
        "max_position_embeddings": min(model.longest, POSITIONS),
        "tie_word_embeddings": tied,
        "share_encoder_decoder_embeddings": tied,
        "dtype": dtype,
        **ids,
    }
    generation = {
        **ids,
        "max_new_tokens": min(model.longest, 256),
        "num_beams": 1,
        "do_sample": False,
    }
    write_json(folder / "config.json", config, ensure_ascii=False)
    write_json(folder / "generation_config.json", generation, ensure_ascii=False)


def write_tokenizers(folder: pathlib.Path, encoders: Mapping[str, TextEncoder]) -> bool:
    """Writes tokenizer.json and tokenizer_config.json; those of other targets into `target`.

    Returns:
        Whether tokenizers can read them: of SentencePiece's models those of unigrams.

    Raises:
        UserError: if a vocabulary is neither of T2T's subwords nor SentencePiece's.
    """
    sides = {folder: encoders["inputs"], folder / "target": encoders["targets"]}
    strings = [getattr(encoder, "all_subtoken_strings", None) for encoder in sides.values()]
    if strings[0] == strings[1]:
        del sides[folder / "target"]
    tokenizers = {path: made for path, of in sides.items() if (made := _described(of))}
    if len(tokenizers) < len(sides):
        return False
    for path, tokenizer in tokenizers.items():
        path.mkdir(exist_ok=True)
        write_json(path / "tokenizer.json", tokenizer, ensure_ascii=False)
        pad, eos = (token["content"] for token in tokenizer["added_tokens"])
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": pad, "eos_token": eos}
        config |= {"model_input_names": ["input_ids", "attention_mask"]}
        write_json(path / "tokenizer_config.json", config, ensure_ascii=False)
    return True


def _described(encoder: TextEncoder) -> dict[str, Any] | None:
    parts: dict[str, Any] | None
    if isinstance(encoder, SubwordTextEncoder):
        parts = _subwords(encoder)
    elif isinstance(encoder, SentencePieceEncoder):
        parts = _unigrams(encoder)
    else:
        raise UserError(
            "Expected a subword or SentencePiece vocabulary. Received: a "
            f"{type(encoder).__name__}. Use --format=ctranslate2."
        )
    if parts is None:
        return None
    pad, eos = (encoder.all_subtoken_strings[i] for i in (PAD_ID, EOS_ID))
    whole = {"lstrip": False, "rstrip": False, "single_word": False, "normalized": False}
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    end = {"SpecialToken": {"id": eos, "type_id": 0}}
    special = [{"id": PAD_ID, "content": pad}, {"id": EOS_ID, "content": eos}]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{**token, "special": True, **whole} for token in special],
        **parts,
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, end],
            "pair": [first, end, second, end],
            "special_tokens": {eos: {"id": eos, "ids": [EOS_ID], "tokens": [eos]}},
        },
    }


def _subwords(encoder: SubwordTextEncoder) -> dict[str, Any]:
    ids = {piece: i for i, piece in enumerate(encoder.all_subtoken_strings) if piece}
    known = sorted(piece for piece in {*ids, _BACKSLASH, _UNDERSCORE} if len(piece) == 1)
    others = "".join(f"\\u{ord(c):04x}" if c in "[]\\^-&~" else c for c in known if c != "\n")
    # The ends of tokens, where no blank between two words says so.
    ends = rf"(?<={_WORD})(?={_SIGN})|(?<={_SIGN})(?={_WORD})|(?<=[^_])(?![\s\S])"
    spell = [
        {"type": "Strip", "strip_left": True, "strip_right": True},
        _replace("\\", _BACKSLASH),
        _replace("_", _UNDERSCORE),
        _replace(f"(?<={_WORD}) (?={_WORD})", "_", "Regex"),
        _replace(ends, "_", "Regex"),
        _replace("\n", escape_character("\n")),
        _replace(f"[^{others}]", escape_character(UNKNOWN), "Regex"),
        _replace(_UNDERSCORE, "\\u"),
        _replace(_BACKSLASH, "\\\\"),
    ]
    read = [
        {"type": "Fuse"},
        _replace("\\\\", _BACKSLASH),
        _replace("\\u", _UNDERSCORE),
        _replace(escape_character("\n"), "\n"),
        _replace(r"\\[0-9]+;", UNKNOWN, "Regex"),
        _replace(f"(?<={_WORD})_(?={_WORD})", " ", "Regex"),
        _replace("_", ""),
        _replace(_UNDERSCORE, "_"),
        _replace(_BACKSLASH, "\\"),
    ]
    token = {"pattern": {"Regex": "[^_]*_"}, "behavior": "Removed", "invert": True}
    return {
        "normalizer": {"type": "Sequence", "normalizers": spell},
        "pre_tokenizer": {"type": "Split", **token},
        "decoder": {"type": "Sequence", "decoders": read},
        "model": {
            "type": "WordPiece",  # the longest match from left to right
            "unk_token": encoder.all_subtoken_strings[PAD_ID],  # never: all can be spelled
            "continuing_subword_prefix": "",
            "max_input_chars_per_word": 10**6,
            "vocab": ids,
        },
    }


def _unigrams(encoder: SentencePieceEncoder) -> dict[str, Any] | None:
    import sentencepiece

    # Its fields, of sentencepiece_model.proto: that of the trainer, and that of the normalizer.
    model = _fields(encoder.model)
    trainer, rules = _fields(model[2]), _fields(model[3])
    byte_fallback, as_suffix = trainer.get(35, 0), trainer.get(24, 0)
    if trainer.get(3, _UNIGRAM) != _UNIGRAM or as_suffix:
        return None
    normalizers: list[dict[str, Any]] = [_replace("[\r\n\t]+", " ", "Regex")]
    if charsmap := rules.get(2):
        text = base64.b64encode(charsmap).decode()
        normalizers.append({"type": "Precompiled", "precompiled_charsmap": text})
    if rules.get(4, 1):  # blanks that are too many go
        normalizers.append({"type": "Strip", "strip_left": True, "strip_right": True})
        normalizers.append(_replace(" {2,}", " ", "Regex"))
    processor = sentencepiece.SentencePieceProcessor(model_proto=encoder.model)
    scores = [(processor.IdToPiece(i), processor.GetScore(i)) for i in encoder.own_ids]
    reserved = [(name, 0.0) for name in RESERVED_TOKENS]
    scheme = "always" if rules.get(3, 1) else "never"  # a blank before the text
    blanks = {"type": "Metaspace", "replacement": _BLANK, "prepend_scheme": scheme, "split": True}
    unknown = processor.unk_id()
    written = _replace(processor.IdToPiece(unknown), trainer.get(44, " \u2047 ".encode()).decode())
    return {
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": blanks,
        "decoder": {"type": "Sequence", "decoders": [written, blanks]},
        "model": {
            "type": "Unigram",
            "unk_id": encoder.own_ids.index(unknown) + len(reserved),
            "vocab": [*reserved, *scores],
            "byte_fallback": bool(byte_fallback),
        },
    }


def _fields(data: bytes) -> dict[int, Any]:
    """Returns the fields of a protocol buffer, the last of each number: numbers, or bytes."""
    found: dict[int, Any] = {}
    stream = io.BytesIO(data)

    def number() -> int:
        (byte,) = stream.read(1)
        return byte if byte < 128 else byte - 128 + (number() << 7)

    while stream.tell() < len(data):
        key = number()
        if key & 7 == 0:
            found[key >> 3] = number()
        else:
            found[key >> 3] = stream.read({1: 8, 5: 4}.get(key & 7) or number())
    return found


def _replace(pattern: str, content: str, kind: str = "String") -> dict[str, Any]:
    return {"type": "Replace", "pattern": {kind: pattern}, "content": content}
