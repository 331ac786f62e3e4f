"""Small SentencePiece models for the tests."""

import os
import pathlib
import random

import sentencepiece


def train(path: pathlib.Path, size: int, seed: int = 5, **how) -> str:
    """Trains a model of `size` pieces on drawn words; returns its path."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=draw.randint(1, 6))) for _ in range(300)]
    lines = [" ".join(draw.choices(words, k=6)) for _ in range(200)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a cab had a bad egg", *lines]),
        model_prefix=os.fspath(path.with_suffix("")),
        vocab_size=size,
        minloglevel=2,
        **how,
    )
    return os.fspath(path)
