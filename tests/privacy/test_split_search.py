"""The search over splits on functions whose maximum is known."""

import math

import numpy as np
import pytest

from curvedp.privacy import _split_search as split


def test_lattices_of_splits():
    for n, steps in ((2, 5), (3, 4), (4, 3)):
        w = split._simplex(n, steps)
        assert len(w) == math.comb(steps + n - 1, n - 1)
        assert w.sum(axis=1) == pytest.approx(np.ones(len(w)))
        assert w.min() == 0.0
        assert len(np.unique(w.round(12), axis=0)) == len(w)
    assert split._simplex(2, 2)[1] == pytest.approx([0.5, 0.5])
    assert split._direction(math.pi / 2).tolist() == [0.0, 1.0]
    assert split._direction(0.0).tolist() == [1.0, 0.0]
    assert split._direction(0.3) == pytest.approx([math.cos(0.3), math.sin(0.3)])
    assert split._unit(np.array([[3.0, 4.0], [1e-13, 2.0]])).tolist() == [[0.6, 0.8], [0.0, 1.0]]
    for size, degree in ((15, 2), (45, 5), (78, 7)):
        u = split._unit(np.random.default_rng(0).random((200, 3)))
        basis = split._monomials(u, size)
        assert basis.shape[1] == math.comb(degree + 2, 2) + math.comb(degree + 1, 2) <= 0.9 * size
        assert np.linalg.matrix_rank(basis) == basis.shape[1]
    peak = split._climb(lambda x: 3 - (x[:, 0] - 0.12345) ** 2, np.array([0.12]))
    assert peak == pytest.approx(3.0, abs=1e-12)
    assert split._climb(lambda x: 3 + x[:, 0], np.array([0.9999])) == pytest.approx(4.0, abs=1e-6)
    c = np.array([0.2, 0.3, 0.5])
    peak = split._climb(lambda x: 2 - ((x - c) ** 2).sum(axis=1), np.array([0.25, 0.3, 0.45]))
    assert peak == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_largest_of_known_functions(n):
    c, tilt = np.linspace(1.0, 1.4, n), np.linspace(0.2, 0.9, n)

    def value(u):
        w = np.asarray(u) ** 2
        return np.array([w @ c, math.exp(w @ tilt) / (1 + w @ tilt)])

    asked = []
    found = split.largest_over_splits(lambda u: (asked.append(1), value(u))[1], n)
    truth = np.array([1.4, math.exp(0.9) / 1.9])
    assert np.all(found >= truth * (1 - 1e-12))
    assert found == pytest.approx(truth, rel=1e-5)
    assert split.largest_over_splits(lambda u: np.array([u.sum()]), 1) == pytest.approx([1.0])
    if n == 2:
        assert len(asked) <= 33
        for low, high, best in ((0.0, 0.5, 0.5), (1.0, 1.5, 1.0)):  # linear in u itself: harder than what is spent
            part = split.largest_over_splits(lambda u: np.array([u @ [1.0, 1.0]]), 2, low, high)
            truth = math.cos(best) + math.sin(best)
            assert truth * (1 - 1e-12) <= part[0] <= truth * (1 + 2e-7)
        kink = split.largest_over_splits(lambda u: np.array([math.exp(40 * min(1.2 * u[0], u[1]))]), 2)
        corner = math.sin(math.atan(1.2))
        assert kink[0] >= math.exp(40 * corner) * (1 - 1e-12)
        assert kink[0] <= math.exp(40 * corner) * 1.01
