"""How spread out the records are: the private Fréchet variance."""

from math import sqrt
from typing import Any, Self

import numpy as np

from curvedp.estimators._mean import BallEstimator, check_records, public_ball
from curvedp.estimators._streamed import Resident, open_streamed
from curvedp.geometry import Euclidean
from curvedp.mechanisms.base import CHART_ERROR, Ball, check_guarantee
from curvedp.mechanisms.choose import MeanTask, choose_mechanism
from curvedp.mechanisms.sensitivity import frechet_mean_sensitivity

__all__ = ["PrivateDispersion"]


class PrivateDispersion(BallEstimator):
    """The Fréchet variance, min over x of mean d²(x, xᵢ), of records in a public ball.

    If x̄ and x̄' are the means of adjacent sets, V' <= mean d²(x̄, x'ᵢ) <= V + (2r)²/n, and the same the other way, so the
    variance moves by at most 4r²/n. It lies in [0, r²], so the release is clipped to that range.

    After `fit`: `variance_`, `deviation_` (its square root) and `certificate_`. Parameters as in `PrivateFrechetMean`.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency with n public, for any data.

    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> 0 <= PrivateDispersion(Sphere(2), radius=0.7).fit(X).deviation_ <= 0.7
    True
    """

    _name = "Fréchet variance"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Release the variance of X, shape (n, *point_shape). `y` is ignored."""
        ball = public_ball(self.manifold, self.center, self.radius)
        records = open_streamed(self.manifold, X) or Resident(check_records(self.manifold, X))
        n, r = records.n, ball.radius
        check_guarantee(self.guarantee)
        frechet_mean_sensitivity(self.manifold, r, n)  # refuses a ball in which the mean need not be unique
        # A mean off by η raises the mean square by at most 2·2r·η + η² at either end.
        error = records.mean_error(self.manifold, ball)
        # The computed distances are off by CHART_ERROR relative, their squares by twice that, at either end.
        sensitivity = 4 * r * r / n + 2 * (4 * r * error + error * error + 2 * CHART_ERROR * 4 * r * r)
        values = Ball(np.array([r * r / 2]), r * r / 2)  # the variance lies in [0, r²], an interval about its middle
        task = MeanTask(Euclidean(1), values, n, sensitivity, sensitivity, self.guarantee)
        choice = choose_mechanism(self.mechanism, task)
        _, variance = records.moments(self.manifold, ball)
        self._charge(choice.mechanism)
        statistic = {
            "name": "Fréchet variance",
            "n": n,
            "center": ball.center.tolist(),
            "radius": r,
            "solver_error": error,
            "choice": choice.reason,
        }
        release = choice.mechanism.release(
            np.array([variance]), source=self.source, guarantee=self.guarantee, statistic=statistic
        )
        self.variance_ = float(np.clip(release.value[0], 0.0, r * r))
        self.deviation_ = sqrt(self.variance_)
        self.certificate_ = release.certificate
        return self
