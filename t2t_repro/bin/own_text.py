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
from t2t_repro.corpora.request import SHORT, RawText
from t2t_repro.fields import flags_of
from t2t_repro.own_text.request import OwnTextRequest

_TEXT = {
    "train_source": "Files of one sentence a line, or .tsv, .csv, .jsonl or .tmx, which hold both "
    "sides; also .gz, and several with commas between.",
    "train_target": "The other side of --source, file by file.",
}


def define_flags(f: flags.FlagValues) -> None:
    """Defines t2t-own-text's flags."""
    cli.define_request_flags(f, RawText)
    for name, text in _TEXT.items():
        delattr(f, name)
        flags.DEFINE_string(SHORT[name], None, text, flag_values=f)
    cli.define_request_flags(f, OwnTextRequest)


def main(args: flags.FlagValues) -> None:
    """Does what the flags ask for."""
    hint = "--source and --target are two files of one sentence a line, or --source one of both."
    needed = {name: args[name].value for name in ("source", "output_dir")}
    cli.check_given(needed, dict.fromkeys(needed, hint))
    text = {name: args[SHORT.get(name, name)].value for name in flags_of(RawText)}
    raw = RawText(**text)
    own: dict[str, Any] = {name: args[name].value for name in flags_of(OwnTextRequest)}
    from t2t_repro.own_text import stages

    stages.run(OwnTextRequest(raw=raw, **own))


console = cli.program(__name__, "t2t-own-text", __doc__, define_flags, main)
