"""The hyperbolic floor by its angle."""

import math

import numpy as np
import pytest

from curvedp.privacy._space_form import FloorTails
from curvedp.privacy.constant_curvature import FloorProfile


@pytest.mark.parametrize(("d", "D"), [(2, 0.5), (3, 2.0), (10, 1.0)])
def test_the_floor_by_its_angle(d, D):
    law = FloorTails(d, D)
    phi = (np.arange(400_000) + 0.5) * math.pi / 400_000
    weight = np.sin(phi) ** (d - 2)
    p = weight / weight.sum()
    loss = (d - 1) * np.log(math.cosh(D) - math.sinh(D) * np.cos(phi))
    assert law.max_loss == pytest.approx(loss.max(), rel=1e-6)
    assert law.loss_scale == pytest.approx((d - 1) * D / math.sqrt(d), rel=1e-14)
    assert float(np.sum(p * np.exp(-loss))) == pytest.approx(1.0, abs=1e-5)  # it is a likelihood ratio
    for t in law.max_loss * np.array([0.0, 0.3, 0.8]):
        upper, lower = law.log_tails(np.array([t]))
        assert math.exp(upper[0]) == pytest.approx(p[loss > t].sum(), abs=2e-5)
        assert math.exp(upper[0]) + math.exp(lower[0]) == pytest.approx(1.0, abs=1e-12)
    profile = FloorProfile(-1.0, d, D)
    assert profile.delta(0.1) == pytest.approx(np.sum(p * np.maximum(1 - np.exp(0.1 - loss), 0.0)), rel=1e-4)
    assert profile.rao == pytest.approx(law.loss_scale, rel=1e-13)
