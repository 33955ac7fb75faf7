"""The cell sampler: cells tile, bound and thin the target, and a wrong Lipschitz constant is seen."""

import math

import numpy as np
import pytest
from scipy import stats

from curvedp.errors import EnvelopeViolation
from curvedp.geometry import (
    Euclidean,
)
from curvedp.laws.knorm.cells import (
    LipschitzRejectionSampler,
    _cube_corners,
    _ThinningEstimate,
)
from curvedp.laws.knorm.domains import GeodesicBall


def test_corners_and_thinning():
    assert sorted(map(tuple, _cube_corners(2).tolist())) == [
        (-1, -1),
        (-1, 1),
        (1, -1),
        (1, 1),
    ]
    assert _cube_corners(3).shape == (8, 3)
    thin = _ThinningEstimate(2, 2)
    reach, depth = np.array([[0.5, 0.3], [0.0, 0.0]]), np.array([1.0, 2.0])
    w = np.linalg.norm(
        np.random.default_rng(9).uniform(-1, 1, (200_000, 2, 2)), axis=2
    ) / math.sqrt(2)
    truth = np.log(
        np.mean(np.exp(-np.maximum(depth[:, None] - reach @ w.T, 0.0)), axis=1)
    )
    assert thin(reach, depth) == pytest.approx(truth, abs=0.05)
    assert thin(reach, depth)[1] == pytest.approx(-2.0, rel=1e-12)


def test_cells_bound_the_target_and_count_their_work():
    """g = |x − a| on a disc: after refining, cells still tile it, bound g from below and the target from above."""
    ball, calls = GeodesicBall(Euclidean(2), radius=1.0), []

    def g(x):
        calls.append(len(x))
        return np.linalg.norm(x - [0.3, 0.1], axis=-1)

    sampler = LipschitzRejectionSampler(ball, 0.05, g, (1.0,), np.random.default_rng(0))
    for _ in range(4):
        assert sampler._refine()
    c = sampler._cells
    assert sampler.build_evaluations == sum(calls)
    assert sampler.trial_evaluations == 0
    area = np.prod(2 * c.half_edges, axis=(1,)) ** 2
    assert area.sum() <= 4 + 1e-12
    x = np.random.default_rng(1).uniform(-1, 1, (4000, 2))
    x = x[np.linalg.norm(x, axis=1) <= 1]
    owner = np.all(
        np.abs(x[:, None] - c.center[None, :, 0]) <= c.half_edges[None, :, 0, None],
        axis=2,
    )
    assert np.all(owner.sum(axis=1) == 1)
    cell = owner.argmax(axis=1)
    value = np.linalg.norm(x - [0.3, 0.1], axis=1)
    assert np.all(c.lower[cell] <= value)
    assert np.all(c.lower >= 0)
    assert np.all(-value / 0.05 <= c.log_upper_bound[cell] + 1e-12)
    assert c.log_mass == pytest.approx(c.log_upper_bound + np.log(area), rel=1e-9)
    assert np.all(np.linalg.norm(c.evaluation_point[:, 0], axis=1) <= 1 + 1e-12)
    assert c.value == pytest.approx(
        np.linalg.norm(c.evaluation_point[:, 0] - [0.3, 0.1], axis=1)
    )
    before = sum(calls)
    points = sampler.draw(500)
    assert points.shape == (500, 1, 2)
    assert sampler.build_evaluations + sampler.trial_evaluations == sum(calls) > before
    assert sampler.trial_evaluations >= 500
    assert sampler.draw(0).shape == (0, 1, 2)
    for wrong in (
        lambda x: np.full(len(x), -1.0),
        lambda x: np.zeros(3),
        lambda x: np.full(len(x), math.nan),
    ):
        with pytest.raises(EnvelopeViolation, match="numbers >= 0"):
            LipschitzRejectionSampler(
                ball, 0.05, wrong, (1.0,), np.random.default_rng(0)
            ).draw(5)
    with pytest.raises(EnvelopeViolation, match="Lipschitz"):
        LipschitzRejectionSampler(ball, 0.05, g, (0.9,), np.random.default_rng(0)).draw(
            200
        )


def test_a_level_target_needs_no_cells():
    """g constant: the root cell has no excess, so nothing is split and the draw is uniform."""
    ball = GeodesicBall(Euclidean(2), radius=2.0)
    sampler = LipschitzRejectionSampler(
        ball, 1.0, lambda x: np.full(len(x), 3.0), (0.0,), np.random.default_rng(0)
    )
    assert not sampler._refine()
    z = sampler.draw(3000)[:, 0]
    assert sampler.build_evaluations == 1
    assert (
        stats.kstest(
            np.linalg.norm(z, axis=1) / 2, lambda r: np.clip(r, 0, 1) ** 2
        ).pvalue
        > 1e-4
    )
    assert (
        stats.kstest(
            np.arctan2(z[:, 1], z[:, 0]) / (2 * math.pi) + 0.5, "uniform"
        ).pvalue
        > 1e-4
    )


def test_a_bump_that_is_too_steep_is_seen_while_cells_are_split():
    """Before anything is drawn: a child's value against its parent's, over the distance between them."""
    ball, top = GeodesicBall(Euclidean(2), radius=1.0), np.array([0.7, 0.7])

    def g(x):
        return 10 * np.maximum(0.2 - np.linalg.norm(x - top, axis=-1), 0.0)

    sampler = LipschitzRejectionSampler(ball, 0.05, g, (1.0,), np.random.default_rng(0))
    with pytest.raises(EnvelopeViolation, match="Lipschitz"):
        [sampler._refine() for _ in range(4)]
    gentle = LipschitzRejectionSampler(ball, 0.05, g, (10.0,), np.random.default_rng(0))
    for _ in range(4):
        assert gentle._refine()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_local_constants_are_asked_for_as_far_as_a_cell_reaches(dim):
    """g = |x|² has the constant 2(|x| + reach) there: no less than that bounds g in the corners of a cell."""

    def local(x, moved):
        return (2 * (np.linalg.norm(x, axis=-1, keepdims=True) + moved),)

    ball = GeodesicBall(Euclidean(dim), radius=1.0)
    sampler = LipschitzRejectionSampler(
        ball, 0.1, lambda x: np.sum(x * x, axis=-1), local, np.random.default_rng(0)
    )
    for _ in range(3):
        assert sampler._refine()
    c = sampler._cells
    corners = c.center[:, 0, None] + c.half_edges[:, :, None] * _cube_corners(dim)
    apart = np.linalg.norm(corners - c.evaluation_point[:, :1], axis=2).max(
        axis=1
    )  # the farthest corner
    within = np.linalg.norm(c.center[:, 0], axis=1) <= 1
    assert np.all(
        c.lipschitz[within, 0]
        >= 2
        * (np.linalg.norm(c.evaluation_point[within, 0], axis=1) + apart[within])
        * (1 - 1e-12)
    )
