"""Records that say little, for what reads them."""

from t2t_repro.provenance import Provenance

DECODING = {"beam_size": 3, "alpha": 0.6, "extra_length": 5, "max_input_size": 9}


def recorded(kind, **said):
    """Returns the provenance of a run or an export, which says what a test asks for."""
    nothing = {"random_seed": 0, "programs": (), "data": {}, "files": {}, "decoding": DECODING}
    named = {"problem": "text2text_tmpdir", "hparams_set": "transformer_test", "step": 7}
    return Provenance(kind=kind, **nothing | named | {"scores": (), "golden": ()} | said)
