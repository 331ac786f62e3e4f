"""An experiment with warm-ups."""
