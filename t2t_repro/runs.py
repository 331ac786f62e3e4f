"""A trained run as every program loads it: configuration, vocabulary, checkpoints, model.

`t2t_repro.load` is for a program that translates.

The configuration needs neither Keras nor TensorFlow; the model is made on demand.
"""

import contextlib
import copy
import dataclasses
import functools
import os
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from t2t_repro import registry
from t2t_repro.config import BASELINES, TRANSFORMER
from t2t_repro.decoding import tune
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem
from t2t_repro.run_directory import TUNED, RunDirectory, problem_of
from t2t_repro.training import state

Say = Callable[[str], None]
_silent: Say = lambda text: None  # noqa: E731


def trained_run(
    output_dir: str | os.PathLike | None,
    data_dir: str | None = None,
    *,
    hparams: str = "",
    **named: str | None,
) -> "TrainedRun":
    """Returns the run in a directory, which alone determines problem and hparams.

    Args:
        output_dir: the run directory.
        data_dir: the folder of the data; None: that of the run.
        hparams: "name=value,name=value", which must agree with the run's.
        named: "problem", "hparams_set" and "model", if given.

    Raises:
        UserError: if there is no run, or a given value contradicts it.
    """
    if not output_dir:
        raise UserError("Expected --output_dir, the directory of a trained run. Received: none.")
    run = TrainedRun(output_dir, data_dir)
    config = run.config
    there = {"problem": config.problem, "hparams_set": config.hparams_set}
    there["model"] = config.hparams.model
    wrong = {name: value for name, value in named.items() if value not in (None, "", there[name])}
    if hparams and config.hparams.override(hparams) != config.hparams:
        wrong["hparams"] = hparams
    if wrong:
        said, received = (
            " ".join(f"--{name}={value}" for name, value in of.items()) for of in (there, wrong)
        )
        raise UserError(
            f"Expected the hparams of {run.path} and {said}. Received: {received}. Omit them."
        )
    return run


def is_transformer(model: str) -> bool:
    """Returns whether a model is the Transformer, or derives from it."""
    if model in (TRANSFORMER, *BASELINES):  # known without loading it
        return model == TRANSFORMER
    from t2t_repro.models.transformer import Transformer

    return issubclass(registry.get_model(model), Transformer)


