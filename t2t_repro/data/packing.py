"""Packed examples: several sentences in one, as T2T's generator_utils.pack_examples makes them.

Where `Problem.packed_length` is set, the files hold six features, three of each side: its
sentences' ids one after another; SIDE_segmentation, the number of each id's sentence, from 1; and
SIDE_position, the id's place in it, from 0. Between sentences lie `packed_spacing` zeros in all
three. The sentence of one number in the inputs belongs to that of the same number in the targets.

T2T also packs and chops targets alone, for language models; that is not supported.
"""

from collections.abc import Iterable, Iterator

from t2t_repro.problem import Problem, Sample

SIDES = ("inputs", "targets")
KINDS = ("_segmentation", "_position")
QUEUE_SIZE = 10  # T2T's: so many packed examples are open for another sentence at once
_FEATURES = tuple(side + kind for side in SIDES for kind in ("", *KINDS))


def features(problem: Problem) -> tuple[str, ...]:
    """Returns the features of a problem's batches: two, or six where it is packed."""
    return _FEATURES if problem.packed_length else SIDES


def learns_its_targets(problem: Problem) -> bool:
    """Whether a problem's sides are the inputs and targets of its records, either way round."""
    return {problem.stored_feature(side) for side in SIDES} == set(SIDES)


def pack(
    samples: Iterable[Sample],
    packed_length: int,
    spacing: int = 0,
    queue_size: int = QUEUE_SIZE,
) -> Iterator[dict[str, list[int]]]:
    """Yields packed examples: each sample goes into the first open one in which both sides fit.

    If none has room, the oldest is finished. A sample longer than `packed_length` stays alone and
    whole, as in T2T; training skips it.

    Args:
        samples: {"inputs": ids, "targets": ids}, none of them empty; other features are dropped.
        packed_length: the most ids of either side, spacing included.
        spacing: how many zeros go between sentences.
        queue_size: how many packed examples are open at once.
    """
    queue: list[dict[str, list[int]]] = []
    for sample in samples:
        for packed in queue:
            lengths = (len(packed[side]) + spacing + len(sample[side]) for side in SIDES)
            if max(lengths) <= packed_length:
                break
        else:
            if len(queue) == queue_size:
                yield queue.pop(0)
            packed = {name: [] for name in _FEATURES}
            queue.append(packed)
        for side in SIDES:
            ids, numbers, places = (packed[side + kind] for kind in ("", *KINDS))
            number, space = (numbers[-1] + 1, [0] * spacing) if numbers else (1, [])
            ids += [*space, *sample[side]]
            numbers += [*space, *[number] * len(sample[side])]
            places += [*space, *range(len(sample[side]))]
    yield from queue


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
