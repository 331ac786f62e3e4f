"""Checks the prose of README.md and docs/: sentences of at most 25 words, and no forbidden word.

    python docs/check_words.py

It prints FILE:LINE and the sentence, and exits with 1 where there is one. Code, tables, headings
and links' targets are not prose.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST = 25
FORBIDDEN = {
    "but for": "except",
    "mend": "fix",
    "mended": "fixed",
    "whoever": "if you",
    "is told": "is reported",
    "is said": "is reported",
    "as asked": "as requested",
    "utilize": "use",
}
_WORD = re.compile(r"[\w`'./=<>-]*\w[\w`'./=<>-]*")
_END = re.compile(r"(?<=[.!?:;])[)\"*]*\s+(?=[\"(*`\[A-Z0-9-])")


def paragraphs(text: str):
    """Yields (line number, text) of each paragraph and list item."""
    lines = re.sub(r"^```.*?^```$", lambda m: "\n" * m.group().count("\n"), text, flags=re.S | re.M)
    start, kept = 0, []
    for number, line in enumerate([*lines.splitlines(), ""], start=1):
        ends = not line.strip() or line.lstrip().startswith(("|", "#", "- ", "* ", ">", "!["))
        if (ends or re.match(r"\s*\d+\. ", line)) and kept:
            yield start, " ".join(kept)
            kept = []
        if line.strip() and not line.lstrip().startswith(("|", "#", "![")):
            start = start if kept else number
            kept.append(re.sub(r"^\s*(?:[-*>]|\d+\.)\s+", "", line).strip())


def faults(text: str):
    """Yields (line number, what is wrong, the sentence)."""
    for number, paragraph in paragraphs(text):
        prose = re.sub(r"`[^`]*`", "CODE", re.sub(r"\]\([^)]*\)", "]", paragraph))
        for sentence in _END.split(prose):
            if len(words := _WORD.findall(sentence)) > MOST:
                yield number, f"{len(words)} words", sentence
        for word, instead in FORBIDDEN.items():
            if re.search(rf"\b{word}\b", prose, re.I):
                yield number, f'"{word}": write "{instead}"', prose


if __name__ == "__main__":
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    pages.append(ROOT / "benchmarks" / "RESULTS.md")
    found = [
        f"{page.relative_to(ROOT)}:{number}: {wrong}: {sentence}"
        for page in pages
        for number, wrong, sentence in faults(page.read_text(encoding="utf-8"))
    ]
    print("\n".join(found) or f"{len(pages)} pages: nothing to say")
    sys.exit(bool(found))
