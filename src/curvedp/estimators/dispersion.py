"""The private Fréchet variance: how spread out the records are. It is their least mean
squared distance to a point.
"""

from math import sqrt
from typing import Any, Self

from curvedp.estimators.base import BallEstimator
from curvedp.release.unclip import unclipped_variance_of
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.noisy_sums import SpreadSum
from curvedp.statistics.searched_ball import SearchedVariance


class PrivateDispersion(BallEstimator):
    """The Fréchet variance, min over x of mean d²(x, xᵢ), of records x₁, …, xₙ in a ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float or "private"
        The radius of the public ball into which records are clipped. "private" finds a
        ball privately; the released variance is then that of the records clipped to
        it, which is smaller than the variance of the records themselves
        (docs/theory/private-ball.md); `estimated_variance_` corrects it.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of the release.
    mechanism : str
        "auto" takes the smallest predicted error. A name such as "gaussian" takes one.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.

    Attributes
    ----------
    variance_, deviation_ : float
        The private variance, between 0 and the square of the ball's radius, and its
        square root.
    estimated_variance_, estimated_deviation_ : float or None
        With `radius="private"`, an estimate of the variance of the records themselves
        and its root: `variance_` corrected for the records that the search left outside
        the ball. None where the share of these is not public: in a public ball, with
        Laplace noise, or in a smaller ball than the one that was found.
    certificate_ : Certificate
        The certificate of the release.
    ball_ : Ball
        The public ball, or the one that was found.

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
        """Release the Fréchet variance, and charge it to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            One record in each row.
        y : ignored
            scikit-learn passes labels to every estimator; these are not read.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person is the unit of
            privacy: each person's records are averaged first, and n is the number of
            people.

        Returns
        -------
        self
            With `variance_`, `deviation_`, their estimates for the records themselves,
            `certificate_`, `ball_` and `manifold_` set.
        """
        self._validate_params()
        records, privacy_unit = self._load_records(X, groups)
        chosen = self._choose_mechanism(
            FrechetVariance, SearchedVariance, SpreadSum, records, records.n
        )
        released = self._release_one(chosen, records, "variance", privacy_unit)
        self.variance_ = float(released[0])
        self.deviation_ = sqrt(max(self.variance_, 0.0))
        self.estimated_variance_ = unclipped_variance_of(self.certificate_)
        self.estimated_deviation_ = None
        if self.estimated_variance_ is not None:
            self.estimated_deviation_ = sqrt(self.estimated_variance_)
        return self._warn_after_release()
