"""A --t2t_usr_dir that does anything: one line with its file, its line and what was expected."""

import subprocess
import sys

import pytest

# Behind conftest's TOP; the line that is to be named ends with "# here".
RAISED = {
    "KeyError": ("KeyError('x')", "KeyError: 'x'"),
    "an error of several lines": ("ValueError('a\\nb')", "ValueError: a b"),
    "an error of a megabyte": ("ValueError('a' * 10**6)", "ValueError: aaa"),
    "an error without words": ("Broken()", "Broken"),
    "a lone surrogate": ("ValueError('\\ud800')", "ValueError: "),
    "SystemExit": ("SystemExit(0)", "SystemExit: 0"),
    "SystemExit of text": ("SystemExit('bye')", "SystemExit: bye"),
    "KeyboardInterrupt": ("KeyboardInterrupt()", "KeyboardInterrupt"),
    "MemoryError": ("MemoryError()", "MemoryError"),
    "RecursionError": ("RecursionError('deep')", "RecursionError: deep"),
    "AssertionError": ("AssertionError()", "AssertionError"),
    "NotImplementedError": ("NotImplementedError()", "NotImplementedError"),
    "StopIteration": ("StopIteration()", "StopIteration"),
    "BrokenPipeError": ("BrokenPipeError()", "BrokenPipeError"),
    "an error of the system": ("OSError(28, 'No space', 'f')", "No space"),
    "no exception": ("5", "TypeError: exceptions must derive"),
    "a UserError": ("UserError('Mine.')", "Mine. ("),
    "UnicodeDecodeError": ("b'\\xff'.decode()", "UnicodeDecodeError"),
}
PLACES = {
    "import": "raise {}  # here\n",
    "a property": """
@register_problem
class UserCase(Text2TextProblem):
    @property
    def dataset_splits(self):
        raise {}  # here
""",
    "the constructor": """
@register_problem
class UserCase(Text2TextProblem):
    def __init__(self, was_reversed=False):
        raise {}  # here
""",
    "sample 3": """
@register_problem
class UserCase(Text2TextProblem):
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        yield dict(inputs="a", targets="b")
        yield dict(inputs="a", targets="b")
        raise {}  # here
""",
    "an encoder": """
class Encoder:
    vocab_size = 7
    def encode(self, text):
        raise {}  # here
    decode = encode

@register_problem
class UserCase(Text2TextProblem):
    vocab_type = "character"
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for _ in range(5000):
            yield dict(inputs="a", targets="b")
    def sample_encoder(self, data_dir):
        return lambda sample: dict(inputs=Encoder().encode("a"), targets=[1])
""",
}
VALUES = {
    "dataset_splits": (
        *("None", "5", "'train'", "{}", "[None]", "['train']", "[{'split': 'train'}]"),
        *("[{'split': 5, 'shards': 1}]", "[{'split': 'train', 'shards': 0}]"),
        *("[{'split': 'train', 'shards': 10**22}]", "[{'split': '../x', 'shards': 1}]", "Odd()"),
        "[{'split': 'train', 'shards': 1.5}]",
    ),
    "vocab_type": ("None", "'subword'", "5", "b'subwords'"),
    "approx_vocab_size": ("0", "-5", "'many'", "2.5", "10**22", "True"),
    "is_generate_per_split": ("None", "'yes'"),
    "additional_reserved_tokens": ("5", "'text'", "[5]", "['\\ud800']"),
    "max_samples_for_vocab": ("0", "'5'"),
    "inputs_prefix": ("None", "5", "b'x'", "'\\ud800'"),
    "use_vocab_from_other_problem": ("5", "'text2text_tmpdir'"),
    "vocab_filename": ("None", "5", "''", "'a/b'", "'a\\0b'"),
    "input_space_id": ("None", "'EN'"),
    "packed_length": ("'long'", "-1"),
}
SAMPLES = {
    "None": "None",
    "a number": "5",
    "nothing in it": "{}",
    "a list": "['a', 'b']",
    "text": "'a'",
    "bytes": "dict(inputs=b'a', targets=b'b')",
    "numbers": "dict(inputs=1, targets=2)",
    "a side of None": "dict(inputs='a', targets=None)",
    "one side": "dict(inputs='a')",
    "a lone surrogate": "dict(inputs='a', targets='\\ud800')",
    "what cannot be shown": "Odd()",
}
IDS = {
    "None": "None",
    "text": "dict(inputs='a', targets='b')",
    "no ids": "dict(inputs=[], targets=[1])",
    "below 0": "dict(inputs=[-1, 1], targets=[1])",
    "too large": "dict(inputs=[2**63], targets=[1])",
    "numbers with a point": "dict(inputs=[1.5], targets=[1])",
    "bytes": "dict(inputs=b'ab', targets=[1])",
}
HERE = "  # here"
RETURNED = ("None", "5", "'text'", "{}", "b'text'")
RESULTS = {
    "feature_encoders(self, data_dir)": ("None", "5", "{}", "{'inputs': 5, 'targets': 5}"),
    "num_samples(self, tmp_dir, dataset_split)": ("'many'", "-1", "2.5"),
    "dataset_filename(self)": ("None", "5", "''", "'a/b'"),
    "filepaths(self, split, data_dir, num_shards)": ("None", "'text'", "[5]"),
    "sample_encoder(self, data_dir)": (
        "None",
        "5",
        "lambda sample: None",
        "lambda s: {'inputs': 5}",
    ),
}


