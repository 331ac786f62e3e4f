"""A Penn Treebank folder: its files, their trees, and the usual cleaning.

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
from collections.abc import Iterable, Iterator

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
    by_number: dict[int, pathlib.Path] = {}
    for path in sorted(root.rglob("*")):
        match = _NAME.fullmatch(path.name)
        if match and path.is_file():
            other = by_number.setdefault(int(match[1]), path)
            if other != path:
                raise UserError(
                    f"Expected each treebank file once below {root}. Received: {other} and {path}. "
                    "Give --treebank_dir a folder that has only one of these two files."
                )
    if not by_number:
        raise UserError(
            "Expected --treebank_dir to have files wsj_0200.mrg and so on, as "
            f"treebank_3/parsed/mrg/wsj has. Received: {root}, without such a file."
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
    try:
        parts = [fractions.Fraction(part.strip()) for part in shares.split(",")]
    except (ValueError, ZeroDivisionError):
        parts = []
    right = len(parts) == 3 and sum(parts) == 1 and min(parts) >= 0
    borders = [math.ceil(len(by_number) * share) for share in itertools.accumulate(parts)]
    paths = list(by_number.values())
    if not right or not 0 < borders[0] < borders[1] < len(paths):
        raise UserError(
            "Expected --treebank_split to be three shares for training, dev and test that sum to "
            f"1, and each share to hold at least one of the {len(paths)} files. Received: "
            f"{shares!r}. Example: 0.8,0.1,0.1."
        )
    return paths[: borders[0]], paths[borders[0] : borders[1]], paths[borders[1] :]


def _split_by_section(by_number: dict[int, pathlib.Path]) -> tuple[Files, Files, Files]:
    wanted = (TRAIN_SECTIONS, DEV_SECTIONS, TEST_SECTIONS)
    sections = {number // 100 for number in by_number}
    missing = sorted(set(itertools.chain(*wanted)) - sections)
    if missing:
        raise UserError(
            "Expected sections 02 to 21 of the treebank for training, 22 for dev and 23 for test. "
            f"Received: {len(by_number)} files, none of section "
            f"{', '.join(f'{number:02d}' for number in missing)}. To split the files that you "
            "have, add --treebank_split=0.8,0.1,0.1."
        )
    train, dev, test = (
        [path for number, path in by_number.items() if number // 100 in some] for some in wanted
    )
    return train, dev, test


def read(path: str | os.PathLike) -> Iterator[Tree]:
    """Yields a file's cleaned trees, except those with only traces.

    Raises:
        UserError: on brackets that do not match, by file and line; or as `raw.lines` does.
    """
    text = "\n".join(raw.lines(path))

    def where(at: int) -> str:
        return f"{os.fspath(path)}, line {text.count(chr(10), 0, at) + 1}"

    for tree in trees.parse_all(text, where):
        cleaned = clean(tree)
        if cleaned is not None:
            yield cleaned


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


def write(path: pathlib.Path, lines: Iterable[str]) -> None:
    """Writes a file of trees or words, unless the same one exists.

    Raises:
        UserError: if a different one exists, which would not be the new split's.
    """
    text = "".join(f"{line}\n" for line in lines)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text_atomic(path, text)
    elif path.read_bytes() != text.encode():
        raise UserError(
            f"Expected {path} to hold the trees of --treebank_dir and --treebank_split. "
            "Received: other trees. Delete the file, and make the data again with --overwrite."
        )


def bare_label(label: str) -> str:
    """Returns a label without function tags and indices: NP of NP-SBJ-1 and NP=2; -LRB- whole."""
    if label.startswith("-"):
        return label
    return re.split("[-=]", label, maxsplit=1)[0]
