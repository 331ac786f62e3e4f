"""A real file, raw lines in and raw lines out: t2t-decoder's engines and the SavedModel in turns.

    python benchmarks/real_file.py --output_dir=RUN --source=test.en --reference=test.de --threads=2

Exports the newest checkpoint of RUN to a folder that goes away again: as a SavedModel, and for
CTranslate2 in float32 and int8. Each is loaded in a process of its own and translates the file once
to warm up (TensorFlow traces and optimizes), then --passes times. They take turns, so that a change
of the machine's speed meets all of them. All sort by length; batches are those of t2t-decoder, for
the SavedModel 64 lines by its signature `best`, as many at once as there are threads. Prints, and
writes to --out, JSON: for each the median of its passes in seconds, the rate of that one and of the
quickest, the median of processor seconds, how many lines are as t2t-decoder's own engine writes
them, and BLEU where there is a --reference.
"""

import contextlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import measuring
from absl import flags

from t2t_repro import cli, progress
from t2t_repro.errors import UserError
from t2t_repro.runs import TrainedRun, trained_run

ENGINES = ("t2t-decoder", "SavedModel", "CTranslate2 float32", "CTranslate2 int8")
BATCH = 64  # lines, of the SavedModel

Translate = Callable[[list[str]], list[str]]


def define_flags(f: flags.FlagValues) -> None:
    """Defines the flags."""
    cli.define_run_flags(f)
    flags.DEFINE_string("source", None, "The file to translate.", flag_values=f)
    flags.DEFINE_string("reference", None, "Its translation, for BLEU.", flag_values=f)
    text = 'How to decode: "name=value,name=value".'
    flags.DEFINE_string("decode_hparams", "beam_size=4,alpha=0.6", text, flag_values=f)
    flags.DEFINE_integer("threads", 2, "Threads of each.", lower_bound=1, flag_values=f)
    flags.DEFINE_integer("passes", 5, "How often.", lower_bound=1, flag_values=f)
    flags.DEFINE_string("out", None, "The JSON file; none: only print.", flag_values=f)
    text = "Be one of them, with the exports in --exports; the program's own use."
    flags.DEFINE_enum("engine", None, ENGINES, text, flag_values=f)
    flags.DEFINE_string("exports", None, "A folder.", flag_values=f)


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    if not args.source:
        raise UserError("Expected --source, a file to translate. Received: none. Name it.")
    if args.engine:
        take_turns(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        write_exports(args, pathlib.Path(folder))
        passes = {name: [] for name in ENGINES}
        with contextlib.ExitStack() as stack:
            children = {}
            for name in ENGINES:
                command = [sys.executable, *sys.argv, f"--engine={name}", f"--exports={folder}"]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
                child = stack.enter_context(subprocess.Popen(command, text=True, **pipes))
                stack.callback(child.kill)
                if child.stdout.readline() != "READY\n":
                    raise UserError(f"Expected {name} to load. Received: its end; see above.")
                children[name] = child
            for _ in range(args.passes):
                for name, child in children.items():
                    child.stdin.write("s\n")
                    child.stdin.flush()
                    passes[name].append(tuple(map(float, child.stdout.readline().split())))
        report(args, passes, {n: _lines(pathlib.Path(folder) / f"{n}.txt") for n in ENGINES})


def report(
    args: flags.FlagValues,
    passes: dict[str, list[tuple[float, ...]]],
    outputs: dict[str, list[str]],
) -> None:
    """Prints and writes what was seen: of each pass its seconds and its processor seconds."""
    from t2t_repro.scoring import bleu

    results, count = {}, len(outputs[ENGINES[0]])
    for name, written in outputs.items():
        wall, processor = zip(*passes[name], strict=True)
        same = sum(a == b for a, b in zip(written, outputs[ENGINES[0]], strict=True))
        results[name] = {
            "seconds": round(statistics.median(wall), 2),
            "sentences_per_s": round(count / statistics.median(wall), 1),
            "best_sentences_per_s": round(count / min(wall), 1),
            "processor_s": round(statistics.median(processor), 2),
            "identical": same,
        }
        if args.reference:
            scores = bleu.score(written, _lines(args.reference))
            results[name]["bleu"] = round(scores.sacrebleu.score, 2)
        print(f"{name}: {json.dumps(results[name])}", flush=True)
    whole = {
        "source": pathlib.Path(args.source).name,
        "sentences": count,
        "decode_hparams": args.decode_hparams,
        "threads": args.threads,
        "passes": args.passes,
        "engines": results,
    }
    if args.out:
        pathlib.Path(args.out).write_text(json.dumps(whole, indent=1) + "\n")


def write_exports(args: flags.FlagValues, folder: pathlib.Path) -> None:
    """Writes what the processes load."""
    from t2t_repro.export import ctranslate2, saved_model

    run = trained_run(**cli.run_flags(args))
    model, encoders = run.model(say=progress.on_stderr), run.encoders
    saved_model.convert(model, encoders, folder / "SavedModel", _settings(args, run))
    for kind in ("float32", "int8"):
        ctranslate2.convert(model, encoders, folder / f"CTranslate2 {kind}", kind)


def take_turns(args: flags.FlagValues) -> None:
    """Is one engine: warms up, writes what it translates, and makes a pass for each line read."""
    lines, sources = measuring.own_stdout(), _lines(args.source)
    translate = make_engine(args, pathlib.Path(args.exports) / args.engine)
    written = "".join(f"{line}\n" for line in translate(sources))
    pathlib.Path(args.exports, f"{args.engine}.txt").write_text(written, encoding="utf-8")
    lines.write("READY\n")
    for _ in sys.stdin:
        begin, used = time.perf_counter(), time.process_time()
        translate(sources)
        lines.write(f"{time.perf_counter() - begin} {time.process_time() - used}\n")


def make_engine(args: flags.FlagValues, path: pathlib.Path) -> Translate:
    """Returns what translates lines."""
    if args.engine == "SavedModel":
        return by_saved_model(path, args.threads)
    from t2t_repro.decoding.decode import ModelEngine
    from t2t_repro.decoding.program import share_cores
    from t2t_repro.decoding.translate import BATCH_SENTENCES, Translator
    from t2t_repro.export import ctranslate2

    run = trained_run(**cli.run_flags(args))
    settings, own = _settings(args, run), args.engine.startswith(ENGINES[0])
    searches = share_cores(BATCH_SENTENCES * settings.beam_size, args.threads) if own else 1
    if own:
        engine = ModelEngine(run.model(say=progress.on_stderr), searches)
    else:
        engine = ctranslate2.CTranslate2Engine(path, threads=args.threads)
    translator = Translator(engine, run.encoders, settings)
    return lambda lines: [translator.format(h) for h in translator.translate_lines(lines)]


def by_saved_model(path: pathlib.Path, threads: int) -> Translate:
    """Returns what translates lines with a SavedModel, in batches of lines of like lengths."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    tf.config.threading.set_intra_op_parallelism_threads(1)
    loaded = tf.saved_model.load(str(path))  # kept: it owns the variables

    def best(lines: list[str]) -> list[bytes]:
        return loaded.signatures["best"](inputs=tf.constant(lines))["outputs"].numpy().tolist()

    def translate(lines: list[str]) -> list[str]:
        order = sorted(range(len(lines)), key=lambda i: -len(lines[i]))
        batches = [order[begin : begin + BATCH] for begin in range(0, len(order), BATCH)]
        outputs = [""] * len(lines)
        with ThreadPoolExecutor(threads) as pool:
            answers = pool.map(best, ([lines[i] for i in batch] for batch in batches))
            for batch, answer in zip(batches, answers, strict=True):
                for i, output in zip(batch, answer, strict=True):
                    outputs[i] = output.decode()
        return outputs

    return translate


def _settings(args: flags.FlagValues, run: TrainedRun) -> Any:
    from t2t_repro.decoding.settings import DecodeHParams

    return DecodeHParams.of(run.problem, args.decode_hparams)


def _lines(path: Any) -> list[str]:
    return pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


if __name__ == "__main__":
    cli.run("real_file", __doc__, define_flags, main)
