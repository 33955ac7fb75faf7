"""Clipped sums of gradients over all parameters, without torch: the frames are the coordinates' own."""

import warnings

import numpy as np
import pytest

from curvedp.adapters.training import clipped_sum


class Plain:
    """A parameter whose gradients are coordinates already."""

    def coordinates(self, gradients):
        return np.array(gradients, dtype=np.float64)


@pytest.mark.parametrize(
    "worst", [np.nan, np.inf, -np.inf, 1e308, 1e200, -1e160, 5e-324, 3.0], ids=str
)
def test_no_gradient_counts_for_more_than_the_clip_or_warns(worst):
    others = [np.full((4, 2), 0.1), np.full((4, 3), -0.2)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a data-dependent warning is a release
        before = clipped_sum([Plain(), Plain()], others, 0.5)
        others[1][2, 1] = worst
        after = clipped_sum([Plain(), Plain()], others, 0.5)
    assert np.linalg.norm(after - before) <= 2 * 0.5 * (1 + 1e-12)
