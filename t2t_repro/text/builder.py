"""Build a subword vocabulary: the same as tensor2tensor's, by another algorithm.

tensor2tensor, for a minimum count `m`: begin with the alphabet as vocabulary. Four times, cut all
tokens with the vocabulary of the time before and count every string that begins at a cut and ends
anywhere in the token. Then go from the longest strings to the shortest: a string whose count is at
least `m` joins the vocabulary, and its count is taken off all its prefixes.

tensor2tensor does so with a table of all the strings, and anew for each of the ten or so values of
`m` that it tries. Here the ends of all tokens are sorted once, and stand in a tree in which equal
beginnings are one path:

- Strings on one edge have the same count, so only the longest, at the node below, can join. What
  is left at a node is its own count plus what its children that did not join have left: one pass
  from the leaves to the root replaces the subtractions.
- The longest subtoken that fits at a position of a token is the nearest node above that position's
  leaf that is in the vocabulary: one pass from the root to the leaves finds it for all positions.
- Counts only shrink from one iteration to the next, so nodes which begin below `m` never matter.
  The tree leaves them out, and is made again with more when a smaller `m` is tried: a large text,
  which has millions of different tokens, has a small tree.

Each pass goes level by level through arrays of numbers.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from t2t_repro.errors import UserError
from t2t_repro.text.encoders import RESERVED_TOKENS
from t2t_repro.text.escaping import ESCAPE_CHARACTERS, escape_token


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
    """Returns the subtokens in the order of their ids; see SubwordTextEncoder."""
    if reserved_tokens is None:
        reserved_tokens = RESERVED_TOKENS
    if not token_counts:
        raise UserError("Expected text to build a vocabulary from. Received: no tokens.")

    tree = _SuffixTree(token_counts, reserved_tokens, max_subtoken_length)

    def search(low: int, high: int) -> list[str]:
        middle = (low + high) // 2
        subtokens = tree.subtokens(middle, num_iterations)
        miss = abs(len(subtokens) - target_size)
        if miss * 100 < target_size or low >= high or middle < 2:
            return subtokens
        if len(subtokens) > target_size:
            other = search(middle + 1, high)
        else:
            other = search(low, middle - 1)
        return other if abs(len(other) - target_size) < miss else subtokens

    return search(min_val, max_val)


class _SuffixTree:
    """The ends of all escaped tokens. P is the number of positions of all tokens, one by one.

    The tree has a node for each string that begins at a position with a count of at least
    `self.least`, that is as long as its count allows. Its nodes are numbered from the root (0),
    level by level. It is made by `_grow`.
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
        escaped = [escape_token(token, self.alphabet) for token in token_counts]
        escaped += self.reserved  # that they have nodes; they count for nothing
        # tensor2tensor's range ends one before max_subtoken_length.
        longest = max(map(len, escaped))
        self.bound = longest if max_subtoken_length is None else max_subtoken_length - 1
        deepest = max([self.bound, *map(len, self.reserved)])

        self.text = "".join(escaped)
        lengths = np.fromiter(map(len, escaped), np.int64, len(escaped))
        counts = np.zeros(len(escaped), np.int64)
        counts[: len(token_counts)] = np.fromiter(token_counts.values(), np.int64)
        ends = np.cumsum(lengths)
        self.starts = ends - lengths  # of the tokens
        self.token_counts = counts
        self.token_ends = ends
        codes = np.frombuffer(self.text.encode("utf-32-le", "surrogatepass"), np.uint32)
        rest = (np.repeat(ends, lengths) - np.arange(len(codes))).astype(np.int32)  # to the end
        self.order = _sorted_ends(codes, rest, deepest)
        self.rest = np.minimum(rest[self.order], deepest)
        self.shared = _shared_beginnings(codes, self.order, self.rest)
        self.counts = np.repeat(counts, lengths)[self.order]
        is_reserved = np.zeros(len(codes), np.int64)
        is_reserved[self.starts[len(token_counts) :]] = 1
        self.is_reserved = is_reserved[self.order]
        self.least = 0

    def subtokens(self, min_count: int, num_iterations: int) -> list[str]:
        """Returns the vocabulary of the strings with a count of at least `min_count`."""
        min_count = max(min_count, 1)
        if not self.least or min_count < self.least:
            self._grow(max(min_count // 8, 1))
        # In the first iteration every position is a cut.
        left = np.zeros(len(self.parents), np.int64)
        np.add.at(left, self.nodes, self.counts_by_position)
        joined = self._join(left, min_count)
        for _ in range(num_iterations - 1):
            left = self._count_cuts(self._longest_match(joined))
            joined = self._join(left, min_count)

        is_character = self.depths == 1
        kept = np.flatnonzero(joined | is_character)
        ranked = [
            (count, self.text[start : start + depth])
            for count, start, depth in zip(
                left[kept].tolist(),
                self.begins[kept].tolist(),
                self.depths[kept].tolist(),
                strict=True,
            )
        ]
        in_text = {self.text[start] for start in self.begins[is_character].tolist()}
        ranked += [(0, character) for character in self.alphabet - in_text]
        ranked.sort(reverse=True)
        return self.reserved + [subtoken for _, subtoken in ranked]

    def _grow(self, least: int) -> None:
        """Makes the tree of the strings with a count of at least `least`.

        Besides these it has all single characters and the reserved tokens.
        """
        self.least = least
        sums = np.concatenate([[0], np.cumsum(self.counts)])
        reserved_sums = np.concatenate([[0], np.cumsum(self.is_reserved)])
        at = np.zeros(len(self.order), np.int32)  # the deepest node of each end, in sorted order
        root = np.zeros(1, np.int32)
        depths, parents, begins, is_always = [root], [root], [root], [root.astype(bool)]
        self.levels: list[slice] = []
        # The inner nodes of a level: their ends are those from low to high in sorted order.
        low, high = np.zeros(1, np.int64), np.full(1, len(self.order))
        number, level_depths = root, root
        while len(low):
            # All ends below the nodes of this level; a child begins where they share no more.
            sizes = high - low
            index = np.repeat(low - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
            depth = np.repeat(level_depths, sizes)
            begins_child = self.shared[index] <= depth
            begins_child[np.cumsum(sizes) - sizes] = True
            first = np.flatnonzero(begins_child)
            child_low = index[first]
            child_sizes = np.diff(np.append(first, len(index)))
            shared = np.where(begins_child, self.rest[index], self.shared[index])
            child_depths = np.minimum.reduceat(shared, first)
            if not self.levels:  # below the root are the single characters
                child_depths = np.ones_like(child_depths)
            before = depth[first]
            crosses = (before < self.bound) & (child_depths > self.bound)
            child_depths = np.where(crosses, self.bound, child_depths)
            child_high = child_low + child_sizes
            holds_reserved = reserved_sums[child_high] > reserved_sums[child_low]
            kept = (sums[child_high] - sums[child_low] >= least) | holds_reserved
            kept |= child_depths == 1
            parent = np.repeat(number, sizes)[first]

            low, high, level_depths = child_low[kept], child_high[kept], child_depths[kept]
            begin = sum(map(len, depths))
            number = np.arange(begin, begin + len(low), dtype=np.int32)
            sizes = high - low
            at[np.repeat(low - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())] = (
                np.repeat(number, sizes)
            )
            self.levels.append(slice(begin, begin + len(low)))
            depths.append(level_depths)
            parents.append(parent[kept])
            begins.append(self.order[low])
            whole = holds_reserved[kept] & (level_depths == self.rest[low])
            is_always.append(whole | (level_depths == 1))
            inner = level_depths < self.rest[low]
            low, high, number = low[inner], high[inner], number[inner]
            level_depths = level_depths[inner]

        self.parents, self.depths = np.concatenate(parents), np.concatenate(depths)
        self.begins = np.concatenate(begins).astype(np.int64)
        self.is_always = np.concatenate(is_always)
        self.can_join = (self.depths > 1) & (self.depths <= self.bound)
        self.nodes = np.empty_like(at)  # of each position, in the order of the text
        self.nodes[self.order] = at
        self.counts_by_position = np.empty_like(self.counts)
        self.counts_by_position[self.order] = self.counts

    def _join(self, left: np.ndarray, min_count: int) -> np.ndarray:
        """Returns which nodes join the vocabulary.

        `left` has for each node the count of the strings which end at it or before its children.
        It is changed to what is left of the node's count when its own turn comes.
        """
        joined = np.zeros(len(left), bool)
        for level in reversed(self.levels):
            counts = left[level]
            joined[level] = (counts >= min_count) & self.can_join[level]
            np.add.at(left, self.parents[level], np.where(joined[level], 0, counts))
        return joined

    def _longest_match(self, joined: np.ndarray) -> np.ndarray:
        """Returns for each node the length of the longest subtoken that its string begins with."""
        match = np.where(joined | self.is_always, self.depths, 0)
        for level in self.levels:
            match[level] = np.where(match[level], match[level], match[self.parents[level]])
        return match

    def _count_cuts(self, match: np.ndarray) -> np.ndarray:
        """Returns the counts of the cuts of all tokens, summed up by node."""
        sums = np.zeros(len(match), np.int64)
        here, ends, counts = self.starts, self.token_ends, self.token_counts
        while len(here):
            nodes = self.nodes[here]
            np.add.at(sums, nodes, counts)
            here = here + match[nodes]
            more = here < ends
            here, ends, counts = here[more], ends[more], counts[more]
        return sums


def _sorted_ends(codes: np.ndarray, rest: np.ndarray, deepest: int) -> np.ndarray:
    """Returns the positions in the order of the strings from there to the end of their tokens.

    By doubling: the order of the first 2k characters is that of two numbers, the places of the
    first k and of the k behind them. Characters beyond `deepest` may be left out.
    """
    rank = (np.unique(codes, return_inverse=True)[1] + 1).astype(np.int64)  # 0: beyond the end
    positions, width = np.arange(len(codes)), 1
    while width < deepest and (rest > width).any():
        inside = rest > width
        behind = np.where(inside, rank[np.minimum(positions + width, len(codes) - 1)], 0)
        key = rank * (rank.max() + 1) + behind
        rank = np.unique(key, return_inverse=True)[1] + 1
        width *= 2
    return np.argsort(rank, kind="stable")


def _shared_beginnings(codes: np.ndarray, order: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Returns how many characters each end has in common with the one before it in the order."""
    shared = np.zeros(len(order), np.int32)
    index = np.arange(1, len(order))
    depth = 0
    while len(index):
        inside = (rest[index] > depth) & (rest[index - 1] > depth)
        index = index[inside]
        index = index[codes[order[index] + depth] == codes[order[index - 1] + depth]]
        depth += 1
        shared[index] = depth
    return shared
