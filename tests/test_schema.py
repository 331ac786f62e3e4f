"""Files of JSON that are not what they were: each ends in one line that names file and field."""

import dataclasses

import pytest

from t2t_repro import schema
from t2t_repro.errors import UserError


@dataclasses.dataclass(frozen=True)
class Place:
    __pydantic_config__ = {"extra": "forbid"}

    step: int
    names: tuple[str, ...] = ()
    rates: dict[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        if not 0 <= self.step < 2**63:
            raise UserError(f"Expected 0 <= step < 2^63. Received: {self.step}.")


def test_it_returns_the_dataclass(tmp_path):
    (tmp_path / "place.json").write_text('{"step": 7, "names": ["a"], "rates": {"b": 0.5, "c": 2}}')
    place = schema.read(tmp_path / "place.json", Place)
    assert place == Place(7, ("a",), {"b": 0.5, "c": 2.0})


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *(("", "JSON"), ("{", "JSON"), (b"\xff\xfe", "JSON"), ("[" * 100_000, "JSON")),
        *(("null", "object"), ("[]", "object"), ("{}", "step"), ('{"step": 1, "stop": 2}', "stop")),
        *(('{"step": "1"}', "step"), ('{"step": 1.0}', "step"), ('{"step": null}', "step")),
        *(('{"step": -1}', "-1"), ('{"step": 1%s}' % ("0" * 200), "step")),
        *(('{"step": 1, "names": "a"}', "names"), ('{"step": 1, "names": [2]}', "names.0")),
        ('{"step": 1, "rates": {"a": "b"}}', "rates.a"),
        ('{"step": "%s"}' % ("x" * 500), "step"),
    ],
)
def test_what_is_broken_is_named_in_one_line(text, name, tmp_path):
    file = tmp_path / "place.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(schema.Malformed) as error:
        schema.read(file, Place, "Fix it.")
    message = str(error.value)
    assert str(file) in message and name in message
    assert message.endswith(" Fix it.") and "\n" not in message
    assert len(message) < 400 + len(str(file))


def test_other_types():
    assert schema.parse("[1, 2]", list[int], "numbers") == [1, 2]
    assert schema.parse('{"a": NaN}', dict[str, float], "rates")["a"] != 0
    with pytest.raises(schema.Malformed, match="1"):
        schema.parse('[1, "2"]', list[int], "numbers")
