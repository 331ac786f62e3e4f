"""The command that trains each row of the paper's tables, and how long that takes."""

from t2t_repro import registry
from t2t_repro.studies.paper import published
from t2t_repro.studies.paper.hardware import Hardware
from t2t_repro.studies.paper.scaling import efficiency_note
from t2t_repro.studies.paper.tables import paper_step_flop, training_flop
from t2t_repro.studies.tables import Table, columns

_ENDE, _ENFR = "translate_ende_wmt14", "translate_enfr_wmt14"
_OTHERS = (  # those not in table 3: problem, set, vocabulary
    (_ENFR, "paper_table2_base_enfr", "enfr"),
    (_ENFR, "paper_table2_big_enfr", "enfr"),
    ("parsing_wsj16k", "paper_parsing_wsj", "wsj"),
    ("parsing_wsj_semi32k", "paper_parsing_semi_supervised", "semi"),
)


def plan(hardware: Hardware, efficiency: float | None = None) -> Table:
    """Returns the table of all rows.

    Args:
        hardware: where it is to be trained.
        efficiency: the share of its rate that training reaches; None: the device's own.
    """
    table3 = ((_ENDE, row.hparams_set, "ende") for row in published.TABLE3)
    rows = []
    for problem, hparams_set, vocabulary in (*table3, *_OTHERS):
        hparams = registry.get_hparams(hparams_set)
        step = paper_step_flop(hparams, published.VOCABULARY[vocabulary])
        total = step * hparams.train_steps
        share = efficiency or hardware.device.efficiency_of(hparams.hidden_size)
        rows.append(
            (
                *(problem, hparams_set, hparams.train_steps, published.BATCH_TOKENS),
                *(step / 1e12, total, share),
                hardware.hours(total, share),
                command(problem, hparams_set, hardware),
            )
        )
    pattern = command("PROBLEM", "SET", hardware)
    return Table(
        "training",
        f"Training each row on {hardware}",
        columns(
            "problem | hparams_set | steps :, | target tokens a step :, | TFLOP a step :.2f | "
            "FLOP :.2e | efficiency :.2f | hours :,.2f | command",
            in_files_only=("target tokens a step", "FLOP", "command"),
        ),
        rows,
        (
            f"{pattern} (each row's own in the files written)",
            f"hours = FLOP / ({hardware.count} x {hardware.device.rate:.3g} TFLOP/s "
            f"{hardware.device.precision} x efficiency); "
            f"{efficiency_note(hardware.device, efficiency)}, without the exchange of gradients, "
            "which --tables=scaling has. "
            f"{hardware.device.source}. The paper's own hours on 8 P100 are efficiencies of "
            f"{_paper_efficiencies()}: table 2.",
            f"A step is {published.BATCH_TOKENS:,} source and {published.BATCH_TOKENS:,} target "
            "tokens, on whatever devices: t2t-trainer gathers the batches that make them. "
            "The paper does not say for how many steps it trained the parsers: base's are taken, "
            "and base's batch.",
        ),
    )


def _paper_efficiencies() -> str:
    costs = ((training.model, *training_flop(training)) for training in published.TRAINING)
    return " and ".join(f"{counted / by_time:.2f} ({model})" for model, by_time, counted in costs)


def command(problem: str, hparams_set: str, hardware: Hardware) -> str:
    """Returns the t2t-trainer command; the sets make the paper's batch on whatever devices."""
    parts = [
        f"t2t-trainer --problem={problem} --hparams_set={hparams_set} --data_dir=data",
        f"--output_dir=runs/{problem}-{hparams_set}",
    ]
    if hardware.count > 1:
        parts.append(f"--worker_gpu={min(hardware.count, hardware.device.per_host)}")
    if hardware.device.precision != "float32":  # that of the hours
        parts.append(f"--hparams=activation_dtype={hardware.device.precision}")
        if hardware.count <= hardware.device.per_host:  # JAX trains on one host
            parts.insert(0, "KERAS_BACKEND=jax")
    return " ".join(parts)
