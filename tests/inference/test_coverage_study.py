"""The coverage study of docs/theory/inference.md still runs, and its shares are near their level."""

import pytest

from benchmarks import coverage
from curvedp.geometry import Sphere


@pytest.mark.parametrize("mechanism", coverage.MECHANISMS)
def test_a_line_of_the_table(mechanism, monkeypatch):
    for name, few in (("SIZES", (100,)), ("BUILT", 40), ("THROUGH", 4), ("NEWTON", 40)):
        monkeypatch.setattr(coverage, name, few)
    worst, share, *_ = coverage._line(Sphere(2), mechanism, 2000).split()
    assert (
        float(worst) > -0.07
    )  # 40 of 40 have a lower bound of 0.928, 0.062 below 0.99
    assert float(share) > 0.92
