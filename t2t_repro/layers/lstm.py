"""Long short-term memory (Hochreiter & Schmidhuber 1997), and attention to what it has read.

As TensorFlow 1's LSTMCell and AttentionWrapper, of which tensor2tensor's models/lstm.py is made. A
state is {"c", "h"}, each (B, K, H): K beams that are written at once, 1 in training.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import initializers, ops

from t2t_repro.layers.kernels import gather_beams
from t2t_repro.layers.layer import Dropout, Layer, build_all, cloned

State = Any  # a tree of tensors (B, K, ...)


class LSTM(Layer):
    """One layer: its gates depend on its input and on its last output.

    Variables are T2T's: `kernel` (D + H, 4 H), of inputs and state, for the input gate, the new
    input, the forget gate and the output gate; and `bias` (4 H,). 1 is added to the forget gate.

    Args:
        units: H.
        kernel_initializer: of the kernel.
    """

    def __init__(self, units: int, kernel_initializer="glorot_uniform", **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        shape = (input_shape[-1] + self.units, 4 * self.units)
        self.kernel = self.add_weight(
            name="kernel", shape=shape, initializer=self.kernel_initializer
        )
        self.bias = self.add_weight(name="bias", shape=shape[1:], initializer="zeros")

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)

    def initial_state(self, batch, beams) -> State:
        """Returns the state before any input."""
        zeros = ops.zeros((batch, beams, self.units), dtype=self.compute_dtype)
        return {"c": zeros, "h": zeros}

    def of_inputs(self, x):
        """Returns the inputs' part of the gates: (..., D) to (..., 4 H)."""
        kernel, bias = (ops.cast(each, x.dtype) for each in (self.kernel, self.bias))
        return ops.matmul(x, kernel[: -self.units]) + bias

    def step(self, gates, state: State) -> State:
        """Returns the next state, given the inputs' part of the gates (B, K, 4 H)."""
        kernel = ops.cast(self.kernel, state["h"].dtype)  # a search calls it from outside of `call`
        gates = gates + ops.matmul(state["h"], kernel[-self.units :])
        i, j, f, o = ops.split(gates, 4, axis=-1)  # TensorFlow 1's order
        c = state["c"] * ops.sigmoid(f + 1.0) + ops.sigmoid(i) * ops.tanh(j)
        return {"c": c, "h": ops.sigmoid(o) * ops.tanh(c)}

    def call(self, x, real, state: State):
        """Reads (B, T, D); returns (outputs (B, T, H), 0 behind the end; the last state).

        Args:
            x: (B, T, D).
            real: bool (B, T), True up to the end.
            state: to begin with.
        """
        states, last = scan(self.step, state, self.of_inputs(x), real)
        return states["h"], last


class LSTMStack(Layer):
    """Stacked LSTMs, with dropout before each.

    Args:
        layers: the LSTMs.
        dropout: rate.
    """

    def __init__(self, layers: Sequence[LSTM], dropout: float = 0.0, **kwargs):
        super().__init__(**kwargs)
        self.layers = tuple(layers)
        self.dropout = dropout
        self.drops = [
            Dropout(dropout, dtype=self.dtype_policy, name=f"dropout_{i}")
            for i in range(len(self.layers))
        ]

    def build(self, input_shape):
        for layer, drop in zip(self.layers, self.drops, strict=True):
            build_all([drop, layer], input_shape)
            input_shape = (*input_shape[:-1], layer.units)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.layers[-1].units)

    def call(self, x, real, states: Sequence[State] | None = None, training=False):
        """Reads (B, T, D); returns (outputs of the last, the last states of all): see `LSTM`."""
        last = []
        states = states or self.initial_states(ops.shape(x)[0], 1)
        for layer, drop, state in zip(self.layers, self.drops, states, strict=True):
            x, state = layer(drop(x, training=training), real, state)
            last.append(state)
        return x, last

    def initial_states(self, batch, beams) -> list[State]:
        """Returns the states before any input."""
        return [layer.initial_state(batch, beams) for layer in self.layers]

    def step(self, x, states: Sequence[State], masks=None) -> list[State]:
        """Returns the next states, given the input (B, K, D).

        masks: what multiplies each layer's inputs, of the shape of these; None: nothing.
        """
        after = []
        for i, (layer, state) in enumerate(zip(self.layers, states, strict=True)):
            x = x if masks is None else x * masks[i]
            after.append(layer.step(layer.of_inputs(x), state))
            x = after[-1]["h"]
        return after


