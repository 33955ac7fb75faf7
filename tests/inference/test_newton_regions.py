"""Regions after a Newton step with a released Hessian: lemmas against oracles, and how often regions cover."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest

from curvedp import PrivateFrechetMean
from curvedp.geometry import Lorentz, PoincareBall, frechet_mean
from curvedp.geometry.ball import project_to_ball
from curvedp.inference import newton_regions
from curvedp.inference.shapes import shape_after_gradient
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.privacy import GDP
from curvedp.randomness import GeneratorSource
from curvedp.release.rebuild import recorded_draw_of
from curvedp.statistics.frechet_mean import FrechetMean


def gradient_remainder(manifold, points, w, b):
    """Return |R| for a mean at b: what the Hessian at w leaves of the gradient there."""
    logs = np.asarray(manifold.normal_coordinates(w, points))
    s = np.linalg.norm(logs, axis=1)
    u = logs / s[:, None]
    excess = s / np.tanh(s) - 1
    matrix = np.einsum("n,ni,nj->ij", excess, u, u) / len(s)
    hessian = (1 + excess.mean()) * np.eye(manifold.dim) - matrix
    v = np.asarray(manifold.normal_coordinates(w, b))
    return np.linalg.norm(logs.mean(axis=0) - hessian @ v), np.linalg.norm(v), s


def random_records(manifold, rng):
    """Draw records that are spread out, in a few places, or near a plane."""
    scales = rng.uniform(0.1, 4.0) * rng.dirichlet(np.full(manifold.dim, 0.5))
    n = int(rng.integers(2, 12))
    z = rng.standard_normal((n, manifold.dim)) * scales + 1e-3
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, z))


def largest_remainder_ratio(factor, rng):
    """Return the largest remainder over its bound, which is multiplied by a factor."""
    manifold = Lorentz(3)
    largest = 0.0
    for _ in range(120):
        points = random_records(manifold, rng)
        b = np.asarray(frechet_mean(manifold, points))
        step = rng.standard_normal(3)
        step *= rng.choice([1e-3, 0.1, 1.0]) / np.linalg.norm(step)
        w = np.asarray(manifold.from_normal_coordinates(b, step))
        remainder, distance, s = gradient_remainder(manifold, points, w, b)
        spread = float(np.sqrt(np.mean(s**2)))
        bound = newton_regions._remainder_bound(manifold, distance, spread)
        largest = max(largest, (remainder - 1e-9) / (factor * bound))
    return largest


def test_the_remainder_of_the_gradient_is_within_its_bound():
    assert largest_remainder_ratio(1.0, np.random.default_rng(0)) <= 1
    assert largest_remainder_ratio(0.2, np.random.default_rng(0)) > 1


def third_derivative(s, phi):
    """Return ∇³(½d²)(e, e, ·) of a record at distance s, at the angle phi to e."""
    excess_slope = 1 / np.tanh(s) - s / np.sinh(s) ** 2
    c = (s / np.tanh(s) - 1) / np.tanh(s)
    perpendicular = np.stack([np.sin(phi) ** 2, -np.cos(phi) * np.sin(phi)], axis=-1)
    direction = np.stack([np.cos(phi), np.sin(phi)], axis=-1)
    along = (c - excess_slope) * np.cos(phi)
    return (
        along[:, None] * perpendicular + (c * np.sin(phi) ** 2)[:, None] * direction
    ), direction


def test_third_derivatives_are_those_of_the_formula_and_within_the_lemma():
    """The formula against differences of gradients; the lemma on a grid of distances and angles."""
    manifold, h = Lorentz(2), 1e-3
    w = manifold.origin
    for s, phi in ((0.5, 0.3), (2.0, 1.2), (5.0, 2.0)):
        z = s * np.array([np.cos(phi), np.sin(phi)])
        x = np.asarray(manifold.from_normal_coordinates(w, z))
        # The third derivative along e itself, by differences of costs on a geodesic.
        costs = [
            float(
                manifold.dist(
                    np.asarray(
                        manifold.from_normal_coordinates(w, np.array([k * h, 0.0]))
                    ),
                    x,
                )
            )
            ** 2
            / 2
            for k in (-2, -1, 1, 2)
        ]
        difference = (costs[3] - 2 * costs[2] + 2 * costs[1] - costs[0]) / (2 * h**3)
        [vector], _ = third_derivative(s, np.array([phi]))
        assert vector[0] == pytest.approx(difference, rel=1e-3, abs=1e-4)

    phi = np.linspace(0, np.pi, 2001)
    for s in (1e-3, 0.1, 1.0, 3.0, 20.0):
        vectors, directions = third_derivative(s, phi)
        lengths = np.linalg.norm(vectors - 0.5 * s * directions, axis=1)
        assert 0.98 * s < 2 * lengths.max() <= s * (1 + 1e-9)


def test_the_noise_along_a_vector_is_within_its_quantile():
    """Against draws of the noisy Hessian; half of the noise is seen to be too little."""
    rng, d, draws = np.random.default_rng(1), 6, 20_000
    released = newton_regions.NoisyMeanHessian(np.eye(d), 0.3, 1.0, 0.1)
    entries = rng.standard_normal((draws, d, d))
    noise = 0.3 * (entries + np.swapaxes(entries, 1, 2)) / 2
    assert np.std(noise[:, 0, 1]) == pytest.approx(0.3 / np.sqrt(2), rel=0.02)
    noise[:, range(d), range(d)] = 0.3 * entries[:, range(d), range(d)]
    trace = np.trace(noise, axis1=1, axis2=2)
    excess = 0.1 * rng.standard_normal(draws)
    errors = (excess - excess / d + trace / d)[:, None, None] * np.eye(d) - noise
    v = rng.standard_normal(d)
    lengths = np.linalg.norm(errors @ (v / np.linalg.norm(v)), axis=1)
    for failure in (0.05, 0.005):
        bound = newton_regions._error_along_vector(released, failure)
        assert np.mean(lengths > bound) < failure
        assert np.mean(lengths > bound / 2) > 5 * failure


def test_variances_in_single_directions_are_within_their_caps():
    manifold, radius, rng = PoincareBall(4), 5.0, np.random.default_rng(2)
    z = rng.standard_normal((4000, 4)) * [1.5, 0.8, 0.3, 0.3]
    X = np.asarray(manifold.from_normal_coordinates(manifold.origin, z))
    statistic = FrechetMean(manifold, None, radius, len(X))
    mechanism = NewtonMechanism(scale=1.0, statistic=statistic).with_second_moments()
    release = mechanism.release(X, source=GeneratorSource(rng))
    draw = recorded_draw_of(release.certificate)
    logs = np.asarray(manifold.normal_coordinates(draw.base, statistic.clip_records(X)))
    variances = np.linalg.eigvalsh(logs.T @ logs / len(logs))[::-1]
    caps = newton_regions._variance_caps(manifold, draw, 0.01)
    assert np.all(variances <= caps)
    assert caps[0] < 4 * variances[0]
    assert caps[0] < draw.mean_square.value * 2


def test_the_quantile_is_the_largest_of_all_covariances_that_are_possible():
    """Random spectra with the same trace and caps, in random bases."""
    rng, d = np.random.default_rng(3), 5
    eigenvalues = np.array([1.5, 2.0, 3.0, 3.5, 4.0])
    caps = np.array([0.7, 0.4, 0.4, 0.2, 0.2])
    bound = newton_regions._largest_quantile(0.1, 1.0, caps, eigenvalues, 0.95)
    alone = newton_regions._largest_quantile(0.1, 1.0, np.ones(d), eigenvalues, 0.95)
    assert bound < alone
    largest = 0.0
    for run in range(60):
        spectrum = np.zeros(d)
        weights = rng.dirichlet(np.full(d, 0.4), size=30)
        allowed = [
            np.sort(w)[::-1] for w in weights if np.all(np.sort(w)[::-1] <= caps)
        ]
        spectrum = allowed[0] if allowed else np.array([0.7, 0.3, 0, 0, 0])
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0] if run % 3 else np.eye(d)
        sampling = (rng.standard_normal((20_000, d)) * np.sqrt(spectrum)) @ basis.T
        errors = sampling + 0.1 * rng.standard_normal((20_000, d))
        lengths = np.linalg.norm(errors / eigenvalues, axis=1)
        largest = max(largest, float(np.quantile(lengths, 0.95)))
    assert 0.9 * bound < largest <= bound


def skewed_records(manifold, rng, n):
    """Draw records with a long tail in one direction."""
    z = rng.gamma(1.0, size=(n, manifold.dim)) - 1.0
    z[:, 0] *= 2.0
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, z))


@pytest.mark.parametrize("manifold", [Lorentz(2), PoincareBall(5)], ids=str)
def test_regions_cover_records_and_population(manifold):
    """Skewed populations; regions of the records hold few means of the population, and a quarter of the radius too few."""
    rng, runs = np.random.default_rng(4), 50
    population = skewed_records(manifold, rng, 5_000)
    truth = np.asarray(frechet_mean(manifold, population))
    counts = {"population": 0, "records": 0, "other": 0, "quarter": 0}
    for _ in range(runs):
        sample = population[rng.integers(len(population), size=400)]
        model = PrivateFrechetMean(manifold, "private", guarantee=GDP(1.0)).fit(sample)
        clipped = np.asarray(project_to_ball(manifold, *model.ball_, sample))
        mean = np.asarray(frechet_mean(manifold, clipped))
        clipped_truth = np.asarray(
            frechet_mean(
                manifold,
                np.asarray(project_to_ball(manifold, *model.ball_, population)),
            )
        )
        regions = {
            of: model.confidence_region(of=of) for of in ("population", "records")
        }
        assert "mean Hessian" in regions["population"].theorem
        counts["population"] += bool(regions["population"].contains(clipped_truth))
        counts["records"] += bool(regions["records"].contains(mean))
        counts["other"] += bool(regions["records"].contains(truth))
        whole = regions["population"]
        quarter = replace(whole, radius=whole.radius / 4)
        counts["quarter"] += bool(quarter.contains(clipped_truth))
    for of in ("population", "records"):
        assert binomtest(counts[of], runs, 0.95, alternative="less").pvalue > 1e-3
    assert binomtest(counts["other"], runs, 0.95, alternative="less").pvalue < 1e-4
    assert binomtest(counts["quarter"], runs, 0.95, alternative="less").pvalue < 1e-4


def test_regions_are_narrower_than_those_by_curvature_alone():
    """The same draw, by Theorem I2 and by Theorem I11."""
    manifold, rng = PoincareBall(5), np.random.default_rng(5)
    X = skewed_records(manifold, rng, 600)
    model = PrivateFrechetMean(manifold, "private", guarantee=GDP(1.0)).fit(X)
    draw = recorded_draw_of(model.certificate_)
    statistic = draw.frame
    region = model.confidence_region()
    [noise] = newton_regions.noise_quantiles(draw, [0.95])
    by_curvature = shape_after_gradient(manifold, statistic, draw, noise, 0.0)
    assert region.radius < 0.6 * by_curvature.radius


def test_few_records_fall_back_on_the_theorem_without_the_hessian():
    manifold, rng = PoincareBall(5), np.random.default_rng(6)
    X = skewed_records(manifold, rng, 60)
    model = PrivateFrechetMean(manifold, "private", guarantee=GDP(0.5)).fit(X)
    region = model.confidence_region(of="population")
    assert region.radius > 0
    assert "mean Hessian" not in region.theorem


def star(rng, n):
    """Draw records at the ends of three rays, whose third derivatives add up."""
    angles = 2 * np.pi / 3 * rng.integers(3, size=n)
    ends = 4.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    ends += 0.2 * rng.standard_normal((n, 2))
    manifold = Lorentz(2)
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, ends))


def test_regions_cover_populations_whose_third_derivative_is_large():
    """Where the asymptotic region is used although its remainder is not small."""
    manifold, rng, runs = Lorentz(2), np.random.default_rng(7), 40
    truth = np.asarray(frechet_mean(manifold, star(rng, 20_000)))
    hits = asymptotic = 0
    for _ in range(runs):
        sample = star(rng, 300)
        model = PrivateFrechetMean(manifold, "private", guarantee=GDP(0.3)).fit(sample)
        region = model.confidence_region(of="population")
        asymptotic += "variance and the mean Hessian" in region.theorem
        hits += bool(region.contains(truth))
    assert asymptotic > runs / 2
    assert binomtest(hits, runs, 0.95, alternative="less").pvalue > 1e-3
