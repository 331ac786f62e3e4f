"""t2t-paper: what the paper reports, counted, computed and measured again."""
