"""Decoding: a search that knows no model, the place where it meets a model, and files of text."""
