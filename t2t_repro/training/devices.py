"""The devices of a run: one, several of this host, or those of several hosts.

TF_CONFIG names the hosts, the same on each except for the index:

  TF_CONFIG='{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'

Index 0, or the one of type "chief", is the chief.

Every device trains on its shard of each batch and holds all the weights. Whatever is not a step
(checkpoints, metrics, evaluation, for which models/copies.py shares batches among its devices) is
the chief's alone. The other workers get weights, optimizer and place in the data from it through
the network, without a shared folder.
"""

import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from t2t_repro import process, progress
from t2t_repro.errors import UserError
from t2t_repro.process import available_cores
from t2t_repro.training.checkpoints import seed_variables

TF_CONFIG = "TF_CONFIG"  # which tells TensorFlow's strategies the hosts of a run
_JOBS = ("chief", "worker")
_SEED_STRIDE = 1_000_003  # from one replica's seed to the next
_NOTE = 4096  # most bytes of a note of the chief
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PACKAGES = {"tensorflow": "tensorflow[and-cuda]", "jax": "jax[cuda12]"}

Device = tuple[str, int]  # its name, and bytes of memory; 0: unknown


@dataclasses.dataclass(frozen=True)
class Cluster:
    """The worker processes of a run. The default is one, without address.

    Attributes:
        addresses: HOST:PORT of each, the chief's first.
        index: that of this process.
    """

    addresses: tuple[str, ...] = ("",)
    index: int = 0

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self.addresses)

    @property
    def is_chief(self) -> bool:
        """Whether this worker writes the run directory and evaluates."""
        return self.index == 0


def cluster_of(environment: Mapping[str, str]) -> Cluster:
    """Returns the cluster of TF_CONFIG; one worker alone where it is not set."""
    text = environment.get(TF_CONFIG, "").strip()
    if not text:
        return Cluster()
    config = json.loads(text)
    jobs, task = config["cluster"], config["task"]
    addresses = [address for job in _JOBS for address in jobs.get(job, ())]
    return Cluster(tuple(addresses), addresses.index(jobs[task["type"]][task["index"]]))


@dataclasses.dataclass(frozen=True)
class Devices:
    """Where a run is trained, evaluated or decoded with. The default is one device.

    Attributes:
        strategy: a tf.distribute.Strategy, under JAX a keras.distribution.DataParallel; None: one.
        cluster: the workers.
        local: how many devices each worker has.
        kind: "GPU" or "CPU".
    """

    strategy: Any = None
    cluster: Cluster = Cluster()
    local: int = 1
    kind: str = "CPU"

    @property
    def replicas(self) -> int:
        """The number of devices of all workers."""
        return self.local * self.cluster.size

    @property
    def first_replica(self) -> int:
        """The number of this worker's first device among all."""
        return self.cluster.index * self.local

    def scope(self) -> contextlib.AbstractContextManager:
        """Returns the context in which a model and its optimizer are made."""
        return contextlib.nullcontext() if self.strategy is None else self.strategy.scope()

    def broadcast(self, model: keras.Model, note: Any = None) -> Any:
        """Gives every replica the chief's state, except for the random numbers.

        All variables become the chief's. A replica's seeds are the chief's plus its number, so that
        no two drop the same values.

        Args:
            model: built and compiled.
            note: a value of the chief for all workers, as JSON.

        Returns:
            The chief's note.
        """
        seeds = seed_variables(model)
        if self.cluster.size > 1:
            for variable in [*model.weights, *seeds, *model.optimizer.variables]:
                value = np.asarray(variable)
                wide = value.astype("int64" if value.dtype.kind in "iub" else "float32")
                chiefs = self._of_chief(wide.ravel())  # flat: one trace for all
                variable.assign(chiefs.astype(value.dtype).reshape(value.shape))
            text = json.dumps(note).encode().ljust(_NOTE)
            chiefs = self._of_chief(np.frombuffer(text, "uint8").astype("int64"))
            note = json.loads(chiefs.astype("uint8").tobytes())
        if self.strategy is not None and keras.backend.backend() == "tensorflow":
            for variable in seeds:
                seed = np.asarray(variable)
                for replica, own in enumerate(variable.value.values, start=self.first_replica):
                    own.assign(seed + np.array([replica * _SEED_STRIDE, 0], seed.dtype))
        return note

    def check_alike(self, settings: Mapping[str, Any]) -> None:
        """Raises a UserError that names the `settings` in which a worker differs from the chief."""
        if self.cluster.size == 1:
            return
        checksums = np.zeros((self.cluster.size, len(settings)), "int64")
        checksums[self.cluster.index] = [zlib.crc32(repr(v).encode()) for v in settings.values()]
        checksums = self._worker_sum(checksums).numpy()
        differs = checksums != checksums[0]
        if not differs.any():
            return
        worker = int(np.argmax(differs.any(axis=1)))
        names = [name for name, other in zip(settings, differs[worker], strict=True) if other]
        raise UserError(
            f"Expected the same command and data on every worker. Received: worker {worker} "
            f"({self.cluster.addresses[worker]}) differs from the chief in {', '.join(names)}. On "
            f"worker {self.cluster.index}: { {name: settings[name] for name in names} }."
        )

    def all_reduce(self, values: Sequence[int]) -> list[int]:
        """Returns the sum of each value over the workers; waits for all of them."""
        if self.cluster.size == 1:
            return list(values)
        return self._worker_sum(np.array(values, "int64")).numpy().tolist()

    @functools.cached_property
    def _worker_sum(self) -> Callable:
        """Returns a function that sums an array over the workers."""
        import tensorflow as tf

        strategy, first = self.strategy, self.first_replica

        def on_replica(value):
            context = tf.distribute.get_replica_context()
            counts = tf.equal(context.replica_id_in_sync_group, first)
            value = tf.where(counts, value, tf.zeros_like(value))
            return context.all_reduce(tf.distribute.ReduceOp.SUM, value)

        @tf.function(reduce_retracing=True)
        def total(value):
            sums = strategy.run(on_replica, args=(value,))
            return strategy.experimental_local_results(sums)[0]

        return total

    def _of_chief(self, values: np.ndarray) -> np.ndarray:
        """Returns the chief's values; every worker has as many."""
        return self._worker_sum(values if self.cluster.is_chief else np.zeros_like(values)).numpy()


