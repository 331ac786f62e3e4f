"""Writing the model of a run in another form, if that does not cost too much."""

import dataclasses
import functools
import itertools
import pathlib
import shlex
from collections.abc import Callable
from typing import Any

from t2t_repro import fields
from t2t_repro.decoding.settings import OF_OUTPUT, DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import check_new_folder, check_outputs, check_room
from t2t_repro.interop.form import ExportRequest, at_defaults, check_settings
from t2t_repro.problem import Split
from t2t_repro.progress import on_stderr
from t2t_repro.runs import TrainedRun
from t2t_repro.training import checkpoints


def export(
    run: TrainedRun, request: ExportRequest, say: Callable[[str], None] = print
) -> pathlib.Path:
    """Writes a checkpoint of a run as `request` asks for it.

    Args:
        run: the run.
        request: in which form, where, and what it may cost.
        say: gets a line about what was written, and what was lost.

    Returns:
        The folder.

    Raises:
        UserError: if the form cannot follow the request or hold the model, or too much is lost.
            Nothing was written then.
    """
    run.check_transformer("an export")
    request = _of_search(run, request)
    settings = run.decode_settings(request.decode_hparams, say=say)
    check_settings(settings)
    run.check_checkpoint(request.checkpoint_path)
    if request.export_dir:
        check_folder(pathlib.Path(request.export_dir).expanduser())
    from t2t_repro import provenance
    from t2t_repro.interop import quality

    form: Any
    if request.format == "ctranslate2":
        from t2t_repro.interop.ctranslate2_engine import FORM as form
    else:
        from t2t_repro.interop.saved_model import FORM as form
    form.check(request)
    source = run.checkpoint(request.checkpoint_path)
    name = f"{form.prefix}{checkpoints.step_of(source)}"
    name += "" if request.quantize == "float32" else f"-{request.quantize}"
    path = pathlib.Path(request.export_dir or run.path / "export" / name).expanduser()
    check_folder(path)
    examples = _examples(run, request, say) if request.is_measured else []
    model = run.model(source, say=on_stderr)

    def accept(folder: pathlib.Path) -> None:
        if examples:
            engine = form.engine(folder, model)
            lost = quality.compare(model, engine, run.encoders, examples, settings)
            say(str(lost))
            quality.check(lost, request.max_bleu_drop)
        translate = functools.partial(form.translate, run, folder, settings)
        provenance.write(run, source, folder, request.format, settings, translate)

    form.write(run, model, path, request, accept)
    say(f"Wrote {path} from {source}. {form.use.format(path=shlex.quote(str(path)))}")
    return path


def check_folder(path: pathlib.Path) -> None:
    """Refuses, before the work, a folder into which nothing can be exported.

    Raises:
        UserError: if it is not empty, or a run's own.
        OSError: if it cannot be written.
    """
    check_outputs({"--export_dir": path}, {}, folders=True)
    check_new_folder(path)
    check_room(path.parent)  # where it gets its name, also in the place of an empty one


def _of_search(run: TrainedRun, request: ExportRequest) -> ExportRequest:
    """Returns the request less what the problem says of its own about output and batches."""
    changed = DecodeHParams.of(run.problem, request.decode_hparams).changed()
    given = fields.parse_overrides(request.decode_hparams or "")
    own = [n for n in changed if n in (*OF_OUTPUT, "batch_size") and n not in given]
    asked = [request.decode_hparams] if request.decode_hparams else []
    return dataclasses.replace(request, decode_hparams=",".join([*at_defaults(own), *asked]))


def _examples(
    run: TrainedRun,
    request: ExportRequest,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Returns the examples of the dev split by which it is measured what is lost.

    Where there is no dev split, and no limit, there are none, and `say` gets the reason.
    """
    from t2t_repro.data import pipeline

    try:
        found = pipeline.read_split(run.problem, Split.EVAL, run.data_dir)
        return list(itertools.islice(found, request.gate_samples))
    except UserError as error:
        if request.max_bleu_drop is not None:
            raise
        say(f"What {request.quantize} costs is not measured. {error}")
        return []
