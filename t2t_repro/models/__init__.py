"""Models, on keras.ops alone."""
