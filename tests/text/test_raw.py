import gzip
import time

import pytest

from t2t_repro.errors import UserError
from t2t_repro.text import raw


def write(path, content: bytes):
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_lines_end_at_newlines_alone(tmp_path, name):
    path = write(tmp_path / name, "\ufeffa\u2028b\x85\r\n\n c \nlast".encode())
    assert list(raw.lines(path)) == ["a\u2028b\x85", "", " c ", "last"]
    assert list(raw.lines(write(tmp_path / name, b"\n"))) == [""]
    assert list(raw.lines(str(write(tmp_path / name, b"")))) == []


WHOLE = gzip.compress(b"one two three\n" * 1000, mtime=0)  # it is in the names of tests


@pytest.mark.parametrize(
    "name, content",
    [
        ("none", b""),
        ("blank", b"\n \r\n\n"),
        ("a.gz", WHOLE[:-20]),
        ("a.gz", b"no gzip at all"),
        ("b", "Grüße\n".encode("UTF-16")),
        ("b", "naïve".encode("latin-1")),
        ("b", "A dog.\n".encode("UTF-16LE")),
        ("b", b'\xef\xbb\xbf<?xml version="1.0"?>\n<tmx>\n'),
        ("b", b'<refset setid="x">\n<seg id="1">A dog.</seg>\n'),
    ],
)
def test_what_is_no_text_is_named(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=name):
        list(raw.stripped_lines(path))


def test_a_byte_that_is_no_text_is_named_by_line_and_column(tmp_path):
    with pytest.raises(UserError, match=r" 2, .* 3\."):
        list(raw.lines(write(tmp_path / "a", b"x\nab\xff")))


def test_find_prefers_the_plain_file(tmp_path):
    assert raw.find(tmp_path, "a.en") is None
    with pytest.raises(UserError, match="en.gz"):
        raw.required(tmp_path, "a.en")
    write(tmp_path / "a.en.gz", b"packed\n")
    assert raw.required(tmp_path, "a.en").name == "a.en.gz"
    write(tmp_path / "a.en", b"plain\n")
    assert raw.required(tmp_path, "a.en").name == "a.en"


def test_parallel_lines_keep_empty_ones(tmp_path):
    a = write(tmp_path / "a", b"one\n\nthree\n")
    b = write(tmp_path / "b", b"eins\nzwei\n\n")
    pairs = [(pair["inputs"], pair["targets"]) for pair in raw.parallel_lines(a, b)]
    assert pairs == [("one", "eins"), ("", "zwei"), ("three", "")]
    assert raw.count_parallel_lines(a, b) == 3


@pytest.mark.parametrize("extra", [1, 4])
def test_unequal_line_counts_name_the_first_line_alone(tmp_path, extra):
    long = write(tmp_path / "long", b"x\ny\n" + b"alone\n" * extra)
    short = write(tmp_path / "short", b"x\ny\n")
    for pair in ((short, long), (long, short)):
        with pytest.raises(UserError, match=f" {2 + extra} .*long, 2 .*'alone'"):
            list(raw.parallel_lines(*pair))


def test_a_blank_file_is_accepted_where_a_model_may_have_written_it(tmp_path):
    paths = [write(tmp_path / name, b"\n \n") for name in "ab"]
    pairs = list(raw.parallel_lines(*paths, may_be_blank=True, strip=False))
    assert pairs == [{"inputs": text, "targets": text} for text in ("", " ")]
    with pytest.raises(UserError):
        list(raw.parallel_lines(*paths))


def test_lines_are_joined_in_time_that_is_linear():
    assert raw.joined(" a \r\n\n b\u2028 \n\t\nc ") == "a b c"
    begun = time.process_time()
    assert raw.joined("a" + " " * 200_000 + "b\nc") == "a" + " " * 200_000 + "b c"
    assert time.process_time() - begun < 1  # by a search that goes back it takes minutes


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


@pytest.mark.parametrize("budget", [1, 10, 100, 333, 1000, 5000])
def test_a_budget_spreads_over_the_file(budget, tmp_path):
    text = "".join(f" ä line {i * i} \n" for i in range(100))
    plain, packed = (write(tmp_path / name, text.encode()) for name in ("plain", "packed.gz"))
    assert list(raw.sample_lines([packed, plain], budget)) == 2 * naive_sample(text, budget)
