"""What the benchmarks share that train: a folder goes on as it was begun, and tables over seeds."""

import json
import os
import pathlib
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic


def begin(settings: Mapping[str, Any], output: pathlib.Path, may_change: str) -> None:
    """Writes what all runs of a folder share, or holds it against what the folder was begun with.

    Args:
        settings: of them.
        output: the folder; made if it is not there.
        may_change: the flags that are not among them, in words.

    Raises:
        UserError: if it was begun with others.
    """
    output.mkdir(parents=True, exist_ok=True)
    file = output / "settings.json"
    text = json.dumps(settings, indent=1) + "\n"
    if file.exists() and file.read_text(encoding="utf-8") != text:
        raise UserError(
            f"Expected the flags with which {output} was begun (settings.json); only {may_change} "
            "may change. Received: others. Name another --output_dir."
        )
    write_text_atomic(file, text)


def run(command: Sequence[str]) -> None:
    """Runs a command whose output goes on to ours; one that fails ends the program."""
    code = subprocess.run(command).returncode
    if code:
        raise UserError(f"Expected it to end well. Received: exit code {code}, see above.")


def lines(path: str | os.PathLike) -> list[str]:
    """Returns the lines of a text file."""
    return pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def mean(name: str, values: Iterable[float]) -> dict[str, float]:
    """Returns the mean and, of several, NAME_deviation, the standard deviation; {} of none."""
    values = list(values)
    found = {name: statistics.mean(values)} if values else {}
    return found | ({f"{name}_deviation": statistics.stdev(values)} if len(values) > 1 else {})


def shown(row: Mapping[str, Any], name: str, sign: str = "") -> str:
    """Returns what `mean` gave to a row as a cell of a table; sign: "+" of a difference."""
    if name not in row:
        return ""
    deviation = row.get(f"{name}_deviation")
    return f"{row[name]:{sign}.2f}" + ("" if deviation is None else f" ± {deviation:.2f}")
