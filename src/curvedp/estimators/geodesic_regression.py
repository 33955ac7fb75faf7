"""Private geodesic regression: a geodesic through manifold-valued responses, with a certificate."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from curvedp import _validate
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.estimators._mean import public_ball
from curvedp.estimators._regression import plan_regression, public_domain, release_regression
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import check_guarantee
from curvedp.privacy import Guarantee, PureDP
from curvedp.regression.bounds import HALF
from curvedp.regression.fit import GeodesicFit, shifted

__all__ = ["PrivateGeodesicRegression"]


class PrivateGeodesicRegression(BaseEstimator):
    """The geodesic x ↦ Exp(p, x·v) that fits responses on a manifold, released under a privacy guarantee.

    Public, from domain knowledge: `radius` and `center` bound the middle of the geodesic, `speed` its length ‖v‖ over the
    whole range of the predictor, `clip` the length of one residual, `x_range` the predictor's range. Predictors outside the
    range are moved to its ends, missing ones to its middle; responses that are not finite or not on the manifold are moved
    to the center, far ones to the ball that predictions and clipped residuals can reach.

    `method="kng"`: one exact draw of the K-norm gradient law on the tangent bundle, pure ε, for manifolds of dimension 1
    and 2. `method="dp-rgd"`: gradient descent on the tangent bundle with exact Gaussian noise, GDP or (ε, δ), any
    symmetric space. "auto" takes the one with the smaller predicted noise. On Euclidean(k) this is linear regression.

    After `fit`: `footpoint_` and `velocity_` (the geodesic at the lower end of the range; `velocity_` covers the whole
    range), `certificate_`, `method_`. `predict` is post-processing; `score` reads the data it is given and is NOT private.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency (predictor and response of one record), n public, for ANY data;
    - errors depend on shapes and parameters only, never on values;
    - how long "kng" takes depends on the data, and ε does not cover that.

    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> M, x = Sphere(2), np.linspace(0, 1, 400)
    >>> Y = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    >>> model = PrivateGeodesicRegression(M, radius=0.8, speed=1.5, clip=0.3, guarantee=PureDP(2.0)).fit(x, Y)
    >>> model.predict([0.0, 0.5, 1.0]).shape
    (3, 3)
    """

    def __init__(
        self,
        manifold: Manifold,
        radius: float | None = None,
        speed: float | None = None,
        clip: float | None = None,
        guarantee: Guarantee = PureDP(1.0),  # noqa: B008 - a frozen value, safe as a default
        method: str = "auto",
        center: Any = None,
        x_range: tuple[float, float] = (0.0, 1.0),
        ledger: Ledger | None = None,
        label: str = "geodesic regression",
        source: Source | None = None,
    ) -> None:
        self.manifold = manifold
        self.radius = radius
        self.speed = speed
        self.clip = clip
        self.guarantee = guarantee
        self.method = method
        self.center = center
        self.x_range = x_range
        self.ledger = ledger
        self.label = label
        self.source = source

    def fit(self, x: Any, Y: Any) -> Self:
        """Release the geodesic of responses Y, shape (n, *point_shape), on predictors x, shape (n,) or (n, 1)."""
        M, ball = self.manifold, public_ball(self.manifold, self.center, self.radius)
        for name in ("speed", "clip"):
            if getattr(self, name) is None:
                raise ParameterError(f"{name}= is missing: choose it from domain knowledge, not from the data")
        check_guarantee(self.guarantee)
        low, high = _range(self.x_range)
        x, Y = _records(M, x, Y)
        speed, clip = _validate.positive("speed", self.speed), _validate.positive("clip", self.clip)
        domain = public_domain(M, ball.radius, speed, clip, len(Y))
        plan = plan_regression(M, ball.center, domain, self.guarantee, self.method)
        if self.ledger is not None:
            self.ledger.spend(self.guarantee, self.label)
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            x = np.where(np.isfinite(x), (x - low) / (high - low), HALF)
            x = np.clip(x, 0.0, 1.0) - HALF
        Y = np.asarray(project_to_ball(M, ball.center, domain.data_radius, Y))
        source = SecureSource() if self.source is None else self.source
        p, v, self.certificate_ = release_regression(M, ball, x, Y, plan, {"x_range": [low, high]}, source)
        self.footpoint_, self.velocity_ = shifted(M, p, v, -HALF)
        self.method_ = plan.method
        return self

    def predict(self, x: Any) -> np.ndarray:
        """Points of the private geodesic, one for each predictor; outside the range it goes on."""
        return self._model.predict(np.asarray(x, dtype=np.float64).reshape(-1))

    def score(self, x: Any, Y: Any) -> float:
        """R² on the given data: 1 − mean squared residual / Fréchet variance. NOT private: it reads x and Y."""
        return self._model.score(np.asarray(x, dtype=np.float64).reshape(-1), Y)

    @property
    def _model(self) -> GeodesicFit:
        low, high = _range(self.x_range)
        return GeodesicFit(self.manifold, self.footpoint_, self.velocity_ / (high - low), low, np.nan, 0)


def _range(ends: Any) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise ParameterError(f"x_range={ends!r} must be a pair of numbers (low, high)") from None
    if not -np.inf < low < high < np.inf:
        raise ParameterError(f"x_range={ends!r} must be finite with low < high")
    return low, high


def _records(M: Manifold, x: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predictors (n,) and responses (n, *point_shape) as floats; only shape and type can be refused."""
    try:
        x, Y = np.asarray(x, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("x and Y must be arrays of numbers") from None
    if Y.ndim != 1 + len(M.point_shape) or Y.shape[1:] != M.point_shape:
        raise ParameterError(f"Y has shape {Y.shape}; {M!r} needs (n, {', '.join(map(str, M.point_shape))})")
    if x.shape not in ((len(Y),), (len(Y), 1)):
        raise ParameterError(f"x has shape {x.shape}; one predictor for each of {len(Y)} responses is needed")
    if len(Y) < 2:
        raise ParameterError(f"{len(Y)} record(s); at least 2 are needed for a geodesic that can be private")
    return x.reshape(-1), Y
