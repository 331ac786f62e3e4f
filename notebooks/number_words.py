"""A language pair that is small enough for a lesson: English numbers and German ones.

    twenty one thousand three  ->  ein und zwanzig tausend drei

German says units before tens, so a translation is not word by word. It is written in one word
there; here with blanks, so that each of its words is a token.
"""

import random

_ENGLISH = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_GERMAN = (
    "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn "
    "fünfzehn sechzehn siebzehn achtzehn neunzehn"
).split()
_GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()

LARGEST = 999_999


def english(number: int) -> str:
    """Returns a number up to LARGEST in English words."""
    if number >= 1000:
        thousands, rest = divmod(number, 1000)
        return " ".join([english(thousands), "thousand", *([english(rest)] if rest else [])])
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        return " ".join([_ENGLISH[hundreds], "hundred", *([english(rest)] if rest else [])])
    tens, units = divmod(number, 10)
    if number < 20:
        return _ENGLISH[number]
    return _ENGLISH_TENS[tens] + (f" {_ENGLISH[units]}" if units else "")


def german(number: int) -> str:
    """Returns a number up to LARGEST in German words, with blanks between them."""
    return _german(number) + "s" * (number % 100 == 1)  # eins, but ein und zwanzig


def _german(number: int) -> str:
    for base, word in ((1000, "tausend"), (100, "hundert")):
        if number >= base:
            above, rest = divmod(number, base)
            return " ".join([_german(above), word, *([_german(rest)] if rest else [])])
    tens, units = divmod(number, 10)
    if number < 20:
        return _GERMAN[number]
    return (f"{_GERMAN[units]} und " if units else "") + _GERMAN_TENS[tens]


def pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Returns so many different numbers, drawn by the seed, each in English and in German."""
    numbers = random.Random(seed).sample(range(LARGEST + 1), count)
    return [(english(number), german(number)) for number in numbers]
