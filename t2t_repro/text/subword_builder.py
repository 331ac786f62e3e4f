"""Build a subword vocabulary: the same as tensor2tensor's, by another algorithm.

tensor2tensor, for a minimum count `m`: begin with the alphabet as vocabulary. Four times, cut all
tokens with the vocabulary of the time before and count every string that begins at a cut and ends
anywhere in the token. Then go from the longest strings to the shortest: a string whose count is at
least `m` joins the vocabulary, and its count is taken off all its prefixes.

tensor2tensor does so with a table of all the strings, and anew for each of the ten or so values of
`m` that it tries. Here the ends of all tokens stand in one tree, made once, in which equal
beginnings are one path:

- Strings on one edge have the same count, so only the longest, at the node below, can join. What
  is left at a node is its own count plus what its children that did not join have left: one pass
  from the leaves to the root replaces the subtractions.
- The longest subtoken that fits at a position of a token is the nearest node above that position's
  leaf that is in the vocabulary: one pass from the root to the leaves finds it for all positions.
- Counts only shrink from one iteration to the next, so nodes which begin below `m` never matter.
  Nodes are sorted by count, and a value of `m` works on a prefix of the arrays.
"""

import bisect
import logging
from collections.abc import Mapping, Sequence

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.escaping import ESCAPE_CHARACTERS, escape_token

_log = logging.getLogger(__name__)


def build_to_target_size(
    target_size: int,
    token_counts: Mapping[str, int],
    min_val: int,
    max_val: int,
    *,
    max_subtoken_length: int | None = None,
    reserved_tokens: Sequence[str] | None = None,
    num_iterations: int = 4,
) -> list[str]:
    """The subtokens in the order of their ids. SubwordTextEncoder explains the arguments."""
    if target_size < 1:
        raise UserError(f"Expected a target_size of 1 or more. Received: {target_size}.")
    if min_val > max_val:
        raise UserError(f"Expected min_val <= max_val. Received: {min_val=}, {max_val=}.")
    if num_iterations < 1:
        raise UserError(f"Expected num_iterations of 1 or more. Received: {num_iterations}.")
    if max_subtoken_length is not None and max_subtoken_length < 2:
        raise UserError(
            "Expected max_subtoken_length of 2 or more: subtokens have fewer characters than it "
            f"says. Received: {max_subtoken_length}."
        )
    if reserved_tokens is None:
        reserved_tokens = RESERVED_TOKENS
    if reserved_tokens and tuple(reserved_tokens[:2]) != RESERVED_TOKENS:
        raise UserError(
            f"Expected reserved_tokens to begin with {', '.join(RESERVED_TOKENS)}. "
            f"Received: {list(reserved_tokens)}."
        )
    if not token_counts:
        raise UserError("Expected text to build a vocabulary from. Received: no tokens at all.")

    tree = _SuffixTree(token_counts, reserved_tokens, max_subtoken_length)
    smallest = len(tree.alphabet) + len(reserved_tokens)
    if target_size < smallest:
        _log.warning(
            "A vocabulary of %d was asked for, but the characters of the text alone need %d: it "
            "will be larger.",
            target_size,
            smallest,
        )

    def search(low: int, high: int) -> list[str]:
        middle = (low + high) // 2
        subtokens = tree.subtokens(middle, num_iterations)
        _log.info("Minimum count %d gives %d subtokens.", middle, len(subtokens))
        miss = abs(len(subtokens) - target_size)
        if miss * 100 < target_size or low >= high or middle < 2:
            return subtokens
        if len(subtokens) > target_size:
            other = search(middle + 1, high)
        else:
            other = search(low, middle - 1)
        return other if abs(len(other) - target_size) < miss else subtokens

    subtokens = search(min_val, max_val)
    for reserved in subtokens[: len(reserved_tokens)]:
        if subtokens.count(reserved) > 1:
            raise UserError(
                "Expected reserved tokens that are unique and do not occur in the text. "
                f"Received: {reserved.removesuffix('_')!r}, which would have two ids. Choose "
                "one that is no word, such as <sep>."
            )
    return subtokens


