"""The README of a SavedModel: its calls are what a shell and Python take, whatever the sentence."""

import ast
import json
import shlex
import types

from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.interop.saved_model_readme import readme

SOURCE, TARGET = 'Da\'s "ein" 😀 {Hund} \\.', "It's a dog $HOME."


def text_of(path, settings):
    served = types.SimpleNamespace(names=("text", "score"), longest=80)
    encoder = types.SimpleNamespace(encode=lambda text: [7, len(text)])
    return readme(path, served, encoder, settings, "float32", False, (SOURCE, TARGET))


def test_the_calls_have_the_sentence_that_is_given(tmp_path):
    text = text_of(tmp_path, DecodeHParams())
    bodies = [
        json.loads(shlex.split(line)[-1]) for line in text.splitlines() if line.startswith("curl")
    ]
    assert bodies[0] == {"signature_name": "text", "instances": [{"inputs": SOURCE}]}
    assert bodies[-1]["inputs"] == {"inputs": [SOURCE], "targets": [TARGET]}
    (asked,) = (shlex.split(line)[1] for line in text.splitlines() if "--input_exprs" in line)
    assert ast.literal_eval(asked.partition("=")[2]) == [SOURCE]
    code = ast.parse(text.partition("```python\n")[2].partition("```")[0])
    strings = {node.value for node in ast.walk(code) if isinstance(node, ast.Constant)}
    assert {SOURCE, TARGET} <= strings and f"[7, {len(SOURCE)}, 1]" in text
