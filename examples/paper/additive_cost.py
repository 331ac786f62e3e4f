"""Additive attention costs more time and memory than dot products.

The paper, section 3.2.1: "While the two are similar in theoretical complexity, dot-product
attention is much faster and more space-efficient in practice, since it can be implemented using
highly optimized matrix multiplication code."

The model's own self-attention (4 heads, width 256, projections included) reads one sequence of n
tokens, compiled by TensorFlow. Time is that of the fastest of seven forward passes. Memory is how
much the peak of a new process rises at its first pass (Linux). Additive attention has a hidden
layer for each pair of positions, a dot product one number.

Time: 1 minute of processor time, most of it the start of eight processes. You should see some 60
times the time and 60 times the memory with additive attention at n = 512 (here: 1617 against 26 ms
on busy cores, 569 against 9 MB), and in both cases a square's growth.

    python examples/paper/additive_cost.py
"""

import multiprocessing
import pathlib
import time

import drawing
import keras
import numpy as np

from t2t_repro.layers import SelfAttention

WIDTH, HEADS = 256, 4
SCORES = {"scaled dot product": "scaled_dot_product", "additive": "additive"}


def forward(score, length):
    """Returns a function that makes one forward pass."""
    inputs = keras.Input((length, WIDTH), batch_size=1)
    outputs, _ = SelfAttention(HEADS, WIDTH, WIDTH, score=SCORES[score])(inputs)
    model = keras.Model(inputs, keras.ops.mean(outputs, axis=(1, 2)))
    x = np.random.default_rng(0).standard_normal((1, length, WIDTH), "float32")
    return lambda: model.predict_on_batch(x)


def peak():
    """Returns the most memory that this process has had, in MB of 10^6 bytes."""
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e6


def measure(score, length):
    """Returns milliseconds and megabytes of a pass, in a process that has computed nothing yet."""
    forward(score, 16)()  # what TensorFlow itself needs is there after this
    run = forward(score, length)
    before = peak()
    run()
    risen = peak() - before
    seconds = []
    for _ in range(7):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return 1e3 * min(seconds), max(risen, 0.1)  # less than 0.1 MB is the system's own noise


def main():
    args = drawing.arguments(__doc__, lengths=(64, 128, 256, 512))
    made, (left, right) = drawing.figure(f"Self-attention of width {WIDTH}, {HEADS} heads", 2)
    rows = []
    print(f"{'':20} {'tokens':>6} {'ms':>8} {'MB':>8}")
    for score in SCORES:
        for length in args.lengths:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                ms, mb = pool.apply(measure, (score, length))
            rows.append({"score": score, "length": length, "milliseconds": ms, "megabytes": mb})
            print(f"{score:20} {length:6} {ms:8.1f} {mb:8.1f}", flush=True)
        of = [row for row in rows if row["score"] == score]
        left.plot(args.lengths, [row["milliseconds"] for row in of], "o-", label=score)
        right.plot(args.lengths, [row["megabytes"] for row in of], "o-", label=score)
    left.set(title="time of a forward pass", ylabel="ms")
    right.set(title="rise of the peak of memory", ylabel="MB")
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="length n, tokens")
        axes.set_xticks(args.lengths, map(str, args.lengths))
        axes.xaxis.minorticks_off()
        axes.legend()
    drawing.save(made, {"rows": rows}, args.output_dir / "additive_cost")


if __name__ == "__main__":
    main()
