"""What a problem's methods and properties may return, checked where a class of the user's does.

`guard` puts each check around what the class itself defines, so that a wrong value is named with
its file and line before anything else reads it. The catalogue's own classes are left as they are.
"""

import functools
import operator
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from t2t_repro import user_code
from t2t_repro.errors import UserError

# Of training/metrics.py, which needs Keras.
METRICS = (
    *("accuracy", "accuracy_top5", "accuracy_per_sequence", "neg_log_perplexity"),
    *("approx_bleu_score", "rouge_2_fscore", "rouge_L_fscore", "edit_distance"),
)
_OURS = f"{__package__}."
_LARGEST = 2**31 - 1


class Rule(NamedTuple):
    """What something must be, in words and as a check."""

    expected: str
    fits: Callable[[Any], bool]


def _whole(least: int, most: int = _LARGEST) -> Rule:
    def fits(value: Any) -> bool:
        return not isinstance(value, bool) and least <= operator.index(value) <= most

    return Rule(f"a whole number from {least} to {most}", fits)


def _or_none(rule: Rule) -> Rule:
    return Rule(f"{rule.expected}, or None", lambda value: value is None or rule.fits(value))


def _list_of(rule: Rule) -> Rule:
    def fits(value: Any) -> bool:
        return isinstance(value, list | tuple) and all(map(rule.fits, value))

    return Rule(f"a list, each {rule.expected}", fits)


def _one_of(*choices: str) -> Rule:
    return Rule(f"one of {', '.join(map(repr, choices))}", lambda value: value in choices)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and (value.isascii() or bool(value.encode("utf-8")))


def _is_name(value: Any) -> bool:
    return _is_text(value) and bool(value) and not set("/\0\n") & set(value)


def _is_split(value: Any) -> bool:
    return _is_name(value["split"]) and _whole(1, 99_999).fits(value["shards"])


def _is_encoder(value: Any) -> bool:
    has_methods = callable(value.encode) and callable(value.decode)
    return has_methods and _whole(1).fits(value.vocab_size)


def _are_ids(value: Any) -> bool:
    ids = list(map(operator.index, value))
    return not isinstance(value, bytes) and min(ids) >= 0 and max(ids) <= _LARGEST


