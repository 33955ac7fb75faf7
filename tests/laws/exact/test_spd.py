"""Exact draws of the SPD Gaussian: determinant, radius by quadrature over eigenvalues, rotation, both envelopes."""

import numpy as np
import pytest
from flint import arb, ctx, fmpz_mat
from scipy import integrate, stats

from curvedp.errors import ParameterError
from curvedp.geometry import HPDAffineInvariant, SPDAffineInvariant
from curvedp.laws.exact import exact_gaussian
from curvedp.laws.exact.spd import cholesky
from curvedp.laws.exact.spd_far import draw_far_gaussian
from curvedp.laws.exact.spd_near import draw_near, tangent_bound
from curvedp.laws.spd.envelopes import NearEnvelope, sample_log_eigenvalues
from curvedp.randomness import GeneratorSource
from support.goodness import accepts, ks, off_origin, rejects, uniform_directions


def spread_cdf(m: int, sigma: float, factor=np.sinh):
    """CDF of |V₀|, the traceless part, m = 2 or 3: V₀ has m − 1 free eigenvalues, polar coordinates in their plane."""
    r = np.linspace(0, 12 * sigma + 4 * sigma**2 * m, 20_001)
    if m == 2:  # ρ = ±r/√2
        density = factor(r / np.sqrt(2))
    else:  # r(cos t·(1,−1,0)/√2 + sin t·(1,1,−2)/√6), by symmetry on one chamber
        t = (np.arange(400) + 0.5) * (np.pi / 3) / 400 + np.pi / 6
        rho = np.cos(t)[:, None] * [1, -1, 0] / np.sqrt(2) + np.sin(t)[:, None] * [
            1,
            1,
            -2,
        ] / np.sqrt(6)
        density = r * sum(
            np.prod(
                [factor(abs(x[i] - x[j]) * r / 2) for i, j in ((0, 1), (0, 2), (1, 2))],
                axis=0,
            )
            for x in rho
        )
    density = density * np.exp(-(r**2) / (2 * sigma**2))
    mass = integrate.cumulative_simpson(density, x=r, initial=0)
    return lambda x: np.interp(x, r, mass / mass[-1])


def logs(manifold, sigma: float, n: int, center: np.ndarray) -> np.ndarray:
    """log of C^{-1/2}XC^{-1/2}, up to a unitary turn; complex for Hermitian matrices."""
    source = GeneratorSource(np.random.default_rng([manifold.m, 3]))
    points = np.stack(
        [exact_gaussian(manifold, sigma, center, source=source).value for _ in range(n)]
    )
    if manifold.point_shape[2:]:
        points, center = manifold.to_complex(points), manifold.to_complex(center)
    white = np.linalg.inv(np.linalg.cholesky(center))
    values, vectors = np.linalg.eigh(white @ points @ white.conj().T)
    return (vectors * np.log(values)[:, None, :]) @ np.conj(np.swapaxes(vectors, 1, 2))


@pytest.mark.parametrize(
    ("m", "sigma", "n"), [(2, 0.5, 450), (2, 1.8, 450), (3, 0.5, 450), (3, 1.6, 400)]
)
def test_draws_of_hermitian_matrices(m: int, sigma: float, n: int) -> None:
    """Every sinh is squared, and the eigenvectors are uniform on the complex sphere."""
    v = logs(
        HPDAffineInvariant(m), sigma, n, np.asarray(off_origin(HPDAffineInvariant(m)))
    )
    trace = np.trace(v, axis1=1, axis2=2).real
    assert accepts(ks(trace / (sigma * np.sqrt(m)), stats.norm.cdf))
    v = v - trace[:, None, None] / m * np.eye(m)
    radius = np.linalg.norm(v, axis=(1, 2))
    assert accepts(ks(radius, spread_cdf(m, sigma, factor=lambda x: np.sinh(x) ** 2)))
    assert rejects(ks(radius, spread_cdf(m, sigma)))  # the real matrices' law
    gap = np.diff(np.linalg.eigvalsh(v)[:, ::-1])[:, 0]
    real = logs(SPDAffineInvariant(m), sigma, n, np.eye(m))
    assert rejects(
        stats.ks_2samp(gap, np.diff(np.linalg.eigvalsh(real)[:, ::-1])[:, 0]).pvalue
    )
    top = (
        np.linalg.eigh(v)[1][:, :, -1]
        * np.exp(2j * np.pi * np.random.default_rng(0).random(n))[:, None]
    )
    directions = np.concatenate([top.real, top.imag], axis=1)
    assert accepts(uniform_directions(directions))
    bent = directions * np.array([1.0] + [0.7] * (2 * m - 1))
    assert rejects(uniform_directions(bent / np.linalg.norm(bent, axis=1)[:, None]))
    # against the float sampler, which shares no envelope code in balls: all eigenvalues
    floats = sample_log_eigenvalues(np.random.default_rng(5), m, sigma, 4000, beta=2)
    mine = np.linalg.eigvalsh(v)[:, ::-1] + trace[:, None] / m
    assert all(
        accepts(stats.ks_2samp(mine[:, i], floats[:, i]).pvalue) for i in range(m)
    )


