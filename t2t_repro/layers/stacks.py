"""Encoder and decoder: the same three lines for every sublayer, post-norm and pre-norm alike."""

from collections.abc import Sequence

import keras
from keras import ops

from t2t_repro.layers.attention import CAUSAL, EVERYWHERE, Mask
from t2t_repro.layers.layer import Layer, build_all
from t2t_repro.layers.prepostprocess import PrePostProcess


class Sublayer(Layer):
    """postprocess(x, layer(preprocess(x))), as T2T wraps every sublayer.

    Args:
        layer: attention or feed-forward.
        preprocess: what happens to its inputs.
        postprocess: what happens to its outputs; "a" in its sequence adds x.
    """

    def __init__(
        self,
        layer: keras.layers.Layer,
        preprocess: PrePostProcess,
        postprocess: PrePostProcess,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layer = layer
        self.preprocess = preprocess
        self.postprocess = postprocess

    def build(self, x_shape, memory_shape=None):
        build_all((self.preprocess,), x_shape)
        build_all((self.layer,), x_shape, memory_shape)
        build_all((self.postprocess,), x_shape)

    def call(self, x, training=False, memory=None, **arguments):
        """Maps (B, T, D) to ((B, T, D), weights); weights is None for a feed-forward sublayer."""
        if memory is not None:
            arguments["memory"] = memory
        y = self.layer(self.preprocess(x, training=training), training=training, **arguments)
        y, weights = y if isinstance(y, tuple) else (y, None)
        return self.postprocess(y, previous=x, training=training), weights

    def step(self, x, *arguments):
        """Makes one decoding step of an attention sublayer, without dropout: (outputs, cache or
        None)."""
        y = self.layer.step(self.preprocess(x), *arguments)
        y, cache = y if isinstance(y, tuple) else (y, None)
        return self.postprocess(y, previous=x), cache


class EncoderSublayers(Layer):
    """One layer of the encoder: self-attention, then feed-forward."""

    def __init__(self, self_attention: Sublayer, ffn: Sublayer, **kwargs):
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.ffn = ffn

    def build(self, input_shape):
        build_all((self.self_attention, self.ffn), input_shape)

    def call(self, x, real=None, attention_mask: Mask = EVERYWHERE, training=False):
        """Maps (B, S, D) to ((B, S, D), {"self_attention": weights})."""
        x, weights = self.self_attention(x, attention_mask=attention_mask, training=training)
        x, _ = self.ffn(x, real=real, training=training)
        return x, {"self_attention": weights}


class DecoderSublayers(Layer):
    """One layer of the decoder: self-attention, attention to memory, then feed-forward."""

    def __init__(
        self, self_attention: Sublayer, encdec_attention: Sublayer, ffn: Sublayer, **kwargs
    ):
        super().__init__(**kwargs)
        self.self_attention = self_attention
        self.encdec_attention = encdec_attention
        self.ffn = ffn

    def build(self, x_shape, memory_shape=None):
        build_all((self.self_attention,), x_shape)
        build_all((self.encdec_attention,), x_shape, memory_shape)
        build_all((self.ffn,), x_shape)

    def call(
        self,
        x,
        attention_mask: Mask = CAUSAL,
        memory=None,
        memory_mask: Mask = EVERYWHERE,
        training=False,
    ):
        """Maps (B, T, D) to ((B, T, D), {"self_attention": ..., "encdec_attention": ...}).

        Args:
            x: (B, T, D).
            attention_mask: of the self-attention.
            memory: (B, S, D).
            memory_mask: of the attention to memory.
        """
        x, own = self.self_attention(x, attention_mask=attention_mask, training=training)
        x, cross = self.encdec_attention(
            x, memory=memory, attention_mask=memory_mask, training=training
        )
        x, _ = self.ffn(x, training=training)
        return x, {"self_attention": own, "encdec_attention": cross}

    def step(self, x, cache, step, mask, heads, memory_mask):
        """Makes one decoding step of all beams: (B, K, D) to ((B, K, D), cache)."""
        x, cache = self.self_attention.step(x, cache, step, mask)
        x, _ = self.encdec_attention.step(x, heads, memory_mask)
        x, _ = self.ffn(x)
        return x, cache


class Stack(Layer):
    """Stacked layers, and a last preprocess.

    Pre-norm sums unnormalized outputs, which grow with depth, so that T2T preprocesses the last sum
    too. Under post-norm its sequence is "none" and it does nothing.

    Args:
        layers: EncoderSublayers or DecoderSublayers.
        preprocess: applied to the last output.
        layerdrop: the probability with which a training step leaves out a layer, each drawn by
            itself; its input is then its output, and nothing is scaled. LayerDrop (Fan et al. 2019,
            https://arxiv.org/abs/1909.11556); a dropped layer is computed all the same.
    """

    def __init__(
        self,
        layers: Sequence[keras.layers.Layer],
        preprocess: PrePostProcess,
        layerdrop: float = 0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.layerdrop = layerdrop
        if layerdrop:  # one that is not read would change the seeds of those made after it
            self.layerdrop_seed = keras.random.SeedGenerator()
        self.layers = tuple(layers)
        self.preprocess = preprocess

    def build(self, input_shape):
        build_all((*self.layers, self.preprocess), input_shape)

    def call(self, x, training=False, **arguments):
        """Maps (B, T, D) to ((B, T, D), {"layer_0/self_attention": weights, ...})."""
        weights = {}
        for i, layer in enumerate(self.layers):
            y, own = layer(x, training=training, **arguments)
            if training and self.layerdrop:
                kept = keras.random.uniform((), seed=self.layerdrop_seed) >= self.layerdrop
                y = ops.where(kept, y, x)
            x = y
            weights.update({f"layer_{i}/{name}": value for name, value in own.items()})
        return self.preprocess(x, training=training), weights
