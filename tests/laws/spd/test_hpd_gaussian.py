"""The Gaussian on complex covariances: normalizer and CDF against plain quadrature, draws against the CDF, with power."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import ParameterError
from curvedp.geometry import HPDAffineInvariant, Lorentz, SPDAffineInvariant
from curvedp.laws import RiemannianGaussian
from curvedp.laws.spd.envelopes import acceptance, sample_log_eigenvalues
from curvedp.laws.spd.random_matrices import uniform_orthogonal
from curvedp.mechanisms import GaussianMechanism
from curvedp.release.verify import verify_certificate


def weight(rho, sigma, power=2):
    """exp(−|ρ|²/2σ²)·∏ sinh²((ρᵢ−ρⱼ)/2), as it stands."""
    out = np.exp(-sum(r * r for r in rho) / (2 * sigma**2))
    for i, a in enumerate(rho):
        for b in rho[:i]:
            out = out * np.sinh((a - b) / 2) ** power
    return out


def grid(m, sigma, count=161):
    """A trapezoidal rule, which is exact to round-off on smooth functions that vanish at its ends."""
    half = 9 * sigma + (m - 1) * sigma**2
    x = np.linspace(-half, half, count)
    return np.meshgrid(*([x] * m), indexing="ij", sparse=True), (x[1] - x[0]) ** m


@pytest.mark.parametrize(
    ("m", "sigma"), [(2, 0.1), (2, 0.8), (2, 2.0), (3, 0.1), (3, 0.7), (3, 1.5)]
)
def test_normalizer_and_second_moment_by_quadrature(m, sigma) -> None:
    law, small = RiemannianGaussian(HPDAffineInvariant(m), sigma), 0.01
    rho, cell = grid(m, sigma)
    values = weight(rho, sigma)
    # the constant of the volume from the flat limit, by the same rule: tiny σ, where sinh x = x
    flat, flat_cell = grid(m, small)
    known = m * m / 2 * math.log(2 * math.pi * small**2)
    small_mass = math.log(values_of_flat(flat, small, m) * flat_cell)
    assert law.log_normalizer == pytest.approx(
        math.log(values.sum() * cell) + known - small_mass, abs=1e-9
    )
    square = sum(r * r for r in rho)
    assert law.mean_square_radius == pytest.approx(
        float((values * square).sum() / values.sum()), rel=1e-10
    )


def values_of_flat(rho, sigma, m):
    """∏ (ρᵢ−ρⱼ)²/4 in place of ∏ sinh²."""
    out = np.exp(-sum(r * r for r in rho) / (2 * sigma**2))
    for i, a in enumerate(rho):
        for b in rho[:i]:
            out = out * ((a - b) / 2) ** 2
    return out.sum()


@pytest.mark.parametrize(
    ("sigma", "r"), [(0.3, 0.5), (0.3, 0.9), (1.0, 2.0), (2.0, 9.0)]
)
def test_radial_cdf_by_quadrature(sigma, r) -> None:
    """m = 2 in polar coordinates of (ρ₁, ρ₂): the trace does not see sinh."""

    def inner(q: float) -> float:
        return integrate.quad(
            lambda a: math.sinh(q * math.sin(a) / math.sqrt(2)) ** 2,
            0,
            math.pi / 2,
            epsrel=1e-12,
        )[0]

    def density(q: float) -> float:
        return q * math.exp(-q * q / (2 * sigma**2)) * inner(q)

    top = 12 * sigma + 2 * sigma**2
    below = integrate.quad(density, 0, r, epsrel=1e-11)[0]
    whole = below + integrate.quad(density, r, top, epsrel=1e-11, limit=200)[0]
    assert RiemannianGaussian(HPDAffineInvariant(2), sigma).radial_cdf(
        r
    ) == pytest.approx(below / whole, abs=1e-8)


@pytest.mark.parametrize(
    ("m", "sigma"), [(2, 0.3), (2, 2.4), (3, 0.2), (3, 0.6), (3, 2.0), (5, 0.3)]
)
def test_draws_follow_the_law(m, sigma) -> None:
    """By distances on the manifold about a center that is not the identity; the real matrices' eigenvalues are told apart."""
    M, rng, n = HPDAffineInvariant(m), np.random.default_rng([m, 7]), 4000
    law = RiemannianGaussian(M, sigma)
    a = rng.normal(size=(m, 2 * m)) + 1j * rng.normal(size=(m, 2 * m))
    center = M.from_complex(a @ a.conj().T / m)
    x = law.sample(rng, center, n)
    assert np.max(M.residual(x)) < 1e-9
    uniform = law.radial_cdf(M.dist(center, x))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4
    wrong = np.linalg.norm(sample_log_eigenvalues(rng, m, sigma, n), axis=-1)
    assert stats.kstest(law.radial_cdf(wrong), "uniform").pvalue < 1e-6


