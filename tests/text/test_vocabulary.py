"""Which lines are counted."""

import gzip

import pytest

from t2t_repro.text.vocabulary import count_tokens, sample_lines


def naive_sample(text, budget):
    """tensor2tensor's rule: one line, then `size / budget / 2` left out, until it is spent."""
    step = int(len(text.encode("utf-8")) / budget / 2)
    chosen = []
    for line in [line.strip() for line in text.split("\n")[:-1]][step :: step + 1]:
        if budget <= 0:
            break
        budget -= len(line)
        chosen.append(line)
    return chosen


def test_tokens_are_counted_in_order():
    assert list(count_tokens(["b a, b", "", "c a"]).items()) == [
        ("b", 2),
        ("a", 2),
        (", ", 1),
        ("c", 1),
    ]


@pytest.mark.parametrize("budget", [1, 10, 100, 333, 1000, 5000])
def test_a_budget_spreads_over_the_file(budget, tmp_path):
    text = "".join(f" ä line {i * i} \n" for i in range(100))
    (tmp_path / "plain").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "packed.gz", "wt", encoding="utf-8") as file:
        file.write(text)
    expected = naive_sample(text, budget)
    assert list(sample_lines([tmp_path / "plain"], budget)) == expected
    assert list(sample_lines([tmp_path / "packed.gz", tmp_path / "plain"], budget)) == 2 * expected
