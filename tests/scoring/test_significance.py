"""Whether translations differ by more than chance."""

import pytest

from t2t_repro.scoring.significance import paired_bootstrap

REFERENCES = [f"the cat number {i} sat on the mat" for i in range(20)]
WORSE = [line.replace("sat", "lay") if len(line) > 31 else line for line in REFERENCES]


def test_each_is_tested_against_the_first():
    (first, same, worse), signature = paired_bootstrap([REFERENCES, REFERENCES, WORSE], REFERENCES)
    assert first.p_value is None and first.score == same.score == pytest.approx(100)
    assert same.p_value == 1.0  # it would seem as different by any chance
    assert worse.p_value < 0.05 and worse.score < 90 and worse.interval > 0
    assert "bs:1000" in signature and "tok:13a" in signature


def test_text_without_blanks_is_scored_by_its_characters():
    references = ["我们今天去公园散步。", "他在图书馆看书。", "她喜欢喝绿茶和咖啡。"]
    (_, ruined), signature = paired_bootstrap(
        [references, [line[:3] for line in references]], references
    )
    assert ruined.score < 50 and "tok:zh" in signature
