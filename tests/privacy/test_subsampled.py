"""Subsampled Gaussian steps: exact against mpmath, worst among random pairs, and two-sided against dp-accounting."""

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

from curvedp.errors import ParameterError
from curvedp.privacy import (
    GDP,
    ApproxDP,
    compose,
    subsampled_gaussian,
    subsampled_noise_multiplier,
)
from curvedp.privacy.guarantees.gaussian import gdp_mu
from curvedp.privacy.optimizer_accounting import add_remove_noise
from curvedp.privacy.subsampling import (
    FixedSizeGaussianStep,
    PoissonGaussianStep,
    _gdp_delta_at_any_eps,
)


def mixture_delta(sigma, q, eps):
    """E_γ((1−q)N(0) + qN(1) ‖ (1−q)N(0) + qN(−1)), from the three tails and the root of the likelihood ratio."""
    with mp.workdps(1060 if sigma < 0.3 else 120):
        s, q, g = mp.mpf(sigma), mp.mpf(q), mp.exp(mp.mpf(eps))
        c = mp.exp(-1 / (2 * s * s))
        z = (
            (1 - q) * (g - 1)
            + mp.sqrt((1 - q) ** 2 * (g - 1) ** 2 + 4 * q * q * c * c * g)
        ) / (2 * q * c)
        t = s * s * mp.log(z)

        def tail(x):
            return mp.erfc(x / (s * mp.sqrt(2))) / 2

        return (1 - q) * (1 - g) * tail(t) + q * tail(t - 1) - g * q * tail(t + 1)


def test_poisson_step_against_mpmath():
    rng = np.random.default_rng(7)
    for _ in range(150):
        sigma, q = 10 ** rng.uniform(-1, 1.5), 10 ** rng.uniform(-5, 0)
        eps = float(rng.choice([0.0, 10 ** rng.uniform(-4, 1)]))
        truth = mixture_delta(sigma, q, eps)
        if truth > mp.mpf("1e-290"):
            error = float(mp.mpf(PoissonGaussianStep(sigma, q).delta(eps)) / truth - 1)
            assert 0 <= error < 1e-10, (sigma, q, eps)


def test_no_pair_of_records_is_worse():
    """The lemma in `privacy.subsampling`: u = −v of full norm is the worst pair. Random pairs in the plane, by quadrature;
    one of them, and only the exact worst pair, reaches the bound."""
    grid = np.linspace(-9, 9, 601)
    x, y = np.meshgrid(grid, grid, indexing="ij")
    cell = (grid[1] - grid[0]) ** 2

    def normal(a, b, sigma):
        return (
            np.exp(-((x - a) ** 2 + (y - b) ** 2) / (2 * sigma**2))
            / (2 * math.pi * sigma**2)
            * cell
        )

    rng = np.random.default_rng(8)
    for sigma, q in ((1.0, 0.3), (0.7, 0.05), (1.5, 0.8)):
        step = PoissonGaussianStep(sigma, q)
        base = normal(0, 0, sigma)
        pairs = [((1.0, 0.0), (-1.0, 0.0))]
        for _ in range(12):
            radius, angle = (
                np.sqrt(rng.uniform(0, 1, 2)),
                rng.uniform(0, 2 * math.pi, 2),
            )
            pairs.append(
                tuple(zip(radius * np.cos(angle), radius * np.sin(angle), strict=True))
            )
        pairs.append(((1.0, 0.0), (1.0, 0.0)))
        pairs.append(((1.0, 0.0), (0.0, 0.0)))
        pairs.append(((math.cos(0.2), math.sin(0.2)), (-1.0, 0.0)))
        for eps in (0.0, 0.3, 1.5):
            found = []
            for u, v in pairs:
                p, w = (
                    (1 - q) * base + q * normal(*u, sigma),
                    (1 - q) * base + q * normal(*v, sigma),
                )
                found.append(np.sum(np.maximum(p - math.exp(eps) * w, 0)))
            assert found[0] == pytest.approx(step.delta(eps), rel=2e-3)
            assert max(found[1:]) <= step.delta(eps) * (1 + 2e-3)


