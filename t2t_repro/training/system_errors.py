"""What TensorFlow says of a full disk, as Python's own error of the system."""

import contextlib
import errno
import os
from collections.abc import Iterator

from t2t_repro.errors import UserError

_NUMBERS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EIO)


@contextlib.contextmanager
def system_errors(path: str | os.PathLike) -> Iterator[None]:
    """Raises an error of the system, which TensorFlow met where it wrote `path`, as an OSError.

    Its own errors are told by their words, for TensorBoard's files are written without it too.
    """
    try:
        yield
    except (UserError, OSError):
        raise
    except Exception as error:
        for number in _NUMBERS:
            if os.strerror(number) in str(error):
                raise OSError(number, os.strerror(number), os.fspath(path)) from error
        raise
