from t2t_repro.corpora import bad_pairs
from t2t_repro.corpora.bad_pairs import BadPair


def test_what_is_written_is_read_by_split(tmp_path):
    path = bad_pairs.path_of(tmp_path, "toy")
    assert path.name == "datagen.toy.bad_pairs.tsv"
    assert bad_pairs.read(path, "train") == set()
    pairs = [
        BadPair("train", 3, ["empty", "copy"], "a\tb\n", ""),
        BadPair("dev", 12, ["x"], "", ""),
    ]
    bad_pairs.write(path, [*pairs, BadPair("train", 40, ["y"], "train\t41", "\r")])
    assert bad_pairs.read(path, "train") == {3, 40}
    assert bad_pairs.read(path, "dev") == {12} and bad_pairs.read(path, "test") == set()
    assert path.read_text().splitlines()[1] == "train\t3\tempty,copy\ta b\t"
