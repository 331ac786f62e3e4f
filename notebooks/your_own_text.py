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
# # Your own text
#
# From two lists of strings to a model that answers over HTTP. Put your own sentences in the place
# of `english` and `german`; the rest stays. It needs about three minutes on two cores, no GPU and
# no download, and `pip install -e '.[server]'` for the last part.

# %%
from t2t_repro import imports

imports.quiet_tensorflow()  # no lines about oneDNN and CUDA

# %%
import contextlib
import json
import pathlib
import random
import shutil
import subprocess
import sys
import urllib.request

import t2t_repro
from t2t_repro.data import text_dataset

folder = pathlib.Path("t2t_runs/lessons/your_own_text")
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)

# %% [markdown]
# ## The two lists
#
# English sentences and their German translations, here made up by a small grammar, so that nothing
# is downloaded. It is not word by word: the German verb comes second, articles have a gender, and
# adjectives bend.


# %%
def rows(text):
    """Returns the rows of a table whose rows end with semicolons."""
    return [tuple(word.strip() for word in row.split(",")) for row in text.split(";")]


NOUNS = rows(  # the German article of the nominative, and of the accusative
    "dog, der, den, Hund; man, der, den, Mann; bird, der, den, Vogel; cat, die, die, Katze;"
    "woman, die, die, Frau; cow, die, die, Kuh; child, das, das, Kind; horse, das, das, Pferd"
)
ADJECTIVES = rows(
    "small, klein; old, alt; young, jung; big, groß; quiet, still; clever, klug; brown, braun;"
    "cheerful, fröhlich; tired, müd"
)
VERBS = rows(
    "sees, sieht; hears, hört; follows, verfolgt; knows, kennt; looks for, sucht; finds, findet;"
    "draws, zeichnet; greets, grüßt"
)
PLACES = rows(
    "in the garden, im Garten; on the bridge, auf der Brücke; at the lake, am See;"
    "behind the house, hinter dem Haus; in the rain, im Regen; in town, in der Stadt"
)
TIMES = rows("today, heute; often, oft; in the evening, am Abend; again, wieder")


def sentence(draw):
    """Returns a sentence in English and in German."""
    (subject, the, _, subjekt), (seen, _, den, objekt) = draw.choice(NOUNS), draw.choice(NOUNS)
    (adjective, adjektiv), (other, anderes) = draw.choice(ADJECTIVES), draw.choice(ADJECTIVES)
    (verb, verbum), (place, ort), (time, zeit) = map(draw.choice, (VERBS, PLACES, TIMES))
    ending = "en" if den == "den" else "e"
    english = f"{time} the {adjective} {subject} {verb} the {other} {seen} {place}."
    german = f"{zeit} {verbum} {the} {adjektiv}e {subjekt} {den} {anderes}{ending} {objekt} {ort}."
    return english[0].upper() + english[1:], german[0].upper() + german[1:]


draw = random.Random(1)
english, german = map(list, zip(*dict.fromkeys(sentence(draw) for _ in range(2500)), strict=True))
print(f"{len(english):,} pairs, such as")
for i in range(3):
    print(f"  {english[i]}\n  {german[i]}")

# %% [markdown]
# ## One command
#
# `t2t-own-text` takes two files of one sentence a line. It draws dev and test sets, checks the
# text, builds a vocabulary, measures how fast this machine is, trains, averages checkpoints,
# chooses how to search, scores the test set and exports. Left alone it chooses a configuration by
# the amount of text, and trains for 40 minutes on a CPU. Here the flags ask for a small one, for
# a minute.

# %%
for name, lines in (("english.txt", english), ("german.txt", german)):
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def t2t(program, *flags):
    """Returns the command line of a program, as `python -m` has it."""
    return [sys.executable, "-m", f"t2t_repro.bin.{program}", *flags]


made = folder / "made"
command = t2t(
    "own_text",
    f"--source={folder / 'english.txt'}",
    f"--target={folder / 'german.txt'}",
    f"--output_dir={made}",
    "--hparams_set=transformer_own_text_small",
    "--hparams=num_hidden_layers=2,hidden_size=64,filter_size=128,layer_prepostprocess_dropout=0.0,"
    "learning_rate_warmup_steps=100,batch_size=1024",
    "--train_steps=200",
)
done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
print(done.stdout)
assert done.returncode == 0

# %% [markdown]
# All of it stands in `made/index.html` for people, and in `made/own-text.json` for programs. A
# score never goes without its signature.

# %%
record = json.loads((made / "own-text.json").read_text(encoding="utf-8"))
for name in ("sacrebleu", "chrf2"):
    score = record["stages"]["test"]["found"][name]
    print(f"{name}: {score['score']:.1f}  ({score['signature']})")
for name, stage in record["stages"].items():
    print(f"{stage['seconds']:6.1f} s  {name}")
assert record["stages"]["test"]["found"]["sacrebleu"]["score"] > 50

# %% [markdown]
# ## In this program
#
# `load` gives the model and its encoders. A sentence becomes subwords, these become ids, and the
# model writes ids of the other language.

# %%
run = t2t_repro.load(made / "model")
text = "Today the old bird draws the tired cow at the lake."
encoder = run.encoders["inputs"]
ids = encoder.encode(text)
print(encoder.decode_list(ids), ids, sep="\n")
print(run.translate([text, "Often the young woman greets the clever man in the rain."]))

# %% [markdown]
# For Keras's `fit`, one call makes batches of two lists; `docs/keras.md` continues from here.

# %%
for batch in text_dataset(english, german, encoder, run.model.hparams).take(3):
    print({name: tuple(ids.shape) for name, ids in batch.items()})

# %% [markdown]
# ## Served
#
# `t2t-server --model=made/export/saved_model` answers HTTP. Port 0 is any that is free; what it
# prints says which.

# %%
command = t2t("server", f"--model={made / 'export' / 'saved_model'}", "--port=0")
with contextlib.ExitStack() as stack:
    server = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(server.terminate)
    address = next(line for line in server.stdout if line.startswith("Serving")).split()[3]
    question = json.dumps({"inputs": [text, english[0]]}).encode()
    with urllib.request.urlopen(f"{address}translate", question, timeout=60) as answer:
        for each in json.load(answer)["translations"]:
            print(f"{each['input']}\n  {each['translation']}  ({each['score']:.3f})")
