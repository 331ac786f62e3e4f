"""Folders with names that are not UTF-8: refused in one line by every program."""

import os

import pytest

FLAGS = {
    "datagen": "--problem=algorithmic_reverse_binary40_test --data_dir=HERE --tmp_dir=raw",
    "trainer": "--problem=algorithmic_reverse_binary40_test --data_dir=HERE --output_dir=run",
    "show": "HERE",
    "evaluator": "--output_dir=HERE",
    "avg_all": "--model_dir=HERE --output_dir=average",
    "decoder": "--output_dir=HERE --decode_interactive",
    "translate_all": "--model_dir=HERE --source=in",
    "visualize": "--output_dir=HERE --source=text",
    "exporter": "--output_dir=HERE --export_dir=export",
    "checkpoint": "import --checkpoint=HERE --output_dir=run",
    "compare": "--output_dir=HERE --problem=algorithmic_reverse_binary40_test",
    "score_trees": "--gold=HERE --predicted=HERE",
    "bleu": "--translation=HERE --reference=HERE",
}


@pytest.mark.parametrize("program", FLAGS)
def test_a_folder_that_is_not_utf8(call, refused, tmp_path, monkeypatch, program):
    monkeypatch.chdir(tmp_path)
    folder = os.fsdecode(b"caf\xe9 \xff")
    os.mkdir(folder)
    flags = [flag.replace("HERE", folder) for flag in FLAGS[program].split(" ")]
    refused(call(program, *flags), "to be text in UTF-8", "udce9")
    assert os.listdir() == [folder] and not os.listdir(folder)
