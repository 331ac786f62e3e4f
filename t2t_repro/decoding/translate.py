"""Text through a model: N lines in, N lines out.

A `Translator` turns sentences into hypotheses. Sentences are read in windows; those of a window
are sorted by length and decoded in batches, and come out in their own order, so that a file of any
size takes constant memory. decoding/files.py writes files.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import keras
import numpy as np

from t2t_repro.decoding.constraint import Constraint
from t2t_repro.decoding.decode import decode_batch
from t2t_repro.decoding.parsing import TreeReader
from t2t_repro.decoding.settings import LONGEST_INPUT, T2T_BATCH_SIZE, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.text.encoders import EOS_ID

WINDOW = 8192  # sentences that are sorted together
BATCH_SENTENCES, BATCH_TOKENS = 64, 4096
FILLER = -1e5  # what is there only because fewer hypotheses were found scores below

Report = Callable[[str], None]


class Hypothesis(NamedTuple):
    """One translation. `score` is what it is ranked by.

    That is log_prob divided by the length penalty; but log_prob itself in greedy search, and where
    no hypothesis has reached its end (`finished` is False), as in tensor2tensor.
    """

    text: str
    ids: list[int]  # without the end
    score: float
    log_prob: float
    finished: bool


class Translator:
    """A model, its encoders and how to decode.

    Args:
        model: a `Transformer`.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        settings: the decode hparams.
        t2t_exact: batches and limits exactly as tensor2tensor's decoder makes them. All lines are
            held in memory, a translation depends a little on its neighbours, and empty lines are
            translated too.
        warn: receives warnings.
        reader: reads what the model writes as trees; None: it is text.
        constraint: what the search may write; None: anything.
        search: decodes a batch instead of the model's own `decode_batch`, as an engine does; its
            `learned_positions` count in place of the model's.
    """

    def __init__(
        self,
        model: keras.Model | None,
        encoders: dict[str, Any],
        settings: DecodeHParams | None = None,
        *,
        t2t_exact: bool = False,
        warn: Report = print,
        reader: TreeReader | None = None,
        constraint: Constraint | None = None,
        search: Callable[..., tuple[np.ndarray, np.ndarray]] | None = None,
    ):
        self.encoders, self.reader, self.constraint = encoders, reader, constraint
        self.model = model
        self.search = search or functools.partial(decode_batch, model)
        self.learned_positions = getattr(search or model, "learned_positions", None)
        self.settings = settings or DecodeHParams()
        self.t2t_exact, self.warn = t2t_exact, warn
        self.longest = self._longest_input()

    def _longest_input(self) -> int | None:
        asked = self.settings.max_input_size
        limit = asked if asked > 0 else (None if self.t2t_exact else LONGEST_INPUT)
        most = self.learned_positions
        return limit if most is None else min(limit or most, most)

    def encode(self, line: str, where: str = "The input") -> list[int]:
        """The ids of a line, its end included; cut where it is too long."""
        try:
            ids = self.encoders["inputs"].encode(line.strip())
        except (ValueError, KeyError) as error:
            raise UserError(
                f"{where}: expected text that the vocabulary can encode. "
                f"Received: {line.strip()!r} ({error}). Mend the line."
            ) from error
        return self.cut([*ids, EOS_ID], where)

    def cut(self, ids: list[int], where: str) -> list[int]:
        """`ids`, cut to the longest input; a warning says so."""
        if not self.longest or len(ids) <= self.longest:
            return ids
        self.warn(
            f"{where} has {len(ids)} tokens; {self.longest} of them are translated. "
            "--decode_hparams=max_input_size=N sets the limit."
        )
        return [*ids[: self.longest - 1], EOS_ID]

    def translate_lines(
        self, lines: Iterable[str], progress: Callable[[int], None] = lambda count: None
    ) -> Iterator[list[Hypothesis]]:
        """The hypotheses of each line, best first, in the lines' order.

        An empty line has one empty hypothesis.

        Args:
            lines: the sentences; read a window at a time.
            progress: is told how many sentences each finished batch had.
        """
        for _, results in self.translate_windows(lines, progress):
            yield from results

    def translate_windows(
        self,
        lines: Iterable[str],
        progress: Callable[[int], None] = lambda count: None,
        before: int = 0,
    ) -> Iterator[tuple[list[str], list[list[Hypothesis]]]]:
        """Lines and their hypotheses, as `translate_lines`, a window at a time.

        `before` lines come before the first, in the numbers that messages give to lines.
        """
        numbered = enumerate(lines, start=before + 1)
        while window := list(islice(numbered, None if self.t2t_exact else WINDOW)):
            sentences = [self.encode(line, f"Line {number}") for number, line in window]
            words = [len(line.split()) for _, line in window] if self.t2t_exact else None
            yield [line for _, line in window], self.translate_ids(sentences, progress, words)

    def translate_ids(
        self,
        sentences: list[list[int]],
        progress: Callable[[int], None] = lambda count: None,
        sort_by: list[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence of ids (end included), best first, in their order."""
        results = [[Hypothesis("", [], 0.0, 0.0, True)] for _ in sentences]
        sort_by = sort_by or [len(ids) for ids in sentences]
        order = sorted(range(len(sentences)), key=lambda i: -sort_by[i])
        if not self.t2t_exact:
            empty = [i for i in order if len(sentences[i]) <= 1]
            order = [i for i in order if len(sentences[i]) > 1]
            if empty:
                progress(len(empty))
        for batch in self._batches(order, sentences):
            for i, hypotheses in zip(
                batch, self._decode([sentences[i] for i in batch]), strict=True
            ):
                results[i] = hypotheses
            progress(len(batch))
        return results

    def _batches(self, order: list[int], sentences: list[list[int]]) -> Iterator[list[int]]:
        """`order`, longest first, in pieces."""
        size = self.settings.batch_size or (T2T_BATCH_SIZE if self.t2t_exact else BATCH_SENTENCES)
        start = 0
        while start < len(order):
            count = size
            if not self.settings.batch_size and not self.t2t_exact:
                count = max(1, min(size, BATCH_TOKENS // len(sentences[order[start]])))
            yield order[start : start + count]
            start += count

    def _decode(self, sentences: list[list[int]]) -> list[list[Hypothesis]]:
        settings = self.settings
        lengths = np.array([len(ids) for ids in sentences], "int32")
        inputs = np.zeros((len(sentences), lengths.max()), "int32")
        for row, sentence in zip(inputs, sentences, strict=True):
            row[: len(sentence)] = sentence
        limits = np.full_like(lengths, lengths.max()) if self.t2t_exact else lengths
        ids, scores = self.search(
            inputs,
            limits + settings.extra_length,
            settings.beam_size,
            settings.alpha,
            top_beams=settings.top_beams,
            per_sentence=not self.t2t_exact,
            force_length=settings.force_decode_length,
            **self._constraint_of(sentences),
        )
        hypotheses = [
            [self._hypothesis(i, float(s)) for i, s in zip(*row, strict=True)]
            for row in zip(ids.tolist(), scores, strict=True)
        ]
        if self.reader is None:
            return hypotheses
        return [
            [self._read(source, h, count=n == 0) for n, h in enumerate(beams)]
            for source, beams in zip(self._sources(sentences), hypotheses, strict=True)
        ]

    def _sources(self, sentences: list[list[int]]) -> list[str]:
        """The texts of sentences of ids, end included, as the model sees them."""
        return [self.encoders["inputs"].decode(ids[:-1]) for ids in sentences]

    def _constraint_of(self, sentences: list[list[int]]) -> dict[str, Any]:
        """What the search is told of the constraint: nothing where there is none."""
        if self.constraint is None:
            return {}
        facts = self.constraint.facts(self._sources(sentences))
        return {"constraint": self.constraint, "facts": facts}

    def _read(self, source: str, hypothesis: Hypothesis, count: bool) -> Hypothesis:
        assert self.reader is not None
        text = self.reader.read(source, hypothesis.text, count=count)
        return hypothesis._replace(text=text)

    def _hypothesis(self, ids: list[int], score: float) -> Hypothesis:
        finished = EOS_ID in ids
        length = ids.index(EOS_ID) if finished else len(ids)
        kept, log_prob = ids[:length], score
        if self.settings.skip_eos_postprocess:
            kept = list(ids)
        if (
            not finished or self.settings.skip_eos_postprocess
        ):  # 0 pads behind the tokens of a beam that met its own limit
            while kept and kept[-1] == 0:
                kept.pop()
        elif self.settings.beam_size > 1:
            log_prob = score * ((5 + length + 1) / 6) ** self.settings.alpha
        if self.settings.identity_output:
            text = " ".join(map(str, kept))
        else:
            text = self.encoders["targets"].decode(kept)
        return Hypothesis(text, kept, score, log_prob, finished)

    def format(self, hypotheses: list[Hypothesis]) -> str:
        """The output line of a sentence, as tensor2tensor writes it."""
        if not self.settings.return_beams:
            return one_line(hypotheses[0].text)
        # An empty line has a single hypothesis; its columns are there all the same.
        missing = self.settings.top_beams - len(hypotheses)
        columns = []
        for hypothesis in hypotheses + hypotheses[:1] * missing:
            columns.append(one_line(hypothesis.text).replace("\t", " "))
            if self.settings.write_beam_scores:
                columns.append(f"{hypothesis.score:.2f}")
        return "\t".join(columns)


def interact(
    translator: Translator, read: Callable[[str], str] | None = None, write: Report = print
) -> None:
    """Translate what is typed, until `q` or the end of input."""
    read = read or input
    write("Type a sentence; q ends.")
    while True:
        try:
            line = read("> ")
        except EOFError:
            return
        if line.strip() == "q":
            return
        if not line.strip():
            continue
        for hypothesis in next(iter(translator.translate_lines([line]))):
            write(f"{hypothesis.text}\t{hypothesis.score:.4f}")


def one_line(text: str) -> str:
    """`text` without the line ends that a model may write."""
    return re.sub(r"[\r\n]+", " ", text)
