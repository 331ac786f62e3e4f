r"""tensor2tensor's subword encoding inside a TensorFlow graph: text to ids and back.

The same steps as subword.py, tokenizer.py and escaping.py, and the same ids, in operations of
TensorFlow and tensorflow-text alone. A graph that holds them needs nothing else where it is loaded.
"""

import functools
import hashlib
import sys
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import EOS_ID, NUM_RESERVED_TOKENS, TextEncoder
from t2t_repro.text.escaping import UNKNOWN, escape_character, escape_token
from t2t_repro.text.sentence_piece import SentencePieceEncoder
from t2t_repro.text.subword import SubwordTextEncoder

# What str.strip() takes away.
_BLANK = (
    r"[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]"
)
_ESCAPE = r"(\\u|\\\\|\\[0-9]+;)"
_NUMBER = r"\\[0-9]+;"
_LONGEST_WORD = 2**30  # bytes; the tokenizer's own default of 100 would give up on longer ones


def strip(texts: tf.Tensor) -> tf.Tensor:
    """Returns each of the strings (B,) as Python's str.strip() leaves it."""
    return tf.strings.regex_replace(texts, f"^{_BLANK}+|{_BLANK}+$", "")


def one_line(texts: tf.Tensor) -> tf.Tensor:
    """Returns each of the strings with a blank for every run of line ends."""
    return tf.strings.regex_replace(texts, r"[\r\n]+", " ")


def graph_encoder(encoder: TextEncoder) -> "GraphSubwords | GraphSentencePieces":
    """Returns an encoder as operations of a graph.

    Raises:
        UserError: if its kind is not supported.
    """
    if isinstance(encoder, SentencePieceEncoder):
        return GraphSentencePieces(encoder)
    return GraphSubwords(encoder)


class _GraphEncoder(tf.Module):
    """The base of both kinds, with `_subtokens`, the pieces in the order of their ids."""

    _subtokens: tf.Tensor

    def subtokens(self, ids: tf.Tensor) -> tf.Tensor:
        """Returns each of the ids (B, tokens) as the vocabulary spells it; "" for padding."""
        return tf.where(ids == 0, "", tf.gather(self._subtokens, ids))


class GraphSentencePieces(_GraphEncoder):
    """A `SentencePieceEncoder` as operations of a graph; the methods are those of `GraphSubwords`.

    Args:
        encoder: whose ids these are.
    """

    def __init__(self, encoder: SentencePieceEncoder):
        super().__init__(name="pieces")
        # A process that loads SavedModels finds a model by this name: another model, another name.
        name = f"sentencepiece_{hashlib.sha256(encoder.model).hexdigest()}"
        self._tokenizer = tf_text.SentencepieceTokenizer(
            encoder.model, out_type=tf.int32, name=name
        )
        self.resources = [self._tokenizer]
        self._subtokens = tf.constant(encoder.all_subtoken_strings)
        # Begin, end and padding of the model have no ids; encoding never gives them.
        own = encoder.own_ids
        ids = np.full(max(own, default=0) + 1, EOS_ID, "int32")
        ids[own] = np.arange(len(own)) + NUM_RESERVED_TOKENS
        self._ids, self._own = tf.constant(ids), tf.constant(own, tf.int32)

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids int32 (B, tokens) of strings (B,), as the encoder's `encode`."""
        own = self._tokenizer.tokenize(texts)
        return own.with_values(tf.gather(self._ids, own.values))

    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the strings (B,) of ids int32 (B, tokens), as the encoder's `decode`."""
        place = ids.values - NUM_RESERVED_TOKENS
        known = (place >= 0) & (place < tf.size(self._own))
        kept = tf.ragged.boolean_mask(ids.with_values(place), ids.with_values(known))
        texts = self._tokenizer.detokenize(kept.with_values(tf.gather(self._own, kept.values)))
        return tf.strings.regex_replace(texts, " +$", "")


