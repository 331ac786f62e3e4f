"""Whether a run has learned what it is judged by: pairs of dev among the records of a training.

Of a run that began with another's weights that may be either's records.
"""

import collections

from t2t_repro.data.packing import SIDES
from t2t_repro.data.pipeline import read_split
from t2t_repro.errors import UserError
from t2t_repro.problem import Problem, Split
from t2t_repro.text.encoders import EOS_ID

Data = tuple[Problem, str]  # a problem, and the folder of its files


def warnings(new: Data, old: Data, parent: str) -> list[str]:
    """Returns what to say of data for a run that begins with another's weights.

    Args:
        new: the data.
        old: those that the other run was trained on.
        parent: what that is called.
    """
    much = "Scores of them say too much."
    both = {
        f"pairs of dev stand in the text that {parent} was trained on: leave them out, or keep the "
        f"dev of {parent}. {much}": count(old, new),
        f"pairs of the dev of {parent} stand in this training text: mix in what {parent} was "
        f"trained on instead. {much}": count(new, old),
    }
    return [f"{known:,} {what}" for what, known in both.items() if known]


def count(training: Data, dev: Data) -> int:
    """Returns how many pairs of a dev stand in a training; 0 where one of them is not there.

    A pair without words is nobody's.
    """
    try:
        (of, folder), (of_dev, dev_folder) = training, dev
        there, here = of.feature_encoders(folder), of_dev.feature_encoders(dev_folder)
        wanted = collections.Counter(
            tuple(
                (*there[side].encode(here[side].decode(sample[side][:-1])), EOS_ID)
                for side in SIDES
            )
            for sample in read_split(of_dev, Split.EVAL, dev_folder)
        )
        del wanted[(EOS_ID,), (EOS_ID,)]
        pairs = (
            tuple(tuple(sample[side]) for side in SIDES)
            for sample in read_split(of, Split.TRAIN, folder)
        )
        return sum(wanted.pop(pair, 0) for pair in pairs)
    except UserError:
        return 0
