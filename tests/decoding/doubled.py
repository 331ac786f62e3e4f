"""A problem of text that is small enough to be trained on in a test."""

from t2t_repro.problem import Split, Text2TextProblem, VocabType

WORDS = "ab ba aab bba abab baba aabb bbaa".split()


class Doubled(Text2TextProblem):
    """Sentences and themselves, in bytes."""

    name = "doubled"

    @property
    def vocab_type(self):
        return VocabType.CHARACTER

    @property
    def dataset_splits(self):
        return [{"split": Split.TRAIN, "shards": 1}, {"split": Split.EVAL, "shards": 1}]

    def generate_samples(self, data_dir, tmp_dir, dataset_split):
        for i in range(40 if dataset_split == Split.TRAIN else 7):
            text = " ".join(WORDS[(i * k) % 8] for k in range(1, 5 + i % 3))
            yield {"inputs": text, "targets": text}
