"""The catalogue of hparam sets.

Each set is a function that returns a complete `HParams`; a variant is another set with
replacements, so that the difference is the documentation. A name of tensor2tensor's means exactly
what tensor2tensor 1.15.7 means by it; names that begin with `paper_`, and the few that say so, are
this project's own. Modules here import their siblings relatively and the library absolutely.
"""
