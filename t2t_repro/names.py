"""How names are written that tensor2tensor takes in more than one way."""

import re


def snake_case(name: str) -> str:
    """Returns "TranslateEndeWmt32k" as "translate_ende_wmt32k" (T2T's camelcase_to_snakecase)."""
    name = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", name).lower()
