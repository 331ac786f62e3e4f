import json

import numpy as np
import pytest
import tensorflow as tf

from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunDirectory
from t2t_repro.text.encoders import ByteTextEncoder
from t2t_repro.training import guards

BATCH = {
    "inputs": np.array([[99, 100, 1], [101, 1, 0]]),
    "targets": np.array([[102, 103, 104, 1], [105, 1, 0, 0]]),
}


def test_a_bad_batch_is_written_with_its_text(tmp_path):
    encoders = dict.fromkeys(BATCH, ByteTextEncoder())
    where = {"number": 8, "step": 5, "loss": float("inf")}
    path = guards.write_batch(RunDirectory(tmp_path), BATCH, **where, encoders=encoders)
    assert path == tmp_path / "nonfinite" / "batch-8.json"
    content = json.loads(path.read_text())
    first = content.pop("examples")[0]
    assert content == {
        "step": 5, "batch": 8, "loss": "inf", "shapes": "inputs 2 x 3, targets 2 x 4"
    }  # fmt: skip
    assert first["inputs"] == [99, 100, 1] and first["inputs_text"] == "ab"
    assert first["targets_text"] == "def"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes."),
    ],
)
def test_a_lack_of_memory_names_the_bucket_and_the_flags(error):
    message = (
        r"memory for step 7 on a batch of inputs 2 x 3, targets 2 x 4 \(sentences x tokens\). "
        "Received: out of memory. Lower --hparams=batch_size=.*max_length.*--find_batch_size"
    )
    with pytest.raises(UserError, match=message):
        with guards.naming_the_batch("step 7", BATCH):
            raise error
    with pytest.raises(ZeroDivisionError):
        with guards.naming_the_batch("step 7", BATCH):
            raise ZeroDivisionError
