r"""How a token is spelled in the alphabet of a vocabulary.

An escaped token ends in `_` and has no other one, so that subtokens can be concatenated and cut
apart again. `\` is written `\\`, `_` is written `\u`, and a character outside the alphabet is
written as its number: `\8364;`.
"""

import re

ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
UNKNOWN = "\u3013"  # what a number that is no character decodes to

_SPECIAL = re.compile(r"[\\_\n]")
_ESCAPE = re.compile(r"\\(u|\\|[0-9]+;)")


def escape_character(character: str) -> str:
    return f"\\{ord(character)};"


def escape_token(token: str, alphabet: frozenset[str]) -> str:
    """Spells `token` in `alphabet` (which has ESCAPE_CHARACTERS). A newline is always a number."""
    if alphabet.issuperset(token) and _SPECIAL.search(token) is None:  # nearly every token
        return token + "_"
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    spelled = [c if c in alphabet and c != "\n" else escape_character(c) for c in token]
    return "".join(spelled) + "_"


def unescape_token(escaped: str) -> str:
    """Returns the token spelled by `escaped`, whose final `_` has been cut off."""
    return _ESCAPE.sub(_meaning, escaped) if "\\" in escaped else escaped


def _meaning(match: re.Match[str]) -> str:
    code = match.group(1)
    if code == "u":
        return "_"
    if code == "\\":
        return "\\"
    try:
        character = chr(int(code[:-1]))
    except (ValueError, OverflowError):
        return UNKNOWN
    # Half a surrogate pair cannot be written to a file. tensor2tensor lets it through and fails.
    return UNKNOWN if "\ud800" <= character <= "\udfff" else character
