"""Which hparam set suits a text."""

import pytest

from t2t_repro import registry
from t2t_repro.data import preset


@pytest.mark.parametrize(
    "pairs, gpu, subwords, chosen",
    [
        (10_000, True, True, "regularized"),
        (10_000, False, False, "small"),
        (10_001, False, True, "small"),
        (100_000, True, True, "small"),
        (100_001, False, True, "medium"),
        (1_000_000, True, False, "medium"),
        (1_000_001, False, True, "medium"),
        (1_000_001, True, True, "large"),
    ],
)
def test_pairs_device_and_vocabulary_decide(pairs, gpu, subwords, chosen):
    found = preset.preset(pairs, gpu, subwords)
    assert found.hparams_set == f"transformer_own_text_{chosen}"
    assert registry.get_hparams(found.hparams_set).train_steps >= 10_000
    assert f"{pairs:,} training pairs on a {'GPU' if gpu else 'CPU'}" in found.reason


@pytest.mark.parametrize(
    "files, cut",
    [
        ([], True),  # the problem's own will be subwords
        (["vocab.text2text_tmpdir.model"], False),
        (["vocab.text2text_tmpdir.inputs.model", "vocab.text2text_tmpdir.targets.model"], False),
        (["vocab.text2text_tmpdir.inputs.model", "vocab.text2text_tmpdir.targets.subwords"], True),
    ],
)
def test_words_are_cut_where_a_side_has_subwords(files, cut, tmp_path):
    for name in files:
        (tmp_path / name).touch()
    for name in ("text2text_tmpdir", "text2text_tmpdir_rev"):
        assert preset.has_subwords(registry.get_problem(name), tmp_path) == cut
    assert not preset.has_subwords(registry.get_problem("text2text_tmpdir_tokens"), tmp_path)


def test_a_packed_text_is_not_cut(tmp_path):
    problem = registry.get_problem("text2text_tmpdir")
    kind = type(problem)
    packed = type("Packed", (kind,), {"packed_length": 8, "name": kind.name})()
    assert preset.has_subwords(problem, tmp_path) and not preset.has_subwords(packed, tmp_path)
