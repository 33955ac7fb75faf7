"""The same random bits give the same releases as before (see `cases`)."""

import json

import pytest

from golden.cases import PATH, golden_cases

STORED = json.loads(PATH.read_text())
CASES = golden_cases()

# Releases are rounded to multiples of 2^-40 or finer of their scale. A sum in another
# order may move the last digits of the value before rounding; noise hides far more.
VALUE_TOLERANCE = 1e-9
CLAIM_TOLERANCE = 1e-9


@pytest.mark.parametrize("name", CASES)
def test_release_has_not_moved(name):
    release = CASES[name]()
    stored = STORED[name]

    assert release["mechanism"] == stored["mechanism"]
    assert release["value"] == pytest.approx(
        stored["value"], rel=VALUE_TOLERANCE, abs=VALUE_TOLERANCE
    )
    assert release["sensitivity"] == pytest.approx(
        stored["sensitivity"], rel=CLAIM_TOLERANCE
    )
    for claimed, expected in zip(release["claims"], stored["claims"], strict=True):
        assert claimed == (expected and pytest.approx(expected, rel=CLAIM_TOLERANCE))


def test_every_case_is_stored():
    assert set(STORED) == set(CASES)
