"""Constituency parsing: trees, treebanks, what a decoder may write, and its score."""
