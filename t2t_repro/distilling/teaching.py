"""How the teacher translates: by which command, and what that cannot be asked for."""

import pathlib

from t2t_repro import fields
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import OF_OUTPUT, DecodeHParams
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.errors import UserError
from t2t_repro.problem import OutputType
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.stages import Stage


def check(request: DistillRequest, teacher: TrainedRun) -> None:
    """Refuses what t2t-decoder would refuse when the sentences are there.

    Raises:
        UserError: saying why.
    """
    teacher.check_checkpoint()
    settings = teacher.decode_settings(request.decode_hparams)
    if output := fields.parse_overrides(request.decode_hparams).keys() & set(OF_OUTPUT):
        raise UserError(
            "Expected --decode_hparams that say how to search. Received: "
            f"{', '.join(sorted(output))}. Leave it out; --n_best takes more than the best."
        )
    _check_n_best(request, settings)
    for other in others(request):
        teacher.check_decodes_with(other)
        other.check_checkpoint()
    if request.reverse_teacher:
        _check_reverse(request, teacher)
    decoding = DecodeRequest(
        decode_from_file="sources.txt", ensemble=request.ensemble or None, engine=request.engine
    )
    decoding.check(settings)


def others(request: DistillRequest) -> list[TrainedRun]:
    """Returns the runs that translate together with the teacher."""
    return [trained_run(path) for path in request.ensemble.split(",") if path]


def _check_n_best(request: DistillRequest, settings: DecodeHParams) -> None:
    if request.n_best > settings.beam_size:
        raise UserError(
            f"Expected --n_best of at most beam_size={settings.beam_size}. Received: "
            f"{request.n_best}. Add --decode_hparams=beam_size={request.n_best}."
        )


def _check_reverse(request: DistillRequest, teacher: TrainedRun) -> None:
    back = trained_run(request.reverse_teacher)
    if back.config.problem == teacher.config.problem:
        raise UserError(
            "Expected --reverse_teacher to translate the other way. Received: "
            f"{request.reverse_teacher}, of {back.config.problem} as the teacher. Train one with "
            f"--problem={teacher.problem.name}{'' if teacher.problem.was_reversed else '_rev'}."
        )
    if back.problem.output_type != OutputType.TEXT:
        raise UserError(
            "Expected a --reverse_teacher that writes text. Received: "
            f"{request.reverse_teacher}, which writes {back.problem.output_type}. Name another run."
        )
    back.check_checkpoint()
    _check_n_best(request, back.decode_settings(request.decode_hparams))


def task(request: DistillRequest, sources: pathlib.Path, translations: pathlib.Path) -> Stage:
    """Returns the work of the teacher, a line for each of the sources."""
    given = {"data_dir": request.data_dir, "ensemble": request.ensemble}
    said = "The teacher translates"
    return _decoding(request, said, request.teacher, given, sources, translations)


def reverse_task(request: DistillRequest, targets: pathlib.Path, sources: pathlib.Path) -> Stage:
    """Returns the work of the reverse teacher, a line for each of the targets."""
    said = "The reverse teacher translates"
    return _decoding(request, said, request.reverse_teacher, {}, targets, sources)


def _decoding(
    request: DistillRequest,
    said: str,
    run: str,
    its_own: dict[str, str],
    sources: pathlib.Path,
    translations: pathlib.Path,
) -> Stage:
    """Returns the task in which a run translates.

    Args:
        request: how.
        said: a headline.
        run: which.
        its_own: flags of this run alone.
        sources: a sentence a line.
        translations: gets a line for each, and gives the task its name.
    """
    many = request.n_best > 1
    decode_hparams = ",".join(filter(None, [request.decode_hparams, "return_beams=True" * many]))
    given = its_own | {
        "decode_hparams": decode_hparams,
        "output_format": "jsonl" * many,
        "engine": request.engine if request.engine != "tensorflow" else "",
        "t2t_usr_dir": request.t2t_usr_dir,
    }
    return Stage(
        name=translations.stem,
        says=said,
        command=[
            "t2t-decoder",
            f"--output_dir={run}",
            f"--decode_from_file={sources}",
            f"--decode_to_file={translations}",
            *(f"--{name}={value}" for name, value in given.items() if value),
        ],
        outputs=[translations],
    )