class BidirectionalLSTM(Layer):
    """A stack that reads forwards beside one that reads backwards.

    Args:
        forward: one stack.
        backward: the other.
    """

    def __init__(self, forward: LSTMStack, backward: LSTMStack, **kwargs):
        super().__init__(**kwargs)
        self.forward = forward
        self.backward = backward

    def build(self, input_shape):
        build_all((self.forward, self.backward), input_shape)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], 2 * self.forward.layers[-1].units)

    def call(self, x, real, training=False):
        """Reads (B, T, D); returns outputs (B, T, 2 H) and states with both sides in each."""
        ahead, states = self.forward(x, real, training=training)
        back, others = self.backward(reverse(x, real), real, training=training)
        outputs = ops.concatenate([ahead, reverse(back, real)], axis=-1)
        both = [
            keras.tree.map_structure(lambda a, b: ops.concatenate([a, b], axis=-1), *pair)
            for pair in zip(states, others, strict=True)
        ]
        return outputs, both


class LuongScore(Layer):
    """query . (W memory) (Luong, Pham & Manning 2015), with `memory_kernel` (M, units).

    All heads have this one score.

    Args:
        units: the width of queries.
        num_heads: N.
        kernel_initializer: of all that is learned.
    """

    def __init__(
        self, units: int, num_heads: int = 1, kernel_initializer="glorot_uniform", **kwargs
    ):
        super().__init__(**kwargs)
        self.units = units
        self.num_heads = num_heads
        self.kernel_initializer = initializers.get(kernel_initializer)

    def build(self, input_shape):
        self.memory_kernel = self._new("memory_kernel", (input_shape[-1], self.units))

    def keys(self, memory):
        """Maps (B, S, M) to (B, S, units)."""
        return ops.matmul(memory, ops.cast(self.memory_kernel, memory.dtype))

    def call(self, query, keys):
        """Maps queries (B, K, units) and keys to scores (B, K, N, S)."""
        scores = ops.einsum("bku,bsu->bks", query, keys)
        return ops.repeat(scores[:, :, None], self.num_heads, axis=2)

    def _new(self, name: str, shape: tuple[int, ...]):
        initializer = cloned(self.kernel_initializer)
        return self.add_weight(name=name, shape=shape, initializer=initializer)


class BahdanauScore(LuongScore):
    """v . tanh(W memory + U query) (Bahdanau, Cho & Bengio 2014), which the paper calls additive.

    Beside `memory_kernel` there are `query_kernel` (units, units) and `attention_v` (N units,),
    whose parts are the v of each head; the kernels are those of all.
    """

    def build(self, input_shape):
        super().build(input_shape)
        self.query_kernel = self._new("query_kernel", (self.units, self.units))
        self.attention_v = self.fused_kernel("attention_v", [], [self.units] * self.num_heads)

    def call(self, query, keys):
        sums = ops.tanh(keys[:, None] + ops.matmul(query, self.query_kernel)[:, :, None])
        v = ops.reshape(self.attention_v, (self.num_heads, self.units))
        return ops.einsum("bksu,nu->bkns", sums, v)


SCORES: dict[str, type[LuongScore]] = {"bahdanau": BahdanauScore, "luong": LuongScore}


