"""Put faults of known kinds into a clean corpus, and count which of them the checks find.

    python benchmarks/corpus_faults.py --source=train.en --target=train.de \
        --dev_source=val.en --dev_target=val.de [--rates=0.01,0.1] [--mix=0.22]

takes each kind alone at each rate, then ten kinds at once that make up the share --mix. Recall is
the share of the lines with a fault that its check finds; precision the share of the lines that the
check finds which have the fault. What is wrong with the corpus itself is taken out first, by rules
as simple as may be.
"""

import argparse
import pathlib
import random
import re
from collections.abc import Callable

import numpy as np

from t2t_repro.corpora.checks.examine import Report, examine
from t2t_repro.text import raw

FOREIGN = """
Le train pour la montagne part tous les matins à sept heures et demie.
Les enfants jouent dans la cour pendant que leur grand-mère prépare le repas.
Je ne crois pas que cette solution soit meilleure que la précédente.
Il faudra attendre encore quelques semaines avant de connaître les résultats.
Une femme en robe rouge traverse la rue avec son chien.
El hombre que vive al lado trabaja desde hace años en el mercado.
Nadie sabía por qué la puerta se había quedado abierta toda la noche.
Dos niños corren por la playa detrás de una pelota amarilla.
La reunión se aplazó porque faltaban los documentos más importantes.
Me gustaría saber cuánto cuesta el billete de ida y vuelta.
La ragazza con i capelli lunghi legge un libro sotto un albero.
Non abbiamo ancora deciso dove passare le vacanze quest'anno.
Gli operai stanno riparando il tetto della vecchia chiesa.
Mi sembra che il tempo stia cambiando più in fretta del previsto.
O cachorro atravessa o rio a nado para buscar o pedaço de madeira.
Não há razão para acreditar que os preços vão descer este ano.
As crianças estão sentadas no chão e ouvem a professora com atenção.
Dziewczynka w niebieskiej sukience karmi gołębie na rynku.
Nie wiadomo jeszcze, kiedy zostanie otwarta nowa droga do miasta.
Mężczyzna stoi na drabinie i maluje ścianę na biało.
Flickan cyklar till skolan varje morgon trots att det regnar.
Vi måste först ta reda på vad som egentligen hände i går kväll.
Kaksi miestä istuu laiturilla ja onkii auringonlaskun aikaan.
En tiedä, miksi hän päätti lähteä niin aikaisin kotiin.
A kislány a kertben virágot szed az édesanyjának.
Még nem döntöttük el, hogy melyik ajánlatot fogadjuk el.
Мужчина в чёрной куртке ждёт автобус на остановке.
Мы до сих пор не знаем, кто прислал это письмо.
Дети строят из песка большой замок на берегу моря.
Ο άντρας με το καπέλο διαβάζει εφημερίδα στο καφενείο.
İki kadın pazarda taze sebze ve meyve satıyor.
Bu konuda henüz kesin bir karar verilmediğini söylediler.
一个穿红衣服的女孩在公园里放风筝。
我们还不知道会议什么时候开始。
男の人が駅の前で友達を待っています。
""".strip().split("\n")

Lines = list[list[str]]  # [source, target] of each pair
KINDS = (
    *("empty", "copy", "duplicate", "leakage", "markup", "control", "mojibake", "swapped", "slip"),
    *("language", "truncated"),
)
CHECKS_OF = {  # which checks find a kind, where it is not the one of its name
    "control": ["invisible"],
    "mojibake": ["encoding"],
    "slip": ["slipped"],
    "language": ["wrong_language", "wrong_script"],
    "truncated": ["length_ratio"],
}
# A check may also be right about what another kind does, when kinds are mixed.
ALSO = {"duplicate": {"leakage"}}
MIX = [kind for kind in KINDS if kind != "truncated"]


def put_empty(pairs: Lines, i: int, rng: random.Random) -> None:
    pairs[i][rng.randrange(2)] = ""


def put_copy(pairs: Lines, i: int, rng: random.Random) -> None:
    pairs[i][1] = pairs[i][0]


def put_duplicate(pairs: Lines, i: int, rng: random.Random, free: list[int]) -> int:
    other = free.pop(rng.randrange(len(free)))
    first, again = sorted((i, other))
    pairs[again] = list(pairs[first])
    return again


