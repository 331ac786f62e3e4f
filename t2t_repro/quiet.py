"""Loads TensorFlow without what it says of itself: oneDNN, CUDA, absl. Errors are passed on.

Its libraries print while they are loaded, before TF_CPP_MIN_LOG_LEVEL is read; so stderr goes
through a filter for that time.
"""

import contextlib
import logging
import os
import pathlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import ModuleType

from t2t_repro import imports

VARIABLE = "TF_CPP_MIN_LOG_LEVEL"
_DEV = pathlib.Path("/dev")
_NOISE = re.compile(
    rb"WARNING: All log messages before absl::InitializeLog"
    rb"|[IW]\d{4} [\d:.]+ +\d+ "  # absl's lines of information and warning
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] "  # as TensorFlow wrote them before 2.17
    rb"|To enable the following instructions: "
    rb"|E\d{4} .*Unable to register cu(FFT|DNN|BLAS) factory"  # it is registered already
)
_NO_GPU = re.compile(rb"E\d{4} .*failed call to cuInit")  # an error only where there is one


def tensorflow() -> None:
    """Lets TensorFlow be loaded in silence, unless the user's environment asks for its words."""
    level = os.environ.setdefault(VARIABLE, "2")
    if level not in ("2", "3"):
        return
    logging.getLogger("tensorflow").addFilter(_is_of_use)
    if "tensorflow" not in sys.modules:
        imports.around("tensorflow", _quietly)


@contextlib.contextmanager
def filtered() -> Iterator[None]:
    """Passes on to stderr, at its end, what the block says and is no noise."""
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            said.seek(0)
            for line in said:
                if not is_noise(line):
                    os.write(2, line)


def is_noise(line: bytes) -> bool:
    """Whether a line of TensorFlow's says only what it is."""
    gpus = any(_DEV.glob("nvidia[0-9]*"))
    return bool(_NOISE.match(line) or (not gpus and _NO_GPU.match(line)))


def _is_of_use(record: logging.LogRecord) -> bool:
    """Whether a line of TensorFlow's log is not the advice against compiling for each shape, which
    the programs do on purpose."""
    return "triggered tf.function retracing" not in record.getMessage()


def _quietly(module: ModuleType, load: Callable[[], None]) -> None:
    with filtered():
        load()
        module.config.list_physical_devices("GPU")  # once, which is when CUDA speaks
