"""Files of JSON that are not what they were: each ends in one line that names file and field."""

import dataclasses

import pytest

from t2t_repro import schema


@dataclasses.dataclass(frozen=True)
class Place:
    __pydantic_config__ = {"extra": "forbid"}

    step: int
    names: tuple[str, ...] = ()
    rates: dict[str, float] = dataclasses.field(default_factory=dict)


def test_it_returns_the_dataclass(tmp_path):
    (tmp_path / "place.json").write_text('{"step": 7, "names": ["a"], "rates": {"b": 0.5, "c": 2}}')
    assert schema.read(tmp_path / "place.json", Place) == Place(7, ("a",), {"b": 0.5, "c": 2.0})
    assert schema.parse("[1, 2]", list[int], "numbers") == [1, 2]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *((b"", "JSON"), (b"{", "JSON"), (b"\xff\xfe", "JSON"), (b"null", "object")),
        *((b"{}", "step"), (b'{"step": 1, "stop": 2}', "stop"), (b'{"step": "1"}', "step")),
        *((b'{"step": 1.0}', "step"), (b'{"step": 1, "names": [2]}', "names.0")),
        (b'{"step": 1, "rates": {"a": "b"}}', "rates.a"),
    ],
)
def test_what_is_broken_is_named_in_one_line(text, name, tmp_path):
    file = tmp_path / "place.json"
    file.write_bytes(text)
    with pytest.raises(schema.Malformed) as error:
        schema.read(file, Place, "Fix it.")
    message = str(error.value)
    assert str(file) in message and name in message and "\n" not in message
