"""Whether translations differ by more than chance."""

import pytest

from t2t_repro.scoring.significance import paired

REFERENCES = [f"the cat number {i} sat on the mat" for i in range(20)]
WORSE = [line.replace("sat", "lay") if len(line) > 31 else line for line in REFERENCES]


def test_a_difference_and_none():
    same = paired(REFERENCES, REFERENCES, REFERENCES)
    assert same.baseline.bleu == same.translation.bleu == pytest.approx(100)
    assert same.p_value == 1.0  # it would seem as different by any chance
    worse = paired(REFERENCES, WORSE, REFERENCES)
    assert worse.p_value < 0.05 and worse.translation.bleu < 90 and worse.translation.interval > 0
    assert "bs:1000" in worse.signature and "tok:13a" in worse.signature


def test_text_without_blanks_is_scored_by_its_characters():
    references = ["我们今天去公园散步。", "他在图书馆看书。", "她喜欢喝绿茶和咖啡。"]
    ruined = paired(references, [line[:3] for line in references], references)
    assert ruined.translation.bleu < 50 and "tok:zh" in ruined.signature
