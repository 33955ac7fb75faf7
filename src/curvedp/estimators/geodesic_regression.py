"""Private geodesic regression: a geodesic through manifold-valued responses, with a certificate."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.codes import ProtectedUnit
from curvedp.core.released import ReleasedValue
from curvedp.errors import ParameterError, ReleaseWarning
from curvedp.estimators.base import (
    PendingRelease,
    PrivateEstimator,
    choose_private_ball,
)
from curvedp.geometry import frechet_mean
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.ledger import Ledger
from curvedp.privacy import Guarantee, PureDP
from curvedp.randomness import Source
from curvedp.records.base import open_records
from curvedp.records.persons import encode_persons
from curvedp.regression.bounds import HALF
from curvedp.release.choose import ChosenMechanism, choose_mechanism
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.searched_ball import SearchedGeodesic


@dataclass(eq=False, repr=False)
class PrivateGeodesicRegression(PrivateEstimator):
    """The geodesic x ↦ Exp(p, x·v) that fits responses on a manifold, released under a privacy guarantee.

    Parameters
    ----------
    manifold : Manifold
        Where the responses live.
    radius, center : float and point
        Public: they bound the middle of the geodesic. "private" finds a ball of the responses privately, and speed and clip
        with it: the geodesic stays in the ball, and residuals are clipped to its radius.
    speed, clip : float
        Public: they bound the geodesic's length ‖v‖ over the whole range of a predictor, and what one residual counts for.
    x_range : pair of numbers, or one pair for each predictor
        Required: the public range of the predictors, such as (20, 90) for ages, from
        domain knowledge. Predictors outside are moved to its ends, missing ones to its
        middle; responses that are not finite are moved to the center, far ones to the
        ball that predictions and clipped residuals can reach.
    method : {"auto", "kng", "dp-rgd"}
        "kng": one exact draw of the K-norm gradient law on the tangent bundle, pure ε, for manifolds of dimension 1 and 2
        and one predictor. "dp-rgd": gradient descent on the tangent bundle with exact noise, any symmetric space, any number
        of predictors: Gaussian for GDP, (ε, δ) and the like, Laplace for pure ε. "auto" takes the one with the smaller
        predicted noise.
    guarantee, ledger, label, source, outer_radius
        As in `PrivateFrechetMean`.

    Attributes
    ----------
    footpoint_, velocity_ : ndarray
        The geodesic at the lower end of the range; `velocity_` covers the whole range. With k > 1 predictors the model is
        x ↦ Exp(p, Σ (x_j − middle of range j)·v_j): `footpoint_` belongs to the middle of the ranges and `velocity_` stacks
        the v_j.
    manifold_, x_range_ : Manifold and ndarray
        The manifold and the range, one row for each predictor, that `fit` has used.
    certificate_, method_ : Certificate and str
        Why they may be published, and which method was taken.

    Notes
    -----
    `predict` is post-processing; `score` reads the data it is given and is NOT private. On Euclidean(d) this is linear
    regression.

    Guarantees
    - `fit` meets `guarantee` for replace-one adjacency (predictor and response of one record), n public, for ANY data;
    - errors depend on shapes and parameters only, never on values;
    - how long "kng" takes depends on the data, and ε does not cover that.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> M, x = Sphere(2), np.linspace(0, 1, 400)
    >>> Y = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    >>> model = PrivateGeodesicRegression(M, radius=0.8, speed=1.5, clip=0.3, x_range=(0, 1), guarantee=PureDP(2.0))
    >>> model.fit(x, Y).predict([0.0, 0.5, 1.0]).shape
    (3, 3)
    """

    _name = "geodesic regression"

    manifold: Manifold
    radius: float | str | None = None
    speed: float | None = None
    clip: float | None = None
    guarantee: Guarantee = PureDP(1.0)  # noqa: RUF009 - a frozen value, safe as a default
    method: str = "auto"
    center: Any = None
    x_range: Any = None  # required: `fit` refuses None
    ledger: Ledger | None = None
    label: str | None = None
    source: Source | None = None
    outer_radius: float | None = None

    def fit(self, x: Any, Y: Any, groups: Any = None) -> Self:
        """Release the geodesic of responses Y, shape (n, *point_shape), by predictors x, shape (n,) or (n, k).

        Where x is a list, `x_range` says how many predictors there are: one, or one for each of its pairs.

        With `groups`, n ids that say whose record each is, a person is the unit of privacy, however many records they have: a
        step takes the mean of a person's own directions, so that changes within a person count, and n is how many they are.
        """
        self._validate_params()
        M = check_manifold(self.manifold)
        x, Y = _records(M, x, Y, self.x_range)
        codes = None if groups is None else encode_persons(groups, len(Y))
        _validate.choice(
            "method",
            self.method,
            ("auto", "dp-rgd") if groups is not None else ("auto", "kng", "dp-rgd"),
        )
        choice = self._choice(
            len(Y) if codes is None else int(codes.max()) + 1,
            x.shape[1],
            codes is not None,
        )
        data = (x, Y) if codes is None else (x, Y, codes)
        line: Any = choice.mechanism.statistic
        ranges = np.array(line.x_range)
        method = "dp-rgd" if self._searches_ball else choice.mechanism.info.option
        (release,) = self._pay_and_release(
            [PendingRelease(choice.mechanism, data, choice.choice, "geodesic")],
            None if codes is None else ProtectedUnit.PERSON,
        )
        p, V = release.value
        line = (p, V) if len(V) > 1 else _from_lower_end(M, p, V[0])
        ends: tuple[np.ndarray, np.ndarray] = line or (p, np.zeros_like(V[0]))
        self.footpoint_, self.velocity_ = ends
        self.certificate_ = release.certificate
        self.manifold_ = M
        self.x_range_ = ranges
        self.method_ = method
        if line is None:
            warnings.warn(
                "doubles do not hold the ends of the geodesic: its middle alone is kept",
                ReleaseWarning,
                2,
            )
        return self._warn_of_oddities()

    @property
    def releases(self) -> list[ReleasedValue]:
        """The point and the velocity that the released geodesic is told by."""
        (published,) = super().releases
        certificate = published.certificate
        if self.n_features_in_ == 1:
            point = "footpoint, at the lower end of the range of x"
            velocity = "velocity, over the whole range"
        else:
            point = "footpoint, at the middle of the ranges of x"
            velocity = "velocities, one for each predictor, over the whole range"
        return [
            ReleasedValue(point, self.footpoint_, certificate),
            ReleasedValue(velocity, self.velocity_, certificate),
        ]

    def _choice(self, n: int, predictors: int, persons: bool) -> ChosenMechanism:
        """The mechanism for a geodesic of n records, or persons, in the given ball or in one that is found privately."""
        ranges = np.stack(_range(self.x_range, predictors), axis=-1)
        if self._searches_ball:
            _validate.choice("method", self.method, ("auto", "dp-rgd"))
            if self.speed is not None or self.clip is not None:
                raise ParameterError(
                    "finds speed and clip as well: leave them out",
                    parameter="radius",
                    value="private",
                )
            statistic = SearchedGeodesic(
                self.manifold, self.center, self.outer_radius, n, ranges
            )
            return choose_private_ball(statistic, self.guarantee)
        for name in ("radius", "speed", "clip"):
            if getattr(self, name) is None:
                raise ParameterError(
                    "is missing: choose it from domain knowledge, "
                    "or find all with a private radius",
                    parameter=name,
                )
        line = GeodesicLine(
            self.manifold,
            self.center,
            self.radius,  # type: ignore[arg-type]  # a number here
            self.speed,  # type: ignore[arg-type]  # not None
            self.clip,  # type: ignore[arg-type]  # not None
            n,
            ranges,
        )
        return choose_mechanism(
            "dp-rgd" if persons else self.method, line, self.guarantee
        )

    @property
    def n_features_in_(self) -> int:
        """How many predictors."""
        return (
            1
            if self.velocity_.ndim == len(self.manifold_.point_shape)
            else len(self.velocity_)
        )

    def predict(self, x: Any) -> np.ndarray:
        """Points of the private geodesic, one for each row of predictors; outside the range it goes on."""
        check_is_fitted(self)
        M, k = self.manifold_, self.n_features_in_
        x = _asked_predictors(x, k)
        if k > 1 and x.shape[-1:] != (k,):
            raise ParameterError(f"x has shape {x.shape}; the model has {k} predictors")
        x, (low, high) = x.reshape(-1, k), self.x_range_.T
        at, width = (
            low if k == 1 else (low + high) / 2,
            (high - low).reshape(-1, *[1] * len(M.point_shape)),
        )
        V = self.velocity_.reshape(k, *M.point_shape) / width
        with quiet_about_records():
            return np.asarray(M.exp(self.footpoint_, np.tensordot(x - at, V, axes=1)))

    def score(self, x: Any, Y: Any) -> float:
        """R² on the given data: 1 − mean squared residual / Fréchet variance. NOT private: it reads x and Y."""
        check_is_fitted(self)
        manifold = self.manifold_
        responses = open_records(Y, manifold.point_shape, "Y", min_records=1).array()
        predictions = self.predict(x)
        with quiet_about_records():
            mean = frechet_mean(manifold, responses)
            error = np.mean(np.asarray(manifold.dist(predictions, responses)) ** 2)
            variance = np.mean(np.asarray(manifold.dist(mean, responses)) ** 2)
            return float(1 - error / variance)


def _from_lower_end(
    M: Manifold, p: np.ndarray, v: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """A geodesic given by its middle; None where doubles do not hold its lower end."""
    with quiet_about_records():  # what has been paid for must not raise
        foot, velocity = map(np.asarray, M.geodesic(p, v, -HALF))
        held = (
            np.all(np.isfinite(foot))
            and np.all(np.isfinite(velocity))
            and bool(M.residual(foot) <= 1e-6)
        )
    return (foot, velocity) if held else None


def _range(ends: Any, predictors: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends, one for each predictor; one pair serves all."""
    if ends is None:
        raise ParameterError(
            "is missing: the public range of the predictors, such as (20, 90) for "
            "ages; "
            "choose it from domain knowledge, not from the data",
            parameter="x_range",
        )
    try:
        pairs = np.broadcast_to(_validate.array("x_range", ends), (predictors, 2))
    except ValueError:
        what = "a pair of numbers (low, high)" + (
            f", or {predictors} of them" if predictors > 1 else ""
        )
        raise ParameterError(
            f"must be {what}", parameter="x_range", value=ends
        ) from None
    low, high = pairs.T
    if not (
        np.all(np.isfinite(pairs))
        and np.all(low < high)
        and np.all(np.isfinite(high - low))
    ):
        raise ParameterError(
            "must be finite with low < high", parameter="x_range", value=ends
        )
    return low, high


