"""Files and datasets through a `Translator`: N lines in, N lines out."""

import contextlib
import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from itertools import islice, repeat

import keras

from t2t_repro import __version__, progress
from t2t_repro.decoding.output_files import count_and_digest, growing, sides
from t2t_repro.decoding.settings import FILLER
from t2t_repro.decoding.translate import Hypothesis, Report, Translator, one_line
from t2t_repro.errors import UserError
from t2t_repro.files import writing
from t2t_repro.text import raw
from t2t_repro.text.encoders import EOS_ID


def translate_file(
    translator: Translator,
    source: str | os.PathLike,
    target: str | os.PathLike,
    json_file: str | os.PathLike | None = None,
    report: Report = print,
    *,
    prefixes: str | os.PathLike | None = None,
    as_json: bool = False,
) -> int:
    """Translates a file line by line.

    Killed and called again, it goes on behind the last window that was finished and ends with the
    same files; under `t2t_exact`, where all lines are one window, it begins anew.

    Args:
        translator: does the work.
        source: UTF-8 text, plain or `.gz`, a sentence a line.
        target: gets one line for each line of `source`; it appears when all is done.
        json_file: gets, for each line, an object with every hypothesis and its exact scores.
        report: receives messages, and at the end how many sentences in what time.
        prefixes: a file with what each translation begins with; an empty line leaves it open.
        as_json: `target` gets what `json_file` would get.

    Returns:
        The number of lines of the file.

    Raises:
        UserError: if the file is empty, a line cannot be encoded, or `prefixes` has more or fewer
            lines.
    """
    most, reader = translator.settings.num_samples, translator.reader
    total, digest = count_and_digest(source, most)
    # All that decides what becomes of the lines.
    job = {
        "source": digest,
        "prefixes": None,
        "json_file": json_file is not None,
        "as_json": as_json,
        "weights": translator.engine.fingerprint,
        "version": __version__,
        "backend": keras.backend.backend(),
        "t2t_exact": translator.t2t_exact,
        **dataclasses.asdict(translator.settings),
    }
    if prefixes is not None:
        count, job["prefixes"] = count_and_digest(prefixes, most)
        if count != total:
            raise UserError(
                f"Expected a beginning for each of the {total:,} lines of {source} in {prefixes}. "
                f"Received: {count:,} lines. Leave a line empty where nothing is given."
            )
    with growing([target, json_file] if json_file else [target], job, report) as files:
        if files.lines:
            report(f"Going on behind line {files.lines:,} of {total:,}")
            if reader:
                reader.restore(files.state)
        lines = islice(raw.lines(source), files.lines, total)
        begun: Iterator[str] = repeat("", total - files.lines)
        if prefixes is not None:
            begun = islice(raw.lines(prefixes), files.lines, total)
        with progress.report("", total, "sentences", done=files.lines, say=report) as advance:
            pairs = zip(lines, begun, strict=True)
            for window, results in translator.translate_windows(
                pairs, advance, files.lines, prefixes is not None
            ):
                text = "".join(translator.format(beams) + "\n" for beams in results)
                of_each = zip(window, results, strict=True)
                details = "".join(_as_json(*pair) + "\n" for pair in of_each)
                texts = [details if as_json else text] + [details] * (json_file is not None)
                files.add(texts, len(window), reader and reader.counts())
    return total


def translate_examples(
    translator: Translator,
    examples: Iterable[dict[str, list[int]]],
    target: str | os.PathLike,
    report: Report = print,
) -> int:
    """Decodes the examples of a dataset; writes outputs, inputs and targets side by side.

    As tensor2tensor, the inputs and targets take the name of `target` with its last part replaced;
    with return_beams each hypothesis is a line of its own.

    Args:
        translator: does the work.
        examples: {"inputs": ids, "targets": ids}, each ending with 1.
        target: the file of the outputs.
        report: receives messages, and at the end how many sentences in what time.

    Returns:
        The number of examples.
    """
    most = translator.settings.num_samples
    examples = list(islice(examples, most if most >= 0 else None))
    sentences = [
        translator.cut(list(example["inputs"]), f"Example {number}")
        for number, example in enumerate(examples, start=1)
    ]
    with progress.report("", len(examples), "sentences", say=report) as advance:
        results = translator.translate_ids(sentences, advance)
    with contextlib.ExitStack() as stack:
        outputs = stack.enter_context(writing(target))
        beside = {name: stack.enter_context(writing(path)) for name, path in sides(target).items()}
        for example, hypotheses in zip(examples, results, strict=True):
            # An empty example has a single hypothesis; its lines are there all the same.
            missing = translator.settings.top_beams - len(hypotheses)
            for hypothesis in hypotheses + hypotheses[:1] * missing:
                score = ""
                if translator.settings.shows_scores:
                    score = f"\t{hypothesis.score:.2f}"
                outputs.write(one_line(hypothesis.text) + score + "\n")
                for name, file in beside.items():
                    ids = [i for i in example[name] if i != EOS_ID]
                    file.write(one_line(translator.encoders[name].decode(ids)) + "\n")
    return len(examples)


def _as_json(line: str, hypotheses: list[Hypothesis]) -> str:
    real = [h.as_dict() for h in hypotheses if h.score > FILLER]
    return json.dumps({"source": line, "hypotheses": real}, ensure_ascii=False)