def put_markup(pairs: Lines, i: int, rng: random.Random) -> None:
    side = rng.randrange(2)
    words = pairs[i][side].split()
    at = rng.randrange(len(words))
    form = [
        "<b>{}</b>",
        '<a href="x.html">{}</a>',
        "{}<br/>",
        "{}&nbsp;",
        "{} &#8212;",
        "&lsquo;{}",
    ]
    words[at] = rng.choice(form).format(words[at])
    pairs[i][side] = " ".join(words)


def put_control(pairs: Lines, i: int, rng: random.Random) -> None:
    side = rng.randrange(2)
    text = pairs[i][side]
    at = rng.randrange(1, max(2, len(text)))
    # Not NUL: a file with one is refused as it is read.
    character = rng.choice("\x07\x0b\x1b\x7f\u200b\ufeff\u2028\u2060\xad\u202e\t")
    pairs[i][side] = text[:at] + character + text[at:] if at < len(text) else character + text


def put_mojibake(pairs: Lines, i: int, rng: random.Random) -> None:
    sides = [side for side in (0, 1) if not pairs[i][side].isascii()]
    side = rng.choice(sides)
    text = pairs[i][side]
    form = rng.randrange(3)
    if form == 0:
        pairs[i][side] = text.encode().decode("latin-1")
    elif form == 1:
        pairs[i][side] = text.encode().decode("cp1252", errors="replace")
    else:
        pairs[i][side] = text.encode("latin-1", "replace").decode("utf-8", errors="replace")


def put_swapped(pairs: Lines, i: int, rng: random.Random) -> None:
    pairs[i].reverse()


def put_language(pairs: Lines, i: int, rng: random.Random) -> None:
    pairs[i][rng.randrange(2)] = rng.choice(FOREIGN)


def put_truncated(pairs: Lines, i: int, rng: random.Random) -> None:
    side = rng.randrange(2)
    words = pairs[i][side].split()
    pairs[i][side] = " ".join(words[: max(1, round(len(words) * rng.uniform(0.1, 0.5)))])


PUT: dict[str, Callable] = {
    "empty": put_empty,
    "copy": put_copy,
    "markup": put_markup,
    "control": put_control,
    "mojibake": put_mojibake,
    "swapped": put_swapped,
    "language": put_language,
    "truncated": put_truncated,
}


