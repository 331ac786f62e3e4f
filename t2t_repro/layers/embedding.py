"""The table of symbol vectors: embedding at the bottom of the model, logits at its top."""

from keras import initializers, ops

from t2t_repro.layers.cross_entropy import tied_cross_entropy
from t2t_repro.layers.initialization import FusedVariable
from t2t_repro.layers.layer import Layer


class SymbolEmbedding(Layer):
    """A (V, D) table, as T2T's layers/modalities.py, symbol_bottom and symbol_top.

    Args:
        vocab_size: V.
        hidden_size: D.
        num_shards: into how many variables T2T splits the table.
        scale: multiplies the looked-up vectors; sqrt(D) in the paper (section 3.4).
    """

    def __init__(
        self, vocab_size: int, hidden_size: int, num_shards: int = 1, scale: float = 1.0, **kwargs
    ):
        super().__init__(**kwargs)
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.num_shards = num_shards
        self.scale = scale

    def build(self, input_shape=None):
        small, larger = divmod(self.vocab_size, self.num_shards)
        self.embeddings = FusedVariable(
            initializers.RandomNormal(0.0, self.hidden_size**-0.5),
            (self.vocab_size, self.hidden_size),
            self.variable_dtype,
            name="embeddings",
            axis=0,
            sizes=[small + (i < larger) for i in range(self.num_shards)],
        )

    def call(self, ids):
        """Maps int32 (B, T) to (B, T, D); id 0 (padding) becomes the zero vector."""
        x = ops.take(ops.cast(self.embeddings, self.compute_dtype), ids, axis=0)
        return x * ops.cast(ops.where(ids == 0, 0.0, self.scale), x.dtype)[..., None]

    def transposed(self):
        """Returns the table as (D, V)."""
        return ops.transpose(ops.cast(self.embeddings, self.compute_dtype))

    def logits(self, x, transposed=None):
        """Maps (..., D) to float32 (..., V): the product with each row of the table.

        transposed: what `transposed` returned. Whoever has many small products with one table
            spares them a third of their time on CPUs.
        """
        x = ops.cast(x, self.compute_dtype)
        flat = ops.reshape(x, (-1, self.hidden_size))
        # (B * T, D) x (D, V) -> (B * T, V)
        table = self.transposed() if transposed is None else transposed
        logits = ops.cast(ops.matmul(flat, table), "float32")
        return ops.reshape(logits, (*ops.shape(x)[:-1], self.vocab_size))

    def cross_entropy(self, x, labels, label_smoothing: float = 0.0, sample_weight=None):
        """Returns `tied_cross_entropy` of x (B, T, D), labels int32 (B, T) and the table."""
        x = ops.cast(x, self.compute_dtype)
        table = ops.cast(self.embeddings, self.compute_dtype)
        return tied_cross_entropy(x, table, labels, label_smoothing, sample_weight)


class TargetSpaceEmbedding(Layer):
    """Adds to every input position the vector of the kind of target asked for.

    As T2T's layers/transformer_layers.py, transformer_prepare_encoder: 32 kinds at most.

    Args:
        target_space_id: which kind (problem.SpaceID).
        embeddings_initializer: of the (32, D) table.
    """

    NUM_SPACES = 32

    def __init__(self, target_space_id: int, embeddings_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.target_space_id = target_space_id
        self.embeddings_initializer = initializers.get(embeddings_initializer)

    def build(self, input_shape):
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.NUM_SPACES, input_shape[-1]),
            initializer=self.embeddings_initializer,
        )

    def call(self, x):
        """Maps (B, S, D) to (B, S, D)."""
        return x + ops.cast(self.embeddings[self.target_space_id], x.dtype)
