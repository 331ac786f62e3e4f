import types

import pytest

from t2t_repro.decoding.engine import ModelEngine
from t2t_repro.decoding.settings import DecodeHParams
from t2t_repro.decoding.translate import Translator


@pytest.fixture(scope="session")
def trained(golden_case):
    """Makes a model that tensor2tensor trained, and what it decoded: trained("base").model."""

    def load(name):
        case = golden_case(name)
        model = case.model("trained")
        return types.SimpleNamespace(
            model=model,
            engine=ModelEngine(model),
            inputs=case["inputs"],
            hparams=case.hparams,
            golden=case,
        )

    return load


@pytest.fixture(scope="session")
def base(trained):
    """One model for every test that needs some trained model."""
    return trained("base")


class Words:
    """Words w2 to w36; id 2 reads as two lines, to be hard on the files."""

    vocab_size = 37

    def encode(self, text):
        return [int(word.removeprefix("w")) for word in text.split()]

    def decode(self, ids):
        return " ".join("odd\nline\ttab" if i == 2 else f"w{i}" for i in ids)


@pytest.fixture
def translator(base):
    """Makes a translator of the base model: translator("beam_size=2", t2t_exact=True)."""

    def make(settings="", engine=base.engine, **options):
        encoders = {"inputs": Words(), "targets": Words()}
        return Translator(engine, encoders, DecodeHParams.parse(settings), **options)

    return make
