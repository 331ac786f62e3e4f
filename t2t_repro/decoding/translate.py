"""Text through a model: N lines in, N lines out.

A `Translator` turns sentences into hypotheses. Sentences are read in windows. Those of a window are
sorted by length and decoded in batches, and are returned in their own order, so that a file of any
size takes constant memory. decoding/decode_files.py writes files.
"""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np

from t2t_repro.decoding.search import (
    Advance,
    Constraint,
    Engine,
    Search,
    Sentences,
    check_follows,
    draws,
    ignore,
    padded,
)
from t2t_repro.decoding.settings import FILLER, LONGEST_INPUT, T2T_BATCH_SIZE, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.parsing.reader import TreeReader
from t2t_repro.text.encoders import EOS_ID

WINDOW = 8192  # sentences that are sorted together
BATCH_SENTENCES, BATCH_TOKENS, BATCH_HYPOTHESES = 128, 4096, 4096

Report = Callable[[str], None]


class Hypothesis(NamedTuple):
    """One translation. `score` is what it is ranked by.

    That is log_prob divided by the length penalty. In greedy search, and where no hypothesis has
    reached its end (`finished` is False), it is log_prob itself, as in tensor2tensor.
    """

    text: str
    ids: list[int]  # without the end
    score: float
    log_prob: float
    finished: bool
    token_scores: list[float] | None = None  # log-probabilities of the ids, then of the end
    alignment: str | None = None  # as decoding/pairs.py says


