"""Bracketed trees: reading, writing, T2T's linearisation, and the way back from predicted tags.

A tree of the Penn Treebank, on one line, and its linearisation (Vinyals et al., 2015):

    (TOP (S (NP (PRP It)) (VP (VBZ works)) (. .)))
    words: It works .
    tags:  S NP PRP /NP VP VBZ /VP . /S
"""

import dataclasses
import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_repro.errors import UserError

TRACE = "-NONE-"  # the Penn Treebank's label over what stands for a word that is not there
# The Penn Treebank's phrase labels. Where nothing is known of a treebank, every other label in
# predicted tags is a part of speech.
PHRASE_LABELS = frozenset(
    "ADJP ADVP ADVP|PRT CONJP FRAG INTJ LST NAC NP NX PP PRN PRT PRT|ADVP QP RRC S SBAR SBARQ "
    "SINV SQ TOP UCP VP WHADJP WHADVP WHNP WHPP X".split()
)


@dataclasses.dataclass(frozen=True)
class PhraseLabels:
    """Tells labels that open a phrase, with function tags looked through ("NP-SBJ" is one of "NP").

    Args:
        phrases: without function tags, or with them.
        parts_of_speech: labels that are none, such as "N-SG" where "N" is one.
    """

    phrases: frozenset[str] = PHRASE_LABELS
    parts_of_speech: frozenset[str] = frozenset()

    def __contains__(self, label: object) -> bool:
        if label in self.phrases or label in self.parts_of_speech:
            return label in self.phrases
        return re.split("[-=]", str(label))[0] in self.phrases


PENN = PhraseLabels()
# Words are cut at ASCII blanks, as by EVALB; a no-break space is within a word.
split = re.compile(r"\S+", re.ASCII).findall


@dataclasses.dataclass
class Tree:
    """A bracket: a part of speech over one word, or a phrase over brackets."""

    label: str
    children: list["Tree"] = dataclasses.field(default_factory=list)
    word: str | None = None

    def leaves(self) -> list["Tree"]:
        """Returns the brackets that hold words, from left to right."""
        return [node for node, opens in self.walk() if opens and node.word is not None]

    def leaves_without_traces(self) -> list["Tree"]:
        """Returns the brackets that hold words of the sentence, from left to right."""
        return [leaf for leaf in self.leaves() if leaf.label != TRACE]

    def words(self) -> list[str]:
        """Returns the words from left to right."""
        return [leaf.word for leaf in self.leaves() if leaf.word is not None]

    def walk(self) -> Iterator[tuple["Tree", bool]]:
        """Yields (bracket, True) where it opens and (bracket, False) where it closes."""
        pending = [(self, True)]
        while pending:
            node, opens = pending.pop()
            yield node, opens
            if opens:
                pending.append((node, False))
                pending += [(child, True) for child in reversed(node.children)]

    def __str__(self) -> str:
        """Returns the tree on one line; round brackets in words are written -LRB- and -RRB-."""
        parts = []
        for node, opens in self.walk():
            if opens:
                parts.append(f" ({_escape(node.label)}")
                parts.append("" if node.word is None else f" {_escape(node.word)}")
            else:
                parts.append(")")
        return "".join(parts).lstrip()


def parse(text: str, where: str = "tree") -> Tree:
    """Reads one bracketed tree.

    Args:
        text: the tree on one line; a bracket without a label, as around the trees of the Penn
            Treebank, has the label "".
        where: begins the message of an error, such as "wsj.trees, line 7".
    """
    found = list(parse_all(text, lambda at: where))
    if len(found) != 1:
        raise UserError(f"{where}: expected one bracketed tree. Received: {text!r:.80}.")
    return found[0]


def parse_all(text: str, where: Callable[[int], str]) -> Iterator[Tree]:
    """Yields the bracketed trees of a text, in which nothing else stands.

    Args:
        text: the trees.
        where: begins the message of an error, for what stands at a place of the text.

    Raises:
        UserError: on brackets that do not match, and words that are not alone in a bracket.
    """
    top, start = Tree(""), 0
    stack = [top]  # the brackets that are open

    def wrong(at: int) -> UserError:
        near = text[at : at + 40]
        return UserError(f"{where(at)}: expected (LABEL (LABEL word) ...). Received: {near!r}.")

    for match in _TOKEN.finditer(text):
        inner, at, word = stack[-1], match.start(), match["word"]
        if match["open"]:
            if inner.word is not None:
                raise wrong(at)
            start = at if inner is top else start
            stack.append(Tree(match["label"]))
            inner.children.append(stack[-1])
        elif inner is top or word and (inner.children or inner.word is not None):
            raise wrong(at)
        elif word:
            inner.word = word
        else:
            stack.pop()
            if stack[-1] is top:
                yield top.children.pop()
    if len(stack) > 1:
        raise wrong(start)


