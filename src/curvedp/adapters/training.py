"""Clipping and noise around an optimizer of torch, for parameters on geoopt's manifolds among others (needs torch)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp._silence import numerical_silence, quiet_about_records
from curvedp.adapters.geoopt import from_geoopt
from curvedp.core.mechanism import check_guarantee
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.ledger import Ledger
from curvedp.privacy import Guarantee, PrivacyUnit
from curvedp.privacy.optimizer_accounting import rounded_clip, rsgd_noise


@dataclass(eq=False)
class PrivateOptimizer:
    """Steps of another optimizer along noisy means of clipped Riemannian gradients: what it does of them is post-processing.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Such as `geoopt.optim.RiemannianSGD`; one parameter group or several.
    n, steps, batch_size : int
        Records, steps in all, and the expected size of a batch, each record of which is drawn by a coin (`sample`).
    clip : float
        The longest gradient of one record, over all parameters together, in the manifolds' own metrics.
    guarantee, ledger : Guarantee and Ledger, optional
        For replacing a record, for all steps together, which are charged at once.

    Attributes
    ----------
    noise : float
        Standard deviation of the tangent noise of a mean gradient.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Before anything is drawn.
    """

    optimizer: Any
    n: int
    steps: int
    batch_size: int
    clip: float
    guarantee: Guarantee
    ledger: Ledger | None = None
    source: Source = field(default_factory=SecureSource)

    def __post_init__(self) -> None:
        for name, least in (("n", 2), ("steps", 1), ("batch_size", 1)):
            _validate.integer(name, getattr(self, name), least)
        if self.batch_size > self.n:
            raise ParameterError(
                f"is more than the {self.n} records",
                parameter="batch_size",
                value=self.batch_size,
            )
        self.framed = [
            _Framed(p) for group in self.optimizer.param_groups for p in group["params"]
        ]
        kinds = [
            np.finfo(each.parameter.detach().cpu().numpy().dtype)
            for each in self.framed
        ]
        dim, roughest = (
            sum(each.space.dim for each in self.framed),
            max(kinds, key=lambda kind: kind.eps).dtype,
        )
        charged = rounded_clip(
            _validate.positive("clip", self.clip),
            dim,
            roughest,
            self.n,
            self.batch_size,
        )
        check_guarantee(self.guarantee)
        self.noise = rsgd_noise(
            self.n, self.steps, self.batch_size, charged, self.guarantee, "poisson"
        )
        self.left, self._drawn = self.steps, -1
        if self.ledger is not None:
            self.ledger.spend(
                self.guarantee,
                "training",
                unit=PrivacyUnit.RECORD,
                n=self.n,
                statistic="clipped gradients",
            )

    def sample(self) -> np.ndarray:
        """The records of the next step, each by a coin of its own."""
        found = np.flatnonzero(self.source.uniform(self.n) < self.batch_size / self.n)
        self._drawn = len(found)
        return found

    def step(self, gradients: list[Any]) -> None:
        """One step, given the ordinary gradients of the sampled records: an array (records, *shape) for each parameter."""
        if self._drawn < 0 or not self.left:
            raise ParameterError(
                "call sample before each step; only as many steps can be made as were paid for"
            )
        if [tuple(g.shape) for g in gradients] != [
            (self._drawn, *f.parameter.shape) for f in self.framed
        ]:
            raise ParameterError(
                f"gradients must be of {self._drawn} records, one array for each parameter"
            )
        with quiet_about_records():
            total = clipped_sum(self.framed, gradients, self.clip)
        noisy = total / self.batch_size + self.noise * self.source.normal(total.shape)
        self.left, self._drawn = self.left - 1, -1
        ends = np.cumsum([each.space.dim for each in self.framed])[:-1]
        for each, part in zip(self.framed, np.split(noisy, ends), strict=True):
            each.assign(part)
        self.optimizer.step()


class _Framed:
    """A parameter of torch with an orthonormal frame of our manifold there."""

    def __init__(self, parameter: Any) -> None:
        self.parameter, theirs = parameter, getattr(parameter, "manifold", None)
        flat = theirs is None or type(theirs).__name__ == "Euclidean"
        self.space = (
            Euclidean(parameter.numel())
            if flat
            else from_geoopt(theirs, tuple(parameter.shape))
        )

    @property
    def _at(self) -> np.ndarray:
        values = self.parameter.detach().cpu().double().numpy()
        return np.asarray(self.space.project(values.reshape(self.space.point_shape)))

    def coordinates(self, gradients: Any) -> np.ndarray:
        """Riemannian gradients, each of its own record alone, given ordinary ones."""
        if hasattr(self.parameter, "manifold"):  # some write into their argument
            gradients = self.parameter.manifold.egrad2rgrad(
                self.parameter.detach(), gradients.clone()
            )
        rows = (
            gradients.detach()
            .cpu()
            .double()
            .numpy()
            .reshape(-1, *self.space.point_shape)
        )
        return np.asarray(self.space.to_coordinates(self._at, rows))

    def assign(self, coordinates: np.ndarray) -> None:
        """The ordinary gradient whose Riemannian one has these coordinates: the derivative of w -> <v, w>."""
        import torch

        at = self.parameter.detach()
        v = (
            torch.as_tensor(
                np.asarray(self.space.from_coordinates(self._at, coordinates))
            )
            .reshape(at.shape)
            .to(at)
        )
        if hasattr(self.parameter, "manifold"):
            w = torch.zeros_like(v, requires_grad=True)
            (v,) = torch.autograd.grad(self.parameter.manifold.inner(at, v, w).sum(), w)
        self.parameter.grad = v


def clipped_sum(framed: list[Any], gradients: list[Any], clip: float) -> np.ndarray:
    """The sum of the records' gradients, each of length at most `clip` over all parameters; 0 where it is not finite."""
    rows = np.concatenate(
        [each.coordinates(part) for each, part in zip(framed, gradients, strict=True)],
        axis=1,
    )
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    with numerical_silence():
        # A length that overflows is infinite, and its row is scaled to 0.
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        shares = np.minimum(1.0, clip / np.maximum(lengths, clip))
        return np.asarray((rows * shares).sum(axis=0))
