"""What JAX compiles for a GPU, kept on disk for every later process.

A step of transformer_base takes half a minute to compile, and four seconds to load. And that is the
same program: compiling anew, XLA may choose other ones by their time, and these round otherwise.
"""

import os
import pathlib


def keep() -> None:
    """Lets JAX keep its programs in $XDG_CACHE_HOME/t2t_repro/xla, by default of ~/.cache.

    Where JAX_COMPILATION_CACHE_DIR is set that counts, and empty there is none. A folder that
    cannot be written is left alone.
    """
    import jax

    if jax.config.jax_compilation_cache_dir is not None:  # type: ignore[attr-defined]
        return
    try:
        caches = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
        folder = pathlib.Path(caches, "t2t_repro", "xla")
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return
    if not os.access(folder, os.W_OK):
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))
    # All of them: a search has many small ones.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
