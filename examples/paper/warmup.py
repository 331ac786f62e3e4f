"""Post-norm needs a warm-up of the learning rate, pre-norm does not.

The paper, section 5.3, lets the rate rise for 4,000 steps before it falls. Xiong et al. (2020,
arXiv 2002.04745) say why: with the norms behind the residuals, the gradients near the output are
large at the start; with the norms before the sublayers they are not.

Models of 6 + 6 layers of width 64 learn for 200 steps to copy 1 to 8 of 20 symbols, under post-norm
("dan" behind each sublayer) and pre-norm ("n" before it, "da" behind). The rate rises to the same
peak, 0.002, in 0, 50 or 200 steps and stays there. Measured is the loss on 512 other sentences.

Time: 4 minutes of processor time. You should see losses, means of two seeds, of

    warm-up        0     50    200
    post-norm   1.75   1.51   1.47      without it the best seed is behind the worst with it
    pre-norm    0.09   0.18   0.25      in so few steps a slow rise only costs

Nothing diverges: post-norm learns without a warm-up, but less. How a longer training would end is
not measured.

    python examples/paper/warmup.py
"""

import drawing
import keras
import numpy as np

import t2t_repro
from t2t_repro.training import learning_rate, optimizers

SYMBOLS, LONGEST = 20, 8
NORMS = {"post-norm": ("none", "dan"), "pre-norm": ("n", "da")}


def hparams_of(norm, warmup, layers):
    """Returns a configuration; a warm-up of 0 steps begins at the peak."""
    before, behind = NORMS[norm]
    changes = f"hidden_size=64,filter_size=128,num_hidden_layers={layers}"
    changes += f",layer_preprocess_sequence={before},layer_postprocess_sequence={behind}"
    changes += ",learning_rate_schedule=constant*linear_warmup,learning_rate_constant=0.002"
    changes += f",learning_rate_warmup_steps={warmup}"
    return t2t_repro.get_hparams("transformer_quickstart", changes)


def model_of(hparams):
    """Returns a new model."""
    sizes = {"inputs_vocab_size": SYMBOLS + 2, "targets_vocab_size": SYMBOLS + 2}
    return t2t_repro.Transformer.from_hparams(hparams, **sizes)


def sentences(random, count):
    """Returns sentences to copy, each ended by 1 and padded with 0."""
    length = random.integers(1, LONGEST + 1, (count, 1))
    ids = random.integers(0, SYMBOLS, (count, LONGEST + 1), "int32") + 2
    place = np.arange(LONGEST + 1)
    ids = np.where(place < length, ids, place == length).astype("int32")
    return {"inputs": ids, "targets": ids}


def train(model, hparams, seed, steps):
    """Trains from a seed's first weights, and returns the loss on other sentences."""
    keras.utils.set_random_seed(seed)
    model.set_weights(model_of(hparams).get_weights())
    for variable in model.optimizer.variables:
        variable.assign(keras.ops.zeros_like(variable))
    random, rate = np.random.default_rng(seed), learning_rate.Schedule(hparams)
    for step in range(steps):
        model.optimizer.learning_rate = float(rate(step))
        model.train_on_batch(sentences(random, 64))
    test = sentences(np.random.default_rng(2**32), 512)
    return float(model.test_on_batch(test, return_dict=True)["loss"])


def main():
    args = drawing.arguments(__doc__, layers=6, steps=200, seeds=2, warmups=(0, 50, 200))
    title = f"{args.layers} + {args.layers} layers after {args.steps} steps of copying"
    made, (axes,) = drawing.figure(title)
    rows = []
    for norm in NORMS:
        model = model_of(hparams_of(norm, 0, args.layers))  # compiled once, for all its trainings
        model.compile(optimizers.Adam(1.0, 0.9, 0.98, 1e-9))
        of_warmups = []
        for warmup in args.warmups:
            hparams = hparams_of(norm, warmup, args.layers)
            values = [train(model, hparams, seed, args.steps) for seed in range(args.seeds)]
            rows += [dict(norm=norm, warmup=warmup, seed=s, loss=v) for s, v in enumerate(values)]
            print(f"{norm:10} warm-up {warmup:4}: loss", *(f"{v:.2f}" for v in values), flush=True)
            of_warmups.append(values)
        drawing.line(axes, args.warmups, of_warmups, norm)
    axes.set(xlabel="warm-up, steps", ylabel="loss on other sentences, nats a token")
    axes.set_ylim(bottom=0)
    axes.legend()
    drawing.save(made, {"rows": rows}, args.output_dir / "warmup")


if __name__ == "__main__":
    main()
