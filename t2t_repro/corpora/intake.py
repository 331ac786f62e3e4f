"""Turns the user's text, of any format, into the files of a problem: one sentence a line.

Every pair passes once from its file to a spool, and from there to its split; memory holds only
candidates for dev and test. raw_record.py records inputs and outputs.
"""

import dataclasses
import itertools
import os
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence

from t2t_repro import __version__, progress
from t2t_repro.corpora import raw_record, splits
from t2t_repro.corpora.cleaner_en_xx import Pair
from t2t_repro.corpora.raw_record import Made, Names, RawFile, Record, Share, shown
from t2t_repro.corpora.request import Corpus, RawText
from t2t_repro.errors import UserError
from t2t_repro.files import scratch_folder, sha256


def prepare(
    tmp_dir: str | os.PathLike,
    request: RawText,
    names: Names,
    seed: int,
    say: Callable[[str], None] = progress.on_stderr,
) -> None:
    """Makes the files of a problem in `tmp_dir`, unless the same files exist.

    Args:
        tmp_dir: the folder; made where there is none.
        request: which files hold the text.
        names: {split: (source, target)}: the files to make, of "train", "dev" and "test".
        seed: decides which pairs are drawn, and which are repeated.
        say: receives a line for each decision.

    Raises:
        UserError: on unreadable or too little text, or on files not made here.
    """
    corpora = request.corpora()
    folder = pathlib.Path(tmp_dir)
    folder.mkdir(parents=True, exist_ok=True)
    if not (request.test_source or request.test_size):
        names = {split: names[split] for split in names if split != "test"}
    before = raw_record.read(folder)
    own = raw_record.own_files(folder, before, names)
    raw_files = [RawFile.from_path(path) for corpus in corpora for path in corpus.paths()]
    given = {name: value for name, value in dataclasses.asdict(request).items() if value}
    asked = {"seed": seed} | {
        name: shown(value) if isinstance(value, str) else value for name, value in given.items()
    }
    if before:
        if (before.request, before.raw_files, set(before.files)) == (asked, raw_files, own):
            say(f"Keeping the raw text in {folder}: it was made from the same files and flags.")
            return
        say(f"Making the raw text in {folder} again: the input files or flags have changed.")
    with scratch_folder(folder / "text") as unfinished:
        shares, left_out, files = _Work(unfinished, request, corpora, names, seed, say).make()
        for name in own:
            (folder / name).unlink()
        # Before the files get their names: what the record lacks is the user's.
        Record(__version__, asked, raw_files, shares, left_out, files).write(folder)
        for name in files:
            os.replace(unfinished / name, folder / name)
    for share in shares:
        often = "" if share.weight == 1 else f" x {share.weight:.4g}, {share.written:,} written"
        say(f"  {share.share:.1%} of {share.split}: {share.corpus}, {share.pairs:,} pairs{often}")
    if left_out:
        say(f"  dropped: {left_out:,} training pairs that are near-duplicates of dev or test")


class _Text:
    """Pairs in two files, one for each side."""

    def __init__(self, folder: pathlib.Path, names: tuple[str, str]):
        self._paths = [folder / name for name in names]
        self._files = [open(path, "w+", encoding="utf-8", newline="\n") for path in self._paths]
        self.lines = 0

    def add(self, pair: Pair) -> None:
        for file, text in zip(self._files, pair, strict=True):
            file.write(text + "\n")
        self.lines += 1

    def __iter__(self) -> Iterator[Pair]:
        for file in self._files:
            file.seek(0)
        for source, target in zip(*self._files, strict=True):
            yield source[:-1], target[:-1]

    def close(self) -> dict[str, Made]:
        """Returns what the files hold, by name."""
        for file in self._files:
            file.close()
        return {path.name: Made(sha256(path), self.lines) for path in self._paths}


