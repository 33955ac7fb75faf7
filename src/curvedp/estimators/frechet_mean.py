"""The estimator of a private Fréchet mean, with a certificate; most users start here.
The Fréchet mean is the point with the least mean squared distance to the records.
"""

import warnings
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from curvedp.errors import ReleaseWarning
from curvedp.estimators.base import BallEstimator
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.release.predict import predicted_error_of_release
from curvedp.release.warnings import doubts_about_ball
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.searched_ball import SearchedMean


class PrivateFrechetMean(BallEstimator):
    """The Fréchet mean of records on a manifold, released under a privacy guarantee.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float or "private"
        The radius of the public ball that should contain the records; choose it from
        domain knowledge. Records outside the ball are clipped to it, and records that
        are not finite are replaced by its center. There is no message, because it would
        reveal something about the records. "private" finds a ball privately,
        inside the public outer ball.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of the release.
    mechanism : str
        "auto" takes the smallest predicted error. By name: "gaussian", "laplace",
        "tangent-gaussian", "tangent-laplace", "newton" (on spheres and hyperbolic
        spaces), "gradient" (any ball), "kng" (up to dimension 4, drawn in floats).
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
        The private mean, in the ball.
    certificate_ : Certificate
        The certificate of the release.
    predicted_error_ : float
        The expected distance between `location_` and the mean of the clipped records,
        from public numbers alone. It does not include the effect of clipping; a
        `ReleaseWarning` is issued if the released values make the ball doubtful.
    ball_ : Ball
        The public ball, or the one that was found. Noise may move the latter somewhat
        beyond the outer ball.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values,
        and before anything is spent.

    Notes
    -----
    X may be a dask array, whose chunks are streamed (`docs/howto/large-data.md`), or an
    array of JAX, torch or CuPy, which stays on its device; what is released is a NumPy
    array in any case, as noise is added on the host.

    Guarantees

    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data; for
      add-remove adjacency with n private: noisy sums in the given ball, and the
      release does not reveal n;
    - errors depend on shapes and parameters only, never on values.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import GDP
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> mean = PrivateFrechetMean(Sphere(2), radius=0.7, guarantee=GDP(1.0)).fit(X)
    >>> mean.location_.shape
    (3,)
    """

    _adjacencies = ("replace-one", "add-remove")
    _name = "Fréchet mean"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the private Fréchet mean, and charge it to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records: an array, a dask array, or an array on a device.
        y : ignored
            scikit-learn passes labels to every estimator; these are not read.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person is the unit of
            privacy, however many records they have: each person's records are averaged
            first, and n is the number of people.

        Returns
        -------
        self
            With `location_`, `certificate_`, `ball_` and `manifold_` set.
        """
        self._validate_params()
        records, privacy_unit = self._load_records(X, groups)
        chosen = self._choose_mechanism(
            FrechetMean, SearchedMean, ClippedSum, records, records.n
        )
        self.location_ = self._release_one(chosen, records, "location", privacy_unit)
        return self._warn_after_release()

    @property
    def predicted_error_(self) -> float:
        """Return the expected distance between `location_` and the mean of the clipped records.

        It is computed from public numbers alone.

        Raises
        ------
        AttributeError
            If the number of records is private, because the error depends on it.

        Warns
        -----
        ReleaseWarning
            If the released values suggest that the ball cuts off many records: the
            error does not include the effect of clipping.
        """
        check_is_fitted(self)
        if self.certificate_.guarantee.adjacency == ADD_REMOVE:
            # With an `AttributeError`, `hasattr` returns False.
            raise AttributeError(
                "the predicted error depends on the number of records, which is private"
            )
        doubts = doubts_about_ball(self.location_, self.certificate_)
        if doubts:
            text = "; ".join(doubt.text for doubt in doubts)
            warnings.warn(
                f"predicted_error_ is for records in the ball: {text}",
                ReleaseWarning,
                stacklevel=2,
            )
        return predicted_error_of_release(self.certificate_)
