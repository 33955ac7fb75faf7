"""The Gaussian mechanism: refused at the door where no exact draw exists, and float error charged for every flat factor."""

import pytest

from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Product,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
    Torus,
)
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import exact_gaussian, has_exact_gaussian
from curvedp.mechanisms import GaussianMechanism
from curvedp.privacy import GDP, ApproxDP
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean
from support.spaces import EDGES, SPACES


@pytest.mark.parametrize("M", SPACES + EDGES, ids=repr)
def test_what_cannot_be_drawn_is_refused_before_anything_is_paid(M) -> None:
    if has_exact_gaussian(M):
        assert exact_gaussian(M, 0.1, M.origin).integers.size > 0
        return
    with pytest.raises(ParameterError):
        exact_gaussian(M, 0.1, M.origin)
    with pytest.raises(ParameterError):
        GaussianMechanism(M, 0.01, 0.1)


def test_every_flat_factor_is_charged() -> None:
    flat = SPDLogEuclidean(2)
    charged = [
        GaussianMechanism(space, 0.01, 0.1).noise[3] - 0.01
        for space in (flat, Product(Sphere(2), flat), Product(flat, flat))
    ]
    assert charged[0] == pytest.approx(2e-9, rel=1e-6)
    assert charged[1] == pytest.approx(charged[0], rel=1e-6)
    assert charged[2] == pytest.approx(2 * charged[0], rel=1e-6)
    assert (
        GaussianMechanism(Product(Sphere(2), Euclidean(2)), 0.01, 0.1).noise[3] == 0.01
    )


@pytest.mark.parametrize("other", [SPDAffineInvariant(2), Lorentz(2)], ids=repr)
def test_a_product_of_both_curvatures_is_not_calibrated(other) -> None:
    """Theorem P6 fails where a curvature is negative, and the exact profile is slow."""
    space = Product(Sphere(2), other)
    with pytest.raises(ParameterError, match="tangent-gaussian"):
        GaussianMechanism.calibrated(space, 0.01, GDP(1.0))
    with pytest.raises(ParameterError, match="is not known to bound"):
        GaussianMechanism(space, 0.01, 0.1, profile="flat-bound")
    with pytest.raises(ParameterError, match="profile"):
        GaussianMechanism(Sphere(2), 0.01, 0.1, profile="none")


@pytest.mark.parametrize(
    "space",
    [Product(Sphere(2), Sphere(2)), Product(Sphere(2), Euclidean(2))],
    ids=repr,
)
def test_products_without_negative_curvature_are_calibrated_by_theorem_p6(space):
    """σ = Δ/μ; the certificate is verified, and less noise does not meet the guarantee."""
    mean = FrechetMean(space, None, 0.5, 500)
    for guarantee in (GDP(1.0), ApproxDP(1.0, 1e-6)):
        mechanism = GaussianMechanism.calibrate(mean, guarantee)
        assert mechanism.profile == "flat-bound"
        flat_mu = mean.sensitivity / mechanism.sigma
        assert GDP(flat_mu * (1 - 1e-9)).delta(1.0) <= guarantee.delta(1.0)
        certificate = mechanism.release(space.origin).certificate
        again = Certificate.from_json(certificate.to_json())
        assert all(check.holds for check in verify_certificate(again))

        less = mechanism.with_scaled_noise(0.9)
        assert less.profile == "flat-bound"
        assert less.privacy_profile.delta(1.0) > guarantee.delta(1.0)
    # A guarantee in place of σ leads to the same mechanism.
    by_guarantee = GaussianMechanism(space, mean.sensitivity, GDP(1.0))
    assert by_guarantee.profile == "flat-bound"


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "sensitivity"), [(1.0, 1.0), (0.6, 0.3)])
def test_theorem_p6_bounds_the_exact_profile_of_two_spheres(sigma, sensitivity):
    """The oracle is the exact profile, a supremum over splits of the sensitivity.

    Nine tenths of the bound's scale would be no bound for small noise.
    """
    law = RiemannianGaussian(Product(Sphere(2), Sphere(2)), sigma)
    exact, bound = law.profile(sensitivity), law.flat_bound(sensitivity)
    for eps in (0.0, 0.3, 1.0):
        assert exact.delta(eps) <= bound.delta(eps)
    small = RiemannianGaussian(Product(Sphere(2), Sphere(2)), 0.1)
    too_good = small.flat_bound(0.9 * 0.05)
    assert small.profile(0.05).delta(0.3) > too_good.delta(0.3)


def test_a_space_without_exact_draws_is_refused_before_calibration(monkeypatch) -> None:
    """The search for σ on Torus(2) took 20 s, for a mechanism that was refused then."""
    monkeypatch.setattr(
        "curvedp.mechanisms.isotropic.base.smallest_scale",
        lambda *arguments: pytest.fail("the noise scale was searched for"),
    )
    with pytest.raises(ParameterError, match="no exact Gaussian sampler"):
        GaussianMechanism.calibrated(Torus(2), 0.01, GDP(1.0))
