"""What a program says of an error: one line that says how to mend it."""

import errno
import re
from typing import Any

from absl import flags

from t2t_repro import fields
from t2t_repro.errors import suggest

# What to do about an error of the system; the paths in it are those that flags name.
_MENDING = {
    errno.EEXIST: "Expected a folder, or none yet: name another.",
    errno.ENOTDIR: "Expected folders before the last name of a path: name another.",
    errno.EISDIR: "Expected a file, or none yet: name another.",
    errno.ENOENT: "Correct the path.",
    errno.ENAMETOOLONG: "Expected a shorter name, with room for what it grows under: name another.",
    errno.EACCES: "Expected permission: change it, or name another path.",
    errno.EPERM: "Expected permission: change it, or name another path.",
    errno.EROFS: "Expected a file system that can be written: name another path.",
    errno.ENOSPC: "Free some space, and give the same command again.",
    errno.EFBIG: "Raise the limit of a file (ulimit -f), and give the same command again.",
    errno.EDQUOT: "Free some of your quota, and give the same command again.",
}

# What to do about a value of a flag that is refused, by the flag.
_INSTEAD = {
    "worker_gpu": "To compute on the CPU leave it out, and hide GPUs by CUDA_VISIBLE_DEVICES=-1."
}


def one_line(error: Exception, args: flags.FlagValues) -> str:
    """Returns what an error says, the middle left out of words that nobody reads to their end.

    Args:
        error: a UserError, an OSError, or one of absl about flags.
        args: the program's flags.
    """
    text = _message(error, args)
    return re.sub(r"\S{300,}", lambda word: f"{word[0][:99]}...{word[0][-99:]}", text)


def _message(error: Exception, args: flags.FlagValues) -> str:
    if isinstance(error, flags.UnrecognizedFlagError):
        near = suggest(error.flagname, set(args))
        return f"Unknown flag. Received: '--{error.flagname}'.{near} --help lists the flags."
    if isinstance(error, flags.IllegalFlagValueError) and (said := _illegal_value(error, args)):
        return said
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename!r}" if error.filename else ""
        return f"{error.strerror}{where}. {_MENDING.get(error.errno or 0, '')}".rstrip()
    return " ".join(str(error).split()) if isinstance(error, flags.Error) else str(error)


def _illegal_value(error: flags.IllegalFlagValueError, args: flags.FlagValues) -> str:
    """Returns what is wrong with a flag's value, "" where absl has said all there is."""
    # It tells the flag and the value in its text alone: "flag --NAME=VALUE: CAUSE".
    name, _, rest = str(error).removeprefix("flag --").partition("=")
    value, kind = rest.removesuffix(f": {error.__context__}"), _kind(args[name].parser)
    said = f"Expected --{name} to be {kind}. Received: {fields.shown(value)}."
    return kind and f"{said} {_INSTEAD.get(name, '')}".rstrip()


def _kind(parser: Any) -> str:
    """Returns what the parser of a flag takes, in words; "": it is none of these."""
    match parser:
        case flags.EnumParser():
            return f"one of {', '.join(parser.enum_values)}"
        case flags.BooleanParser():
            return "true or false"
        case flags.IntegerParser():
            kind = "a whole number"
        case flags.FloatParser():
            kind = "a number"
        case _:
            return ""
    least, most = parser.lower_bound, parser.upper_bound
    if least is not None and most is not None:
        return f"{kind} from {least} to {most}"
    bounds = ((">=", least), ("<=", most))
    return kind + "".join(f" {sign} {bound}" for sign, bound in bounds if bound is not None)
