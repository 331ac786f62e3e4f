"""Measures decoding with a model of random weights: time, output tokens/s, share of the limit.

  python benchmarks/decode.py --hparams_set=transformer_base_v1 --batch=32 --src=32 --tgt=32
  python benchmarks/decode.py --engine=ctranslate2 --compute_type=int8

--engine=tensorflow is what t2t-decoder runs, each core with its share of the batch;
--engine=ctranslate2 what it runs with that flag; --engine=ctranslate2_alone calls that library by
itself, on the same model. Every sentence gets --tgt tokens: random weights end none before (a run
that does is an error). The operations are those of the matrix products, the encoder's once and the
decoder's for each beam and token. Prints one line of JSON. --lockstep: see measuring.py.
"""

import dataclasses
import json
import os
import pathlib
import string
import tempfile

import measuring
import numpy as np
from absl import flags

from t2t_repro import cli, registry
from t2t_repro.errors import UserError
from t2t_repro.fields import flag

ENGINES = ("tensorflow", "ctranslate2", "ctranslate2_alone")


@dataclasses.dataclass
class Decoding:
    """What is decoded, and how."""

    hparams_set: str = flag("transformer_base_v1", "The configuration.")
    hparams: str = flag("", 'Changes to it: "name=value,name=value".')
    engine: str = flag("tensorflow", "What decodes.", choices=ENGINES)
    backend: str = flag("tensorflow", "What the model has.", choices=("tensorflow", "jax"))
    compute_type: str = flag("float32", "CTranslate2's type.")
    batch: int = flag(32, "Sentences of a batch.", least=1)
    src: int = flag(32, "Source tokens of a sentence.", least=1)
    tgt: int = flag(32, "Tokens to write for a sentence.", least=1)
    vocab_size: int = flag(32768, "Symbols of the vocabulary.", least=1)
    beam_size: int = flag(4, "Beams; 1 is greedy.", least=1)
    alpha: float = flag(0.6, "Exponent of the length penalty.")


def main(args: flags.FlagValues) -> None:
    """Measures and prints."""
    lines = measuring.own_stdout()
    os.environ["KERAS_BACKEND"] = args.backend
    hparams = registry.get_hparams(args.hparams_set, args.hparams)
    if args.backend == "tensorflow":
        measuring.set_threads(args)
    import keras

    from t2t_repro.decoding.program import share_cores
    from t2t_repro.models import parameters
    from t2t_repro.models.transformer import Transformer
    from t2t_repro.training import devices

    alone = args.engine != "tensorflow"
    searches = 1 if alone else share_cores(args.batch * args.beam_size, args.threads)
    keras.utils.set_random_seed(0)
    size = args.vocab_size
    model = Transformer.from_hparams(hparams, inputs_vocab_size=size, targets_vocab_size=size)
    # 2 to size: neither padding nor the end, which a real sentence has as its last token
    inputs = np.random.default_rng(0).integers(2, size, (args.batch, args.src)).astype("int32")
    shape = size, args.batch, args.src, args.tgt, args.beam_size
    ready = {
        "name": f"t2t_repro_{args.engine}",
        "tokens": args.batch * args.tgt,
        "flops": parameters.forward_flop(hparams, *shape),
        "compute_type": "float32" if args.engine == "tensorflow" else args.compute_type,
        "kind": devices.choose(1).kind,
        "machine": devices.described(),
    }
    with tempfile.TemporaryDirectory() as folder:
        decode = make_decode(args, model, inputs, pathlib.Path(folder) / "model", searches)

        def step() -> float:
            lengths = decode()
            if min(lengths) != args.tgt:
                raise UserError(
                    f"Expected {args.tgt} tokens in every sentence. Received: {min(lengths)} "
                    "in one. Choose another --tgt."
                )
            return float(np.mean(lengths))

        gemm = measuring.make_gemm(args.backend, searches, args.gemm)
        result = measuring.measure(step, ready, args, lines, gemm)
    result["device_memory_mb"] = measuring.device_memory_peak() >> 20
    lines.write(json.dumps(result) + "\n")


def make_decode(
    args: flags.FlagValues, model, inputs: np.ndarray, folder: pathlib.Path, searches: int = 1
):
    """Returns a function that decodes `inputs` and returns the length of each translation."""
    from t2t_repro.decoding.search import Search, Sentences

    def by_engine(engine):
        batch = Sentences(inputs, np.full(len(inputs), args.tgt))
        search = Search(args.beam_size, args.alpha)
        return lambda: np.count_nonzero(engine.decode(batch, search)[0][:, 0], axis=1)

    if args.engine == "tensorflow":
        from t2t_repro.decoding.engine import ModelEngine

        return by_engine(ModelEngine(model, searches))
    from t2t_repro.export import ctranslate2

    encoder = made_up_encoder(args.vocab_size)
    ctranslate2.convert(model, {"inputs": encoder, "targets": encoder}, folder)
    engine = ctranslate2.CTranslate2Engine(folder, args.compute_type, args.threads)
    if args.engine == "ctranslate2":
        return by_engine(engine)
    sentences = [[engine.source[i] for i in row] for row in inputs]

    def run():
        results = engine.translator.translate_batch(
            sentences,
            beam_size=args.beam_size,
            length_penalty=args.alpha,
            max_decoding_length=args.tgt,
            min_decoding_length=args.tgt,
        )
        return [len(result.hypotheses[0]) for result in results]

    return run


def made_up_encoder(size: int):
    """Returns a vocabulary of `size` subtokens that mean nothing."""
    from t2t_repro.text.subword import SubwordTextEncoder

    letters = [*string.ascii_lowercase, *string.digits, "_", "\\", "&", ";", "#"]
    subtokens = ["<pad>_", "<EOS>_", *letters]
    subtokens += [f"w{i}_" for i in range(size - len(subtokens))]
    return SubwordTextEncoder.from_subtokens(subtokens)


cli.program(__name__, "decode", __doc__, [Decoding, measuring.Measured], main)
