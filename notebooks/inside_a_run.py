# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Inside a run
#
# A model learns to translate numbers, "twenty one" to "ein und zwanzig". Then it is opened: what
# it looks at, how it knows where a word stands, and what becomes of it when the layer norms change
# their places. About two minutes on two cores, no GPU and no download.

# %%
# %matplotlib inline
from t2t_repro import imports

imports.quiet_tensorflow()  # no lines about oneDNN and CUDA

# %%
import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import keras
import number_words

import t2t_repro
from t2t_repro.scoring import bleu
from t2t_repro.study import norms
from t2t_repro.views import attention, attention_pictures, pictures, positions

folder = pathlib.Path("t2t_runs/lessons/inside_a_run")
shutil.rmtree(folder, ignore_errors=True)
text, data, run_dir = folder / "text", folder / "data", folder / "run"
text.mkdir(parents=True)

# %% [markdown]
# ## A run
#
# Two programs make it, as on the command line: `t2t-datagen` a vocabulary and records,
# `t2t-trainer` checkpoints and a log.

# %%
corpus = number_words.pairs(6_100)
for split, part in (("train", corpus[:6_000]), ("eval", corpus[6_000:])):
    for side, lines in zip(("inputs", "targets"), zip(*part, strict=True), strict=True):
        (text / f"{side}.{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def t2t(program, *flags):
    """Runs a program, as `python -m` does, and shows how it ended."""
    command = [sys.executable, "-m", f"t2t_repro.bin.{program}", *flags]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"t2t-{program}", *flags, *done.stdout.splitlines()[-4:], sep="\n  ")
    assert done.returncode == 0, done.stdout


t2t("datagen", "--problem=text2text_tmpdir", f"--tmp_dir={text}", f"--data_dir={data}")
t2t(
    "trainer",
    "--problem=text2text_tmpdir",
    f"--data_dir={data}",
    f"--output_dir={run_dir}",
    "--hparams_set=transformer_own_text_small",
    "--hparams=num_hidden_layers=2,hidden_size=64,filter_size=128,layer_prepostprocess_dropout=0.0,"
    "learning_rate_warmup_steps=100",
    "--train_steps=300",
    "--log_step_count_steps=10",
    "--local_eval_frequency=50",
    "--eval_bleu_sentences=100",
)

# %% [markdown]
# All that a run has to say stands in `metrics.jsonl`, a line of JSON each. `loss` of training has
# label smoothing and dropout in it, that of an evaluation has not: `plain_loss` compares with it,
# which a run under JAX does not have.

# %%
lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").read_text().splitlines()]
training = [line for line in lines if line["kind"] == "train"]
evaluations = [line for line in lines if line["kind"] == "eval"]
drawn, (left, right) = pictures.figure(2, title="How it learned", width=4.0, height=3.0)
plain = all("plain_loss" in x for x in training)
kind, label = ("plain_loss", "") if plain else ("loss", " (label smoothing 0.1)")
left.plot([x["step"] for x in training], [x[kind] for x in training], label=f"training{label}")
left.plot([x["step"] for x in evaluations], [x["loss"] for x in evaluations], "o-", label="dev")
left.set(xlabel="step", ylabel="loss (nats per token)", ylim=(0, None))
left.legend(fontsize=8)
right.plot([x["step"] for x in evaluations], [x["bleu"] for x in evaluations], "o-")
right.set(xlabel="step", ylabel="BLEU of 100 dev sentences (%)", ylim=(0, 102))
pictures.save(drawn, folder / "learning.png")
drawn

# %% [markdown]
# ## Attention
#
# For each word that it writes, each head spreads a weight of 1 over the words that it reads.
# German says units before tens, and the weights have to cross there.

# %%
run = t2t_repro.load(run_dir)
source = "three hundred twenty one thousand six hundred eighty four"
(target,) = run.translate([source])
print(source, target, sep="\n")
inputs, targets = attention.sentence_ids(run.model, run.encoders, source, target)
maps = attention.maps(run.model, run.encoders, inputs, targets)
encoder, cross, decoder = maps
drawn = attention_pictures.layers(cross)
pictures.save(drawn, folder / "encoder-decoder.png")
drawn

# %% [markdown]
# Head by head, and what each does on average: the entropy of its weights in bits (0: it looks at
# one word, 3: at eight), and the share of the weight on the word before, the same place, the next,
# the first, and the end mark.

# %%
drawn = attention_pictures.weights(encoder)
pictures.save(drawn, folder / "encoder.png")
drawn

# %%
heads = [head for of in maps for head in attention.heads(of)]
for of in maps:
    print(f"{of.title}: {attention.summary(of.kind, heads)}")
drawn = attention_pictures.overview(heads)
pictures.save(drawn, folder / "heads.png")
drawn