def test_rate_one_is_the_gaussian_with_twice_the_clip():
    eps = np.array([0.0, 0.5, 3.0])
    for step in (PoissonGaussianStep(1.3, 1.0), FixedSizeGaussianStep(1.3, 1.0)):
        assert step.delta(eps) == pytest.approx(GDP(2 / 1.3).delta(eps), rel=1e-12)
        assert np.all(step.delta(eps) >= GDP(2 / 1.3).delta(eps) * (1 - 5e-14))
    assert subsampled_gaussian(1.0, 1.0, 4) == GDP(4.0)
    assert subsampled_gaussian(1.0, 1.0, 3).mu == pytest.approx(
        2 * math.sqrt(3), rel=1e-14
    )
    assert subsampled_gaussian(1.0, 1.0, 3).mu >= 2 * math.sqrt(3)


def test_fixed_size_is_amplification_by_subsampling():
    q, sigma = 0.1, 1.2
    for eps in (0.0, 0.4, 2.0, 40.0):
        inner = math.log1p(math.expm1(eps) / q)
        assert FixedSizeGaussianStep(sigma, q).delta(eps) == pytest.approx(
            q * GDP(2 / sigma).delta(inner), rel=1e-10
        )
    # One record in a batch of one, replaced: the two batches differ with probability q and then by 2C.
    grid = np.linspace(-15, 15, 300001)
    normal = [
        np.exp(-((grid - m) ** 2) / (2 * sigma**2))
        / math.sqrt(2 * math.pi)
        / sigma
        * 1e-4
        for m in (-1, 1)
    ]
    p, w = normal[0], (1 - q) * normal[0] + q * normal[1]
    truth = np.sum(np.maximum(w - math.exp(0.4) * p, 0))
    assert FixedSizeGaussianStep(sigma, q).delta(0.4) >= truth


@pytest.mark.parametrize(("sigma", "q", "steps"), [(1.0, 0.02, 300), (2.0, 0.1, 100)])
def test_between_the_two_ways_to_use_dp_accounting(sigma, q, steps):
    """Add-or-remove with C is one replacement (by a zero record), so it is a floor; 2C is a ceiling."""
    ours = subsampled_gaussian(sigma, q, steps)
    floor, ceiling = (
        pld.from_gaussian_mechanism(
            sigma, sensitivity=c, sampling_prob=q, value_discretization_interval=1e-3
        )
        .self_compose(steps)
        .get_delta_for_epsilon([1.0, 2.0, 4.0])
        for c in (1.0, 2.0)
    )
    delta = ours.delta(np.array([1.0, 2.0, 4.0]))
    assert np.all(delta >= np.array(floor) * 0.99)
    assert np.all(delta <= np.array(ceiling))


def test_composed_steps_against_a_direct_convolution():
    """Three steps on the line: the loss of each on a fine grid of the output, convolved by sorting all triples."""
    sigma, q, n = 1.1, 0.4, 121
    x = (np.arange(n) + 0.5) / n
    edges = np.linspace(-7.5, 7.5, n + 1)
    x = 0.5 * (edges[1:] + edges[:-1])
    normal = {
        m: np.exp(-((x - m) ** 2) / (2 * sigma**2))
        / math.sqrt(2 * math.pi)
        / sigma
        * (edges[1] - edges[0])
        for m in (-1, 0, 1)
    }
    p, w = (1 - q) * normal[0] + q * normal[1], (1 - q) * normal[0] + q * normal[-1]
    loss = np.log(p / w)
    mass = (p[:, None, None] * p[None, :, None] * p[None, None, :]).ravel()
    total = (loss[:, None, None] + loss[None, :, None] + loss[None, None, :]).ravel()
    ours = subsampled_gaussian(sigma, q, 3)
    for eps in (0.0, 0.5, 2.0):
        truth = np.sum(mass * np.maximum(-np.expm1(eps - total), 0))
        assert ours.delta(eps) == pytest.approx(truth, rel=3e-3)


def test_no_floor_where_the_transform_has_one():
    ours = subsampled_gaussian(2.0, 0.1, 100)
    eps = ours.epsilon(1e-25)
    assert 0 < ours.delta(eps) <= 1e-25
    peer = pld.from_gaussian_mechanism(
        2.0, sensitivity=1.0, sampling_prob=0.1, value_discretization_interval=1e-3
    )
    assert peer.self_compose(100).get_delta_for_epsilon(eps) > 1e-20


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0, None, "1"])
def test_bad_parameters_raise(bad):
    for call in (
        lambda: subsampled_gaussian(bad, 0.1, 10),
        lambda: subsampled_gaussian(1.0, bad, 10),
        lambda: subsampled_gaussian(1.0, 0.1, bad),
        lambda: subsampled_gaussian(1.0, 0.1, 10, sampling=bad),
    ):
        with pytest.raises(ParameterError):
            call()