class TrainedRun(RunDirectory):
    """A run that was trained or is being trained; its files are read once.

    Args:
        path: the run directory.
        data_dir: the folder of the data; None: where the run was trained.
        devices: the `training.devices.Devices` of which each gets a copy of what `model` returns;
            None: one.
    """

    def __init__(self, path: str | os.PathLike, data_dir: str | None = None, devices: Any = None):
        super().__init__(path)
        self.asked_data_dir, self.devices = data_dir, devices

    @functools.cached_property
    def problem(self) -> Problem:
        """The problem."""
        return problem_of(self.config)

    def on(self, devices: Any) -> "TrainedRun":
        """Returns the run with its models on other devices."""
        run = copy.copy(self)
        run.devices = devices
        return run

    @functools.cached_property
    def data_dir(self) -> str:
        """The folder of the data: the given one, or that of the training.

        Raises:
            UserError: if the vocabulary in it is not that of the run.
        """
        return self._checked(os.path.expanduser(self.asked_data_dir or self.config.data_dir))

    @functools.cached_property
    def vocabulary_dir(self) -> str:
        """The folder of the vocabulary: the run itself, or else `data_dir`.

        Raises:
            UserError: if the vocabulary there is not that of the run.
        """
        names = self.problem.vocab_files(self.path)
        own = all((self.path / name).is_file() for name in names)
        return self._checked(os.fspath(self.path)) if own else self.data_dir

    def _checked(self, folder: str) -> str:
        files = (os.path.join(folder, name) for name in self.problem.vocab_files(folder))
        self.check_vocabularies(filter(os.path.isfile, files))
        return folder

    @property
    def vocabulary_files(self) -> list[pathlib.Path]:
        """The files of the vocabulary; none where the problem needs none."""
        folder = self.vocabulary_dir
        return [pathlib.Path(folder, name) for name in self.problem.vocab_files(folder)]

    @property
    def vocabularies(self) -> dict[str, str]:
        """The vocabulary as another problem may take it: {"inputs": path, "targets": path}."""
        files = self.vocabulary_files
        return {"inputs": os.fspath(files[0]), "targets": os.fspath(files[-1])}

    @functools.cached_property
    def encoders(self) -> dict[str, Any]:
        """The problem's encoders: {"inputs": TextEncoder, "targets": TextEncoder}."""
        return self.problem.feature_encoders(self.vocabulary_dir)

    def decode_settings(self, text: str | None = "", *, say: Say = _silent) -> DecodeHParams:
        """Returns how to decode: `text` overrides the tuned settings, these the problem's own.

        Args:
            text: "name=value,name=value", as --decode_hparams.
            say: gets a line if the tuned settings are used.

        Raises:
            UserError: on an unknown name or a bad value.
        """
        tuned = tune.read(self.path)
        if tuned is None:
            return DecodeHParams.parse(text, self.problem.decode_hparams)
        search = tuned.search
        settings = DecodeHParams.parse(text, self.problem.decode_hparams, str(search))
        if (settings.beam_size, settings.alpha) == (search.beam_size, search.alpha):
            say(
                f"Decoding with {search}, tuned on {tuned.sentences}: {search.bleu:.2f} BLEU "
                f"({self.path / TUNED}). --decode_hparams overrides beam_size and alpha."
            )
        return settings

    def line_settings(
        self, beam_size: int | None, alpha: float | None, decode_hparams: str, say: Say = _silent
    ) -> DecodeHParams:
        """Returns how to decode to lines of text: `decode_settings` of these; None: not given."""
        beams = {"beam_size": beam_size, "alpha": alpha}
        given = [f"{name}={value}" for name, value in beams.items() if value is not None]
        text = ",".join([*given, *filter(None, [decode_hparams])])
        return dataclasses.replace(self.decode_settings(text, say=say), return_token_scores=False)

    def checkpoint(self, path: str | os.PathLike | None = None) -> pathlib.Path:
        """Returns one checkpoint: that of a path, which may be a run, or the newest of this one.

        Raises:
            UserError: if there is none.
        """
        from t2t_repro.training import checkpoints

        return checkpoints.find(path or self.path)

    def check_checkpoint(self, path: str | os.PathLike | None = None) -> None:
        """Refuses a path without a checkpoint, before anything heavy is loaded."""
        state.check_folder(path or self.path)

    def check_transformer(self, for_what: str) -> None:
        """Refuses a run of another model than a Transformer.

        Raises:
            UserError: naming the purpose.
        """
        model = self.config.hparams.model
        if not is_transformer(model):
            raise UserError(
                f"Expected a Transformer for {for_what}. Received: {self.path} with model={model}."
            )

    def new_model(self, *, with_weights: bool = False) -> Any:
        """Returns the run's model before its weights are loaded.

        Args:
            with_weights: let it have attention weights. With attention_chunk_size=0 it has the same
                variables and computes the same, in more memory.
        """
        import keras

        from t2t_repro.models.build import model_for

        hparams = self.config.hparams
        if with_weights and hparams.attention_chunk_size:
            hparams = dataclasses.replace(hparams, attention_chunk_size=0)
        with self.devices.scope() if self.devices else contextlib.nullcontext():
            model = model_for(self.problem, hparams, self.vocabulary_dir)
        model.jit_compile = keras.backend.backend() == "jax"  # as `trainer.build_model`
        return model

    def model(
        self,
        checkpoint: str | os.PathLike | None = None,
        *,
        with_weights: bool = False,
        say: Say = _silent,
    ) -> Any:
        """Returns the trained model.

        Args:
            checkpoint: a checkpoint or a run; None: the newest of this one.
            with_weights: as in `new_model`.
            say: gets the line that names the step.

        Raises:
            UserError: if there is no whole checkpoint, or it is of another model.
        """
        from t2t_repro.training import checkpoints

        model = self.new_model(with_weights=with_weights)
        state = checkpoints.load_weights(model, checkpoint or self.checkpoints_dir)
        say(f"Decoding with the checkpoint at step {state.step} of {checkpoint or self.path}")
        return model

    def ensemble(
        self, others: Sequence["TrainedRun"], checkpoint: str | None = None, **how: Any
    ) -> Any:
        """Returns the trained model, or an `Ensemble` of it and those of other runs.

        Args:
            others: runs of the same problem; the newest checkpoint of each is taken.
            checkpoint: as in `model`; that of this run.
            how: with_weights, say: as in `model`.

        Raises:
            UserError: if another run has another problem or vocabulary.
        """
        from t2t_repro.decoding.engine import Ensemble

        models = [self.model(checkpoint, **how)]
        for other in others:
            if other._ids != self._ids:
                same = f"with the problem and vocabulary of {self.path}"
                raise UserError(f"Expected --ensemble runs {same}. Received: {other.path}.")
            models.append(other.on(self.devices).model(**how))
        return Ensemble(models) if others else models[0]

    @property
    def _ids(self) -> tuple[str, list[bytes]]:
        """Identifies the meaning of the ids."""
        return self.config.problem, [file.read_bytes() for file in self.vocabulary_files]

    def translator(self, engine: Any, settings: DecodeHParams, **how: Any) -> Any:
        """Returns the `Translator` of an engine: text to text, for a parser to trees.

        Args:
            engine: what decodes.
            settings: the decode hparams.
            how: t2t_exact, warn: see Translator.
        """
        from t2t_repro.decoding.translate import Translator
        from t2t_repro.parsing.reader import TreeReader, phrase_labels

        as_written = settings.raw_output or settings.identity_output
        trees = self.problem.writes_trees
        if trees and not as_written:
            how["reader"] = TreeReader(phrase_labels(self.encoders["targets"]))
        if trees and settings.well_formed:
            how["constraint"] = self._constraint
        return Translator(engine, self.encoders, settings, **how)

    @functools.cached_property
    def _constraint(self) -> Any:
        """The constraint to trees, made once, because an engine compiles for each."""
        from t2t_repro.parsing.constraint import tree_constraint

        name = self.problem.lexicon_filename
        lexicon = name and os.path.join(self.vocabulary_dir, name)
        return tree_constraint(self.encoders["targets"], lexicon)


