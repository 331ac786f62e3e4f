"""benchmarks/RESULTS.md is what its numbers print."""

import pathlib

import results

PAGE = pathlib.Path(results.__file__).parent / "RESULTS.md"


def test_the_page_is_made_of_the_numbers():
    assert results.page() == PAGE.read_text(encoding="utf-8")
