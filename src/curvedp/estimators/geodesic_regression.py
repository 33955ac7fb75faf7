"""Private geodesic regression: fit a geodesic to manifold-valued responses.
The model is x ↦ Exp(p, x·v), with a footpoint p and a velocity v. The estimator checks
the parameters and chooses a mechanism; the mechanisms are in
`mechanisms/geodesic_knorm.py` and `mechanisms/geodesic_descent.py`.
"""

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
from curvedp.geometry.manifold import Manifold, check_manifold, follow_geodesic
from curvedp.ledger import Ledger
from curvedp.privacy import Guarantee, PureDP
from curvedp.randomness import Source
from curvedp.records.base import is_chunked, open_records
from curvedp.records.persons import encode_persons
from curvedp.regression.bounds import MAX_PREDICTOR
from curvedp.release.choose import ChosenMechanism, choose_mechanism
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.searched_ball import SearchedGeodesic

# The largest distance from the manifold (`Manifold.residual`) at which the computed
# lower end of a geodesic still counts as a point of it. Beyond this, doubles cannot
# represent the end.
_MAX_RESIDUAL = 1e-6


@dataclass(eq=False, repr=False)
class PrivateGeodesicRegression(PrivateEstimator):
    """The geodesic x ↦ Exp(p, x·v) that fits responses on a manifold, under a guarantee.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    radius, center : float and point
        The public ball that contains the middle of the geodesic. "private" finds a ball
        of the responses privately and derives speed and clip from it: the geodesic
        stays in the ball, and residuals are clipped to its radius.
    speed : float
        A public bound on the geodesic's length ‖v‖ over the whole range of a predictor.
    clip : float
        A public bound to which the length of each residual is clipped.
    x_range : pair of numbers, or one pair for each predictor
        Required: the public range of the predictors, such as (20, 90) for ages, from
        domain knowledge. Predictors outside the range are moved to its ends, missing
        predictors to its middle. Responses that are not finite are replaced by the
        center; distant ones are clipped to the ball that predictions and clipped
        residuals can reach.
    method : {"auto", "kng", "dp-rgd"}
        "kng" is one exact draw from the K-norm gradient mechanism on the tangent
        bundle. It is for pure ε, one predictor, and manifolds of dimension 1 and 2.
        "dp-rgd" is gradient descent on the tangent bundle with exact noise: Laplace for
        pure ε, Gaussian for all other guarantees. It is for any symmetric space and any
        number of predictors. "auto" takes the method with the smaller predicted noise.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.

    Attributes
    ----------
    footpoint_, velocity_ : ndarray
        The geodesic's point at the lower end of the range, and its velocity there: the
        geodesic covers the whole range in unit time. With k > 1 predictors the model is
        x ↦ Exp(p, Σ_j (x_j − m_j)/w_j · v_j), with m_j the middle and w_j the width of
        range j. Then `footpoint_` is p and `velocity_` stacks the v_j.
    manifold_, x_range_ : Manifold and ndarray
        The manifold and the range, one row for each predictor, that `fit` has used.
    certificate_, method_ : Certificate and str
        The certificate of the release, and the method that was used.

    Notes
    -----
    `predict` is post-processing; `score` reads the data it is given and is NOT private.
    On Euclidean(d) this is linear regression.

    Guarantees

    - `fit` meets `guarantee` for replace-one adjacency (predictor and response of one
      record), n public, for ANY data;
    - errors depend on shapes and parameters only, never on values;
    - how long "kng" takes depends on the data, and ε does not cover that.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> M, x = Sphere(2), np.linspace(0, 1, 400)
    >>> Y = M.exp(M.origin, x[:, None] * np.array([0.0, 0.8, 0.3]))
    >>> model = PrivateGeodesicRegression(
    ...     M, radius=0.8, speed=1.5, clip=0.3, x_range=(0, 1), guarantee=PureDP(2.0)
    ... )
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
        """Release the geodesic that fits responses Y to predictors x, and charge for it.

        Parameters
        ----------
        x : array of shape (n,) or (n, k)
            Predictors. If x is a list, `x_range` says how many predictors there are:
            one for each of its pairs.
        Y : array of shape (n, *point_shape)
            Responses.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person is the unit of
            privacy, however many records they have: each step averages a person's own
            gradients first, and n is the number of people.

        Returns
        -------
        self
            With `footpoint_`, `velocity_`, `certificate_`, `manifold_`, `x_range_` and
            `method_` set.
        """
        self._validate_params()
        manifold = check_manifold(self.manifold)
        predictors, responses = _read_data(manifold, x, Y, self.x_range)
        n = len(responses)
        methods: tuple[str, ...] = ("auto", "kng", "dp-rgd")
        data: tuple[np.ndarray, ...] = (predictors, responses)
        privacy_unit = None
        if groups is not None:
            person_index = encode_persons(groups, n)
            n = int(person_index.max()) + 1
            methods = ("auto", "dp-rgd")
            data = (predictors, responses, person_index)
            privacy_unit = ProtectedUnit.PERSON
        _validate.choice("method", self.method, methods)
        chosen = self._calibrated_mechanism(
            n, predictors.shape[1], has_persons=groups is not None
        )

        statistic: Any = chosen.mechanism.statistic
        x_range = np.array(statistic.x_range)
        method = "dp-rgd" if self._searches_ball else chosen.mechanism.info.option
        pending = PendingRelease(chosen.mechanism, data, chosen.choice, "geodesic")
        (release,) = self._pay_and_release([pending], privacy_unit)

        self.manifold_ = manifold
        self.x_range_ = x_range
        self.method_ = method
        self.certificate_ = release.certificate
        ends_are_lost = self._set_geodesic(*release.value)
        if ends_are_lost:
            warnings.warn(
                "float64 cannot represent the ends of the geodesic: only its middle is kept",
                ReleaseWarning,
                stacklevel=2,
            )
        return self._warn_after_release()

    def _set_geodesic(self, middle: np.ndarray, velocities: np.ndarray) -> bool:
        """Set `footpoint_` and `velocity_` from the released geodesic.

        Parameters
        ----------
        middle : array of shape point_shape
            The point of the geodesic at the middle of the ranges.
        velocities : array of shape (k, *point_shape)
            One velocity at this point for each predictor.

        Returns
        -------
        bool
            Whether doubles cannot represent the ends of the geodesic. Then its middle
            is kept, with velocity 0.
        """
        if len(velocities) > 1:
            self.footpoint_ = middle
            self.velocity_ = velocities
            return False

        lower_end = _geodesic_from_lower_end(self.manifold_, middle, velocities[0])
        if lower_end is None:
            self.footpoint_ = middle
            self.velocity_ = np.zeros_like(velocities[0])
            return True
        self.footpoint_, self.velocity_ = lower_end
        return False

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the released footpoint and velocity, with titles that describe them.

        Both follow from one draw and have the same certificate. For one predictor the
        footpoint is at the lower end of its range; for several it is at the middle.
        """
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

    def _calibrated_mechanism(
        self, n: int, n_predictors: int, *, has_persons: bool
    ) -> ChosenMechanism:
        """Return the calibrated mechanism, and why it was chosen.

        Parameters
        ----------
        n : int
            The number of records, or of people.
        n_predictors : int
            The number of predictors.
        has_persons : bool
            Whether a person is the unit of privacy; only "dp-rgd" supports that.

        Returns
        -------
        ChosenMechanism
            The mechanism of the method with the smaller predicted noise, or of the
            method that was asked for.

        Raises
        ------
        ParameterError
            If a bound is missing, or is given although the ball is found privately.
        """
        x_range = _check_range(self.x_range, n_predictors)
        if self._searches_ball:
            self._check_searched_parameters()
            searched = SearchedGeodesic(
                self.manifold, self.center, self.outer_radius, n, x_range
            )
            return choose_private_ball(searched, self.guarantee)

        line = self._line_in_public_ball(n, x_range)
        method = "dp-rgd" if has_persons else self.method
        return choose_mechanism(method, line, self.guarantee)

    def _check_searched_parameters(self) -> None:
        """Refuse parameters that cannot be combined with a private radius."""
        _validate.choice("method", self.method, ("auto", "dp-rgd"))
        if self.speed is not None or self.clip is not None:
            raise ParameterError(
                "finds speed and clip as well: leave them out",
                parameter="radius",
                value="private",
            )

    def _line_in_public_ball(self, n: int, x_range: np.ndarray) -> GeodesicLine:
        """Return the statistic for a public ball, whose bounds must all be given.

        Parameters
        ----------
        n : int
            The number of records.
        x_range : array of shape (n_predictors, 2)
            The public range of each predictor.
        """
        bounds = {"radius": self.radius, "speed": self.speed, "clip": self.clip}
        for name, value in bounds.items():
            if value is None:
                raise ParameterError(
                    "is missing: choose it from domain knowledge, "
                    "or find all with a private radius",
                    parameter=name,
                )
        return GeodesicLine(
            self.manifold,
            self.center,
            self.radius,  # type: ignore[arg-type]  # a number here
            self.speed,  # type: ignore[arg-type]  # not None
            self.clip,  # type: ignore[arg-type]  # not None
            n,
            x_range,
        )

    @property
    def n_features_in_(self) -> int:
        """Return the number of predictors of the fitted model."""
        if self.velocity_.ndim == len(self.manifold_.point_shape):
            return 1
        return len(self.velocity_)

    def predict(self, x: Any) -> np.ndarray:
        """Return the points of the private geodesic at the given predictors.

        Outside the range of the predictors the geodesic is continued.

        Parameters
        ----------
        x : number, or array of shape (n,) or (n, k)
            Predictors in their own units.

        Returns
        -------
        array of shape (n, *point_shape)
            The points Exp(p, Σ_j t_j·v_j), with p the footpoint, v_j the velocities and
            t_j the predictors in units of their ranges.
        """
        check_is_fitted(self)
        manifold = self.manifold_
        n_predictors = self.n_features_in_
        x = _read_predictors(x, n_predictors)
        if n_predictors > 1 and x.shape[-1:] != (n_predictors,):
            raise ParameterError(
                f"x has shape {x.shape}; the model has {n_predictors} predictors"
            )
        rows = x.reshape(-1, n_predictors)

        # The footpoint belongs to the lower end of one range, or to the middle of
        # several.
        low, high = self.x_range_.T
        predictor_at_footpoint = low
        if n_predictors > 1:
            predictor_at_footpoint = (low + high) / 2

        widths = (high - low).reshape(-1, *(1,) * len(manifold.point_shape))
        velocities = self.velocity_.reshape(n_predictors, *manifold.point_shape)
        velocity_per_unit = velocities / widths
        with quiet_about_records():
            tangents = np.tensordot(
                rows - predictor_at_footpoint, velocity_per_unit, axes=1
            )
            return np.asarray(manifold.exp(self.footpoint_, tangents))

    def score(self, x: Any, Y: Any) -> float:
        """Return R² = 1 − (mean squared residual) / (Fréchet variance of Y).

        NOT private: it depends on predictors and responses without any noise, so it
        must not be published.

        Parameters
        ----------
        x : array of shape (n,) or (n, k)
            Predictors in their own units.
        Y : array of shape (n, *point_shape)
            Responses.

        Returns
        -------
        float
            1 for a perfect fit; 0 if the geodesic predicts no better than the mean of
            Y.
        """
        check_is_fitted(self)
        manifold = self.manifold_
        responses = open_records(Y, manifold.point_shape, "Y", min_records=1).array()
        predictions = self.predict(x)
        with quiet_about_records():
            mean = frechet_mean(manifold, responses)
            error = np.mean(np.asarray(manifold.dist(predictions, responses)) ** 2)
            variance = np.mean(np.asarray(manifold.dist(mean, responses)) ** 2)
            return float(1 - error / variance)


