"""What every test shares: the golden files, and models with tensor2tensor's own weights."""

import dataclasses
import gc
import importlib.util
import json
import multiprocessing.util
import os
import pathlib
import random
import signal
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # it compiles in half the time
# Where the processes of a session keep what JAX compiles, each for the others.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    COMPILED = tempfile.TemporaryDirectory(prefix="jax-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = COMPILED.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"

import numpy as np
import pytest

from t2t_repro import files, registry
from t2t_repro.config import HParams

gc.set_threshold(50_000, 20, 100)  # little of what is imported is garbage

# A shell that runs the tests in the background lets them, and what they start, ignore it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

GOLDEN = pathlib.Path(__file__).parent / "golden"
CASES = sorted(path.stem for path in (GOLDEN / "models").glob("*.npz"))
# One of each kind, for what takes seconds a case: the others are slow, and .ci/run runs them too.
OF_EACH_KIND = {"base_v1"}
# Slow, whatever the test takes: rare norms, and what differs from "base" in steps or size alone.
RARE = {
    *("batch_norm", "noam_norm", "base_v2", "adafactor", "multistep", "clip_and_decay"),
    *("key_channels", "no_label_smoothing", "parsing_big", "big", "both_norms"),
}
GOLDEN_VOCAB_SIZE = 37
GOLDEN_TARGET_SPACE_ID = 4
DROPOUT_OFF = {
    "layer_prepostprocess_dropout": 0.0,
    "attention_dropout": 0.0,
    "relu_dropout": 0.0,
    "symbol_dropout": 0.0,
}


# The modules of the longest tests: who begins them first does not wait for one of them at the end.
# The last of them may be taken over by an idle worker: they share no costly fixture.
LONGEST = ("test_stages", "test_jax_training", "test_faults", "test_documents", "test_two_workers")


def pytest_collection_modifyitems(items):
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONGEST)))


def pytest_collection_finish(session):
    """Keeps kernels where a seed is set, and what is loaded by now out of garbage collections."""
    if eager := sys.modules.get("tensorflow.python.eager.context"):
        # TensorFlow forgets all kernels then, for those with random numbers of their own: no test
        # has one, and to make them again for each test takes half of its time.
        eager.pywrap_tfe.TFE_ContextClearCaches = lambda context: None
        # Graphs run as they are: to optimize one takes longer than its few calls. The programs that
        # tests start optimize theirs.
        eager.context().set_optimizer_experimental_options({"disable_meta_optimizer": True})
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item):
    """Gives every test the same random numbers, whatever ran before it in its process."""
    random.seed(7)  # keras, where it is not loaded yet, draws its first seed from here
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(7)


class GoldenCase:
    """One of tests/golden/models: what tensor2tensor computed, and our model with its weights."""

    def __init__(self, name: str, folder: str = "models"):
        self.name = name
        with np.load(GOLDEN / folder / f"{name}.npz") as arrays:
            self.arrays = dict(arrays)
        values = json.loads(str(self.arrays["hparams"]))
        values["model"] = str(self.arrays.get("model", "transformer"))
        ours = {field.name for field in dataclasses.fields(HParams)}
        self.hparams = HParams(**{k: v for k, v in values.items() if k in ours})

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    @property
    def batch(self) -> dict[str, np.ndarray]:
        return {"inputs": self["inputs"], "targets": self["targets"]}

    def group(self, prefix: str) -> dict[str, np.ndarray]:
        """Returns every array "prefix:NAME" by NAME."""
        start = f"{prefix}:"
        return {k.removeprefix(start): v for k, v in self.arrays.items() if k.startswith(start)}

    def model(self, weights: str = "var", **changes):
        """Returns our model with the weights "var" or "trained", and `changes` to its hparams."""
        from t2t_repro.interop import tensor2tensor

        model = registry.get_model(self.hparams.model).from_hparams(
            dataclasses.replace(self.hparams, **changes),
            inputs_vocab_size=GOLDEN_VOCAB_SIZE,
            targets_vocab_size=GOLDEN_VOCAB_SIZE,
            target_space_id=GOLDEN_TARGET_SPACE_ID,
        )
        tensor2tensor.load_variables(model, self.group(weights))
        return model

    def check_losses(self, logits, rtol: float) -> None:
        """Asserts that the losses of logits are T2T's, without and with label smoothing."""
        from t2t_repro.training import losses

        total, weight = losses.padded_cross_entropy(logits, self["targets"])
        np.testing.assert_allclose(total, self["loss_sum"], rtol=rtol)
        assert float(weight) == self["loss_weight"]
        smoothing = self.hparams.label_smoothing
        total, _ = losses.padded_cross_entropy(logits, self["targets"], smoothing)
        np.testing.assert_allclose(total, self["smoothed_loss_sum"], rtol=rtol)


@pytest.fixture(scope="session")
def golden_path() -> pathlib.Path:
    """The folder of the golden files."""
    return GOLDEN


@pytest.fixture(
    scope="session",
    params=[pytest.param(case, marks=pytest.mark.slow) if case in RARE else case for case in CASES],
)
def golden(request) -> GoldenCase:
    """Each of tensor2tensor's models in turn."""
    return GoldenCase(request.param)


@pytest.fixture(
    scope="session",
    params=[
        case if case in OF_EACH_KIND else pytest.param(case, marks=pytest.mark.slow)
        for case in CASES
    ],
)
def costly_golden(request) -> GoldenCase:
    """Each of tensor2tensor's models in turn, for a test that takes seconds."""
    return GoldenCase(request.param)


