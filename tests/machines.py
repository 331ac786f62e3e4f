"""Machines for which a training is planned."""

from t2t_repro.plan import Machine

GB = 10**9
TWO_CORES = Machine(
    devices="1 x Two Cores, 25.0 GB", memory=25 * GB, kind="CPU", replicas=1, sharing=1, rate=150e9
)
EIGHT = Machine(
    devices="8 x P100, 16.0 GB", memory=16 * GB, kind="GPU", replicas=8, sharing=1, rate=9.5e12
)
