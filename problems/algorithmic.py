"""T2T's algorithmic problems: symbols to copy, shift, reverse, sort, add or multiply.

They need no file. The training samples are those that t2t-datagen of tensor2tensor draws from the
same --random_seed; numbers are written with their lowest digit first, as there.
"""

import operator
from collections.abc import Iterator

from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Sample, SpaceID, Split
from t2t_repro.registry import register_problem
from t2t_repro.text.encoders import EOS_ID, NUM_RESERVED_TOKENS, TextEncoder


class SymbolEncoder(TextEncoder):
    """Symbols as numbers between blanks: symbol 0 is id 2."""

    def __init__(self, num_symbols: int):
        super().__init__()
        self._num_symbols = num_symbols

    @property
    def vocab_size(self) -> int:
        return self._num_symbols + self.num_reserved_ids

    def encode(self, text: str) -> list[int]:
        ids = super().encode(text)
        if max(ids, default=0) >= self.vocab_size:
            raise UserError(
                f"Expected symbols from 0 to {self._num_symbols - 1}. Received: "
                f"{max(ids) - self.num_reserved_ids} in {text!r}. Correct the input."
            )
        return ids


class AlgorithmicProblem(Problem):
    """Samples of `generator`, with every symbol raised by 2 and a 1 at the end."""

    num_symbols = 0
    num_separators = 0
    train_length = 40
    dev_length = 400
    train_size = 100000
    dev_size = 10000
    num_shards = 10
    input_space_id = SpaceID.DIGIT_0
    target_space_id = SpaceID.DIGIT_1
    already_shuffled = True

    def generator(
        self, rng, nbr_symbols: int, max_length: int, nbr_cases: int
    ) -> Iterator[tuple[list[int], list[int]]]:
        """Yields (inputs, targets) as symbols.

        Args:
            rng: a numpy RandomState.
            nbr_symbols: symbols are below this, except the separator of the arithmetic problems.
            max_length: of the inputs, about.
            nbr_cases: how many to yield.
        """
        raise NotImplementedError

    @property
    def dataset_splits(self) -> list[dict]:
        return [
            {"split": Split.TRAIN, "shards": self.num_shards},
            {"split": Split.EVAL, "shards": 1},
        ]

    def num_samples(self, tmp_dir: str, dataset_split: str) -> int:
        return self.train_size if dataset_split == Split.TRAIN else self.dev_size

    def generate_encoded_samples(
        self, data_dir: str, tmp_dir: str, dataset_split: str
    ) -> Iterator[Sample]:
        import numpy as np

        train = dataset_split == Split.TRAIN
        rng = np.random.RandomState(self.random_seed + (not train))
        length = self.train_length if train else self.dev_length
        cases = self.generator(rng, self.num_symbols, length, self.num_samples("", dataset_split))
        for inputs, targets in cases:
            yield {"inputs": _ids(inputs), "targets": _ids(targets)}

    def feature_encoders(self, data_dir: str) -> dict[str, TextEncoder]:
        encoder = SymbolEncoder(self.num_symbols + self.num_separators)
        return {"inputs": encoder, "targets": encoder}


def _ids(symbols: list[int]) -> list[int]:
    return [int(symbol) + NUM_RESERVED_TOKENS for symbol in symbols] + [EOS_ID]


def _symbols(rng, nbr_symbols: int, max_length: int) -> list[int]:
    length = rng.randint(max_length) + 1
    return [rng.randint(nbr_symbols) for _ in range(length)]


@register_problem
class AlgorithmicIdentityBinary40(AlgorithmicProblem):
    """Copy 1 to 40 bits."""

    num_symbols = 2

    def generator(self, rng, nbr_symbols, max_length, nbr_cases):
        for _ in range(nbr_cases):
            inputs = _symbols(rng, nbr_symbols, max_length)
            yield inputs, inputs


@register_problem
class AlgorithmicIdentityDecimal40(AlgorithmicIdentityBinary40):
    """Copy 1 to 40 digits."""

    num_symbols = 10


@register_problem
class AlgorithmicIdentityVocab95Train20Eval30(AlgorithmicIdentityBinary40):
    """Copy 1 to 20 of 95 symbols; up to 30 in evaluation."""

    num_symbols = 95
    train_length = 20
    dev_length = 30
    train_size = 1000000


@register_problem
class AlgorithmicShiftDecimal40(AlgorithmicProblem):
    """Add 10 to each of 1 to 40 digits; up to 80 in evaluation."""

    num_symbols = 20
    dev_length = 80

    def generator(self, rng, nbr_symbols, max_length, nbr_cases):
        shift = 10
        for _ in range(nbr_cases):
            inputs = _symbols(rng, nbr_symbols - shift, max_length)
            yield inputs, [symbol + shift for symbol in inputs]


@register_problem
class AlgorithmicReverseBinary40(AlgorithmicProblem):
    """Write 1 to 40 bits backwards."""

    num_symbols = 2

    def generator(self, rng, nbr_symbols, max_length, nbr_cases):
        for _ in range(nbr_cases):
            inputs = _symbols(rng, nbr_symbols, max_length)
            yield inputs, inputs[::-1]


