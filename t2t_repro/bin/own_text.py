"""t2t-own-text: turns two files of sentences into a translator, in one command.

  t2t-own-text --source=train.en --target=train.de --output_dir=mine
  t2t-server --model=mine/export/saved_model

draws dev and test, builds a vocabulary, chooses a configuration, prints how long it will take,
trains, chooses weights, beam size and alpha, scores the test set, exports, and writes a page
(mine/index.html) and a record (mine/own-text.json). Each stage runs a program, whose command
is printed. If interrupted, run the same command to resume; finished stages are not repeated. With a
larger --train_minutes or --train_steps it continues the training and repeats the stages after it.
If the hparam set's learning rate falls to 0 at the end, give a new folder instead.
"""

import dataclasses
from typing import Any

from absl import flags

from t2t_repro import cli
from t2t_repro.corpora.request import SHORT, RawText
from t2t_repro.fields import flag, flags_of
from t2t_repro.own_text.request import OwnTextRequest

_TEXT = {
    "train_source": {
        "text": "The source sentences, one a line, or a .tsv, .csv, .jsonl or .tmx file with both "
        "sides. Files may be .gz; separate several by commas."
    },
    "train_target": {"text": "The target sentences, one for each line of --source."},
}
# Those of the text, two of them under other names.
TextFlags = dataclasses.make_dataclass(
    "TextFlags",
    [
        (SHORT.get(name, name), of.type, flag(of.default, **{**of.metadata, **_TEXT.get(name, {})}))
        for name, of in flags_of(RawText).items()
    ],
)


def main(args: flags.FlagValues) -> None:
    """Does what the flags ask for."""
    hint = "Give --output_dir, and either --source and --target or a --source with both sides."
    cli.check_given(args.flag_values_dict(), {"source": hint, "output_dir": hint})
    text = {name: args[SHORT.get(name, name)].value for name in flags_of(RawText)}
    raw = RawText(**text)
    own: dict[str, Any] = {name: args[name].value for name in flags_of(OwnTextRequest)}
    from t2t_repro.own_text import stages

    stages.make_translator(OwnTextRequest(raw=raw, **own))


console = cli.program(__name__, "t2t-own-text", __doc__, (TextFlags, OwnTextRequest), main)
