"""How spread out the records are: the private Fréchet variance."""

from math import sqrt
from typing import Any, Self

from curvedp.estimators.base import PERSON, BallEstimator, ball_of
from curvedp.geometry.base import check_manifold
from curvedp.mechanisms.choose import choose_mechanism
from curvedp.mechanisms.statistic import FrechetVariance
from curvedp.records.base import open_records

__all__ = ["PrivateDispersion"]


class PrivateDispersion(BallEstimator):
    """The Fréchet variance, min over x of mean d²(x, xᵢ), of records in a public ball.

    Parameters
    ----------
    manifold, radius, center, guarantee, mechanism, ledger, label, source
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    variance_ : float
        The private variance, in [0, r²].
    deviation_ : float
        Its square root.
    certificate_ : Certificate
        Why it may be published.
    ball_ : Ball
        The public ball.

    Notes
    -----
    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for any data.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> 0 <= PrivateDispersion(Sphere(2), radius=0.7).fit(X).deviation_ <= 0.7
    True
    """

    _name = "Fréchet variance"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the variance of X, shape (n, *point_shape); `groups` as in `PrivateFrechetMean.fit`. `y` is ignored."""
        self._check_common()
        records = open_records(X, check_manifold(self.manifold).point_shape)
        if groups is not None:
            records = self._persons(records, groups)
        statistic = FrechetVariance(self.manifold, self.center, self.radius, records.n)  # type: ignore[arg-type]  # None is refused there
        choice = choose_mechanism(self.mechanism, statistic, self.guarantee)
        (release,) = self._publish([self._job(choice, records)], None if groups is None else PERSON)
        self.variance_ = float(release.value[0])
        self.deviation_ = sqrt(max(self.variance_, 0.0))
        self.certificate_ = release.certificate
        self.ball_ = ball_of(statistic)
        return self
