"""t2t-own-text: from two files of sentences to a model that is served, in one command.

  t2t-own-text --source=train.en --target=train.de --output_dir=mine
  t2t-server --model=mine/export/saved_model

draws dev and test, builds a vocabulary, chooses a configuration, says how long it will take,
trains, chooses checkpoints, beams and alpha, scores the test set, exports, and writes a
page (mine/index.html) and a record of all (mine/own-text.json). Each stage is a program of its own,
whose command it prints. Stopped or killed, the same command goes on; what is done is not done
again. With other --train_minutes or --train_steps it trains on, and makes what follows anew;
a set whose rate falls to 0 at the end needs another folder for that.
"""

from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.bin.data_flags import (
    VOCABULARY_FLAGS,
    define_vocabulary_flags,
    vocabulary_options,
)
from t2t_repro.corpora.request import SHORT, RawText
from t2t_repro.errors import UserError
from t2t_repro.fields import flags_of
from t2t_repro.own_text.request import OwnTextRequest


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-own-text's flags."""
    for name, other in SHORT.items():
        flags.DEFINE_string(name, None, f"As --{other}.", flag_values=f)
    cli.define_request_flags(f, RawText)
    define_vocabulary_flags(f)
    cli.define_request_flags(f, OwnTextRequest)


def main(args: flags.FlagValues) -> None:
    """Does what the flags ask for."""
    request = request_of(args)
    from t2t_repro.own_text import stages

    stages.run(request)


def request_of(args: flags.FlagValues) -> OwnTextRequest:
    """Returns what the flags ask for.

    Raises:
        UserError: if they lack something or contradict each other.
    """
    values: dict[str, Any] = {name: args[name].value for name in flags_of(RawText)}
    values["short"] = tuple(other for other in SHORT.values() if values[other] is None)
    for name, other in SHORT.items():
        given = args[name].value
        if given is not None and values[other] is not None:
            raise UserError(f"Expected --{name} or --{other}. Received: both. Leave one out.")
        values[other] = given if given is not None else values[other]
    own: dict[str, Any] = {name: args[name].value for name in flags_of(OwnTextRequest)}
    files = vocabulary_options(args)["vocabularies"].values()
    vocabulary = ((name, args[name].value) for name in VOCABULARY_FLAGS)
    given = tuple((name, str(value)) for name, value in vocabulary if value)
    raw = RawText(**values)
    return OwnTextRequest(raw=raw, vocabulary=given, vocabulary_files=tuple(files), **own)


console = cli.program(__name__, "t2t-own-text", __doc__, define_flags, main)
