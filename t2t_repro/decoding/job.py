"""What t2t-decoder does for a run: translates a file, a dataset or what is typed, scores pairs."""

import dataclasses
import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from t2t_repro.decoding.files import (
    Report,
    best_translations,
    count_and_digest,
    output_name,
    sides,
    translate_examples,
    translate_file,
)
from t2t_repro.decoding.request import DecodeRequest
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.files import check_outputs, is_stream, write_text_atomic
from t2t_repro.problem import OutputType

if TYPE_CHECKING:  # it loads Keras, and what is refused does not wait for that
    from t2t_repro.decoding.engine import Engine
    from t2t_repro.decoding.translate import Translator


@dataclasses.dataclass(frozen=True)
class DecodeJob:
    """A request that makes sense for a run; `DecodeJob.of` makes one.

    request: its files are those of the shard that is asked for.
    settings: how to decode.
    run: whose model decodes, a `runs.TrainedRun`.
    """

    request: DecodeRequest
    settings: DecodeHParams
    run: Any

    @classmethod
    def of(cls, request: DecodeRequest, run: Any, say: Report = lambda text: None) -> "DecodeJob":
        """Returns the job that a request is; `say` is told what `DecodeRequest.settings` says.

        Raises:
            UserError: if it contradicts itself, or has a part without effect.
            FileNotFoundError: if a file that is to be read is not there.
        """
        settings = request.settings(run, say)
        request = request.of_shard(settings.shard_suffix)
        request.check(settings)
        if unread := request.unread(settings):
            say(f"Warning: {', '.join(unread)} has no effect here.")
        job = cls(request, settings, run)
        check_outputs(job._outputs(), request.inputs)
        job.check_files()
        return job

    def check_files(self) -> None:
        """Reads the source once, and the reference, which has a line for each of its lines.

        Raises:
            UserError: if there is no line, one is not UTF-8, or there are more or fewer references.
        """
        source, reference = self.request.decode_from_file, self.request.decode_reference
        if not source:
            return
        most = self.settings.num_samples
        lines, _ = count_and_digest(source, most)
        if not reference or not self.request.is_scored:
            return
        there, _ = count_and_digest(reference)
        if lines != there:
            first = "" if most < 0 else f" the first {lines:,} of"
            raise UserError(
                f"Expected a line in {reference} for each of{first} {source}. Received: {there:,} "
                f"lines for {lines:,}. Cut the longer one, such as by head -n {min(lines, there)}."
            )

    def searches(self) -> int:
        """Returns how many searches share a batch: one where what else is computed needs all cores.

        To be called before TensorFlow has computed anything: see `share_cores`.
        """
        from t2t_repro.decoding.program import share_cores
        from t2t_repro.decoding.translate import BATCH_SENTENCES

        r, s = self.request, self.settings
        whole = r.decode_interactive or r.t2t_exact or r.score_file
        if whole or s.return_token_scores or s.return_alignments:
            return 1
        return share_cores((s.batch_size or BATCH_SENTENCES) * s.beam_size)

    def carry_out(self, engine: "Engine", say: Report) -> None:
        """Does it, and prints what was written.

        Args:
            engine: what decodes.
            say: receives warnings and the progress.
        """
        from t2t_repro.decoding.translate import interact

        request, run, settings = self.request, self.run, self.settings
        translator = run.translator(engine, settings, t2t_exact=request.t2t_exact, warn=say)
        reader = translator.reader
        if request.decode_interactive:
            interact(translator)
            return
        if request.score_file:
            self._score(translator, say)
            return
        if request.decode_from_file:
            translate_file(
                translator,
                request.decode_from_file,
                self.target,
                request.decode_json_file,
                report=say,
                prefixes=request.partial_targets_file,
                as_json=request.output_format == "jsonl",
            )
        else:
            from t2t_repro.data import pipeline

            examples = pipeline.read_split(
                run.problem, request.split, run.data_dir, settings.shard_id, settings.shards
            )
            translate_examples(translator, examples, self.target, report=say)
        self._tell(f"Wrote {self.target}", say)
        if reader:
            say(str(reader))
            if repairs := self._outputs().get("the numbers of repairs"):
                write_text_atomic(repairs, reader.as_json())

    def _tell(self, text: str, say: Report) -> None:
        """Prints what was done; where a result may go to stdout, beside it."""
        streams = any(path and is_stream(path) for path in self._outputs().values())
        (say if streams else print)(text)

    def _outputs(self) -> dict[str, str | None]:
        """The files that are to be written: {what names it: path}."""
        request, settings = self.request, self.settings
        if request.decode_interactive:
            return {}
        found = {"--decode_to_file": self.target, "--decode_json_file": request.decode_json_file}
        if request.score_file or is_stream(self.target):
            return found
        if not request.decode_from_file:
            found |= {f"the file of the {name}": path for name, path in sides(self.target).items()}
        as_written = settings.raw_output or settings.identity_output
        if self.run.problem.output_type == OutputType.TREE and not as_written:
            found["the numbers of repairs"] = f"{self.target}.repairs.json"
        return found

    @property
    def target(self) -> str:
        """Where the translations go: what is named, or a name made of source, model and beams."""
        source, named = self.request.decode_from_file, self.request.decode_to_file
        if named and (source or self.request.score_file or is_stream(named)):
            return named
        config, settings = self.run.config, self.settings
        if not source:
            split = self.run.path / "decode" / f"{config.problem}.{self.request.split}"
            source = named or f"{split}{settings.shard_suffix}"
        return output_name(source, config, settings)

    def translations(self, path: str | os.PathLike) -> Iterator[str]:
        """Yields the best translation of each sentence in a file that this job has written."""
        of_examples = not self.request.decode_from_file
        return best_translations(path, self.settings, of_examples=of_examples)

    def _score(self, translator: "Translator", say: Report) -> None:
        from t2t_repro.decoding.score import score_file

        source, target = self.request.score_file, self.request.decode_to_file
        assert source and target  # `DecodeRequest.check` has seen to it
        json_file = self.request.decode_json_file
        whole = score_file(translator, source, target, json_file=json_file, report=say)
        self._tell(
            f"Wrote {target}: {whole.mean:.6f} a token over all {whole.tokens:,} tokens, "
            f"perplexity {math.exp(min(whole.mean, 700)):.4f}",
            say,
        )