class AttentionLSTM(Layer):
    """A stack of LSTMs that attends to a memory after each step, and reads the result at the next.

    Its first layer reads the input and, beside it, the attention of the step before: of each head
    W [output; weighted sum of the memory]. As T2T, they look at the padding of the memory too,
    which is 0.

    Args:
        stack: the LSTMs.
        score: of their outputs and the memory; it knows how many heads there are.
        attention_size: the width of each head's attention.
        output_attention: whether the attention is the output, or that of the last LSTM.
    """

    def __init__(
        self,
        stack: LSTMStack,
        score: LuongScore,
        attention_size: int,
        output_attention: bool = True,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.stack = stack
        self.score = score
        self.attention_size = attention_size
        self.output_attention = output_attention

    def build(self, input_shape, memory_shape):
        *batch, depth = input_shape
        sizes = [self.attention_size] * self.score.num_heads
        build_all([self.stack], (*batch, depth + sum(sizes)))
        build_all([self.score], memory_shape)
        rows = self.score.units + memory_shape[-1]
        self.kernel_initializer = self.score.kernel_initializer
        self.kernel = self.fused_kernel("kernel", [rows], sizes)

    def compute_output_shape(self, input_shape, memory_shape=None):
        width = self.score.num_heads * self.attention_size
        return (*input_shape[:-1], width if self.output_attention else self.score.units)

    def initial_state(self, states: Sequence[State]) -> State:
        """Returns the state of these LSTMs' states before any attention."""
        batch, beams = ops.shape(states[0]["h"])[:2]
        width = self.score.num_heads * self.attention_size
        seen = ops.zeros((batch, beams, width), dtype=self.compute_dtype)
        return {"cells": list(states), "attention": seen}

    def step(self, x, state: State, keys, memory, masks=None) -> State:
        """Returns the next state, given the input (B, K, D); `masks` as `LSTMStack.step`'s."""
        x = ops.concatenate([x, state["attention"]], axis=-1)
        cells = self.stack.step(x, state["cells"], masks)
        query = cells[-1]["h"]
        weights = ops.softmax(self.score(query, keys), axis=-1)
        seen = ops.einsum("bkns,bsm->bknm", weights, memory)
        # (M, N A) -> (M, N, A)
        kernel = ops.cast(self.kernel, seen.dtype)
        of_seen = ops.reshape(
            kernel[self.score.units :], (-1, self.score.num_heads, self.attention_size)
        )
        attention = ops.einsum("bknm,mna->bkna", seen, of_seen)
        attention = ops.reshape(attention, ops.shape(state["attention"]))
        attention = attention + ops.matmul(query, kernel[: self.score.units])
        return {"cells": cells, "attention": attention}

    def output(self, state: State):
        """Returns the output of a state, (B, K, width)."""
        return state["attention"] if self.output_attention else state["cells"][-1]["h"]

    def call(self, x, real, states: Sequence[State], memory, training=False):
        """Returns the outputs (B, T, width), 0 behind the end.

        Args:
            x: (B, T, D).
            real: bool (B, T), True up to the end.
            states: of the LSTMs at the start.
            memory: (B, S, M).
        """
        keys = self.score.keys(memory)
        inputs = [x, *self._masks(x, training)]

        def step(now, state):
            x, *masks = now
            return self.step(x, state, keys, memory, masks or None)

        after, _ = scan(step, self.initial_state(states), inputs, real)
        return self.output(after)

    def _masks(self, x, training) -> list:
        """Returns the dropout masks of each LSTM's inputs at each step, drawn before the first."""
        if not training or not self.stack.dropout:
            return []
        widths = [layer.kernel.shape[0] - layer.units for layer in self.stack.layers]
        pairs = zip(widths, self.stack.drops, strict=True)
        return [drop(ops.ones((*ops.shape(x)[:2], n), x.dtype), training=True) for n, drop in pairs]


def scan(step: Callable[[Any, State], State], state: State, inputs: Any, real):
    """Runs a step over all positions, from left to right.

    Args:
        step: of a position's inputs (B, 1, ...) and a state to the next state.
        state: at the start, of one beam.
        inputs: a tree of (B, T, ...).
        real: bool (B, T); a state stays what it is where it is False.

    Returns:
        (the states (B, T, ...), 0 where `real` is False; the last state (B, 1, ...)).
    """

    # One tensor of all inputs: Keras's scan fails with several of unknown length.
    parts = [*keras.tree.flatten(inputs), ops.cast(real, "float32")[..., None]]
    dtype, widths = parts[0].dtype, [part.shape[-1] for part in parts]
    joined = ops.concatenate([ops.cast(part, dtype) for part in parts], axis=-1)

    def body(state, now):
        *now, real = ops.split(now, cuts, axis=-1)
        after = step(keras.tree.pack_sequence_as(inputs, now), state)
        after = keras.tree.map_structure(lambda a, b: ops.where(real > 0, a, b), after, state)
        return after, after

    cuts = list(itertools.accumulate(widths))[:-1]
    # (B, T, ...) -> (T, B, 1, ...)
    last, states = ops.scan(body, state, ops.swapaxes(joined, 0, 1)[:, :, None])
    # (T, B, 1, ...) -> (B, T, ...)
    states = keras.tree.map_structure(lambda x: ops.swapaxes(x[:, :, 0], 0, 1), states)
    states = keras.tree.map_structure(lambda x: ops.where(real[..., None], x, 0), states)
    return states, last


def reverse(x, real):
    """Returns x (B, T, ...) with the real positions of each row, which are together, backwards."""
    length = ops.shape(x)[1]
    place = ops.arange(length, dtype="int32")
    first = ops.min(ops.where(real, place, length), axis=1, keepdims=True, initial=length)
    last = ops.max(ops.where(real, place, 0), axis=1, keepdims=True, initial=0)
    return gather_beams(x, ops.where(real, first + last - place, place))
