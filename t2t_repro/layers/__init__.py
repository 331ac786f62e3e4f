"""The Transformer's layers, on keras.ops alone.

One shape legend for the whole project: B batch, T target length, S source length, N heads, H size
per head, D model size (hidden_size), F filter size, V vocabulary, K beam, L decoding steps.
"""