def a_class(body, base="Text2TextProblem", here=False):
    return f"@register_problem\nclass UserCase({base}):{HERE * here}\n    {body}\n"


METHOD = "def generate_samples(self, data_dir, tmp_dir, dataset_split):\n        "
ENCODED = "def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):\n        "
GOOD = f"{METHOD}yield dict(inputs='a', targets='b')\n    vocab_type = 'character'\n    "


def properties():
    for name, values in VALUES.items():
        for value in values:
            yield f"{name} is {value}", a_class(f"{name} = {value}", here=True)
            if name == "input_space_id":  # datagen does not read it
                continue
            text = f"{METHOD}yield dict(inputs='a', targets='b')\n"
            body = f"{text}    @property  # here\n    def {name}(self):\n        return {value}"
            yield f"{name} returns {value}", a_class(body)


def methods():
    for name, values in RESULTS.items():
        for value in values:
            body = f"{GOOD}def {name}:  # here\n        return {value}"
            yield f"{name.partition('(')[0]} returns {value}", a_class(body)


def sources():
    for value in RETURNED:
        yield (
            f"samples: {value} returned",
            a_class(f"{METHOD[:-9]}  # here\n        return {value}"),
        )
        body = f"vocab_type = 'character'\n    {ENCODED[:-9]}  # here\n        return {value}"
        yield f"encoded samples: {value} returned", a_class(body, "Problem")
    for name, value in SAMPLES.items():
        good = "yield dict(inputs='a', targets='b')"
        body = f"{METHOD}{good}\n        yield {value}  # here"
        yield f"sample 2 is {name}", a_class(body)
        body = f"vocab_type = 'character'\n    {body}"
        yield f"sample 2 of characters is {name}", a_class(body)
    for name, value in IDS.items():
        body = f"{ENCODED}yield dict(inputs=[2, 1], targets=[1])\n        yield {value}  # here"
        yield f"encoded sample 2 is {name}", a_class(body, "Problem")


DATAGEN = {
    **{
        f"{name} in {place}": text.format(RAISED[name][0])
        for name in RAISED
        for place, text in PLACES.items()
    },
    **dict(properties()),
    **dict(methods()),
    **dict(sources()),
    "no class": "@register_problem  # here\ndef user_case():\n    pass\n",
    "a number registered": "register_problem(5)  # here\n",
    "a class that is no problem": "@register_problem  # here\nclass UserCase:\n    pass\n",
    "a number as hparams set": "register_hparams(5)  # here\n",
    "broken syntax": "def f(:  # here\n",
    "deep recursion": "def f():\n    return f()  # here\nf()\n",
    "a wrong argument to ours": "get_hparams(5, 6)  # here\n",
    "samples that are methods": a_class("generate_samples = 5", here=True),
}
SETS = {
    "None": "return None",
    "5": "return 5",
    "a dict": "return {}",
    "a class": "return Odd",
    "an error": "raise KeyError('x')  # here",
    "an exit": "raise SystemExit(3)  # here",
    "an unknown field": "return get_hparams('transformer_test').override('hidden=5')  # here",
}


