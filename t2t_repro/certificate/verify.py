"""Repeating what a certificate says: of a run here, of an export by verify_export.py."""

import math
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from t2t_repro import schema
from t2t_repro.certificate import certify, environment, golden, record
from t2t_repro.certificate.record import Certificate, File
from t2t_repro.certificate.verify_export import (
    CHANGED,
    MISSING,
    NAME,
    NOT_HERE,
    NOTE,
    OK,
    Check,
    check_golden,
    is_sealed,
)
from t2t_repro.data import raw_text
from t2t_repro.errors import UserError
from t2t_repro.files import sha256
from t2t_repro.run_directory import TUNED, RunDirectory
from t2t_repro.runs import NeedsPackage, problem_of, trained_run


def kind_of(folder: pathlib.Path) -> str:
    """Returns what the certificate in a folder is of; that of a run where it cannot be read.

    Raises:
        UserError: if there is none.
    """
    if not (folder / NAME).is_file():
        raise UserError(
            f"Expected {NAME} in {folder}. Received: none. t2t-trainer writes it at the end of a "
            "training, t2t-avg-all and t2t-exporter theirs; what is older has none. The same "
            "command again, or another export, writes it."
        )
    try:
        found = record.read(folder)
    except UserError:
        found = None
    is_run = (folder / "run.json").exists()
    return found.kind if found else record.RUN if is_run else "saved_model"


def verify_run(folder: pathlib.Path, *, with_package: bool = False) -> Iterator[Check]:
    """Yields everything that is found of a run.

    Args:
        folder: the run.
        with_package: whether a --t2t_usr_dir was loaded.

    Raises:
        NeedsPackage: if the run needs one and none was: nothing of it has changed by that.
    """
    try:
        problem_of(RunDirectory(folder).config())
    except NeedsPackage:
        if not with_package:
            raise
    except UserError:  # which the checks find
        pass
    text = (folder / NAME).read_bytes().decode(errors="replace")
    if not is_sealed(text):
        yield Check(CHANGED, "certificate", NAME)
    try:
        found = schema.parse(text, Certificate, NAME)
    except UserError as error:
        if is_sealed(text):
            yield Check(CHANGED, "certificate", NAME, str(error))
        return
    if is_sealed(text):
        yield Check(OK, "certificate", NAME)
    yield from _environment(found)
    try:
        data = found.data
        yield from _files("run", found.files, folder)
        yield from _files("vocabulary", data.vocabulary, folder)
        yield from _files("raw file", data.raw_files, folder)
        yield from _files("raw text", data.raw_text, folder, raw_text.sha256)
        yield from _files("report", data.reports, folder)
        for split, files in data.splits.items():
            yield from _files(split, files, folder)
        yield from _run_file(folder, found)
        yield from _scores(folder, found)
        yield from _golden(folder, found)
    except UserError as error:
        yield Check(CHANGED, "run", str(folder), str(error))


def _environment(found: Certificate) -> Iterator[Check]:
    """Says with what it was made, and what is another here."""
    for made in found.made:
        here = {"commit": environment.commit(), **environment.packages()}
        there = {"commit": made.commit, **made.packages}
        differs = [
            f"{name} {value}, here {here.get(name, 'none')}"
            for name, value in there.items()
            if here.get(name) != value
        ]
        why = f"{made.version} on {made.device}" + (f"; {', '.join(differs)}" if differs else "")
        yield Check(NOTE, "made by", made.program, why)


def _run_file(folder: pathlib.Path, found: Certificate) -> Iterator[Check]:
    """Yields what is found of run.json, which grows with each start."""
    config = trained_run(folder).config
    names = ("problem", "hparams_set", "random_seed")
    differs = [
        f"{name} is {getattr(config, name)!r}, and was {getattr(found, name)!r}"
        for name in names
        if getattr(config, name) != getattr(found, name)
    ]
    yield Check(CHANGED if differs else OK, "run", "run.json", "; ".join(differs))


def _files(
    part: str,
    files: Iterable[File],
    folder: pathlib.Path,
    digest_of: Callable[[str | os.PathLike], str] = sha256,
) -> Iterator[Check]:
    """Yields what is found of files; whole folders outside of the run need not be here."""
    for each in files:
        path = folder / each.path
        if path.is_file():
            try:
                state, why = OK if digest_of(path) == each.sha256 else CHANGED, ""
            except UserError as error:  # a .gz that is broken
                state, why = CHANGED, str(error)
            yield Check(state, part, each.path, why)
        elif os.path.isabs(each.path) and not path.parent.is_dir():
            yield Check(NOT_HERE, part, each.path)
        else:
            yield Check(MISSING, part, each.path)


def _scores(folder: pathlib.Path, found: Certificate) -> Iterator[Check]:
    """Yields the scores, and whether metrics.jsonl has those of training still."""
    run = trained_run(folder)
    there = {(s.name, s.of): s.value for s in certify.scores_in(run, found.step)}
    from_metrics = not (folder / TUNED).exists()
    for each in found.scores:
        what = f"{each.name} {each.value:.4f} of {each.of}"
        teacher_forced = from_metrics and each.signature.startswith("tensor2tensor")
        known = there.get((each.name, each.of))
        if known is not None and known != each.value and not _are_nan(known, each.value):
            yield Check(CHANGED, "score", what, f"metrics.jsonl says {known}")
        elif known is None and teacher_forced:
            yield Check(MISSING, "score", what, "metrics.jsonl does not have it")
        else:
            yield Check(OK if known is not None else NOTE, "score", what, each.signature)


def _are_nan(*values: float) -> bool:
    return all(map(math.isnan, values))


def _golden(folder: pathlib.Path, found: Certificate) -> Iterator[Check]:
    """Decodes the sentences again."""
    if not found.golden:
        yield Check(NOTE, "translations", "there are none to repeat")
        return
    run = trained_run(folder)
    texts = [each.source for each in found.golden]
    settings = run.decode_settings(",".join(f"{k}={v}" for k, v in found.decoding.items()))
    from t2t_repro.decoding.decode import ModelEngine

    model = run.model(run.directory.checkpoints_dir / f"ckpt-{found.step}")
    written = golden.translations(ModelEngine(model), run.encoders, settings, texts)
    yield from check_golden([vars(each) for each in found.golden], written)


def summary(checks: Sequence[Check]) -> str:
    """Returns in a line how many are as they were."""
    bad = sum(check.is_bad for check in checks)
    ok = sum(check.state == OK for check in checks)
    away = sum(check.state == NOT_HERE for check in checks)
    rest = f"; {away} are not here" if away else ""
    if bad:
        return f"{bad} are not as they were, {ok} are{rest}."
    return f"All {ok} are as they were{rest}."
