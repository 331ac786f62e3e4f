"""docs/scaling.md shows what the program prints."""

import re
from pathlib import Path

from t2t_repro.studies.paper import hardware, scaling

DOC = Path(__file__).parents[3] / "docs" / "scaling.md"
COMMAND = re.compile(r"t2t-paper --tables=scaling --hardware=(\w+)(?: --efficiency=([\d.]+))?")


def test_every_table_is_what_its_command_prints():
    text = DOC.read_text(encoding="utf-8")
    commands = COMMAND.findall(text)
    assert {name for name, _ in commands} == {"P100", "H200"}
    for name, efficiency in commands:
        for table in scaling.tables(
            hardware.Hardware(1, hardware.DEVICES[name]), float(efficiency or 0) or None
        ):
            _, rows, *_ = table.markdown().split("\n\n")
            assert rows in text, f"paste the table of --hardware={name}: {table.title}"
