"""The K-norm gradient mechanism for means: its law by quadrature, pure ε by exact integration, and what print gets wrong."""

import json
import math

import mpmath as mp
import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.laws.knorm import KNormLaw
from curvedp.mechanisms import Certificate, KNGMechanism
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP
from curvedp.randomness import GeneratorSource

SPACES = [
    (Sphere(2), np.sin, 0.7),
    (Euclidean(2), lambda r: r, 0.7),
    (Lorentz(2), np.sinh, 1.0),
]


def at(M, z):
    return M.exp(M.origin, M.from_coordinates(M.origin, z))


def records(M, n, seed=0, spread=0.25):
    return at(M, spread * np.random.default_rng(seed).standard_normal((n, M.dim)) + 0.1)


def gradient_norm(M, X, x):
    """‖mean log‖ record by record, without the mechanism's code."""
    total = sum(M.log(x, y) for y in X) / len(X)
    return np.sqrt(M.inner(x, total, total))


def radial_cdf(M, sn, radius, X, scale):
    """CDF of the distance from the origin under exp(−‖∇E‖/s)·dvol, in polar coordinates with sn(r) dr dφ."""
    r = (np.arange(400) + 0.5) * radius / 400
    phi = (np.arange(200) + 0.5) * 2 * math.pi / 200
    rr, pp = np.meshgrid(r, phi, indexing="ij")
    z = np.stack([rr * np.cos(pp), rr * np.sin(pp)], axis=-1).reshape(-1, 2)
    weight = np.exp(-gradient_norm(M, X, at(M, z)) / scale).reshape(rr.shape).sum(
        axis=1
    ) * sn(r)
    edges = np.linspace(0, radius, 401)
    total = np.concatenate([[0.0], np.cumsum(weight)])
    return lambda d: np.interp(d, edges, total / total[-1])


@pytest.mark.parametrize(("M", "sn", "radius"), SPACES, ids=lambda x: type(x).__name__)
def test_the_law_of_releases_by_quadrature(M, sn, radius):
    n = 12
    X = records(M, n)
    mechanism = KNGMechanism.calibrated(M, None, radius, n, PureDP(3.0))
    source = GeneratorSource(np.random.default_rng(7))
    distances = [
        float(M.dist(M.origin, mechanism.release(X, source=source).value))
        for _ in range(100)
    ]
    law = KNormLaw(mechanism.domain, mechanism.scale)
    more = law.sample(
        np.random.default_rng(8),
        mechanism.gradient_norm(X),
        mechanism.lipschitz_constant(X),
        4000,
    )
    distances = np.concatenate([distances, M.dist(M.origin, more)])
    assert (
        stats.kstest(distances, radial_cdf(M, sn, radius, X, mechanism.scale)).pvalue
        > 1e-4
    )
    assert (
        stats.kstest(
            distances, radial_cdf(M, sn, radius, X, 1.3 * mechanism.scale)
        ).pvalue
        < 1e-6
    )


def worst_loss(M, sn, radius, D, E, scale):
    """max |log f(x;D)/f(x;E)| over a fine grid of the ball, normalizers by the same quadrature."""
    r = (np.arange(120) + 0.5) * radius / 120
    phi = (np.arange(96) + 0.5) * 2 * math.pi / 96
    rr, pp = np.meshgrid(r, phi, indexing="ij")
    x = at(M, np.stack([rr * np.cos(pp), rr * np.sin(pp)], axis=-1).reshape(-1, 2))
    logs = [-gradient_norm(M, X, x) / scale for X in (D, E)]
    volume = sn(rr).ravel()
    logs = [values - np.log(np.sum(volume * np.exp(values))) for values in logs]
    return float(np.max(np.abs(logs[0] - logs[1])))


@pytest.mark.parametrize(("M", "sn", "radius"), SPACES, ids=lambda x: type(x).__name__)
def test_pure_epsilon_holds_on_adversarial_pairs(M, sn, radius):
    """Adjacent data with a record at opposite ends of the ball, the others all together or spread."""
    n, eps = 4, 1.0
    mechanism = KNGMechanism.calibrated(M, None, radius, n, PureDP(eps))
    end = 0.999 * radius
    for others in (
        [[end, 0.0]] * 3,
        [[0.0, end]] * 3,
        [[0.0, 0.0]] * 3,
        [[-end, 0.0], [0.0, end], [0.0, -end]],
    ):
        D, E = (at(M, np.array([*others, last])) for last in ([end, 0.0], [-end, 0.0]))
        assert worst_loss(M, sn, radius, D, E, mechanism.scale) <= eps
        assert (
            worst_loss(M, sn, radius, D, E, mechanism.scale / 3) > eps
        )  # the check sees a scale that is too small


def test_erratum_e23_the_printed_scale_is_not_private():
    """REG App. A uses σ = Δ/ε, of the two that §2.3 prints.

    On [−1, 1] with n = 2, {1, 1} and {1, −1}: the log ratio is ε + log(2/(1 + e^−ε)).
    """
    eps, mechanism = (
        1.0,
        KNGMechanism.calibrated(Euclidean(1), None, 1.0, 2, PureDP(1.0)),
    )

    def log_ratio_at_one(scale):
        D, E = (
            (lambda x: math.exp(-abs(x - 1) / scale)),
            (lambda x: math.exp(-abs(x) / scale)),
        )
        mass = [integrate.quad(f, -1, 1, points=[0.0])[0] for f in (D, E)]
        return math.log(D(1.0) / mass[0]) - math.log(E(1.0) / mass[1])

    printed = log_ratio_at_one(mechanism.sensitivity / eps)
    assert printed == pytest.approx(eps + math.log(2 / (1 + math.exp(-eps))), abs=1e-6)
    assert printed > 1.3 * eps
    assert log_ratio_at_one(mechanism.scale) <= eps


