"""Private geodesic regression: a geodesic through manifold-valued responses, with a certificate."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp.entropy import SecureSource, Source
from curvedp.errors import ParameterError
from curvedp.estimators._mean import check_ledger, public_ball
from curvedp.estimators._regression import plan_regression, public_domain, release_regression
from curvedp.estimators._streamed import on_host
from curvedp.geometry import project_to_ball
from curvedp.geometry.base import Manifold
from curvedp.ledger import Ledger
from curvedp.mechanisms.base import check_guarantee
from curvedp.privacy import Guarantee, PureDP
from curvedp.regression.bounds import HALF
from curvedp.regression.fit import GeodesicFit

__all__ = ["PrivateGeodesicRegression"]


class PrivateGeodesicRegression(BaseEstimator):
    """The geodesic x ↦ Exp(p, x·v) that fits responses on a manifold, released under a privacy guarantee.

    Public, from domain knowledge: `radius` and `center` bound the middle of the geodesic, `speed` its length ‖v‖ over the
    whole range of the predictor, `clip` the length of one residual, `x_range` the predictor's range. Predictors outside the
    range are moved to its ends, missing ones to its middle; responses that are not finite or not on the manifold are moved
    to the center, far ones to the ball that predictions and clipped residuals can reach.

    `method="kng"`: one exact draw of the K-norm gradient law on the tangent bundle, pure ε, for manifolds of dimension 1
    and 2 and one predictor. `method="dp-rgd"`: gradient descent on the tangent bundle with exact noise, any symmetric space,
    any number of predictors: Gaussian for GDP, (ε, δ) and the like, Laplace for pure ε. "auto" takes the one with the smaller
    predicted noise. On Euclidean(d) this is linear regression.

    After `fit`: `footpoint_` and `velocity_` (the geodesic at the lower end of the range; `velocity_` covers the whole
    range), `certificate_`, `method_`. `predict` is post-processing; `score` reads the data it is given and is NOT private.

    With k > 1 predictors the model is x ↦ Exp(p, Σ (x_j − middle of range j)·v_j): `footpoint_` belongs to the middle of
    the ranges, `velocity_` stacks the v_j, `speed` bounds each of them, and `x_range` is one pair for all or k pairs.

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
        x_range: Any = (0.0, 1.0),
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
        """Release the geodesic of responses Y, shape (n, *point_shape), on predictors x, shape (n,) or (n, k)."""
        M, ball = self.manifold, public_ball(self.manifold, self.center, self.radius)
        for name in ("speed", "clip"):
            if getattr(self, name) is None:
                raise ParameterError(f"{name}= is missing: choose it from domain knowledge, not from the data")
        check_guarantee(self.guarantee)
        x, Y = _records(M, x, Y)
        low, high = _range(self.x_range, x.shape[1])
        speed, clip = _validate.length("speed", self.speed), _validate.length("clip", self.clip)
        domain = public_domain(M, ball.radius, speed, clip, *x.shape)
        plan = plan_regression(M, ball.center, domain, self.guarantee, self.method)
        if self.ledger is not None:
            check_ledger(self.ledger).spend(self.guarantee, self.label)
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            x = np.where(np.isfinite(x), (x - low) / (high - low), HALF)
            x = np.clip(x, 0.0, 1.0) - HALF
        Y = np.asarray(project_to_ball(M, ball.center, domain.data_radius, Y))
        source = SecureSource() if self.source is None else self.source
        public = {"x_range": np.stack([low, high], axis=-1).tolist()}
        p, V, self.certificate_ = release_regression(M, ball, x, Y, plan, public, source)
        found: tuple[np.ndarray, np.ndarray] = (p, V) if len(V) > 1 else M.geodesic(p, V[0], -HALF)
        self.footpoint_, self.velocity_ = found
        self.method_ = plan.method
        return self

    def predict(self, x: Any) -> np.ndarray:
        """Points of the private geodesic, one for each row of predictors; outside the range it goes on."""
        return self._model.predict(self._columns(x))

    def score(self, x: Any, Y: Any) -> float:
        """R² on the given data: 1 − mean squared residual / Fréchet variance. NOT private: it reads x and Y."""
        return self._model.score(self._columns(x), Y)

    @property
    def _predictors(self) -> int:
        check_is_fitted(self)
        return 1 if self.velocity_.ndim == len(self.manifold.point_shape) else len(self.velocity_)

    def _columns(self, x: Any) -> np.ndarray:
        k = self._predictors
        x = np.asarray(on_host("x", x), dtype=np.float64)
        if k > 1 and x.shape[-1:] != (k,):
            raise ParameterError(f"x has shape {x.shape}; the model has {k} predictors")
        return np.asarray(x.reshape(-1) if k == 1 else x.reshape(-1, k))

    @property
    def _model(self) -> GeodesicFit:
        k = self._predictors
        low, high = _range(self.x_range, k)
        if k == 1:
            return GeodesicFit(self.manifold, self.footpoint_, self.velocity_ / (high - low)[0], low[0], np.nan, 0)
        each = (high - low).reshape(-1, *[1] * len(self.manifold.point_shape))
        return GeodesicFit(self.manifold, self.footpoint_, self.velocity_ / each, (low + high) / 2, np.nan, 0)


def _range(ends: Any, predictors: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, one for each predictor; one pair serves all."""
    try:
        pairs = np.broadcast_to(_validate.array("x_range", ends), (predictors, 2))
    except ValueError:
        what = "a pair of numbers (low, high)" + (f", or {predictors} of them" if predictors > 1 else "")
        raise ParameterError(f"x_range={ends!r} must be {what}") from None
    low, high = pairs.T
    if not (np.all(np.isfinite(pairs)) and np.all(low < high) and np.all(np.isfinite(high - low))):
        raise ParameterError(f"x_range={ends!r} must be finite with low < high")
    return low, high


def _records(M: Manifold, x: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Predictors (n, k) and responses (n, *point_shape) as floats; only shape and type can be refused."""
    x, Y = _validate.array("x", on_host("x", x)), _validate.array("Y", on_host("Y", Y))
    if Y.ndim != 1 + len(M.point_shape) or Y.shape[1:] != M.point_shape:
        raise ParameterError(f"Y has shape {Y.shape}; {M!r} needs (n, {', '.join(map(str, M.point_shape))})")
    if x.ndim not in (1, 2) or len(x) != len(Y) or x.size == 0:
        raise ParameterError(f"x has shape {x.shape}; (n,) or (n, k) with n = {len(Y)}, one row a response, is needed")
    x = x.reshape(len(x), -1)
    if len(Y) < 1 + x.shape[1]:
        raise ParameterError(
            f"{len(Y)} record(s); at least {1 + x.shape[1]} are needed for a geodesic that can be private"
        )
    return x, Y
