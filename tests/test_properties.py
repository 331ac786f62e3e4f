"""Random JSON, damaged files and random command lines: each is read, or refused in one line."""

import dataclasses
import importlib
import inspect
import json
import pkgutil

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

import t2t_repro.bin
from t2t_repro import cli, provenance, run_directory, schema, stages
from t2t_repro.corpora import raw_record
from t2t_repro.data import tfrecord
from t2t_repro.decoding import tune
from t2t_repro.errors import UserError
from t2t_repro.fields import flags_of
from t2t_repro.training import state

RECORDS = [
    *(provenance.Provenance, raw_record.Record, run_directory._RunFile),
    *(stages.Record, state.State, state.Ranking, tune.TunedDecoding),
]
LEAF = st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=3)
JSON = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
quickly = hypothesis.settings(max_examples=25, deadline=None, database=None)


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_any_json_is_a_record_or_refused(kind):
    names = st.sampled_from([field.name for field in dataclasses.fields(kind)])

    @quickly
    @given(st.dictionaries(names, JSON) | JSON)
    def check(content):
        try:
            found = schema.parse(json.dumps(content), kind, "FILE")
        except schema.Malformed as error:
            assert "FILE" in str(error) and "\n" not in str(error)
        else:
            assert isinstance(found, kind)

    check()


@quickly
@given(st.lists(st.binary(max_size=9), min_size=1, max_size=4), st.data())
def test_a_damaged_file_of_records_gives_its_beginning_or_is_refused(records, data):
    frames = [tfrecord.frame(record) for record in records]
    file = b"".join(frames)
    at = data.draw(st.integers(0, len(file) - 1))
    damaged = file[:at] + data.draw(st.sampled_from([b"", bytes([file[at] ^ 1]) + file[at + 1 :]]))
    whole = [len(b"".join(frames[:count])) for count in range(len(frames))]
    if len(damaged) == at and at in whole:
        assert tfrecord.split(damaged, "FILE") == records[: whole.index(at)]
    else:
        with pytest.raises(UserError, match="FILE"):
            tfrecord.split(damaged, "FILE")


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(t2t_repro.bin.__path__)])
def test_any_command_line_is_a_request_or_refused(name, capfd):
    console = getattr(importlib.import_module(f"t2t_repro.bin.{name}"), "console", None)
    if not console:
        return  # it is a part of a program
    made = inspect.getclosurevars(console).nonlocals
    requests = made["requests"]
    known = [flag for request in requests for flag in flags_of(request) if flag != "t2t_usr_dir"]
    values = st.text(max_size=5) | st.integers(-9, 9).map(str) | st.sampled_from(["a=1", "1,2"])
    flags = st.builds("--{}={}".format, st.sampled_from(known), values) | st.text(max_size=5)

    def main(args):
        for request in requests:
            if {field.name for field in dataclasses.fields(request)} <= {*args, "given"}:
                cli.request(args, request)

    program = cli.program("", "t2t-it", "", requests, main, positional=made["positional"])

    @quickly
    @given(st.lists(flags, max_size=3))
    def check(argv):
        try:
            program(argv)
        except SystemExit as leave:
            said = capfd.readouterr().err
            assert leave.code in (0, 2) and "Traceback" not in said
            assert leave.code == 0 or said.count("\n") == 1

    check()
