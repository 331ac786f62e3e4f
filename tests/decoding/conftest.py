import types

import pytest


@pytest.fixture(scope="session")
def trained(golden_case):
    """Makes a model that tensor2tensor trained, and what it decoded: trained("base").model."""

    def load(name):
        case = golden_case(name)
        return types.SimpleNamespace(
            model=case.model("trained"), inputs=case["inputs"], hparams=case.hparams, golden=case
        )

    return load


@pytest.fixture(scope="session")
def base(trained):
    """One model for every test that needs some trained model."""
    return trained("base")
