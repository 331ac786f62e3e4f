"""Every public layer has an example in its docstring, and it runs."""

import doctest

import keras
import pytest

from t2t_repro import layers


def test_the_door_shows_the_layers():
    assert set(layers.__all__) <= set(dir(layers))
    assert all(issubclass(getattr(layers, name), keras.layers.Layer) for name in layers.__all__)
    with pytest.raises(AttributeError, match="EncoderLayers"):
        layers.EncoderLayers  # noqa: B018


@pytest.mark.parametrize("name", sorted({getattr(layers, x).__name__ for x in layers.__all__}))
def test_the_example_runs(name):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    (example,) = finder.find(getattr(layers, name), name, globs={})
    assert len(example.examples) >= 3
    assert not runner.run(example).failed
