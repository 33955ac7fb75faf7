"""Clipping and noise around an optimizer of torch, for parameters on geoopt's manifolds among others (needs torch)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from curvedp import _validate
from curvedp.adapters.parameters import Framed, assign, clipped_sum, size
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import check_guarantee
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import rounded_clip, rsgd_noise


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
            raise ParameterError(f"batch_size={self.batch_size} is more than the {self.n} records")
        self.framed = [Framed(p) for group in self.optimizer.param_groups for p in group["params"]]
        charged = rounded_clip(_validate.positive("clip", self.clip), *size(self.framed), self.n, self.batch_size)
        check_guarantee(self.guarantee)
        self.noise = rsgd_noise(self.n, self.steps, self.batch_size, charged, self.guarantee, "poisson")
        self.left, self._drawn = self.steps, -1
        if self.ledger is not None:
            self.ledger.spend(self.guarantee, "training")

    def sample(self) -> np.ndarray:
        """The records of the next step, each by a coin of its own."""
        found = np.flatnonzero(self.source.uniform(self.n) < self.batch_size / self.n)
        self._drawn = len(found)
        return found

    def step(self, gradients: list[Any]) -> None:
        """One step, given the ordinary gradients of the sampled records: an array (records, *shape) for each parameter."""
        if self._drawn < 0 or not self.left:
            raise ParameterError("call sample before each step; only as many steps can be made as were paid for")
        if [tuple(g.shape) for g in gradients] != [(self._drawn, *f.parameter.shape) for f in self.framed]:
            raise ParameterError(f"gradients must be of {self._drawn} records, one array for each parameter")
        total = clipped_sum(self.framed, gradients, self.clip)
        noisy = total / self.batch_size + self.noise * self.source.normal(total.shape)
        self.left, self._drawn = self.left - 1, -1
        assign(self.framed, noisy)
        self.optimizer.step()