@pytest.mark.parametrize(
    ("m", "sigma", "n"),
    [(2, 0.5, 1100), (2, 3.0, 1300), (3, 0.6, 1100), (3, 2.5, 1000)],
)
def test_draws(m: int, sigma: float, n: int) -> None:
    v = logs(
        SPDAffineInvariant(m), sigma, n, np.asarray(off_origin(SPDAffineInvariant(m)))
    )
    trace = np.trace(v, axis1=1, axis2=2)
    assert accepts(ks(trace / (sigma * np.sqrt(m)), stats.norm.cdf))
    assert rejects(ks(1.4 * trace / (sigma * np.sqrt(m)), stats.norm.cdf))
    v = v - trace[:, None, None] / m * np.eye(m)
    radius = np.linalg.norm(v, axis=(1, 2))
    assert accepts(ks(radius, spread_cdf(m, sigma)))
    assert rejects(ks(radius, spread_cdf(m, 1.25 * sigma)))
    if sigma > 2:
        assert rejects(
            ks(radius, spread_cdf(m, sigma, factor=lambda x: x))
        )  # sinh left out
    top = np.linalg.eigh(v)[1][
        :, :, -1
    ]  # the leading eigenvector, with a random sign, is uniform
    top = top * np.random.default_rng(0).choice([-1, 1], n)[:, None]
    assert accepts(uniform_directions(top))
    assert rejects(
        uniform_directions(
            top
            @ np.diag([1.0] + [0.7] * (m - 1))
            / np.linalg.norm(top @ np.diag([1.0] + [0.7] * (m - 1)), axis=1)[:, None]
        )
    )


@pytest.mark.parametrize(("m", "sigma"), [(3, 1.6), (4, 1.4)])
def test_both_envelopes_give_one_law(m: int, sigma: float) -> None:
    source = GeneratorSource(np.random.default_rng(4))

    def spectra(draw, n: int = 700) -> np.ndarray:
        with ctx.workprec(128):
            inner = [draw().exp(128) for _ in range(n)]
        return np.log(
            np.linalg.eigvalsh(
                [[[float(x[i, j]) for j in range(m)] for i in range(m)] for x in inner]
            )
        )

    near = spectra(
        lambda: draw_near(
            tangent_bound(m, sigma, NearEnvelope.tightest(m, sigma).tangent), source
        )
    )
    far = spectra(lambda: draw_far_gaussian(m, sigma, 1, source))
    for i in range(m):
        assert accepts(stats.ks_2samp(near[:, i], far[:, i]).pvalue)
    assert rejects(stats.ks_2samp(near[:, -1], 1.5 * far[:, -1]).pvalue)


@pytest.mark.parametrize("m", [2, 3])
def test_near_accepts_as_often_as_its_closed_form_says(m: int) -> None:
    sigma, n = 1.5, 2000
    rng = np.random.default_rng(7)
    near = np.exp(NearEnvelope.tightest(m, sigma).log_acceptance)

    class Counting(GeneratorSource):
        trials = 0

        def child(self):
            self.trials += 1
            return self

    source = Counting(rng)
    for _ in range(n):
        draw_near(
            tangent_bound(m, sigma, NearEnvelope.tightest(m, sigma).tangent), source
        )
    trials = (
        source.trials / 2
    )  # a matrix and a coin each, but for rare second batches of normals
    assert abs(n / trials / near - 1) < 0.06