class GraphSubwords(_GraphEncoder):
    """A `SubwordTextEncoder` as operations of a graph.

    Args:
        encoder: whose ids these are.

    Attributes:
        resources: objects that a SavedModel must keep besides the operations.
    """

    def __init__(self, encoder: TextEncoder):
        super().__init__(name="subwords")
        self.resources: list[Any] = []
        if not isinstance(encoder, SubwordTextEncoder) or (
            type(encoder).encode is not SubwordTextEncoder.encode
        ):
            raise UserError(
                "Expected a subword or SentencePiece vocabulary: a SavedModel supports no other. "
                f"Received: a {type(encoder).__name__}. Translate with t2t-decoder, or export the "
                "run of another problem."
            )
        subtokens = encoder.all_subtoken_strings
        # The matcher's strings end at a zero: a character that no escaped token has stands for it.
        self._zero = next(c for c in map(chr, range(0xE000, 0xF900)) if c not in encoder.alphabet)
        # In a file that tensor2tensor did not write a character may be part of longer subtokens
        # alone: it is matched as a further entry, and that stands for the ids of its escape.
        alone = sorted(encoder.alphabet - set(subtokens) - {"\n"})
        known, entries = set(subtokens) | set(alone), []
        for i, subtoken in enumerate([*subtokens, "", *alone]):
            # An empty entry needs a string that no escaped token has: their `_` is the last sign.
            entry = subtoken or f"__{i}"
            while not subtoken and entry in known:
                entry += "_"
            entries.append(entry.replace("\0", self._zero))
        self._subtokens = tf.constant(subtokens)
        codes = [ord(c) for c in encoder.alphabet if c != "\n"]
        self._alphabet = tf.constant(sorted(codes), tf.int32)
        self._blank = escape_token(" ", encoder.alphabet)
        self._meaning = None
        if alone:
            own = [[i] for i in range(len(subtokens))]
            spelled = [encoder.cut(escape_character(c)) for c in alone]
            self._meaning = tf.ragged.constant([*own, [], *spelled], dtype=tf.int32)
        self._matcher = tf_text.FastWordpieceTokenizer(
            entries,
            suffix_indicator="",
            max_bytes_per_word=_LONGEST_WORD,
            token_out_type=tf.int32,
            unknown_token=entries[len(subtokens)],
            no_pretokenization=True,
        )

    def encode(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Returns the ids int32 (B, tokens) of strings (B,), as the encoder's `encode`."""
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="replace")
        row, position = codes.value_rowids(), tf.ragged.range(codes.row_lengths()).values
        # A token begins with the text, and where words and what is between them meet.
        word = _is_word(codes.values)
        begins = tf.concat([[True], word[1:] != word[:-1]], axis=0)[: tf.size(word)]
        begins = begins | (position == 0)
        token = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        tokens = tf.RaggedTensor.from_value_rowids(self._spelled(codes.values), token)
        spelled = tf.strings.reduce_join(tokens, axis=1) + "_"
        # A lone blank inside the text is implied: its token is left out.
        row, position = tf.boolean_mask(row, begins), tf.boolean_mask(position, begins)
        inside = (position > 0) & (position < tf.gather(codes.row_lengths(), row) - 1)
        kept = ~(inside & (spelled == self._blank))
        ids = self._matcher.tokenize(tf.boolean_mask(spelled, kept))
        if self._meaning is not None:
            ids = ids.with_values(tf.gather(self._meaning, ids.values)).merge_dims(1, 2)
        rows = tf.RaggedTensor.from_value_rowids(ids, tf.boolean_mask(row, kept), codes.nrows())
        return rows.merge_dims(1, 2)

    def decode(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Returns the strings (B,) of ids int32 (B, tokens), as the encoder's `decode`."""
        size = tf.shape(self._subtokens)[0]
        known = (ids.values >= 0) & (ids.values < size)
        subtokens = tf.gather(self._subtokens, tf.where(known, ids.values, 0))
        subtokens = ids.with_values(tf.where(known, subtokens, ""))
        spelled = tf.strings.reduce_join(subtokens, axis=1)
        parts = tf.strings.split(spelled, "_")
        tokens = parts.with_values(self._unescape(parts.values))
        tokens = tf.ragged.boolean_mask(tokens, tokens.with_values(tokens.values != ""))
        # Between two words of one text stands a blank.
        first = tf.strings.unicode_decode(
            tf.strings.substr(tokens.values, 0, 1, unit="UTF8_CHAR"), "UTF-8", errors="replace"
        )
        word = _is_word(first.values)
        row = tokens.value_rowids()
        blank = word[1:] & word[:-1] & (row[1:] == row[:-1])
        blank = tf.concat([tf.zeros(tf.minimum(tf.size(word), 1), tf.bool), blank], axis=0)
        pieces = tf.where(blank, " ", "") + tokens.values
        return tf.strings.reduce_join(tokens.with_values(pieces), axis=1)

    def _spelled(self, codes: tf.Tensor) -> tf.Tensor:
        """Returns code points int32 (N,) spelled in the alphabet."""
        place = tf.searchsorted(self._alphabet, codes)
        known = tf.gather(self._alphabet, tf.minimum(place, tf.size(self._alphabet) - 1)) == codes
        number = tf.strings.join(["\\", tf.strings.as_string(codes), ";"])
        spelled = tf.where(known, _characters(tf.where(codes == 0, ord(self._zero), codes)), number)
        spelled = tf.where(codes == ord("\\"), "\\\\", spelled)
        return tf.where(codes == ord("_"), "\\u", spelled)

    def _unescape(self, spelled: tf.Tensor) -> tf.Tensor:
        """Returns escaped strings (N,), without their final `_`, unescaped."""
        pieces = tf.strings.split(tf.strings.regex_replace(spelled, _ESCAPE, r"_\1_"), "_")
        piece = pieces.values
        piece = tf.where(tf.strings.regex_full_match(piece, _NUMBER), _numbered(piece), piece)
        piece = tf.where(pieces.values == "\\u", "_", piece)
        piece = tf.where(pieces.values == "\\\\", "\\", piece)
        return tf.strings.reduce_join(pieces.with_values(piece), axis=1)


@functools.cache
def _word_bounds() -> np.ndarray:
    """Returns where letters and digits begin and end, in turn, in this Python's Unicode."""
    points = range(sys.maxunicode + 2)
    words = [False, *(chr(i).isalnum() for i in points[:-1]), False]
    return np.array([i for i in points if words[i] != words[i + 1]], "int32")


def _is_word(codes: tf.Tensor) -> tf.Tensor:
    """Returns bool (N,): whether code points int32 (N,) are letters or digits."""
    return tf.searchsorted(_word_bounds(), codes, side="right") % 2 == 1


def _characters(codes: tf.Tensor) -> tf.Tensor:
    """Returns the characters (N,) with the code points int32 (N,)."""
    return tf.strings.unicode_encode(codes[:, None], "UTF-8")


def _numbered(escapes: tf.Tensor) -> tf.Tensor:
    r"""Returns the characters of strings (N,) such as `\8364;`; meaningless for others."""
    digits = tf.strings.regex_replace(escapes, r"^\\0*([0-9]{1,7});$", r"\1")
    is_number = tf.strings.regex_full_match(digits, "[0-9]{1,7}")
    codes = tf.strings.to_number(tf.where(is_number, digits, "0"), tf.int32)
    is_character = (codes < 0xD800) | (codes > 0xDFFF) & (codes <= 0x10FFFF)
    real = is_number & is_character
    return tf.where(real, _characters(tf.where(real, codes, 0)), UNKNOWN)