def test_the_gaps_follow_the_squared_weyl_density() -> None:
    """The radius alone would not see wrong gaps: the smallest eigenvalue difference, m = 2, in closed form."""
    sigma, n = 0.8, 20_000
    M = HPDAffineInvariant(2)
    y = M.to_complex(
        RiemannianGaussian(M, sigma).sample(np.random.default_rng(1), M.origin, n)
    )
    rho = np.log(np.linalg.eigvalsh(y))
    gap = rho[:, 1] - rho[:, 0]

    def density(x):  # of the gap: exp(−x²/4σ²)·sinh²(x/2)
        return np.exp(-(x**2) / (4 * sigma**2)) * np.sinh(x / 2) ** 2

    x = np.linspace(0, 12, 20001)
    cdf = integrate.cumulative_trapezoid(density(x), x, initial=0)
    assert stats.kstest(np.interp(gap, x, cdf / cdf[-1]), "uniform").pvalue > 1e-4
    one = integrate.cumulative_trapezoid(
        density(x) / np.maximum(np.sinh(x / 2), 1e-9), x, initial=0
    )
    assert stats.kstest(np.interp(gap, x, one / one[-1]), "uniform").pvalue < 1e-6
    entries = y[:, 0, 1]  # Q is unitary: the phase of an entry is uniform
    assert (
        stats.kstest(np.angle(entries) / (2 * math.pi) + 0.5, "uniform").pvalue > 1e-4
    )


@pytest.mark.parametrize("m", [3, 4])
def test_unitary_matrices_are_uniform(m) -> None:
    """The squared modulus of an entry is Beta(1, m − 1)."""
    q = uniform_orthogonal(np.random.default_rng(m), 4000, m, beta=2)
    gram = np.conj(np.swapaxes(q, 1, 2)) @ q
    assert np.max(np.abs(gram - np.eye(m))) < 1e-12
    for i, j in np.ndindex(m, m):
        assert (
            stats.kstest(np.abs(q[:, i, j]) ** 2, stats.beta(1, m - 1).cdf).pvalue
            > 1e-4
        )
        assert (
            stats.kstest(
                np.abs(q[:, i, j]) ** 2, stats.beta(0.5, (m - 1) / 2).cdf
            ).pvalue
            < 1e-6
        )


def test_acceptance_is_what_happens() -> None:
    for m, sigma in [(2, 0.5), (3, 1.5), (4, 0.3)]:
        shares = acceptance(m, sigma, beta=2)
        assert set(shares) == {"near", "far"}
        assert all(0 < share <= 1 + 1e-12 for share in shares.values())
    assert max(acceptance(6, 0.1, beta=2).values()) > 0.95


def test_two_by_two_is_a_line_times_hyperbolic_space() -> None:
    """HPD(2) = ℝ × H³(−½): profile from the factors, normalizer of H³ at scale σ/√2 in units of its curvature."""
    law = RiemannianGaussian(HPDAffineInvariant(2), 0.6)
    hyperbolic = RiemannianGaussian(Lorentz(3), 0.6 / math.sqrt(2))
    line = 0.5 * math.log(2 * math.pi * 0.36)
    assert law.log_normalizer == pytest.approx(
        hyperbolic.log_normalizer + 1.5 * math.log(2) + line, abs=1e-10
    )
    assert law.profile(0.2).is_exact
    assert law.profile(0.2).mu >= 0.2 / 0.6 * (1 - 1e-9)
    real = RiemannianGaussian(SPDAffineInvariant(2), 0.6).profile(0.2)
    assert law.profile(0.2).mu != pytest.approx(real.mu, rel=1e-6)


def test_larger_ones_have_no_profile_beyond_the_ricci_bound() -> None:
    with pytest.raises(ParameterError, match=r"ends at 0\.57735"):
        RiemannianGaussian(HPDAffineInvariant(3), 0.8).profile(0.4)


def test_the_gaussian_is_released_and_verified() -> None:
    """Where the noise is small enough for the proved bound; beyond it is refused."""
    M = HPDAffineInvariant(3)
    with pytest.raises(ParameterError, match="Ricci curvature"):
        GaussianMechanism(M, 0.1, 0.8).release(M.origin)
    certificate = GaussianMechanism(M, 0.1, 0.3).release(M.origin).certificate
    assert certificate.provenance.numerics["profile"] == "proved_bound"
    assert not [
        check for check in verify_certificate(certificate) if check.holds is False
    ]
