"""Own text beside OpenNMT-tf and Marian: the same text, widths and processor time.

    python benchmarks/corpora.py --work_dir=DIR --train_minutes=40 \
        --onmt_main=ENV/bin/onmt-main --marian=ENV/bin/pymarian --out=bible.json -- \
        --source=bible.de --target=bible.en

The flags after `--` are t2t-own-text's. It chooses its model itself, and its training text is what
the peers train on. Each peer trains for as many processor seconds as the minutes have on all cores.
Its settings are those of its own documentation, except that widths, vocabulary size, dropout and
batch are ours, and its warm-up takes a fifth of our steps. OpenNMT-tf averages its last 8
checkpoints, and Marian smooths exponentially. Each decodes the test split with beam 4. Scores are
sacreBLEU's, with signatures. The file has the processor seconds that each really took.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import psutil
import sacrebleu

MODEL = """import opennmt
model = lambda: opennmt.models.Transformer(
    num_layers={layers}, num_units={width}, num_heads={heads}, ffn_inner_dim={filter},
    dropout={dropout}, share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL)
"""

PIECES = """import pyonmttok
learner = pyonmttok.SentencePieceLearner(vocab_size={size}, character_coverage=0.9995)
for text in {texts}:
    learner.ingest_file(text)
learner.learn("{model}")
"""


class Work:
    """A folder of text that is split, what t2t-own-text chose for it, and the time of a peer."""

    def __init__(self, folder: pathlib.Path, minutes: float):
        self.folder = folder
        self.seconds = round(60 * minutes * len(os.sched_getaffinity(0)))
        self.ours = folder / "ours"

    def text(self, side: str, split: str) -> str:
        return str(self.ours / "text" / f"{side}.{split}.txt")

    def chosen(self) -> dict:
        """Returns the hparams of our run that peers take over."""
        hparams = json.loads((self.ours / "run" / "hparams.json").read_bytes())
        plan = json.loads((self.ours / "own-text.json").read_bytes())["stages"]["plan"]["found"]
        return {
            "layers": hparams["num_hidden_layers"],
            "width": hparams["hidden_size"],
            "heads": hparams["num_heads"],
            "filter": hparams["filter_size"],
            "dropout": hparams["layer_prepostprocess_dropout"],
            "batch": hparams["batch_size"],
            "symbols": plan["subwords"],
            "warmup": max(100, plan["train_steps"] // 5),
        }

    def run(self, argv: list, log: str, budget: int = 0) -> float:
        """Runs a program, for `budget` processor seconds if that is not 0; returns those it took.

        RLIMIT_CPU let OpenNMT-tf take 87 seconds for 60 on a virtual machine.

        Raises:
            subprocess.CalledProcessError: if it fails, but by its budget.
        """
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(self.folder / log, "ab") as file:
            argv = [str(part) for part in argv]
            with psutil.Popen(argv, stdout=file, stderr=file, cwd=self.folder) as program:
                while budget and program.poll() is None:
                    if sum(program.cpu_times()[:2]) >= budget:
                        program.kill()
                    time.sleep(0.1)
        if program.returncode and not (budget and program.returncode < 0):
            raise subprocess.CalledProcessError(program.returncode, argv)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(work: Work, minutes: float, own: list[str], _: str) -> dict:
    """Trains by t2t-own-text, its test stage included."""
    argv = [sys.executable, "-m", "t2t_repro.bin.own_text", f"--train_minutes={minutes}", *own]
    seconds = work.run([*argv, f"--output_dir={work.ours}"], "ours.log")
    plan = json.loads((work.ours / "own-text.json").read_bytes())["stages"]["plan"]["found"]
    keys = ("hparams_set", "hparams", "train_steps", "expects")
    output = work.ours / "test" / "translations.txt"
    return {"output": output, "seconds": seconds, "settings": {key: plan[key] for key in keys}}


def opennmt_tf(work: Work, minutes: float, own: list[str], program: str) -> dict:
    """Trains OpenNMT-tf with its --auto_config and SentencePiece."""
    chosen, bin_folder = work.chosen(), pathlib.Path(program).parent
    pieces = work.folder / "onmt.model"
    texts = [work.text("inputs", "train"), work.text("targets", "train")]
    # Its own onmt-build-vocab --sentencepiece crashes where TensorFlow is loaded first.
    learn = PIECES.format(size=chosen["symbols"], texts=texts, model=str(pieces))
    work.run([bin_folder / "python", "-c", learn], "onmt.log")
    tokens = {"type": "OpenNMTTokenizer", "params": {"mode": "none", "sp_model_path": str(pieces)}}
    tokenizer, vocabulary = work.folder / "onmt_tokens.json", work.folder / "onmt.vocab"
    tokenizer.write_text(json.dumps(tokens), encoding="utf-8")
    build = [bin_folder / "onmt-build-vocab", "--tokenizer_config", tokenizer]
    work.run([*build, "--size", chosen["symbols"], "--save_vocab", vocabulary, *texts], "onmt.log")
    (work.folder / "onmt_model.py").write_text(MODEL.format(**chosen), encoding="utf-8")
    settings = {
        "model_dir": "onmt_run",
        "data": {
            "train_features_file": texts[0],
            "train_labels_file": texts[1],
            "source_vocabulary": str(vocabulary),
            "target_vocabulary": str(vocabulary),
            "source_tokenization": tokens,
            "target_tokenization": tokens,
        },
        "params": {
            "decay_params": {"model_dim": chosen["width"], "warmup_steps": chosen["warmup"]},
            "beam_width": 4,
            "length_penalty": 0.6,
        },
        "train": {
            "batch_size": chosen["batch"],
            "effective_batch_size": None,
            "save_checkpoints_steps": max(50, chosen["warmup"] // 5),
        },
    }
    config = work.folder / "onmt.json"  # of which YAML is a superset
    config.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    base = [program, "--config", config, "--auto_config", "--model", "onmt_model.py"]
    seconds = work.run([*base, "train"], "onmt.log", work.seconds)
    averaged = ["average_checkpoints", "--output_dir", "onmt_average", "--max_count", 8]
    work.run([*base, *averaged], "onmt.log")
    output = work.folder / "onmt.out"
    infer = ["infer", "--features_file", work.text("inputs", "test"), "--predictions_file", output]
    work.run([*base, "--checkpoint_path", "onmt_average", *infer], "onmt.log")
    return {"output": output, "seconds": seconds, "settings": chosen}


def marian(work: Work, minutes: float, own: list[str], program: str) -> dict:
    """Trains Marian with the settings of its transformer example and SentencePiece."""
    chosen, threads = work.chosen(), len(os.sched_getaffinity(0))
    settings = {
        "type": "transformer",
        "dim-emb": chosen["width"],
        "transformer-dim-ffn": chosen["filter"],
        "transformer-heads": chosen["heads"],
        "enc-depth": chosen["layers"],
        "dec-depth": chosen["layers"],
        "transformer-dropout": chosen["dropout"],
        "dim-vocabs": [chosen["symbols"]] * 2,
        "mini-batch": 1000,
        "mini-batch-words": chosen["batch"],
        "lr-warmup": chosen["warmup"],
        "lr-decay-inv-sqrt": chosen["warmup"],
        "learn-rate": 0.0003 if chosen["width"] > 256 else 0.001,
        "label-smoothing": 0.1,
        "optimizer-params": [0.9, 0.98, 1e-9],
        "clip-norm": 5,
        "tied-embeddings-all": True,
        "exponential-smoothing": True,
        "save-freq": f"{max(50, chosen['warmup'] // 5)}u",
        "after": "0e",
        "overwrite": True,
        "workspace": 3000,
    }
    config = work.folder / "marian.json"
    config.write_text(json.dumps(settings, indent=1), encoding="utf-8")
    common = ["--cpu-threads", threads, "--vocabs", "joint.spm", "joint.spm"]
    train = ["--train-sets", work.text("inputs", "train"), work.text("targets", "train")]
    argv = [program, "--config", config, *common, *train, "--model", "marian.npz"]
    seconds = work.run(argv, "marian.log", work.seconds)
    output = work.folder / "marian.out"
    decode = ["--models", "marian.npz", "--beam-size", 4, "--normalize", 0.6, "--output", output]
    test = ["--input", work.text("inputs", "test"), "--mini-batch", 16]
    work.run([program, "decode", *common, *decode, *test], "marian.log")
    return {"output": output, "seconds": seconds, "settings": settings}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work_dir", type=pathlib.Path, required=True)
    parser.add_argument("--train_minutes", type=float, default=40)
    parser.add_argument("--onmt_main", help="its program; default: it does not take part")
    parser.add_argument("--marian", help="its program, or pymarian; default: as above")
    parser.add_argument("--tokenize", default="13a", help="of sacreBLEU")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("own", nargs="*", help="flags of t2t-own-text")
    args = parser.parse_args()
    args.work_dir.mkdir(parents=True, exist_ok=True)
    work = Work(args.work_dir.absolute(), args.train_minutes)
    rows = []
    for how, program in ((ours, "ours"), (opennmt_tf, args.onmt_main), (marian, args.marian)):
        if not program:
            continue
        started = time.time()
        made = how(work, args.train_minutes, args.own, program)
        files = work.text("targets", "test"), made.pop("output")
        right, got = (pathlib.Path(f).read_text(encoding="utf-8").split("\n")[:-1] for f in files)
        row = {"toolkit": how.__name__, "wall": round(time.time() - started), **made}
        metrics = {"bleu": sacrebleu.BLEU(tokenize=args.tokenize), "chrf": sacrebleu.CHRF()}
        for name, metric in metrics.items():
            score = metric.corpus_score(got, [right]).score
            row[name] = [round(score, 2), str(metric.get_signature())]
        rows.append(row)
        print(row, flush=True)
        args.out.write_text(json.dumps(rows, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
