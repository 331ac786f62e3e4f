"""The Transformer, on keras.ops, and its training step under TensorFlow and under JAX."""
