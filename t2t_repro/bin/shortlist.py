"""t2t-shortlist: which words may translate which, so that a search need not look at all others.

  t2t-shortlist --output_dir=RUN --max_bleu_drop=0.3
  t2t-decoder --output_dir=RUN --decode_hparams="shortlist=RUN/shortlist.txt" ...

counts in the training pairs of a run what each subword of the source becomes (IBM model 1), and
writes the candidates of each to RUN/shortlist.txt, beside the vocabulary. It says how much of dev
they hold; with --max_bleu_drop it decodes dev with and without them, says what they cost, and
writes nothing if that is more. It is a text file, the vmap.txt of CTranslate2.
"""

import dataclasses
import os
import pathlib
import tempfile
from collections.abc import Callable

from absl import flags

from t2t_repro import cli, progress
from t2t_repro.decoding.request import check_output
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import behind_links, is_stream, write_text_atomic
from t2t_repro.outputs import check_outputs, check_room
from t2t_repro.problem import Split
from t2t_repro.requests import flag
from t2t_repro.run_directory import SHORTLIST
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.translation import check_text


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What to write, and what it may cost."""

    shortlist_file: str | None = flag(None, "The file; default: shortlist.txt in --output_dir.")
    best: int = flag(
        20, "Candidates of each source subword, those that it most often became.", least=1
    )
    frequent: int = flag(
        100, "How many of the most frequent target subwords are always candidates.", least=0
    )
    max_bleu_drop: float | None = flag(
        None, "Write nothing if the shortlist loses more BLEU than this on dev.", least=0.0
    )
    gate_samples: int = flag(500, "How many sentences of dev say how much BLEU is lost.", least=1)
    decode_hparams: str = flag("", 'How they are decoded: "name=value,name=value".')


def define_flags(f: flags.FlagValues) -> None:
    for name, text in {
        "output_dir": "The run directory.",
        "data_dir": "The folder of the training data; default: the run's.",
        "t2t_usr_dir": "Your own package of problems.",
    }.items():
        flags.DEFINE_string(name, None, text, flag_values=f)
    cli.define_request_flags(f, Request)


def main(args: flags.FlagValues) -> None:
    """Writes the shortlist of the run that the flags name."""
    cli.check_filled(args, ["shortlist_file"])
    request = cli.request(args, Request)
    cli.check_needs(args, dict.fromkeys(("gate_samples", "decode_hparams"), "max_bleu_drop"))
    run = trained_run(args.output_dir, args.data_dir)
    path = pathlib.Path(request.shortlist_file or run.path / SHORTLIST)
    check_place(path)
    say = progress.on_stderr if is_stream(path) else print  # beside a file that goes to stdout
    searches = 1
    if request.max_bleu_drop is not None:
        check_text(run.problem, "--max_bleu_drop")
        if DecodeHParams.parse(request.decode_hparams).shortlist:
            raise UserError(
                "Expected --decode_hparams without a shortlist: what is tried is the one that is "
                f"made. Received: {request.decode_hparams}. Leave it out."
            )
        run.check_checkpoint()
        settings = run.decode_settings(request.decode_hparams)
        settings.check_searches(request.decode_hparams)
        check_output(settings, run.problem)
        try:
            dataclasses.replace(settings, shortlist=SHORTLIST)
        except UserError as error:
            raise UserError(f"{error} --max_bleu_drop tries the one that is made.") from error
        from t2t_repro.decoding.program import share_cores
        from t2t_repro.decoding.translate import BATCH_SENTENCES
        from t2t_repro.training import devices

        run = run.on(devices.here())  # before TensorFlow reads the data
        searches = share_cores(BATCH_SENTENCES * settings.beam_size)
    from t2t_repro.data import candidates, pipeline

    dev = list(pipeline.read_split(run.problem, Split.EVAL, run.data_dir))
    pairs = candidates.training_pairs(run.problem, run.data_dir)
    found = candidates.shortlist_of(
        pairs, run.encoders, best=request.best, frequent=request.frequent
    )
    say(str(candidates.coverage(found, dev)))
    text = found.text(run.encoders)
    if request.max_bleu_drop is not None:
        check_bleu(run, request, text, dev[: request.gate_samples], searches, say)
    write_text_atomic(path, text)
    say(f'Wrote {path}. t2t-decoder --decode_hparams="shortlist={path}" decodes with it.')


def check_place(path: pathlib.Path) -> None:
    """Refuses, before the work, a file that could not be written, or would destroy something."""
    check_outputs({"--shortlist_file": path}, {})
    if not is_stream(path):
        check_room(behind_links(path).parent)


def check_bleu(
    run: TrainedRun,
    request: Request,
    text: str,
    examples: list[dict[str, list[int]]],
    searches: int,
    say: Callable[[str], None],
) -> None:
    """Says what a shortlist costs, and refuses one that costs too much."""
    from t2t_repro.decoding.decode import ModelEngine
    from t2t_repro.interop import quality

    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, SHORTLIST)
        write_text_atomic(file, text)
        settings = dataclasses.replace(run.decode_settings(request.decode_hparams), shortlist=file)
        engine = ModelEngine(run.model(say=progress.on_stderr), searches)
        lost = quality.compare(engine.model, engine, run.encoders, examples, settings)
        say(str(lost))
        quality.check(lost, request.max_bleu_drop)


console = cli.program(__name__, "t2t-shortlist", __doc__, define_flags, main)
