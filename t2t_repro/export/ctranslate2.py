"""A trained model as a CTranslate2 model, and decoding with it: beam search and greedy search.

CTranslate2's own sinusoids start at position 1 and interleave sine and cosine, so the position
table is written out; the vector of the target space, which is the same at every position of the
source, is added to it.

CTranslate2's beam search divides by length ** alpha, not by ((5 + length) / 6) ** alpha, and ends
when as many hypotheses are finished as there are beams; so more of them are asked for, and ranked
again here.
"""

import contextlib
import importlib.resources
import json
import os
import pathlib
import string
import tempfile
from typing import Any

import keras
import numpy as np

from t2t_repro import provenance, registry, schema
from t2t_repro.decoding.engine import Engine
from t2t_repro.decoding.search import USUAL, Search, Sentences
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.errors import UserError
from t2t_repro.export import plain
from t2t_repro.export.forms import ExportJob, ExportRequest
from t2t_repro.files import sha256
from t2t_repro.text.encoders import EOS, EOS_ID, PAD
from t2t_repro.text.transfer import tokens_of, without_blanks

USE = "t2t-decoder --engine=ctranslate2 --engine_dir={path} decodes with it."
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int16")
WEIGHTS = "model.bin"
DETAILS = "t2t_repro.json"  # what CTranslate2 does not keep
# How many hypotheses are waited for, for each beam. Two find tensor2tensor's best in 999 of 1,000
# sentences, one in 995, for a fifth of the time more; int8, which is for speed, changes 70 anyhow.
PATIENCE, QUICK_PATIENCE = 2, 1


def check(request: ExportRequest) -> None:
    """Refuses a machine without CTranslate2.

    Raises:
        UserError: naming it.
    """
    library()


def write(job: ExportJob) -> None:
    """Writes the CTranslate2 model, and README.md with a call of it.

    Raises:
        UserError: if CTranslate2 cannot compute it.
    """
    convert(job.model, job.run.encoders, job.folder, job.request.quantize)
    text = importlib.resources.files(__package__).joinpath("ctranslate2_readme.md").read_text()
    shared = (job.folder / "shared_vocabulary.json").exists()
    filled = string.Template(text).substitute(
        folder=job.request.export_dir,
        problem=job.run.config.problem,
        beams=job.settings.beam_size,
        alpha=job.settings.alpha if job.settings.beam_size > 1 else 0,
        longer=1 + job.settings.extra_length,  # the end counts
        names='"shared", "shared"' if shared else '"source", "target"',
    )
    (job.folder / "README.md").write_text(filled, encoding="utf-8")


def convert(
    model: keras.Model,
    encoders: dict[str, Any],
    folder: str | os.PathLike,
    quantization: str = "float32",
) -> None:
    """Writes a CTranslate2 model into a folder.

    Args:
        model: a trained `Transformer`.
        encoders: {"inputs": TextEncoder, "targets": TextEncoder}.
        folder: where to.
        quantization: how the weights are stored, one of QUANTIZATIONS.

    Raises:
        UserError: if CTranslate2 is not installed, or cannot compute this model.
    """
    spec = _specification(library(), model, encoders)
    table = getattr(spec.decoder, "position_encodings", None)
    positions = None if table is None else len(table.encodings)  # None: as many as one likes
    spec.validate()
    spec.optimize(quantization=None if quantization == "float32" else quantization)
    os.makedirs(folder, exist_ok=True)
    spec.save(os.fspath(folder))
    details = json.dumps({"positions": positions})
    pathlib.Path(folder, DETAILS).write_text(f"{details}\n", encoding="utf-8")


def translate(
    folder: pathlib.Path, problem: str, settings: DecodeHParams, texts: list[str]
) -> provenance.Translations:
    """Returns the best translation of each text by an export, which has its vocabulary."""
    encoders = registry.get_problem(problem).feature_encoders(os.fspath(folder))
    return provenance.translations(CTranslate2Engine(folder), encoders, settings, texts)


def of_weights(model: Any, encoders: dict[str, Any]) -> "CTranslate2Engine":
    """Returns an engine with the weights that a model has, in float32; no file is left behind.

    Raises:
        UserError: as `convert`.
    """
    with tempfile.TemporaryDirectory() as folder:
        convert(model, encoders, folder)
        return CTranslate2Engine(folder)


def library() -> Any:
    """Returns the module ctranslate2.

    Raises:
        UserError: if it is not installed.
    """
    try:
        import ctranslate2
    except ImportError as error:
        raise UserError(
            "Expected the package ctranslate2. Received: none is installed. Install it by "
            "pip install 't2t_repro[ctranslate2]'."
        ) from error
    return ctranslate2


