"""Translations over HTTP: what t2t-server is made of."""
