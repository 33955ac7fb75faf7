"""What the optimizers promise: derived a second time here, and attacked on a worst-case pair of datasets."""

import math

import jax
import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from curvedp.errors import UnattainableGuarantee
from curvedp.geometry import Euclidean
from curvedp.optim import Problem, dp_rgd, dp_rsgd, dp_rsvrg
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, compose
from curvedp.privacy.descent import (
    error_weights,
    rgd_guarantee,
    rgd_noise,
    rsgd_guarantee,
    rsgd_noise,
    rsvrg_guarantee,
    rsvrg_noise,
)
from curvedp.privacy.subsampled import subsampled_gaussian

# Its gradient is the record itself, wherever the iterate is: with records ±C the worst pair is met at every step.
LINEAR = Problem(Euclidean(1), lambda w, z: jax.numpy.sum(w * z))


def runs(optimizer, record, count, n=4, seed=0, **options):
    """Final points of `count` runs on n records, all 0 but one; learning rate 1, so that the point is minus the sum."""
    rng = np.random.default_rng(seed)
    data = np.zeros((n, 1))
    data[0] = record
    arguments = {"clip": 1.0, "learning_rate": 1.0, "rng": rng, **options}
    return np.array([optimizer(LINEAR, data, np.zeros(1), **arguments).point[0] for _ in range(count)])


def violations(claimed, first, second, confidence=1e-4):
    """max over events {x ≤ t} and ε of P(x ≤ t) − e^ε·Q(x ≤ t) − δ(ε), by Clopper–Pearson: positive only by a breach."""
    worst = -math.inf
    for cut in np.quantile(np.concatenate([first, second]), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]):
        k, j, count = int(np.sum(first <= cut)), int(np.sum(second <= cut)), len(first)
        low = stats.beta.ppf(confidence, k, count - k + 1) if k else 0.0
        high = stats.beta.ppf(1 - confidence, j + 1, count - j)
        worst = max(worst, max(low - math.exp(e) * high - float(claimed.delta(e)) for e in (0.0, 0.5, 1.0, 2.0, 3.0)))
    return worst


def test_gdp_of_dp_rgd_derived_by_hand():
    """T independent Gaussians shifted by Δ=2C/n: the likelihood ratio of the whole path depends on the sum alone."""
    n, steps, clip, noise = 50, 7, 0.3, 0.04
    mu = rgd_guarantee(n, steps, clip, noise).mu
    shift, spread = mpmath.mpf(2) * clip * steps / n, mpmath.sqrt(steps) * noise
    assert mu >= shift / spread
    assert mu == pytest.approx(float(shift / spread), rel=1e-12)
    # δ(ε) of that pair by brute quadrature against the GDP formula
    eps = 0.8
    first = lambda x: mpmath.npdf(x, shift, spread)  # noqa: E731
    second = lambda x: mpmath.npdf(x, 0, spread)  # noqa: E731
    cut = spread**2 * eps / shift + shift / 2
    brute = mpmath.quad(lambda x: first(x) - mpmath.exp(eps) * second(x), [cut, cut + spread, cut + 12 * spread])
    assert GDP(mu).delta(eps) == pytest.approx(float(brute), rel=1e-9)


@pytest.mark.parametrize("target", [GDP(0.7), ApproxDP(0.5, 1e-6), ZCDP(0.05), RenyiDP(4.0, 0.2), ApproxDP(8.0, 1e-10)])
def test_dp_rgd_noise_is_the_smallest_that_meets_the_guarantee(target):
    n, steps, clip = 1000, 20, 0.5
    noise = rgd_noise(n, steps, clip, target)
    mu = rgd_guarantee(n, steps, clip, noise).mu

    def needed(bound):  # the largest μ that meets the target, from the definitions
        if isinstance(bound, GDP):
            return bound.mu
        if isinstance(bound, ZCDP):
            return math.sqrt(2 * bound.rho)
        if isinstance(bound, RenyiDP):
            return math.sqrt(2 * bound.eps / bound.order)
        return optimize.brentq(lambda m: math.log(GDP(m).delta(bound.eps) / bound.delta0), 1e-3, 20, xtol=1e-14)

    assert mu == pytest.approx(needed(target), rel=2e-4)
    assert mu <= needed(target) * (1 + 1e-12)


