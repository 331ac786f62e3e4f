"""How well a query matches a key: the logits of attention, before softmax.

    scaled_dot_product   q k / sqrt(H)         (paper, 3.2.1)
    dot_product          q k                   (Luong et al. 2015)
    multiplicative       q W k                 (Luong et al. 2015, "general")
    additive             v tanh(W q + U k)     (Bahdanau et al. 2015)

Every head has its own W, U (H, H) and v (H). What a score makes of the keys alone is made once, and
is what caches of step-by-step decoding hold.
"""

from typing import Any

import keras
from keras import initializers, ops

from t2t_repro.layers.layer import Layer, fused_kernel

Variables = list[Any]


class AttentionScore(Layer):
    """What the scores share; alone it is the dot product.

    Args:
        kernel_initializer: of each head's matrices.
    """

    def __init__(self, kernel_initializer="glorot_uniform", **kwargs):
        kwargs.setdefault("name", "score")
        super().__init__(**kwargs)
        self.kernel_initializer = initializers.get(kernel_initializer)

    def new_kernel(self, name: str, heads: int, rows: int, columns: int):
        """Returns a new (rows, heads * columns), each head's initialised as a matrix of its own."""
        return fused_kernel(
            name, self.kernel_initializer, rows, (columns,) * heads, self.variable_dtype
        )

    def through(self, x, kernel):
        """(B, N, T, H) times each head's matrix of `kernel` (H, N * H): (B, N, T, H)."""
        _, heads, _, size = x.shape
        # (H, N * H) -> (H, N, H)
        kernel = ops.reshape(ops.cast(kernel, x.dtype), (size, heads, size))
        return ops.einsum("bnth,hnk->bntk", x, kernel)

    def queries(self, queries):
        """Returns what the score makes of the queries alone: (B, N, T, H)."""
        return queries

    def keys(self, keys):
        """Returns what the score makes of the keys alone: (B, N, S, H)."""
        return keys

    def score_weights(self) -> Variables:
        """Returns the variables that `pairs` needs."""
        return []

    def call(self, queries, keys):
        """Returns the logits (B, N, T, S) of what `queries` and `keys` returned."""
        return self.pairs(queries, keys, self.score_weights())

    def pairs(self, queries, keys, variables: Variables):
        """Returns the logits (B, N, T, S)."""
        return ops.matmul(queries, ops.transpose(keys, (0, 1, 3, 2)))

    def gradients(self, queries, keys, variables: Variables, upstream):
        """Returns the gradients of `pairs`: of queries, of keys and of each variable.

        For attention in blocks, which makes the logits again when it needs them.

        Args:
            queries, keys, variables: what `pairs` received.
            upstream: (B, N, T, S), the gradient of the logits.
        """
        of_queries = ops.matmul(upstream, keys)
        return of_queries, ops.matmul(ops.transpose(upstream, (0, 1, 3, 2)), queries), []


class DotProduct(AttentionScore):
    """q k: T2T's, where its variables are attention_variables_3d."""

    def build(self, input_shape):
        self.built = True


class ScaledDotProduct(DotProduct):
    """q k / sqrt(H): the logits have the variance of one component of queries and keys."""

    def queries(self, queries):
        return queries * queries.shape[-1] ** -0.5


class Multiplicative(AttentionScore):
    """q W k."""

    def build(self, input_shape):
        _, heads, _, size = input_shape
        self.query_kernel = self.new_kernel("query_kernel", heads, size, size)

    def queries(self, queries):
        return self.through(queries, self.query_kernel)


class Additive(AttentionScore):
    """v tanh(W q + U k); before the product with v it holds (B, N, T, S, H)."""

    def build(self, input_shape):
        _, heads, _, size = input_shape
        self.query_kernel = self.new_kernel("query_kernel", heads, size, size)
        self.key_kernel = self.new_kernel("key_kernel", heads, size, size)
        self.vector = self.new_kernel("vector", heads, size, 1)  # (H, N)

    def queries(self, queries):
        return self.through(queries, self.query_kernel)

    def keys(self, keys):
        return self.through(keys, self.key_kernel)

    def score_weights(self):
        return [ops.copy(self.vector)]  # a tensor: no gradient of our own may see a variable

    def pairs(self, queries, keys, variables):
        vector = ops.cast(variables[0], queries.dtype)
        return ops.einsum("bntsh,hn->bnts", self._hidden(queries, keys), vector)

    def gradients(self, queries, keys, variables, upstream):
        vector = ops.cast(variables[0], queries.dtype)
        hidden = self._hidden(queries, keys)
        of_vector = ops.einsum("bnts,bntsh->hn", upstream, hidden)
        inner = ops.einsum("bnts,hn->bntsh", upstream, vector) * (1 - ops.square(hidden))
        return ops.sum(inner, axis=3), ops.sum(inner, axis=2), [of_vector]

    def _hidden(self, queries, keys):
        # (B, N, T, 1, H) + (B, N, 1, S, H) -> (B, N, T, S, H)
        return ops.tanh(queries[:, :, :, None] + keys[:, :, None])


SCORES: dict[str, type[AttentionScore]] = {
    "scaled_dot_product": ScaledDotProduct,
    "dot_product": DotProduct,
    "multiplicative": Multiplicative,
    "additive": Additive,
}


def get(score: Any, kernel_initializer="glorot_uniform", dtype=None) -> AttentionScore:
    """Returns a score as a layer, as keras.initializers.get does for its kind.

    Args:
        score: a name of SCORES, a score, or what serialize_keras_object made of one.
        kernel_initializer, dtype: of a score that is made from its name.
    """
    if isinstance(score, dict):
        return keras.saving.deserialize_keras_object(score)
    if isinstance(score, AttentionScore):
        return score
    return SCORES[score](initializers.get(kernel_initializer), dtype=dtype)