def words_and_tags_from_wsj_tree(tree_string: str, where: str = "tree") -> tuple[str, str]:
    """Returns the words of a tree and its linearised tags, as T2T's function of this name.

    The outermost bracket ("TOP") is left out of the tags.

    Args:
        tree_string: the bracketed tree on one line.
        where: begins the message of an error, such as "wsj.trees, line 7".
    """
    return linearised(parse(tree_string, where), where)


def linearised(tree: Tree, where: str) -> tuple[str, str]:
    """As `words_and_tags_from_wsj_tree`, of a tree that is read."""
    if tree.word is not None:
        raise UserError(f"{where}: expected an outer bracket: (TOP {tree}). Received: {tree}.")
    words, tags = [], []
    for node, opens in tree.walk():
        if node.word is not None:
            if opens:
                words.append(node.word)
                tags.append(node.label)
        elif not node.children:
            raise UserError(f"{where}: expected no empty bracket. Received: ({node.label}).")
        else:
            tags.append(node.label if opens else f"/{node.label}")
    return " ".join(words), " ".join(tags[1:-1])


def phrase_labels_of(trees: Iterable[Tree]) -> PhraseLabels:
    """Returns the labels that open a phrase where these are the gold trees: those of their phrases,
    and the Penn Treebank's, except those that are their parts of speech."""
    nodes = [node for tree in trees for node, opens in tree.walk() if opens]
    leaves = {node.label for node in nodes if node.word is not None}
    # Without that of the bracket around a raw tree, which is "".
    phrases = {node.label for node in nodes if node.word is None and node.label}
    return PhraseLabels((PHRASE_LABELS - leaves) | phrases, frozenset(leaves))


@dataclasses.dataclass(frozen=True)
class Repairs:
    """What had to be changed to make a tree of predicted tags; all zero: nothing."""

    unclosed: int = 0  # phrases whose end is missing; closed with what encloses them
    unopened: int = 0  # ends of phrases that are not open; left out
    missing_leaves: int = 0  # words without a part of speech
    extra_leaves: int = 0  # parts of speech without a word; left out
    empty: int = 0  # phrases without a word; left out

    @property
    def total(self) -> int:
        """The number of changes."""
        return sum(dataclasses.astuple(self))


def tree_from_words_and_tags(
    words: str | Sequence[str],
    tags: str | Sequence[str],
    parts_of_speech: str | Sequence[str] | None = None,
    phrase_labels: PhraseLabels = PENN,
) -> tuple[Tree, Repairs]:
    """Returns the tree, under TOP, that predicted tags give the words; it is always a valid one.

    The leaves are the given words, whatever the tags. Tags from `words_and_tags_from_wsj_tree` give
    back its tree without a repair where `phrase_labels` has its phrases. Where the tags hold more
    or fewer parts of speech than there are words, the two are aligned (by `parts_of_speech`, or
    else by punctuation), and a word that gets none joins the smallest phrase that its neighbours
    share.

    Args:
        words: the sentence, cut at blanks.
        tags: the predicted linearised tags.
        parts_of_speech: the true or separately predicted one of each word: written at the leaves
            in place of the predicted ones, and used to align. Bracketing is usually scored with
            the true ones, because EVALB tells punctuation by its part of speech.
        phrase_labels: the labels that open a phrase.
    """
    words = split(words) if isinstance(words, str) else list(words)
    tags = split(tags) if isinstance(tags, str) else list(tags)
    if isinstance(parts_of_speech, str):
        parts_of_speech = split(parts_of_speech)
    events, unclosed, unopened = _balance(tags, phrase_labels)
    predicted = [label for kind, label in events if kind == _LEAF]
    pairs = _align(predicted, parts_of_speech or [_PUNCTUATION.get(word) for word in words])
    labels = list(parts_of_speech or [_PUNCTUATION.get(word, "NN") for word in words])
    for tag, word in pairs:
        if tag is not None and word is not None and parts_of_speech is None:
            labels[word] = predicted[tag]

    kept = [word for tag, word in pairs if tag is not None]
    extra_leaves = sum(word is None for word in kept)
    missing_leaves = len(words) - len(kept) + extra_leaves
    root, empty = Tree("TOP"), 0
    stack = [root]
    for kind, at in _place(events, kept, len(words)):
        if kind == _OPEN:
            stack[-1].children.append(node := Tree(events[at][1]))
            stack.append(node)
        elif kind == _LEAF:
            stack[-1].children.append(Tree(labels[at], word=words[at]))
        elif not stack.pop().children:
            stack[-1].children.pop()
            empty += 1
    return root, Repairs(unclosed, unopened, missing_leaves, extra_leaves, empty)


