"""A Penn Treebank folder as people have it: its files, their trees, and the usual cleaning.

Files are called wsj_SSNN.mrg, SS the section and NN the number in it, and lie anywhere below the
folder: parsed/mrg/wsj/02/wsj_0200.mrg of the LDC's, or combined/wsj_0001.mrg of NLTK's sample.
Trees span many lines:

    ( (S
        (NP-SBJ (-NONE- *) )
        (VP (VB Go) )))
"""

import fractions
import itertools
import math
import os
import pathlib
import re
from collections.abc import Iterator, Sequence

from t2t_repro.errors import UserError
from t2t_repro.files import write_text_atomic
from t2t_repro.parsing import trees
from t2t_repro.parsing.trees import Tree
from t2t_repro.text import raw

TRAIN_SECTIONS, DEV_SECTIONS, TEST_SECTIONS = range(2, 22), (22,), (23,)
Files = list[pathlib.Path]

_NAME = re.compile(r"wsj_(\d{4})\.mrg", re.IGNORECASE)
_ROOTS = ("", "TOP", "S1", "ROOT")  # what treebanks and parsers call the outermost bracket


def files(folder: str | os.PathLike) -> dict[int, pathlib.Path]:
    """Returns the treebank's files below `folder` by number, such as 200 of wsj_0200.mrg.

    Raises:
        UserError: if there is none, or one of a number is there twice.
    """
    root = pathlib.Path(folder).expanduser()
    if not root.is_dir():
        raise UserError(
            f"Expected --treebank_dir to be the folder of a Penn Treebank. Received: {root}, which "
            "is no folder. Unpack the treebank and name the folder."
        )
    by_number: dict[int, pathlib.Path] = {}
    for path in sorted(root.rglob("*")):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            number = int(match[1])
            if number in by_number:
                raise UserError(
                    f"Expected each file of the treebank once below {root}. Received: "
                    f"{by_number[number]} and {path}. Name the folder of one of them."
                )
            by_number[number] = path
    if not by_number:
        others = sorted(path.name for path in root.iterdir())
        raise UserError(
            f"Expected files wsj_0200.mrg and so on, of a Penn Treebank, below {root}. Received: "
            f"none; it holds {', '.join(others[:5]) or 'nothing'}. Name the folder that has them, "
            "such as treebank_3/parsed/mrg/wsj."
        )
    return dict(sorted(by_number.items()))


def split(
    by_number: dict[int, pathlib.Path], shares: str | None = None
) -> tuple[Files, Files, Files]:
    """Returns the files of training, dev and test.

    Args:
        by_number: the result of `files`.
        shares: None: sections 02-21, 22 and 23. Or the three shares of the files in their order,
            such as "0.8,0.1,0.1"; a border that falls inside a file is moved behind it.

    Raises:
        UserError: if sections are missing, or `shares` are not three that sum to 1, or one of the
            splits gets no file.
    """
    if shares is None:
        return _split_by_section(by_number)
    received = f"Received: {shares!r}. Give three shares, such as 0.8,0.1,0.1."
    try:
        parts = [fractions.Fraction(part.strip()) for part in shares.split(",")]
    except (ValueError, ZeroDivisionError):
        raise UserError(f"Expected --treebank_split to be numbers. {received}") from None
    if len(parts) != 3 or sum(parts) != 1 or min(parts) < 0:
        raise UserError(
            "Expected --treebank_split to be the shares of training, dev and test, which sum to "
            f"1. {received}"
        )
    borders = [math.ceil(len(by_number) * share) for share in itertools.accumulate(parts)]
    paths = list(by_number.values())
    result = paths[: borders[0]], paths[borders[0] : borders[1]], paths[borders[1] :]
    if not all(result):
        raise UserError(
            "Expected --treebank_split to leave files for training, dev and test. Received: "
            f"{shares!r} of {len(paths)} files, which gives {len(result[0])}, {len(result[1])} "
            f"and {len(result[2])}. Give other shares."
        )
    return result


