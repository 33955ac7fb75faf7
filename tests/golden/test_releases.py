"""Same bits in, same release out: every estimator × mechanism × space × home, pinned to the last bit."""

import json

import pytest

from golden.cases import PATH, cases, made

STORED = json.loads(PATH.read_text())
CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_a_release_is_what_it_was(name):
    assert made(CASES[name]) == STORED[name]


def test_every_case_is_stored_and_most_release():
    assert set(STORED) == set(CASES)
    assert sum("value" in case for case in STORED.values()) >= 120
