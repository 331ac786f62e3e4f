"""Constituency parsing: trees, treebanks, the constraint of the search, and scores."""
