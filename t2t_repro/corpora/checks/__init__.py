"""Checks of a parallel corpus: `examine.examine` runs those of `table.CHECKS`.

A new check is a function from a block of pairs, and what is known of the corpus, to which of the
pairs it finds; and an entry of the table.
"""
