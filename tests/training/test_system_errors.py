import errno
import os

import pytest

from t2t_repro.errors import UserError
from t2t_repro.training.system_errors import system_errors


def test_what_another_library_says_of_a_full_disk_is_an_error_of_the_system():
    with pytest.raises(OSError) as raised, system_errors("run"):
        raise RuntimeError(f"run/events.0; {os.strerror(errno.ENOSPC)}")
    assert raised.value.errno == errno.ENOSPC and raised.value.filename == "run"


@pytest.mark.parametrize("error", [UserError("Permission denied"), RuntimeError("another")])
def test_other_errors_stay_what_they_are(error):
    with pytest.raises(type(error)) as raised, system_errors("run"):
        raise error
    assert raised.value is error
