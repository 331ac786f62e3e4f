"""A trained run in memory, for a program that translates: `t2t_repro.load`."""

import dataclasses
import functools
import os
import warnings
from collections.abc import Sequence
from typing import Any

from t2t_repro.errors import UserError
from t2t_repro.runs import TrainedRun, trained_run


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
        data_dir: the folder of the vocabulary; None: that of the run. A problem of one's own is
            known once the package is imported that registers it.

    Raises:
        UserError: if there is no run, checkpoint or vocabulary.
    """
    found = trained_run(run, data_dir)
    found.check_checkpoint(checkpoint)
    return LoadedRun(found, found.model(checkpoint))


@dataclasses.dataclass(frozen=True)
class LoadedRun:
    """A run, with its model and its encoders.

    Attributes:
        run: what it is: its path, hparams and problem.
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
            beam_size: 1 is greedy search; None: what was tuned for the run, else 4.
            alpha: exponent of the length penalty; None: likewise, else 0.6.
            decode_hparams: what t2t-decoder takes so, "name=value,name=value", but what says
                which lines of a file are decoded, or stands in no line, has no effect.

        Raises:
            UserError: on text alone, and on an unknown or bad decode hparam.
        """
        if isinstance(sentences, str):
            raise UserError(
                f"Expected a list of sentences. Received: {sentences[:60]!r}. Give [text]."
            )
        given = {"beam_size": beam_size, "alpha": alpha}
        text = [f"{name}={value}" for name, value in given.items() if value is not None]
        settings = self.run.decode_settings(",".join([*text, *filter(None, [decode_hparams])]))
        settings = dataclasses.replace(settings, return_token_scores=False)
        engine = self._aligning if settings.return_alignments else self._engine
        translator = self.run.translator(engine, settings, warn=warnings.warn)
        return [translator.format(beams) for beams in translator.translate_lines(sentences)]

    @functools.cached_property
    def _engine(self) -> Any:
        from t2t_repro.decoding.decode import ModelEngine

        return ModelEngine(self.model)

    @property
    def _aligning(self) -> Any:
        """An engine whose model has attention weights: made anew where `model` computes none."""
        if not self.run.config.hparams.attention_chunk_size:
            return self._engine
        from t2t_repro.decoding.decode import ModelEngine

        model = self.run.new_model(with_weights=True)
        model.set_weights(self.model.get_weights())
        return ModelEngine(model)
