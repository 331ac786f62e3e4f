"""What is taken out of archives, what is refused, and what stays behind; which files are there."""

import io
import random
import tarfile
import zipfile

import pytest

from t2t_repro.corpora import sources
from t2t_repro.corpora.sources import RawFile
from t2t_repro.errors import UserError

NAMES = ["a.tar", "a.tgz", "a.tar.bz2", "a.tar.xz", "a.zip"]
RANDOM = random.Random(3).randbytes(200_000)  # does not shrink, so that a cut lies in it


def write(path, files, kind=b"0", link=""):
    """Writes an archive of {name: bytes}; the last is of the tar `kind`."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(name, content)
        return path
    packed = {".tar": "", ".tgz": "gz"}.get(path.suffix, path.suffix[1:])
    with tarfile.open(path, f"w:{packed}") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            if kind != b"0" and name == list(files)[-1]:
                info.type, info.linkname, content = kind, link, b""
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("name", NAMES)
def test_only_the_wanted_files_are_written(tmp_path, out, name):
    path = write(tmp_path / name, {"./dev/one": b"1", "dev/two": b"22", "three": RANDOM})
    sources.extract(path, out, {"dev/one", "three"}.__contains__)
    assert files(out) == ["dev/one", "three"]
    assert (out / "three").read_bytes() == RANDOM and (out / "dev/one").read_bytes() == b"1"


@pytest.mark.parametrize("evil", ["../evil", "/tmp/t2t_evil", "a/../../evil"])
@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_nothing_is_written_outside_the_folder(tmp_path, out, name, evil):
    path = write(tmp_path / name, {"good": b"1", evil: b"2"})
    if name == "a.zip" or evil.startswith("/"):  # the name loses what leads outside
        sources.extract(path, out, lambda name: True)
    else:
        with pytest.raises(UserError, match=name):
            sources.extract(path, out, lambda name: True)
        assert files(out) == []
    assert all(each == name or each.startswith("out/") for each in files(tmp_path))


@pytest.mark.parametrize("kind", [b"1", b"2", b"3", b"6"])  # links, a device, a pipe
def test_what_is_no_file_is_passed_over(tmp_path, out, kind):
    path = write(tmp_path / "a.tgz", {"good": b"1", "other": b""}, kind, "../../secret")
    sources.extract(path, out, lambda name: True)
    assert files(out) == ["good"]


@pytest.mark.parametrize("damage", ["cut", "flipped", "no archive", "empty"])
@pytest.mark.parametrize("name", NAMES)
def test_a_broken_archive_leaves_nothing(tmp_path, out, name, damage):
    path = write(tmp_path / name, {"first": b"whole", "second": RANDOM})
    content = bytearray(path.read_bytes())
    if damage == "cut":
        content = content[: len(content) * 2 // 3]
    elif damage == "flipped" and name != "a.tar":  # which has no checksum of its contents
        content[len(content) // 2] ^= 255
    else:
        content = b"" if damage == "empty" else b"<html>" * 100
    path.write_bytes(content)
    with pytest.raises(UserError, match=name):
        sources.extract(path, out, lambda name: True)
    assert list(out.iterdir()) == []


URL = "http://host.example/a.tgz"
PAIR = ("x/a.en", "x/a.de")


@pytest.mark.parametrize(
    "url, names, there, missing",
    [
        (URL, PAIR, [], [RawFile("a.tgz", URL)]),
        (URL, PAIR, ["x/a.en"], [RawFile("a.tgz", URL)]),
        (URL, PAIR, ["x/a.en", "x/a.de.gz"], []),
        (URL, PAIR, ["a.tgz"], []),
        ("a.tgz", PAIR, [], [RawFile("a.tgz")]),
        ("", PAIR, [], [RawFile("x/a.en, x/a.de")]),
        (URL, ("tsv", 0, 1, "y/*.tsv"), ["y/b.tsv"], []),
        (URL, ("tmx", "y/b.tmx"), ["y/b.tmx"], []),
    ],
)
def test_archives(tmp_path, url, names, there, missing):
    for name in there:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert sources.missing_archives(str(tmp_path), [[url, names]]) == missing