def _split_by_section(by_number: dict[int, pathlib.Path]) -> tuple[Files, Files, Files]:
    sections = {number // 100 for number in by_number}
    missing = sorted({*TRAIN_SECTIONS, *DEV_SECTIONS, *TEST_SECTIONS} - sections)
    if missing:
        raise UserError(
            "Expected sections 02 to 21 of the treebank for training, 22 for dev and 23 for test. "
            f"Received: {len(by_number)} files of sections {_listed(sorted(sections))}; "
            f"{_listed(missing)} are missing. To split the files that there are, add "
            "--treebank_split=0.8,0.1,0.1."
        )

    def of(wanted: Sequence[int]) -> Files:
        return [path for number, path in by_number.items() if number // 100 in wanted]

    return of(TRAIN_SECTIONS), of(DEV_SECTIONS), of(TEST_SECTIONS)


def _listed(numbers: Sequence[int]) -> str:
    """Returns "00-01, 05" of [0, 1, 5]."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{r[0]:02d}-{r[-1]:02d}" if len(r) > 1 else f"{r[0]:02d}" for r in runs)


def read(path: str | os.PathLike) -> Iterator[Tree]:
    """Yields a file's cleaned trees; one of which nothing but traces remains is left out.

    Raises:
        UserError: on brackets that do not match, by file and line; or as `raw.lines` does.
    """
    lines: list[str] = []
    depth = start = 0
    for number, line in enumerate(raw.lines(path), start=1):
        for piece in re.findall(r"[^()]+|[()]", line):
            if piece == "(" and depth == 0 and not lines:
                start = number
            depth += {"(": 1, ")": -1}.get(piece, 0)
            if depth < 0:
                raise UserError(
                    f"{os.fspath(path)}, line {number}: expected as many ( as ), but one ) too "
                    f"many stands here. Received: {line.strip()[:60]!r}. Mend the file."
                )
            if depth == 0 and not lines and piece.strip() not in ("", ")"):
                raise UserError(
                    f"{os.fspath(path)}, line {number}: expected a bracketed tree. Received: "
                    f"{line.strip()[:60]!r}. Mend the file."
                )
            if depth or piece == ")":
                lines.append(piece)
            if depth == 0 and lines:
                tree = clean(trees.parse("".join(lines), f"{os.fspath(path)}, line {start}"))
                lines = []
                if tree is not None:
                    yield tree
        if lines:
            lines.append(" ")
    if lines:
        raise UserError(
            f"{os.fspath(path)}, line {start}: expected as many ) as (, but the tree that begins "
            f"here is never closed: {depth} more ) are missing. Mend the file."
        )


def clean(tree: Tree) -> Tree | None:
    """Returns the tree as parsers are trained on: under TOP, no traces, no function tags.

    -LRB- and its like stay, and so do labels such as PRT|ADVP. None: nothing but traces was there.
    """
    root = Tree("TOP")
    copies = [root]  # of the brackets that are open
    for node, opens in tree.walk():
        if node.word is not None:
            if opens and node.label != trees.TRACE:
                copies[-1].children.append(Tree(bare_label(node.label), word=node.word))
        elif opens:
            copies.append(Tree(bare_label(node.label)))
        else:
            copy = copies.pop()
            if node is tree and copy.label in _ROOTS:
                root.children = copy.children
            elif copy.children:
                copies[-1].children.append(copy)
    return root if root.children else None


def write(path: pathlib.Path, some: Sequence[Tree]) -> None:
    """Writes a file of trees, one a line; see `_write`."""
    _write(path, "".join(f"{tree}\n" for tree in some))


def write_words(path: pathlib.Path, some: Sequence[Tree]) -> None:
    """Writes the words of trees, a sentence a line; see `_write`."""
    _write(path, "".join(" ".join(tree.words()) + "\n" for tree in some))


def _write(path: pathlib.Path, text: str) -> None:
    """Writes a file; one that is there already is left as it is.

    Raises:
        UserError: if another is there: data made of it would not be those of the new split.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(path, text)
    elif path.read_bytes() != text.encode():
        raise UserError(
            f"Expected {path} as --treebank_dir and --treebank_split make it, or none. Received: "
            "another. Give the same flags as before, or another --tmp_dir and --data_dir; or "
            "delete it, and make the data again by --overwrite."
        )


def bare_label(label: str) -> str:
    """Returns a label without function tags and indices: NP of NP-SBJ-1 and NP=2; -LRB- whole."""
    if label.startswith("-"):
        return label
    return re.split("[-=]", label, maxsplit=1)[0]