# %% [markdown]
# ### For bertviz
#
# [bertviz](https://github.com/jessevig/bertviz) draws attention to be explored in a notebook. It
# takes an array (1, heads, T, S) for each layer, and the words; with it and PyTorch installed,
#
#     import torch, bertviz
#     encoder, cross, decoder = ([torch.from_numpy(x[None]) for x in of.weights] for of in maps)
#     bertviz.head_view(
#         encoder_attention=encoder, encoder_tokens=list(maps[0].keys), cross_attention=cross,
#         decoder_attention=decoder, decoder_tokens=list(maps[2].keys),
#     )

# %% [markdown]
# ## Positions
#
# Attention alone sees a bag of words. What tells "three hundred two" from "two hundred three" are
# the sinusoids that are added to the embeddings. How alike two positions are, their cosine,
# depends on their distance alone, and neighbours are the most alike.

# %%
drawn = positions.picture(positions.of_model(run.model))
pictures.save(drawn, folder / "positions.png")
drawn

# %% [markdown]
# The same weights without the sinusoids, which have none of their own:

# %%
english, german = (list(side) for side in zip(*corpus[6_000:], strict=True))
sizes = {"inputs_vocab_size": run.model.inputs_vocab_size}
sizes["targets_vocab_size"] = run.model.targets_vocab_size
no_positions = dataclasses.replace(run.model.hparams, pos="none")
blind = t2t_repro.Transformer.from_hparams(no_positions, **sizes)
blind.set_weights(run.model.get_weights())
without = dataclasses.replace(run, model=blind).translate(english)
print(f"with positions: BLEU {bleu.score(run.translate(english), german).sacrebleu.score:.1f}")
print(f"without:        BLEU {bleu.score(without, german).sacrebleu.score:.1f}")
for source, reference, translation in zip(english[:2], german[:2], without[:2], strict=True):
    print(f"  {source}\n    {translation}\n    {reference} (reference)")

# %% [markdown]
# ## Post-norm and pre-norm
#
# The paper normalises behind each sum ("post-norm"): `LayerNorm(x + Sublayer(x))`. tensor2tensor's
# later sets normalise before each sublayer ("pre-norm"): `x + Sublayer(LayerNorm(x))`. Here that is
# two strings, and nothing else differs. Before the first step already the two are not alike: the
# gradients of each layer, how they change with depth, and how large the numbers are that run from
# layer to layer.

# %%
NORMS = {"post-norm": ("none", "dan"), "pre-norm": ("n", "da")}
DEPTHS = (2, 6, 12)
small_batches = dataclasses.replace(run.model.hparams, batch_size=512)
(batch,) = t2t_repro.data.dataset(run.run.problem, data, small_batches, seed=1).take(1)
gradients, scales = {}, {}
for name, (before, behind) in NORMS.items():
    for depth in DEPTHS:
        hparams = t2t_repro.get_hparams(
            "transformer_own_text_small",
            f"num_hidden_layers={depth},hidden_size=64,filter_size=128,"
            "layer_prepostprocess_dropout=0.0,"
            f"layer_preprocess_sequence={before},layer_postprocess_sequence={behind}",
        )
        keras.utils.set_random_seed(1)
        model = t2t_repro.Transformer.from_hparams(hparams, **sizes)
        scales[name, depth] = norms.activation_scales(model, batch)
        _, gradients[name, depth] = norms.GradientNorms(model).measure([batch])

# %%
drawn, axes = pictures.figure(
    3, title="Before the first step, decoder, feed-forward", width=3.6, height=3.0
)
places = [f"decoder/layer_{i}/ffn" for i in range(DEPTHS[-1])]
for name in NORMS:
    deepest = name, DEPTHS[-1]
    axes[0].plot([gradients[deepest][place] for place in places], "o-", label=name)
    last = [gradients[name, depth][places[depth - 1]] for depth in DEPTHS]
    axes[1].plot(DEPTHS, last, "o-")
    axes[2].plot([scales[deepest][place] for place in places], "o-")
    print(f"{name}: gradient of the last layer, " + ", ".join(f"{x:.2f}" for x in last))
axes[0].set(xlabel="layer of 12", ylabel="norm of the gradient", ylim=(0, None))
axes[1].set(xlabel="layers", ylabel="norm of the last layer's gradient", ylim=(0, None))
axes[2].set(xlabel="layer of 12", ylabel="root mean square of its output", ylim=(0, None))
axes[0].legend(fontsize=8)
pictures.save(drawn, folder / "norms.png")
drawn

# %% [markdown]
# Under post-norm the last layers have the largest gradients, which do not fall with depth; under
# pre-norm they fall, while the sums grow from layer to layer (Xiong et al. 2020). Large steps on
# large gradients at the very beginning are what a warm-up prevents.
# `docs/paper.md` has the two trained at several depths;
# `t2t-compare` does it with your data.
