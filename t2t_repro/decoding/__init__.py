"""Decoding: a search that knows no model, the steps that join it to one, and files of text."""
