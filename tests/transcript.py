"""What a pair of neighbors is told apart by: Σ (difference/noise)² over every number that is drawn, by brute force.

Every exact draw of a release is caught where it is made. The first data set leads: what it releases is its own numbers with
scripted noise. The second is led along the same released values, so that every stage is asked at the same points. Nothing
that the mechanism says of its own sensitivities is used. The log-likelihood ratio of two Gaussian transcripts has variance
Σ (difference/noise)², which must be at most μ² for every pair and every path.
"""

import numpy as np
import pytest

from curvedp.laws.exact import ExactDraw
from curvedp.laws.exact.draw import drawn_base

MODULES = ["gaussian", "newton", "regression", "stages", "gradient", "sums"]


class Caught:
    """Flat draws only: values and noise as they were asked for, and what was released of them."""

    def __init__(self):
        self.asked = []

    def lead(self, rng):
        def draw(manifold, scale, center, *, source=None, grid=30):
            value = np.asarray(center, dtype=float)
            whole = np.round((value + scale * rng.standard_normal(value.shape)) * 2.0**grid)
            self.asked.append(
                (value, scale, np.array([int(k) for k in whole.ravel()], dtype=object).reshape(value.shape))
            )
            return ExactDraw(self.asked[-1][2], grid, 2.0**-100, manifold, drawn_base(manifold))

        return draw

    def follow(self, leader):
        path = iter(leader.asked)

        def draw(manifold, scale, center, *, source=None, grid=30):
            _, noise, whole = next(path)
            assert noise == scale  # public, so the same on both sides
            self.asked.append((np.asarray(center, dtype=float), scale, whole))
            return ExactDraw(whole, grid, 2.0**-100, manifold, drawn_base(manifold))

        return draw


def spent(release, one, two, seed=0):
    """Σ (difference/noise)² of all that `release` draws at two data sets, along one path."""
    leader, follower = Caught(), Caught()
    _caught(leader.lead(np.random.default_rng(seed)), release, one)
    _caught(follower.follow(leader), release, two)
    assert len(leader.asked) == len(follower.asked)
    pairs = zip(leader.asked, follower.asked, strict=True)
    return sum(float(np.sum(((a[0] - b[0]) / a[1]) ** 2)) for a, b in pairs)


def _caught(draw, release, data):
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(f"curvedp.mechanisms.{module}.exact_gaussian", draw)
        release(data)
