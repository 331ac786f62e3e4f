"""With what a program works: versions, the commit, the device."""

import functools
import importlib.metadata
import pathlib
import platform
import subprocess

from t2t_repro import __version__
from t2t_repro.certificate.record import Made

_PACKAGES = (
    *("tensorflow", "tensorflow-text", "keras", "numpy", "jax"),
    *("sacrebleu", "sentencepiece", "ctranslate2"),
)


def made_by(program: str) -> Made:
    """Returns what a program works with here; it loads Keras to know the device."""
    return Made(program, __version__, commit(), packages(), device())


def packages() -> dict[str, str]:
    """Returns {package: version} of what numbers may depend on, Python's too."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def commit() -> str:
    """Returns the commit of this package's checkout, "-changed" behind it where files differ.

    Where it is no checkout, or git is not there, it is the package's version.
    """
    root = pathlib.Path(__file__).parents[2]
    git = ["git", "-C", str(root)]
    if not (root / ".git").exists():
        return __version__
    try:
        head = _output([*git, "rev-parse", "HEAD"])
        changed = _output([*git, "status", "--porcelain", "--untracked-files=no"])
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{head}{'-changed' if changed else ''}"


def device() -> str:
    """Returns the devices that Keras computes on, and the processor."""
    from t2t_repro.training import devices

    return f"{devices.described()}; {_processor()}"


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return done.stdout.strip()


def _processor() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
