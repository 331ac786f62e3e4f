"""What the plan reads of the text that t2t-datagen has made."""

import json

import pytest

from t2t_repro.data.text_size import TextSize
from t2t_repro.errors import UserError
from t2t_repro.own_text.plan import Text

SUMMARY = {
    "splits": {"train": {"examples": 7}, "dev": {"examples": 3}},
    "vocab_size": {"targets": 11},
}


def test_a_summary(tmp_path):
    path = tmp_path / "datagen.json"
    path.write_text(json.dumps(SUMMARY))
    assert Text.of(path) == Text(train=TextSize.like_captions(7), dev=3, subwords=11)


@pytest.mark.parametrize(
    ("lacks", "received"),
    [
        ({"splits": {"train": {"examples": 7}}}, "none of 'dev'"),
        ({"splits": {"train": {}, "dev": {"examples": 3}}}, "none of 'examples'"),
        ({"splits": []}, "none of list indices"),
        ({"splits": SUMMARY["splits"] | {"train": {"examples": "x"}}}, "none of invalid literal"),
        ({"vocab_size": {}}, "none of 'targets'"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_summary_that_lacks_something(tmp_path, lacks, received):
    path = tmp_path / "datagen.json"
    path.write_text(json.dumps(SUMMARY | lacks))
    with pytest.raises(UserError, match=received) as refused:
        Text.of(path)
    assert f"in {path}." in str(refused.value) and "Remove its folder" in str(refused.value)
