"""Packed examples: several sentences in one, as T2T's generator_utils.pack_examples makes them.

Where `Problem.packed_length` is set, the files hold six features, three of each side: its
sentences' ids one after another; SIDE_segmentation, the number of each id's sentence, from 1; and
SIDE_position, the id's place in it, from 0. Between sentences lie `packed_spacing` zeros in all
three. The sentence of one number in the inputs belongs to that of the same number in the targets.

T2T also packs and chops the targets alone, for language models, which are not here.
"""

from collections.abc import Iterable, Iterator

from t2t_repro.problem import Problem, Sample

SIDES = ("inputs", "targets")
KINDS = ("_segmentation", "_position")
QUEUE_SIZE = 10  # T2T's: so many packed examples are open for another sentence at once


def features(problem: Problem) -> tuple[str, ...]:
    """Returns the features of a problem's batches: two, or six where it is packed."""
    kinds = ("", *KINDS) if problem.packed_length else ("",)
    return tuple(side + kind for side in SIDES for kind in kinds)


def stored(problem: Problem) -> tuple[str, ...]:
    """Returns the features that are read of a problem's files."""
    return tuple(map(problem.stored_feature, features(problem)))


def pack(
    samples: Iterable[Sample],
    packed_length: int,
    spacing: int = 0,
    queue_size: int = QUEUE_SIZE,
) -> Iterator[dict[str, list[int]]]:
    """Yields packed examples: each sample goes into the first open one in which both sides fit.

    Where none has room, the oldest is finished. A sample that is longer than `packed_length` stays
    alone and whole, as in T2T; training leaves it out.

    Args:
        samples: {"inputs": ids, "targets": ids}, none of them empty; other features are dropped.
        packed_length: the most ids of either side, spacing included.
        spacing: how many zeros go between sentences.
        queue_size: how many packed examples are open at once.
    """
    queue: list[_Packed] = []
    for sample in samples:
        for packed in queue:
            if packed.fits(sample, packed_length):
                packed.add(sample)
                break
        else:
            if len(queue) == queue_size:
                yield queue.pop(0).example()
            queue.append(_Packed(sample, spacing))
    for packed in queue:
        yield packed.example()


def unpack(example: Sample) -> Iterator[Sample]:
    """Yields the samples of a packed example in order."""
    for number in range(1, max(example["targets_segmentation"]) + 1):
        yield {
            side: [
                token
                for token, segment in zip(
                    example[side], example[f"{side}_segmentation"], strict=True
                )
                if segment == number
            ]
            for side in SIDES
        }


class _Packed:
    """A packed example in the making."""

    def __init__(self, sample: Sample, spacing: int):
        self._spacing = spacing
        self._samples = [sample]
        self._lengths = {side: len(sample[side]) for side in SIDES}

    def fits(self, sample: Sample, packed_length: int) -> bool:
        return all(
            self._lengths[side] + self._spacing + len(sample[side]) <= packed_length
            for side in SIDES
        )

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)
        for side in SIDES:
            self._lengths[side] += self._spacing + len(sample[side])

    def example(self) -> dict[str, list[int]]:
        packed = {}
        for side in SIDES:
            ids, segmentation, position = [], [], []
            for number, sample in enumerate(self._samples, start=1):
                space = [0] * (self._spacing if number > 1 else 0)
                length = len(sample[side])
                ids += [*space, *sample[side]]
                segmentation += [*space, *[number] * length]
                position += [*space, *range(length)]
            packed[side] = ids
            packed[f"{side}_segmentation"] = segmentation
            packed[f"{side}_position"] = position
        return packed
