"""Clipping and noise around geoopt's optimizer: measured, per metric, against the formula."""

import numpy as np
import pytest
from scipy import stats

from curvedp import GDP, ApproxDP, Ledger
from curvedp.errors import BudgetExceeded, ParameterError
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    PoincareBall,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.randomness import GeneratorSource

geoopt = pytest.importorskip(
    "geoopt", reason="geoopt is not installed; the lane `adapters` has it"
)
pytestmark = pytest.mark.filterwarnings("default")
SPACES = [Euclidean(3), Sphere(2), Lorentz(2), PoincareBall(3), SPDAffineInvariant(2)]


class Still:
    """An optimizer that looks at the gradient and stays where it is."""

    def __init__(self, p):
        self.param_groups = [{"params": [p]}]

    def step(self):
        pass


def made(ours, steps=1, clip=1.0, n=50, **more):
    import torch

    from curvedp.adapters.geoopt import to_geoopt
    from curvedp.adapters.training import PrivateOptimizer

    z = 0.4 * np.random.default_rng(1).normal(size=ours.dim)
    start = np.asarray(ours.exp(ours.origin, ours.from_coordinates(ours.origin, z)))
    p = geoopt.ManifoldParameter(torch.tensor(start), manifold=to_geoopt(ours).double())
    more = {
        "guarantee": GDP(1.0),
        "source": GeneratorSource(np.random.default_rng(2)),
        **more,
    }
    return p, start, PrivateOptimizer(Still(p), n, steps, n, clip, **more)


def vector(ours, p, start):
    """What the inner optimizer takes for the Riemannian gradient, in our frame."""
    theirs = p.manifold.egrad2rgrad(p.detach(), p.grad.clone())
    return np.asarray(ours.to_coordinates(start, theirs.numpy()))


@pytest.mark.parametrize("ours", SPACES, ids=str)
def test_the_noise_is_isotropic_in_the_metric_and_of_the_stated_size(ours):
    import torch

    p, start, private = made(ours, steps=400)
    rows = []
    for _ in range(400):
        private.sample()
        private.step([torch.zeros(50, *p.shape, dtype=torch.float64)])
        rows.append(vector(ours, p, start) / private.noise)
    assert private.noise == pytest.approx(np.sqrt(400) * 2 / 50, rel=1e-6)  # √T·2C/(nμ)
    assert stats.kstest(np.ravel(rows), "norm").pvalue > 1e-4
    size = stats.chi2(np.size(rows))
    assert 1e-4 < size.cdf(np.sum(np.square(rows))) < 1 - 1e-4
    assert (
        size.sf(1.2**2 * np.sum(np.square(rows))) < 1e-6
    )  # noise of another size would be seen
    with pytest.raises(ParameterError, match="only as many steps"):
        private.step([torch.zeros(50, *p.shape)])


@pytest.mark.parametrize("ours", SPACES, ids=str)
def test_one_record_moves_the_mean_by_the_clip_and_no_more(ours):
    import torch

    for gradient in (1e12, float("nan"), float("inf")):
        p, start, private = made(ours, guarantee=GDP(1e6))  # next to no noise
        private.sample()
        rows = torch.zeros(50, *p.shape, dtype=torch.float64)
        rows[7] = gradient
        private.step([rows])
        moved = np.linalg.norm(vector(ours, p, start))
        assert moved <= 1.0 / 50 * (1 + 1e-3)
        if gradient == 1e12:
            assert moved >= 1.0 / 50 * (1 - 1e-3)


def test_what_is_refused(tmp_path):
    import torch

    _, _, private = made(Sphere(2), guarantee=ApproxDP(1.0, 1e-6))
    with pytest.raises(ParameterError, match="call sample"):
        private.step([torch.zeros(50, 3)])
    private.sample()
    with pytest.raises(ParameterError, match="one array for each parameter"):
        private.step([torch.zeros(49, 3)])
    book = Ledger(tmp_path / "x.ledger", GDP(0.5))
    with pytest.raises(BudgetExceeded):
        made(Sphere(2), guarantee=GDP(1.0), ledger=book)
    made(Sphere(2), guarantee=GDP(0.5), ledger=book)
    assert book.remaining is None or book.remaining.mu < 1e-6


def test_a_step_goes_down_on_the_manifold():
    """With geoopt's own optimizer and next to no noise: one step of gradient descent on the sphere."""
    import torch

    from curvedp.adapters.training import PrivateOptimizer

    p = geoopt.ManifoldParameter(
        torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64), manifold=geoopt.Sphere()
    )
    private = PrivateOptimizer(
        geoopt.optim.RiemannianSGD([p], lr=0.3), 10, 1, 10, 1.0, GDP(1e7)
    )
    private.sample()
    private.step([torch.tensor([[-0.5, 0.0, 7.0]], dtype=torch.float64).expand(10, 3)])
    moved = p.detach().numpy()
    assert moved[0] > 0
    assert np.arctan2(moved[0], moved[2]) == pytest.approx(0.15, rel=1e-2)
