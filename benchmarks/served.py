"""A SavedModel beside t2t-decoder: are the translations the same, and how many come in a second?

    t2t-decoder --output_dir=RUN --decode_from_file=SOURCE --decode_to_file=DECODED
    t2t-exporter --output_dir=RUN --export_dir=EXPORT
    python benchmarks/served.py EXPORT SOURCE DECODED

Needs TensorFlow and tensorflow-text alone. SOURCE may hold any lines: the hard ones too.
"""

import pathlib
import sys
import time

import tensorflow as tf
import tensorflow_text  # noqa: F401

BATCH = 64


def lines(path: str) -> list[str]:
    return pathlib.Path(path).read_text(encoding="utf-8").removesuffix("\n").split("\n")


def main(export: str, source: str, decoded: str) -> None:
    sources, wanted = lines(source), lines(decoded)
    start = time.time()
    translate = tf.saved_model.load(export).signatures["text"]
    translate(inputs=tf.constant(sources[:BATCH]))
    print(f"loaded, and called once: {time.time() - start:.1f} s")
    by_length = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    outputs, start = [""] * len(sources), time.time()
    for begin in range(0, len(sources), BATCH):
        batch = by_length[begin : begin + BATCH]
        answer = translate(inputs=tf.constant([sources[i] for i in batch]))["outputs"].numpy()
        for i, output in zip(batch, answer, strict=True):
            outputs[i] = output.decode()
    print(f"{len(sources) / (time.time() - start):.1f} sentences a second")
    same = [a == b for a, b in zip(outputs, wanted, strict=True)]
    print(f"{sum(same)} of {len(same)} lines as in {decoded}")
    for i in [i for i, equal in enumerate(same) if not equal][:5]:
        print(f"line {i + 1}: {sources[i]!r}\n  {outputs[i]!r}\n  {wanted[i]!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
