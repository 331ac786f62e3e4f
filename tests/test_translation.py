"""Problems of two languages."""

from t2t_repro.translation import TranslateProblem


def test_a_translation_problem_of_archives(tmp_path):
    class Mine(TranslateProblem):
        name = "mine"

        def source_data_files(self, dataset_split):
            return [["x", (f"{dataset_split}.en", f"{dataset_split}.de")]]

    for split in ("train", "dev", "test"):
        lines = 1 if split == "train" else 2
        (tmp_path / f"{split}.en").write_text(f"{split}\n" * lines)
        (tmp_path / f"{split}.de").write_text("wort\n" * lines)
    problem = Mine()
    samples = list(problem.generate_samples("", str(tmp_path), "train"))
    assert samples == [{"inputs": "train", "targets": "wort"}]
    for split in ("dev", "test"):
        assert list(problem.generate_samples("", str(tmp_path), split))[0]["inputs"] == split
    assert [problem.num_samples(str(tmp_path), split) for split in ("train", "dev")] == [1, 2]
    assert problem.num_texts_for_vocab(str(tmp_path)) is None
    assert (tmp_path / "mine-compiled-dev.lang1").exists()
    assert list(problem.generate_text_for_vocab("", str(tmp_path))) == ["train", "wort"]


def test_samples_of_its_own_are_not_counted_in_files(tmp_path):
    class Mine(TranslateProblem):
        def generate_samples(self, data_dir, tmp_dir, dataset_split):
            yield {"inputs": "a", "targets": "b"}

    assert Mine().num_samples(str(tmp_path), "train") is None


def test_a_problem_without_source_data_files(tmp_path):
    class Encoded(TranslateProblem):
        def generate_encoded_samples(self, data_dir, tmp_dir, dataset_split):
            return iter([{"inputs": [2, 1], "targets": [3, 1]}])

    assert Encoded().missing_files(str(tmp_path)) == []
