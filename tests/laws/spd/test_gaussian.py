"""The affine-invariant Gaussian on SPD matrices: normalizer and CDFs against quadrature, draws against the CDFs."""

import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import erf
from scipy.stats import beta, binomtest, chi2, kstest, norm

from curvedp.errors import EnvelopeViolation, ParameterError
from curvedp.geometry import SPDAffineInvariant
from curvedp.laws import RiemannianGaussian
from curvedp.laws.spd import envelopes
from curvedp.laws.spd.envelopes import (
    FarEnvelope,
    NearEnvelope,
    acceptance,
    rejection_sample,
    sample_log_eigenvalues,
)
from curvedp.laws.spd.normalizer import log_normalizer, mean_square_radius, radial_cdf

# ---- references that share nothing with the code: SPD(2) = R × H² with κ = −½, and the chamber of three eigenvalues


def spd2_radial(sigma, r, power=0):
    """∫ over the H² radius h ≤ r of h's density times what the flat factor adds; unnormalized, with volume constants."""
    flat = math.sqrt(2 * math.pi) * sigma

    def inside(h):
        weight = (
            2
            * math.pi
            * math.sqrt(2)
            * math.sinh(h / math.sqrt(2))
            * math.exp(-h * h / (2 * sigma**2))
        )
        if power:
            return weight * (h * h + sigma**2) * flat
        return weight * flat * erf(math.sqrt(max(r * r - h * h, 0.0) / 2) / sigma)

    peak = sigma**2 / math.sqrt(2)
    top = min(r, peak + 12 * sigma + 1e-9)
    return quad(
        inside,
        0,
        top,
        epsabs=0,
        epsrel=1e-11,
        limit=400,
        points=[min(peak, top / 2), min(sigma, top / 3)],
    )[0]


class Chamber3:
    """m = 3: the mean of ρ is N(0, σ²/3); the rest has length q and an angle in the 60° chamber ρ₁ > ρ₂ > ρ₃."""

    def __init__(self, sigma):
        self.sigma, self.top = sigma, math.sqrt(2) * sigma**2 + 12 * sigma
        x, w = np.polynomial.legendre.leggauss(150)
        self.nodes, self.weights = (x + 1) / 2, w / 2
        self.angle = self.nodes * math.pi / 3

    def density(self, q):
        """∫ over the angle of exp(−q²/2σ²)·∏sinh·q, per unit of q."""
        a = math.sqrt(2) * q[:, None] * np.sin(self.angle)
        b = math.sqrt(2) * q[:, None] * np.sin(math.pi / 3 - self.angle)
        product = np.sinh(a / 2) * np.sinh(b / 2) * np.sinh((a + b) / 2)
        return (
            np.exp(-(q**2) / (2 * self.sigma**2))
            * q
            * (product @ self.weights)
            * math.pi
            / 3
        )

    def integral(self, power=0):
        q = self.nodes * self.top
        return float((self.density(q) * q**power) @ self.weights) * self.top

    def radial(self, r):
        phi = (
            self.nodes * math.pi / 2
        )  # q = r·sin φ takes the root at the boundary away
        q = r * np.sin(phi)
        inside = (
            self.density(q)
            * erf(r * np.cos(phi) / (math.sqrt(2) * self.sigma))
            * r
            * np.cos(phi)
        )
        return float(inside @ self.weights) * math.pi / 2 / self.integral()

    def gap_cdf(self, gap):
        """P(ρ₁ − ρ₂ ≤ gap), by summing cells of a fine polar grid."""
        q = self.nodes * self.top
        a = math.sqrt(2) * q[:, None] * np.sin(self.angle)
        b = math.sqrt(2) * q[:, None] * np.sin(math.pi / 3 - self.angle)
        weight = (
            np.exp(-(q[:, None] ** 2) / (2 * self.sigma**2))
            * q[:, None]
            * np.outer(self.weights, self.weights)
        )
        weight = weight * np.sinh(a / 2) * np.sinh(b / 2) * np.sinh((a + b) / 2)
        order = np.argsort(a, axis=None)
        total = np.cumsum(weight.ravel()[order])
        return np.interp(
            gap, a.ravel()[order], (total - weight.ravel()[order] / 2) / total[-1]
        )


