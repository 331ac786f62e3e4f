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
    ("text", "complaint"),
    [
        ("", "Expected JSON in FILE. Received: EOF while parsing"),
        ("{", "Expected JSON in FILE. Received: EOF while parsing"),
        (b"\xff\xfe", "Expected JSON in FILE. Received: expected value at line 1"),
        (b'{"step": 1, "names": ["\xff"]}', "Expected JSON in FILE. Received: invalid unicode"),
        ('{"step": 1, "names": ["\\ud800"]}', "Expected JSON in FILE. Received: "),
        ("[" * 100_000, "Expected JSON in FILE. Received: recursion limit exceeded"),
        ("null", "Expected FILE to be an object. Received: None."),
        ("[]", "Expected FILE to be an object. Received: []."),
        ("5", "Expected FILE to be an object. Received: 5."),
        ("{}", "Expected step in FILE. Received: none."),
        ('{"step": 1, "stop": 2}', "Expected stop in FILE not to be there."),
        ('{"step": "1"}', "Expected step in FILE to be a valid integer. Received: '1'."),
        ('{"step": 1.0}', "Expected step in FILE to be a valid integer. Received: 1.0."),
        ('{"step": true}', "Expected step in FILE to be a valid integer. Received: True."),
        ('{"step": null}', "Expected step in FILE to be a valid integer. Received: None."),
        ('{"step": -1}', "Expected 0 <= step < 2^63. Received: -1. (in FILE)"),
        ('{"step": 1%s}' % ("0" * 200), "Expected 0 <= step < 2^63. Received: 100"),
        ('{"step": 1, "names": "a"}', "Expected names in FILE to be a valid array. Received: 'a'."),
        ('{"step": 1, "names": [2]}', "Expected names.0 in FILE to be a valid string. Received: 2"),
        ('{"step": 1, "rates": [1]}', "Expected rates in FILE to be an object. Received: [1]."),
        ('{"step": 1, "rates": {"a": "b"}}', "Expected rates.a in FILE to be a valid number."),
        ('{"step": "%s"}' % ("x" * 500), "..."),
    ],
)
def test_what_is_broken_is_named(text, complaint, tmp_path):
    file = tmp_path / "place.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(schema.Malformed) as error:
        schema.read(file, Place, "Mend it.")
    message = str(error.value)
    assert complaint.replace("FILE", str(file)) in message
    assert message.endswith(" Mend it.") and "\n" not in message
    assert len(message) < 400 + len(str(file))


def test_other_types():
    assert schema.parse("[1, 2]", list[int], "numbers") == [1, 2]
    assert schema.parse('{"a": NaN}', dict[str, float], "rates")["a"] != 0
    with pytest.raises(schema.Malformed, match="1"):
        schema.parse('[1, "2"]', list[int], "numbers")


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        schema.read(tmp_path / "none.json", Place)
