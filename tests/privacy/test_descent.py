"""What descents cost, derived a second time: by hand, by quadrature and from the accountants of their parts."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import optimize, stats

from curvedp.errors import ParameterError, UnattainableGuarantee
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RenyiDP, compose
from curvedp.privacy.optimizer_accounting import (
    add_remove_clip,
    add_remove_guarantee,
    add_remove_noise,
    add_remove_rsvrg_guarantee,
    add_remove_rsvrg_noise,
    check_guarantee_or_noise,
    error_weights,
    rgd_guarantee,
    rgd_noise,
    rounded_clip,
    rsgd_guarantee,
    rsgd_noise,
    rsvrg_guarantee,
    rsvrg_noise,
)
from curvedp.privacy.subsampling import subsampled_gaussian

ADDED = {"adjacency": "add-remove"}
TARGETS = [GDP(1.0, **ADDED), ApproxDP(2.0, 1e-6, **ADDED), ZCDP(0.5, **ADDED)]


def test_gdp_of_dp_rgd_derived_by_hand():
    """T independent Gaussians shifted by Δ=2C/n: the likelihood ratio of the whole path depends on the sum alone."""
    n, steps, clip, noise = 50, 7, 0.3, 0.04
    mu = rgd_guarantee(n, steps, clip, noise).mu
    shift, spread = mpmath.mpf(2) * clip * steps / n, mpmath.sqrt(steps) * noise
    assert mu >= shift / spread
    assert mu == pytest.approx(float(shift / spread), rel=1e-12)
    # δ(ε) of that pair by brute quadrature against the GDP formula
    eps = 0.8
    first = lambda x: mpmath.npdf(x, shift, spread)  # noqa: E731 - a density in a line
    second = lambda x: mpmath.npdf(x, 0, spread)  # noqa: E731 - a density in a line
    cut = spread**2 * eps / shift + shift / 2
    brute = mpmath.quad(
        lambda x: first(x) - mpmath.exp(eps) * second(x),
        [cut, cut + spread, cut + 12 * spread],
    )
    assert GDP(mu).delta(eps) == pytest.approx(float(brute), rel=1e-9)


@pytest.mark.parametrize(
    "target",
    [
        GDP(0.7),
        ApproxDP(0.5, 1e-6),
        ZCDP(0.05),
        RenyiDP(4.0, 0.2),
        ApproxDP(8.0, 1e-10),
    ],
)
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
        return optimize.brentq(
            lambda m: math.log(GDP(m).delta(bound.eps) / bound.delta0),
            1e-3,
            20,
            xtol=1e-14,
        )

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
        assert noise == pytest.approx(
            math.sqrt(steps) * 2 * 0.5 / (size * mu), rel=2e-4
        )  # a known batch of `size`
    eps = np.linspace(0.0, 12.0, 25)
    spent = rsgd_guarantee(n, steps, size, 0.5, noise, sampling).delta(
        eps
    )  # with the chance of the batches
    assert np.all(spent <= GDP(2.0).delta(eps))
    # Far out that chance helps at most by half: +C against −C with all other records 0 has the tail of a shift by C.
    assert spent[-1] > GDP(0.9).delta(12.0)


@pytest.mark.parametrize("target", [GDP(0.8), ZCDP(0.32)])
def test_gdp_from_variance_reduced_steps(target):
    n, epochs, inner, size, clip, rate = 400, 3, 10, 20, (0.7, 0.5), 0.1
    first, second = rsvrg_noise(n, epochs, inner, size, clip, target, "poisson", rate)
    cost = (
        epochs * (2 * clip[0] / (n * first)) ** 2
        + epochs * inner * (2 * clip[1] / (size * second)) ** 2
    )
    assert math.sqrt(cost) == pytest.approx(0.8, rel=2e-4)
    assert math.sqrt(cost) <= 0.8
    a, b = error_weights(
        inner, rate
    )  # the split: no other pair of the same cost leaves a smaller error
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
    # The noise multiplier is rounded down, so that δ is slightly larger.
    np.testing.assert_allclose(found.delta(eps), expected.delta(eps), rtol=1e-11)
    whole = rsvrg_guarantee(n, 3, 10, size, (0.7, 0.5), (0.05, noise), sampling)
    both = compose(
        GDP(math.sqrt(3) * 2 * 0.7 / (n * 0.05)),
        subsampled_gaussian(2.0, 0.05, 30, sampling=sampling),
    )
    np.testing.assert_allclose(whole.delta(eps), both.delta(eps), rtol=1e-9)


def test_noise_for_random_batches_meets_the_target_and_little_less_does_not():
    target = ApproxDP(1.0, 1e-5)
    noise = rsgd_noise(200, 30, 10, 0.5, target, "poisson")
    assert rsgd_guarantee(200, 30, 10, 0.5, noise, "poisson").delta(1.0) <= 1e-5
    assert rsgd_guarantee(200, 30, 10, 0.5, noise * 0.99, "poisson").delta(1.0) > 1e-5
    pair = rsvrg_noise(200, 3, 10, 10, (0.7, 0.5), target, "poisson", 0.1)
    assert (
        rsvrg_guarantee(200, 3, 10, 10, (0.7, 0.5), pair, "poisson").delta(1.0) <= 1e-5
    )
    less = (pair[0] * 0.98, pair[1] * 0.98)
    assert (
        rsvrg_guarantee(200, 3, 10, 10, (0.7, 0.5), less, "poisson").delta(1.0) > 1e-5
    )


def test_full_batches_are_dp_rgd():
    assert rsgd_guarantee(50, 9, 50, 0.5, 0.1, "poisson").mu == pytest.approx(
        rgd_guarantee(50, 9, 0.5, 0.1).mu
    )
    assert rsgd_noise(50, 9, 50, 0.5, GDP(1.0), "poisson") == rgd_noise(
        50, 9, 0.5, GDP(1.0)
    )


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_noise_of_variance_reduced_steps_meets_the_guarantee(target, rate):
    noise, count = add_remove_rsvrg_noise(3, 10, rate, (0.7, 0.3), target, 0.2)
    if isinstance(target, ApproxDP):
        assert (
            add_remove_rsvrg_guarantee(3, 10, rate, (0.7, 0.3), noise, count).delta(2.0)
            <= 1e-6
        )
        less = 0.97 * noise[0], 0.97 * noise[1]
        assert (
            add_remove_rsvrg_guarantee(
                3, 10, rate, (0.7, 0.3), less, 0.97 * count
            ).delta(2.0)
            > 1e-6
        )
    else:  # by hand
        mu = math.sqrt(
            3 * (0.7 / noise[0]) ** 2 + 30 * (0.3 / noise[1]) ** 2 + 1 / count**2
        )
        assert 1 - 2e-4 < mu <= 1


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_noise_meets_the_guarantee_and_little_less_does_not(target, rate):
    noise, count = add_remove_noise(20, rate, 0.7, target)
    if isinstance(target, ApproxDP):
        assert add_remove_guarantee(20, rate, 0.7, noise, count).delta(2.0) <= 1e-6
        assert (
            add_remove_guarantee(20, rate, 0.7, 0.98 * noise, 0.98 * count).delta(2.0)
            > 1e-6
        )
    else:  # known batches: by hand
        mu = math.sqrt(20 * (0.7 / noise) ** 2 + 1 / count**2)
        most = 1.0
        assert most * (1 - 2e-4) < mu <= most
        assert 1 / count**2 == pytest.approx(mu**2 / 20, rel=1e-9)


@pytest.mark.parametrize("rate", [0.01, 0.3, 0.999, 1.0, 1.7])
@pytest.mark.parametrize("inner", [1, 7, 400])
def test_the_weights_of_the_two_noises_by_running_them(inner, rate):
    """An epoch on a parabola of curvature 1: the error e ← (1 − t)e − t(first + second noise), step by step."""
    t = min(rate, 1.0)
    first, second = (
        0.0,
        0.0,
    )  # what one unit of the epoch's noise leaves, and the variance that those of the steps leave
    for _ in range(inner):
        first, second = (1 - t) * first + t, (1 - t) ** 2 * second + t * t
    assert error_weights(inner, rate) == pytest.approx((first**2, second), rel=1e-9)


def test_round_off_that_is_charged():
    """Of a sum of many doubles in the worst order, and of whole numbers, whose sums are exact."""
    unit = 2.0**-52
    for n, size in ((10**6, None), (10**6, 500), (10**9, 10**5), (40, 10), (40, None)):
        charged = rounded_clip(3.0, 5, np.float64, n, size) / 3.0 - 1
        terms = (
            n if size is None else min(n, 2 * size)
        )  # as many terms as are often in a batch, and more
        additions = min(n, 4096) if size is None else terms
        assert charged >= 2 * terms * additions * unit / 2 + 2 * 5 * unit
        if (
            size is not None and n > 10**5
        ):  # more terms than the charge is for: a chance below e^-500
            most = math.sqrt((charged / 2 - 13 * unit) / unit)
            assert stats.binom.logsf(most, n, size / n) < -500
    # a full pass over 10⁷ records: 32768 additions in a block, and one for each of 2441 blocks
    assert (
        rounded_clip(1.0, 5, np.float64, 10**7) - 1
        >= 2 * 10**7 * (32768 + 2441) * 2.0**-52
    )
    assert rounded_clip(1.0, 5, np.float32, 10, None) - 1 >= 2 * 5 * 2.0**-23
    for dim in (1, 10, 1000):
        worst = math.sqrt(dim) * 2.0**-21  # every entry off by half a unit of 2^-20
        assert (
            worst
            < add_remove_clip(1.0, dim, np.float64) - 1
            < 1.001 * worst + 2 * (dim + 20) * unit
        )
        assert add_remove_clip(1.0, dim, np.float32) - 1 >= worst + 2 * dim * 2.0**-23


def test_requests():
    for guarantee, noise in ((None, None), (GDP(1.0), 1.0)):
        with pytest.raises(ParameterError, match="not both"):
            check_guarantee_or_noise(guarantee, noise)
    with pytest.raises(ParameterError, match="must be a guarantee"):
        check_guarantee_or_noise(0.5, None)
    for adjacencies in ((), ("replace-one",)):
        with pytest.raises(ParameterError, match="add-remove"):
            check_guarantee_or_noise(GDP(1.0, **ADDED), None, *adjacencies)
        check_guarantee_or_noise(GDP(1.0), None, *adjacencies)
    check_guarantee_or_noise(GDP(1.0, **ADDED), None, "add-remove")
    check_guarantee_or_noise(None, 1.0)


def test_the_noise_multiplier_of_random_batches_is_rounded_down():
    # noise·batch_size/clip in floats may exceed the exact quotient by a rounding.
    rng = np.random.default_rng(3)
    for noise, clip in rng.uniform(0.1, 3.0, size=(50, 2)).tolist():
        (step,) = rsgd_guarantee(1000, 10, 37, clip, noise, "poisson").parts
        exact = Fraction(noise) * 37 / Fraction(clip)
        assert Fraction(step.noise_multiplier) <= exact
        assert step.noise_multiplier == pytest.approx(float(exact), rel=1e-14)