class CTranslate2Engine(Engine):
    """Decodes with a CTranslate2 model: beam search and greedy search, and no more.

    Args:
        path: the folder that `convert` wrote.
        compute_type: "default" (as the weights are stored), "float32", "int8", "auto", ...
        threads: of one batch; 0: CTranslate2's own choice.
        searches: how many threads may decode a batch each at the same time.

    Raises:
        UserError: if CTranslate2 is not installed, or cannot load the folder so.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        compute_type: str = "default",
        threads: int = 0,
        searches: int = 1,
    ):
        path = self.path = pathlib.Path(path)
        try:
            self.translator = library().Translator(
                os.fspath(path),
                device="cpu",
                compute_type=compute_type,
                intra_threads=threads,
                inter_threads=searches,
            )
            self.source, self.target = _vocabulary(path, "source"), _vocabulary(path, "target")
            details = schema.read(path / DETAILS, dict[str, Any])
            self.learned_positions = details["positions"]
            self.adds_end = schema.read(path / "config.json", dict[str, Any])["add_source_eos"]
        except (RuntimeError, ValueError, OSError, KeyError) as error:
            raise UserError(
                f"Expected a CTranslate2 model in {path} that can be computed in {compute_type}. "
                f"Received: {error}. Write it by t2t-exporter --format=ctranslate2, or choose "
                "another --compute_type."
            ) from error
        self.ids = {token: i for i, token in enumerate(self.target)}
        self.compute_type = self.translator.compute_type
        self.patience = PATIENCE if self.compute_type == "float32" else QUICK_PATIENCE
        self._digest = sha256(path / WEIGHTS)

    @property
    def fingerprint(self) -> str:
        return f"{self.compute_type} patience {self.patience} {self._digest}"

    def check_vocabularies(self, encoders: dict[str, Any]) -> None:
        """Refuses encoders whose ids mean something else to the engine.

        Raises:
            UserError: naming the side.
        """
        for side, names in (("inputs", self.source), ("targets", self.target)):
            same = tokens_of(encoders[side], len(names)) == list(map(without_blanks, names))
            with contextlib.suppress(NotImplementedError):  # numbers have no bound
                same &= len(names) >= encoders[side].vocab_size
            if not same:
                raise UserError(
                    "Expected a CTranslate2 model with the run's vocabulary. Received: "
                    f"{self.path}, with {len(names)} other {side}. Give the --engine_dir of "
                    "this run, or leave it out. If an earlier version wrote it for this run, "
                    "remove it: it is made again."
                )

    def decode(self, sentences: Sentences, search: Search = USUAL) -> tuple[np.ndarray, np.ndarray]:
        top_beams = search.top_beams
        tokens = [[self.source[i] for i in row if i] for row in sentences.inputs]
        if self.adds_end:  # which each source has; exports of earlier versions do not add it
            tokens = [row[:-1] for row in tokens]
        limits = sentences.limits
        if self.learned_positions:
            limits = np.minimum(limits, self.learned_positions)
        most = int(np.max(limits, initial=1))
        alpha = 0.0 if search.beam_size == 1 else search.alpha
        results = self._search(tokens, most, search.beam_size, alpha)
        # CTranslate2 has one limit for a batch: what went beyond its own is decoded again.
        long = [i for i, r in enumerate(results) if max(map(len, r.hypotheses)) > limits[i]]
        for limit in {int(limits[i]) for i in long}:
            rows = [i for i in long if limits[i] == limit]
            again = self._search([tokens[i] for i in rows], limit, search.beam_size, alpha)
            for i, result in zip(rows, again, strict=True):
                results[i] = result
        ids = np.zeros((len(tokens), top_beams, most), "int32")
        scores = np.zeros((len(tokens), top_beams), "float32")
        for row, result in enumerate(results):
            hypotheses = [
                self._ranked(names, score, alpha)
                for names, score in zip(result.hypotheses, result.scores, strict=True)
            ]
            # The finished ones first, as beam search itself prefers them.
            hypotheses.sort(key=lambda h: (h[0][-1:] != [EOS_ID], -h[1]))
            for beam, (some, score) in enumerate(hypotheses[:top_beams]):
                ids[row, beam, : len(some)] = some
                scores[row, beam] = score
        return ids, scores

    def _search(self, sentences: list[list[str]], limit: int, beam_size: int, alpha: float) -> list:
        patience = self.patience if beam_size > 1 else 1
        return self.translator.translate_batch(
            sentences,
            beam_size=beam_size,
            patience=patience,
            num_hypotheses=beam_size * patience,
            length_penalty=alpha,
            max_decoding_length=limit,
            min_decoding_length=0,  # 1, its default, would forbid the end at the first position
            max_input_length=0,
            return_scores=True,
            return_end_token=True,
        )

    def _ranked(self, tokens: list[str], score: float, alpha: float) -> tuple[list[int], float]:
        """The ids of a hypothesis, and tensor2tensor's score for it."""
        ids = [self.ids[token] for token in tokens]
        log_prob = score * len(ids) ** alpha
        penalty = ((5 + len(ids)) / 6) ** alpha if ids[-1:] == [EOS_ID] else 1.0
        return ids, log_prob / penalty


