"""The main job: a private Fréchet mean, with a certificate."""

from typing import Any, Self

import numpy as np

from curvedp.estimators._mean import BallEstimator, check_records, plan_mean, public_ball, release_mean
from curvedp.estimators._streamed import Streamed, open_streamed
from curvedp.mechanisms import KNGMechanism
from curvedp.mechanisms.base import Ball

__all__ = ["PrivateFrechetMean"]


class PrivateFrechetMean(BallEstimator):
    """The Fréchet mean of records on a manifold, released under a privacy guarantee.

    `radius` and `center` are the public ball that holds the records; choose them from domain knowledge. Records outside
    it, not finite or not on the manifold are moved into it, silently. `mechanism` is "auto" (smallest predicted error)
    or one of "gaussian", "laplace", "log-gaussian", "log-laplace", "kng" (up to dimension 4; float path). With a `ledger`,
    the guarantee is spent before anything is drawn. `source` replaces the cryptographic source in simulations and is
    recorded.

    X may be a dask array, whose chunks are streamed (`docs/distributed.md`), or an array of JAX, torch or CuPy, which stays
    on its device; what is released is a NumPy array in any case, as noise is added on the host.

    After `fit`: `location_` is the private mean (in the ball), `certificate_` says why it may be published.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data;
    - errors depend on shapes and parameters only, never on values.

    >>> import numpy as np
    >>> from curvedp import GDP
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> mean = PrivateFrechetMean(Sphere(2), radius=0.7, guarantee=GDP(1.0)).fit(X)
    >>> mean.location_.shape
    (3,)
    """

    _name = "Fréchet mean"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the mean of X, (n, *point_shape): in memory, a dask array, or an array on a device. `y` is ignored."""
        ball = public_ball(self.manifold, self.center, self.radius)
        streamed = open_streamed(self.manifold, X)
        if streamed is not None:
            return self._fit_streamed(ball, streamed)  # refuses "kng" too, which draws from the records themselves
        records = check_records(self.manifold, X)
        if isinstance(self.mechanism, str) and self.mechanism == "kng":
            return self._fit_kng(ball, records)
        plan = plan_mean(self.manifold, ball, len(records), self.guarantee, self.mechanism)
        self._charge(plan.choice.mechanism)
        release = release_mean(self.manifold, records, plan, self.source)
        self.location_ = release.value
        self.certificate_ = release.certificate
        return self

    def _fit_streamed(self, ball: Ball, records: Streamed) -> Self:
        plan = plan_mean(self.manifold, ball, records.n, self.guarantee, self.mechanism, records)
        mean, _ = records.moments(self.manifold, ball)
        self._charge(plan.choice.mechanism)
        release = plan.release(mean, self.source)
        self.location_ = release.value
        self.certificate_ = release.certificate
        return self

    def _fit_kng(self, ball: Ball, records: np.ndarray) -> Self:
        """The K-norm gradient mechanism draws from the records' gradient field, not about their mean."""
        mechanism = KNGMechanism(self.manifold, *ball, len(records), self.guarantee)
        if self.ledger is not None:
            same = type(mechanism.guarantee) is type(self.ledger.budget)
            self.ledger.spend(mechanism.guarantee if same else mechanism.profile, self._label)
        release = mechanism.release(records, source=self.source)
        self.location_ = release.value
        self.certificate_ = release.certificate
        return self