@dataclasses.dataclass
class _Work:
    """One request, and the folder for what is made of it."""

    folder: pathlib.Path
    request: RawText
    corpora: list[Corpus]
    names: Names
    seed: int
    say: Callable[[str], None]

    def make(self) -> tuple[list[Share], int, dict[str, Made]]:
        """Returns the corpora's shares, how many pairs were dropped, and the files."""
        request, every = self.request, _Text(self.folder, ("sources", "targets"))
        dev = 0 if request.dev_source else request.dev_size or splits.MOST_DEV
        sample = splits.Sample(dev + (request.test_size or 0), self.seed)

        def keep(pair: Pair) -> None:
            sample.add(every.lines, pair)
            every.add(pair)

        sizes = self._read("train", keep)
        drawn = self._draw(every, sum(sizes), sample)
        text = _Text(self.folder, self.names["train"])
        shares = self._train(every, sizes, drawn, text)
        files = text.close()
        for split, part in (("dev", drawn.dev), ("test", drawn.test)):
            if split not in self.names:
                continue
            text = _Text(self.folder, self.names[split])
            for pair in part.values():
                text.add(pair)
            counts = self._read(split, text.add) or [len(part)]
            shares += _shares(self._of(split) or [Corpus(split, "drawn", None)], counts, counts)
            files |= text.close()
        every.close()
        return shares, len(drawn.left_out), files

    def _of(self, split: str) -> list[Corpus]:
        return [corpus for corpus in self.corpora if corpus.split == split]

    def _read(self, split: str, add: Callable[[Pair], None]) -> list[int]:
        """Reads the corpora of a split; returns how many pairs each has."""
        counts = []
        for corpus in self._of(split):
            counts.append(0)
            pairs = self.request.pairs_of(corpus)
            for pair in progress.track(pairs, f"Reading {corpus.source}", unit="pairs"):
                add(pair)
                counts[-1] += 1
            if not counts[-1]:
                raise UserError(f"Expected sentence pairs in {corpus.source}. Received: none.")
        return counts

    def _draw(self, every: _Text, count: int, sample: splits.Sample) -> splits.Drawn:
        """Returns the pairs of the splits without files."""
        request = self.request
        dev, test = request.dev_size or 0, request.test_size or 0
        if not dev and not request.dev_source:
            dev = splits.default_dev_size(count)
            self.say(
                f"Drawing {dev:,} of {count:,} pairs for dev; to change this, give --dev_size or "
                "--dev_source."
            )
        if not dev + test:
            return splits.Drawn({}, {}, set())
        given = [*request.pairs("dev"), *request.pairs("test")]
        pairs = progress.track(every, "Looking for near-duplicates", count, "pairs")
        drawn = splits.choose(pairs, splits.apart(sample.drawn(), given), dev, test)
        found = len(drawn.dev) + len(drawn.test)
        if found < dev + test:
            raise UserError(
                f"Expected {dev + test:,} pairs for dev and test, each with at most {splits.MANY} "
                "near-duplicates in training, and half of all pairs left for training. Received: "
                f"{found:,} such pairs of {count:,}. Lower --dev_size and --test_size, or give "
                "files by --dev_source and --test_source."
            )
        return drawn

    def _train(
        self, every: _Text, sizes: list[int], drawn: splits.Drawn, text: _Text
    ) -> list[Share]:
        """Writes the training files; returns the corpora's shares."""
        corpora, away = self._of("train"), drawn.dev.keys() | drawn.test.keys() | drawn.left_out
        chance = random.Random(f"weights {self.seed}").random
        pairs = enumerate(progress.track(every, "Writing training text", sum(sizes), "pairs"))
        kept, written = [], []
        for corpus, size in zip(corpora, sizes, strict=True):
            whole, part = divmod(corpus.weight, 1)
            kept.append(0)
            written.append(0)
            for number, pair in itertools.islice(pairs, size):
                if number in away:
                    continue
                kept[-1] += 1
                for _ in range(int(whole) + (part > 0 and chance() < part)):
                    text.add(pair)
                    written[-1] += 1
        next(pairs, None)  # ends the report
        return _shares(corpora, kept, written)


def _shares(corpora: Sequence[Corpus], kept: list[int], written: list[int]) -> list[Share]:
    """Returns the shares of the corpora of a split."""
    total = max(sum(written), 1)
    return [
        Share(corpus.split, shown(corpus.source), pairs, corpus.weight, count, count / total)
        for corpus, pairs, count in zip(corpora, kept, written, strict=True)
    ]
