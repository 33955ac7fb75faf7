"""What private balls measure: no record's vector is longer than its bound, and what is not finite counts nothing."""

import math

import numpy as np
import pytest

from curvedp.geometry import (
    Correlation,
    Euclidean,
    Lorentz,
    PoincareBall,
    Product,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.mechanisms.staged.queries import Queries, mean_sensitivity
from curvedp.mechanisms.staged.scale_search import (
    Bins,
    half_bin_count,
    likeliest_position,
    scaling_direction,
)
from curvedp.mechanisms.vector import NOISE_KINDS
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import open_records
from curvedp.statistics.searched_ball import SearchedMean, default_outer_radius
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at
from support.spaces import EDGES, SPACES


@pytest.mark.parametrize("r", [1e-300, 1e-3, 1.0, 1e150])
@pytest.mark.parametrize("dim", [1, 2, 50])
def test_clipped_vectors_are_as_long_as_their_bound_and_point_where_they_did(dim, r):
    u = np.random.default_rng(dim).normal(size=(9, dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    share = np.array([0.0, 1e-9, 0.5, 1 - 1e-6, 1 + 1e-6, 1.1, 2.0, 1e3, 1e9])
    found = clip_rows_to(r * share[:, None] * u, r) / r
    np.testing.assert_allclose(
        found, np.minimum(share, 1.0)[:, None] * u, rtol=0, atol=1e-12
    )
    bad = np.full((3, dim), 0.5 * r)
    bad[:, -1] = [math.nan, math.inf, -math.inf]
    with np.errstate(
        all="ignore"
    ):  # as its callers do: a data-dependent warning is a release
        assert np.array_equal(clip_rows_to(bad, r), np.zeros((3, dim)))


@pytest.mark.parametrize("M", SPACES + EDGES, ids=str)
def test_a_records_logarithm_depends_on_it_alone(M):
    """To the last bit: a record is charged for what it does to its own row of a sum, not to others' rows."""
    rng, c = np.random.default_rng(M.dim), np.asarray(M.origin)
    for size in (1e-8, 1e-6, 1e-3, 0.3):
        z = size * rng.standard_normal((8, M.dim))
        points = np.array(M.exp(c, M.from_coordinates(c, z)))
        before, others = logs_at(M, c, points), [0, 1, 3, 4, 7]
        points[2], points[5], points[6] = (
            -c,
            math.nan,
            1e3 * rng.standard_normal(M.point_shape),
        )
        assert np.array_equal(logs_at(M, c, points)[others], before[others])


@pytest.mark.parametrize("n", [1, 7, 10**6])
def test_mean_sensitivity_is_attained_by_opposite_vectors(n):
    """Attained by two records at opposite ends, and hardly more."""
    moved = mean_sensitivity(0.3, FixedPoint(0.6), 4, n)
    assert 0.6 / n < moved <= 0.6 / n * (1 + 1e-6) + 1e-15


def shares_of(law, t):
    """What records at lengths t of scale are at the edges of bins, on a cone and on a product with one."""
    cone = SPDAffineInvariant(2)
    half = half_bin_count(cone, 40.0, 2.0)
    x = np.asarray(
        cone.from_normal_coordinates(
            cone.origin, np.multiply.outer(t, scaling_direction(cone, cone.origin))
        )
    )
    both = Product(Sphere(2), cone)
    y = np.asarray(both.join([np.broadcast_to(Sphere(2).origin, (len(x), 3)), x]))
    of = (SearchedMean(M, None, 50.0, len(x)) for M in (cone, both))
    read = [
        Queries(S, open_records(each, S.manifold.point_shape))
        for S, each in zip(of, (x, y), strict=True)
    ]
    alone, within = (
        m.scale_histogram(M.origin, place, Bins(2.0, half, law))
        for m, M, place in zip(read, (cone, both), (0, 1), strict=True)
    )
    np.testing.assert_array_equal(alone, within)
    return alone


def moved(law, norm_of, pairs):
    """The most by which a replaced record moves the shares, in the length or the sum that its noise is for."""
    order = 1 if norm_of == "laplace" else 2
    return max(
        np.linalg.norm(shares_of(law, [0.3, a]) - shares_of(law, [0.3, b]), order)
        for a, b in pairs
    )


@pytest.mark.parametrize("law", NOISE_KINDS)
def test_a_record_moves_the_shares_of_units_as_far_as_two_counts(law):
    """In one bin, in two neighboring ones, on edges, at and beyond the ends."""
    rng = np.random.default_rng(0)
    places = np.concatenate(
        [
            rng.uniform(-45, 45, 40),
            rng.uniform(-4, 4, 40),
            2.0 * np.arange(-3, 4),
            [-44.0, 44.0],
        ]
    )
    pairs = [
        *zip(places, rng.permutation(places), strict=True),
        (0.0, 2.0),
        (2.0, 4.0),
        (0.0, 1.0),
        (-44.0, 44.0),
    ]
    most = {"gaussian": math.sqrt(2), "laplace": 2.0}[law]
    assert 0.999 * most < moved(law, law, pairs) <= most
    if law == "laplace":  # shares for Gaussian noise would be too much for this one
        assert moved("gaussian", law, pairs) > 1.3 * most


@pytest.mark.parametrize("law", NOISE_KINDS)
def test_shares_tell_where_between_two_edges_the_records_are(law):
    for t in (0.0, 0.3, -1.1, 3.0, 17.9, -38.0):
        sums = shares_of(law, np.full(50, t))
        assert 2 * likeliest_position(sums, 0.1, 50, law) == pytest.approx(t, abs=1e-4)
        noisy = sums + 1e4 * np.random.default_rng(1).normal(size=(3, sums.size))
        assert (
            likeliest_position(noisy, np.full(3, 1e4), 50, law) == 0.0
        ).all()  # nothing is known: the public center


def test_default_outer_balls_are_not_wider_than_doubles_reach():
    """A hyperbolic line is flat, and its coordinates at 10⁶ overflow all the same."""
    assert default_outer_radius(Euclidean(1)) == 1e6
    assert {
        default_outer_radius(M)
        for M in (Lorentz(1), PoincareBall(1), Correlation(2), Lorentz(2))
    } == {25.0}
