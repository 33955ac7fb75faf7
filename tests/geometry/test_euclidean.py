"""Flat space at the ends of the floating range."""

import numpy as np
import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean


@pytest.mark.parametrize("scale", [1e-300, 1e-15, 1.0, 1e15, 1e300])
def test_distance_at_every_scale(scale):
    M = Euclidean(3)
    q = scale * np.array([2.0, 3.0, 6.0])
    np.testing.assert_allclose(M.dist(np.zeros(3), q), 7 * scale, rtol=4e-16)
    np.testing.assert_allclose(M.norm(np.zeros(3), q), 7 * scale, rtol=4e-16)


def test_residual_is_nan_only_off_the_numbers():
    with np.errstate(invalid="ignore"):
        residual = Euclidean(2).residual(
            np.array([[1.0, 2.0], [np.nan, 0.0], [np.inf, 0.0]])
        )
    np.testing.assert_array_equal(np.isnan(residual), [False, True, True])


@pytest.mark.parametrize(
    "size", [0, -1, 2.0, float("nan"), float("inf"), True, "3", None]
)
def test_sizes_are_whole_and_positive(size):
    with pytest.raises(ParameterError, match=r"d=.* must be"):
        Euclidean(size)
