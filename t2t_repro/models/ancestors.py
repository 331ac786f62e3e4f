"""Which steps belong to a living beam, whose keys and values stay where they were written."""

from keras import ops

from t2t_repro.layers.picking import pick


def with_step(ancestors, parents, step):
    """Returns the ancestors at a step, and which slots are a beam's own past.

    Args:
        ancestors: int32 (B, K, L), the beam of each earlier step that a beam comes from.
        parents: int32 (B, K), the beams of the step before which they continue.
        step: int32 scalar.

    Returns:
        (int32 (B, K, L), bool (B, 1, K, L * K)): slot l * K + k is what beam k wrote at step l.
    """
    batch, beams, length = ops.shape(ancestors)
    index = ops.arange(beams, dtype="int32")
    moved = pick(ancestors, parents)
    here = ops.equal(ops.arange(length, dtype="int32"), step)
    ancestors = ops.where(here, index[:, None], moved)
    own = ops.equal(ancestors[..., None], index)  # (B, K, L, K)
    return ancestors, ops.reshape(own, (batch, 1, beams, length * beams))
