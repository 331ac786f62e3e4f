"""t2t-compare, t2t-experiments and t2t-paper: what trains or measures to show something."""
