"""t2t-compare: trains with post-norm and with pre-norm, or by several sets, and says what is best.

  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_set=transformer_multi30k --hparams=batch_size=512 \\
      --depths=2,6,12 --warmup=0,2000 --seeds=2 --train_steps=300 --output_dir=comparison
  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_sets=transformer_base_v1,transformer_base_v2 --output_dir=sets

Each cell of the grid depths x warm-ups x sequences (or sets) x seeds is a run directory of its own
under OUTPUT_DIR/cells. Only the sequences of pre- and postprocessing differ between two cells of
one depth, warm-up and seed; of sets, the report lists what does. Each is compared with the warm-up
that suits it. Written: report.html (pictures inside, nothing to load), report.md, results.csv,
curves.csv, norms.csv, comparisons.csv and the pictures. A run that diverges is a result. Stopped or
killed, the same command goes on; with longer axes it adds their cells.
"""

import glob
import os
import pathlib
import sys

from absl import flags

from t2t_repro import cli, registry, signals
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError, unknown
from t2t_repro.fields import parse_overrides
from t2t_repro.hparam_rules import MODELS
from t2t_repro.problem import Split
from t2t_repro.studies.compare import runner
from t2t_repro.studies.compare.grid import Grid, parse_numbers
from t2t_repro.studies.compare.variants import of_sequences, of_sets

_BLEU_SENTENCES = 200
_SEARCH = ("beam_size", "alpha", "extra_length")  # of decode hparams


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-compare's flags."""
    cli.define_run_flags(f)

    def whole(name: str, default: int | None, text: str, least: int = 0) -> None:
        flags.DEFINE_integer(name, default, text, lower_bound=least, flag_values=f)

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
    text = "How many runs of each, of the seeds 0, 1, ..."
    flags.DEFINE_integer("seeds", 3, text, lower_bound=1, upper_bound=1000, flag_values=f)
    whole("train_steps", 2000, "Steps of each run.", 1)
    whole("evaluations", 8, "How often each run is evaluated on its way.", 1)
    text = "At most this many batches for that, but all where sets cut them otherwise; 0: all, as "
    whole("eval_steps", 20, f"{text}at the end.")
    text = "How many dev sentences to translate at the end; default: 200 of a translation; 0: none."
    flags.DEFINE_integer("bleu_sentences", None, text, lower_bound=0, flag_values=f)
    text = f"How, as t2t-decoder: {', '.join(_SEARCH)}; default: the problem's."
    flags.DEFINE_string("decode_hparams", "", text, flag_values=f)
    text = "On how many GPUs to train each run; default: all, or one CPU. batch_size is of each."
    whole("worker_gpu", None, text, 1)


def main(args: flags.FlagValues) -> None:
    """Trains what is not trained yet, and writes the report."""
    with signals.watching():
        runner.run(request_of(args))


def request_of(args: flags.FlagValues) -> runner.Request:
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
            "Expected a problem whose examples are sentences: they are compared one by one. "
            f"Received: {args.problem}, which packs them. Take the problem that it packs."
        )
    data_dir = pathlib.Path(args.data_dir).expanduser()
    for name in parse_overrides(args.decode_hparams).keys() - set(_SEARCH):
        raise unknown("decode hparam of t2t-compare", name, _SEARCH)
    DecodeHParams.of(problem, args.decode_hparams)
    bleu_sentences = args.bleu_sentences
    if bleu_sentences is None:
        bleu_sentences = _BLEU_SENTENCES if args.problem.startswith("translate_") else 0
    if args.decode_hparams and not bleu_sentences:
        raise UserError(
            "Expected --bleu_sentences with --decode_hparams, which has no effect where nothing is "
            f"decoded. Received: --decode_hparams={args.decode_hparams}, and 0 sentences. Give "
            "both, or neither."
        )
    depths: tuple[int | None, ...] = parse_numbers("depths", args.depths) or (None,)
    warmups: tuple[int | None, ...] = parse_numbers("warmup", args.warmup) or (None,)
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
        data_dir=os.path.abspath(data_dir),
        variants=variants,
        hparams=args.hparams,
        depths=depths,
        warmups=warmups,
        seeds=args.seeds,
        train_steps=args.train_steps,
        learning_rate_constant=args.learning_rate_constant,
        evaluations=args.evaluations,
        eval_steps=args.eval_steps,
        bleu_sentences=bleu_sentences,
        decode_hparams=args.decode_hparams,
    )
    if not any(data_dir.glob(f"{glob.escape(problem.dataset_filename())}-{Split.TRAIN}-*")):
        raise UserError(
            f"Expected the files of {args.problem} in --data_dir. Received: {data_dir} without "
            f"them. Make them: {problem.datagen_command(data_dir)}"
        )
    if bleu_sentences:
        _check_decodes(grid)
    output_dir = pathlib.Path(args.output_dir).expanduser()
    command = ("t2t-compare", *sys.argv[1:])
    usr_dir = args.t2t_usr_dir and os.path.abspath(os.path.expanduser(args.t2t_usr_dir))
    return runner.Request(grid, output_dir, command, usr_dir, args.worker_gpu)


def _check_decodes(grid: Grid) -> None:
    """Refuses a model that nothing could translate with when it is trained."""
    models = {grid.hparams_of(cell).model for cell in grid.cells()}
    for name in sorted(models.difference(MODELS)):  # this package's own decode
        if not hasattr(registry.get_model(name), "decode_step"):
            raise UserError(
                "Expected models that translate, for the BLEU of dev sentences. Received: "
                f"model={name} without start_decoding and decode_step. Add --bleu_sentences=0, "
                "with a new --output_dir."
            )


console = cli.program(__name__, "t2t-compare", __doc__, define_flags, main)