@pytest.mark.parametrize(
    ("m", "sigma", "n"),
    [(1, 0.3, 400), (10, 0.3, 100), (12, 0.4, 40), (20, 0.3, 20), (20, 3.0, 20)],
)
def test_determinant_in_higher_dimension(m: int, sigma: float, n: int) -> None:
    manifold, source = SPDAffineInvariant(m), GeneratorSource(np.random.default_rng(m))
    center = np.asarray(off_origin(manifold, 1.0))
    draws = [
        exact_gaussian(manifold, sigma, center, source=source, grid=200)
        for _ in range(n)
    ]
    # 200 bits, because the eigenvalues range over e^±σ²m: the determinant in rational arithmetic
    log_det = [
        float(arb(fmpz_mat(draw.integers.tolist()).det()).log()) - 200 * m * np.log(2)
        for draw in draws
    ]
    trace = np.array(log_det) - np.linalg.slogdet(center)[1]
    assert accepts(ks(trace / (sigma * np.sqrt(m)), stats.norm.cdf))
    assert all(np.array_equal(draw.integers, draw.integers.T) for draw in draws)


def test_scales_that_no_envelope_serves_are_refused() -> None:
    with pytest.raises(ParameterError, match="log-map Gaussian"):
        exact_gaussian(SPDAffineInvariant(60), 0.5, np.eye(60))


def test_cholesky_encloses_the_factor() -> None:
    a = np.asarray(off_origin(SPDAffineInvariant(5), 2.0))
    a = a + np.triu(np.full((5, 5), 1e-9), 1)  # its symmetric part counts
    with ctx.workprec(128):
        lower = cholesky(a)
        product = lower @ lower.T
        assert all(
            product[i, j].overlaps((arb(a[i, j]) + arb(a[j, i])) / 2)
            for i in range(5)
            for j in range(5)
        )
        assert max(float(x.rad()) for x in product.ravel()) < 1e-30


@pytest.mark.parametrize(
    "center",
    [
        -np.eye(2),
        np.ones((2, 2)),  # singular: no precision decides it, rational arithmetic does
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.array([[0.0, 0.0], [0.0, 1.0]]),
    ],
)
def test_indefinite_footpoint_is_refused(center: np.ndarray) -> None:
    with pytest.raises(ParameterError, match="positive definite"):
        exact_gaussian(SPDAffineInvariant(2), 1.0, center)


def test_hermitian_footpoints_count_by_their_hermitian_part() -> None:
    M = HPDAffineInvariant(2)
    center = M.from_complex(np.array([[2.0, 1.0 + 1.0j], [1.0 - 1.0j, 2.0]]))
    skew = center.copy()
    skew[0, 1, 1] += (
        0.5  # together with the entry below, the Hermitian part is as before
    )
    skew[1, 0, 1] += 0.5
    a, b = (
        exact_gaussian(M, 0.2, c, source=GeneratorSource(np.random.default_rng(3)))
        for c in (center, skew)
    )
    assert np.array_equal(a.integers, b.integers)
    assert np.array_equal(a.integers[..., 1], -a.integers[..., 1].T)
    for bad in (
        -center,
        M.from_complex(np.array([[1.0, 1.0j], [-1.0j, 1.0]])),
    ):  # indefinite, singular
        with pytest.raises(ParameterError, match="positive definite"):
            exact_gaussian(M, 0.2, bad)


def test_nearly_singular_footpoint_is_served() -> None:
    center = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]])
    draw = exact_gaussian(SPDAffineInvariant(2), 0.1, center, grid=100)
    a, b, c = (
        int(draw.integers[0, 0]),
        int(draw.integers[0, 1]),
        int(draw.integers[1, 1]),
    )
    assert a * c - b * b > 0  # still positive definite on the fine grid
