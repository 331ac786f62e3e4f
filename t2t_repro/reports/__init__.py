"""What the paper reports, counted, computed and measured again."""
