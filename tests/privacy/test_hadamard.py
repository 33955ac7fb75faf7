"""The bound by the Ricci curvature, against exact profiles of other code, draws, and wrong versions of itself."""

import math

import numpy as np
import pytest

from curvedp import Ledger, PrivateFrechetMean
from curvedp.errors import CurvedpError, ParameterError, UnattainableGuarantee
from curvedp.geometry import (
    Euclidean,
    HPDAffineInvariant,
    Lorentz,
    Product,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.geometry.capabilities import ricci_lower_bound
from curvedp.laws import RiemannianGaussian
from curvedp.mechanisms import GaussianMechanism
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from curvedp.privacy.calibration import meets
from curvedp.privacy.profiles.ricci_bound import HadamardProfile, hadamard_scale
from curvedp.release.verify import verify_certificate

EPS = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 4.0])
CASES = [
    (Lorentz(d), s, D)
    for d in (2, 3, 10)
    for s in (0.02, 0.2, 0.7 / math.sqrt(d - 1))
    for D in (0.1 * s, s, 3 * s)
]
CASES += [
    (M, s, s) for M, s in ((SPDAffineInvariant(2), 0.1), (HPDAffineInvariant(2), 0.6))
]


@pytest.mark.parametrize(("M", "sigma", "D"), CASES, ids=str)
def test_never_below_the_exact_profile(M, sigma, D):
    exact = RiemannianGaussian(M, sigma).profile(D)
    bound = HadamardProfile.from_ricci_bound(M.dim, sigma, D, ricci_lower_bound(M))
    assert np.all(bound.delta(EPS) >= exact.delta(EPS) * (1 - 1e-8))
    assert exact.mu <= bound.mu * (1 + 1e-8)
    assert bound.mu <= exact.mu / math.sqrt(1 + ricci_lower_bound(M) * sigma**2) * (
        1 + 1e-8
    )
    assert exact.renyi(3.0) <= bound.renyi(3.0) * (1 + 1e-8)
    assert exact.rao <= bound.rao * (1 + 1e-8)
    assert exact.hellinger_angle <= bound.hellinger_angle * (1 + 1e-8)
    alpha = np.array([0.01, 0.2, 0.5, 0.9])
    assert np.all(bound.tradeoff(alpha) <= exact.tradeoff(alpha) + 1e-9)


def _apart(M):
    """diag(1, 0, …, −1): a velocity along which the curvature is felt."""
    v = np.zeros(M.point_shape)
    (
        v[(0, 0) if v.ndim == 2 else (0, 0, 0)],
        v[(-1, -1) if v.ndim == 2 else (-1, -1, 0)],
    ) = 1.0, -1.0
    return v


@pytest.mark.parametrize(
    "wrong", [0.0, 1 / 4], ids=["flat", "a quarter of the curvature"]
)
def test_a_smaller_curvature_would_be_refuted(wrong):
    """Flat noise, and Ric taken four times too small, claim less than the exact profile of H¹⁰."""
    M, sigma, D = Lorentz(10), 0.2, 0.4
    exact, lie = (
        RiemannianGaussian(M, sigma).profile(D),
        HadamardProfile.from_ricci_bound(10, sigma, D, wrong * ricci_lower_bound(M)),
    )
    assert lie.mu < exact.mu


@pytest.mark.parametrize(
    "M", [SPDAffineInvariant(3), HPDAffineInvariant(3), SPDAffineInvariant(5)], ids=repr
)
def test_ricci_of_matrices_is_the_least(M):
    """Σ of the curvature operator's eigenvalues, along random and the worst directions."""
    worst = np.asarray(M.to_coordinates(M.origin, _apart(M)))
    directions = [worst, *np.random.default_rng(0).standard_normal((20, M.dim))]
    velocities = [
        np.asarray(M.from_coordinates(M.origin, u / np.linalg.norm(u)))
        for u in directions
    ]
    ricci = [np.trace(M.jacobi_operator(M.origin, v)) for v in velocities]
    assert min(ricci) == pytest.approx(ricci_lower_bound(M), rel=1e-9)


@pytest.mark.parametrize("M", [SPDAffineInvariant(3), HPDAffineInvariant(3)], ids=repr)
def test_draws_never_refute_it(M):
    """E(1 − e^{ε−L})₊ over exact draws and the direction in which the curvature is felt most; half the μ is refuted."""
    sigma, D = 0.5, 0.5
    law, p = RiemannianGaussian(M, sigma), M.origin
    bound = law.profile(D)
    assert isinstance(bound, HadamardProfile)
    x = law.sample(np.random.default_rng(3), p, 40_000)
    x = x if x.ndim == 3 else x[..., 0] + 1j * x[..., 1]
    for v in (
        np.array([1.0, 0.0, -1.0]),
        np.ones(3),
    ):  # the distance to e^V, V diagonal
        shrink = np.exp(-D * v / np.linalg.norm(v) / 2)
        moved = np.log(np.linalg.eigvalsh(x * shrink * shrink[:, None]))
        loss = (
            np.sum(moved**2, axis=1)
            - np.sum(np.log(np.linalg.eigvalsh(x)) ** 2, axis=1)
        ) / (2 * sigma**2)
        for eps in (0.0, 0.5, 1.0):
            seen = np.maximum(-np.expm1(eps - loss), 0.0)
            error = 4 * seen.std() / math.sqrt(seen.size)
            assert seen.mean() - error <= float(bound.delta(eps))
            assert seen.mean() - error > float(GDP(bound.mu / 2).delta(eps))


