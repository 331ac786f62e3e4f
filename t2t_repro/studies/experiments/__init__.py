"""t2t-experiments: the paper's arguments, tried out."""
