"""What t2t-trainer takes where its flags say nothing.

A run that is there says it first; then the set, which was made for a problem; and where neither a
set nor a problem is named, the embedded default.
"""

import os
from collections.abc import Mapping
from typing import Any

from absl import flags

from t2t_repro import registry
from t2t_repro.bin import quickstart
from t2t_repro.errors import UserError
from t2t_repro.run_directory import RunConfig, RunDirectory
from t2t_repro.runs import problem_of

DATA_DIR, RUNS_DIR = "t2t_data", "t2t_runs"
_HINTS = {
    "problem": "--registry_help lists the problems.",
    "hparams_set": "--registry_help lists the sets; transformer_base is the paper's, by T2T.",
    "data_dir": "It is the folder that t2t-datagen wrote, or that --generate_data shall write.",
    "output_dir": "It is the folder of the run.",
}


def is_quickstart(args: flags.FlagValues) -> bool:
    """Whether the flags leave all to the embedded default, or name its set alone."""
    named = args.problem or args.data_dir or args.find_batch_size
    of_its_set = args.hparams_set in (None, quickstart.HPARAMS_SET)
    return of_its_set and not named and not _run_in(args.output_dir)


def run_before(args: flags.FlagValues) -> RunConfig | None:
    """Returns what the run is that these flags continue; None: they begin one."""
    return _run_in(args.output_dir or _of_the_set(args).get("output_dir"))


def known(args: flags.FlagValues) -> dict[str, Any]:
    """Returns {flag: value} of what is known without being said.

    Raises:
        UserError: if the run that is there is of a problem that needs --t2t_usr_dir.
    """
    if is_quickstart(args):
        return quickstart.defaults(args.output_dir)
    found, before = _of_the_set(args), run_before(args)
    made_for = found.get("problem")
    if before:
        problem_of(before)  # names the --t2t_usr_dir that is missing
        found |= {name: getattr(before, name) for name in ("problem", "data_dir", "random_seed")}
    if made_for and found["problem"] == made_for:
        from t2t_repro.data import records

        data_dir = args.data_dir or found["data_dir"]
        found["generate_data"] = not records.are_there(registry.get_problem(made_for), data_dir)
    return found


def check_complete(values: Mapping[str, Any], before: RunConfig | None) -> None:
    """Refuses flags that say too little, naming all that is missing.

    Args:
        values: {flag: value}, `known` included.
        before: the run that is there.

    Raises:
        UserError: if a problem, a set or a folder is missing.
    """
    named = {name: values[name] for name in _HINTS}
    if before or values["warm_start_from"]:
        del named["hparams_set"]
    missing = [name for name, value in named.items() if not value]
    if not missing:
        return
    *others, last = (f"--{name}" for name in missing)
    listed = f"{', '.join(others)} and {last}" if others else last
    received = "none of them" if others else "none"
    hints = " ".join(_HINTS[name] for name in missing)
    raise UserError(f"Expected {listed}. Received: {received}. {hints}")


def _of_the_set(args: flags.FlagValues) -> dict[str, Any]:
    """Returns what a set alone means: the problem that it was made for, in folders of the usual."""
    if args.problem or not args.hparams_set:
        return {}
    problem = registry.problem_of_hparams(args.hparams_set)
    if not problem:
        return {}
    output_dir = os.path.join(RUNS_DIR, args.hparams_set)
    return {"problem": problem, "data_dir": DATA_DIR, "output_dir": output_dir}


def _run_in(output_dir: str | None) -> RunConfig | None:
    """Returns what the run there is, if there is one that is not the embedded default's."""
    run = RunDirectory(output_dir) if output_dir else None
    config = run.config() if run and run.exists() else None
    return config if config and config.problem != quickstart.PROBLEM else None
