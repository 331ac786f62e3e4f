"""T2T's length buckets: how many examples of which length make a batch of `batch_size` tokens."""

from t2t_repro.config import HParams
from t2t_repro.errors import UserError

NO_LIMIT = 10**9

# T2T rounds every batch size down to a divisor of one of these windows.
_HIGHLY_COMPOSITE = (
    *(1, 2, 4, 6, 12, 24, 36, 48, 60, 120, 180, 240, 360, 720, 840, 1260, 1680, 2520, 5040, 7560),
    *(10080, 15120, 20160, 25200, 27720, 45360, 50400, 55440, 83160, 110880, 166320, 221760),
    *(277200, 332640, 498960, 554400, 665280, 720720, 1081080, 1441440, 2162160, 2882880, 3603600),
    *(4324320, 6486480, 7207200, 8648640, 10810800, 14414400, 17297280, 21621600, 32432400),
    *(36756720, 43243200, 61261200, 73513440, 110270160),
)


def batching_scheme(
    batch_size: int,
    max_length: int,
    min_length_bucket: int,
    length_bucket_step: float,
    drop_long_sequences: bool = False,
    shard_multiplier: int = 1,
    length_multiplier: int = 1,
    min_length: int = 0,
) -> dict:
    """Returns T2T's batching scheme.

    Args:
        batch_size: tokens in a batch, padding included; an example counts by its longer side.
        max_length: the last bucket's upper end; 0: `batch_size`.
        min_length_bucket: the first boundary.
        length_bucket_step: each boundary is this much larger than the one before; above 1.
        drop_long_sequences: whether "max_length" limits the examples (else it is 10**9).
        shard_multiplier: multiplies the batch sizes, so that a batch splits among shards.
        length_multiplier: multiplies boundaries and `max_length`.
        min_length: copied into the result.

    Returns:
        "boundaries": bucket i holds lengths in [boundaries[i-1], boundaries[i]);
        "batch_sizes": one more than boundaries; "min_length", "max_length", "shuffle_queue_size".

    Raises:
        UserError: if the lengths contradict each other.
    """
    max_length = max_length or batch_size
    if max_length < min_length:
        raise UserError(
            "Expected max_length (or batch_size where it is 0) to be at least min_length. "
            f"Received: {max_length} and min_length={min_length}."
        )
    if length_bucket_step <= 1.0:
        raise UserError(f"Expected length_bucket_step > 1. Received: {length_bucket_step}.")
    boundaries = []
    boundary = min_length_bucket
    while boundary < max_length:
        boundaries.append(boundary * length_multiplier)
        boundary = max(boundary + 1, int(boundary * length_bucket_step))
    max_length *= length_multiplier
    sizes = [max(1, batch_size // length) for length in [*boundaries, max_length]]
    window = max(n for n in _HIGHLY_COMPOSITE if n <= 3 * max(sizes))
    divisors = [n for n in range(1, window + 1) if window % n == 0]
    sizes = [shard_multiplier * max(n for n in divisors if n <= size) for size in sizes]
    return {
        "boundaries": boundaries,
        "batch_sizes": sizes,
        "min_length": min_length,
        "max_length": max_length if drop_long_sequences else NO_LIMIT,
        "shuffle_queue_size": 3 * (window * shard_multiplier // min(sizes)),
    }


def hparams_to_batching_scheme(
    hparams: HParams,
    drop_long_sequences: bool = False,
    shard_multiplier: int = 1,
    length_multiplier: int = 1,
) -> dict:
    """Returns the scheme that `hparams` ask for; use_fixed_batch_size makes it a single bucket."""
    scheme = batching_scheme(
        batch_size=hparams.batch_size,
        max_length=hparams.max_length,
        min_length_bucket=hparams.min_length_bucket,
        length_bucket_step=hparams.length_bucket_step,
        drop_long_sequences=drop_long_sequences,
        shard_multiplier=shard_multiplier,
        length_multiplier=length_multiplier,
        min_length=hparams.min_length,
    )
    if hparams.use_fixed_batch_size:
        scheme["boundaries"] = []
        scheme["batch_sizes"] = [hparams.batch_size * shard_multiplier]
    return scheme
