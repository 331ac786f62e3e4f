"""The graph of a SavedModel, signature by signature.

Text to ids, the search and ids to text are one graph. Each sentence has its own limit and stop, as
in the decoder, so that its translation does not depend on the others of a request. No shape depends
on the batch, so that a server may join requests and split the answers along the first axis.

The signatures are small: the large pieces, which they share, are functions that are traced once.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from t2t_repro.decoding import graph_search
from t2t_repro.decoding.beam_search import Rules
from t2t_repro.decoding.pairs import BATCH_TOKENS
from t2t_repro.decoding.settings import LONGEST_INPUT, DecodeHParams
from t2t_repro.decoding.steering import SteeredModel
from t2t_repro.errors import UserError
from t2t_repro.text import graph
from t2t_repro.text.encoders import EOS_ID

STORAGES = ("float32", "float16")


def _shared(*specs: tf.TensorSpec) -> Callable[[Callable], Any]:
    """A method that is traced once, for tensors of these kinds, for all its callers."""
    return tf.function(input_signature=specs, autograph=False)


def _strings(name: str = "inputs") -> tf.TensorSpec:
    return tf.TensorSpec([None], tf.string, name)


_IDS = tf.TensorSpec([None, None], tf.int32, "inputs")
_LENGTHS = tf.TensorSpec([None], tf.int32, "lengths")


class Served:
    """What is written. B texts, S source and T target tokens, K beams, L tokens of each.

    No `tf.Module`: its functions would be traced once more, and written twice.

    Args:
        model: a `Transformer`.
        encoders: {"inputs": encoder, "targets": encoder}: of subwords or SentencePiece; None: ids
            are served, and no text.
        settings: how to decode.
        storage: the type in which the weights are kept, one of STORAGES. Whatever it is, the
            model computes with them as before, in its own types.

    Raises:
        UserError: if an encoder is of another kind, or float16 cannot hold a weight.
    """

    def __init__(
        self,
        model: keras.Model,
        encoders: dict[str, Any] | None,
        settings: DecodeHParams,
        storage: str = "float32",
    ):
        self._model, self._settings = model, settings
        greedy = settings.beam_size == 1
        self._rules = Rules(settings.beam_size, greedy, stop_early=False, per_sentence=True)
        self._vocab_size = model.inputs_embedding.vocab_size
        self._most = model.learned_positions
        limit = settings.max_input_size if settings.max_input_size > 0 else LONGEST_INPUT
        self.longest = limit if self._most is None else min(limit, self._most)
        self.weights = [_stored(variable, storage) for variable in model.variables]
        self.source: Any = encoders and graph.graph_encoder(encoders["inputs"])
        self.target: Any = self.source
        if encoders and encoders["targets"] is not encoders["inputs"]:
            self.target = graph.graph_encoder(encoders["targets"])

    @property
    def names(self) -> tuple[str, ...]:
        """What is served: `attention` only by a model that ever has its weights whole."""
        if self.source is None:
            return ("ids",)
        attention = () if self._model.hparams.attention_chunk_size else ("attention",)
        return ("text", "best", "tf_example", "score", *attention)

    def signatures(self, t2t_serving: bool = False) -> dict[str, Any]:
        """Returns the functions by the names under which they are served.

        t2t_serving: let `serving_default` be `tf_example`, as in tensor2tensor, whose clients name
            no signature; otherwise it is `text`.
        """
        served = {name: getattr(self, name).get_concrete_function() for name in self.names}
        default = "tf_example" if t2t_serving else self.names[0]
        return {"serving_default": served[default], **served}

    @_shared(_strings())
    def text(self, inputs):
        """Translates.

        Args:
            inputs: string (B,).

        Returns:
            {"outputs": string (B,), the best translations; "scores": float32 (B,), theirs;
            "beams": string (B, K), all, best first; "beam_scores": float32 (B, K)}.
        """
        ids, scores = self._search(*self._cut(*self._source_ids(inputs)))
        texts = tf.reshape(self._texts(_rows(ids)), [-1, self._rules.beam_size])
        best = {"outputs": texts[:, 0], "scores": scores[:, 0]}
        return {**best, "beams": texts, "beam_scores": scores}

    @_shared(_strings())
    def best(self, inputs):
        """As `text`, the best translations alone: {"outputs", "scores"}, in less time.

        A search ends as soon as none that it has begun can become better than the best.
        """
        ids, scores = self._search_best(*self._cut(*self._source_ids(inputs)))
        return {"outputs": self._texts(ids[:, 0]), "scores": scores[:, 0]}

    @_shared(_strings("input"))
    def tf_example(self, examples):
        """tensor2tensor's own, as its serving/export.py writes and serving_utils.py asks.

        Args:
            examples: string (B,), each a serialized tf.Example with int64 "inputs", the last 1.

        Returns:
            {"outputs": int32 (B, L), the best ids, padded with 0; "scores": float32 (B,)}.
        """
        parsed = tf.io.parse_example(examples, {"inputs": tf.io.RaggedFeature(tf.int64)})
        return self.ids(tf.cast(self._known(parsed["inputs"].to_tensor()), tf.int32))

    @_shared(_IDS)
    def ids(self, inputs):
        """As `tf_example`, of int32 (B, S), each row ended by 1 and padded with 0."""
        ids, scores = self._search_best(*self._cut(self._known(inputs), _lengths(inputs)))
        return {"outputs": ids[:, 0], "scores": scores[:, 0]}

    @_shared(_strings(), _strings("targets"))
    def score(self, inputs, targets):
        """Returns the model's probabilities of translations.

        Args:
            inputs: string (B,), the sources.
            targets: string (B,), their translations.

        Returns:
            {"log_probs": float32 (B,), the sum over the tokens; "tokens": int32 (B,), how many, the
            end included; "mean_negative_log_likelihoods": float32 (B,), what tensor2tensor calls
            the score; "token_log_probs": float32 (B, T), those of each token, padded with 0}.
        """
        sources, targets, lengths = self._pairs(inputs, targets)
        of_tokens = self._by_blocks(self._log_probs, sources, targets, tf.TensorSpec([None, None]))
        sums = tf.reduce_sum(of_tokens, axis=1)
        return {
            "log_probs": sums,
            "tokens": lengths,
            "mean_negative_log_likelihoods": -sums / tf.cast(lengths, tf.float32),
            "token_log_probs": of_tokens,
        }

    @_shared(_strings(), _strings("targets"))
    def attention(self, inputs, targets):
        """Returns the attention to source tokens for each token of a translation.

        Args:
            inputs: string (B,), the sources.
            targets: string (B,), a translation of each.

        Returns:
            {"source_tokens": string (B, S); "target_tokens": string (B, T); "attention": float32
            (B, T, S)}. The tokens are as the vocabulary spells them (a `_` ends a word), the last
            is its id 1, `<EOS>_`, and "" pads. attention[b, t, s] is the weight that the last
            decoder layer's attention to the encoder gives source token s where it predicts target
            token t, the mean over the heads: a row sums to 1 over the source's tokens, its end
            included, and what stands at padding, of the source or of the target, is 0.

        Raises:
            InvalidArgumentError: if there are not as many targets as inputs, or one is of more than
                `longest` tokens.
        """
        sources, targets, _ = self._pairs(inputs, targets)
        spec = tf.TensorSpec([None, None, None])
        weights = self._by_blocks(self._encdec_weights, sources, targets, spec)
        return {
            "source_tokens": self.source.subtokens(sources),
            "target_tokens": self.target.subtokens(targets),
            "attention": weights,
        }

    # --- from texts or ids to what the model takes ----------------------------------------------

    @_shared(_strings())
    def tokens(self, texts):
        """Returns the lengths int32 (B,) of texts (B,) in tokens, ends included, uncut.

        This and the next one are no signatures, but functions of what `tf.saved_model.load` gives.
        """
        return self._source_ids(texts)[1]

    @_shared(_strings())
    def target_tokens(self, texts):
        """As `tokens`, of translations, which may have a vocabulary of their own."""
        return self._target_ids(texts)[1]

    @_shared(_strings())
    def _source_ids(self, texts):
        return self._encode(self.source, texts)

    @_shared(_strings())
    def _target_ids(self, texts):
        return self._encode(self.target, texts)

    def _encode(self, subwords, texts):
        """Ids int32 (B, S) of strings (B,), each with its end, padded with 0; their lengths (B,).

        Those of more than `longest` tokens are cut, less their end: their length is what they had.
        """
        end = tf.fill([tf.shape(texts)[0], 1], EOS_ID)
        ids = tf.concat([subwords.encode(graph.strip(texts)), end], axis=1)
        return ids[:, : self.longest].to_tensor(), tf.cast(ids.row_lengths(), tf.int32)

    def _known(self, ids):
        known = (ids >= 0) & (ids < self._vocab_size)
        return _expect(known, f"Expected ids from 0 to {self._vocab_size - 1}.", ids, ids)

    def _cut(self, ids, lengths):
        """The ids (B, S) of at most the longest input; what is cut gets its end."""
        ids = ids[:, : self.longest]
        last = tf.range(tf.shape(ids)[1]) == self.longest - 1
        ids = tf.where((lengths > self.longest)[:, None] & last, EOS_ID, ids)
        return ids, tf.minimum(lengths, self.longest)

    def _pairs(self, inputs, targets):
        """Ids (B, S) of sources and (B, T) of targets, none of which is cut; (B,), the latters'."""
        sizes = tf.stack([tf.size(inputs), tf.size(targets)])
        message = "Expected equally many inputs and targets."
        inputs = _expect(sizes[0] == sizes[1], message, sizes, inputs)
        sources, source_lengths = self._source_ids(inputs)
        ids, lengths = self._target_ids(targets)
        message = f"Expected texts of at most {self.longest} tokens, the end token included."
        for of_side in (source_lengths, lengths):
            sources = _expect(of_side <= self.longest, message, of_side, sources)
        return sources, ids, lengths

    # --- what the model does --------------------------------------------------------------------

    def _weights(self) -> keras.StatelessScope:
        """Where the model computes with the stored weights: read, and cast, once."""
        pairs = zip(self._model.variables, self.weights, strict=True)
        read = [(own, tf.cast(tf.convert_to_tensor(kept), own.dtype)) for own, kept in pairs]
        return keras.StatelessScope(read)

    @_shared(_IDS, _LENGTHS)
    def _search(self, inputs, lengths):
        """ids (B, K, L) and scores (B, K) of the beams; L is the longest hypothesis."""
        return self._searched(self._rules, inputs, lengths)

    @_shared(_IDS, _LENGTHS)
    def _search_best(self, inputs, lengths):
        """As `_search`, of which the first beam counts."""
        if self._rules.greedy:  # there is no other
            return self._search(inputs, lengths)
        rules = dataclasses.replace(self._rules, stop_early=True)
        ids, scores = self._searched(rules, inputs, lengths)
        return ids[:, :1], scores[:, :1]

    def _searched(self, rules: Rules, inputs, lengths):
        limits = lengths + self._settings.extra_length
        alpha = tf.constant(self._settings.alpha, tf.float32)
        if self._most is not None:
            limits = tf.minimum(limits, self._most)
        # An empty text has an empty translation.
        limits = tf.where(tf.reduce_any(inputs > EOS_ID, axis=1), limits, 0)
        with self._weights():
            model = SteeredModel(self._model)
            ids, scores, _ = graph_search.search(model, inputs, limits, alpha, rules)
        longest = tf.reduce_max(tf.concat([_lengths(_rows(ids)), [0]], 0))
        return ids[:, :, :longest], scores

    def _by_blocks(self, of_block: Callable, inputs, targets, spec: tf.TensorSpec):
        """of_block(inputs, targets), a few rows at a time: logits and attention are large."""
        batch = tf.shape(inputs)[0]
        longest = tf.maximum(tf.shape(inputs)[1], tf.shape(targets)[1])
        rows = tf.clip_by_value(BATCH_TOKENS // tf.maximum(longest, 1), 1, tf.maximum(batch, 1))
        blocks = tf.maximum(-(-batch // rows), 1)  # `map_fn` must see one to know what it gives

        def in_blocks(ids):
            padded = tf.pad(ids, [[0, blocks * rows - batch], [0, 0]])
            return tf.reshape(padded, [blocks, rows, tf.shape(ids)[1]])

        with self._weights():
            values = tf.map_fn(
                lambda pair: of_block(*pair),
                (in_blocks(inputs), in_blocks(targets)),
                parallel_iterations=1,
                fn_output_signature=spec,
            )
        return tf.reshape(values, tf.concat([[-1], tf.shape(values)[2:]], 0))[:batch]

    def _log_probs(self, inputs, targets):
        """The log-probability (B, T) of each of the ids `targets`, 0 at padding."""
        logits = self._model({"inputs": inputs, "targets": targets}, training=False)
        logits = tf.cast(logits, tf.float32)
        log_probs = tf.gather(logits, targets, batch_dims=2) - tf.reduce_logsumexp(logits, axis=2)
        return tf.where(targets != 0, log_probs, 0.0)

    def _encdec_weights(self, inputs, targets):
        """The weights (B, T, S) that `attention` gives."""
        model = self._model
        weights = model.attention_weights({"inputs": inputs, "targets": targets})
        last = weights[f"decoder/layer_{len(model.decoder.layers) - 1}/encdec_attention"]
        both = (targets != 0)[:, :, None] & (inputs != 0)[:, None, :]
        return tf.where(both, tf.reduce_mean(last, axis=1), 0.0)

    @_shared(_IDS)
    def _texts(self, ids):
        """The strings (N,) of ids (N, L)."""
        return graph.one_line(self.target.decode(_tokens(ids)))


def _stored(variable: keras.Variable, storage: str) -> tf.Variable:
    """What is kept of a variable of the model: the same one, or a copy in `storage`."""
    if storage == "float32" or not variable.value.dtype.is_floating:
        return variable.value
    smaller = tf.cast(variable.value, storage)
    if not tf.reduce_all(tf.math.is_finite(smaller)):
        largest = float(tf.reduce_max(tf.abs(variable.value)))
        raise UserError(
            f"Expected weights of at most {smaller.dtype.max}, the range of {storage}. Received: "
            f"{largest:g} in {variable.path}. Remove --quantize."
        )
    return tf.Variable(smaller, trainable=False, name=variable.name)


def _expect(right: tf.Tensor, message: str, received: tf.Tensor, then: tf.Tensor) -> tf.Tensor:
    """`then`, if all is right; if not, the request is refused: InvalidArgument, HTTP's 400."""
    check = tf.debugging.Assert(tf.reduce_all(right), [f"{message} Received:", received])
    with tf.control_dependencies([check]):
        return tf.identity(then)


def _lengths(ids: tf.Tensor) -> tf.Tensor:
    """int32 (B,): how many ids of (B, L) there are before the padding."""
    ends = tf.where(ids != 0, tf.range(1, tf.shape(ids)[1] + 1), 0)
    return tf.reduce_max(tf.pad(ends, [[0, 0], [1, 0]]), axis=1)


def _rows(beams: tf.Tensor) -> tf.Tensor:
    """(B, K, L) -> (B * K, L)."""
    batch, count, length = tf.unstack(tf.shape(beams))
    return tf.reshape(beams, [batch * count, length])


def _tokens(ids: tf.Tensor) -> tf.RaggedTensor:
    """The ids (N, L) before the end; where there is none, without the padding behind them."""
    ended = tf.cumsum(tf.cast(ids == EOS_ID, tf.int32), axis=1) > 0
    full = tf.reduce_sum(tf.cast(~ended, tf.int32), axis=1)
    any_end = tf.reduce_any(ended, axis=1)
    return tf.RaggedTensor.from_tensor(ids, tf.where(any_end, full, _lengths(ids)))
