"""t2t-gains: what a fine-tuned run gained on its own text, and lost on the text of its parent.

  t2t-gains --output_dir=RUN

decodes the dev sets of both with both, the run and the one that t2t-trainer --warm_start_from began
it with, and prints sacreBLEU of each with 95 % intervals and p, by its paired bootstrap.
"""

from absl import flags

from t2t_repro import cli, gains
from t2t_repro.decoding.request import check_output
from t2t_repro.files import write_text_atomic
from t2t_repro.outputs import check_outputs
from t2t_repro.runs import trained_run


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-gains's flags."""
    for name, text in {
        "output_dir": "The run that was fine-tuned.",
        "parent": "The run that it began with; default: as it says, at that checkpoint.",
        "data_dir": "The folder of the new data; default: the run's.",
        "parent_data_dir": "The folder of the old data; default: the parent's.",
        "json_file": "Where to write what was found.",
        "t2t_usr_dir": "Your own package of problems.",
    }.items():
        flags.DEFINE_string(name, None, text, flag_values=f)
    cli.define_request_flags(f, gains.GainsRequest)


def main(args: flags.FlagValues) -> None:
    """Compares the run that the flags name with its parent."""
    cli.check_filled(args, ["json_file", "parent"])
    request = cli.request(args, gains.GainsRequest)
    child = trained_run(args.output_dir, args.data_dir)
    checkpoint = None if args.parent else gains.parent_of(child)
    parent = trained_run(
        args.parent or (checkpoint and checkpoint.parents[1]), args.parent_data_dir
    )
    gains.check(child, parent)
    if args.json_file:
        check_outputs({"--json_file": args.json_file}, {})
    settings = child.decode_settings(request.decode_hparams)
    settings.check_searches(request.decode_hparams)  # before what is slow to load
    check_output(settings, child.problem)
    from t2t_repro.decoding.program import share_cores
    from t2t_repro.decoding.translate import BATCH_SENTENCES
    from t2t_repro.training import devices

    where = devices.here()
    child, parent = child.on(where), parent.on(where)
    searches = share_cores(BATCH_SENTENCES * settings.beam_size)
    found = gains.compare(child, parent, request, checkpoint=checkpoint, searches=searches)
    for domain in found:
        print(domain)
    for signature in dict.fromkeys(domain.signature for domain in found):
        print(signature)
    if args.json_file:
        write_text_atomic(args.json_file, gains.as_json(found, child, parent))
    gains.check_drop(found, request.max_bleu_drop)


console = cli.program(__name__, "t2t-gains", __doc__, define_flags, main)