@pytest.mark.parametrize("sigma", [0.05, 0.7, 3.0])
def test_normalizer_of_2x2_is_that_of_r_times_h2(sigma):
    assert log_normalizer(2, sigma) == pytest.approx(
        math.log(spd2_radial(sigma, math.inf)), abs=1e-10
    )


def three_by_three(gaps, sigma):
    """log Z from ∫ over the chamber. In ρ the plane of gaps has the volume of the orthonormal coordinates.

    Turning Q by A in so(3) moves diag(e^ρ) with square speed 2Σ(2sinh((ρᵢ−ρⱼ)/2))²Aᵢⱼ², so dvol = ∏√2·2sinh·dρ·dA over
    ρ₁ > ρ₂ > ρ₃ and SO(3), of volume 8π² in the angles A, modulo the four sign changes in it.
    """
    return math.log(
        gaps * math.sqrt(2 * math.pi) * sigma * 8 * math.sqrt(8) * 8 * math.pi**2 / 4
    )


@pytest.mark.parametrize("sigma", [0.1, 1.0, 2.5])
def test_normalizer_of_3x3(sigma):
    assert log_normalizer(3, sigma) == pytest.approx(
        three_by_three(Chamber3(sigma).integral(), sigma), abs=1e-9
    )


def test_normalizers_by_mpmath():
    with mpmath.workdps(20):
        half = mpmath.quad(
            lambda d: mpmath.exp(-d * d / 4) * mpmath.sinh(d / 2), [0, 2, 30]
        )
        # Said et al. 2017: 2·half = √π·e^{1/4}·erf(1/2); C = 2·√2·π/2, dρ = half the square of sum and difference
        assert log_normalizer(2, 1.0) == pytest.approx(
            float(
                mpmath.log(
                    half
                    * mpmath.sqrt(4 * mpmath.pi)
                    / 2
                    * 2
                    * mpmath.sqrt(2)
                    * mpmath.pi
                )
            ),
            abs=1e-12,
        )
    with mpmath.workdps(15):

        def density(q, t):
            a, b = (
                mpmath.sqrt(2) * q * mpmath.sin(t),
                mpmath.sqrt(2) * q * mpmath.sin(mpmath.pi / 3 - t),
            )
            return (
                mpmath.exp(-q * q / 2)
                * q
                * mpmath.sinh(a / 2)
                * mpmath.sinh(b / 2)
                * mpmath.sinh((a + b) / 2)
            )

        gaps = mpmath.quad(density, [0, 3, 14], [0, mpmath.pi / 3], maxdegree=4)
    assert log_normalizer(3, 1.0) == pytest.approx(
        three_by_three(float(gaps), 1.0), abs=1e-8
    )


@pytest.mark.parametrize("m", [2, 5, 11, 20])
def test_small_scales_are_flat_with_the_first_curvature_correction(m):
    # log(sinh x/x) ≈ x²/6 and E Σ x² = m(m−1)(m+2)σ²/8 under the flat Gaussian
    sigma = 1e-3
    flat = m * (m + 1) / 4 * math.log(2 * math.pi * sigma**2)
    assert (log_normalizer(m, sigma) - flat) / sigma**2 == pytest.approx(
        m * (m - 1) * (m + 2) / 48, rel=2e-3
    )
    r = sigma * math.sqrt(m * (m + 1) / 2)
    assert radial_cdf(m, sigma, r) == pytest.approx(
        chi2.cdf(m * (m + 1) / 2, m * (m + 1) // 2), abs=1e-4
    )


@pytest.mark.parametrize("sigma", [0.1, 0.8, 2.0, 5.0])
def test_radial_cdf_and_moment_of_2x2(sigma):
    total = spd2_radial(sigma, math.inf)
    r = math.sqrt(mean_square_radius(2, sigma)) * np.array(
        [0.02, 0.3, 0.8, 1.0, 1.3, 2.0]
    )
    assert radial_cdf(2, sigma, r) == pytest.approx(
        [spd2_radial(sigma, x) / total for x in r], abs=1e-9
    )
    assert mean_square_radius(2, sigma) == pytest.approx(
        spd2_radial(sigma, math.inf, power=1) / total, rel=1e-10
    )


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.0])
def test_radial_cdf_and_moment_of_3x3(sigma):
    reference = Chamber3(sigma)
    expected = sigma**2 + reference.integral(power=2) / reference.integral()
    assert mean_square_radius(3, sigma) == pytest.approx(expected, rel=1e-10)
    r = math.sqrt(mean_square_radius(3, sigma)) * np.array([0.2, 0.7, 1.0, 1.5])
    assert radial_cdf(3, sigma, r) == pytest.approx(
        [reference.radial(x) for x in r], abs=1e-9
    )


