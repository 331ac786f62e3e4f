"""Problems of two languages."""

import pytest

from t2t_repro.translation import TranslateProblem


def test_a_translation_problem_of_archives(tmp_path):
    class Mine(TranslateProblem):
        name = "mine"

        def source_data_files(self, dataset_split):
            return [["x", (f"{dataset_split}.en", f"{dataset_split}.de")]]

    for split in ("train", "dev"):
        lines = 1 if split == "train" else 2
        (tmp_path / f"{split}.en").write_text(f"{split}\n" * lines)
        (tmp_path / f"{split}.de").write_text("wort\n" * lines)
    problem = Mine()
    samples = list(problem.generate_samples("", str(tmp_path), "train"))
    assert samples == [{"inputs": "train", "targets": "wort"}]
    assert list(problem.generate_samples("", str(tmp_path), "dev"))[0]["inputs"] == "dev"
    assert [problem.num_samples(str(tmp_path), split) for split in ("train", "dev")] == [1, 2]
    assert problem.num_texts_for_vocab(str(tmp_path)) is None
    assert (tmp_path / "mine-compiled-dev.lang1").exists()
    assert list(problem.generate_text_for_vocab("", str(tmp_path))) == ["train", "wort"]
    with pytest.raises(NotImplementedError, match="must define source_data_files"):
        TranslateProblem().source_data_files("train")