def test_other_refusals():
    with pytest.raises(ParameterError):
        subsampled_gaussian(1.0, 1.5, 10)
    with pytest.raises(ParameterError, match="fixed size"):
        FixedSizeGaussianStep(1.0, 0.1, adjacency="add-remove")
    with pytest.raises(ParameterError):
        subsampled_noise_multiplier(GDP(1.0), 0.1, 10)


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
def test_limits(sampling):
    for sigma, q in ((1e-3, 0.5), (1e3, 1e-6), (1.0, 1e-12), (1.0, 1 - 1e-12)):
        step = (
            PoissonGaussianStep if sampling == "poisson" else FixedSizeGaussianStep
        )(sigma, q)
        delta = step.delta(np.array([0.0, 1e-300, 1.0, 1e3, 1e308, math.inf]))
        assert np.all((delta >= 0) & (delta <= 1))
        assert np.all(np.diff(delta) <= 1e-12)


def test_calibration_is_private_and_close():
    target = ApproxDP(1.0, 1e-5)
    sigma = subsampled_noise_multiplier(target, 0.05, 8)
    assert subsampled_gaussian(sigma, 0.05, 8).delta(1.0) <= 1e-5
    assert subsampled_gaussian(sigma * 0.99, 0.05, 8).delta(1.0) > 1e-5


@pytest.mark.parametrize(
    ("q", "steps", "delta"), [(1e-9, 1, 1e-5), (1e-6, 9, 1e-5), (5e-4, 1, 1e-3)]
)
@pytest.mark.parametrize("kind", ["poisson", "fixed-size", "add-remove", "descent"])
def test_what_chance_alone_would_meet_is_refused_in_one_line(kind, q, steps, delta):
    def noise(delta):
        if kind == "descent":
            return add_remove_noise(
                steps, q, 1.0, ApproxDP(1.0, delta, adjacency="add-remove")
            )[0]
        adjacency = "add-remove" if kind == "add-remove" else "replace-one"
        sampling = "fixed-size" if kind == "fixed-size" else "poisson"
        return subsampled_noise_multiplier(
            ApproxDP(1.0, delta, adjacency=adjacency), q, steps, sampling=sampling
        )

    with pytest.raises(ParameterError, match="chance") as caught:
        noise(delta)
    assert "\n" not in str(caught.value)
    assert 0.01 < noise(0.9 * q) < 10


def test_steps_compose_with_other_releases():
    steps = subsampled_gaussian(2.0, 0.1, 20)
    whole = compose(steps, GDP(0.5))
    assert set(whole.parts) == {GDP(0.5), PoissonGaussianStep(2.0, 0.1)}
    assert whole.delta(1.0) > max(steps.delta(1.0), GDP(0.5).delta(1.0))


@pytest.mark.parametrize("sampling", ["poisson", "fixed-size"])
@pytest.mark.parametrize("multiplier", [1e-300, 1e-13, 9e-7, 1e-6])
def test_with_next_to_no_noise_only_chance_protects(
    sampling: str, multiplier: float
) -> None:
    """A record that is drawn in any of 50 batches is seen; no ε helps, and the δ is the chance of that."""
    guarantee = subsampled_gaussian(multiplier, 0.01, 50, sampling=sampling)
    assert (
        1 - 0.99**50
        <= guarantee.delta(1e3) * (1 + 1e-15)
        <= (1 - 0.99**50) * (1 + 1e-12)
    )
    assert guarantee.epsilon(1e-6) == np.inf


