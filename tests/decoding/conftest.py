import types

import pytest


@pytest.fixture(scope="session")
def trained(golden_case):
    """Makes a small model that tensor2tensor trained: trained("base").model, and what it decoded."""

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
