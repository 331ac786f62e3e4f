"""From a teacher to a trained student: which programs run, in which order, with which flags."""

import pathlib
import shlex
from collections.abc import Callable

from t2t_repro import files, registry, stages
from t2t_repro.data import tfrecord
from t2t_repro.distilling import comparison, pairs, teaching
from t2t_repro.distilling import student as students
from t2t_repro.distilling.request import DistillRequest
from t2t_repro.distilling.student import Student
from t2t_repro.errors import UserError
from t2t_repro.files import check_outputs
from t2t_repro.own_text import plan
from t2t_repro.problem import (
    OutputType,
    Split,
    Text2TextProblem,
    TranslateDistillProblem,
    VocabType,
)
from t2t_repro.run_directory import TRAINING_DATA, RunDirectory
from t2t_repro.runs import TrainedRun, trained_run
from t2t_repro.stages import Record, Stage, Stages
from t2t_repro.training.state import RANKING, WEIGHTS, no_checkpoint
from t2t_repro.views.run_view import view

PROBLEM = "text2text_tmpdir_distill"
# A student of fewer layers begins with those that it has.
_FITS = "--warm_start_partial"


class Folder:
    """Where everything lies."""

    def __init__(self, path: pathlib.Path, n_best: int):
        self.path, self.text, self.data = path, path / "text", path / "data"
        self.run, self.model = path / "run", path / "model"
        teacher, wrote = path / "teacher", "jsonl" if n_best > 1 else "txt"
        self.taught = pairs.Taught(teacher / "sources.txt", teacher / f"translations.{wrote}")
        back = teacher / f"reverse_translations.{wrote}"
        self.taught_back = pairs.Taught(teacher / "targets.txt", back)
        self.summary = self.data / f"datagen.{PROBLEM}.json"
        self.record = path / "distill.json"

    @property
    def texts(self) -> list[pathlib.Path]:
        """The files of the student's pairs."""
        splits = (Split.TRAIN, Split.EVAL)
        return [self.text / split / name for split in splits for name in pairs.FILES]


def run(request: DistillRequest, say: Callable[[str], None] = print) -> Record:
    """Makes everything that is not there yet; returns the record of it.

    Args:
        request: what is asked for.
        say: gets lines.

    Raises:
        UserError: if the teacher cannot teach, flags or text are not those with which the folder
            was begun, or a program fails.
        Interrupted: on a signal.
    """
    path = pathlib.Path(request.output_dir).expanduser()
    # "." names nothing in a command
    folder = Folder(path if path.parts else path.absolute(), request.n_best)
    stages.check_folder(folder.record)
    plan.check_model(folder.run, folder.model)
    teacher = trained_run(request.teacher, request.data_dir or None)
    wanted = students.student(request, teacher.config)
    hparams = registry.get_hparams(wanted.hparams_set, wanted.hparams)
    plan.check_same_end(RunDirectory(folder.run), wanted.train_steps, hparams)
    plan.check_not_shorter(RunDirectory(folder.run), wanted.train_steps)
    vocabulary = check(request, teacher)
    before = stages.read(folder.record)
    if before is None or not before.stages:  # else a teacher has translated for it already
        students.check(request, teacher, wanted)
    teachers = [teacher, *teaching.others(request)]
    if request.reverse_teacher:
        teachers.append(trained_run(request.reverse_teacher))
    weights = [path for each in teachers for path in _weights(each.directory)]
    inputs = [*weights, *map(pathlib.Path, request.texts)]
    digests = {str(path.absolute()): files.sha256(path) for path in inputs}
    with stages.begin(folder.record, request.begun_with(), digests, say) as doing:
        _text(request, folder, teacher, doing, say)
        doing.run(_data(folder, vocabulary))
        training = _training(request, folder, wanted)
        if request.only_data:
            say(f"\nThe student's data are in {folder.data}. To train it:")
            say(f"  {shlex.join(training.command)}")
            return doing.record
        doing.run(training)
        doing.run(_tuning(request, folder, wanted))
        if not request.back_translate:
            found = doing.run(
                Stage(name="comparison", says="Student and teacher on dev"),
                lambda: comparison.compare(request, str(folder.model), str(folder.data)).as_json(),
            )
            say(found["said"])
    model = shlex.quote(f"--output_dir={folder.model}")
    say(f"\nWhat to try next:\n  t2t-decoder {model} --decode_interactive\n  t2t-exporter {model}")
    return doing.record


