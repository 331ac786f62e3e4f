"""The machine that a run trains on: its devices by name and memory, and how fast they multiply."""

import dataclasses
import os
import pathlib
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence

import keras
import numpy as np
from keras import ops

from t2t_repro import memory
from t2t_repro.cores import available_cores
from t2t_repro.training.devices import Devices

_DEV = pathlib.Path("/dev")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LIBRARIES = {
    "tensorflow": "It needs CUDA's libraries: pip install 'tensorflow[and-cuda]'; and a driver for "
    "them, which nvidia-smi names.",
    "jax": "It needs CUDA's libraries: pip install 'jax[cuda12]'.",
}
_SECONDS = 0.2  # of products that are measured
_PATIENT_SECONDS = 1.0  # the same, after as many: a process's threads share a core at first
_SIZES = {"CPU": 2048, "GPU": 8192}  # of the matrices: work for some 50 milliseconds


@dataclasses.dataclass(frozen=True)
class Device:
    """One device.

    Attributes:
        name: as its maker calls it.
        memory: bytes; a CPU's is that of the machine; 0: unknown.
    """

    name: str
    memory: int = 0


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a run trains on.

    Attributes:
        devices: of this worker; a CPU is one, also where a run splits it.
        kind: "GPU" or "CPU".
        replicas: how many devices, or parts of a CPU, share each batch, of all workers.
        rate: FLOP/s of one device's matrix products, in the precision of the model.
        note: such as the versions of CUDA and cuDNN; "": nothing.
        workers: how many hosts have such devices.
    """

    devices: tuple[Device, ...]
    kind: str
    replicas: int
    rate: float
    note: str = ""
    workers: int = 1

    @property
    def sharing(self) -> int:
        """How many replicas share the rate and the memory of a device: the parts of a CPU."""
        return 1 if self.kind == "GPU" else self.replicas // self.workers

    @property
    def rate_of_a_replica(self) -> float:
        """FLOP/s of each replica's products."""
        return self.rate / self.sharing

    def __str__(self) -> str:
        return "; ".join([_counted(self.devices), *filter(None, [self.note])])


def examine(where: Devices, dtype: str = "float32", *, patiently: bool = False) -> Machine:
    """Returns what the devices of a run are; it measures for a moment.

    Args:
        where: what `devices.choose` returned.
        dtype: in which to multiply.
        patiently: whether to measure for two seconds, where the first may mislead by a half.
    """
    found, note = _found(where)
    rate = median_rate(dtype, _SIZES[where.kind], patiently)
    return Machine(found, where.kind, where.replicas, rate, note, where.cluster.size)


def names(where: Devices) -> str:
    """Returns what the devices of a run are, for people; nothing is measured."""
    found, note = _found(where)
    return "; ".join([_counted(found), *filter(None, [note])])


def nvidia_gpus() -> list[Device]:
    """Returns the GPUs that NVIDIA's driver knows, whether TensorFlow finds them or not."""
    if not shutil.which("nvidia-smi"):
        return [Device("NVIDIA GPU") for _ in _DEV.glob("nvidia[0-9]*")]
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return [Device("NVIDIA GPU") for _ in _DEV.glob("nvidia[0-9]*")]
    rows = [line.rpartition(", ") for line in done.stdout.splitlines() if ", " in line]
    return [Device(n, int(mb) << 20 if mb.isdigit() else 0) for n, _, mb in rows]


def warnings(where: Devices, worker_gpu: int | None) -> list[str]:
    """Returns what the user should know of the devices: a GPU that is not found, a CPU in parts.

    Args:
        where: what `devices.choose` returned.
        worker_gpu: how many were asked for; None: what there is.
    """
    if where.kind == "GPU":
        return []
    found, there, backend = [], nvidia_gpus(), keras.backend.backend()
    if there:
        said = os.environ.get(_VISIBLE)
        why = _LIBRARIES[backend] if said is None else f"{_VISIBLE}={said!r} hides them: unset it."
        found.append(
            f"computing on the CPU: the machine has {_counted(there)}, of which {backend} finds "
            f"none. {why}"
        )
    if (worker_gpu or 1) > 1 and where.cluster.size == 1:
        found.append(
            f"--worker_gpu={worker_gpu} splits the CPU into {worker_gpu} parts, as no GPU is "
            "found: that shows what several GPUs would do, and is no faster than the whole."
        )
    return found