def _are_sides(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def both(value: Any) -> bool:
        return isinstance(value, Mapping) and fits(value["inputs"]) and fits(value["targets"])

    return both


_FLAG = Rule("True or False", lambda value: isinstance(value, bool))
_TEXT = Rule("text that is valid Unicode", _is_text)
_NAME = Rule("a file's name", _is_name)
_TEXTS = Rule('{"inputs": text, "targets": text} of valid Unicode', _are_sides(_is_text))
_IDS = Rule('{"inputs": ids, "targets": ids}, each some whole numbers from 0', _are_sides(_are_ids))
_ENCODERS = Rule(
    '{"inputs": encoder, "targets": encoder}, each with encode, decode and vocab_size',
    _are_sides(_is_encoder),
)
_METRIC = Rule(f"one of {', '.join(METRICS)}", lambda value: value in METRICS)

_VALUES = {
    "dataset_splits": _list_of(Rule('{"split": name, "shards": 1 to 99999}', _is_split)),
    "is_generate_per_split": _FLAG,
    "already_shuffled": _FLAG,
    "pairs_a_file": _or_none(_whole(1)),
    "packed_length": _or_none(_whole(0)),
    "packed_spacing": _whole(0),
    "input_space_id": _whole(0, 31),
    "target_space_id": _whole(0, 31),
    "batch_size_multiplier": _whole(1),
    "output_type": _one_of("text", "tree"),
    "decode_hparams": _TEXT,
    "vocab_type": _one_of("subwords", "character", "tokens", "model"),
    "approx_vocab_size": _whole(1),
    "additional_reserved_tokens": _list_of(_TEXT),
    "oov_token": _or_none(_TEXT),
    "max_samples_for_vocab": _or_none(_whole(1)),
    "max_subtoken_length": _or_none(_whole(1)),
    "inputs_prefix": _TEXT,
    "targets_prefix": _TEXT,
    "use_vocab_from_other_problem": _or_none(
        Rule("a problem of text", lambda value: hasattr(type(value), "vocab_filename"))
    ),
    "vocab_filename": _NAME,
    "vocab_filenames": _list_of(_NAME),
    "lexicon_filename": _TEXT,
}
_RESULTS = {
    "eval_metrics": _list_of(_METRIC),
    "num_samples": _or_none(_whole(0, 2**63)),
    "raw_text_files": _list_of(_TEXT),
    "dataset_filename": _NAME,
    "filepaths": _list_of(_TEXT),
    "feature_encoders": _ENCODERS,
    "inputs_vocab_size": _whole(1),
    "targets_vocab_size": _whole(1),
    "get_or_create_vocab": Rule("an encoder, with encode, decode and vocab_size", _is_encoder),
}
_YIELDED = {
    "generate_samples": _TEXTS,
    "generate_encoded_samples": _IDS,
    "generate_text_for_vocab": _TEXT,
}
_MADE_BY = {"sample_encoder": _IDS}


def guard(cls: type) -> None:
    """Checks from now on what a class returns and yields, where it is the user's that says so."""
    if cls.__module__.startswith(_OURS):
        return
    if file := getattr(sys.modules.get(cls.__module__), "__file__", None):
        user_code.add(file)
    for table, guarded in _GUARDS:
        for name, rule in table.items():
            owner = next((base for base in cls.__mro__ if name in vars(base)), None)
            if owner is None or owner.__module__.startswith(_OURS):
                continue
            if owner is cls or not hasattr(owner, "was_reversed"):  # a base that is no problem
                setattr(cls, name, guarded(cls, name, rule, vars(owner)[name]))


def _value(cls: type, name: str, rule: Rule, value: Any) -> Any:
    """Returns a property that checks; what is no property is checked at once."""
    what, where = f"{name} of {cls.__name__}", user_code.definition(value)
    if isinstance(value, functools.cached_property):
        cached = functools.cached_property(_checking(value.func, rule, what, where))
        cached.__set_name__(cls, name)
        return cached
    if isinstance(value, property):
        return property(_checking(value.fget, rule, what, where), value.fset, value.fdel)
    return _checked(value, rule, what, where)


def _result(cls: type, name: str, rule: Rule, method: Any) -> Any:
    """Returns a method that checks what it returns."""
    return _checking(method, rule, f"{name} of {cls.__name__}", user_code.definition(method))


def _yielded(cls: type, name: str, rule: Rule, method: Any) -> Any:
    """Returns a method that checks what it yields."""
    what, where = f"{name} of {cls.__name__}", user_code.definition(method)
    _check_method(method, what)

    @functools.wraps(method)
    def checked(self: Any, *args: Any, **more: Any) -> Iterator[Any]:
        values = method(self, *args, **more)
        if name == "generate_samples" and not _are_encoded_here(self):
            return values
        if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
            raise _wrong(f"{what} to yield {rule.expected}", values, "", where)
        return _each(values, rule, what, where)

    return checked


def _made_by(cls: type, name: str, rule: Rule, method: Any) -> Any:
    """Returns a method that checks what the function returns that it returns."""
    what, where = f"{name} of {cls.__name__}", user_code.definition(method)
    function = Rule("a function from a sample to a sample", callable)
    _check_method(method, what)

    @functools.wraps(method)
    def checked(*args: Any, **more: Any) -> Any:
        made = _checked(method(*args, **more), function, what, where)
        return _checking(made, rule, f"the function from {what}", where)

    return checked


_GUARDS = (
    *((_VALUES, _value), (_RESULTS, _result), (_YIELDED, _yielded)),
    (_MADE_BY, _made_by),
)


def _checking(function: Any, rule: Rule, what: str, where: str) -> Callable[..., Any]:
    _check_method(function, what)

    @functools.wraps(function)
    def checked(*args: Any, **more: Any) -> Any:
        return _checked(function(*args, **more), rule, what, where)

    return checked


def _check_method(method: Any, what: str) -> None:
    if not callable(method):
        raise _wrong(f"{what} to be a method", method, "", "")


def _checked(value: Any, rule: Rule, what: str, where: str) -> Any:
    if not _fits(rule, value):
        raise _wrong(f"{what} to be {rule.expected}", value, "", where)
    return value


def _each(values: Iterable[Any], rule: Rule, what: str, where: str) -> Iterator[Any]:
    for number, value in enumerate(values, start=1):
        if not _fits(rule, value):
            if frame := getattr(values, "gi_frame", None):  # the line that yielded it
                where = f", at {frame.f_code.co_filename} line {frame.f_lineno}"
            raise _wrong(f"{what} to yield {rule.expected}", value, f" as number {number}", where)
        yield value


def _fits(rule: Rule, value: Any) -> bool:
    try:
        return rule.fits(value)
    except (AttributeError, LookupError, TypeError, ValueError):  # it has not even the form
        return False


def _wrong(expected: str, value: Any, which: str, where: str) -> UserError:
    received = user_code.shown(value)
    return UserError(f"Expected {expected}. Received: {received}{which}{where}. Mend it there.")


def _are_encoded_here(problem: Any) -> bool:
    """Whether samples are texts, and no `generate_encoded_samples` of the user's reads them."""
    return type(problem).generate_encoded_samples.__module__.startswith(_OURS)