def _asked_predictors(x: Any, count: int) -> np.ndarray:
    """Predictors at which a released geodesic is asked for, as floats: (), (n,) or (n, k)."""
    shape = (count,) if count > 1 else ()
    if isinstance(x, list | tuple):
        try:
            return np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):  # rows of different lengths, or a text
            return open_records(x, shape, "x", min_records=1).array()
    asked = _validate.public_shape("x", x)
    if len(asked) == 0 and not hasattr(x, "chunks"):
        return np.asarray(_validate.array("x", x))
    return open_records(x, asked[1:], "x", min_records=1).array()


def _predictor_shape(x: Any, x_range: Any) -> tuple[int, ...]:
    """The shape of one record's predictors: an array's own, and for a list that of the public
    `x_range`, one pair for each predictor. How long the rows of a list are is data."""
    if isinstance(x, list | tuple):
        pairs = _validate.array("x_range", x_range)
        return () if pairs.ndim < 2 else (len(pairs),)
    return _validate.public_shape("x", x)[1:]


def _records(
    M: Manifold, x: Any, Y: Any, x_range: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Predictors (n, k) and responses (n, *point_shape) as floats; only shape and type can be refused."""
    Y = open_records(Y, M.point_shape, "Y", min_records=1).array()
    if isinstance(x, list | tuple):
        x_shape: tuple[int, ...] = (len(x),)
    else:
        # The arrays of some libraries have no `len`.
        x_shape = _validate.public_shape("x", x)
    if not x_shape:
        raise ParameterError(
            "x is one number; (n,) or (n, k), one row a response, is needed"
        )
    n = x_shape[0]
    one = _predictor_shape(x, x_range)
    if len(one) > 1 or n != len(Y) or 0 in one:
        shape = (n, *one)
        raise ParameterError(
            f"x has shape {shape}; (n,) or (n, k) with n = {len(Y)}, one row a response, is needed"
        )
    x = open_records(x, one, "x", min_records=1).array().reshape(len(Y), -1)
    if len(Y) < 1 + x.shape[1]:
        needed = (
            f"at least {1 + x.shape[1]} are needed for a geodesic that can be private"
        )
        raise ParameterError(f"{len(Y)} record(s); {needed}")
    return x, Y
