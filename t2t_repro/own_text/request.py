"""What t2t-own-text is asked for."""

import dataclasses
import os
from collections.abc import Collection
from typing import Any

from t2t_repro.corpora.request import RawText
from t2t_repro.errors import UserError
from t2t_repro.fields import flag, flags_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class OwnTextRequest:
    """The flags of t2t-own-text, but for those of the raw text.

    Attributes:
        raw: the flags of the raw text, as t2t-datagen has them.
        vocabulary: (flag, value) of those of the vocabulary that were given, as there.
        vocabulary_files: the files that these name.
        the others: as --help says.
    """

    raw: RawText = RawText()
    vocabulary: tuple[tuple[str, str], ...] = ()
    vocabulary_files: tuple[str, ...] = ()
    output_dir: str = flag("", "The folder of all that is made.")
    keep_bad_pairs: bool = flag(
        False, "Take all pairs, also those that t2t-datagen --drop_bad_pairs leaves out."
    )
    hparams_set: str = flag("", "The named configuration; default: by how much text there is.")
    hparams: str = flag("", 'Changes to it: "name=value,name=value".')
    train_steps: int = flag(0, "Train so many steps at most; 0: as many as the set says.", least=0)
    train_minutes: float | None = flag(
        None,
        "Train about so many minutes at most; 0: however long it takes. Default: 40 on a CPU, 0 on "
        "a GPU.",
        least=0,
        most=10**6,
    )
    random_seed: int = flag(
        0, "Of the splits, the weights and the order of the data.", least=0, most=2**32 - 2
    )

    def __post_init__(self) -> None:
        missing = [
            f"--{name}"
            for name, value in {
                "source": self.raw.train_source,
                "output_dir": self.output_dir,
            }.items()
            if not value
        ]
        if missing:
            raise UserError(
                f"Expected {' and '.join(missing)}. Received: none. --source and --target are two "
                "files of one sentence a line, or --source one file that holds both sides."
            )
        if self.hparams and not self.hparams_set:
            raise UserError(
                "--hparams has no effect without --hparams_set: they are changes to a set. "
                f"Received: {self.hparams!r} alone. Name the set that they change."
            )

    def text_flags(self, test_size: int) -> list[str]:
        """Returns the flags of t2t-datagen that say what text there is and what becomes of it.

        Args:
            test_size: how many pairs to draw for test where the request does not say it.
        """
        values: dict[str, Any] = {name: getattr(self.raw, name) for name in flags_of(RawText)}
        if test_size and not (self.raw.test_source or self.raw.test_size):
            values["test_size"] = test_size
        named = [f"--{name}={value}" for name, value in values.items() if value is not None]
        named += [f"--{name}={value}" for name, value in self.vocabulary]
        bad_pairs = "--keep_bad_pairs" if self.keep_bad_pairs else "--drop_bad_pairs"
        return [*named, bad_pairs, f"--random_seed={self.random_seed}"]

    def begun_with(self, files: Collection[str]) -> dict[str, str]:
        """Returns what stays in a folder: of text, splits, ids and model, {flag: value}.

        Args:
            files: what was read. A flag that names one is left out: the files may be moved.
        """
        values: dict[str, Any] = {name: getattr(self.raw, name) for name in flags_of(RawText)}
        values |= dict(self.vocabulary)
        names = ("random_seed", "keep_bad_pairs", "hparams_set", "hparams")
        values |= {name: getattr(self, name) for name in names}

        def names_files(value: Any) -> bool:
            parts = (os.path.expanduser(part.strip()) for part in str(value).split(","))
            return any(part in files for part in parts)

        kept = {n: v for n, v in values.items() if v is not None and not names_files(v)}
        return {name: str(value) for name, value in kept.items()}
