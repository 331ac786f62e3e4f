"""Prints RESULTS.md from benchmarks/results/*.json: a table for each question.

python benchmarks/results.py > benchmarks/RESULTS.md
"""

import json
from pathlib import Path

FOLDER = Path(__file__).parent / "results"


def page() -> str:
    """Returns the page: the newest figures alone, then what was tried and did not help."""
    parts = [(FOLDER / "head.md").read_text(encoding="utf-8")]
    for path in sorted(FOLDER.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        parts += [f"## {found['title']}\n"]
        parts += ["{date}, {commit}; {machine}; {seeds}.\n".format(**found)]
        parts += ["```bash", *found["command"], "```\n"]
        head, *rows = [f"| {' | '.join(row)} |" for row in (found["columns"], *found["rows"])]
        parts += ["\n".join([head, "|---" * len(found["columns"]) + "|", *rows]) + "\n"]
        parts += [f"{note}\n" for note in found["notes"]]
    return "\n".join([*parts, (FOLDER / "failed.md").read_text(encoding="utf-8")])


if __name__ == "__main__":
    print(page(), end="")
