"""t2t-compare: trains with post-norm and with pre-norm, or by several sets, and says what is best.

  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_set=transformer_multi30k --hparams=batch_size=512 \\
      --depths=2,6,12 --warmup=0,2000 --seeds=3 --train_steps=300 --output_dir=comparison
  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_sets=transformer_base_v1,transformer_base_v2 --output_dir=sets

Each cell of the grid depths x warm-ups x sequences (or sets) x seeds is a run directory of its own
under OUTPUT_DIR/cells. Only the sequences of pre- and postprocessing differ between two cells of
one depth, warm-up and seed; of sets, the report lists what does. Each is compared with the warm-up
that suits it. Written: report.html (pictures inside, nothing to load), report.md, results.csv,
curves.csv, norms.csv and the pictures. A run that diverges is a result. Stopped or killed, the same
command goes on; with longer axes it adds their cells.
"""

import os
import pathlib
import shlex
import sys

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.study import engine
from t2t_repro.study.variants import Grid, Request, of_sequences, of_sets

_BLEU_SENTENCES = 200


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-compare's flags."""
    cli.define_run_flags(f)
    cli.define_task_flags(f)

    def whole(name: str, default: int | None, text: str, least: int = 0, most=None) -> None:
        bounds = {"lower_bound": least, "upper_bound": most}
        flags.DEFINE_integer(name, default, text, flag_values=f, **bounds)

    text = "Layers of the encoder and of the decoder, with commas between; default: the set's."
    flags.DEFINE_string("depths", "", text, flag_values=f)
    text = (
        "Warm-up steps, with commas between; 0: none, from the first step at the peak of the set's "
        "own warm-up; default: the set's."
    )
    flags.DEFINE_string("warmup", "", text, flag_values=f)
    text = (
        "What is compared instead of sequences: sets, with commas between, each as it is, and with "
        "changes of its own in brackets: transformer_base_v1,transformer_base_v2[batch_size=1024]."
    )
    flags.DEFINE_string("hparams_sets", "", text, flag_values=f)
    text = "What is compared: PREPROCESS/POSTPROCESS pairs of the letters a, d, n and z, or none."
    flags.DEFINE_string("sequences", "none/dan,n/da", text, flag_values=f)
    text = "Of the learning rate, instead of the set's (T2T's legacy learning_rate 0.1 is 1.0)."
    flags.DEFINE_float("learning_rate_constant", None, text, lower_bound=0, flag_values=f)
    whole("seeds", 3, "How many runs of each, of the seeds 0, 1, ...", 1, engine.MOST_SEEDS)
    whole("train_steps", 2000, "Steps of each run.", 1)
    whole("evaluations", 8, "How often each run is evaluated on its way.", 1)
    text = "At most this many batches for that; 0, and of sets: all, as at the end."
    whole("eval_steps", 20, text)
    text = "How many dev sentences to translate at the end; default: 200 of a translation; 0: none."
    whole("bleu_sentences", None, text)
    text = "How, as t2t-decoder; default: the problem's."
    flags.DEFINE_string("decode_hparams", "", text, flag_values=f)
    text = "On how many GPUs to train each run; default: all, or one CPU. batch_size is of each."
    whole("worker_gpu", None, text, 1)


def main(args: flags.FlagValues) -> None:
    """Trains what is not trained yet, and writes the report."""
    request = request_of(args)
    from t2t_repro.study import runs  # slow to load

    runs.run(request)


def request_of(args: flags.FlagValues) -> Request:
    """Returns the comparison that the flags describe.

    Raises:
        UserError: if they do not describe one.
    """
    sets = "hparams_sets" if args.hparams_sets else "hparams_set"
    named = {n: getattr(args, n) for n in ("problem", sets, "data_dir", "output_dir")}
    cli.check_given(named, dict.fromkeys(named, "t2t-compare --help has an example."))
    for name in ("hparams_set", "sequences") if args.hparams_sets else ():
        if args[name].present:
            raise UserError(f"Expected --hparams_sets or --{name}. Received: both. Leave one out.")
    problem = registry.get_problem(args.problem)
    if problem.packed_length:
        raise UserError(
            f"Expected a problem whose examples are sentences. Received: {args.problem}, which "
            "packs them. Take the problem that it packs."
        )
    DecodeHParams.of(problem, args.decode_hparams)
    bleu_sentences = args.bleu_sentences
    if bleu_sentences is None:
        bleu_sentences = _BLEU_SENTENCES if args.problem.startswith("translate_") else 0
    depths: tuple[int | None, ...] = _numbers("depths", args.depths, 1) or (None,)
    warmups: tuple[int | None, ...] = _numbers("warmup", args.warmup, 0) or (None,)
    if args.hparams_sets:
        variants = of_sets(args.hparams_sets)
    else:
        variants = of_sequences(args.hparams_set, args.sequences)
        base = registry.get_hparams(args.hparams_set, args.hparams)
        if depths == (None,) and base.encoder_layers == base.decoder_layers:
            depths = (base.encoder_layers,)
        warmups = (base.learning_rate_warmup_steps,) if warmups == (None,) else warmups
    grid = Grid(
        problem=args.problem,
        data_dir=os.path.abspath(args.data_dir),
        variants=variants,
        hparams=args.hparams,
        depths=depths,
        warmups=warmups,
        seeds=args.seeds,
        train_steps=args.train_steps,
        learning_rate_constant=args.learning_rate_constant,
        evaluations=args.evaluations,
        eval_steps=0 if args.hparams_sets else args.eval_steps,
        bleu_sentences=bleu_sentences,
        decode_hparams=args.decode_hparams,
    )
    usr_dir = args.t2t_usr_dir and os.path.abspath(args.t2t_usr_dir)
    command = shlex.join(["t2t-compare", *sys.argv[1:]])
    return Request(grid, pathlib.Path(args.output_dir), command, usr_dir, args.worker_gpu)


def _numbers(flag: str, text: str, least: int) -> tuple[int, ...]:
    """Reads "2,6,12"."""
    try:
        numbers = tuple(int(piece) for piece in text.split(",")) if text else ()
    except ValueError:
        numbers = (least - 1,)
    if min(numbers, default=least) < least or len(set(numbers)) < len(numbers):
        raise UserError(
            f"Expected --{flag} to be different whole numbers of at least {least} with commas "
            f"between. Received: {text!r}."
        )
    return numbers


console = cli.program(__name__, "t2t-compare", __doc__, define_flags, main)
