"""WMT14's archives as they are, under their names, but small."""

import collections
import gzip
import io
import tarfile

from t2t_repro.problem import Split

CORPORA = {  # per language and split: the archives' names and their files, English last
    "de": {
        Split.TRAIN: [
            (
                "training-parallel-europarl-v7.tgz",
                ["training/europarl-v7.de-en.de", "training/europarl-v7.de-en.en"],
            ),
            (
                "training-parallel-commoncrawl.tgz",
                ["commoncrawl.de-en.de", "commoncrawl.de-en.en"],
            ),
            (
                "training-parallel-nc-v9.tgz",
                ["training/news-commentary-v9.de-en.de", "training/news-commentary-v9.de-en.en"],
            ),
        ],
        Split.EVAL: [("dev.tgz", ["dev/newstest2013.de", "dev/newstest2013.en"])],
        Split.TEST: [
            (
                "dev.tgz",
                ["dev/newstest2014-deen-src.de.sgm", "dev/newstest2014-deen-ref.en.sgm"],
            )
        ],
    },
    "fr": {
        Split.TRAIN: [
            (
                "training-parallel-europarl-v7.tgz",
                ["training/europarl-v7.fr-en.fr", "training/europarl-v7.fr-en.en"],
            ),
            (
                "training-parallel-commoncrawl.tgz",
                ["commoncrawl.fr-en.fr", "commoncrawl.fr-en.en"],
            ),
            ("training-parallel-un.tgz", ["un/undoc.2000.fr-en.fr", "un/undoc.2000.fr-en.en"]),
            (
                "training-parallel-nc-v9.tgz",
                ["training/news-commentary-v9.fr-en.fr", "training/news-commentary-v9.fr-en.en"],
            ),
            (
                "training-giga-fren.tar",
                ["giga-fren.release2.fixed.fr.gz", "giga-fren.release2.fixed.en.gz"],
            ),
        ],
        Split.EVAL: [("dev.tgz", ["dev/newstest2013.fr", "dev/newstest2013.en"])],
        Split.TEST: [
            (
                "dev.tgz",
                ["dev/newstest2014-fren-src.fr.sgm", "dev/newstest2014-fren-ref.en.sgm"],
            )
        ],
    },
}


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
    text = "".join(line + "\n" for line in made).encode()
    return gzip.compress(text) if file.endswith(".gz") else text


def write(folder, times=1):
    """Writes the archives into a folder; `times` as many lines of each file."""
    archives = collections.defaultdict(dict)
    for splits in CORPORA.values():
        for split, corpora in splits.items():
            for archive, files in corpora:
                more = times if split == Split.TRAIN else 1
                archives[archive] |= {file: content(file, more) for file in files}
    for name, files in archives.items():
        with tarfile.open(folder / name, "w:gz" if name.endswith("gz") else "w") as archive:
            for file, data in files.items():
                info = tarfile.TarInfo(file)
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
