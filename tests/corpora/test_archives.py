"""What is taken out of archives, what is refused, and what stays behind."""

import io
import random
import stat
import tarfile
import zipfile

import pytest

from t2t_repro.corpora import archives
from t2t_repro.errors import UserError

NAMES = ["a.tar", "a.tgz", "a.tar.gz", "a.tar.bz2", "a.tar.xz", "a.zip"]
RANDOM = random.Random(3).randbytes(200_000)  # does not shrink, so that a cut lies in it


def write(path, files, kind=b"0", link=""):
    """Writes an archive of {name: bytes}; the last is of the tar `kind`."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                info = zipfile.ZipInfo(name)
                modes = {b"2": stat.S_IFLNK, b"3": stat.S_IFCHR, b"6": stat.S_IFIFO}
                if kind in modes and name == list(files)[-1]:
                    info.external_attr, content = modes[kind] << 16, link.encode()
                archive.writestr(info, content)
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
    assert archives.is_archive(path) and not archives.is_archive("a.tmx.gz")
    assert archives.extract(path, out, {"dev/one", "three"}.__contains__) == ["dev/one", "three"]
    assert files(out) == ["dev/one", "three"]
    assert (out / "three").read_bytes() == RANDOM and (out / "dev/one").read_bytes() == b"1"


@pytest.mark.parametrize("evil", ["../evil", "/tmp/evil", "a/../../evil", "..\\evil", "C:\\evil"])
@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_a_name_outside_the_folder_is_refused(tmp_path, out, name, evil):
    path = write(tmp_path / name, {"good": b"1", evil: b"2"})
    with pytest.raises(UserError, match=f"{name} to hold files for its own folder.*a place outsi"):
        archives.extract(path, out, lambda name: True)
    assert files(tmp_path) == [name]


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
@pytest.mark.parametrize("target", ["/etc/passwd", "../../x"])
def test_a_link_that_leads_outside_is_refused(tmp_path, out, name, target):
    path = write(tmp_path / name, {"good": b"1", "dir/link": b""}, b"2", target)
    with pytest.raises(UserError):
        archives.extract(path, out, {"good"}.__contains__)
    assert files(out) == []


@pytest.mark.parametrize("name", ["a.tgz", "a.zip"])
def test_a_link_inside_is_passed_over_unless_it_is_wanted(tmp_path, out, name):
    path = write(tmp_path / name, {"dir/good": b"1", "dir/link": b""}, b"2", "../dir/good")
    assert archives.extract(path, out, {"dir/good"}.__contains__) == ["dir/good"]
    with pytest.raises(UserError):
        archives.extract(path, out, {"dir/link"}.__contains__)


@pytest.mark.parametrize(
    ("name", "kind"), [("a.tgz", b"3"), ("a.tgz", b"6"), ("a.zip", b"3"), ("a.zip", b"6")]
)
def test_a_device_is_refused(tmp_path, out, name, kind):
    path = write(tmp_path / name, {"good": b"1", "device": b""}, kind)
    with pytest.raises(UserError, match="device"):
        archives.extract(path, out, {"good"}.__contains__)
    assert files(out) == []


def test_a_hard_link_that_leads_outside_is_refused(tmp_path, out):
    path = write(tmp_path / "a.tar", {"good": b"1", "link": b""}, b"1", "../secret")
    with pytest.raises(UserError):
        archives.extract(path, out, lambda name: True)
    assert files(out) == []


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
    with pytest.raises(UserError, match=f"{name} to be a whole archive.*Delete it and try again"):
        archives.extract(path, out, lambda name: True)
    assert files(out) == []


def test_a_full_disk_is_no_broken_archive(tmp_path, out, monkeypatch):
    path = write(tmp_path / "a.tgz", {"first": b"whole"})

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError):
        archives.extract(path, out, lambda name: True)
    assert files(out) == []