def test_radial_cdf_at_its_ends():
    assert np.array_equal(
        radial_cdf(4, 0.5, [-1.0, 0.0, 1e-300, 1e300, np.inf]), [0, 0, 0, 1, 1]
    )
    assert radial_cdf(3, 1.0, np.zeros((2, 3))).shape == (2, 3)
    r = np.linspace(0, 12, 400)
    assert np.all(np.diff(radial_cdf(3, 1.0, r)) >= -1e-12)


# ---- draws ----------------------------------------------------------------------------------------------------------

CASES = [
    (1, 0.3),
    (1, 2.0),
    (2, 0.2),
    (2, 2.5),
    (3, 0.3),
    (3, 1.8),
    (5, 0.2),
    (5, 1.5),
    (10, 0.25),
    (10, 0.45),
]


@pytest.mark.parametrize(("m", "sigma"), [*CASES, (20, 0.3)])
def test_draws_follow_the_radial_and_determinant_laws(m, sigma):
    n = {10: 15_000, 20: 4_000}.get(m, 40_000)
    rho = sample_log_eigenvalues(np.random.default_rng(m), m, sigma, n)
    radius = np.linalg.norm(rho, axis=1)
    assert kstest(radius, lambda r: radial_cdf(m, sigma, r)).pvalue > 1e-4
    assert kstest(rho.sum(axis=1), norm(0, sigma * math.sqrt(m)).cdf).pvalue > 1e-4
    assert kstest(radius, lambda r: radial_cdf(m, 1.05 * sigma, r)).pvalue < 1e-6
    assert abs(np.mean(radius**2) - mean_square_radius(m, sigma)) < 4 * np.std(
        radius**2
    ) / math.sqrt(n)


def test_gap_of_3x3_follows_quadrature():
    rho = sample_log_eigenvalues(np.random.default_rng(5), 3, 1.0, 100_000)
    for gap in (rho[:, 0] - rho[:, 1], rho[:, 1] - rho[:, 2]):
        assert kstest(gap, Chamber3(1.0).gap_cdf).pvalue > 1e-4
        assert kstest(1.05 * gap, Chamber3(1.0).gap_cdf).pvalue < 1e-6


@pytest.mark.parametrize(("m", "sigma"), [(3, 1.0), (5, 1.5)])
def test_every_envelope_gives_the_same_law_at_its_predicted_rate(monkeypatch, m, sigma):
    for envelope in (
        NearEnvelope.tightest(m, sigma),
        FarEnvelope(m, sigma),
    ):
        monkeypatch.setattr(envelopes, "best_envelope", lambda *_, e=envelope: e)
        rng = np.random.default_rng(3)
        rho = sample_log_eigenvalues(rng, m, sigma, 50_000)
        assert (
            kstest(
                np.linalg.norm(rho, axis=1), lambda r: radial_cdf(m, sigma, r)
            ).pvalue
            > 1e-4
        ), envelope.name
        _, log_ratio = envelope.propose(rng, 50_000)
        accepted = int(np.sum(log_ratio > -rng.standard_exponential(50_000)))
        assert (
            binomtest(accepted, 50_000, math.exp(envelope.log_acceptance)).pvalue > 1e-4
        ), envelope.name