def test_the_hessian_bound_is_a_lipschitz_constant():
    rng = np.random.default_rng(3)
    for M, radius in (
        (Sphere(2), 1.2),
        (Lorentz(2), 2.0),
        (SPDAffineInvariant(2), 2.0),
        (KendallShapes(4), 0.7),
    ):
        z = rng.standard_normal((30, M.dim))
        X = at(M, radius * 0.999 * z / np.linalg.norm(z, axis=1, keepdims=True))
        mechanism = KNGMechanism.calibrated(M, None, radius, 30, PureDP(1.0))
        norm = mechanism.gradient_norm(X)
        z = rng.standard_normal((2000, M.dim))
        x = at(
            M,
            radius
            * 0.99
            * rng.random((2000, 1)) ** 0.3
            * z
            / np.linalg.norm(z, axis=1, keepdims=True),
        )
        y = M.exp(x, M.from_coordinates(x, 1e-4 * rng.standard_normal((2000, M.dim))))
        slope = np.abs(norm(x) - norm(y)) / M.dist(x, y)
        assert slope.max() <= mechanism.lipschitz_constant(X) * (1 + 1e-6)


@pytest.mark.parametrize(
    "M",
    [PoincareBall(2), Rotations(3), KendallShapes(3), SPDAffineInvariant(2)],
    ids=repr,
)
def test_bad_records_are_mapped_and_the_release_stays_in_the_ball(M):
    X = records(M, 20)
    X[0], X[1] = np.nan, 1e200
    mechanism = KNGMechanism.calibrated(M, M.origin, 0.6, 20, PureDP(5.0))
    release = mechanism.release(X, source=GeneratorSource(np.random.default_rng(0)))
    assert float(M.dist(M.origin, release.value)) <= 0.6
    assert float(M.residual(release.value)) < 1e-9


def test_the_certificate_says_what_was_done():
    mechanism = KNGMechanism.calibrated(Sphere(2), None, 0.7, 50, GDP(1.0))
    certificate = mechanism.release(records(Sphere(2), 50)).certificate
    assert certificate.claims.gdp <= 1.0
    assert certificate.claims.gdp == pytest.approx(1.0)
    assert certificate.provenance.entropy["cryptographic"]
    assert "float64" in certificate.provenance.numerics["path"]
    assert certificate.provenance.numerics["slack"] is None
    assert Certificate.from_json(certificate.to_json()) == certificate
    stated = json.loads(certificate.to_json())
    assert stated["parameters"]["scale"] * stated["claims"]["pure"] >= 2 * stated[
        "sensitivity"
    ] * (1 - 1e-15)


def test_pure_epsilon_is_the_largest_that_meets_the_guarantee():
    eps = KNGMechanism.calibrated(
        Euclidean(1), None, 1.0, 5, ApproxDP(1.0, 1e-3)
    ).epsilon
    assert PureDP(eps).delta(1.0) <= 1e-3 < PureDP(eps * (1 + 1e-6)).delta(1.0)


@pytest.mark.parametrize("mu", [1e-15, 1e-9, 1e-6, 1e-3, 0.999, 1.0, 8.0])
def test_pure_epsilon_of_gdp_against_40_digits(mu):
    """tanh(ε/2) = erf(μ/√8). By a difference of logarithms ε was once 11 % too large at μ = 1e-15."""
    with mp.workdps(40):
        eps = mp.mpf(
            KNGMechanism.calibrated(Euclidean(1), None, 1.0, 5, GDP(mu)).epsilon
        )
        truth = 2 * mp.atanh(mp.erf(mp.mpf(mu) / mp.sqrt(8)))
        assert truth * (1 - 1e-11) <= eps <= truth


def test_bad_parameters_are_refused():
    for arguments in (
        (Sphere(2), None, 0.7, 1, PureDP(1.0)),
        (Sphere(2), None, -1.0, 5, PureDP(1.0)),
        (Sphere(2), None, math.nan, 5, PureDP(1.0)),
        (Sphere(2), None, 1.6, 5, PureDP(1.0)),
        (Sphere(2), [1.0, 1.0, 0.0], 0.7, 5, PureDP(1.0)),
        (Sphere(5), None, 0.7, 5, PureDP(1.0)),
        (Sphere(2), None, 0.7, 5, 1.0),
        ("sphere", None, 0.7, 5, PureDP(1.0)),
    ):
        with pytest.raises(ParameterError):
            KNGMechanism.calibrated(*arguments)
    with pytest.raises(UnattainableGuarantee):
        KNGMechanism.calibrated(Sphere(2), None, 0.7, 5, ZCDP(0.5))
    with pytest.raises(ParameterError):
        KNGMechanism.calibrated(Sphere(2), None, 0.7, 5, PureDP(1.0)).release(
            np.zeros((4, 3))
        )
