"""A plain baseline for parsing: a PCFG read off the training trees, with the gold parts of speech.

    python benchmarks/pcfg_baseline.py --tmp_dir=raw --predicted=pcfg.trees [--json_file=pcfg.json]

--tmp_dir is that of t2t-datagen --treebank_dir: wsjTrain.trees and wsjTest.trees (or --split=Eval).
Labels are annotated with their parents (Johnson 1998), rules are made binary and forget all but the
last --horizontal children (Klein and Manning 2003), chains of single children become one label; all
that is nltk's. Probabilities are relative frequencies, the best tree is found exactly (CKY). It
sees the gold parts of speech and no word. A sentence without a tree gets one bracket, and is
counted. Needs nltk: pip install -e '.[test]'.
"""

import argparse
import collections
import json
import math
import pathlib
import time

import nltk
import numpy as np

from t2t_repro import progress
from t2t_repro.files import write_json, write_text_atomic
from t2t_repro.parsing import score, trees
from t2t_repro.text import raw

_MARK = "~"  # of nltk's labels in between: its own sign stands in PRT|ADVP


class Grammar:
    """A PCFG in Chomsky's normal form over parts of speech.

    Args:
        treebank: bracketed trees.
        horizontal: how many of the children before a rule in between remembers.
        vertical: how many ancestors a label has in its name.
    """

    def __init__(self, treebank: list[str], horizontal: int, vertical: int):
        counts: collections.Counter = collections.Counter()
        roots: collections.Counter = collections.Counter()
        for line in treebank:
            tree = _over_tags(nltk.Tree.fromstring(line))
            tree.collapse_unary(collapsePOS=True, collapseRoot=True)
            tree.chomsky_normal_form(horzMarkov=horizontal, vertMarkov=vertical, childChar=_MARK)
            roots[tree.label()] += 1
            counts.update(tree.productions())
        of = collections.Counter[str]()
        for rule, count in counts.items():
            of[rule.lhs()] += count
        self.labels = sorted({str(rule.lhs()) for rule in counts})
        number = {label: i for i, label in enumerate(self.labels)}
        log = {rule: math.log(count / of[rule.lhs()]) for rule, count in counts.items()}
        binary = [rule for rule in log if len(rule.rhs()) == 2]
        binary.sort(key=lambda rule: (number[str(rule.lhs())], str(rule.rhs())))
        self.left, self.right = (
            np.array([number[str(rule.rhs()[side])] for rule in binary]) for side in (0, 1)
        )
        self.weight = np.array([log[rule] for rule in binary])
        self.lhs = np.array([number[str(rule.lhs())] for rule in binary])
        self.leaves: dict[str, list[tuple[int, float]]] = collections.defaultdict(list)
        for rule, weight in log.items():
            if len(rule.rhs()) == 1:
                self.leaves[rule.rhs()[0]].append((number[str(rule.lhs())], weight))
        self.roots = np.full(len(self.labels), -np.inf)
        for label, count in roots.items():
            self.roots[number[label]] = math.log(count / len(treebank))

    def parse(self, tags: list[str]) -> nltk.Tree | None:
        """Returns the most probable tree over parts of speech, as nltk's transforms have it."""
        size = len(tags)
        chart = np.full((size, size + 1, len(self.labels)), -np.inf)  # from, to, label
        for place, tag in enumerate(tags):
            for label, weight in self.leaves.get(tag, []):
                chart[place, place + 1, label] = weight
        for width in range(2, size + 1):
            for start in range(size - width + 1):
                end = start + width
                left = np.isfinite(chart[start, start + 1 : end]).any(0)
                right = np.isfinite(chart[start + 1 : end, end]).any(0)
                rules = np.flatnonzero(left[self.left] & right[self.right])
                best = self._splits(chart, start, end, rules).max(0)
                np.maximum.at(chart[start, end], self.lhs[rules], best)
        found = chart[0, size] + self.roots
        if not np.isfinite(found.max()):
            return None
        return self._tree(chart, tags, 0, size, int(found.argmax()))

    def _splits(self, chart: np.ndarray, start: int, end: int, rules: np.ndarray) -> np.ndarray:
        """Returns what each of some rules is worth, (places to split, rules)."""
        left = chart[start, start + 1 : end][:, self.left[rules]]
        right = chart[start + 1 : end, end][:, self.right[rules]]
        return left + right + self.weight[rules]

    def _tree(self, chart, tags: list[str], start: int, end: int, label: int) -> nltk.Tree:
        if end == start + 1:
            return nltk.Tree(self.labels[label], [tags[start]])
        rules = np.flatnonzero(self.lhs == label)
        worth = self._splits(chart, start, end, rules)
        split, best = np.unravel_index(int(worth.argmax()), worth.shape)
        middle, rule = start + 1 + int(split), rules[best]
        return nltk.Tree(
            self.labels[label],
            [
                self._tree(chart, tags, start, middle, int(self.left[rule])),
                self._tree(chart, tags, middle, end, int(self.right[rule])),
            ],
        )


def predicted(grammar: Grammar, gold: str) -> tuple[str, bool]:
    """Returns the tree over the words of a gold tree, and whether the grammar has one."""
    leaves = trees.parse(gold).leaves()
    found = grammar.parse([leaf.label for leaf in leaves])
    if found is None:
        flat = [trees.Tree("S", leaves)]
        return str(trees.Tree("TOP", flat)), False
    found.un_chomsky_normal_form(childChar=_MARK)
    tree = trees.parse(" ".join(found.pformat(margin=10**9).split()))
    for node, leaf in zip(tree.leaves(), leaves, strict=True):
        node.word = leaf.word
    return str(tree), True


def _over_tags(tree: nltk.Tree) -> nltk.Tree:
    """Returns a tree whose leaves are the parts of speech."""
    for place in tree.treepositions("leaves"):
        tree[place] = tree[place[:-1]].label()
    return tree


def main(argv: list[str] | None = None) -> dict:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tmp_dir", required=True, help="the folder of the trees files")
    parser.add_argument("--predicted", required=True, help="where to write the trees")
    parser.add_argument("--split", default="Test", choices=("Eval", "Test"))
    parser.add_argument("--horizontal", type=int, default=1)
    parser.add_argument("--vertical", type=int, default=1, help="0: no parents")
    parser.add_argument("--json_file", help="where to write the scores")
    args = parser.parse_args(argv)
    train, gold = (
        raw.required(args.tmp_dir, f"wsj{split}.trees") for split in ("Train", args.split)
    )
    started = time.process_time()
    grammar = Grammar(list(raw.lines(train)), args.horizontal, args.vertical)
    made = [predicted(grammar, line) for line in progress.track(raw.lines(gold), "Parsing")]
    write_text_atomic(args.predicted, "".join(f"{tree}\n" for tree, _ in made))
    scores, _, _ = score.score_files(gold, pathlib.Path(args.predicted))
    found = {
        "rules": len(grammar.weight),
        "labels": len(grammar.labels),
        "without a tree": sum(not has for _, has in made),
        **{name: {k: round(v, 2) for k, v in scores[name].items()} for name in ("all", "len<=40")},
        "processor_seconds": round(time.process_time() - started, 1),
    }
    print(json.dumps(found, indent=1))
    if args.json_file:
        write_json(args.json_file, found)
    return found


if __name__ == "__main__":
    main()
