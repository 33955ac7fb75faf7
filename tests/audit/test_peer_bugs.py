"""Errors that the papers print (SPEC §1, docs/errata.md) or peers make, as mechanisms: our own audit must catch each.

Each test builds the release as printed, gives it the claim that the print makes, and asks the audit. The right version of
the same release must pass with the same outputs' number, so that a catch is not the audit's own error.
"""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from curvedp.audit import audit_optimiser, audit_scores
from curvedp.geometry import PoincareBall, SPDBuresWasserstein, SPDLogEuclidean, Sphere
from curvedp.laws import RiemannianGaussian
from curvedp.privacy import GDP, ApproxDP, PureDP, RaoDP

N = 60_000


def holds(claim, first, second, **options):
    return audit_scores(claim, [first], [second], **options).holds


def gaussian_pair(shift, sd, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, sd, N), rng.normal(shift, sd, N)


def test_e1_circle_profile():
    """Printed δ(0.3) = 0.0122 for σ=2, Δ=1 on S¹; true 0.0423. As a claim (0.3, 0.0122) it is refuted."""
    rng, law, M = np.random.default_rng(0), RiemannianGaussian(Sphere(1), 2.0), Sphere(1)
    ends = np.array([[1.0, 0.0], [math.cos(1), math.sin(1)]])
    outputs = [law.sample(rng, end, 4 * N) for end in ends]
    scores = [M.dist(ends[1], x) ** 2 - M.dist(ends[0], x) ** 2 for x in outputs]
    assert not holds(ApproxDP(0.3, 0.0122), *scores, delta=0.0122)
    assert holds(ApproxDP(0.3, 0.0423), *scores, delta=0.0423)


@pytest.fixture(scope="module")
def hyperbolic():
    """(mechanism, scores at both ends) on H³ with σ = Δ = 1, where μ = 1.3666."""
    from curvedp.audit.pairs import neighbours, scores
    from curvedp.geometry import Lorentz
    from curvedp.mechanisms import GaussianMechanism

    mechanism, rng = GaussianMechanism(Lorentz(3), 1.0, 1.0), np.random.default_rng(0)
    pair = neighbours(mechanism)
    return mechanism, [scores(mechanism, pair, mechanism.simulate(rng, p, N)) for p in pair]


def test_e2_maximum_over_a_grid(hyperbolic):
    """A maximum over ε = 4, 5, …, 8 misses the supremum, which is at ε = 0: 1.281 instead of 1.3666."""
    mechanism, scores = hyperbolic

    def equal_mu(eps):
        return brentq(lambda mu: GDP(mu).delta(eps) - mechanism.profile.delta(eps), 0.5, 3.0)

    printed = max(equal_mu(eps) for eps in np.arange(4.0, 9.0))
    assert printed == pytest.approx(1.281, abs=1e-3)
    assert not audit_scores(GDP(printed), *scores).holds
    assert audit_scores(mechanism.profile, *scores).holds


def test_e4_tail_limit(hyperbolic):
    """The limit of μ(ε) as ε grows, Δ/σ = 1, decides whether μ is finite, not how large it is."""
    mechanism, scores = hyperbolic
    assert not audit_scores(GDP(1.0), *scores).holds
    assert audit_scores(GDP(mechanism.profile.mu), *scores).holds


@pytest.mark.parametrize("printed", [True, False])
def test_e5_clip(printed):
    """min{‖ν‖/τ, 1}·ν does not clip: a record with a long gradient moves the sum by more than 2τ."""
    tau, records = 1.0, np.array([[0.5], [3.0]])

    def clip(v):
        return v * min(abs(v[0]) / tau, 1) if printed else v * min(tau / abs(v[0]), 1)

    sums = [sum(clip(v) for v in records)[0], sum(clip(v) for v in (records[0], -records[1]))[0]]
    pair = gaussian_pair(sums[1] - sums[0], 2 * tau)
    assert holds(GDP(1.0), *pair) is not printed


def _tangent_noise(direction_norm, sigma, seed=0):
    """Scores along a unit tangent direction when the noise's standard deviation there is `direction_norm`·σ."""
    return gaussian_pair(1.0, direction_norm * sigma, seed)


