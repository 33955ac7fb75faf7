"""The search over splits on functions whose maximum is known."""

import math

import numpy as np
import pytest

from curvedp.privacy import _split_search as split


def test_pieces_of_the_search():
    assert split._direction(math.pi / 2).tolist() == [0.0, 1.0]
    assert split._direction(0.0).tolist() == [1.0, 0.0]
    assert split._direction(0.3) == pytest.approx([math.cos(0.3), math.sin(0.3)])
    peak = split._climb(lambda x: 3 - (x - 0.12345) ** 2, 0.12)
    assert peak == pytest.approx(3.0, abs=1e-12)
    assert split._climb(lambda x: 3 + x, 0.9999) == pytest.approx(4.0, abs=1e-6)


def test_the_largest_of_known_functions():
    c, tilt = np.array([1.0, 1.4]), np.array([0.2, 0.9])

    def value(u):
        w = np.asarray(u) ** 2
        return np.array([w @ c, math.exp(w @ tilt) / (1 + w @ tilt)])

    asked = []
    found = split.largest_over_splits(lambda u: (asked.append(1), value(u))[1])
    truth = np.array([1.4, math.exp(0.9) / 1.9])
    assert np.all(found >= truth * (1 - 1e-12))
    assert found == pytest.approx(truth, rel=1e-5)
    assert len(asked) <= 33
    for low, high, best in ((0.0, 0.5, 0.5), (1.0, 1.5, 1.0)):  # linear in u itself: harder than what is spent
        part = split.largest_over_splits(lambda u: np.array([u @ [1.0, 1.0]]), low, high)
        truth = math.cos(best) + math.sin(best)
        assert truth * (1 - 1e-12) <= part[0] <= truth * (1 + 2e-7)
    kink = split.largest_over_splits(lambda u: np.array([math.exp(40 * min(1.2 * u[0], u[1]))]))
    corner = math.sin(math.atan(1.2))
    assert kink[0] >= math.exp(40 * corner) * (1 - 1e-12)
    assert kink[0] <= math.exp(40 * corner) * 1.01