_OPEN, _LEAF, _CLOSE = "open", "leaf", "close"
_TOKEN = re.compile(r"(?P<open>\()(?P<label>[^\s()]*)|\)|(?P<word>[^\s()]+)", re.ASCII)

# Words whose part of speech is certain: what aligns words with tags when nothing else does.
_PUNCTUATION = {
    **{mark: mark for mark in [",", ".", ":", "``", "''", "$", "#", "-LRB-", "-RRB-"]},
    **{"?": ".", "!": ".", ";": ":", "--": ":", "...": ":", "(": "-LRB-", ")": "-RRB-"},
}


def _escape(token: str) -> str:
    return token.replace("(", "-LRB-").replace(")", "-RRB-")


def _balance(
    tags: Sequence[str], phrase_labels: PhraseLabels
) -> tuple[list[tuple[str, str]], int, int]:
    """Returns balanced (kind, label) events, and how many phrases were unclosed and unopened."""
    events: list[tuple[str, str]] = []
    open_labels: list[str] = []
    unclosed = unopened = 0

    def close() -> str:
        label = open_labels.pop()
        events.append((_CLOSE, label))
        return label

    for tag in tags:
        if len(tag) > 1 and tag.startswith("/"):
            if tag[1:] not in open_labels:
                unopened += 1
                continue
            while close() != tag[1:]:
                unclosed += 1
        elif tag in phrase_labels:
            events.append((_OPEN, tag))
            open_labels.append(tag)
        else:
            events.append((_LEAF, tag))
    while open_labels:
        close()
        unclosed += 1
    return events, unclosed, unopened


def _align(
    predicted: Sequence[str], labels: Sequence[str | None]
) -> list[tuple[int | None, int | None]]:
    """Returns (predicted leaf, word) pairs in order; None where one has no partner."""
    if len(predicted) == len(labels):
        return [(i, i) for i in range(len(labels))]
    matcher = difflib.SequenceMatcher(None, predicted, labels, autojunk=False)
    pairs: list[tuple[int | None, int | None]] = []
    for _, tag, tag_end, word, word_end in matcher.get_opcodes():
        pairs += itertools.zip_longest(range(tag, tag_end), range(word, word_end))
    return pairs


def _place(
    events: Sequence[tuple[str, str]], kept: Sequence[int | None], word_count: int
) -> list[tuple[str, int]]:
    """Returns the events as (kind, index), each leaf with its word, and the missing words placed.

    Args:
        events: balanced events.
        kept: for each leaf among them the index of its word; None: the leaf is left out.
        word_count: the number of words; those that are not in `kept` are missing.
    """
    placed: list[tuple[str, int]] = []
    gap: list[tuple[str, int]] = []  # the events since the last word
    depths = [0]  # before each event of the gap, and behind the last
    next_word = 0
    leaves = iter([*kept, word_count])
    for index, (kind, _) in enumerate([*events, (_LEAF, "")]):  # ends with a leaf of no tag
        if kind != _LEAF:
            gap.append((kind, index))
            depths.append(depths[-1] + (1 if kind == _OPEN else -1))
            continue
        word = next(leaves)
        if word is None:
            continue
        # Missing words go where fewest phrases are open, but at the sentence's ends into its
        # outermost phrase.
        edge = next_word == 0 or word == word_count
        at = depths.index(min((d for d in depths if d or not edge), default=0))
        placed += [*gap[:at], *((_LEAF, missing) for missing in range(next_word, word)), *gap[at:]]
        placed.append((_LEAF, word))
        gap, depths, next_word = [], depths[-1:], word + 1
    return placed[:-1]
