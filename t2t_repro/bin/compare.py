"""t2t-compare: trains post-norm and pre-norm, or several sets, and reports which is best.

  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_set=transformer_multi30k --hparams=batch_size=512 \\
      --depths=2,6,12 --warmup=0,2000 --seeds=3 --train_steps=300 --output_dir=comparison
  t2t-compare --problem=translate_ende_multi30k --data_dir=t2t_data \\
      --hparams_sets=transformer_base_v1,transformer_base_v2 --output_dir=sets

Each combination of depth, warm-up, variant and seed is a run directory under OUTPUT_DIR/cells.
Post-norm and pre-norm differ only in layer_preprocess_sequence and layer_postprocess_sequence; for
sets, the report lists the differences. Each variant is compared with its best warm-up. A run that
diverges counts as a result. The outputs are report.html (self-contained), report.md, report.json,
results.csv and the pictures. If interrupted, run the same command to resume. With more depths,
warm-ups or seeds, only the missing runs are trained.
"""

import dataclasses
import os
import pathlib
import shlex
import sys

from absl import flags

from t2t_repro import cli, registry
from t2t_repro.errors import UserError
from t2t_repro.fields import flag
from t2t_repro.study import compared
from t2t_repro.study.results import MOST_SEEDS
from t2t_repro.study.study import Study

_BLEU_SENTENCES = 200


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareFlags:
    """The flags of t2t-compare, beside those of the run and of the task."""

    hparams_sets: str = flag(
        "",
        "Hparam sets to compare, separated by commas; default: --hparams_set with post-norm and "
        "with pre-norm. Overrides of one set go in brackets: "
        "transformer_base_v1,transformer_base_v2[batch_size=1024].",
    )
    depths: str = flag("", "Depths to compare, such as 2,6,12; default: the hparam set's.")
    warmup: str = flag(
        "",
        "Numbers of warm-up steps, separated by commas; default: the hparam set's. 0: no "
        "warm-up, so the learning rate begins at its peak value.",
    )
    seeds: int = flag(3, "Runs that differ only in the seed: 0, 1, ...", least=1, most=MOST_SEEDS)
    train_steps: int = flag(2000, "Training steps of each run.", least=1)
    bleu_sentences: int | None = flag(
        None,
        "How many dev sentences to translate at the end; 0: none; default: 200 for translation "
        "problems, else none.",
        least=0,
    )


def main(args: flags.FlagValues) -> None:
    """Trains the missing runs, and writes the report."""
    study = study_of(args)
    from t2t_repro.study import report, runs  # slow to load

    print(report.comparison(runs.run(study, report.comparison)))
    print(f"Written to {study.output_dir / 'report.html'}.")


def study_of(args: flags.FlagValues) -> Study:
    """Returns the comparison of the flags.

    Raises:
        UserError: if they define none.
    """
    compared_by = "hparams_sets" if args.hparams_sets else "hparams_set"
    named = ("problem", compared_by, "data_dir", "output_dir")
    hints = dict.fromkeys(named, "Run t2t-compare --help for an example.")
    cli.check_given(args.flag_values_dict(), hints)
    problem = registry.get_problem(args.problem)
    if problem.packed_length:
        raise UserError(
            f"Expected an unpacked problem. Received: {args.problem}, which is packed. Use the "
            "unpacked problem."
        )
    bleu_sentences = args.bleu_sentences
    if bleu_sentences is None:
        bleu_sentences = _BLEU_SENTENCES if args.problem.startswith("translate_") else 0
    build = compared.sets if args.hparams_sets else compared.norms
    usr_dir = args.t2t_usr_dir and os.path.abspath(args.t2t_usr_dir)
    return Study(
        problem=args.problem,
        data_dir=os.path.abspath(args.data_dir),
        output_dir=pathlib.Path(args.output_dir),
        variants=compared.in_settings(
            build(getattr(args, compared_by), args.hparams),
            _numbers("depths", args.depths),
            _numbers("warmup", args.warmup),
            args.train_steps,
        ),
        seeds=args.seeds,
        bleu_sentences=bleu_sentences,
        # Evaluations on the way; of sets, the batches are of other sentences.
        flags=(
            f"--eval_steps={0 if args.hparams_sets else 20}",
            *([f"--t2t_usr_dir={usr_dir}"] if usr_dir else []),
            "--yes",
        ),
        command=shlex.join(["t2t-compare", *sys.argv[1:]]),
    )


def _numbers(flag: str, text: str) -> list[int | None]:
    """Returns the numbers of "2,6,12"; for "" the set's own."""
    try:
        return list(dict.fromkeys(map(int, text.split(",")))) if text else [None]
    except ValueError:
        raise UserError(
            f"Expected --{flag} as whole numbers separated by commas. Received: {text!r}."
        ) from None


console = cli.program(
    __name__, "t2t-compare", __doc__, (cli.RunFlags, cli.TaskFlags, CompareFlags), main
)
