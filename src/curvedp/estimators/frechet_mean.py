"""The main job: a private Fréchet mean, with a certificate."""

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
    radius, center : float and point
        Of the public ball that holds the records; choose it from domain knowledge. Records outside it are moved into it,
        records that are not finite become its center, silently: telling would be a release. radius="private" finds a ball
        privately, inside the public outer ball. The center is the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`: the public outer ball's, as generous as one likes; by default all of a compact space, any
        unit of measurement on matrices, distance 25 in hyperbolic space and 1e6 in flat space.
    guarantee, mechanism : Guarantee and str
        What is asked for, and by which mechanism: "auto" takes the smallest predicted error. By name: "gaussian",
        "laplace", "tangent-gaussian", "tangent-laplace", "newton" (this one on spheres and
        hyperbolic spaces), "gradient" (any ball), "kng" (up to dimension 4, drawn in floats).
    ledger, label, source : Ledger, str and Source, optional
        The budget to spend from (nothing is spent on a refusal) and what its entry is called; and what replaces the
        cryptographic source in simulations, which is recorded.

    Attributes
    ----------
    location_, certificate_ : ndarray and Certificate
        The private mean, in the ball, and why it may be published.
    predicted_error_ : float
        The mean distance that is expected, from public numbers alone, between `location_` and the mean of the records
        after they were moved into the ball. What moving them does is not in it; where released values make the ball doubtful,
        a `ReleaseWarning` says so.
    ball_ : Ball
        The public ball, or the one that was found: noise may put it somewhat beyond the outer ball.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values; nothing is spent then.

    Notes
    -----
    X may be a dask array, whose chunks are streamed (`docs/distributed.md`), or an array of JAX, torch or CuPy, which stays
    on its device; what is released is a NumPy array in any case, as noise is added on the host.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data; for add-remove adjacency with n private:
      noisy sums in the given ball, and nothing that leaves tells n;
    - errors depend on shapes and parameters only, never on values.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import GDP
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> mean = PrivateFrechetMean(Sphere(2), radius=0.7, guarantee=GDP(1.0)).fit(X)
    >>> mean.location_.shape
    (3,)
    """

    _adjacencies = ("replace-one", "add-remove")
    _name = "Fréchet mean"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the mean of X, shape (n, *point_shape): an array, dask array or array on a device. `y` is ignored.

        With `groups`, n ids that say whose record each is, a person is the unit of privacy, however many records they have:
        each person's records are averaged first, and n is the number of persons.
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
        """See the class."""
        check_is_fitted(self)
        if self.certificate_.guarantee.adjacency == ADD_REMOVE:
            # An `AttributeError`, so that `hasattr` says no.
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