ONE = Devices()


def choose(worker_gpu: int | None = None, environment: Mapping[str, str] = os.environ) -> Devices:
    """Returns the devices to compute on, and warns where a machine's GPUs are not found.

    Call it before anything else of TensorFlow or JAX runs.

    Args:
        worker_gpu: how many of this worker; None: all GPUs, or one CPU. On a CPU several are
            virtual devices, to try out what several GPUs would do.
        environment: where TF_CONFIG is.

    Raises:
        UserError: if there are fewer, or the backend does not support TF_CONFIG.
    """
    cluster, backend = cluster_of(environment), keras.backend.backend()
    if not os.environ.get(TF_CONFIG, "x").strip():
        del os.environ[TF_CONFIG]  # TensorFlow would read it as JSON, empty as it is
    under = _under_tensorflow if backend == "tensorflow" else _under_jax
    where = under(worker_gpu, cluster)
    if where.kind == "CPU" and (there := nvidia_gpus()):
        hidden = os.environ.get(_VISIBLE)
        install = f"To install CUDA's libraries: pip install '{_PACKAGES[backend]}'"
        why = install if hidden is None else f"Unset {_VISIBLE}={hidden!r}, which hides them"
        progress.on_stderr(
            f"Warning: computing on the CPU, because {backend} does not find this machine's GPUs "
            f"({_counted(there)}). {why}."
        )
    return where


def here(worker_gpu: int | None = None) -> Devices:
    """Returns the devices of this host, to evaluate and decode on; TF_CONFIG does not count.

    Args:
        worker_gpu: as in `choose`.

    Raises:
        UserError: as `choose`.
    """
    return choose(worker_gpu, {})


def described() -> str:
    """Returns backend and devices, such as "tensorflow on 2 x NVIDIA H100"."""
    gpus = _gpu_names() or ["CPU"]
    return f"{keras.backend.backend()} on {f'{len(gpus)} x ' * (len(gpus) > 1)}{gpus[0]}"


def _under_tensorflow(worker_gpu: int | None, cluster: Cluster) -> Devices:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    count = _count(worker_gpu, len(gpus), cluster)
    for gpu in gpus:
        with contextlib.suppress(RuntimeError):  # TensorFlow runs: its memory is as it is
            tf.config.experimental.set_memory_growth(gpu, True)
    kind = "GPU" if gpus else "CPU"
    if cluster.size > 1:
        if gpus:
            tf.config.set_visible_devices(gpus[:count], "GPU")
        of = f"worker {cluster.index} of {cluster.size}"
        print(f"This is {of}, waiting for {', '.join(cluster.addresses)}.", flush=True)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        process.reinstall_handlers()
        return Devices(strategy, cluster, count, kind)
    if count == 1:
        return Devices(kind=kind)
    if not gpus:
        parts = [tf.config.LogicalDeviceConfiguration()] * count
        with contextlib.suppress(RuntimeError):  # TensorFlow runs: it has the parts that it has
            (cpu,) = tf.config.list_physical_devices("CPU")
            tf.config.set_logical_device_configuration(cpu, parts)
    logical = tf.config.list_logical_devices(kind)
    _check_count(count, len(logical))
    names = [device.name for device in logical[:count]]
    return Devices(tf.distribute.MirroredStrategy(names), cluster, count, kind)