def test_e6_bures_noise():
    """4C⊙A at I, whose metric is ¼tr, is noise of standard deviation 2σ: the stated claim holds, at half its accuracy."""
    M, identity, rng = SPDBuresWasserstein(2), np.eye(2), np.random.default_rng(0)
    c = np.array([[1.0, math.sqrt(0.5)], [math.sqrt(0.5), 1.0]])
    a = rng.standard_normal((N, 3))
    symmetric = np.stack([a[:, [0, 1]], a[:, [1, 2]]], axis=1)
    printed, right = (M.to_coordinates(identity, factor * c * symmetric) for factor in (4, 2))
    assert stats.kstest(right[:, 0], "norm").pvalue > 1e-4
    assert stats.kstest(printed[:, 0], "norm").pvalue < 1e-6
    half = N // 2
    for noise, tight in ((right, True), (printed, False)):
        found = audit_scores(GDP(1.0), [noise[:half, 0]], [1 + noise[half:, 0]])
        assert found.holds
        assert (found.audited_mu > 0.8) is tight


def test_e7_log_euclidean_transport():
    """f = (x−y)/(eˣ−eʸ) of λ instead of (λr−λs)/(log λr−log λs): noise along e₁₂ is far too small."""
    M, lam = SPDLogEuclidean(2), np.array([2.0, 5.0])
    W = np.diag(lam)
    printed = (lam[0] - lam[1]) / (np.exp(lam[0]) - np.exp(lam[1]))
    tangent = printed / math.sqrt(2) * np.array([[0.0, 1.0], [1.0, 0.0]])
    length = float(M.norm(W, tangent))  # of what should be a unit vector
    assert length < 0.5
    assert not holds(GDP(1.0), *_tangent_noise(length, 1.0))


def test_e8_poincare_metric():
    """The frame eᵢ·√(1−‖w‖²)/2 of the printed metric 4/(1−‖w‖²) is not orthonormal: half the noise, or less."""
    M, w = PoincareBall(2), np.array([0.6, 0.0])
    printed = np.array([math.sqrt(1 - 0.36) / 4, 0.0])  # scale a/4
    length = float(M.norm(w, printed))
    assert length == pytest.approx(0.625)
    assert not holds(GDP(1.0), *_tangent_noise(length, 1.0))
    assert holds(GDP(1.0), *_tangent_noise(float(M.norm(w, M.from_coordinates(w, np.array([1.0, 0.0])))), 1.0))


def test_e10_sphere_basis():
    """ēᵢ − wᵢ₊₁w is not orthonormal: along w's own direction the noise shrinks."""
    w = np.array([math.cos(1.2), math.sin(1.2), 0.0])
    basis = np.eye(3)[1:] - w[1:, None] * w
    shortest = np.linalg.svd(basis)[1].min()
    assert shortest < 0.5
    assert not holds(GDP(1.0), *_tangent_noise(shortest, 1.0))


@pytest.mark.parametrize("sd", [0.25])
def test_e18_rao_of_the_gaussian(sd):
    """√(Σ|Δμ|²/σ) instead of √(Σ|Δμ|²)/σ: for σ < 1 the printed angle is too small."""
    pair = gaussian_pair(0.25, sd)
    printed, true = RaoDP(0.25 / math.sqrt(sd)), RaoDP(0.25 / sd)
    assert not holds(printed, *pair, delta=float(printed.delta(0.0)) + 1e-6)  # TV ≤ sin(θ/2) is what is refuted
    assert holds(true, *pair, delta=float(true.delta(0.0)) + 1e-6)


def test_e17_generalised_gaussian_parametrisation():
    """N=2 means σ = √2·sd: read as sd, the angle is understated by √2."""
    pair = gaussian_pair(1.0, 1.0 / math.sqrt(2))
    assert not holds(RaoDP(1.0), *pair, delta=float(RaoDP(1.0).delta(0.0)) + 1e-6)
    assert holds(RaoDP(math.sqrt(2)), *pair, delta=float(RaoDP(math.sqrt(2)).delta(0.0)) + 1e-6)


