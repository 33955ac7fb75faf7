"""Gaussian, Laplace and generalized Gaussian noise on R^d, against quadrature and SciPy's own laws."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import integrate, stats

from curvedp.errors import ParameterError
from curvedp.papers.rao.laws import (
    GeneralizedGaussian,
    MultivariateGaussian,
    MultivariateLaplace,
    SphericalGeneralizedGaussian,
)
from support import goodness

N = 200_000
SPHERICAL = [
    MultivariateGaussian(1, 0.5),
    MultivariateGaussian(6, 3.0),
    MultivariateLaplace(1, 0.5),
    MultivariateLaplace(6, 3.0),
    SphericalGeneralizedGaussian(1, 0.5, 4.0),
    SphericalGeneralizedGaussian(3, 3.0, 0.7),
    SphericalGeneralizedGaussian(2, 1.0, 300.0),
]
PRODUCTS = [
    GeneralizedGaussian(dim, scale, power)
    for dim, scale in ((1, 0.5), (3, 2.0))
    for power in (0.6, 1, 2, 5, 400)
]


def weight(law, r):
    """The printed weight, from the class's definition."""
    match law:
        case MultivariateGaussian():
            return math.exp(-(r**2) / (2 * law.scale**2))
        case MultivariateLaplace():
            return math.exp(-r / law.scale)
        case _:
            return math.exp(-((r / law.scale) ** law.power))


def score(law, r):
    """Minus the derivative of the logarithm of the weight."""
    match law:
        case MultivariateGaussian():
            return r / law.scale**2
        case MultivariateLaplace():
            return 1 / law.scale
        case _:
            return law.power / law.scale * (r / law.scale) ** (law.power - 1)


def panels(law):
    """From 0 to where the weight is below 1e-300, finer towards 0."""
    top = law.scale
    while weight(law, top) > 1e-300:
        top *= 1.02
    return np.concatenate([[0.0], np.geomspace(1e-8, 1, 80)]) * top


def integral(f, cuts):
    return sum(
        integrate.quad(f, a, b, epsabs=0, limit=100)[0]
        for a, b in itertools.pairwise(cuts)
    )


@pytest.mark.parametrize("law", SPHERICAL, ids=repr)
class TestSpherical:
    center = staticmethod(lambda law: np.arange(1.0, law.dim + 1.0))

    def draws(self, law):
        return law.sample(np.random.default_rng(0), self.center(law), N) - self.center(
            law
        )

    def test_radius_and_directions(self, law):
        z = self.draws(law)
        r = np.linalg.norm(z, axis=-1)
        assert goodness.accepts(goodness.ks(r, law.radial_cdf))
        assert goodness.rejects(
            goodness.ks(r, replace(law, scale=1.05 * law.scale).radial_cdf)
        )
        assert goodness.accepts(min(goodness.directions(z), goodness.mean_zero(z)))
        assert goodness.accepts(goodness.moment(r, law.mean_radius))
        assert goodness.accepts(goodness.moment(r**2, law.mean_square_radius))

    def test_density_by_quadrature(self, law):
        area = 2 * math.pi ** (law.dim / 2) / math.gamma(law.dim / 2)
        cuts = panels(law)
        mass = integral(lambda r: weight(law, r) * r ** (law.dim - 1), cuts) * area
        assert law.log_normalizer == pytest.approx(math.log(mass), abs=1e-6)
        x = self.center(law) + 0.3 * law.scale
        r = 0.3 * law.scale * math.sqrt(law.dim)
        assert float(law.log_prob(x, self.center(law))) == pytest.approx(
            math.log(weight(law, r) / mass), abs=1e-6
        )
        below = np.append(cuts[cuts < law.mean_radius], law.mean_radius)
        inside = integral(lambda r: weight(law, r) * r ** (law.dim - 1), below) * area
        assert float(law.radial_cdf(law.mean_radius)) == pytest.approx(
            inside / mass, rel=1e-6
        )

    def test_fisher_information_by_quadrature(self, law):
        """∫ (∂₁ log p)² p: the radial derivative squared, over d by symmetry."""
        area = 2 * math.pi ** (law.dim / 2) / math.gamma(law.dim / 2)

        def integrand(r):
            return score(law, r) ** 2 * weight(law, r) * r ** (law.dim - 1)

        total = integral(integrand, panels(law))
        expected = total * area / math.exp(law.log_normalizer) / law.dim
        assert law.fisher_information == pytest.approx(expected, rel=1e-6)

    def test_shapes_and_refusals(self, law):
        rng, center = np.random.default_rng(1), self.center(law)
        assert law.sample(rng, center).shape == (law.dim,)
        assert law.sample(rng, center, (2, 3)).shape == (2, 3, law.dim)
        assert law.sample(rng, np.stack([center, -center])).shape == (2, law.dim)
        with pytest.raises(ParameterError, match="scale"):
            replace(law, scale=math.nan)
        with pytest.raises(ParameterError, match="dim"):
            replace(law, dim=0)
        with pytest.raises(ParameterError, match="rng"):
            law.sample(7, center)