def _under_jax(worker_gpu: int | None, cluster: Cluster) -> Devices:
    import jax

    if cluster.size > 1:
        raise UserError(
            f"Expected the TensorFlow backend, because {TF_CONFIG} names several workers. "
            f"Received: {keras.backend.backend()}. Unset {TF_CONFIG}, or KERAS_BACKEND."
        )
    wanted = worker_gpu or 0
    if wanted > 1:
        with contextlib.suppress(RuntimeError):  # JAX runs: it has the parts that it has
            jax.config.update("jax_num_cpu_devices", wanted)
    devices = jax.devices()
    kind = "CPU" if devices[0].platform == "cpu" else "GPU"
    if kind == "GPU":
        _keep_programs()
    count = _count(worker_gpu, 0 if kind == "CPU" else len(devices), cluster)
    _check_count(count, len(devices))
    if count == 1:
        return Devices(kind=kind)
    names = [f"{device.platform}:{device.id}" for device in devices[:count]]
    return Devices(keras.distribution.DataParallel(devices=names), cluster, count, kind)


def _keep_programs() -> None:
    """Lets JAX keep its programs in $XDG_CACHE_HOME/t2t_repro/xla, by default of ~/.cache.

    A step of transformer_base takes half a minute to compile, and four seconds to load. A kept
    program also rounds the same: when XLA compiles again, its timings may choose another.
    JAX_COMPILATION_CACHE_DIR overrides the folder; empty, nothing is kept.
    """
    import jax

    if jax.config.jax_compilation_cache_dir is not None:  # type: ignore[attr-defined]
        return
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    jax.config.update("jax_compilation_cache_dir", os.path.join(caches, "t2t_repro", "xla"))
    # All of them: a search has many small ones.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _count(worker_gpu: int | None, gpus: int, cluster: Cluster) -> int:
    """Returns how many devices this worker trains on, of `gpus` GPUs."""
    if worker_gpu is None:
        return gpus or 1
    _check_count(worker_gpu, gpus or (1 if cluster.size > 1 else max(2, available_cores())))
    return worker_gpu


def _check_count(wanted: int, most: int) -> None:
    if not 1 <= wanted <= most:
        raise UserError(
            f"Expected --worker_gpu from 1 to {most}, the number of this machine's GPUs (or of CPU "
            f"cores, without a GPU). Received: {wanted}. Give another number. Without the flag, a "
            "resumed run uses its recorded number."
        )


def names(where: Devices) -> str:
    """Returns a run's devices in words, such as "2 x NAME, 16.0 GB"."""
    return _counted(found(where))


def found(where: Devices) -> list[Device]:
    """Returns the devices of this worker; a CPU is one, also where a run splits it."""
    if where.kind == "CPU":
        name, cores = "CPU", available_cores()
        info = pathlib.Path("/proc/cpuinfo")
        lines = info.read_text().splitlines() if info.is_file() else []
        models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        return [(f"{next(models, name)}, {cores} core{'s' * (cores > 1)}", process.total_memory())]
    sizes = dict(nvidia_gpus())
    return [(name, sizes.get(name, 0)) for name in _gpu_names()[: where.local]]


def _gpu_names() -> list[str]:
    """Returns the names of the GPUs that the backend finds."""
    if keras.backend.backend() != "tensorflow":
        import jax

        return [each.device_kind for each in jax.local_devices() if each.platform != "cpu"]
    import tensorflow as tf

    details = tf.config.experimental.get_device_details
    physical = tf.config.list_physical_devices("GPU")
    return [details(gpu).get("device_name", gpu.name) for gpu in physical]


def nvidia_gpus() -> list[Device]:
    """Returns the GPUs that nvidia-smi lists, whether the backend finds them or not."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.rpartition(", ") for line in done.stdout.splitlines() if ", " in line]
    return [(name, int(mb) << 20 if mb.isdigit() else 0) for name, _, mb in rows]


def compiles(asked: bool = False) -> bool:
    """Returns whether XLA compiles the steps of a model: under JAX, or if `asked`."""
    return asked or keras.backend.backend() == "jax"


def _counted(devices: Sequence[Device]) -> str:
    """Returns "2 x NAME, 16.0 GB", and so on where they differ."""
    return "; ".join(
        f"{devices.count(device)} x {device[0]}"
        + (f", {device[1] / 1e9:,.1f} GB" if device[1] else "")
        for device in dict.fromkeys(devices)
    )