@pytest.mark.parametrize(("claimed", "caught"), [(math.cos(1), True), (1.0, False)])
def test_e19_e20_e24_regression_sensitivity(claimed, caught):
    """The gradient moves by 2τ·sup‖d_p Exp‖/n with sup = 1, not cos 1 (E20, and E19/E24 understate alike)."""
    n, tau = 10, 0.3
    moved = 2 * tau / n  # attained: a record at x = 0 whose residual turns round
    assert holds(GDP(1.0), *gaussian_pair(moved, 2 * tau * claimed / n)) is not caught


def test_e21_noise_scaled_by_the_data():
    """τ := largest residual in the data: the noise's scale itself tells the neighbours apart."""
    rng = np.random.default_rng(0)
    first, second = rng.laplace(0, 1.0, N), rng.laplace(0, 8.0, N)
    assert not audit_scores(PureDP(1.0), [np.abs(first)], [np.abs(second)]).holds
    assert audit_scores(PureDP(1.0), [np.abs(first)], [np.abs(rng.laplace(0, 1.0, N))]).holds


def _kng_line(center, scale, count, rng):
    """exp(−|x − center|/scale) on [−1, 1], by inversion."""
    x = np.linspace(-1, 1, 200_001)
    cdf = np.cumsum(np.exp(-np.abs(x - center) / scale))
    return np.interp(rng.random(count), cdf / cdf[-1], x)


@pytest.mark.parametrize(("factor", "caught"), [(1, True), (2, False)])
def test_e23_kng_normaliser(factor, caught):
    """s = Δ/ε forgets that the normaliser depends on the data: records {1, 1} against {1, −1} on [−1, 1], Δ = 1."""
    rng, eps = np.random.default_rng(0), 2.0
    first, second = (_kng_line(center, factor * 1.0 / eps, 4 * N, rng) for center in (1.0, 0.0))
    assert holds(PureDP(eps), first, second) is not caught


def test_e22_velocity_from_the_data():
    """p drawn with v̂ fixed from the data: a leverage point turns v̂ and with it the whole law of p, whatever ε says."""
    x = np.array([1.0, 1.0, 1.0, 0.0])
    ys = [np.array([0.0, 0.0, 0.0, 0.25]), np.array([0.0, 0.0, 0.0, -0.25])]
    rng, eps, sensitivity, outputs = np.random.default_rng(0), 1.0, 2 * 0.25 / len(x), []
    for y in ys:
        slope = np.polyfit(x, y, 1)[0]  # from the data, not private
        outputs.append(_kng_line(np.mean(y - slope * x), 2 * sensitivity / eps, N, rng))
    assert not holds(PureDP(eps), *outputs)


def test_sum_noised_at_the_scale_of_the_mean():
    """n times too little noise: n records, the SUM of clipped gradients, σ of the mean. One run shows it."""
    n, clip, mu = 1000, 1.0, 0.3

    def run(noise):
        def train(coins, rng):
            return clip * coins + noise * rng.standard_normal(n), GDP(mu)

        return audit_optimiser(train, n, guess_share=1.0, rng=np.random.default_rng(0))

    assert not run(2 * clip / (n * mu)).holds
    assert run(2 * clip / mu).holds


def test_markov_chain_taken_for_exact():
    """A few Metropolis steps from the true statistic are not a draw of the law: its start shines through."""
    rng, eps = np.random.default_rng(0), 1.0

    def chain(center, steps):
        x = np.full(N, center)
        for _ in range(steps):
            y = x + 0.05 * rng.standard_normal(N)
            accept = np.log(rng.random(N)) < (np.abs(x - center) - np.abs(y - center)) * eps
            x = np.where(accept, y, x)
        return x

    assert not holds(PureDP(eps), chain(0.0, 20), chain(1.0, 20))
    assert holds(PureDP(eps), rng.laplace(0, 1 / eps, N), rng.laplace(1, 1 / eps, N))


def test_the_bound_is_sound_for_the_true_law():
    """Of 60 audits at confidence 0.9 of a tight claim at most a tenth may fail, within four standard errors."""
    rng, failures = np.random.default_rng(0), 0
    for _ in range(60):
        pair = rng.normal(0, 1, 2000), rng.normal(1, 1, 2000)
        failures += not audit_scores(GDP(1.0), [pair[0]], [pair[1]], confidence=0.9).holds
    assert stats.binom.sf(failures - 1, 60, 0.1) > 1e-4
