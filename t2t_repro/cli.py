"""The shared part of all programs: strict flags, --help, errors in one line, exit codes.

A program is a module of `bin` with dataclasses whose fields are its flags (fields.py), `main(args)`
and, made of them by `program`, `console`; it defines no global flag, so that importing it for its
functions changes nothing.
"""

import atexit
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from absl import flags

from t2t_repro import imports, process, t2t_compat
from t2t_repro.errors import Interrupted, UserError
from t2t_repro.fields import flag, flags_of, types_of

Request = TypeVar("Request")
# How flags end that "" leaves unsaid, as by a variable of the shell that is not set.
_NAMED = ("_dir", "_path", "_file", "_from", "source", "target")
_JOINED = ("hparams", "ensemble")  # how flags end that may be given again; all others once
# Whether this is a program's own process: t2t-X, or python -m t2t_repro....
_IS_PROGRAM = os.path.basename(" ".join(sys.orig_argv[1:2])).startswith("t2t-") or (
    sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("t2t_repro.")
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunFlags:
    """The flags that name a run and its data, as T2T's."""

    output_dir: str | None = flag(None, "The run directory.")
    data_dir: str | None = flag(None, "The folder of TFRecords and vocabularies.")
    t2t_usr_dir: str | None = flag(None, "Your Python package of problems, hparam sets or models.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskFlags:
    """The flags that name a problem and a configuration, as T2T's."""

    problem: str | None = flag(None, "The problem; t2t-trainer --registry_help lists all problems.")
    hparams_set: str | None = flag(None, "The name of an hparam set.")
    hparams: str = flag("", 'Overrides of the hparam set: "name=value,name=value".')


def program(
    module: str,
    name: str,
    doc: str | None,
    requests: Sequence[type],
    main: Callable[[flags.FlagValues], None],
    *,
    positional: str | None = None,
) -> Callable[..., None]:
    """Returns a program's console script; runs it if `python -m` names its module.

    It takes the arguments without the program's name, or None: the process's own. It parses them,
    loads --t2t_usr_dir, runs `main`, and exits with a code: 2 after a UserError, printed as one
    line on stderr; 130 after Ctrl-C and 143 after SIGTERM, also with one line. On success it
    returns, or exits with 0 if the process is the program's own.

    Args:
        module: the module's __name__.
        name: the program's name, such as "t2t-trainer".
        doc: the text above the flags in --help.
        requests: dataclasses; the fields that `flag` has made are the flags.
        main: receives the parsed flags.
        positional: the flag whose value may also stand alone, before or after the flags.
    """

    def console(argv: list[str] | None = None) -> None:
        argv = sys.argv[1:] if argv is None else argv
        args = flag_values(requests)
        if any(arg in ("-h", "--help", "-help", "--helpfull", "--helpshort") for arg in argv):
            print(f"{(doc or name).strip()}\n\nFlags of {name}:\n{_help(args)}", flush=True)
            sys.exit(0)
        try:
            with process.handle_signals():
                _parse(name, args, argv, positional)
                imports.quiet_tensorflow()
                process.limit_threads()
                if "t2t_usr_dir" in args and args.t2t_usr_dir:
                    from t2t_repro.interop import usr_dir

                    usr_dir.load(args.t2t_usr_dir)
                main(args)
                sys.stdout.flush()
        except Exception as error:
            if not (text := _one_line(error)):
                raise
            print(f"{name}: error: {text}", file=sys.stderr)
            sys.exit(2)
        except Interrupted as stop:
            print(f"{name}: {stop}", file=sys.stderr)
            sys.exit(stop.exit_code)
        if _IS_PROGRAM:  # without Python's own end, which takes a second to let go of TensorFlow
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(0)

    if module == "__main__":
        console()
    return console


def warn_unused(args: flags.FlagValues, names: Iterable[str]) -> None:
    """Warns of those of these flags that were given and have no effect."""
    given = [f"--{name}" for name in names if args[name].present]
    if given:
        print(f"Warning: {', '.join(given)} had no effect, given the other flags.", file=sys.stderr)


def check_given(values: Mapping[str, Any], hints: Mapping[str, str]) -> None:
    """Refuses missing flags; the error names all.

    Args:
        values: {flag: value}.
        hints: {required flag: what to do about it}.

    Raises:
        UserError: if a flag has no value.
    """
    missing = [name for name in hints if not values[name]]
    if missing:
        said = " ".join(dict.fromkeys(hints[name] for name in missing))
        listed = " and ".join(f"--{name}" for name in missing)
        raise UserError(f"Expected {listed}. Received: none. {said}")


def request(args: flags.FlagValues, kind: type[Request]) -> Request:
    """Returns flags as a dataclass whose fields have their names.

    A field `given` gets the names of those in the command line.
    """
    names = {field.name for field in dataclasses.fields(cast(Any, kind))}
    values = {name: args[name].value for name in names - {"given"}}
    if "given" in names:
        values["given"] = frozenset(name for name in values if args[name].present)
    return kind(**values)


def run_flags(args: flags.FlagValues, folder: str = "output_dir") -> dict[str, Any]:
    """Returns the arguments of `runs.trained_run` from the flags.

    Args:
        args: the parsed flags.
        folder: the flag that names the run's.
    """
    names = [name for name in ("data_dir", *t2t_compat.OF_THE_RUN) if name in args]
    return {"output_dir": args[folder].value, **{name: args[name].value for name in names}}


def flag_values(requests: Sequence[type]) -> flags.FlagValues:
    """Returns the flags of requests: each field says its type, default, bounds and help."""
    args = flags.FlagValues()
    for name, field in (item for each in requests for item in flags_of(each).items()):
        kind, told = types_of(field)[0], field.metadata
        default = None if field.default is dataclasses.MISSING else field.default
        start, text = (name, default), told["text"]
        once: dict[str, Any] = {"flag_values": args, "allow_overwrite": False}
        if told["choices"]:
            flags.DEFINE_enum(*start, told["choices"], text, **once)
        elif kind in (int, float):
            number: Any = flags.DEFINE_integer if kind is int else flags.DEFINE_float
            number(*start, text, told["least"], told["most"], **once)
        elif kind is bool:
            flags.DEFINE_bool(*start, text, **once)
        elif isinstance(default, tuple):
            flags.DEFINE_multi_string(*start, text, flag_values=args)
        else:
            _define_text(args, *start, text)
    return args


def _define_text(args: flags.FlagValues, name: str, default: Any, text: str) -> None:
    if name.endswith(_JOINED):
        parser: Any = flags.ArgumentParser()
        joined = _Joined(parser, flags.ArgumentSerializer(), name, default, text)
        flags.DEFINE_flag(joined, flag_values=args)
    else:
        flags.DEFINE_string(name, default, text, flag_values=args, allow_overwrite=False)


class _Joined(flags.Flag):
    """Settings or a list: what several flags of one name say is joined by commas."""

    def parse(self, argument: str) -> None:
        super().parse(f"{self.value},{argument}" if self.present else argument)


def _help(args: flags.FlagValues) -> str:
    lines = []
    for name in sorted(args):
        flag = args[name]
        default = "" if flag.default is None else f" (default: {flag.default})"
        kind = "" if flag.boolean else f"={flag.flag_type().upper() or 'VALUE'}"
        prefix = "--[no]" if flag.boolean else "--"
        lines.append(f"  {prefix}{name}{kind}\n      {flag.help}{default}")
    return "\n".join(lines)


def _parse(name: str, args: flags.FlagValues, argv: list[str], positional: str | None) -> None:
    """Parses a command line strictly, with T2T's flags that the program lacks."""
    if name in t2t_compat.READ_A_RUN:
        for flag in t2t_compat.OF_THE_RUN:
            _define_text(args, flag, None, "Must agree with the run; default: the run's value.")
    inert = [flag for flag in t2t_compat.FLAGS if flag not in args]
    for flag in inert:
        is_bool = t2t_compat.FLAGS[flag][0] in ("false", "true", "true|false")
        define = flags.DEFINE_bool if is_bool else flags.DEFINE_string
        define(flag, None, t2t_compat.FLAGS[flag][1], flag_values=args)
    args.set_gnu_getopt(positional is not None)
    rest = args([name, *argv])[1:]
    if positional and rest and not args[positional].present:
        args[positional].parse(rest.pop(0))
    if rest:
        raise UserError(f"Expected only flags: --flag=value. Received: {rest[0]!r}. See --help.")
    _check_inert([args[flag] for flag in inert if args[flag].present], name)
    for given in (args[flag] for flag in args if args[flag].present and flag not in inert):
        if given.value == "" and given.name.endswith(_NAMED) and given.name != "t2t_usr_dir":
            raise UserError(f"Expected a value for --{given.name}. Received: an empty value.")
        elif isinstance(given.value, str) and given.value.startswith("~/"):
            given.value = os.path.expanduser(given.value)  # a shell does not, behind --flag=


def _check_inert(given: Iterable[Any], name: str) -> None:
    """Warns once of T2T's flags without effect here.

    Raises:
        UserError: naming all whose values would mean more.
    """
    refused: list[str] = []
    idle: list[str] = []
    for each in given:
        default, reason = t2t_compat.FLAGS[each.name]
        holds = default is None or str(each.value).lower() in default.split("|")
        (idle if holds else refused).append(f"--{each.name}={each.value} ({reason})")
    if refused:
        raise UserError(f"Expected flag values that {name} takes. Received: {', '.join(refused)}.")
    if idle:
        print(f"{name}: warning: these flags have no effect: {', '.join(idle)}.", file=sys.stderr)


def _one_line(error: Exception) -> str:
    """Returns the message of an error that the user can fix, else ""."""
    text = str(error)
    full = "No space left" in text or "File too large" in text  # TensorFlow's
    if process.lacks_memory(error):
        text = (
            "Out of memory. Lower batch_size, or max_length if only the longest sentences do not "
            "fit. t2t-trainer --find_batch_size finds a batch_size that fits. "
            + text.partition("\n")[0]
        )
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror + (f": {error.filename!r}" if error.filename is not None else "")
    elif not full and not isinstance(error, UserError | flags.Error | OSError):
        return ""
    return " ".join(text.splitlines())