@pytest.mark.parametrize("q", [1e-9, 1e-6, 0.01, 0.5, 0.999])
@pytest.mark.parametrize("multiplier", [0.1, 0.3, 1.0, 20.0])
def test_one_batch_at_any_rate(q, multiplier):
    """P = (1−q)N(0) + qN(μ), Q = (1−q)N(0) + qN(−μ): the likelihood ratio crosses e^ε once."""
    step, fixed = (
        PoissonGaussianStep(multiplier, q),
        FixedSizeGaussianStep(multiplier, q),
    )
    with mp.workdps(160):
        mu, rate, tiny = 1 / mp.mpf(multiplier), mp.mpf(q), mp.mpf(10) ** -80
        for eps in (0.0, 1e-8, 0.3, 2.0, 45.0):
            g, product = mp.exp(mp.mpf(eps)), mp.exp(-mu * mu)
            # (1−q) + q·v − g(1−q) − g·q·e^{−μ²}/v = 0 at v = e^{μx − μ²/2}: quadratic in v, and rising
            half = (1 - rate) * (g - 1) / (2 * rate)
            v = half + mp.sqrt(half**2 + g * product)
            gaps = [
                (1 - rate) * (1 - g) + rate * u - g * rate * product / u
                for u in (v * (1 - tiny), v * (1 + tiny))
            ]
            assert gaps[0] < 0 < gaps[1]
            x = mp.log(v) / mu + mu / 2
            above = (1 - rate) * mp.ncdf(-x) + rate * mp.ncdf(mu - x)
            second = (1 - rate) * mp.ncdf(-x) + rate * mp.ncdf(-mu - x)
            truth = float(above - g * second)
            if truth > 1e-140:
                assert step.delta(eps) >= truth * (1 - 1e-13)
                assert step.delta(eps) == pytest.approx(truth, rel=1e-9)
            inner = mp.log(1 + (g - 1) / rate)
            truth = float(
                rate
                * (
                    mp.ncdf(mu - inner / (2 * mu))
                    - mp.exp(inner) * mp.ncdf(-inner / (2 * mu) - mu)
                )
            )
            if truth > 1e-140:
                assert fixed.delta(eps) >= truth * (1 - 1e-13)
                assert fixed.delta(eps) == pytest.approx(truth, rel=1e-9)
    assert max(step.delta(math.inf), fixed.delta(math.inf)) <= 5e-324


def test_gaussian_profiles_at_negative_epsilon():
    for eps in (-3.0, -0.2, 0.0, 0.7):
        with mp.workdps(30):
            truth = mp.ncdf(mp.mpf(0.4) - eps / mp.mpf(0.8)) - mp.exp(eps) * mp.ncdf(
                -eps / mp.mpf(0.8) - mp.mpf(0.4)
            )
        assert float(_gdp_delta_at_any_eps(0.8, np.array(eps))) == pytest.approx(
            float(truth), rel=1e-12
        )
    for steps in (1, 4, 16, 64):
        assert subsampled_gaussian(0.5, 1.0, steps) == GDP(4.0 * math.sqrt(steps))
    for steps in (2, 3, 9):
        mu = subsampled_gaussian(0.5, 1.0, steps).mu
        assert Fraction(mu) ** 2 >= 16 * steps
        assert mu == pytest.approx(4 * math.sqrt(steps), rel=1e-14)
    third = subsampled_gaussian(0.3, 1.0, 1).mu
    assert Fraction(third) >= 2 / Fraction(0.3)
    for kind in (PoissonGaussianStep, FixedSizeGaussianStep):
        assert kind(1e-6 * (1 - 1e-9), 0.25).delta(1e9) == 0.25
        assert kind(1e-6, 0.25).delta(1e20) < 0.25
        for multiplier, rate in (
            (0.0, 0.5),
            (1.0, 0.0),
            (1.0, 1.1),
            (1.1e100, 0.5),
            (math.nan, 0.5),
            (1.0, math.nan),
        ):
            with pytest.raises(ParameterError):
                kind(multiplier, rate)
        with pytest.raises(ParameterError):
            kind(1.0, 0.5, adjacency="add")


