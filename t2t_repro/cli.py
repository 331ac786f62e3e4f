"""What every program shares: strict flags, --help, errors in one line, exit codes.

A program is a module of `bin` with `define_flags(f)`, `main(args)` and, made of them by `program`,
`console`; it defines no global flag, so that importing it for its functions changes nothing.
"""

import atexit
import dataclasses
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from absl import flags

from t2t_repro import imports, process, t2t_compat
from t2t_repro.errors import Interrupted, UserError, suggest, unset
from t2t_repro.fields import flags_of, types_of

Request = TypeVar("Request")
# Whether this is a program's own process: t2t-X, or python -m t2t_repro....
_IS_PROGRAM = os.path.basename(" ".join(sys.orig_argv[1:2])).startswith("t2t-") or (
    sys.orig_argv[1:2] == ["-m"] and sys.orig_argv[2].startswith("t2t_repro.")
)


def program(
    module: str,
    name: str,
    doc: str | None,
    define_flags: Callable[[flags.FlagValues], None],
    main: Callable[[flags.FlagValues], None],
    *,
    positional: str | None = None,
) -> Callable[[], None]:
    """Returns a program's console script; runs it if its module is what `python -m` names.

    Args:
        module: the module's __name__.
        name: as in `run`, and so the next three.
        doc: the module's __doc__.
        define_flags: defines the flags.
        main: does the work.
        positional: as in `run`.
    """

    def console() -> None:
        run(name, doc, define_flags, main, positional=positional)
        if _IS_PROGRAM:  # without Python's own end, which takes a second to let go of TensorFlow
            atexit._run_exitfuncs()
            sys.stdout.flush()
            os._exit(0)

    if module == "__main__":
        console()
    return console


