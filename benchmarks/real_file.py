"""A real file, raw lines in and raw lines out: t2t-decoder's engines and the SavedModel in turns.

    python benchmarks/real_file.py --output_dir=RUN --source=test.en --reference=test.de --threads=2

Exports the newest checkpoint of RUN to a folder that goes away again: as a SavedModel, and for
CTranslate2 in float32 and int8. Each translates the file once to warm up (TensorFlow traces and
optimizes), then --passes times, one after another in turns, so that a change of the machine's speed
meets all of them. All sort by length; batches are those of t2t-decoder, for the SavedModel 64
lines. Prints, and writes to --out, JSON: for each the median of its passes in seconds, the rate of
that one, the rate of the quickest, the median of processor seconds, how many lines are as
t2t-decoder's own engine writes them, and BLEU where there is a --reference.
"""

import json
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import measuring
from absl import flags

from t2t_repro import cli, decoder, registry
from t2t_repro.errors import UserError

BATCH = 64  # lines, of the SavedModel

Translate = Callable[[list[str]], list[str]]


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    cli.define_run_flags(f)
    flags.DEFINE_string("source", None, "The file to translate.", flag_values=f)
    flags.DEFINE_string("reference", None, "Its translation, for BLEU.", flag_values=f)
    text = 'How to decode: "name=value,name=value".'
    flags.DEFINE_string("decode_hparams", "beam_size=4,alpha=0.6", text, flag_values=f)
    text = "Threads of one operation; 0: as many as there are cores."
    flags.DEFINE_integer("threads", 2, text, lower_bound=0, flag_values=f)
    flags.DEFINE_integer("inter_op_threads", 0, "As --threads, of operations.", flag_values=f)
    flags.DEFINE_integer("passes", 5, "How often.", lower_bound=1, flag_values=f)
    flags.DEFINE_string("out", None, "The JSON file; none: only print.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    if not args.source:
        raise UserError("Expected --source, a file to translate. Received: none. Name it.")
    sources = _lines(args.source)
    measuring.set_threads(args)
    with tempfile.TemporaryDirectory() as folder:
        engines = make_engines(args, pathlib.Path(folder))
        outputs = {name: translate(sources) for name, translate in engines.items()}
        wall: dict[str, list[float]] = {name: [] for name in engines}
        processor: dict[str, list[float]] = {name: [] for name in engines}
        for _ in range(args.passes):
            for name, translate in engines.items():
                begin, used = time.perf_counter(), time.process_time()
                translate(sources)
                wall[name].append(time.perf_counter() - begin)
                processor[name].append(time.process_time() - used)
    first = next(iter(outputs))
    results = {}
    for name, written in outputs.items():
        median = statistics.median(wall[name])
        results[name] = {
            "seconds": round(median, 2),
            "sentences_per_s": round(len(sources) / median, 1),
            "best_sentences_per_s": round(len(sources) / min(wall[name]), 1),
            "processor_s": round(statistics.median(processor[name]), 2),
            "identical": sum(a == b for a, b in zip(written, outputs[first], strict=True)),
            **_bleu(written, args.reference),
        }
        print(f"{name}: {json.dumps(results[name])}", flush=True)
    report = {
        "source": pathlib.Path(args.source).name,
        "sentences": len(sources),
        "decode_hparams": args.decode_hparams,
        "threads": args.threads,
        "passes": args.passes,
        "engines": results,
    }
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report))


def make_engines(args: flags.FlagValues, folder: pathlib.Path) -> dict[str, Translate]:
    """Returns what translates lines, by name; the first is t2t-decoder's own engine."""
    from t2t_repro.decoding.settings import DecodeHParams
    from t2t_repro.decoding.translate import Translator
    from t2t_repro.interop import ctranslate2, saved_model

    run, config = cli.trained_run(args)
    problem = registry.get_problem(config.problem)
    settings = DecodeHParams.parse(args.decode_hparams, problem.decode_hparams)
    model, encoders = decoder.load(run, config, args.data_dir)

    def by_translator(search: Callable[..., Any] | None) -> Translate:
        translator = Translator(model, encoders, settings, search=search)
        return lambda lines: [translator.format(h) for h in translator.translate_lines(lines)]

    saved_model.export(model, encoders, folder / "saved_model", settings)
    engines = {
        "t2t-decoder": by_translator(None),
        "SavedModel": by_saved_model(folder / "saved_model"),
    }
    for kind in ("float32", "int8"):
        path = ctranslate2.export(model, encoders, folder / kind, kind)
        search = ctranslate2.Engine(path, threads=args.threads)
        engines[f"CTranslate2 {kind}"] = by_translator(search)
    return engines


def by_saved_model(path: pathlib.Path) -> Translate:
    """Returns what translates lines with a SavedModel, in batches of lines of like lengths."""
    import tensorflow as tf

    loaded = tf.saved_model.load(str(path))  # kept: it owns the variables

    def translate(lines: list[str]) -> list[str]:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        outputs = [""] * len(lines)
        for begin in range(0, len(order), BATCH):
            batch = order[begin : begin + BATCH]
            texts = tf.constant([lines[i] for i in batch], tf.string)
            answer = loaded.signatures["text"](inputs=texts)["outputs"].numpy()
            for i, output in zip(batch, answer, strict=True):
                outputs[i] = output.decode()
        return outputs

    return translate


def _bleu(written: list[str], reference: str | None) -> dict[str, float]:
    if not reference:
        return {}
    from t2t_repro.scoring import bleu

    return {"bleu": round(bleu.score(written, _lines(reference)).sacrebleu.score, 2)}


def _lines(path: str) -> list[str]:
    return pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    cli.run("real_file", __doc__, define_flags, main)
