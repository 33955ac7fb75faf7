"""Examples in the docstrings of what lies beside the package: pytest collects those of `src` only."""

import doctest
import importlib

import pytest

MODULES = (
    "examples.data_sets",
    "examples.geodesics.pictures",
    "reproductions.gdp.algorithms",
    "reproductions.gdp.circle",
    "reproductions.opt.paper",
    "reproductions.rao.discrete",
    "reproductions.rao.mechanisms",
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name):
    result = doctest.testmod(importlib.import_module(name))
    assert (result.failed, result.attempted > 0) == (0, True)
