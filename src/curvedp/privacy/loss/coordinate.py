"""The coordinate in which a table stores a privacy loss. A loss t that is bounded by T has
tails like (T − t)^k near T. In the coordinate w = −log(1 − t/T) their logarithm is
nearly linear there, so that polynomials fit it well. For an unbounded loss w = t.
"""

import math
from dataclasses import dataclass

import numpy as np

from curvedp.numerics.directed_rounding import Array


@dataclass(frozen=True)
class LossCoordinate:
    """The coordinate w of a privacy loss t: −log(1 − t/T), or t if T is infinite.

    Attributes
    ----------
    max_loss : float
        T, the supremum of the loss; possibly infinite.
    """

    max_loss: float

    @property
    def is_bounded(self) -> bool:
        """Whether the loss has a finite maximum T."""
        return math.isfinite(self.max_loss)

    def loss_at(self, w: Array) -> Array:
        """Return the loss t at the coordinate w.

        Parameters
        ----------
        w : array
            Coordinates w >= 0.

        Returns
        -------
        array
            T·(1 − e^{−w}) if T is finite, and w otherwise.
        """
        return -self.max_loss * np.expm1(-w) if self.is_bounded else w

    def from_loss(self, t: Array, distance_to_max: Array | None = None) -> Array:
        """Return the coordinate w of a loss t: the inverse of `loss_at`.

        So that no digits are lost, the logarithm is computed from t/T below T/2, and
        from (T − t)/T above it. Both formulas agree at T/2.

        Parameters
        ----------
        t : array
            Losses in [0, T].
        distance_to_max : array, optional
            T − t, if the caller knows it to more digits than t.

        Returns
        -------
        array
            w >= 0; infinity at T.
        """
        if not self.is_bounded:
            return t
        if distance_to_max is None:
            distance_to_max = self.max_loss - t
        with np.errstate(divide="ignore"):
            w_of_small_loss = -np.log1p(-np.minimum(t / self.max_loss, 0.5))
            w_of_large_loss = -np.log(distance_to_max / self.max_loss)
        return np.where(2 * t < self.max_loss, w_of_small_loss, w_of_large_loss)

    def slope(self, distance_to_max: Array) -> Array:
        """Return dw/dt at losses t: 1/(T − t), or 1 if T is infinite.

        It converts slopes in w, which a table provides, to slopes in t. T is the
        largest loss.

        Parameters
        ----------
        distance_to_max : array
            T − t.

        Returns
        -------
        array
            One slope for each loss.
        """
        if self.is_bounded:
            return np.asarray(1 / distance_to_max)
        return np.ones_like(distance_to_max)

    def log_dt_dw(self, w: Array) -> Array | float:
        """Return log dt/dw, the factor by which an integral over w becomes one over t.

        dt/dw is T·e^{−w} for a loss bounded by T, and 1 otherwise.

        Parameters
        ----------
        w : array
            Coordinates w >= 0.

        Returns
        -------
        array or float
            One logarithm for each w; the number 0 for an unbounded loss.
        """
        return math.log(self.max_loss) - w if self.is_bounded else 0.0

    def rounding(self, w: Array) -> Array:
        """Return by how much rounding a loss t changes its coordinate w.

        A series over w need not be more accurate than this. The unit is 2^-50. For a
        bounded loss, w = −log(1 − t/T) changes by about e^w of these units; otherwise
        w = t changes by about w of them.

        Parameters
        ----------
        w : array
            Coordinates w >= 0.

        Returns
        -------
        array
            The changes, of the shape of `w`.
        """
        return np.exp(w) if self.is_bounded else w
