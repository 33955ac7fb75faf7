"""The main job: a private Fréchet mean, with a certificate."""

import warnings
from typing import Any, Self

from curvedp import _validate
from curvedp.errors import ReleaseWarning
from curvedp.estimators.base import PERSON, BallEstimator, ball_of
from curvedp.geometry.base import check_manifold
from curvedp.mechanisms.choose import Choice, choose_mechanism, predicted_error
from curvedp.mechanisms.private_ball import OuterBallMean, PrivateBallMechanism
from curvedp.mechanisms.statistic import FrechetMean, Statistic
from curvedp.records.base import Records, open_records

__all__ = ["PrivateFrechetMean"]


class PrivateFrechetMean(BallEstimator):
    """The Fréchet mean of records on a manifold, released under a privacy guarantee.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    radius : float
        Of the public ball that holds the records; choose it from domain knowledge. Records outside it are moved into it,
        records that are not finite become its center, silently: telling would be a release.
        "private" finds a ball privately, inside the public outer ball.
    center : point, optional
        Of the public ball; the manifold's origin by default.
    outer_radius : float, optional
        With `radius="private"`: the public outer ball's, as generous as one likes; by default all of a compact space, any
        unit of measurement on matrices, distance 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        What is asked for.
    mechanism : str
        "auto" takes the smallest predicted error. By name: "gaussian", "laplace", "log-gaussian", "log-laplace", "newton",
        "newton-long" (spheres and hyperbolic spaces), "kng" (up to dimension 4, drawn in floats).
    ledger : Ledger, optional
        The budget to spend from. Nothing is spent on a refusal.
    label : str, optional
        What the ledger's entry is called.
    source : Source, optional
        Replaces the cryptographic source in simulations, and is recorded.

    Attributes
    ----------
    location_ : ndarray
        The private mean, in the ball.
    certificate_ : Certificate
        Why it may be published.
    predicted_error_ : float
        The mean distance that is expected, from public numbers alone, between `location_` and the mean of the records
        after they were moved into the ball. What moving them does is not in it.
    ball_ : Ball
        The public ball.

    Raises
    ------
    ParameterError, UnattainableGuarantee, BudgetExceeded
        Because of parameters, shapes and types, never because of a record's values; nothing is spent then.

    Notes
    -----
    X may be a dask array, whose chunks are streamed (`docs/distributed.md`), or an array of JAX, torch or CuPy, which stays
    on its device; what is released is a NumPy array in any case, as noise is added on the host.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data;
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

    _name = "Fréchet mean"

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release the mean.

        Parameters
        ----------
        X : array, dask array or array on a device
            The records, shape (n, *point_shape).
        y : ignored
            For scikit-learn.
        groups : array of n ids, optional
            Whose record each is. Then a person is the unit of privacy, however many records they have: each person's records
            are averaged first, and n is the number of persons.
        """
        self._check_common()
        records = open_records(X, check_manifold(self.manifold).point_shape)
        if groups is not None:
            records = self._persons(records, groups)
        choice = self._choice(records)
        (release,) = self._publish([self._job(choice, records)], None if groups is None else PERSON)
        self.location_ = release.value
        self.certificate_ = release.certificate
        mechanism: Any = choice.mechanism  # a private ball has more to say
        self.ball_ = mechanism.ball_of(release.certificate) if self._is_private else ball_of(mechanism.statistic)
        self._mechanism = mechanism
        return self

    def _choice(self, records: Records) -> Choice:
        in_memory = records.where == "memory"
        if not self._is_private:
            statistic: Statistic = FrechetMean(self.manifold, self.center, self.radius, records.n)  # type: ignore[arg-type]  # None is refused there
            return choose_mechanism(self.mechanism, statistic, self.guarantee, in_memory=in_memory)
        _validate.choice("mechanism", self.mechanism, ("auto", "private-ball"))
        statistic = OuterBallMean(self.manifold, self.center, self.outer_radius, records.n)
        make = PrivateBallMechanism.for_statistic if in_memory else PrivateBallMechanism.streamed
        mechanism = make(statistic, self.guarantee)
        if not mechanism.enough:
            text = f"{records.n} records at {self.guarantee} are few for a private ball: expect the public center"
            warnings.warn(text, ReleaseWarning, stacklevel=3)
        return Choice(mechanism, "a private ball was asked for", {}, {})

    @property
    def _is_private(self) -> bool:
        return isinstance(self.radius, str) and self.radius == "private"

    @property
    def predicted_error_(self) -> float:
        """See the class."""
        return predicted_error(self._mechanism)
