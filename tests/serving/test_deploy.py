"""The files of docs/deploy start the server as it is."""

import configparser
import json
import pathlib
import re
import shlex

from absl import flags

from t2t_repro.bin import server

ROOT = pathlib.Path(__file__).parents[2]
DEPLOY = ROOT / "docs" / "deploy"


def parsed(argv):
    """Returns the flags of a command line of t2t-server."""
    f = flags.FlagValues()
    server.define_flags(f)
    program, *rest = f(argv)
    assert program.rpartition("/")[2] == "t2t-server" and not rest
    return f


def test_the_unit():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read(DEPLOY / "t2t-server.service")
    service = unit["Service"]
    f = parsed(shlex.split(service["ExecStart"]))
    assert f.host == "127.0.0.1" and f.model == ["/srv/t2t-model"]
    assert service["DynamicUser"] == "yes" and service["RestartPreventExitStatus"] == "2"


def test_the_image():
    text = (DEPLOY / "Dockerfile").read_text()
    start, by_default = (
        json.loads(re.search(rf"^{name} (\[.*\])$", text, re.MULTILINE)[1])
        for name in ("ENTRYPOINT", "CMD")
    )
    f = parsed([*start, *by_default])
    (port,) = re.findall(r"^EXPOSE (\d+)$", text, re.MULTILINE)
    assert (f.host, f.model, str(f.port)) == ("0.0.0.0", ["/model"], port)
    assert f"http://127.0.0.1:{port}/healthz" in text
    copied = [
        name for line in re.findall("^COPY (.*) ", text, re.MULTILINE) for name in line.split()
    ]
    assert len(copied) == 9 and all((ROOT / name).exists() for name in copied)
    extras = set(re.search(r"/src\[(.*)\]'", text)[1].split(","))
    assert extras <= set(
        re.findall(r'^        "(\w+)": \w+_REQUIREMENTS', (ROOT / "setup.py").read_text(), re.M)
    )
