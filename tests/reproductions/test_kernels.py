"""E14: the derivative kernels printed for the covariance descriptors do not differentiate."""

import numpy as np
from scipy.ndimage import convolve

from curvedp.papers.opt.descriptors import (
    FIRST_DERIVATIVE,
    SECOND_DERIVATIVE,
    covariance_descriptors,
)

PRINTED = (
    np.array([[1, 0, -1], [2, 0, -2], [6, 0, -12]]) / 4
)  # and once more for the other axis


def test_e14_the_printed_kernel_sees_edges_in_a_blank_image():
    blank = np.ones((9, 9))
    assert np.all(convolve(blank, PRINTED, mode="nearest") == -1.5)
    for kernel in (
        FIRST_DERIVATIVE,
        FIRST_DERIVATIVE.T,
        SECOND_DERIVATIVE,
        SECOND_DERIVATIVE.T,
    ):
        assert np.all(convolve(blank, kernel, mode="nearest") == 0)


def test_e14_ours_are_derivatives():
    """A ramp has one slope everywhere and no curvature, a parabola one curvature; the other axis sees nothing."""
    inside = (slice(3, -3), slice(3, -3))
    x = np.broadcast_to(np.arange(12.0), (12, 12))
    assert np.ptp(convolve(x, FIRST_DERIVATIVE, mode="nearest")[inside]) == 0
    assert np.all(
        convolve(x, FIRST_DERIVATIVE, mode="nearest")[inside] == 2
    )  # over two pixels
    assert np.all(convolve(x, FIRST_DERIVATIVE.T, mode="nearest")[inside] == 0)
    assert np.all(convolve(x, SECOND_DERIVATIVE, mode="nearest")[inside] == 0)
    assert np.all(
        convolve(x**2 / 2, SECOND_DERIVATIVE, mode="nearest")[inside] == 2
    )  # smoothed by ½, steps of two pixels
    assert np.all(convolve(x**2 / 2, SECOND_DERIVATIVE.T, mode="nearest")[inside] == 0)


def test_e14_brightness_does_not_change_the_descriptor():
    """With true derivatives, adding light everywhere moves no feature but the colors' means."""
    images = np.random.default_rng(0).integers(0, 200, (2, 28, 28, 3)).astype(np.uint8)
    np.testing.assert_allclose(
        covariance_descriptors(images + np.uint8(50)),
        covariance_descriptors(images),
        atol=1e-12,
    )