@pytest.fixture(scope="session")
def dropout_off() -> dict[str, float]:
    """The hparams that turn every dropout off."""
    return DROPOUT_OFF


@pytest.fixture(scope="session")
def golden_case():
    """The case of a name: golden_case("base_v1")."""
    return GoldenCase


class T2TRun:
    """The folder of a run as tensor2tensor leaves it, with one of its models and made-up slots."""

    PROBLEM = "text2text_tmpdir"
    VOCABULARY = "vocab.text2text_tmpdir.32768.subwords"

    def __init__(self, folder: pathlib.Path, case: GoldenCase):
        self.folder = folder
        self.variables = case.group("var")
        self.hparams = json.loads(str(case["hparams"]))
        folder.mkdir(parents=True, exist_ok=True)
        letters = "0123456789;\\_uabcdefghijklmnopqrstv"
        subwords = ["<pad>_", "<EOS>_", *letters]
        assert len(subwords) == GOLDEN_VOCAB_SIZE
        lines = "".join(f"'{subword}'\n" for subword in subwords)
        (folder / self.VOCABULARY).write_text(lines, encoding="utf-8")

    def slots(self) -> dict[str, np.ndarray]:
        """Returns what the optimizer would have made of each variable."""
        rng = np.random.default_rng(5)
        arrays = {}
        kind = {"adafactor": "Adafactor", "adam_w": "AdamW"}.get(self.hparams["optimizer"], "Adam")
        for name, value in self.variables.items():
            shapes = [value.shape] * (3 if self.hparams["optimizer"] == "multistep_adam" else 2)
            if kind == "Adafactor":
                matrix = value.ndim >= 2
                factors = [value.shape[:-1], value.shape[:-2] + value.shape[-1:]]
                shapes = factors if matrix else [value.shape]
                if self.hparams["optimizer_adafactor_beta1"]:
                    shapes.insert(0, value.shape)
            for i, shape in enumerate(shapes):
                slot = f"training/{name}/{kind}" + (f"_{i}" if i else "")
                arrays[slot] = rng.random(shape, dtype="float32")
        return arrays

    def write(
        self, step: int = 7, *, slots: bool = True, hparams: bool = True, flags: bool = True
    ) -> pathlib.Path:
        """Writes model.ckpt-STEP and what belongs beside it; returns the folder."""
        from t2t_repro.interop import t2t_checkpoint

        arrays = self.variables | t2t_checkpoint.BOOKKEEPING
        arrays["global_step"] = np.array(step, "int64")
        if slots:
            arrays |= self.slots()
            updates = step // (self.hparams["optimizer_multistep_accumulate_steps"] or 1)
            for number in (1, 2):
                beta = self.hparams[f"optimizer_adam_beta{number}"]
                arrays[f"training/beta{number}_power"] = np.array(beta ** (updates + 1), "float32")
        t2t_checkpoint.write(self.folder, step, arrays)
        if hparams:
            (self.folder / "hparams.json").write_text(json.dumps(self.hparams))
        if flags:
            lines = ("--notfdbg", f"--problem={self.PROBLEM}", "--model=transformer")
            (self.folder / "flags.txt").write_text("\n".join(lines))
        return self.folder


@pytest.fixture
def t2t_run(tmp_path):
    """tensor2tensor's run of a golden case: t2t_run("base_v1").write()."""
    return lambda name: T2TRun(tmp_path / "t2t", GoldenCase(name))


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A real Chromium without a window, for tests marked `browser`: see tests/webdriver.py."""
    path = pathlib.Path(__file__).with_name("webdriver.py")
    spec = importlib.util.spec_from_file_location("webdriver", path)
    webdriver = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(webdriver)
    with webdriver.chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(autouse=True)
def own_names():
    """What a test registers is gone behind it, and the packages of --t2t_usr_dir are, too."""
    yield
    for name in list(sys.modules) if registry._USR_DIRS else ():
        if name.partition(".")[0] in registry._USR_DIRS:
            del sys.modules[name]
    for table in (registry._HPARAMS, registry._PROBLEMS, registry._MODELS, registry._USR_DIRS):
        table.clear()


class FakeClock:
    """Tells its own time; a nap moves it, and is counted and told to `after_nap`."""

    def __init__(self, after_nap=lambda naps: None):
        self.now, self.naps, self._after_nap = 0.0, 0, after_nap

    def time(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        self.naps += 1
        self._after_nap(self.naps)


@pytest.fixture
def make_clock(monkeypatch):
    """Makes a clock for `files.appearing`."""

    def made(*after_nap):
        clock = FakeClock(*after_nap)
        monkeypatch.setattr(files, "time", clock)
        return clock

    return made


@pytest.fixture(params=[signal.SIGTERM, signal.SIGINT], ids=lambda signum: signum.name)
def half_started(request, monkeypatch):
    """Sends a signal when a process is there and not told yet what to do; returns their ids."""
    started, spawn = [], multiprocessing.util.spawnv_passfds

    def interrupted(path, args, passfds):
        pid = spawn(path, args, passfds)
        if "--multiprocessing-fork" in args:
            started.append(pid)
            os.kill(os.getpid(), request.param)
        return pid

    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", interrupted)
    return started