class _SuffixTree:
    """The ends of all escaped tokens in a tree; node 0 is the root.

    A node stands for the string on the path from the root to it. Numbers grow from parent to
    child. After the root, the single characters and the paths to the reserved tokens ("fixed",
    never left out), nodes are sorted by falling count.
    """

    def __init__(
        self,
        token_counts: Mapping[str, int],
        reserved_tokens: Sequence[str],
        max_subtoken_length: int | None,
    ):
        characters = {c for token in (*token_counts, *reserved_tokens) for c in token}
        # tensor2tensor keeps a newline as well. It would cut its line of the file in two.
        self.alphabet = ESCAPE_CHARACTERS | characters - {"\n"}
        self.reserved = [escape_token(token, self.alphabet) for token in reserved_tokens]
        # tensor2tensor's range ends one before max_subtoken_length.
        bound = None if max_subtoken_length is None else max_subtoken_length - 1
        cut = None if bound is None else max([bound, *map(len, self.reserved)])

        # Every position of every token, token after token: the string that begins there, by the
        # order of first occurrence, and the count of the token.
        strings: dict[str, int] = {}
        positions: list[int] = []
        self.position_counts: list[int] = []
        for token, count in token_counts.items():
            escaped = escape_token(token, self.alphabet)
            length = len(escaped)
            for start in range(length):
                stop = length if cut is None else start + cut
                positions.append(strings.setdefault(escaped[start:stop], len(strings)))
            self.position_counts += [count] * length

        fixed = [*self.alphabet, *self.reserved]
        nodes = set(strings).union(fixed)
        if bound is not None:
            nodes.update([string[:bound] for string in strings])
        parents, depths, texts, node_of = _tree(sorted(nodes))

        counts = [0] * len(parents)
        leaves = [node_of[string] for string in strings]
        for position, count in zip(positions, self.position_counts, strict=True):
            counts[leaves[position]] += count
        order = sorted(range(len(parents)), key=depths.__getitem__)
        for node in reversed(order[1:]):
            counts[parents[node]] += counts[node]

        is_fixed = bytearray(len(parents))
        is_fixed[0] = 1
        for string in fixed:
            node = node_of[string]
            while not is_fixed[node]:
                is_fixed[node] = 1
                node = parents[node]
        # Sorting is stable: what goes first by depth stays first among equals.
        order.sort(key=counts.__getitem__, reverse=True)
        by_depth = sorted((n for n in order if is_fixed[n]), key=depths.__getitem__)
        self.num_fixed = len(by_depth)
        order = by_depth + [node for node in order if not is_fixed[node]]

        number = [0] * len(order)
        for new, old in enumerate(order):
            number[old] = new
        self.parents = [number[parents[old]] for old in order]
        self.depths = [depths[old] for old in order]
        self.texts = [texts[old] for old in order]
        self.counts = [counts[old] for old in order]
        self.positions = [number[leaves[position]] for position in positions]
        self.always = {number[node_of[string]] for string in fixed}
        self.character_nodes = {c: number[node_of[c]] for c in self.alphabet}
        self.negative_counts = [-count for count in self.counts[self.num_fixed :]]
        self.can_join = [depth > 1 and (bound is None or depth <= bound) for depth in self.depths]

    def subtokens(self, min_count: int, num_iterations: int) -> list[str]:
        """The vocabulary of the strings with a count of at least `min_count`."""
        min_count = max(min_count, 1)
        kept = self.num_fixed + bisect.bisect_right(self.negative_counts, -min_count)
        parents = self.parents[:kept]
        nearest = list(range(kept))  # each node's nearest ancestor that is kept
        for parent in self.parents[kept:]:
            nearest.append(nearest[parent])
        positions = [nearest[node] for node in self.positions]

        # In the first iteration every position is a cut.
        left = self.counts[:kept]
        for node in range(1, kept):
            left[parents[node]] -= self.counts[node]
        joined = self._join(left, min_count, parents)
        for _ in range(num_iterations - 1):
            left = self._count_cuts(positions, self._longest_match(joined, parents))
            joined = self._join(left, min_count, parents)

        ranked = [(left[node], self.texts[node][: self.depths[node]]) for node in joined]
        ranked += [(left[node], character) for character, node in self.character_nodes.items()]
        ranked.sort(reverse=True)
        return self.reserved + [subtoken for _, subtoken in ranked]

    def _join(self, left: list[int], min_count: int, parents: list[int]) -> list[int]:
        """The nodes that join the vocabulary.

        `left` has for each node the count of the strings which end at it or before its children.
        It is changed to what is left of the node's count when its own turn comes.
        """
        joined = []
        can_join = self.can_join
        for node in range(len(left) - 1, 0, -1):
            count = left[node]
            if count >= min_count and can_join[node]:
                joined.append(node)
            else:
                left[parents[node]] += count
        return joined

    def _longest_match(self, joined: list[int], parents: list[int]) -> list[int]:
        """For each node, the length of the longest subtoken that its string begins with."""
        match = [0] * len(parents)
        for node in joined:
            match[node] = self.depths[node]
        for node in self.always:
            match[node] = self.depths[node]
        for node, parent in enumerate(parents):
            if not match[node]:
                match[node] = match[parent]
        return match

    def _count_cuts(self, positions: list[int], match: list[int]) -> list[int]:
        """Cut all tokens, and sum up the counts of the cuts by node."""
        sums = [0] * len(match)
        counts = self.position_counts
        here, end = 0, len(positions)
        while here < end:
            node = positions[here]
            sums[node] += counts[here]
            here += match[node]
        return sums


def _tree(strings: list[str]) -> tuple[list[int], list[int], list[str], dict[str, int]]:
    """The tree of sorted, distinct strings, with a node wherever two of them part.

    Returns:
      for each node its parent, its depth and a string that begins with it, and the node of each
      string.
    """
    parents, depths, texts = [0], [0], [""]
    node_of = {}
    path = [0]  # from the root to the node of the string before
    before = ""
    for string in strings:
        shared = 0
        for a, b in zip(before, string, strict=False):
            if a != b:
                break
            shared += 1
        while depths[path[-1]] > shared:
            below = path.pop()
            if depths[path[-1]] < shared:  # they part in the middle of an edge
                parents[below] = len(parents)
                parents.append(path[-1])
                path.append(parents[below])
                depths.append(shared)
                texts.append(string)
        node_of[string] = len(parents)
        parents.append(path[-1])
        path.append(node_of[string])
        depths.append(len(string))
        texts.append(string)
        before = string
    return parents, depths, texts, node_of
