"""What private balls measure: no record's vector is longer than its bound, and what is not finite counts nothing."""

import math

import numpy as np
import pytest

from curvedp.geometry.numerics.fixed_point import FixedPoint
from curvedp.mechanisms.measured import clip, mean_moved


@pytest.mark.parametrize("r", [1e-300, 1e-3, 1.0, 1e150])
@pytest.mark.parametrize("dim", [1, 2, 50])
def test_clipped_vectors_are_as_long_as_their_bound_and_point_where_they_did(dim, r):
    u = np.random.default_rng(dim).normal(size=(9, dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    share = np.array([0.0, 1e-9, 0.5, 1 - 1e-6, 1 + 1e-6, 1.1, 2.0, 1e3, 1e9])
    found = clip(r * share[:, None] * u, r) / r
    np.testing.assert_allclose(found, np.minimum(share, 1.0)[:, None] * u, rtol=0, atol=1e-12)
    bad = np.full((3, dim), 0.5 * r)
    bad[:, -1] = [math.nan, math.inf, -math.inf]
    with np.errstate(all="ignore"):  # as its callers do: a data-dependent warning is a release
        assert np.array_equal(clip(bad, r), np.zeros((3, dim)))


@pytest.mark.parametrize("n", [1, 7, 10**6])
def test_a_mean_moves_by_the_distance_of_opposite_vectors(n):
    """Attained by two records at opposite ends, and hardly more."""
    moved = mean_moved(0.3, FixedPoint(0.6), 4, n)
    assert 0.6 / n < moved <= 0.6 / n * (1 + 1e-6) + 1e-15
