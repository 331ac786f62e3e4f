"""t2t-compare: a grid of runs, its cells, results, pictures and report."""
