"""Translations over HTTP: the parts of t2t-server."""