@pytest.mark.parametrize("k", [0.0, 0.5, 0.75, 1.5, 9.0])
def test_the_scale_is_the_smallest(k):
    for flat in np.geomspace(1e-6, 0.5 / math.sqrt(k) * (1 - 1e-9) if k else 1e3, 9):
        sigma = hadamard_scale(float(flat), -k)
        assert k * sigma**2 <= 0.5
        assert sigma * math.sqrt(1 - k * sigma**2) == pytest.approx(flat, rel=1e-11)
        assert HadamardProfile.from_ricci_bound(3, sigma, 1.0, -k).scale >= flat
    if k:
        with pytest.raises(UnattainableGuarantee, match="tangent-gaussian"):
            hadamard_scale(0.51 / math.sqrt(k), -k)
        with pytest.raises(ParameterError, match="no bound"):
            HadamardProfile.from_ricci_bound(3, 0.8 / math.sqrt(k), 1.0, -k)


TARGETS = [GDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.3), RenyiDP(4.0, 1.0)]


@pytest.mark.parametrize(
    "M", [HPDAffineInvariant(2), HPDAffineInvariant(3), SPDAffineInvariant(6)], ids=repr
)
@pytest.mark.parametrize("target", TARGETS, ids=repr)
def test_calibrated_in_no_time(M, target):
    mechanism = GaussianMechanism.calibrated(M, 0.005, target)
    assert meets(mechanism.privacy_profile, target)
    assert not meets(
        GaussianMechanism(M, 0.005, 0.999 * mechanism.sigma).privacy_profile, target
    )


def test_mixed_products_and_what_is_out_of_reach():
    mixed = Product(SPDAffineInvariant(3), Lorentz(2), Euclidean(4))
    assert ricci_lower_bound(mixed) == -1.0
    assert GaussianMechanism.calibrated(mixed, 0.01, GDP(0.5)).privacy_profile.mu <= 0.5
    for target, chart in (
        (GDP(0.1), "tangent-gaussian"),
        (PureDP(1.0), "tangent-laplace"),
    ):
        with pytest.raises(UnattainableGuarantee, match=chart):
            GaussianMechanism.calibrated(HPDAffineInvariant(3), 0.5, target)
    assert (
        RiemannianGaussian(Product(Sphere(2), SPDAffineInvariant(3)), 0.1).ricci_bound(
            0.1
        )
        is None
    )
    exact = GaussianMechanism.calibrated(
        SPDAffineInvariant(2), 0.4, GDP(1.0)
    )  # wide: the exact profile, tighter
    assert exact.sigma < hadamard_scale(0.4, -0.5) * 0.97


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("mechanism", ["gaussian", "auto"])
def test_released_on_complex_covariances_of_every_size(m, mechanism):
    M = HPDAffineInvariant(m)
    z = 0.3 * np.random.default_rng(m).standard_normal((150, M.dim))
    mean = PrivateFrechetMean(M, radius=1.5, guarantee=GDP(1.0), mechanism=mechanism)
    mean.fit(np.asarray(M.exp(M.origin, M.from_coordinates(M.origin, z))))
    assert all(
        check.holds is not False for check in verify_certificate(mean.certificate_)
    )
    assert float(M.dist(mean.location_, M.origin)) < 1.0
    assert 0 < mean.predicted_error_ < 0.3


def test_refused_before_the_ledger(tmp_path):
    M = HPDAffineInvariant(3)
    ledger = Ledger(tmp_path / "book", budget=GDP(3.0))
    x = np.repeat(M.origin[None], 2, axis=0)
    with pytest.raises(CurvedpError, match="tangent-gaussian"):
        PrivateFrechetMean(
            M, radius=1.0, guarantee=GDP(0.5), mechanism="gaussian", ledger=ledger
        ).fit(x)
    assert ledger.spent is None


@pytest.mark.parametrize("excess", [2.0**-50, 2.0**-44, 2.0**-41, 1e-9, 1.0])
def test_beyond_the_end_of_the_bound_is_refused_by_name(excess):
    """flat² = 1/(4k) is the most: next to it too, where no scale in floats does."""
    for k in (0.3, 1.0, 7.0):
        with pytest.raises(UnattainableGuarantee, match="no proved bound"):
            hadamard_scale(0.5 / math.sqrt(k) * (1 + excess), -k)
        within = hadamard_scale(0.5 / math.sqrt(k) * (1 - 1e-9), -k)
        assert within**2 * k <= 0.5