def check(request: DistillRequest, teacher: TrainedRun) -> list[str]:
    """Refuses, before the work, what cannot come to an end; returns the flags of the vocabulary.

    Raises:
        UserError: saying why.
    """
    learned = teacher.problem
    kind = learned.vocab_type if isinstance(learned, Text2TextProblem) else "no vocabulary"
    if learned.output_type != OutputType.TEXT or kind != VocabType.SUBWORD:
        raise UserError(
            "Expected a teacher that writes text, with a vocabulary of subwords. Received: "
            f"{teacher.path}, of {teacher.config.problem}, which writes {learned.output_type}, "
            f"with {kind}. Name another run."
        )
    teaching.check(request, teacher)
    for split in (Split.TRAIN, Split.EVAL):
        tfrecord.find_shards(learned, split, teacher.data_dir)
    inputs = {"--teacher": str(teacher.path), "--data_dir": teacher.data_dir}
    if request.reverse_teacher:
        inputs["--reverse_teacher"] = request.reverse_teacher
    inputs |= {f"the text {path}": path for path in request.texts}
    check_outputs({"--output_dir": request.output_dir}, inputs)
    vocabularies = teacher.vocabularies
    # A reversed problem's files are those of the forward one.
    if learned.was_reversed != bool(request.back_translate):
        vocabularies = dict(zip(vocabularies, reversed(vocabularies.values()), strict=True))
    problem = registry.get_problem(PROBLEM)
    assert isinstance(problem, TranslateDistillProblem)
    problem.ask_vocabularies(vocabularies)
    source, target = vocabularies["inputs"], vocabularies["targets"]
    if source == target:
        return [f"--vocab={source}"]
    return [f"--source_vocab={source}", f"--target_vocab={target}"]


def _weights(teacher: RunDirectory) -> list[pathlib.Path]:
    """Returns the files that change when a run gets other weights."""
    steps = [each.step for each in view(teacher).checkpoints]
    if not steps:
        raise no_checkpoint(teacher.path)
    ranking = teacher.checkpoints_dir / RANKING
    return [
        teacher.checkpoints_dir / f"ckpt-{max(steps)}" / WEIGHTS,
        *([ranking] if ranking.exists() else []),
    ]


def _text(
    request: DistillRequest,
    folder: Folder,
    teacher: TrainedRun,
    doing: Stages,
    say: Callable[[str], None],
) -> None:
    """Has the teacher translate, and makes the student's pairs."""
    taught, taught_back = folder.taught, folder.taught_back
    doing.run(
        Stage(name="sources", says="What the teacher is to translate", outputs=[taught.read]),
        lambda: pairs.write_sources(teacher, request, taught.read),
    )
    doing.run(teaching.task(request, *taught))
    if request.reverse_teacher:
        said = "What the reverse teacher is to translate"
        doing.run(
            Stage(name="targets", says=said, outputs=[taught_back.read]),
            lambda: pairs.write_targets(teacher, taught_back.read),
        )
        doing.run(teaching.reverse_task(request, *taught_back))

    counts = doing.run(
        Stage(name="pairs", says="The student's pairs", outputs=folder.texts),
        lambda: pairs.write_pairs(teacher, request, taught, taught_back, folder.text),
    )
    for what, count in counts.items():
        if count:
            say(f"  {count:,} {what}")


def _usr_dir(request: DistillRequest) -> list[str]:
    return [f"--t2t_usr_dir={request.t2t_usr_dir}"] if request.t2t_usr_dir else []


def _data(folder: Folder, vocabulary: list[str]) -> Stage:
    return Stage(
        name="data",
        says="Records, with the teacher's vocabulary",
        command=[
            "t2t-datagen",
            f"--problem={PROBLEM}",
            f"--tmp_dir={folder.text}",
            f"--data_dir={folder.data}",
            *vocabulary,
        ],
        outputs=[folder.summary],
    )


def _training(request: DistillRequest, folder: Folder, wanted: Student) -> Stage:
    changes = [f"--hparams={wanted.hparams}"] if wanted.hparams else []
    frequency = max(plan.LEAST_STEPS, wanted.train_steps // plan.EVALUATIONS)
    return Stage(
        name="training",
        says="The student learns, the best by BLEU kept",
        command=[
            "t2t-trainer",
            f"--problem={PROBLEM}",
            f"--data_dir={folder.data}",
            f"--output_dir={folder.run}",
            f"--hparams_set={wanted.hparams_set}",
            *changes,
            f"--train_steps={wanted.train_steps}",
            f"--local_eval_frequency={frequency}",
            f"--eval_bleu_sentences={plan.BLEU_SENTENCES}",
            f"--keep_checkpoint_max={plan.KEPT}",
            f"--keep_best={plan.BEST}",
            "--best_metric=bleu",
            f"--random_seed={request.random_seed}",
            *([f"--warm_start_from={request.teacher}", _FITS] if request.warm_start else []),
            *_usr_dir(request),
        ],
        outputs=[folder.run / TRAINING_DATA],
    )


def _tuning(request: DistillRequest, folder: Folder, wanted: Student) -> Stage:
    greedy = ["--beam_sizes=1", "--alphas=0.6"] if wanted.greedy else []
    return Stage(
        name="tuning",
        says=f"Checkpoints or their mean{'' if wanted.greedy else ', beams and alpha'}, by dev",
        command=[
            *("t2t-avg-all", "--tune"),
            f"--model_dir={folder.run}",
            f"--output_dir={folder.model}",
            *greedy,
            *_usr_dir(request),
        ],
        outputs=[folder.model / "decoding.json"],
    )