def _geodesic_from_lower_end(
    manifold: Manifold, middle: np.ndarray, velocity: np.ndarray
) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the point and velocity of a geodesic at the lower end of its range.

    Mechanisms release the point and velocity at the middle of the range, where their
    errors are smallest; the estimator's model begins at the lower end.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    middle : array of shape point_shape
        The geodesic's point at the middle of the range.
    velocity : array of shape point_shape
        The velocity at the middle; the whole range takes unit time.

    Returns
    -------
    (point, velocity) at the lower end, or None
        None if doubles cannot represent them. Nothing is raised, because the geodesic
        has already been paid for.
    """
    with quiet_about_records():
        foot, foot_velocity = follow_geodesic(
            manifold, middle, velocity, -MAX_PREDICTOR
        )
        foot = np.asarray(foot)
        foot_velocity = np.asarray(foot_velocity)
        is_finite = np.all(np.isfinite(foot)) and np.all(np.isfinite(foot_velocity))
        if is_finite and manifold.residual(foot) <= _MAX_RESIDUAL:
            return foot, foot_velocity
    return None


def _check_range(x_range: Any, n_predictors: int) -> np.ndarray:
    """Return the public ranges of k predictors as an array of shape (k, 2).

    Parameters
    ----------
    x_range : pair of numbers, or k pairs
        One pair (low, high) serves all predictors.
    n_predictors : int
        The number k of predictors.

    Returns
    -------
    array of shape (k, 2)
        The lower and the upper end of each range.

    Raises
    ------
    ParameterError
        If the range is missing, has another shape, is not finite, or low >= high.
    """
    if x_range is None:
        raise ParameterError(
            "is missing: the public range of the predictors, such as (20, 90) for ages; "
            "choose it from domain knowledge, not from the data",
            parameter="x_range",
        )
    try:
        pairs = np.broadcast_to(_validate.array("x_range", x_range), (n_predictors, 2))
    except ValueError:
        form = "a pair of numbers (low, high)"
        if n_predictors > 1:
            form += f", or {n_predictors} of them"
        raise ParameterError(
            f"must be {form}", parameter="x_range", value=x_range
        ) from None
    low, high = pairs.T
    has_finite_ends = np.all(np.isfinite(pairs))
    has_finite_width = np.all(np.isfinite(high - low))
    if not (has_finite_ends and has_finite_width and np.all(low < high)):
        raise ParameterError(
            "must be finite with low < high", parameter="x_range", value=x_range
        )
    return np.stack([low, high], axis=-1)


def _read_predictors(x: Any, n_predictors: int) -> np.ndarray:
    """Return the predictors that `predict` was given as an array of floats.

    Parameters
    ----------
    x : number, list or array
        Predictors.
    n_predictors : int
        How many predictors the model has.

    Returns
    -------
    array of shape (), (n,) or (n, k)
        Entries that are not numbers become NaN.
    """
    if isinstance(x, list | tuple):
        try:
            return np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            # The rows have different lengths, or an entry is a text.
            row_shape = (n_predictors,) if n_predictors > 1 else ()
            return open_records(x, row_shape, "x", min_records=1).array()
    shape = _validate.public_shape("x", x)
    if len(shape) == 0 and not is_chunked(x):
        return np.asarray(_validate.array("x", x))
    return open_records(x, shape[1:], "x", min_records=1).array()


def _predictor_shape(x: Any, x_range: Any) -> tuple[int, ...]:
    """Return the shape of one record's predictors: () for one, (k,) for several.

    An array says it by its own shape. For a list, the public `x_range` says it (one
    pair for each predictor), because the lengths of a list's rows are private data.

    Parameters
    ----------
    x : array or list
        The predictors of all records.
    x_range : pair of numbers, or k pairs
        The public ranges.
    """
    if not isinstance(x, list | tuple):
        return _validate.public_shape("x", x)[1:]
    ranges = _validate.array("x_range", x_range)
    if ranges.ndim < 2:
        return ()
    return (len(ranges),)


def _read_data(
    manifold: Manifold, x: Any, Y: Any, x_range: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Return the predictors and responses that `fit` was given as arrays of floats.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the responses.
    x, Y : arrays or lists
        Predictors and responses.
    x_range : pairs of numbers
        The public ranges; they count the predictors if x is a list.

    Returns
    -------
    x : array of shape (n, k)
        The predictors; whatever is not a number becomes NaN.
    Y : array of shape (n, *point_shape)
        The responses.

    Raises
    ------
    ParameterError
        If shapes or types do not fit, or there are fewer than k + 1 records. Values are
        never a reason.
    """
    responses = open_records(Y, manifold.point_shape, "Y", min_records=1).array()
    n = len(responses)
    if isinstance(x, list | tuple):
        x_shape: tuple[int, ...] = (len(x),)
    else:
        # The arrays of some libraries have no `len`.
        x_shape = _validate.public_shape("x", x)
    if not x_shape:
        raise ParameterError(
            "x is one number; (n,) or (n, k), one row a response, is needed"
        )

    row_shape = _predictor_shape(x, x_range)
    if len(row_shape) > 1 or x_shape[0] != n or 0 in row_shape:
        shape = (x_shape[0], *row_shape)
        raise ParameterError(
            f"x has shape {shape}; (n,) or (n, k) with n = {n}, one row a response, "
            "is needed"
        )

    predictors = open_records(x, row_shape, "x", min_records=1).array().reshape(n, -1)
    min_records = 1 + predictors.shape[1]
    if n < min_records:
        raise ParameterError(
            f"{n} record(s); at least {min_records} are needed for a geodesic that "
            "can be private"
        )
    return predictors, responses
