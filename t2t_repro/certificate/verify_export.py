"""Checks the folder that it lies in: is it what t2t-exporter wrote, does it translate as it did?

    python verify.py

needs tensorflow and tensorflow-text alone. It prints a line for each file and for each of the
translations that certificate.json has, and ends with exit code 1 if anything is not as it was.
"""

import hashlib
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

NAME = "certificate.json"
SEAL = "seal"  # the last field: SHA-256 of the text whose own digits are zeros
OK, CHANGED, MISSING, NOT_HERE, NOTE = "ok", "CHANGED", "MISSING", "not here", "note"
TOLERANCE = 0.01  # of a score, which other hardware computes a little otherwise


class Check(NamedTuple):
    """What was found of one thing.

    Attributes:
        state: OK, CHANGED, MISSING; NOT_HERE where it need not be; NOTE says something.
        part: what it is a part of, such as "vocabulary".
        what: its name.
        why: more, where there is more to say.
    """

    state: str
    part: str
    what: str
    why: str = ""

    @property
    def is_bad(self) -> bool:
        """Whether something is not as it was."""
        return self.state in (CHANGED, MISSING)

    def __str__(self) -> str:
        return f"{self.state:<8}  {self.part:<12}  {self.what}{self.why and f': {self.why}'}"


def sha256(path: str | os.PathLike) -> str:
    """Returns the SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def sealed(text: str) -> str:
    """Returns a certificate's text, whose seal is zeros, with its seal."""
    zeros = 64 * "0"
    digits = hashlib.sha256(text.encode()).hexdigest()
    head, field, tail = text.rpartition(f'"{SEAL}": "{zeros}')
    return f'{head}"{SEAL}": "{digits}{tail}' if field else text


def is_sealed(text: str) -> bool:
    """Returns whether a certificate is as it was written, to the byte."""
    head, field, tail = text.rpartition(f'"{SEAL}": "')
    return bool(field) and sealed(f"{head}{field}{64 * '0'}{tail[64:]}") == text


def check_files(files: Sequence[dict[str, str]], folder: pathlib.Path) -> Iterator[Check]:
    """Yields what is found of an export's files: {"path": in `folder`, "sha256": digits}."""
    for each in files:
        path = folder / each["path"]
        if not path.is_file():
            yield Check(MISSING, "export", each["path"])
        else:
            yield Check(OK if sha256(path) == each["sha256"] else CHANGED, "export", each["path"])


def check_golden(
    golden: Sequence[dict[str, Any]], written: Sequence[tuple[str, float]]
) -> Iterator[Check]:
    """Yields what is found of sentences: {"source", "translation", "score"}.

    Args:
        golden: the sentences.
        written: the translation of each as it is written today, and its score.
    """
    for number, (each, (text, score)) in enumerate(zip(golden, written, strict=True), 1):
        what = f"sentence {number}"
        if text != each["translation"]:
            why = f"{each['source']!r} became {text!r}, and was {each['translation']!r}"
            yield Check(CHANGED, "translations", what, why)
        elif not abs(score - each["score"]) <= TOLERANCE:
            why = f"score {score:.4f}, and was {each['score']:.4f}"
            yield Check(CHANGED, "translations", what, why)
        else:
            yield Check(OK, "translations", what)


def translations(folder: str | os.PathLike, sources: Sequence[str]) -> list[tuple[str, float]]:
    """Returns the best translation of each source by a SavedModel, and its score."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow as tf
    import tensorflow_text  # noqa: F401  its operations are in the graph

    loaded = tf.saved_model.load(os.fspath(folder))  # kept: it owns the variables
    result = loaded.signatures["text"](inputs=tf.constant([text.encode() for text in sources]))
    texts = (text.decode(errors="replace") for text in result["outputs"].numpy())
    return list(zip(texts, result["scores"].numpy().tolist(), strict=True))


def verify(folder: pathlib.Path) -> Iterator[Check]:
    """Yields everything that is found of an export."""
    text = (folder / NAME).read_bytes().decode(errors="replace")
    yield Check(OK if is_sealed(text) else CHANGED, "certificate", NAME)
    try:
        certificate = json.loads(text)
        files, golden = certificate["files"], certificate["golden"]
        yield from check_files(files, folder)
        if not golden:
            yield Check(NOTE, "translations", "there are none to repeat")
        elif (folder / "saved_model.pb").exists():
            written = translations(folder, [each["source"] for each in golden])
            yield from check_golden(golden, written)
        else:
            yield Check(NOTE, "translations", "t2t-show FOLDER --verify repeats them")
    except Exception as error:  # TensorFlow raises many kinds for a file that is not right
        first = str(error).strip().partition("\n")[0]
        yield Check(CHANGED, "export", str(folder), f"{type(error).__name__}: {first[:300]}")


def main() -> int:
    """Checks the folder of this file; returns the exit code."""
    folder = pathlib.Path(__file__).resolve().parent
    bad = count = 0
    for check in verify(folder):
        print(check, flush=True)
        bad, count = bad + check.is_bad, count + 1
    print(f"{bad} of {count} are not as they were." if bad else f"All {count} are as they were.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
