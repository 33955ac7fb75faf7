"""The private Fréchet mean, with a certificate: the estimator that most users want."""

import warnings
from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from curvedp.errors import ReleaseWarning
from curvedp.estimators.base import BallEstimator
from curvedp.mechanisms.noisy_sum import ADD_REMOVE
from curvedp.release.predict import predicted_error
from curvedp.release.rebuild import final_mechanism_of
from curvedp.release.warnings import doubts_about_ball
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.noisy_sums import ClippedSum
from curvedp.statistics.searched_ball import SearchedMean


class PrivateFrechetMean(BallEstimator):
    """The Fréchet mean of records on a manifold, released under a privacy guarantee.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    radius : float or "private"
        Of the public ball that holds the records; choose it from domain knowledge.
        Records outside it are clipped to it, and records that are not finite become its
        center, silently: telling would be a release. "private" finds a ball privately,
        inside the public outer ball.
    center : point, optional
        Of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: that of the public outer ball, as generous as one
        likes; by default all of a compact space, any unit of measurement on matrices,
        distance 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        What the release must meet.
    mechanism : str
        "auto" takes the smallest predicted error. By name: "gaussian", "laplace",
        "tangent-gaussian", "tangent-laplace", "newton" (on spheres and hyperbolic
        spaces), "gradient" (any ball), "kng" (up to dimension 4, drawn in floats).
    ledger : Ledger, optional
        The budget to spend from; nothing is spent on a refusal.
    label : str, optional
        What the ledger's entry is called.
    source : Source, optional
        Replaces the cryptographic source in simulations, which is recorded.

    Attributes
    ----------
    location_ : ndarray
        The private mean, in the ball.
    certificate_ : Certificate
        Why it may be published.
    predicted_error_ : float
        The mean distance that is expected, from public numbers alone, between
        `location_` and the mean of the clipped records. What clipping does is not in
        it; where released values make the ball doubtful, a `ReleaseWarning` says so.
    ball_ : Ball
        The public ball, or the one that was found: noise may put it somewhat beyond the
        outer ball.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values;
        nothing is spent then.

    Notes
    -----
    X may be a dask array, whose chunks are streamed (`docs/distributed.md`), or an
    array of JAX, torch or CuPy, which stays on its device; what is released is a NumPy
    array in any case, as noise is added on the host.

    Guarantees

    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data; for
      add-remove adjacency with n private: noisy sums in the given ball, and nothing
      that leaves tells n;
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
        """Release the mean.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            An array, dask array or array on a device.
        y : ignored
        groups : sequence of n ids, optional
            Whose record each is. Then a person is the unit of privacy, however many
            records they have: each person's records are averaged first, and n is the
            number of persons.
        """
        self._validate_params()
        records, privacy_unit = self._load_records(X, groups)
        chosen = self._choose_mechanism(
            FrechetMean, SearchedMean, ClippedSum, records, records.n
        )
        self.location_ = self._release_one(chosen, records, "location", privacy_unit)
        return self._warn_of_oddities()

    @property
    def predicted_error_(self) -> float:
        """The expected distance between `location_` and the mean of the clipped records.

        It follows from public numbers alone; a `ReleaseWarning` says where the ball is
        doubtful.
        """
        check_is_fitted(self)
        if self.certificate_.guarantee.adjacency == ADD_REMOVE:
            # This is an `AttributeError`, so that `hasattr` says no.
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
        return predicted_error(final_mechanism_of(self.certificate_))
