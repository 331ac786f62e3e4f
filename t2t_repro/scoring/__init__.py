"""Scores of finished output: BLEU of translations, labelled bracketing of parses."""
