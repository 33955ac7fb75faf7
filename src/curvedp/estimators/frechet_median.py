"""The private geometric median: a center that a few wild records hardly move. It is the
point with the least mean distance to the records.
"""

import warnings
from typing import Any, Self

from curvedp import _validate
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Choice
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import BallEstimator, PendingRelease
from curvedp.mechanisms.staged.median import MedianMechanism
from curvedp.statistics.geometric_median import GeometricMedian


class PrivateFrechetMedian(BallEstimator):
    """The geometric median of records on a manifold, released under a privacy guarantee.

    The noise does not depend on the radius of the public ball, and outliers that make
    up a tenth of the records move the median little.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float or "private"
        The radius of the public ball that should contain the records; it may be
        generous. With "private" the ball is the public outer ball.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of the release.
    mechanism : str
        "auto" or "median": there is one mechanism.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.

    Attributes
    ----------
    location_ : ndarray
        The private median.
    certificate_ : Certificate
        The certificate of the release.
    ball_ : Ball
        The public ball.

    Notes
    -----
    Guarantees

    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> PrivateFrechetMedian(Sphere(2), radius=1.5).fit(X).location_.shape
    (3,)
    """

    _name = "geometric median"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the private geometric median, and charge it to the ledger.

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
            With `location_`, `certificate_`, `ball_` and `manifold_` set.

        Warns
        -----
        ReleaseWarning
            Before anything is paid, if there are too few records for a useful median.
        """
        self._validate_params()
        _validate.choice("mechanism", self.mechanism, ("auto", "median"))
        if self.radius is None:
            raise ParameterError(
                "is missing: a public ball must hold the records; it may be generous",
                parameter="radius",
            )

        records, privacy_unit = self._load_records(X, groups)
        radius = self.outer_radius if self._searches_ball else self.radius
        statistic = GeometricMedian(self.manifold, self.center, radius, records.n)
        mechanism = MedianMechanism.calibrate(statistic, self.guarantee)
        if not mechanism.has_enough_records:
            warnings.warn(
                f"n = {records.n} at {self.guarantee} is small for a median: the noise "
                "exceeds the spread of the records",
                ReleaseWarning,
                stacklevel=2,
            )

        pending = PendingRelease(
            mechanism, records, Choice(ChoiceRule.ONLY_ONE), "location"
        )
        (release,) = self._pay_and_release([pending], privacy_unit)

        self.manifold_ = statistic.manifold
        self.location_ = release.value
        self.certificate_ = release.certificate
        self.ball_ = statistic.outer_ball
        return self._warn_after_release()
