"""The Laplace law on matrices: normalizer and CDF by quadrature over eigenvalues, draws in floats and exact ones, pure DP."""

import functools
import math

import numpy as np
import pytest
from scipy import integrate, interpolate, stats

from curvedp import PrivateFrechetMean, PureDP
from curvedp.errors import NotIntegrable, ParameterError, UnattainableGuarantee
from curvedp.geometry import HPDAffineInvariant, SPDAffineInvariant
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import exact_laplace
from curvedp.laws.spd.laplace import FarLaplaceEnvelope, NearLaplaceEnvelope, SPDLaplace
from curvedp.mechanisms import LaplaceMechanism
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from support.goodness import accepts, off_origin, rejects

NEAR_AND_FAR = [
    (SPDAffineInvariant(2), 0.2),
    (SPDAffineInvariant(2), 0.5),
    (SPDAffineInvariant(3), 0.1),
    (SPDAffineInvariant(3), 0.35),
    (HPDAffineInvariant(2), 0.1),
    (HPDAffineInvariant(3), 0.2),
]


@functools.cache
def sphere_of_eigenvalues(m):
    """Nodes and weights on the unit sphere of ρ, m = 2 or 3: all orders at once, by symmetry."""
    if m == 2:  # from the wall ρ₁ = ρ₂, where |sinh| has its corner
        x, w = np.polynomial.legendre.leggauss(60)
        angle = np.pi / 4 + (x + 1) * np.pi / 2
        return np.stack([np.cos(angle), np.sin(angle)], -1), w
    x, w = np.polynomial.legendre.leggauss(60)
    theta = np.pi / 6 + (x + 1) * np.pi / 6  # one chamber around the trace
    plane = np.cos(theta)[:, None] * [1, -1, 0] / np.sqrt(2) + np.sin(theta)[
        :, None
    ] * [1, 1, -2] / np.sqrt(6)
    points = np.sqrt(1 - x[:, None, None] ** 2) * plane + x[:, None, None] * np.ones(
        3
    ) / np.sqrt(3)
    return points.reshape(-1, 3), np.outer(w, w).ravel()


def area(m, beta, r):
    """The sphere of radius r, up to a constant."""
    points, weights = sphere_of_eigenvalues(m)
    product = 1.0
    for i in range(m):
        for j in range(i):
            product = (
                product * np.abs(np.sinh((points[:, i] - points[:, j]) * r / 2)) ** beta
            )
    return r ** (m - 1) * float(weights @ product)


@pytest.mark.parametrize(("M", "scale"), NEAR_AND_FAR, ids=str)
def test_normalizer_moments_and_cdf_by_quadrature(M, scale) -> None:
    (m, beta), law, known = (
        M.cone_size,
        RiemannianLaplace(M, scale),
        RiemannianGaussian(M, 0.5),
    )
    top = law.mean_radius + 60 / (1 / scale - beta * math.sqrt(m * (m * m - 1) / 12))

    def mass(weight, end=top):
        return integrate.quad(
            lambda r: weight(r) * area(m, beta, r), 0, end, epsrel=1e-10, limit=400
        )[0]

    whole = mass(lambda r: math.exp(-r / scale))
    gauss = mass(lambda r: math.exp(-2 * r * r), 12.0)
    assert law.log_normalizer == pytest.approx(
        known.log_normalizer + math.log(whole / gauss), abs=1e-8
    )
    assert law.mean_radius == pytest.approx(
        mass(lambda r: r * math.exp(-r / scale)) / whole, rel=1e-8
    )
    assert law.mean_square_radius == pytest.approx(
        mass(lambda r: r * r * math.exp(-r / scale)) / whole, rel=1e-8
    )
    for r in (0.5 * law.mean_radius, 1.3 * law.mean_radius):
        assert law.radial_cdf(r) == pytest.approx(
            mass(lambda r: math.exp(-r / scale), r) / whole, abs=1e-7
        )


@pytest.mark.parametrize(("M", "scale"), NEAR_AND_FAR, ids=str)
def test_draws_in_floats_and_exact_ones_follow_the_law(M, scale) -> None:
    law, rng, center = (
        RiemannianLaplace(M, scale),
        np.random.default_rng(5),
        np.asarray(off_origin(M)),
    )
    distances = np.asarray(M.dist(center, law.sample(rng, center, 10_000)))
    knots = np.linspace(
        0, 1.01 * np.max(distances), 40
    )  # an integral each; cubics between them are off by 1e-3 at most
    assert accepts(
        stats.kstest(
            interpolate.PchipInterpolator(knots, law.radial_cdf(knots))(distances),
            "uniform",
        ).pvalue
    )
    wrong = RiemannianLaplace(M, 0.9 * scale).sample(rng, center, 10_000)
    assert rejects(stats.ks_2samp(np.asarray(M.dist(center, wrong)), distances).pvalue)
    source = GeneratorSource(rng)
    exact = np.stack(
        [
            exact_laplace(M, scale, center, source=source, grid=45).value
            for _ in range(200)
        ]
    )
    assert accepts(stats.ks_2samp(np.asarray(M.dist(center, exact)), distances).pvalue)
    first = M.to_coordinates(center, M.log(center, exact))[:, 0]
    assert accepts(stats.ks_2samp(first, -first).pvalue)  # no direction is preferred


