"""Errors that the papers print (docs/errata.md) or peers make, as mechanisms: our own audit must catch each.

Here those of the papers on Gaussian and Rao privacy and the audit's own soundness; those on optimization and regression are
in `test_peer_bugs_opt.py` and `test_peer_bugs_reg.py`. Each test builds the release as printed, gives it the claim that the
print makes, and asks the audit; the right claim or release must pass, so that a catch is not the audit's own error.

Not here, because no output can refute them: E3, E13, E14 are typing errors without a claim; E11 does not descend and E12
charges too much, at the same noise; E15 overstates a distance twice, E16 by 2% at Δ = σ, which errs to the safe side.
"""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from curvedp.audit import audit_scores
from curvedp.audit.empirical import neighbors, rounded, scores
from curvedp.geometry import Lorentz, Sphere
from curvedp.laws import RiemannianGaussian
from curvedp.mechanisms import GaussianMechanism
from curvedp.papers.rao.laws import GeneralizedGaussian, MultivariateGaussian
from curvedp.papers.rao.mechanisms import gaussian_theta, generalized_gaussian_theta
from curvedp.privacy import GDP, ApproxDP, RaoDP

N = 60_000


def holds(claim, first, second, **options):
    return audit_scores(claim, [first], [second], **options).holds


def test_e1_circle_profile():
    """Printed δ(0.3) = 0.0122 for σ=2, Δ=1 on S¹; true 0.0423. As a claim (0.3, 0.0122) it is refuted."""
    rng, law, M = (
        np.random.default_rng(0),
        RiemannianGaussian(Sphere(1), 2.0),
        Sphere(1),
    )
    ends = np.array([[1.0, 0.0], [math.cos(1), math.sin(1)]])
    outputs = [law.sample(rng, end, 4 * N) for end in ends]
    scores = [M.dist(ends[1], x) ** 2 - M.dist(ends[0], x) ** 2 for x in outputs]
    assert not holds(ApproxDP(0.3, 0.0122), *scores, delta=0.0122)
    assert holds(ApproxDP(0.3, 0.0423), *scores, delta=0.0423)


@pytest.fixture(scope="module")
def hyperbolic():
    """(mechanism, scores at both ends) on H³ with σ = Δ = 1, where μ = 1.3666."""
    mechanism, rng = GaussianMechanism(Lorentz(3), 1.0, 1.0), np.random.default_rng(0)
    pair = neighbors(mechanism)
    return mechanism, [
        scores(mechanism, pair, mechanism.simulate(rng, p, N)) for p in pair
    ]


def test_e2_maximum_over_a_grid(hyperbolic):
    """A maximum over ε = 4, 5, …, 8 misses the supremum, which is at ε = 0: 1.281 instead of 1.3666."""
    mechanism, scores = hyperbolic

    def equal_mu(eps):
        return brentq(
            lambda mu: GDP(mu).delta(eps) - mechanism.privacy_profile.delta(eps),
            0.5,
            3.0,
        )

    printed = max(equal_mu(eps) for eps in np.arange(4.0, 9.0))
    assert printed == pytest.approx(1.281, abs=1e-3)
    assert not audit_scores(GDP(printed), *scores).holds
    assert audit_scores(mechanism.privacy_profile, *scores).holds


def test_e4_tail_limit(hyperbolic):
    """The limit of μ(ε) as ε grows, Δ/σ = 1, decides whether μ is finite, not how large it is."""
    mechanism, scores = hyperbolic
    assert not audit_scores(GDP(1.0), *scores).holds
    assert audit_scores(GDP(mechanism.privacy_profile.mu), *scores).holds


def shifted(law, distance, seed=0):
    """Outputs of noise of the law on ℝ² about two centers, seen along the shift."""
    rng, centers = (
        np.random.default_rng(seed),
        np.array([[0.0, 0.0], [0.6 * distance, 0.8 * distance]]),
    )
    return [
        rounded(law.sample(rng, center, N) @ centers[1] / distance)
        for center in centers
    ]


def variation(theta):
    """θ-Rao DP implies a total variation of at most sin(θ/2): the claim at ε = 0, which outputs refute."""
    return {"delta": float(RaoDP(theta).delta(0.0)) + 1e-6}


def test_e17_generalized_gaussian_parametrization():
    """exp(−(|x|/σ)²) has σ = √2·sd. With σ read as the standard deviation, as N = 2 suggests, θ = Δ/σ: √2 too small."""
    outputs, printed = (
        shifted(GeneralizedGaussian(2, 1.0, 2.0), 1.0),
        gaussian_theta(1.0, 1.0),
    )
    right = generalized_gaussian_theta(1.0, 1.0, 2.0)
    assert not holds(RaoDP(printed), *outputs, **variation(printed))
    assert holds(RaoDP(right), *outputs, **variation(right))


def test_e18_rao_of_the_gaussian():
    """√(Σ|Δμ|²/σ) instead of √(Σ|Δμ|²)/σ: for σ < 1 the printed angle is too small."""
    shift, sigma = 0.25, 0.25
    outputs = shifted(MultivariateGaussian(2, sigma), shift)
    printed, right = shift / math.sqrt(sigma), gaussian_theta(shift, sigma)
    assert not holds(RaoDP(printed), *outputs, **variation(printed))
    assert holds(RaoDP(right), *outputs, **variation(right))


def test_the_bound_is_sound_for_the_true_law():
    """Of 60 audits at confidence 0.9 of a tight claim at most a tenth may fail, within four standard errors."""
    rng, failures = np.random.default_rng(0), 0
    for _ in range(60):
        pair = rng.normal(0, 1, 2000), rng.normal(1, 1, 2000)
        failures += not audit_scores(
            GDP(1.0), [pair[0]], [pair[1]], confidence=0.9
        ).holds
    assert stats.binom.sf(failures - 1, 60, 0.1) > 1e-4
