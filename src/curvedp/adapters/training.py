"""Clipping and noise around an optimizer of torch, for parameters on geoopt's manifolds among others (needs torch)."""

from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.adapters.spaces import from_geoopt
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import check_guarantee
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import rounded_clip, rsgd_noise


class PrivateOptimizer:
    """Steps of another optimizer along noisy means of clipped Riemannian gradients.

    The gradient of each record, over all parameters together, is shortened to `clip` in the manifolds' own metrics; the sum
    gets isotropic tangent noise. Momentum and whatever else the inner optimizer does is post-processing.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Such as `geoopt.optim.RiemannianSGD`; one parameter group or several.
    n, steps, batch_size : int
        Records, steps in all, and the expected size of a batch, each record of which is drawn by a coin (`sample`).
    clip : float
        The longest gradient of one record.
    guarantee : Guarantee
        For all steps together, for replacing a record.
    ledger : Ledger, optional
        Charged at once, for all steps.

    Attributes
    ----------
    noise : float
        Standard deviation of the tangent noise of a mean gradient.
    guarantee : Guarantee
        What all steps give.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Before anything is drawn.
    """

    def __init__(
        self,
        optimizer: Any,
        n: int,
        steps: int,
        batch_size: int,
        clip: float,
        guarantee: Guarantee,
        ledger: Ledger | None = None,
        source: Source | None = None,
    ) -> None:
        self.parameters = [p for group in optimizer.param_groups for p in group["params"]]
        self.spaces = [_space(p) for p in self.parameters]
        self.n, self.left = _validate.integer("n", n, 2), _validate.integer("steps", steps, 1)
        self.batch_size = _validate.integer("batch_size", batch_size, 1)
        self.clip, dim = _validate.positive("clip", clip), sum(space.dim for space in self.spaces)
        kinds = [np.finfo(p.detach().cpu().numpy().dtype) for p in self.parameters]
        charged = rounded_clip(self.clip, dim, max(kinds, key=lambda kind: kind.eps).dtype, self.n, self.batch_size)
        self.guarantee = check_guarantee(guarantee)
        self.noise = rsgd_noise(self.n, self.left, self.batch_size, charged, guarantee, "poisson")
        self.optimizer, self.source, self._drawn = optimizer, source or SecureSource(), -1
        if ledger is not None:
            ledger.spend(guarantee, "training")

    def sample(self) -> np.ndarray:
        """The records of the next step, each by a coin of its own."""
        found = np.flatnonzero(self.source.uniform(self.n) < self.batch_size / self.n)
        self._drawn = len(found)
        return found

    def step(self, gradients: list[Any]) -> None:
        """One step, given the ordinary gradients of the sampled records: an array (records, *shape) for each parameter."""
        if self._drawn < 0 or not self.left:
            raise ParameterError("call sample before each step; no more steps than were paid for are made")
        if [tuple(g.shape) for g in gradients] != [(self._drawn, *p.shape) for p in self.parameters]:
            raise ParameterError(f"gradients must be of {self._drawn} records, one array for each parameter")
        rows = np.concatenate(
            [_coordinates(*each) for each in zip(self.spaces, self.parameters, gradients, strict=True)], 1
        )
        rows[~np.isfinite(rows).all(axis=1)] = 0.0
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        total = (rows * np.minimum(1.0, self.clip / np.maximum(lengths, self.clip))).sum(axis=0)
        noisy = total / self.batch_size + self.noise * self.source.normal(total.shape)
        self.left, self._drawn, start = self.left - 1, -1, 0
        for space, p in zip(self.spaces, self.parameters, strict=True):
            _assign(space, p, noisy[start : start + space.dim])
            start += space.dim
        self.optimizer.step()


def _space(parameter: Any) -> Manifold:
    manifold = getattr(parameter, "manifold", None)
    if manifold is None or type(manifold).__name__ == "Euclidean":
        return Euclidean(parameter.numel())
    return from_geoopt(manifold, tuple(parameter.shape))


def _point(space: Manifold, parameter: Any) -> np.ndarray:
    return np.asarray(space.project(parameter.detach().cpu().double().numpy().reshape(space.point_shape)))


def _coordinates(space: Manifold, parameter: Any, gradients: Any) -> np.ndarray:
    """Riemannian gradients in an orthonormal frame at the parameter, each of its own record alone."""
    if hasattr(parameter, "manifold"):
        gradients = parameter.manifold.egrad2rgrad(parameter.detach(), gradients.clone())  # some write into it
    rows = gradients.detach().cpu().double().numpy().reshape(-1, *space.point_shape)
    with np.errstate(all="ignore"):
        return np.asarray(space.to_coordinates(_point(space, parameter), rows))


def _assign(space: Manifold, parameter: Any, coordinates: np.ndarray) -> None:
    """The ordinary gradient whose Riemannian one has these coordinates: w -> <v, w> is linear, and its derivative is that."""
    import torch

    at = parameter.detach()
    v = torch.as_tensor(np.asarray(space.from_coordinates(_point(space, parameter), coordinates)))
    v = v.reshape(at.shape).to(at)
    if hasattr(parameter, "manifold"):
        w = torch.zeros_like(v, requires_grad=True)
        (v,) = torch.autograd.grad(parameter.manifold.inner(at, v, w).sum(), w)
    parameter.grad = v
