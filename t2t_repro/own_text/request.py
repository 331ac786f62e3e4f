"""The request of t2t-own-text, and the paths in its folder."""

import dataclasses
import os
import pathlib
from typing import Any

from t2t_repro.corpora.request import RawText
from t2t_repro.fields import flag, flags_of

PROBLEM = "text2text_tmpdir"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnTextRequest:
    """The flags of t2t-own-text.

    Attributes:
        raw: those of the raw text, as t2t-datagen has them; --source and --target are its
            --train_source and --train_target.
        the others: as --help says.
    """

    raw: RawText
    output_dir: str = flag("", "The folder of all outputs.")
    vocab_size: int = flag(
        0, "About how many subwords to build; 0: the text size decides.", least=0, most=2**20
    )
    vocab: str = flag(
        "",
        "Your own vocabulary, a file of T2T's subwords or a SentencePiece model. Give one file for "
        "both sides, or two files: SOURCE,TARGET.",
    )
    keep_bad_pairs: bool = flag(
        False, "Keep all pairs; default: bad pairs are dropped (t2t-datagen --drop_bad_pairs)."
    )
    hparams_set: str = flag("", "The name of an hparam set; default: chosen by the text size.")
    hparams: str = flag("", 'Overrides of the hparam set: "name=value,name=value".')
    train_steps: int = flag(0, "The most steps to train; 0: hparam set and text decide.", least=0)
    train_minutes: float | None = flag(
        None,
        "The most minutes to train, roughly; 0: no limit. Default: 40 on a CPU, 0 on a GPU.",
        least=0,
        most=10**6,
    )
    random_seed: int = flag(
        0, "The seed of the splits, the weights and shuffling.", least=0, most=2**32 - 2
    )

    def text_flags(self) -> dict[str, Any]:
        """Returns the flags of t2t-datagen for the text."""
        values = {name: getattr(self.raw, name) for name in flags_of(RawText)}
        values |= {"vocab_size": self.vocab_size or None, "vocab": self.vocab or None}
        return values | {"random_seed": self.random_seed}

    def files(self) -> list[str]:
        """Returns the files that are read."""
        paths = [path for corpus in self.raw.corpora() for path in corpus.paths()]
        return paths + [os.path.expanduser(path) for path in self.vocab.split(",") if path]


class Folder:
    """The paths in the folder."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.text, self.data, self.run = path / "text", path / "data", path / "run"
        self.trial, self.model = path / "trial", path / "model"
        self.translations = path / "test" / "translations.txt"
        self.export, self.explain = path / "export", path / "explain.html"
        self.page, self.record = path / "index.html", path / "own-text.json"
        self.summary = self.data / f"datagen.{PROBLEM}.json"

    def sides(self, split: str) -> list[pathlib.Path]:
        """The two text files of "train", "eval" or "test"."""
        return [self.text / f"{side}.{split}.txt" for side in ("inputs", "targets")]