def load(
    run: str | os.PathLike,
    checkpoint: str | os.PathLike | None = None,
    *,
    data_dir: str | None = None,
) -> "LoadedRun":
    """Returns a run that t2t-trainer or t2t-checkpoint import made, or an average of its weights.

    Args:
        run: the run directory.
        checkpoint: a checkpoint, or another run; None: the newest of `run`, of RUN/best the
            best.
        data_dir: the folder of the vocabulary; None: that of the run. Import the package that
            registers a problem of your own first.

    Raises:
        UserError: if there is no run, checkpoint or vocabulary.
    """
    found = trained_run(run, data_dir)
    found.check_checkpoint(checkpoint)
    return LoadedRun(found, found.model(checkpoint, with_weights=True))


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run, with its model and its encoders.

    Attributes:
        run: its path, hparams and problem.
        model: as trained, a `Transformer` or another `SequenceModel`.
    """

    run: TrainedRun
    model: Any

    @property
    def encoders(self) -> dict[str, Any]:
        """{"inputs": encoder, "targets": encoder}: `encode(text)` gives ids, `decode(ids)` text."""
        return self.run.encoders

    def translate(
        self,
        sentences: Sequence[str],
        *,
        beam_size: int | None = None,
        alpha: float | None = None,
        decode_hparams: str = "",
    ) -> list[str]:
        """Returns a translation of each sentence: the lines that t2t-decoder writes.

        Args:
            sentences: the sentences.
            beam_size: 1 is greedy search; None: what was tuned for the run, else the problem's,
                mostly 4.
            alpha: exponent of the length penalty; None: likewise, mostly 0.6.
            decode_hparams: as t2t-decoder's, "name=value,name=value"; those that choose lines of a
                file, or do not change a line, have no effect.

        Raises:
            UserError: on a single string, and on an unknown or bad decode hparam.
        """
        settings = self.run.line_settings(beam_size, alpha, decode_hparams)
        return self.run.translator(self._engine, settings, warn=warnings.warn).write(sentences)

    @functools.cached_property
    def _engine(self) -> Any:
        from t2t_repro.decoding.engine import ModelEngine

        return ModelEngine(self.model)