def inject(clean: Lines, dev: Lines, rates: dict[str, float], seed: int) -> tuple[Lines, dict]:
    """Returns the pairs with faults, and {line from 0: kind}; no line has two.

    A slip takes a stretch of 8 to 60 lines, whose targets move on by one, the last to the first.
    """
    rng, pairs, truth = random.Random(seed), [list(pair) for pair in clean], {}
    wanted = {kind: round(rate * len(pairs)) for kind, rate in rates.items()}
    free = set(range(len(pairs)))
    while wanted.get("slip", 0) > 7:
        size = min(wanted["slip"], rng.randint(8, 60))
        start = rng.randrange(len(pairs) - size)
        stretch = range(start, start + size)
        if all(i in free for i in range(max(0, start - 1), min(len(pairs), start + size + 1))):
            targets = [pairs[i][1] for i in stretch]
            for i, target in zip(stretch, targets[-1:] + targets[:-1], strict=True):
                pairs[i][1] = target
                truth[i] = "slip"
            free.difference_update(stretch)
            wanted["slip"] -= size
    order = sorted(free)
    rng.shuffle(order)
    for kind, count in wanted.items():
        if kind == "slip":
            continue
        able = [i for i in order if _can(kind, pairs[i])]
        chosen = able[:count]
        order = [i for i in order if i not in set(chosen)] if kind != "duplicate" else order
        if kind == "leakage":
            for i in chosen:
                pairs[i] = list(dev[i % len(dev)])
                truth[i] = kind
        elif kind == "duplicate":
            for _ in range(min(count, len(order) // 2)):
                truth[put_duplicate(pairs, order.pop(), rng, order)] = kind
        else:
            for i in chosen:
                PUT[kind](pairs, i, rng)
                truth[i] = kind
    return pairs, truth


def _can(kind: str, pair: list[str]) -> bool:
    if kind == "mojibake":
        return not all(map(str.isascii, pair))
    if kind == "copy":
        return len(pair[0].split()) > 3
    return kind != "truncated" or min(len(side.split()) for side in pair) > 4


def taken_clean(pairs: Lines, dev: Lines) -> Lines:
    """Returns the pairs without those that have a fault already, and the exact copies of others.

    Where many have the entities of Moses' tokenizer, these are how the corpus is written.
    """
    entity = re.compile(r"&#?\w+;")
    if sum(entity.search(source) is not None for source, _ in pairs) > 0.01 * len(pairs):
        entity = re.compile(r"&(?!apos;|quot;|amp;|lt;|gt;|#9[13];|#124;)#?\w+;")
    seen = {tuple(map(str.lower, pair)) for pair in dev}
    kept = []
    for source, target in pairs:
        key = source.lower(), target.lower()
        text = source + target
        odd = not text.isprintable() or "\ufffd" in text or "\xad" in text or "<" in text
        odd |= entity.search(text) is not None
        if source and target and key[0] != key[1] and key not in seen and not odd:
            kept.append([source, target])
        seen.add(key)
    return kept


def checked(pairs: Lines, dev: Lines) -> Report:
    return examine({"train": lambda: map(tuple, pairs), "dev": lambda: map(tuple, dev)})


def found_by(report: Report, name: str) -> np.ndarray:
    numbers = [i for i, each in enumerate(report.findings) if each.check.name == name]
    return (report.marks["train"] >> np.uint32(numbers[0])) & 1 == 1


def measure(report: Report, truth: dict, kinds: list[str], base: int) -> list[dict]:
    """Returns a row for each kind."""
    rows = []
    for kind in kinds:
        lines = np.zeros(base, bool)
        lines[[i for i, of in truth.items() if of == kind]] = True
        found, right = np.zeros(base, bool), lines.copy()
        for name in CHECKS_OF.get(kind, [kind]):
            found |= found_by(report, name)
            for also in ALSO.get(name, ()):
                right[[i for i, of in truth.items() if of == also]] = True
        hits = int((found & lines).sum())
        rows.append(
            {
                "kind": kind,
                "injected": int(lines.sum()),
                "found": int(found.sum()),
                "recall": round(hits / max(1, lines.sum()), 4),
                "precision": round(int((found & right).sum()) / max(1, found.sum()), 4),
            }
        )
    return rows


def left_out(report: Report, lines: int) -> np.ndarray:
    bad = np.zeros(lines, bool)
    bad[[line - 1 for line, _ in report.bad_pairs("train")]] = True
    return bad


def show(title: str, rows: list[dict]) -> None:
    print(title)
    for row in rows:
        print("  " + "  ".join(f"{k} {v:>7}" if k != "kind" else f"{v:10}" for k, v in row.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("source", "target"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
        parser.add_argument(f"--dev_{name}", type=pathlib.Path)
    parser.add_argument("--rates", default="0.01,0.1")
    parser.add_argument("--mix", type=float, default=0.22)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    def read(source: pathlib.Path, target: pathlib.Path) -> Lines:
        return [[s["inputs"], s["targets"]] for s in raw.parallel_lines(source, target)]

    every = read(args.source, args.target)
    # Without a dev split, the last of 20 pairs are one.
    dev = read(args.dev_source, args.dev_target) if args.dev_source else every[19::20]
    train = every if args.dev_source else [p for i, p in enumerate(every) if i % 20 != 19]
    clean = taken_clean(train, dev)
    mixed = {kind: args.mix / len(MIX) for kind in MIX}
    for name, pairs in (("as it is", train), ("clean", clean)):
        report = checked(pairs, dev)
        found = {each.check.name: each.counts["train"] for each in report.findings if each.count}
        print(name, {"pairs": len(pairs), "left out": report.num_bad_pairs(), **found})
    for rate in map(float, filter(None, args.rates.split(","))):
        rows = []
        for kind in KINDS:
            pairs, truth = inject(clean, dev, {kind: rate}, args.seed)
            rows += measure(checked(pairs, dev), truth, [kind], len(pairs))
        show(f"each kind alone, {rate:.0%} of the lines", rows)
    pairs, truth = inject(clean, dev, mixed, args.seed)
    report = checked(pairs, dev)
    rows = measure(report, truth, MIX, len(pairs))
    show(f"ten kinds, {args.mix:.0%} of the lines in all", rows)
    bad, wrong = left_out(report, len(pairs)), np.zeros(len(pairs), bool)
    wrong[list(truth)] = True
    recall, precision = (bad & wrong).sum() / wrong.sum(), (bad & wrong).sum() / bad.sum()
    print(f"what --drop_bad_pairs drops: recall {recall:.4f}, precision {precision:.4f}")


if __name__ == "__main__":
    main()
