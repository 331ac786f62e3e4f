"""How large a batch is, for those who count what it costs."""

from dataclasses import dataclass

from t2t_repro.errors import UserError


@dataclass(frozen=True)
class BatchShape:
    """Sentences of a batch and the tokens of each side of one, padding included.

    Both lengths may be fractions: the mean of many batches.
    """

    sentences: float
    source_length: float
    target_length: float

    def __post_init__(self):
        if min(self.sentences, self.source_length, self.target_length) <= 0:
            raise UserError(
                "Expected a batch of at least one sentence, and lengths above 0. Received: "
                f"{self.sentences} sentences of {self.source_length} source and "
                f"{self.target_length} target tokens."
            )

    @classmethod
    def of_tokens(cls, tokens: float, length: float) -> "BatchShape":
        """Returns the batch of `tokens` source and as many target tokens, `length` in a row."""
        return cls(tokens / length, length, length)

    @property
    def source_tokens(self) -> float:
        """B S."""
        return self.sentences * self.source_length

    @property
    def target_tokens(self) -> float:
        """B T."""
        return self.sentences * self.target_length