@pytest.mark.parametrize(
    ("beta", "accepted"),
    [
        (1, {3: 0.99, 5: 0.96, 8: 0.91, 12: 0.82, 16: 0.71, 20: 0.59}),
        (2, {3: 0.985, 5: 0.951, 8: 0.869, 12: 0.72, 16: 0.551, 20: 0.39}),
    ],
)
def test_every_scale_with_a_proved_guarantee_has_a_good_envelope(beta, accepted):
    """At −Ric·σ² = 1/2, σ² = 2/(βm), the largest scale with a profile: so no third envelope is needed."""
    for m, expected in accepted.items():
        best = max(acceptance(m, math.sqrt(2 / (beta * m)), beta).values())
        assert best == pytest.approx(expected, abs=0.006), m
        for sigma in (1e-3, 0.1, 0.3 * math.sqrt(2 / (beta * m))):
            assert max(acceptance(m, sigma, beta).values()) > best


def test_a_scale_between_both_envelopes_is_refused_before_anything_is_drawn():
    """SPD(20) at σ = 0.9: neither envelope accepts 1e-5, and no guarantee is proved there."""
    assert max(acceptance(20, 0.9).values()) < 1e-5
    with pytest.raises(ParameterError, match="accepts"):
        sample_log_eigenvalues(np.random.default_rng(0), 20, 0.9, 1)


# ---- wrong samplers must be caught --------------------------------------------------------------------------------


def radial_pvalue(envelope, m, sigma):
    rho = rejection_sample(np.random.default_rng(11), envelope, m, 20_000)
    return kstest(np.linalg.norm(rho, axis=1), lambda r: radial_cdf(m, sigma, r)).pvalue


class WithoutSinh(NearEnvelope):
    """sinh x / x taken as 1: the Gaussian of the flat space of symmetric matrices."""

    _slope = 0.0

    def propose(self, rng, n):
        rho, _ = super().propose(rng, n)
        return rho, np.zeros(n)


class WrongRatio(NearEnvelope):
    """Proposals of the near envelope, accepted by the ratio of the far one."""

    def propose(self, rng, n):
        rho, _ = super().propose(rng, n)
        i, j = np.triu_indices(self.m, 1)
        return rho, np.sum(np.log(-np.expm1(-(rho[:, i] - rho[:, j]))), axis=1)


class SwappedFar(FarEnvelope):
    """pyRiemann 0.12's 2×2 sampler: ρ₁ > ρ₂ is proposed about (−σ²/2, σ²/2), the means swapped, and the ratio of the
    densities, which then exceeds 1, is silently cut there."""

    cut = True

    def propose(self, rng, n):
        h = (self.m - 1 - 2 * np.arange(self.m)) / 2
        rho = -(self.sigma**2) * h + self.sigma * rng.standard_normal((n, self.m))
        i, j = np.triu_indices(self.m, 1)
        gap = rho[:, i] - rho[:, j]
        ordered = np.all(gap > 0, axis=1)
        log_ratio = np.full(n, -np.inf)
        log_ratio[ordered] = (
            np.sum(np.log(-np.expm1(-gap[ordered])), axis=1) + 2 * rho[ordered] @ h
        )
        return rho, np.minimum(log_ratio, 0.0) if self.cut else log_ratio


class SwappedFarUncut(SwappedFar):
    cut = False


class TooFlat(NearEnvelope):
    """A line that cuts log(sinh x/x) instead of touching it from above."""

    @property
    def _slope(self):
        return 0.5 * super()._slope

    @property
    def _intercept(self):
        return super()._intercept - 0.05


@pytest.mark.parametrize(("m", "sigma"), [(2, 1.5), (3, 1.0), (5, 0.7)])
def test_missing_factor_and_wrong_ratio_are_rejected(m, sigma):
    x = NearEnvelope.tightest(m, sigma).tangent
    assert radial_pvalue(NearEnvelope(m, sigma, x), m, sigma) > 1e-4
    assert radial_pvalue(WithoutSinh(m, sigma, x), m, sigma) < 1e-6
    assert radial_pvalue(WrongRatio(m, sigma, x), m, sigma) < 1e-6


@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_the_swapped_envelope_of_a_peer_is_rejected_and_would_have_raised(sigma):
    assert radial_pvalue(FarEnvelope(2, sigma), 2, sigma) > 1e-4
    assert radial_pvalue(SwappedFar(2, sigma), 2, sigma) < 1e-6
    with pytest.raises(EnvelopeViolation, match="log ratio"):
        radial_pvalue(SwappedFarUncut(2, sigma), 2, sigma)


