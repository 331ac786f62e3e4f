"""distill.json: a comparison is of the student that is there."""

import dataclasses

from t2t_repro.distilling.record import Record
from t2t_repro.own_text.begun import Stage


def test_a_comparison_goes_with_its_stage():
    stage = Stage(key="k", command="c", seconds=0.5, files={})
    begun = Record(version="0", begun_with={}, inputs={}, pairs={"pairs": 7})
    compared = dataclasses.replace(begun, comparison=object())
    stages = {"tuning": stage, "comparison": stage}
    assert compared.of_stages(stages) == dataclasses.replace(compared, stages=stages)
    del stages["comparison"]
    assert compared.of_stages(stages) == dataclasses.replace(begun, stages=stages)