@pytest.mark.parametrize("case", DATAGEN)
def test_what_makes_data(call, refused, package, datagen_flags, tmp_path, case):
    folder, place = package(DATAGEN[case])
    outcome = call("datagen", *datagen_flags(folder))
    refused(outcome, place)
    assert len(outcome.err) < 2500
    # Where all is made, and at what looks like Ctrl-C, the journal is kept.
    kept = case.startswith("feature_encoders") or case == "KeyboardInterrupt in an encoder"
    assert bool(list(tmp_path.glob("data/*unfinished*"))) == kept


@pytest.mark.parametrize("case", SETS)
def test_a_set_that_is_none(call, refused, package, tmp_path, case):
    folder, place = package(f"@register_hparams  # here\ndef user_set():\n    {SETS[case]}\n")
    names = ("--hparams_set=user_set", "--problem=algorithmic_reverse_binary40_test")
    own = [f"--t2t_usr_dir={folder}", f"--data_dir={tmp_path}", f"--output_dir={tmp_path / 'run'}"]
    place = place.rpartition(" ")[0] if "# here" in SETS[case] else place
    refused(call("trainer", *names, *own), place)
    assert not (tmp_path / "run").exists()


def run_of_its_own(trained, folder, tmp_path):
    """A run of the problem of a package, which is the small one's under another name."""
    import json
    import shutil

    run = tmp_path / "run"
    shutil.copytree(trained / "run", run)
    config = json.loads((run / "run.json").read_text())
    config |= {"problem": "user_case", "t2t_usr_dir": str(folder)}
    (run / "run.json").write_text(json.dumps(config))
    return run


LIKE = """
from t2t_repro.registry import get_problem
Base = type(get_problem("algorithmic_reverse_binary40_test"))
@register_problem
class UserCase(Base):
    def dataset_filename(self):
        return Base.name
    def {}:  # here
        return {}
"""
READ = {
    "decode_hparams(self)": ("5", "'beamsize=4'", "'beam_size'", "'beam_size=0'"),
    "eval_metrics(self)": ("None", "'accuracy'", "['bleu']", "[5]"),
    "feature_encoders(self, data_dir)": ("None", "{}", "{'inputs': None, 'targets': None}"),
    "output_type(self)": ("None", "'texts'"),
}


READERS = {
    "decode_hparams(self)": ("decoder", "exporter", "visualize"),
    "eval_metrics(self)": ("trainer",),
    "feature_encoders(self, data_dir)": ("decoder", "evaluator", "exporter", "visualize"),
    "output_type(self)": ("decoder",),
}


@pytest.mark.parametrize(
    ("name", "value", "program"),
    [(name, v, program) for name in READ for v in READ[name] for program in READERS[name]],
)
def test_what_reads_a_run(call, refused, package, trained, tmp_path, name, value, program):
    text = LIKE.format(name, value)
    if name in ("decode_hparams(self)", "output_type(self)"):
        text = text.replace(f"    def {name}", f"    @property\n    def {name}")
    folder, place = package(text)
    run = run_of_its_own(trained, folder, tmp_path)
    (tmp_path / "in").write_text("0 1\n")
    of_it = {
        "decoder": [f"--decode_from_file={tmp_path / 'in'}"],
        "evaluator": ["--eval_steps=1"],
        "exporter": [f"--export_dir={tmp_path / 'export'}"],
        "trainer": ["--train_steps=7"],
        "visualize": ["--source=0 1"],
    }
    outcome = call(program, f"--output_dir={run}", f"--t2t_usr_dir={folder}", *of_it[program])
    refused(outcome, place.rpartition(" ")[0])


PROCESSES = {
    "an error": "raise KeyError('x')",
    "an exit": "raise SystemExit(0)",
    "an error that cannot be pickled": "raise Broken(lambda: 5)",
    "an error with arguments of its own": "raise b'\\xff'.decode()",
    "nothing": "return None",
}


@pytest.mark.parametrize("case", PROCESSES)
def test_in_other_processes(package, datagen_flags, tmp_path, case):
    body = f"""vocab_type = 'character'
    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for _ in range(2500):
            yield dict(inputs="a", targets="b")
    def sample_encoder(self, data_dir):
        def encode(sample):
            {PROCESSES[case]}
        return encode"""
    folder, place = package(a_class(body))
    own = [flag.replace("processes=1", "processes=2") for flag in datagen_flags(folder)]
    command = [sys.executable, "-m", "t2t_repro.bin.datagen", *own]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    errors = [line for line in done.stderr.splitlines() if ": error: " in line]
    assert done.returncode == 2 and len(errors) == 1 and place in errors[0], done.stderr
    assert "Traceback" not in done.stderr
