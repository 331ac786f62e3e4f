import json

import pytest

from tests import forks

_SHARE = """
import json, sys
from t2t_repro.decoding.program import share_cores
searches = share_cores(int(sys.argv[1]), int(sys.argv[2]))
import tensorflow as tf
threads = tf.config.threading.get_intra_op_parallelism_threads()
tf.zeros(3) + 1
print(json.dumps([searches, threads, share_cores(130, 34)]))
"""


@pytest.mark.parametrize(
    ("rows", "cores", "searches", "threads"), [(128, 2, 2, 1), (130, 16, 2, 8), (63, 4, 1, 4)]
)
@pytest.mark.slow
def test_searches_leave_each_other_room(rows, cores, searches, threads):
    """In a process of its own: TensorFlow's threads are fixed by its first operation."""
    said = forks.said_by("-c", _SHARE, str(rows), str(cores))
    assert json.loads(said) == [searches, threads, 1]
