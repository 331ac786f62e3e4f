"""What an engine may be able to do besides search."""

import enum

from t2t_repro.decoding.settings import DecodeHParams


class Ability(enum.StrEnum):
    """An ability, by the name that asks t2t-decoder for it."""

    SCORE_FILE = "--score_file"
    T2T_EXACT = "--t2t_exact"
    PREFIXES = "--partial_targets_file"
    ENSEMBLE = "--ensemble"
    FORCED_LENGTH = "force_decode_length"
    CONSTRAINT = "well_formed"
    LEAST_LENGTH = "min_length_ratio"
    SAMPLING = "sampling_method"
    TOKEN_SCORES = "return_token_scores"
    ALIGNMENTS = "return_alignments"

    @classmethod
    def asked_by(cls, settings: DecodeHParams) -> "set[Ability]":
        """Returns what decode hparams ask for."""
        changed = settings.changed()
        return {ability for ability in cls if ability in changed}