def _vocabulary(path: pathlib.Path, side: str) -> list[str]:
    name = "shared" if (path / "shared_vocabulary.json").exists() else side
    return schema.read(path / f"{name}_vocabulary.json", list[str])


def _specification(ctranslate2: Any, model: keras.Model, encoders: dict[str, Any]) -> Any:
    found = plain.read(model, "CTranslate2", relative=True)
    hp = model.hparams
    relative = hp.self_attention_type == "dot_product_relative"
    arguments = {
        "pre_norm": found.pre_norm,
        "activation": ctranslate2.specs.Activation.RELU,
        "relative_position": relative,
    }
    specs = ctranslate2.specs
    encoder = specs.transformer_spec.TransformerEncoderSpec(
        hp.encoder_layers, hp.num_heads, **arguments
    )
    decoder = specs.transformer_spec.TransformerDecoderSpec(
        hp.decoder_layers, hp.num_heads, **arguments
    )
    spec = specs.TransformerSpec(encoder, decoder)
    spec.config.layer_norm_epsilon = found.epsilon
    spec.config.bos_token = spec.config.unk_token = spec.config.decoder_start_token = PAD
    spec.config.eos_token, spec.config.add_source_eos = EOS, True
    decoder.start_from_zero_embedding = True
    encoder.scale_embeddings = decoder.scale_embeddings = np.float32(found.scale)
    spec.register_source_vocabulary(tokens_of(encoders["inputs"], len(found.encoder.table)))
    spec.register_target_vocabulary(tokens_of(encoders["targets"], len(found.decoder.table)))
    encoder.embeddings[0].weight = found.encoder.table
    decoder.embeddings.weight = found.decoder.table
    decoder.projection.weight = found.softmax
    for stack, part in ((found.encoder, encoder), (found.decoder, decoder)):
        if not relative:  # CTranslate2 wants a table there
            none = np.zeros((plain.POSITIONS, hp.hidden_size), "float32")
            positions = none if stack.positions is None else stack.positions
            part.position_encodings.encodings = positions.astype("float32")
        for layer, target in zip(stack.layers, part.layer, strict=True):
            for sublayer, name in zip(layer, _PARTS[len(layer)], strict=True):
                _fill(getattr(target, name), sublayer, found.query_scale == 1)
        if stack.norm:
            part.layer_norm.gamma, part.layer_norm.beta = stack.norm
    return spec


# What CTranslate2 calls the sublayers of a layer that has so many.
_PARTS = {2: ("self_attention", "ffn"), 3: ("self_attention", "attention", "ffn")}


def _fill(target: Any, sublayer: plain.Attention | plain.FeedForward, unscaled: bool) -> None:
    """Puts weights where CTranslate2 expects them: its matrices are (out, in)."""
    if isinstance(sublayer, plain.FeedForward):
        for linear, (kernel, bias) in zip(
            (target.linear_0, target.linear_1), (sublayer.inner, sublayer.outer), strict=True
        ):
            linear.weight, linear.bias = kernel.T.copy(), bias
    else:
        query, key, value, output = sublayer.kernels
        joined = [[query, key, value], [output]]
        if len(target.linear) == 3:  # queries come from elsewhere than keys and values
            joined = [[query], [key, value], [output]]
        for linear, kernels in zip(target.linear, joined, strict=True):
            linear.weight = np.concatenate(kernels, axis=1).T.copy()
        if unscaled:
            target.queries_scale = np.float32(1)
        if sublayer.relative:
            target.relative_position_keys, target.relative_position_values = sublayer.relative
    target.layer_norm.gamma, target.layer_norm.beta = sublayer.norm