@pytest.mark.parametrize("law", PRODUCTS, ids=repr)
class TestGeneralizedGaussian:
    def test_coordinates(self, law):
        center = np.arange(1.0, law.dim + 1.0)
        z = law.sample(np.random.default_rng(2), center, N) - center
        for coordinate in z.T:
            assert goodness.accepts(goodness.ks(coordinate, law.cdf))
            assert goodness.rejects(
                goodness.ks(coordinate, replace(law, scale=1.06 * law.scale).cdf)
            )
            assert goodness.accepts(goodness.moment(coordinate**2, law.variance))
        if law.dim > 1:
            assert goodness.accepts(stats.spearmanr(z[:, 0], z[:, 1]).pvalue)

    def test_against_scipy(self, law):
        reference = stats.gennorm(law.power, scale=law.scale)
        x = np.linspace(-2.5, 2.5, 41) * law.scale
        x = x[
            np.abs(x) > 0.3 * law.scale
        ]  # nearer to 0 SciPy's |x|^400 underflows and its CDF is off by 0.06
        np.testing.assert_allclose(law.cdf(x), reference.cdf(x), atol=1e-12)
        point = np.linspace(-0.4, 0.7, law.dim) * law.scale
        expected = np.sum(reference.logpdf(point))
        assert float(law.log_prob(point, np.zeros(law.dim))) == pytest.approx(
            expected, abs=1e-9
        )
        assert law.variance == pytest.approx(reference.var(), rel=1e-9)
        assert law.mean_square_radius == pytest.approx(
            law.dim * reference.var(), rel=1e-9
        )


class TestGeneralizedGaussianFisherInformation:
    """docs/errata.md, E17: the printed exp{|x−μ|^N/σ} is not the law its normalizer and Rao distance belong to."""

    @pytest.mark.parametrize("power", [0.7, 1.0, 1.5, 2.0, 4.0])
    def test_formula(self, power):
        law = GeneralizedGaussian(1, 1.3, power)
        expected = (
            power * math.gamma(2 - 1 / power) / (1.3**2 * math.gamma(1 + 1 / power))
        )
        assert law.fisher_information == pytest.approx(expected, rel=1e-12)

    def test_two_means_root_two_standard_deviations(self):
        law = GeneralizedGaussian(1, math.sqrt(2) * 0.7, 2.0)
        x = np.linspace(-3, 3, 13)
        np.testing.assert_allclose(law.cdf(x), stats.norm(0, 0.7).cdf(x), atol=1e-14)
        assert law.fisher_information == pytest.approx(1 / 0.7**2, rel=1e-12)

    def test_the_printed_density_does_not_integrate_to_one(self):
        power, scale = 3.0, 2.0
        normalizer = 2 * scale * math.gamma(1 / power) / power
        printed = (
            2
            * integrate.quad(lambda x: math.exp(-(x**power) / scale), 0, 20)[0]
            / normalizer
        )
        ours = (
            2
            * integrate.quad(lambda x: math.exp(-((x / scale) ** power)), 0, 20)[0]
            / normalizer
        )
        assert ours == pytest.approx(1.0, abs=1e-9)
        assert abs(printed - 1.0) > 0.3

    def test_infinite_below_one_half(self):
        with pytest.raises(ParameterError, match=r"power=0.5 must be > 0.5"):
            _ = GeneralizedGaussian(1, 1.0, 0.5).fisher_information
        with pytest.raises(ParameterError, match="power"):
            _ = SphericalGeneralizedGaussian(1, 1.0, 0.4).fisher_information
        assert SphericalGeneralizedGaussian(2, 1.0, 0.4).fisher_information > 0


def test_coordinates_of_a_gaussian_have_their_distribution_function():
    x = np.array([-3.0, 0.0, 0.4, 5.0])
    assert MultivariateGaussian(3, 2.0).cdf(x) == pytest.approx(
        stats.norm.cdf(x, scale=2.0), rel=1e-12
    )
    assert GeneralizedGaussian(3, 2.0, 1.0).cdf(x) == pytest.approx(
        stats.laplace.cdf(x, scale=2.0), rel=1e-12
    )


def test_moments_of_the_flat_laws():
    for dim in (1, 2, 5):
        laplace = MultivariateLaplace(dim, 0.5)
        assert laplace.moment(3) == pytest.approx(
            0.125 * math.gamma(dim + 3) / math.gamma(dim), rel=1e-12
        )
        assert laplace.radial_cdf([-1.0, 0.0, 0.7]) == pytest.approx(
            stats.gamma.cdf([0.0, 0.0, 1.4], dim), rel=1e-12
        )
        assert laplace.fisher_information == pytest.approx(4 / dim, rel=1e-12)
