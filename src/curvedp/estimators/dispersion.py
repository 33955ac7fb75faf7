"""The private Fréchet variance: how spread out the records are."""

from math import sqrt
from typing import Any, Self

from curvedp.estimators.base import BallEstimator
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.noisy_sums import SpreadSum
from curvedp.statistics.searched_ball import SearchedVariance


class PrivateDispersion(BallEstimator):
    """The Fréchet variance, min over x of mean d²(x, xᵢ), of records in a public ball.

    Parameters
    ----------
    manifold, center, guarantee, mechanism, ledger, label, source, outer_radius
        As in `PrivateFrechetMean`.
    radius : float or "private"
        As in `PrivateFrechetMean`; if private, the variance is that of the records
        clipped to the ball found, which is smaller than their own
        (docs/private-ball.md).

    Attributes
    ----------
    variance_, deviation_ : float
        The private variance, in [0, r²], and its square root.
    certificate_, ball_ : Certificate and Ball
        Why it may be published; and the public ball, or the one that was found.

    Notes
    -----
    Guarantees

    - `fit` meets `guarantee` for replace-one adjacency with n public, for any data; for
      add-remove adjacency with n private.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> 0 <= PrivateDispersion(Sphere(2), radius=0.7).fit(X).deviation_ <= 0.7
    True
    """

    _adjacencies = ("replace-one", "add-remove")
    _name = "Fréchet variance"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the variance.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            Records, one a row.
        y : ignored
        groups : sequence of n ids, optional
            Whose record each is. Then a person is the unit of privacy: each person's
            records are averaged first, and n is the number of persons.
        """
        self._validate_params()
        records, privacy_unit = self._load_records(X, groups)
        chosen = self._choose_mechanism(
            FrechetVariance, SearchedVariance, SpreadSum, records, records.n
        )
        released = self._release_one(chosen, records, "variance", privacy_unit)
        self.variance_ = float(released[0])
        self.deviation_ = sqrt(max(self.variance_, 0.0))
        return self._warn_of_oddities()