def compiles(asked: bool = False) -> bool:
    """Returns whether XLA compiles the steps of a model: under JAX, or where it is `asked` to."""
    return asked or keras.backend.backend() == "jax"


def device_memory_peak() -> int:
    """Returns the most that this process has had of a GPU's memory at once; 0: it has none."""
    if keras.backend.backend() != "tensorflow":
        import jax

        values = jax.local_devices()[0].memory_stats() or {}
        return int(values.get("peak_bytes_in_use", 0))
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return 0
    return int(tf.config.experimental.get_memory_info("GPU:0")["peak"])


def measure_rate(size: int = 2048, repetitions: int = 32) -> float:
    """Returns FLOP/s of float32 products of two (size, size) matrices: the fastest of some."""
    return 2 * size**3 / fastest(_product(size, "float32"), repetitions)


def median_rate(dtype: str, size: int, patiently: bool) -> float:
    """Returns FLOP/s of products, beside whatever else the machine does."""
    work = _product(size, dtype)

    def taken(least: float) -> list[float]:
        seconds: list[float] = []
        while len(seconds) < 3 or sum(seconds) < least:
            seconds.append(_seconds_of(work))
        return seconds

    work()
    if patiently:
        taken(_PATIENT_SECONDS)
    return 2 * size**3 / statistics.median(taken(_PATIENT_SECONDS if patiently else _SECONDS))


def fastest(work: Callable[[], object], repetitions: int) -> float:
    """Returns the seconds of the fastest of some runs: other load on a machine only adds to one."""
    return min(_seconds_of(work) for _ in range(repetitions))


def _seconds_of(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _product(size: int, dtype: str) -> Callable[[], np.ndarray]:
    """Returns what multiplies two matrices and waits until all is computed."""
    a = ops.ones((size, size), dtype)
    # A part of the product on the host: it waits until all is computed.
    return lambda: ops.convert_to_numpy(ops.cast(ops.matmul(a, a)[:1, :1], "float32"))


def _counted(devices: Sequence[Device]) -> str:
    """Returns "2 x NAME, 16.0 GB", and so on where they differ."""
    return "; ".join(
        f"{devices.count(device)} x {device.name}"
        + (f", {device.memory / 1e9:,.1f} GB" if device.memory else "")
        for device in dict.fromkeys(devices)
    )


def _cpu() -> Device:
    name, cores = "CPU", available_cores()
    info = pathlib.Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text().splitlines()
        names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
        name = names[0] if names else name
    return Device(f"{name}, {cores} core{'s' * (cores > 1)}", memory.total())


def _found(where: Devices) -> tuple[tuple[Device, ...], str]:
    """Returns the devices of a run, and a note."""
    return _gpus(where) if where.kind == "GPU" else ((_cpu(),), "")


def _gpus(where: Devices) -> tuple[tuple[Device, ...], str]:
    """Returns the GPUs of a run, and the versions of what drives them."""
    sizes = {device.name: device.memory for device in nvidia_gpus()}
    if keras.backend.backend() != "tensorflow":
        import jax

        names = [device.device_kind for device in jax.local_devices()]
        note = ""
    else:
        import tensorflow as tf

        details = tf.config.experimental.get_device_details
        found = tf.config.list_physical_devices("GPU")
        names = [details(gpu).get("device_name", gpu.name) for gpu in found]
        built = tf.sysconfig.get_build_info()
        versions = {"CUDA": built.get("cuda_version"), "cuDNN": built.get("cudnn_version")}
        note = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    return tuple(Device(name, sizes.get(name, 0)) for name in names[: where.local]), note