@register_problem
class AlgorithmicReverseDecimal40(AlgorithmicReverseBinary40):
    """Write 1 to 40 digits backwards."""

    num_symbols = 10


@register_problem
class AlgorithmicReverseQuickstart(AlgorithmicReverseDecimal40):
    """Ours, the trainer's embedded default: 1 to 40 digits in evaluation too."""

    dev_length = 40
    train_size = 50000
    dev_size = 500
    num_shards = 1


@register_problem
class AlgorithmicReverseBinary40Test(AlgorithmicReverseBinary40):
    """A tiny set for tests: 1,000 samples of up to 10 bits."""

    train_length = 10
    dev_length = 10
    train_size = 1000
    dev_size = 100
    num_shards = 1


@register_problem
class AlgorithmicReverseNlplike8k(AlgorithmicProblem):
    """Write about 35 symbols backwards that are as frequent as words (Zipf's law), of 8,000."""

    num_symbols = 8000
    train_length = 70
    dev_length = 70
    zipf_alpha = 1.3
    length_scale = 10  # the length's standard deviation is max_length / this

    def generator(self, rng, nbr_symbols, max_length, nbr_cases):
        import numpy as np

        weights = np.power(np.arange(1, nbr_symbols + 1), -self.zipf_alpha)
        sums = np.concatenate([[0.0], np.cumsum(weights)])
        distribution = sums / sums[-1]
        deviation = max_length / self.length_scale
        for _ in range(nbr_cases):
            length = int(abs(rng.normal(loc=max_length / 2, scale=deviation)) + 1)
            # T2T searches in the sums with the leading 0, so that symbols run from 1 and symbol
            # `nbr_symbols` is possible; its id lies one beyond T2T's vocabulary. Drawn with
            # probability 1e-6 or so, it becomes the last symbol here.
            drawn = np.searchsorted(distribution, rng.random_sample(length))
            inputs = np.minimum(drawn, nbr_symbols - 1).tolist()
            yield inputs, inputs[::-1]


@register_problem
class AlgorithmicReverseNlplike32k(AlgorithmicReverseNlplike8k):
    """The same, of 32,000 symbols."""

    num_symbols = 32000
    zipf_alpha = 1.05


def to_digits(number: int, base: int) -> list[int]:
    """Returns the digits of a number, the lowest first."""
    digits = [number % base]
    while number := number // base:
        digits.append(number % base)
    return digits


def from_digits(digits: list[int], base: int) -> int:
    """Returns the number that the digits mean, the lowest first."""
    return sum(digit * base**place for place, digit in enumerate(digits))


def _random_number(rng, length: int, base: int) -> list[int]:
    """Digits of a number of exactly `length` digits; 0 has one."""
    if length == 1:
        return [rng.randint(base)]
    return [rng.randint(base) for _ in range(length - 1)] + [rng.randint(base - 1) + 1]


class _Arithmetic(AlgorithmicProblem):
    """Two numbers with the symbol `base` between them, to one number."""

    num_separators = 1

    @staticmethod
    def operation(first: int, second: int) -> int:
        raise NotImplementedError

    def generator(self, rng, nbr_symbols, max_length, nbr_cases):
        base = nbr_symbols
        for _ in range(nbr_cases):
            first_length = rng.randint(max_length // 2) + 1
            second_length = rng.randint(max_length - first_length - 1) + 1
            first = _random_number(rng, first_length, base)
            second = _random_number(rng, second_length, base)
            result = self.operation(from_digits(first, base), from_digits(second, base))
            yield first + [base] + second, to_digits(result, base)


@register_problem
class AlgorithmicAdditionBinary40(_Arithmetic):
    """Add two binary numbers of together up to 39 digits."""

    num_symbols = 2
    operation = staticmethod(operator.add)


@register_problem
class AlgorithmicAdditionDecimal40(AlgorithmicAdditionBinary40):
    """Add two decimal numbers of together up to 39 digits."""

    num_symbols = 10


@register_problem
class AlgorithmicMultiplicationBinary40(_Arithmetic):
    """Multiply two binary numbers of together up to 39 digits."""

    num_symbols = 2
    operation = staticmethod(operator.mul)


@register_problem
class AlgorithmicMultiplicationDecimal40(AlgorithmicMultiplicationBinary40):
    """Multiply two decimal numbers of together up to 39 digits."""

    num_symbols = 10


@register_problem
class AlgorithmicSortProblem(AlgorithmicProblem):
    """Sort 1 to 10 of 20 numbers; up to 20 in evaluation."""

    num_symbols = 20
    train_length = 10
    dev_length = 20

    def eval_metrics(self):
        return super().eval_metrics() + ["edit_distance"]

    def generator(self, rng, nbr_symbols, max_length, nbr_cases):
        for _ in range(nbr_cases):
            length = rng.randint(max_length) + 1
            inputs = rng.randint(nbr_symbols, size=length).tolist()
            yield inputs, sorted(inputs)
