"""Build the four golden vocabularies from the captions of Multi30k, and compare byte for byte.

    python benchmarks/check_vocabularies.py --corpus=DIR [--golden=tests/golden/text]

DIR holds train.en and train.de, plain or .gz. Exit code 1 if a vocabulary differs.
"""

import argparse
import pathlib
import sys
import tempfile
import time

from t2t_repro.text import SubwordTextEncoder, raw
from t2t_repro.text.vocabulary import count_tokens


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=pathlib.Path, required=True)
    parser.add_argument("--golden", type=pathlib.Path, default="tests/golden/text")
    args = parser.parse_args()

    paths = [raw.required(args.corpus, f"train.{language}") for language in ("en", "de")]
    lines = [line for path in paths for line in raw.stripped_lines(path)]
    counts = count_tokens(lines)
    print(f"{len(lines)} lines, {sum(counts.values())} tokens, {len(counts)} different ones")

    differ = 0
    for name in ("512", "2048", "8192", "from_generator_4096"):
        started = time.perf_counter()
        if name.isdigit():
            encoder = SubwordTextEncoder.build_to_target_size(int(name), counts, 1, 1000)
        else:
            encoder = SubwordTextEncoder.build_from_generator(lines, 4096)
        seconds = time.perf_counter() - started
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "vocab")
            encoder.store_to_file(path)
            same = path.read_bytes() == (args.golden / f"built_vocab.{name}.subwords").read_bytes()
        differ += not same
        verdict = "equal" if same else "DIFFERENT"
        print(f"{name}: {encoder.vocab_size} subtokens, {seconds:.2f} s, {verdict}")

    for attempt in ("first", "second"):
        started = time.perf_counter()
        subtokens = sum(len(encoder.encode(line)) for line in lines)
        rate = subtokens / (time.perf_counter() - started)
        print(f"encode, {attempt} time: {rate:,.0f} subtokens/s")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
