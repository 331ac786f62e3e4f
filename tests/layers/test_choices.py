"""What config.py lets a setting be is what the layers can make."""

import re

import pytest

from t2t_repro.config import HParams
from t2t_repro.errors import UserError
from t2t_repro.layers.attention_score import SCORES
from t2t_repro.layers.initialization import INITIALIZERS
from t2t_repro.layers.norms import NORMS


@pytest.mark.parametrize(
    "name, table",
    [("attention_score", SCORES), ("initializer", INITIALIZERS), ("norm_type", NORMS)],
)
def test_the_choices_of_a_setting_are_the_names_of_a_table(name, table):
    choices = f"Expected {name} to be one of {', '.join(map(repr, table))}. Received: '?'."
    with pytest.raises(UserError, match=re.escape(choices)):
        HParams(**{name: "?"})
