"""TFRecord files, and the batches that TensorFlow makes of them."""