@pytest.mark.parametrize("q", [1e-3, 0.5])
def test_batches_are_rounded_up_in_the_far_tail(q):
    """There an ulp of ε is many ulps of δ."""
    for multiplier, eps in ((20.0, 2.0), (8.0, 5.0), (40.0, 0.9)):
        with mp.workdps(400):
            mu, rate, g = 1 / mp.mpf(multiplier), mp.mpf(q), mp.exp(mp.mpf(eps))
            inner = mp.log(1 + (g - 1) / rate)
            a, b = inner / (2 * mu) - mu, inner / (2 * mu) + mu
            exact = (
                rate
                * (mp.erfc(a / mp.sqrt(2)) - mp.exp(inner) * mp.erfc(b / mp.sqrt(2)))
                / 2
            )
            fixed = mp.mpf(FixedSizeGaussianStep(multiplier, q).delta(eps))
            if exact > mp.mpf(10) ** -300:
                assert exact <= fixed <= exact * (1 + mp.mpf(10) ** -10)
            # Poisson: (1−q)(1−g) + q·v − g·q·e^{−μ²}/v = 0 at v = e^{μx − μ²/2}
            h = (1 - rate) * (g - 1)
            v = (h + mp.sqrt(h * h + 4 * g * rate * rate * mp.exp(-mu * mu))) / (
                2 * rate
            )
            x = mp.log(v) / mu + mu / 2

            def tail(z):
                return mp.erfc(z / mp.sqrt(2)) / 2

            exact = (1 - rate) * (1 - g) * tail(x) + rate * (
                tail(x - mu) - g * tail(x + mu)
            )
            poisson = mp.mpf(PoissonGaussianStep(multiplier, q).delta(eps))
            if exact > mp.mpf(10) ** -300:
                assert exact <= poisson <= exact * (1 + mp.mpf(10) ** -10)


@pytest.mark.parametrize("q", [1e-3, 0.5])
@pytest.mark.parametrize("eps", [29.9, 30.0, 30.5, 31.0, 31.5])
def test_batches_of_fixed_size_where_the_logarithm_changes_its_form(q, eps):
    """From ε = 30 on log(1 + (e^ε−1)/q) is ε − log q and a little less, never more."""
    with mp.workdps(60):
        mu, rate, g = mp.mpf(2) / mp.mpf(0.4), mp.mpf(q), mp.exp(mp.mpf(eps))
        inner = mp.log(1 + (g - 1) / rate)
        a, b = inner / mu - mu / 2, inner / mu + mu / 2
        exact = (
            rate
            * (mp.erfc(a / mp.sqrt(2)) - mp.exp(inner) * mp.erfc(b / mp.sqrt(2)))
            / 2
        )
        found = mp.mpf(FixedSizeGaussianStep(0.4, q).delta(eps))
        assert exact <= found <= exact * (1 + mp.mpf(10) ** -11)


def test_whole_batches_are_rounded_up_in_the_far_tail():
    """2/σ rounded to nearest puts δ below the truth by 1e-14 of it where ε/μ is large."""
    rng = np.random.default_rng(9)
    for _ in range(150):
        sigma, far = float(10 ** rng.uniform(-1, 2)), float(rng.uniform(5, 24))
        eps = far * 2 / sigma
        with mp.workdps(400):
            mu = 2 / mp.mpf(sigma)
            a = mp.mpf(eps) / mu - mu / 2
            truth = (
                mp.erfc(a / mp.sqrt(2)) / 2
                - mp.exp(mp.mpf(eps)) * mp.erfc((a + mu) / mp.sqrt(2)) / 2
            )
            assert mp.mpf(FixedSizeGaussianStep(sigma, 1.0).delta(eps)) >= truth
            assert mp.mpf(subsampled_gaussian(sigma, 1.0, 1).mu) >= mu


def test_not_looser_than_another_accountant_with_the_same_relation():
    """dp-accounting 0.6.0, PLDAccountant(REPLACE_ONE, 1e-4), δ = 1e-6."""
    for (sigma, q, steps), theirs in {
        (1.0, 0.01, 1000): 3.2142370,
        (2.0, 0.05, 2000): 12.5719078,
        (0.6, 0.001, 10_000): 3.4546782,
    }.items():
        assert (
            0.9999 * theirs
            < subsampled_gaussian(sigma, q, steps).epsilon(1e-6)
            <= theirs
        )


def test_whole_batches_are_calibrated_like_the_gaussian():
    """Rate 1: four sums that move by twice the clip, so σ = 2·√4/μ with δ_μ(1) = 1e-5."""
    sigma = subsampled_noise_multiplier(ApproxDP(1.0, 1e-5), 1.0, 4)
    assert 4 / sigma == pytest.approx(gdp_mu(1.0, 1e-5), rel=2e-4)
    assert GDP(4 / sigma).delta(1.0) <= 1e-5