def test_pure_dp_is_out_of_reach():
    with pytest.raises(UnattainableGuarantee, match="pure"):
        rgd_noise(100, 5, 1.0, PureDP(1.0))
    with pytest.raises(UnattainableGuarantee, match="pure"):
        rsgd_noise(100, 5, 10, 1.0, PureDP(1.0), "poisson")
    with pytest.raises(UnattainableGuarantee, match="pure"):
        rsvrg_noise(100, 2, 5, 10, (1.0, 1.0), PureDP(1.0), "poisson", 0.1)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_gdp_from_random_batches_covers_the_tail_of_their_loss(sampling):
    n, size, steps = 20, 10, 4
    for target, mu in ((GDP(2.0), 2.0), (ZCDP(2.0), 2.0), (RenyiDP(3.0, 6.0), 2.0)):
        noise = rsgd_noise(n, steps, size, 0.5, target, sampling)
        assert noise == pytest.approx(math.sqrt(steps) * 2 * 0.5 / (size * mu), rel=2e-4)  # a known batch of `size`
    eps = np.linspace(0.0, 12.0, 25)
    spent = rsgd_guarantee(n, steps, size, 0.5, noise, sampling).delta(eps)  # with the chance of the batches
    assert np.all(spent <= GDP(2.0).delta(eps))
    # Far out that chance helps at most by half: +C against −C with all other records 0 has the tail of a shift by C.
    assert spent[-1] > GDP(0.9).delta(12.0)


@pytest.mark.parametrize("target", [GDP(0.8), ZCDP(0.32)])
def test_gdp_from_variance_reduced_steps(target):
    n, epochs, inner, size, clip, rate = 400, 3, 10, 20, (0.7, 0.5), 0.1
    first, second = rsvrg_noise(n, epochs, inner, size, clip, target, "poisson", rate)
    cost = epochs * (2 * clip[0] / (n * first)) ** 2 + epochs * inner * (2 * clip[1] / (size * second)) ** 2
    assert math.sqrt(cost) == pytest.approx(0.8, rel=2e-4)
    assert math.sqrt(cost) <= 0.8
    a, b = error_weights(inner, rate)  # the split: no other pair of the same cost leaves a smaller error
    for factor in (0.9, 1.1):
        rest = 0.64 - epochs * (2 * clip[0] / (n * factor * first)) ** 2
        other = math.sqrt(epochs * inner / rest) * 2 * clip[1] / size
        assert a * (factor * first) ** 2 + b * other**2 > a * first**2 + b * second**2


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_random_batches_cost_what_the_accountant_says(sampling):
    n, steps, size, clip, noise = 200, 30, 10, 0.5, 0.1
    eps = np.array([0.2, 1.0, 3.0])
    found = rsgd_guarantee(n, steps, size, clip, noise, sampling)
    # Noise on the average of 10 is a tenth of the noise on the sum; the accountant speaks of sums of records of length 1.
    expected = subsampled_gaussian(10 * 0.1 / 0.5, 10 / 200, 30, sampling=sampling)
    assert np.array_equal(found.delta(eps), expected.delta(eps))
    whole = rsvrg_guarantee(n, 3, 10, size, (0.7, 0.5), (0.05, noise), sampling)
    both = compose(GDP(math.sqrt(3) * 2 * 0.7 / (n * 0.05)), subsampled_gaussian(2.0, 0.05, 30, sampling=sampling))
    np.testing.assert_allclose(whole.delta(eps), both.delta(eps), rtol=1e-9)


