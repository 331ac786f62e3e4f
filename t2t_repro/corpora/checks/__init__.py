"""Checks of a parallel corpus: `examine.examine` runs those of `examine.CHECKS`.

A new check is a function of a block of pairs and the models of the corpus that returns which pairs
it finds; and an entry of `CHECKS`.
"""
