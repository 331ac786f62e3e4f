"""Where JAX keeps its programs: in a process of its own, whose settings are nobody else's."""

import os
import pathlib
import subprocess
import sys

PROGRAM = """
import os, pathlib
import jax
from t2t_repro.training import devices

def kept():
    devices._keep_programs()
    found = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    return found

print(kept())
os.environ["XDG_CACHE_HOME"] = ""
os.environ["HOME"] = "HOME/home"
print(kept())
jax.config.update("jax_compilation_cache_dir", "")  # JAX_COMPILATION_CACHE_DIR=
print(repr(kept()))
os.environ["XDG_CACHE_HOME"] = "HOME/cache"
devices._keep_programs()
jax.jit(lambda x: x + 1)(3.0)
"""


def test_where_they_are_kept_and_where_not(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "xdg"), "JAX_PLATFORMS": "cpu"}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    program = PROGRAM.replace("HOME/", f"{tmp_path}/")
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    folder = pathlib.Path("t2t_repro", "xla")
    expected = [tmp_path / "xdg" / folder, tmp_path / "home" / ".cache" / folder, "''"]
    assert done.stdout.splitlines() == [str(each) for each in expected]
    assert list((tmp_path / "cache" / folder).iterdir()), "a program that took a moment is kept"
