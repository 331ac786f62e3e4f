"""WMT14's archives as they are, under their names, but small."""

import collections
import gzip
import io
import tarfile

from t2t_repro.problem import Split

NEWS = ("training-parallel-nc-v9.tgz", "training/news-commentary-v9.{0}-en.{1}")
FIRST = (
    ("training-parallel-europarl-v7.tgz", "training/europarl-v7.{0}-en.{1}"),
    ("training-parallel-commoncrawl.tgz", "commoncrawl.{0}-en.{1}"),
)
UN = ("training-parallel-un.tgz", "un/undoc.2000.{0}-en.{1}")
GIGA = ("training-giga-fren.tar", "giga-fren.release2.fixed.{1}.gz")


def corpora_of(language, *training):
    """Returns {split: [(archive, [file of the language, English one])]}."""
    sides = language, "en"
    ends = f"src.{language}.sgm", "ref.en.sgm"
    return {
        Split.TRAIN: [(name, [of.format(language, s) for s in sides]) for name, of in training],
        Split.EVAL: [("dev.tgz", [f"dev/newstest2013.{side}" for side in sides])],
        Split.TEST: [("dev.tgz", [f"dev/newstest2014-{language}en-{end}" for end in ends])],
    }


CORPORA = {"de": corpora_of("de", *FIRST, NEWS), "fr": corpora_of("fr", *FIRST, UN, NEWS, GIGA)}


def lines(file, times=1):
    """A file's lines; the second pair has an empty side."""
    language = file.removesuffix(".gz").removesuffix(".sgm")[-2:]
    stem = file.removesuffix(".gz").removesuffix(".sgm")[:12]
    made = [f"{stem} {number} ({language}) é" for number in range(times * (4 + len(file) // 9))]
    if language == "en":
        made[1] = ""
    return made


def content(file, times=1):
    made = lines(file, times)
    if file.endswith(".sgm"):
        kind = "ref" if "ref" in file else "src"
        made = [f'<seg id="{number + 1}">{line}</seg>' for number, line in enumerate(made)]
        made = [f'<{kind}set setid="x">', "<doc>", "<p>", *made, "</p>", "</doc>", f"</{kind}set>"]
    return "".join(line + "\n" for line in made)


def write_archive(path, files):
    """Writes an archive of {name: text}, packed where the name says so."""
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for file, text in files.items():
            data = gzip.compress(text.encode()) if file.endswith(".gz") else text.encode()
            info = tarfile.TarInfo(file)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def write(folder, times=1):
    """Writes the archives into a folder; `times` as many lines of each file."""
    archives = collections.defaultdict(dict)
    for splits in CORPORA.values():
        for split, corpora in splits.items():
            for archive, files in corpora:
                more = times if split == Split.TRAIN else 1
                archives[archive] |= {file: content(file, more) for file in files}
    for name, files in archives.items():
        write_archive(folder / name, files)
