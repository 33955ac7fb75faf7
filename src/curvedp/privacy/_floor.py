"""Tails of (d−1)·log(cosh D − sinh D cos φ), the loss between the harmonic measures seen from two points."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln

from curvedp.privacy._loss_table import SmoothTails
from curvedp.privacy._space_form import log_beta

Array = NDArray[np.float64]

_TINY = -600.0  # log y from which the next term, of relative size a·y, is nothing beside a rounding


@dataclass(frozen=True)
class FloorTails(SmoothTails):
    """cos²(φ/2) ~ Beta(a, a), a = (d−1)/2, and cosh D − sinh D cos φ = e^D − 2 sinh D cos²(φ/2)."""

    d: int
    distance: float

    @property
    def max_loss(self) -> float:
        return (self.d - 1) * self.distance

    @property
    def loss_scale(self) -> float:
        return (self.d - 1) * self.distance / math.sqrt(self.d)

    def log_tails(self, t: Array) -> tuple[Array, Array]:
        """L > t iff cos²(φ/2) < x = (e^D − e^{t/(d−1)})/2 sinh D."""
        D, level = self.distance, t / (self.d - 1)
        x = np.expm1(level - D) / math.expm1(-2 * D)
        y = np.exp(level - D) * np.expm1(-level - D) / math.expm1(-2 * D)
        a = (self.d - 1) / 2
        # Where y is below every float the regularised beta function is its first term, y^a/(a·B(a, a)).
        log_y = level - D + np.log(np.expm1(-level - D) / math.expm1(-2 * D))
        first = a * log_y - math.log(a) - float(betaln(a, a))
        return log_beta(a, x, y), np.where(log_y < _TINY, first, log_beta(a, y, x))
