"""The Gaussian mechanism: refused at the door where no exact draw exists, and float error charged for every flat factor."""

import pytest

from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    Product,
    SPDAffineInvariant,
    SPDLogEuclidean,
    Sphere,
)
from curvedp.laws.exact import exact_gaussian, has_exact_gaussian
from curvedp.mechanisms import GaussianMechanism
from curvedp.privacy import GDP
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


@pytest.mark.parametrize(
    "other", [SPDAffineInvariant(2), Euclidean(2), Lorentz(2)], ids=repr
)
def test_products_with_a_compact_factor_are_not_calibrated(other) -> None:
    with pytest.raises(ParameterError, match="tangent-gaussian"):
        GaussianMechanism.calibrated(Product(Sphere(2), other), 0.01, GDP(1.0))