def test_an_envelope_below_its_target_raises():
    with pytest.raises(EnvelopeViolation, match="log ratio"):
        radial_pvalue(TooFlat(3, 1.0, 1.0), 3, 1.0)


# ---- matrices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [2, 3, 4])
def test_draws_sit_at_an_asymmetric_footpoint_in_uniform_directions(m):
    rng = np.random.default_rng(20 + m)
    sigma = 0.8
    root = np.tril(rng.normal(size=(m, m))) + 2 * np.eye(m)
    center = root @ root.T
    X = RiemannianGaussian(SPDAffineInvariant(m), sigma).sample(rng, center, 40_000)
    # Cholesky whitening is congruent to any other, so the log-eigenvalues about the center are those of X·center⁻¹.
    ratio = np.sort(np.log(np.linalg.eigvals(X @ np.linalg.inv(center)).real), axis=1)
    assert (
        kstest(np.linalg.norm(ratio, axis=1), lambda r: radial_cdf(m, sigma, r)).pvalue
        > 1e-4
    )
    inverse = np.linalg.inv(root)
    _, vectors = np.linalg.eigh(inverse @ X @ inverse.T)
    for k in range(m):
        square = vectors[:, 0, k] ** 2  # a coordinate of a uniform unit vector, squared
        assert kstest(square, beta(0.5, (m - 1) / 2).cdf).pvalue > 1e-4
    other = root.T @ root  # the same eigenvalues, the wrong place
    wrong = np.log(np.linalg.eigvals(X @ np.linalg.inv(other)).real)
    assert (
        kstest(np.linalg.norm(wrong, axis=1), lambda r: radial_cdf(m, sigma, r)).pvalue
        < 1e-6
    )


def test_shapes_and_several_centers():
    rng = np.random.default_rng(0)
    assert RiemannianGaussian(SPDAffineInvariant(3), 0.1).sample(
        rng, np.eye(3)
    ).shape == (3, 3)
    assert RiemannianGaussian(SPDAffineInvariant(3), 0.1).sample(
        rng, np.eye(3), (2, 0)
    ).shape == (2, 0, 3, 3)
    centers = np.stack([np.eye(2), 100 * np.eye(2)])
    X = RiemannianGaussian(SPDAffineInvariant(2), 0.1).sample(rng, centers, (5, 2))
    assert X.shape == (5, 2, 2, 2)
    assert np.all(np.abs(np.log(np.linalg.det(X[:, 1])) - 2 * math.log(100)) < 1)
    assert np.array_equal(X, np.swapaxes(X, -1, -2))


@pytest.mark.parametrize("sigma", [math.nan, 0.0, -1.0, math.inf, "1"])
def test_bad_scales_are_refused(sigma):
    with pytest.raises(ParameterError, match="sigma"):
        sample_log_eigenvalues(np.random.default_rng(0), 3, sigma, 1)
    with pytest.raises(ParameterError, match="sigma"):
        log_normalizer(3, sigma)


def test_bad_parameters_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ParameterError, match="center"):
        RiemannianGaussian(SPDAffineInvariant(2), 1.0).sample(rng, np.eye(3), 1)
    with pytest.raises(ParameterError, match="center"):
        RiemannianGaussian(SPDAffineInvariant(2), 1.0).sample(rng, -np.eye(2), 1)
    with pytest.raises(ParameterError, match="m=0"):
        sample_log_eigenvalues(rng, 0, 1.0, 1)
    with pytest.raises(ParameterError, match="n=-1"):
        sample_log_eigenvalues(rng, 2, 1.0, -1)
    with pytest.raises(ParameterError, match="smaller scale"):
        RiemannianGaussian(SPDAffineInvariant(20), 30.0).sample(rng, np.eye(20), 1)
    with pytest.raises(ParameterError, match="NaN"):
        radial_cdf(2, 1.0, np.nan)


def test_hopeless_acceptance_is_refused_before_sampling():
    with pytest.raises(ParameterError, match="SPDLogEuclidean"):
        sample_log_eigenvalues(np.random.default_rng(0), 80, 0.35, 1)
