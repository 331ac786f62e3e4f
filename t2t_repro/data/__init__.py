"""TFRecord files and the batches made of them. TensorFlow lives here."""
