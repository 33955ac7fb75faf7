"""Local noise about records of a public ball: every two of them are as private as stated."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import Euclidean, Lorentz, SPDAffineInvariant, Sphere
from curvedp.local import LocalGaussian, LocalLaplace, verify_local_certificate
from curvedp.local.bounded import BoundedNoise
from curvedp.privacy import GDP, ApproxDP, PureDP
from support.goodness import accepts, ks, rejects
from support.randomness import seeded_source

POLE = [0.0, 0.0, 1.0]


def normal_delta(epsilon, distance, sigma):
    """δ of two normal laws this far apart, in closed form (Balle and Wang 2018)."""
    half, shift = distance / (2 * sigma), epsilon * sigma / distance
    return norm.cdf(half - shift) - math.exp(epsilon) * norm.cdf(-half - shift)


def test_gaussian_noise_of_flat_space_is_calibrated_to_the_diameter():
    mechanism = LocalGaussian(Euclidean(3), [1.0, 0.0, 0.0], 0.5, ApproxDP(1.0, 1e-6))
    # Two records of the ball are at most 1 apart.
    assert normal_delta(1.0, 1.0, mechanism.scale) <= 1e-6
    assert normal_delta(1.0, 1.01, mechanism.scale) > 1e-6
    # Calibrated to the radius, it would not be private.
    assert normal_delta(1.0, 1.0, mechanism.scale / 2) > 1e-6


def test_laplace_noise_has_log_ratio_epsilon_at_most():
    mechanism = LocalLaplace(Sphere(2), POLE, 0.4, PureDP(2.0))
    rng = np.random.default_rng(0)
    X = mechanism.space.read(rng.standard_normal((200, 3)))
    distances = Sphere(2).dist(X[:, None], X[None])
    assert distances.max() <= mechanism.sensitivity
    assert distances.max() / mechanism.scale <= 2.0
    assert distances.max() / mechanism.scale > 1.9
    assert distances.max() / (mechanism.scale / 2) > 2.0  # half the noise is caught


@pytest.mark.parametrize(
    ("kind", "manifold", "center", "guarantee"),
    [
        (LocalGaussian, Euclidean(3), np.zeros(3), GDP(1.0)),
        (LocalLaplace, Euclidean(2), np.zeros(2), PureDP(1.0)),
        (LocalGaussian, Sphere(2), np.array(POLE), GDP(0.5)),
        (LocalLaplace, Lorentz(2), np.array([1.0, 0.0, 0.0]), PureDP(4.0)),
        (LocalGaussian, SPDAffineInvariant(2), np.eye(2), GDP(2.0)),
    ],
)
def test_reports_are_finite_and_verify_whatever_the_record(
    kind, manifold, center, guarantee
):
    mechanism = kind(manifold, center, 0.5, guarantee)
    shape = manifold.point_shape
    X = np.stack(
        [np.full(shape, value) for value in (np.nan, np.inf, 1e300, 0.0)] + [center]
    )
    reports = mechanism.randomize(X)
    assert reports.shape == X.shape
    assert np.isfinite(reports).all()
    checks = verify_local_certificate(mechanism.certificate_)
    assert all(check.holds for check in checks), checks
    assert np.isfinite(mechanism.simulate(X, np.random.default_rng(0))).all()


def test_unreadable_records_are_reported_as_the_center():
    mechanism = LocalGaussian(Euclidean(2), [3.0, 4.0], 1.0, GDP(1.0))
    X = np.array([[np.nan, 0.0], [1e9, 4.0]])
    read = mechanism.space.read(X)
    assert read[0].tolist() == [3.0, 4.0]
    assert np.linalg.norm(read[1] - [3.0, 4.0]) <= 1.0 + 1e-9


def test_flat_noise_of_many_records_is_normal():
    mechanism = LocalGaussian(Euclidean(3), np.zeros(3), 1.0, GDP(1.0))
    X = np.tile([0.25, -0.5, 0.125], (4000, 1))  # three blocks of numbers
    reports = mechanism.randomize(X, source=seeded_source(6))
    z = (reports - X) / mechanism.scale
    assert accepts(ks(z, norm.cdf))
    assert rejects(ks(z * 1.1, norm.cdf))
    assert abs(np.corrcoef(z.T)[0, 1]) < 0.07


def test_slack_grows_with_the_blocks_a_record_lies_in():
    small = LocalGaussian(Euclidean(1), [0.0], 1.0, GDP(1.0)).report_slack
    pair = LocalGaussian(Euclidean(2), np.zeros(2), 1.0, GDP(1.0)).report_slack
    large = LocalGaussian(Euclidean(4098), np.zeros(4098), 1.0, GDP(1.0)).report_slack
    assert small == 2.0**-100
    assert pair == 2 * small
    assert large == 3 * small


def test_bad_parameters_are_refused():
    good = {
        "manifold": Euclidean(2),
        "center": [0.0, 0.0],
        "radius": 1.0,
        "guarantee": GDP(1.0),
    }
    for bad in (
        {"radius": 0.0},
        {"radius": np.inf},
        {"center": [0.0]},
        {"manifold": "euclidean:2"},
        {"guarantee": PureDP(1.0)},  # Gaussian noise meets no pure ε
    ):
        with pytest.raises((ParameterError, UnattainableGuarantee)):
            LocalGaussian(**{**good, **bad})
    assert issubclass(LocalGaussian, BoundedNoise)