@pytest.mark.parametrize("beta", [1, 2])
def test_both_envelopes_give_one_law_as_often_as_they_say(beta) -> None:
    law, rng, found = SPDLaplace(3, beta, 0.3 / beta), np.random.default_rng(6), []
    for envelope in (NearLaplaceEnvelope(law), FarLaplaceEnvelope(law)):
        rho, log_ratio = envelope.propose(rng, 200_000)
        assert np.max(log_ratio) <= 1e-12
        kept = np.log(rng.random(len(rho))) < log_ratio
        share = math.exp(envelope.log_acceptance)
        assert abs(kept.mean() - share) < 5 * math.sqrt(share / len(rho))
        found.append(rho[kept])
    assert all(
        accepts(stats.ks_2samp(found[0][:, i], found[1][:, i]).pvalue) for i in range(3)
    )
    assert rejects(stats.ks_2samp(found[0][:, 0], 1.1 * found[1][:, 0]).pvalue)


def test_the_loss_reaches_its_bound_and_never_exceeds_it() -> None:
    """Two footpoints Δ apart: |log ratio| ≤ Δ/σ at every draw, and comes within 3% of it."""
    M, scale = SPDAffineInvariant(3), 0.3
    law, eps = RiemannianLaplace(M, scale), 0.5 / scale
    far = np.diag(np.exp([0.5, 0.0, 0.0]))
    x = law.sample(np.random.default_rng(1), np.eye(3), 20_000)
    loss = np.abs(law.log_prob(x, np.eye(3)) - law.log_prob(x, far))
    assert np.max(loss) <= eps * (1 + 1e-9)
    assert np.max(loss) > 0.97 * eps
    profile = law.profile(0.5)
    assert profile.pure_epsilon == pytest.approx(eps, rel=1e-15)
    assert profile.delta(eps * (1 + 1e-12)) == 0.0
    ratio = np.exp(law.log_prob(x, far) - law.log_prob(x, np.eye(3)))
    for e in (0.0, 0.5, 1.0):  # δ(ε) = E₁(1 − e^ε p₂/p₁)₊
        assert np.mean(np.maximum(1 - np.exp(e) * ratio, 0.0)) < profile.delta(e)
    assert profile.mu >= eps / 2  # randomized response costs that much
    assert profile.rao == profile.pure_epsilon
    assert profile.renyi(2.0) <= eps
    assert 0 < profile.tradeoff(0.1) < 0.9


def test_a_mean_of_matrices_is_released_with_pure_epsilon() -> None:
    for M in (SPDAffineInvariant(3), HPDAffineInvariant(2)):
        X = RiemannianGaussian(M, 0.3).sample(np.random.default_rng(0), M.origin, 200)
        fitted = PrivateFrechetMean(
            M, radius=1.5, mechanism="laplace", guarantee=PureDP(1.0)
        ).fit(X)
        assert fitted.certificate_.claims.pure <= 1.0
        assert float(M.dist(M.origin, fitted.location_)) < 0.6
        assert not [
            check
            for check in verify_certificate(fitted.certificate_)
            if check.holds is False
        ]


def test_what_does_not_exist_is_refused() -> None:
    with pytest.raises(NotIntegrable, match=r"0\.707"):
        RiemannianLaplace(SPDAffineInvariant(3), 0.71)
    with pytest.raises(NotIntegrable):  # at the limit, 1/√2, too
        SPDLaplace(3, 1, math.sqrt(0.5))
    with pytest.raises(NotIntegrable):
        exact_laplace(SPDAffineInvariant(3), 0.71, np.eye(3))
    with pytest.raises(UnattainableGuarantee):
        LaplaceMechanism.calibrated(SPDAffineInvariant(3), 1.0, PureDP(1.0))
    with pytest.raises(ParameterError, match="small eigenvalues"):
        RiemannianLaplace(SPDAffineInvariant(3), 0.7).sample(
            np.random.default_rng(0), np.eye(3), 2
        )
    with pytest.raises(ParameterError, match="no rejection"):
        exact_laplace(SPDAffineInvariant(8), 0.05, np.eye(8))
    with pytest.raises(ParameterError, match="no certified profile"):
        RiemannianLaplace(SPDAffineInvariant(3), 0.1).certified_delta(0.1, 0.1)