def test_noise_for_random_batches_meets_the_target_and_little_less_does_not():
    target = ApproxDP(1.0, 1e-5)
    noise = rsgd_noise(200, 30, 10, 0.5, target, "poisson")
    assert rsgd_guarantee(200, 30, 10, 0.5, noise, "poisson").delta(1.0) <= 1e-5
    assert rsgd_guarantee(200, 30, 10, 0.5, noise * 0.99, "poisson").delta(1.0) > 1e-5
    pair = rsvrg_noise(200, 3, 10, 10, (0.7, 0.5), target, "poisson", 0.1)
    assert rsvrg_guarantee(200, 3, 10, 10, (0.7, 0.5), pair, "poisson").delta(1.0) <= 1e-5
    less = (pair[0] * 0.98, pair[1] * 0.98)
    assert rsvrg_guarantee(200, 3, 10, 10, (0.7, 0.5), less, "poisson").delta(1.0) > 1e-5


def test_full_batches_are_dp_rgd():
    assert rsgd_guarantee(50, 9, 50, 0.5, 0.1, "poisson").mu == pytest.approx(rgd_guarantee(50, 9, 0.5, 0.1).mu)
    assert rsgd_noise(50, 9, 50, 0.5, GDP(1.0), "poisson") == rgd_noise(50, 9, 0.5, GDP(1.0))


def audited_mu(first, second):
    """Lower bound on μ from the median cut: Φ⁻¹ of two Clopper–Pearson bounds (Nasr et al. 2023, §4)."""
    count, cut = len(first), 0.5 * (first.mean() + second.mean())
    errors = [int(np.sum(first > cut)), int(np.sum(second <= cut))]
    bounds = [stats.beta.ppf(0.9999, k + 1, count - k) for k in errors]
    return -stats.norm.ppf(bounds[0]) - stats.norm.ppf(bounds[1])


def test_audit_of_dp_rgd():
    """The worst pair: a record that pulls fully one way at every step, or the other way."""
    options = {"steps": 4, "noise": 0.5, "count": 500}  # μ = 2·2/(4·0.5) = 2
    claimed = dp_rgd(
        LINEAR, np.zeros((4, 1)), np.zeros(1), steps=4, clip=1.0, learning_rate=1.0, noise=0.5
    ).guarantee.mu
    assert claimed == pytest.approx(2.0, rel=1e-9)
    first, second = runs(dp_rgd, 50.0, seed=1, **options), runs(dp_rgd, -50.0, seed=2, **options)
    assert 0.7 * claimed <= audited_mu(first, second) <= claimed
    # Caught: a σ 30% below what is claimed, and the noise of the mean put on the sum (n times too little).
    center = np.array([[first.mean()], [second.mean()]])
    noises = np.stack([first, second]) - center
    for factor in (0.7, 1 / 4):
        wrong = center + factor * noises
        assert audited_mu(wrong[0], wrong[1]) > claimed


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_audit_of_dp_rsgd(sampling):
    options = {"steps": 2, "noise": 0.5, "batch_size": 2, "sampling": sampling, "count": 500}
    claimed = rsgd_guarantee(4, 2, 2, 1.0, 0.5, sampling)
    first, second = runs(dp_rsgd, 50.0, seed=3, **options), runs(dp_rsgd, -50.0, seed=4, **options)
    assert violations(claimed, first, second) <= 0
    # The same observations break the claim of a curator who believes the noise twice as large as it is.
    assert violations(rsgd_guarantee(4, 2, 2, 1.0, 1.0, sampling), first, second) > 0


def test_audit_of_dp_rsvrg():
    """Differences of a linear loss vanish, so the attack sees the anchors' gradients: it must not beat what they cost."""
    options = {"epochs": 2, "inner_steps": 1, "noise": (0.5, 0.05), "batch_size": 2, "clip": (1.0, 1.0), "count": 300}
    first, second = runs(dp_rsvrg, 50.0, seed=5, **options), runs(dp_rsvrg, -50.0, seed=6, **options)
    anchors = rgd_guarantee(4, 2, 1.0, 0.5)
    assert violations(anchors, first, second) <= 0
    assert violations(rgd_guarantee(4, 2, 1.0, 1.0), first, second) > 0
    whole = rsvrg_guarantee(4, 2, 1, 2, (1.0, 1.0), (0.5, 0.05), "poisson")
    assert whole.delta(1.0) >= anchors.delta(1.0)