class Translator:
    """An engine, its encoders and how to decode.

    Args:
        engine: what decodes: `engine.ModelEngine(model)`, or another.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        settings: the decode hparams.
        t2t_exact: batches and limits exactly as tensor2tensor's decoder makes them. All lines are
            held in memory, a translation depends a little on its neighbours, and empty lines are
            translated too.
        warn: receives warnings.
        reader: reads what the model writes as trees; None: it is text.
        constraint: forbids tokens of the search; None: none.

    Raises:
        UserError: if the engine does not support a setting.
    """

    def __init__(
        self,
        engine: Engine,
        encoders: dict[str, Any],
        settings: DecodeHParams | None = None,
        *,
        t2t_exact: bool = False,
        warn: Report = print,
        reader: TreeReader | None = None,
        constraint: Constraint | None = None,
    ):
        self.engine, self.encoders, self.reader = engine, encoders, reader
        self.settings = settings or DecodeHParams()
        self.t2t_exact, self.warn = t2t_exact, warn
        asked, most = self.settings.max_input_size, engine.learned_positions
        limit = asked if asked > 0 else (None if t2t_exact else LONGEST_INPUT)
        self.longest = limit if most is None else min(limit or most, most)
        check_follows(engine, self.settings)
        self._search = Search(
            self.settings.beam_size,
            self.settings.alpha,
            self.settings.top_beams,
            per_sentence=not t2t_exact,
            force_length=self.settings.forces_length,
            constraint=constraint,
            sampling=self.settings.sampling,
        )

    def encode(self, line: str, where: str = "The input") -> list[int]:
        """Returns the ids of a line, its end included; cut where it is too long."""
        return self.cut([*self.ids_of("inputs", line, where), EOS_ID], where)

    def ids_of(self, side: str, line: str, where: str) -> list[int]:
        """Returns the ids of a line of "inputs" or "targets", without an end."""
        try:
            return self.encoders[side].encode(line.strip())
        except (ValueError, KeyError) as error:
            raise UserError(
                f"{where}: expected text that the vocabulary can encode. Received: "
                f"{line.strip()!r} ({error}). Correct the line."
            ) from error

    def cut(self, ids: list[int], where: str) -> list[int]:
        """Returns `ids`, cut to the longest input; a warning says so."""
        if not self.longest or len(ids) <= self.longest:
            return ids
        self.warn(
            f"{where} has {len(ids)} tokens; only the first {self.longest} are translated. To "
            "change the limit, give --decode_hparams=max_input_size=N."
        )
        return [*ids[: self.longest - 1], EOS_ID]

    def translate_lines(self, lines: Iterable[str]) -> Iterator[list[Hypothesis]]:
        """Yields the hypotheses of each line, best first, in the lines' order.

        An empty line has one empty hypothesis. The lines are read a window at a time.
        """
        for _, results in self.translate_windows((line, None) for line in lines):
            yield from results

    def translate_windows(
        self,
        pairs: Iterable[tuple[str, str | None]],
        progress: Advance = ignore,
        before: int = 0,
    ) -> Iterator[tuple[list[str], list[list[Hypothesis]]]]:
        """Yields lines and their hypotheses, as `translate_lines`, a window at a time.

        Args:
            pairs: the sentences, and the beginning of each translation, whole words, which is part
                of it: tensor2tensor's partial_targets. None, in all pairs: open.
            progress: gets the number of sentences of each finished batch.
            before: how many lines come before the first, for the numbers in messages.
        """
        numbered = ((f"Line {n}", *pair) for n, pair in enumerate(pairs, start=before + 1))
        while window := list(islice(numbered, None if self.t2t_exact else WINDOW)):
            sentences = [self.encode(line, where) for where, line, _ in window]
            begun = [(prefix, where) for where, _, prefix in window if prefix is not None]
            prefixes = [self.ids_of("targets", *each) for each in begun]
            texts = [line for _, line, _ in window]
            words = [len(line.split()) for line in texts] if self.t2t_exact else None
            yield texts, self.translate_ids(sentences, progress, words, prefixes or None)

    def translate_ids(
        self,
        sentences: list[list[int]],
        progress: Advance = ignore,
        sort_by: list[int] | None = None,
        prefixes: list[list[int]] | None = None,
    ) -> list[list[Hypothesis]]:
        """Returns the hypotheses of each sentence of ids (end included), best first, in order.

        Args:
            sentences: the ids.
            progress: as in `translate_windows`.
            sort_by: the key of sentences to decode together; None: their lengths.
            prefixes: the first ids of each translation.
        """
        scores: list[float] | None = [] if self.settings.return_token_scores else None
        links = "" if self.settings.return_alignments else None
        empty_line = Hypothesis("", [], 0.0, 0.0, True, scores, links)
        results = [[empty_line] for _ in sentences]
        sort_by = sort_by or [len(ids) for ids in sentences]
        order = sorted(range(len(sentences)), key=lambda i: -sort_by[i])
        if not self.t2t_exact:
            empty = [i for i in order if len(sentences[i]) <= 1]
            order = [i for i in order if len(sentences[i]) > 1]
            if empty:
                progress(len(empty))
        batches = list(self._batches(order, sentences))
        inputs = [
            self._inputs([sentences[i] for i in batch], prefixes and [prefixes[i] for i in batch])
            for batch in batches
        ]
        decoded = self.engine.decode_all(inputs, self._search)
        if self.settings.return_token_scores or self.settings.return_alignments:
            decoded = iter(list(decoded))  # the devices are free then to compute these
        for batch, beams in zip(batches, decoded, strict=True):
            read = self._hypotheses([sentences[i] for i in batch], *beams)
            for i, hypotheses in zip(batch, read, strict=True):
                results[i] = hypotheses
            progress(len(batch))
        return results

    def _batches(self, order: list[int], sentences: list[list[int]]) -> Iterator[list[int]]:
        """Yields `order`, longest first, in pieces; each of one length if the model sees
        padding."""
        size = self.settings.batch_size or (T2T_BATCH_SIZE if self.t2t_exact else BATCH_SENTENCES)
        alike = [order]
        if self.engine.sees_padding and not self.t2t_exact:
            alike = [list(some) for _, some in groupby(order, lambda i: len(sentences[i]))]
        for some in alike:
            start = 0
            while start < len(some):
                count = size
                if not self.settings.batch_size and not self.t2t_exact:
                    tokens, beams = len(sentences[some[start]]), self.settings.beam_size
                    fit = min(BATCH_TOKENS // tokens, BATCH_HYPOTHESES // beams)
                    count = max(1, min(size, fit))
                yield some[start : start + count]
                start += count

    def _hypotheses(
        self, sentences: list[list[int]], ids: np.ndarray, scores: np.ndarray
    ) -> list[list[Hypothesis]]:
        """Returns an engine's results as hypotheses, with the scores and alignments asked for."""
        (batch, beams, length), settings = ids.shape, self.settings
        rows = ids.reshape(batch * beams, length).tolist()
        found = list(map(self._hypothesis, rows, scores.ravel().tolist()))
        sources = [source for source in sentences for _ in range(beams)]
        pairs = [
            (source, h.ids + [EOS_ID] * (h.finished and not settings.to_the_limit))
            for source, h in zip(sources, found, strict=True)
        ]
        if settings.return_token_scores:
            found = [
                h._replace(token_scores=row.astype(float).round(6).tolist())
                for h, row in zip(found, self.engine.token_log_probs(pairs), strict=True)
            ]
        if settings.return_alignments:
            links = self.engine.align(pairs, None if settings.identity_output else self.encoders)
            found = [h._replace(alignment=link) for h, link in zip(found, links, strict=True)]
        if (reader := self.reader) is not None:
            found = [
                h._replace(text=reader.read(text, h.text, count=n % beams == 0))
                for n, (text, h) in enumerate(zip(self._sources(sources), found, strict=True))
            ]
        return [found[start : start + beams] for start in range(0, len(found), beams)]

    def _sources(self, sentences: list[list[int]]) -> list[str]:
        """Returns the texts of sentences of ids, end included, as the model sees them."""
        return [self.encoders["inputs"].decode(ids[:-1]) for ids in sentences]

    def _inputs(self, sentences: list[list[int]], prefixes: list[list[int]] | None) -> Sentences:
        """Returns a batch: ids, the most tokens of each translation, and the facts of its
        search."""
        settings = self.settings
        lengths = np.array([len(ids) for ids in sentences], "int32")
        begun = np.array([len(ids) for ids in prefixes or [[]] * len(sentences)], "int32")
        if self.t2t_exact:
            lengths[:], begun[:] = lengths.max(), begun.max()
        limits = lengths + settings.extra_length + begun  # a beginning adds to it, as in T2T
        if settings.max_length_ratio:
            most = _rounded(np.floor, (lengths - 1) * settings.max_length_ratio)
            limits = np.minimum(limits, np.maximum(most, np.maximum(begun, 1)) + 1)
        if self.engine.learned_positions is not None:
            limits = np.minimum(limits, self.engine.learned_positions)
        facts: dict[str, np.ndarray] = {}
        if self._search.constraint is not None:
            facts["words"] = self._search.constraint.facts(self._sources(sentences))
        if prefixes is not None:
            facts["prefixes"] = padded(prefixes)
        if settings.min_length_ratio:
            least = _rounded(np.ceil, (lengths - 1) * settings.min_length_ratio)
            facts["least"] = np.minimum(least, limits - 1)
        if settings.sampling:
            count, seed = int(limits.max()), settings.sampling_seed
            facts["draws"] = np.stack([draws(seed, ids, count) for ids in sentences])
        return Sentences(padded(sentences), limits, facts)

    def _hypothesis(self, ids: list[int], score: float) -> Hypothesis:
        finished, to_the_limit = EOS_ID in ids, self.settings.to_the_limit
        length = ids.index(EOS_ID) if finished else len(ids)
        kept, log_prob = list(ids) if to_the_limit else ids[:length], score
        if not finished or to_the_limit:
            while kept and kept[-1] == 0:  # it pads behind a beam that met its own limit
                kept.pop()
        elif self.settings.beam_size > 1:
            log_prob = score * ((5 + length + 1) / 6) ** self.settings.alpha
        if self.settings.identity_output:
            text = " ".join(map(str, kept))
        else:
            text = self.encoders["targets"].decode(kept)
        return Hypothesis(text, kept, score, log_prob, finished)

    def n_best(self, hypotheses: list[Hypothesis]) -> list[Hypothesis]:
        """Returns the hypotheses to write; an empty line repeats its only one."""
        most = self.settings.top_beams
        return hypotheses[:most] + hypotheses[:1] * (most - len(hypotheses))

    def write(self, sentences: Sequence[str]) -> list[str]:
        """Returns the output line of each sentence.

        Raises:
            UserError: on text alone.
        """
        if isinstance(sentences, str):
            raise UserError(
                f"Expected a list of sentences. Received: the text {sentences[:60]!r}. Pass a list."
            )
        return [self.format(beams) for beams in self.translate_lines(sentences)]

    def format(self, hypotheses: list[Hypothesis]) -> str:
        """Returns the output line of a sentence, as tensor2tensor writes it."""
        columns = []
        for hypothesis in self.n_best(hypotheses):
            columns.append(one_line(hypothesis.text))
            if self.settings.shows_scores:
                columns.append(f"{hypothesis.score:.2f}")
            if hypothesis.alignment is not None:
                columns.append(hypothesis.alignment)
        if len(columns) == 1:
            return columns[0]
        return "\t".join(column.replace("\t", " ") for column in columns)


def interact(
    translator: Translator, read: Callable[[str], str] | None = None, write: Report = print
) -> None:
    """Translates what is typed, until `q` or the end of input."""
    write("Type a sentence, or q to quit.")
    with contextlib.suppress(EOFError):
        while (line := (read or input)("> ").strip()) != "q":
            try:
                (hypotheses,) = translator.translate_lines([line]) if line else [[]]
            except UserError as error:  # such as a word where the vocabulary has numbers alone
                write(str(error))
                continue
            for hypothesis in (h for n, h in enumerate(hypotheses) if n == 0 or h.score > FILLER):
                columns = [hypothesis.text, f"{hypothesis.score:.4f}"]
                if hypothesis.token_scores is not None:
                    columns.append(" ".join(f"{score:.4f}" for score in hypothesis.token_scores))
                if hypothesis.alignment is not None:
                    columns.append(hypothesis.alignment)
                write("\t".join(columns))


def _rounded(to_whole: Callable[[np.ndarray], np.ndarray], numbers: np.ndarray) -> np.ndarray:
    """Returns whole numbers; 11.000000000000002, which is 10 times 1.1, is one already."""
    return to_whole(numbers.round(6)).astype("int32")


def one_line(text: str) -> str:
    """Returns `text` without the line ends that a model may write."""
    return re.sub(r"[\r\n]+", " ", text)
