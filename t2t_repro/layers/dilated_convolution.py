"""Convolutions over positions, dilated so that few layers see far: what ByteNet is made of.

As tensor2tensor's models/bytenet.py and the conv_block of its layers/common_layers.py.
"""

from keras import initializers, ops

from t2t_repro.layers.layer import Dropout, Layer, build_all, cloned
from t2t_repro.layers.norms import LayerNorm


class DilatedConvolution(Layer):
    """Each position's sum of products with `width` positions, `dilation` apart; no bias.

    Its `kernel` is (width, D, F); beyond the ends are zeros.

    Args:
        filters: F.
        width: how many positions are seen; odd.
        dilation: how far they lie apart.
        causal: whether they lie at the position and before it, or around it.
        kernel_initializer: of the kernel.
    """

    def __init__(
        self,
        filters: int,
        width: int = 3,
        dilation: int = 1,
        causal: bool = False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.width = width
        self.dilation = dilation
        self.causal = causal
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        shape, initializer = (self.width, input_shape[-1], self.filters), self.kernel_initializer
        self.kernel = self.add_weight(name="kernel", shape=shape, initializer=initializer)

    def call(self, x):
        """Maps (B, T, D) to (B, T, F)."""
        length, far = ops.shape(x)[1], (self.width - 1) * self.dilation
        before = far if self.causal else far // 2
        x = ops.pad(x, [(0, 0), (before, far - before), (0, 0)])
        seen = (x[:, start : start + length] for start in range(0, far + 1, self.dilation))
        return sum(ops.matmul(part, self.kernel[i]) for i, part in enumerate(seen))


class ConvolutionBlock(Layer):
    """relu, convolution and layer normalization, once for each dilation.

    Args:
        filters: F.
        dilations: of each convolution.
        width, causal, kernel_initializer: as `DilatedConvolution`'s.
    """

    def __init__(
        self,
        filters: int,
        dilations: tuple[int, ...] = (1,),
        width: int = 3,
        causal: bool = False,
        kernel_initializer="glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.filters = filters
        self.dilations = tuple(dilations)
        self.width = width
        self.causal = causal
        self.kernel_initializer = initializers.get(kernel_initializer)
        policy = self.dtype_policy
        self.convolutions = [
            DilatedConvolution(
                filters,
                width,
                dilation,
                causal,
                cloned(self.kernel_initializer),
                dtype=policy,
                name=f"conv_{i}",
            )
            for i, dilation in enumerate(self.dilations)
        ]
        self.norms = [LayerNorm(dtype=policy, name=f"norm_{i}") for i in range(len(self.dilations))]

    def build(self, input_shape):
        build_all(self.convolutions[:1], input_shape)
        build_all((*self.convolutions, *self.norms), (*input_shape[:-1], self.filters))

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.filters)

    def call(self, x, training=False):
        """Maps (B, T, D) to (B, T, F)."""
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = norm(convolution(ops.relu(x)), training=training)
        return x


class ResidualConvolutions(Layer):
    """Stacked blocks, each over its normalized input and with a residual.

    Args:
        blocks: which keep the width.
        dropout: rate, of what a block adds.
    """

    def __init__(self, blocks: list[ConvolutionBlock], dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.blocks = tuple(blocks)
        self.dropout = dropout
        policy, count = self.dtype_policy, range(len(self.blocks))
        self.norms = [LayerNorm(dtype=policy, name=f"norm_{i}") for i in count]
        self.drops = [Dropout(dropout, dtype=policy, name=f"dropout_{i}") for i in count]

    def build(self, input_shape):
        build_all((*self.norms, *self.blocks, *self.drops), input_shape)

    def call(self, x, training=False):
        """Maps (B, T, D) to (B, T, D)."""
        for norm, block, drop in zip(self.norms, self.blocks, self.drops, strict=True):
            y = block(norm(x, training=training), training=training)
            x = x + drop(y, training=training)
        return x
