"""From a teacher to a trained student: the programs, their order and flags."""

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from t2t_repro import registry, stages
from t2t_repro.distill import pairs
from t2t_repro.distill.request import DistillRequest
from t2t_repro.distill.student import Student, student
from t2t_repro.errors import UserError
from t2t_repro.own_text import plan
from t2t_repro.problem import Split, check_text
from t2t_repro.run_directory import TRAINING_DATA, TUNED
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.stages import Record, Stage, command
from t2t_repro.training.state import WEIGHTS

PROBLEM = "text2text_tmpdir_distill"
# What makes the text: another needs another folder. A student may differ until it was begun.
_OF_THE_TEXT = (
    *("teacher", "monolingual", "back_translate"),
    *("n_best", "repeat_gold", "decode_hparams"),
)


def distill(request: DistillRequest, say: Callable[[str], None] = print) -> Record:
    """Runs the unfinished stages; returns the record.

    Args:
        request: what is asked for.
        say: gets lines.

    Raises:
        UserError: if the teacher cannot teach, flags or text are not those with which the folder
            was begun, or a program fails.
        Interrupted: on a signal.
    """
    folder = Path(request.output_dir)
    folder = folder if folder.parts else folder.absolute()  # "." names nothing in a command
    teacher = trained_run(request.teacher)
    check_text(teacher.problem, "t2t-distill")
    beams = teacher.decode_settings(request.decode_hparams).beam_size
    if request.n_best > beams:
        raise UserError(
            f"Expected --n_best of at most the beam size, {beams}. Received: {request.n_best}. Add "
            f"--decode_hparams=beam_size={request.n_best}."
        )
    wanted = student(request, teacher)
    registry.get_problem(PROBLEM).ask_vocabularies(teacher.vocabularies)  # before the work
    text = folder / "text"
    taught = folder / "teacher" / "sources.txt", folder / "teacher" / "references.txt"
    translations = folder / "teacher" / "translations.jsonl"
    begun_with = {name: getattr(request, name) for name in _OF_THE_TEXT}
    inputs = [str(teacher.checkpoint() / WEIGHTS), *request.texts]
    with stages.begin(folder / "distill.json", begun_with, inputs, say) as doing:
        left_out = doing.run(
            Stage(name="sources", says="Sentences for the teacher to translate", outputs=taught),
            lambda: pairs.write_sources(teacher, request, *taught),
        )
        doing.run(_translating(request, taught[0], translations))
        made = [text / split / name for split in (Split.TRAIN, Split.EVAL) for name in pairs.FILES]
        counts = doing.run(
            Stage(name="pairs", says="Training pairs for the student", outputs=made),
            lambda: pairs.write_pairs(teacher, request, (*taught, translations), text),
        )
        for what, count in (counts | {"sentences left out: they are in dev too": left_out}).items():
            say(f"  {count:,} {what}")
        for stage in _of_the_student(request, folder, teacher, wanted):
            doing.run(stage)
    model = shlex.quote(f"--output_dir={folder / 'model'}")
    say(f"\nWhat to try next:\n  t2t-decoder {model} --decode_interactive\n  t2t-exporter {model}")
    return doing.record


def _translating(request: DistillRequest, sources: Path, translations: Path) -> Stage:
    beams = "return_beams=True" if request.n_best > 1 else ""
    decode = command(
        "t2t-decoder",
        output_dir=request.teacher,
        decode_from_file=sources,
        decode_to_file=translations,
        output_format="jsonl",
        decode_hparams=",".join(filter(None, [request.decode_hparams, beams])),
        t2t_usr_dir=request.t2t_usr_dir,
    )
    says = "Translating with the teacher"
    return Stage(name="translations", says=says, command=decode, outputs=[translations])


def _of_the_student(
    request: DistillRequest, folder: Path, teacher: TrainedRun, wanted: Student
) -> Iterator[Stage]:
    """Yields the stages from the student's text to the student, and to its teacher beside it."""
    text, data, run, model = (folder / name for name in ("text", "data", "run", "model"))
    vocabularies = [*teacher.vocabularies.values()]  # of a reversed problem as they lie in files
    if teacher.problem.was_reversed != bool(request.back_translate):
        vocabularies.reverse()
    flags: dict[str, Any] = {"vocab": ",".join(dict.fromkeys(vocabularies))}
    flags |= {"problem": PROBLEM, "tmp_dir": text, "data_dir": data}
    yield Stage(
        name="data",
        says="Encoding with the teacher's vocabulary",
        command=command("t2t-datagen", **flags),
        outputs=[data / f"datagen.{PROBLEM}.json"],
    )
    usr_dir = {"t2t_usr_dir": request.t2t_usr_dir}
    warm = ["--warm_start_partial"] * request.warm_start  # of fewer layers: those that it has
    train = command(
        "t2t-trainer",
        *warm,
        problem=PROBLEM,
        data_dir=data,
        output_dir=run,
        hparams_set=wanted.hparams_set,
        hparams=wanted.hparams,
        train_steps=wanted.train_steps,
        local_eval_frequency=max(plan.LEAST_STEPS, wanted.train_steps // plan.EVALUATIONS),
        eval_bleu_sentences=plan.BLEU_SENTENCES,
        warm_start_from=request.teacher if request.warm_start else "",
        **plan.KEEPING,
        **usr_dir,
    )
    says = "Training the student; the best checkpoints by BLEU are kept"
    yield Stage(name="training", says=says, command=train, outputs=[run / TRAINING_DATA])
    flags = {"model_dir": run, "output_dir": model, **usr_dir}
    flags |= {"beam_sizes": 1, "alphas": 0.6} if wanted.greedy else {}
    says = f"Choosing checkpoints{'' if wanted.greedy else ', beam size and alpha'} on dev"
    tune = command("t2t-avg-all", "--tune", **flags)
    yield Stage(name="tuning", says=says, command=tune, outputs=[model / TUNED])
    if request.back_translate:  # whose student translates the other way
        return
    source, gold = (text / Split.EVAL / name for name in pairs.FILES[:2])
    decoded = {who: folder / "dev" / f"{who}.txt" for who in ("teacher", "student")}
    runs = {"teacher": (request.teacher, request.decode_hparams), "student": (model, "")}
    for who, (path, how) in runs.items():
        files = {"decode_from_file": source, "decode_to_file": decoded[who]}
        decode = command("t2t-decoder", output_dir=path, decode_hparams=how, **files, **usr_dir)
        says = f"Translating dev with the {who}"
        yield Stage(name=f"dev_{who}", says=says, command=decode, outputs=[decoded[who]])
    found = folder / "dev" / "comparison.json"
    both = {"baseline": decoded["teacher"], "translation": decoded["student"]}
    compare = command("t2t-bleu", reference=gold, json_file=found, **both)
    says = "Comparing student and teacher on dev"
    yield Stage(name="comparison", says=says, command=compare, outputs=[found])