def run(
    name: str,
    doc: str | None,
    define_flags: Callable[[flags.FlagValues], None],
    main: Callable[[flags.FlagValues], None],
    argv: list[str] | None = None,
    *,
    positional: str | None = None,
) -> None:
    """Parses the command line, loads --t2t_usr_dir, runs `main`, and leaves with an exit code.

    0: done. 2: the user can fix it; one line on stderr says how. 130 at Ctrl-C and 143 at SIGTERM,
    with one line as well.

    Args:
        name: the program's name, such as "t2t-trainer".
        doc: the text above the flags in --help.
        define_flags: receives an empty FlagValues and defines the program's flags on it.
        main: receives the parsed flags.
        argv: the arguments without the program's name; None: the process's own.
        positional: the flag whose value may also stand alone, before the flags or behind them.
    """
    argv = sys.argv[1:] if argv is None else argv
    args = flags.FlagValues()
    define_flags(args)
    own = set(args)
    if any(arg in ("-h", "--help", "-help", "--helpfull", "--helpshort") for arg in argv):
        print(f"{(doc or name).strip()}\n\nFlags of {name}:\n{_help(args)}", flush=True)
        sys.exit(0)
    try:
        with process.handle_signals():
            _parse(name, args, argv, positional)
            imports.quiet_tensorflow()
            process.limit_threads()
            if "t2t_usr_dir" in own and args.t2t_usr_dir:
                from t2t_repro.interop import usr_dir

                usr_dir.load(args.t2t_usr_dir)
            main(args)
            sys.stdout.flush()
    except Exception as error:
        full = "No space left" in str(error) or "File too large" in str(error)  # TensorFlow's
        if not full and not isinstance(error, UserError | flags.Error | OSError):
            raise
        print(f"{name}: error: {_one_line(error, own)}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stop:
        print(f"{name}: {stop}", file=sys.stderr)
        sys.exit(stop.exit_code)


def _one_line(error: Exception, own: set[str]) -> str:
    text = str(error)
    if isinstance(error, flags.UnrecognizedFlagError):
        near = suggest(error.flagname, own)
        text = f"Unknown flag. Received: '--{error.flagname}'.{near} --help lists the flags."
    elif isinstance(error, OSError) and error.strerror:
        text = error.strerror + (f": {error.filename!r}" if error.filename is not None else "")
    return " ".join(text.splitlines())


def _parse(name: str, args: flags.FlagValues, argv: list[str], positional: str | None) -> None:
    own = set(args)
    inert = _define_t2t_flags(args, name)
    args.set_gnu_getopt(positional is not None)
    rest = args([name, *argv])[1:]
    if positional and rest and not args[positional].present:
        args[positional].parse(rest.pop(0))
    if rest:
        raise UserError(
            f"Expected flags only. Received: {rest[0]!r}. Write --flag=value; {name} --help lists "
            "the flags."
        )
    _check_inert(args, inert, name)
    _check_paths(args, own)
    for flag in own:  # a shell does not expand what stands behind --flag=
        value = args[flag].value
        if isinstance(value, str) and value.startswith("~/"):
            args[flag].value = os.path.expanduser(value)


def define_run_flags(f: flags.FlagValues) -> None:
    """Defines the flags that name a run and its data, as T2T's."""
    flags.DEFINE_string("output_dir", None, "The run directory.", flag_values=f)
    text = "The folder of TFRecords and vocabularies."
    flags.DEFINE_string("data_dir", None, text, flag_values=f)
    flags.DEFINE_string("t2t_usr_dir", None, "Your own package of problems.", flag_values=f)


def define_task_flags(f: flags.FlagValues) -> None:
    """Defines the flags that name a problem and a configuration, as T2T's."""
    flags.DEFINE_string("problem", None, "The problem's name (--registry_help).", flag_values=f)
    flags.DEFINE_string("hparams_set", None, "The named configuration.", flag_values=f)
    flags.DEFINE_string("hparams", "", 'Changes to it: "name=value,name=value".', flag_values=f)


def define_request_flags(f: flags.FlagValues, request: type) -> None:
    """Defines the fields of a request that are flags: each says its type, default and help."""
    for name, field in flags_of(request).items():
        kind, told = types_of(field)[0], field.metadata
        default = None if field.default is dataclasses.MISSING else field.default
        start, text = (name, default), told["text"]
        if told["choices"]:
            flags.DEFINE_enum(*start, told["choices"], text, flag_values=f)
        elif kind in (int, float):
            number: Any = flags.DEFINE_integer if kind is int else flags.DEFINE_float
            number(*start, text, told["least"], told["most"], flag_values=f)
        else:
            define = flags.DEFINE_bool if kind is bool else flags.DEFINE_string
            define(*start, text, flag_values=f)


def warn_unread(args: flags.FlagValues, names: Iterable[str]) -> None:
    """Says which of these flags, that nothing reads beside the others, were given."""
    given = [f"--{name}" for name in names if args[name].present]
    if given:
        print(f"Warning: beside the other flags {', '.join(given)} had no effect.", file=sys.stderr)


def check_given(values: Mapping[str, Any], hints: Mapping[str, str]) -> None:
    """Refuses flags that say too little, naming all that is missing.

    Args:
        values: {flag: value}; each needs one.
        hints: {flag: what to do about it}.

    Raises:
        UserError: if a flag has no value.
    """
    missing = [name for name, value in values.items() if not value]
    if missing:
        said = " ".join(dict.fromkeys(hints[name] for name in missing))
        listed = " and ".join(f"--{name}" for name in missing)
        raise UserError(f"Expected {listed}. Received: none. {said}")


def request(args: flags.FlagValues, kind: type[Request]) -> Request:
    """Returns flags as a dataclass whose fields have their names.

    A field `given` gets the names of those that stand in the command line.
    """
    names = [field.name for field in dataclasses.fields(cast(Any, kind))]
    values: dict[str, Any] = {name: args[name].value for name in names if name != "given"}
    if "given" in names:
        values["given"] = frozenset(name for name in values if args[name].present)
    return kind(**values)


def run_flags(args: flags.FlagValues, folder: str = "output_dir") -> dict[str, Any]:
    """Returns what the flags say of a trained run, as `runs.trained_run` takes it.

    Args:
        args: the parsed flags.
        folder: the flag that names the run's.
    """
    names = [name for name in ("data_dir", *t2t_compat.OF_THE_RUN) if name in args]
    return {"output_dir": args[folder].value, **{name: args[name].value for name in names}}


def _help(args: flags.FlagValues) -> str:
    lines = []
    for name in sorted(args):
        flag = args[name]
        default = "" if flag.default is None else f" (default: {flag.default})"
        kind = "" if flag.boolean else f"={flag.flag_type().upper() or 'VALUE'}"
        prefix = "--[no]" if flag.boolean else "--"
        lines.append(f"  {prefix}{name}{kind}\n      {flag.help}{default}")
    return "\n".join(lines)


def _check_paths(args: flags.FlagValues, own: set[str]) -> None:
    """Refuses paths that are empty, as of a variable that is not set, and a second text.

    Of other flags the last counts, as in T2T, so that scripts can override their defaults.
    """
    for name in sorted(own):
        flag = args[name]
        path = name.endswith(("_dir", "_path", "_file")) and name != "t2t_usr_dir"
        if path and flag.present and flag.value == "":
            raise unset(f"--{name}")
        if name.endswith(("source", "target")) and flag.present > 1 and flag.value:
            raise UserError(
                f"Expected --{name} once; several values stand with commas between. Received: "
                f"{flag.present} times."
            )


def _define_t2t_flags(args: flags.FlagValues, name: str) -> list[str]:
    """Defines T2T's flags that a program lacks; returns those that mean nothing to it."""
    if name in t2t_compat.READ_A_RUN:
        for flag in t2t_compat.OF_THE_RUN:
            flags.DEFINE_string(flag, None, "The run's.", flag_values=args)
    inert = [flag for flag in t2t_compat.FLAGS if flag not in args]
    for flag in inert:
        is_bool = t2t_compat.FLAGS[flag][0] in ("false", "true", "true|false")
        define = flags.DEFINE_bool if is_bool else flags.DEFINE_string
        define(flag, None, t2t_compat.FLAGS[flag][1], flag_values=args)
    return inert


def _check_inert(args: flags.FlagValues, inert: Sequence[str], name: str) -> None:
    """Warns of T2T's flags that mean nothing here; refuses values that would mean something."""
    for flag in inert:
        if not args[flag].present:
            continue
        at_rest, reason = t2t_compat.FLAGS[flag]
        value = str(args[flag].value)
        if at_rest is not None and value.lower() not in at_rest.split("|"):
            raise UserError(f"--{flag} is not supported: {reason}. Received: {value!r}.")
        print(f"{name}: warning: --{flag} has no effect: {reason}.", file=sys.stderr)
