"""Private principal geodesics: along which directions records on a manifold vary.
One release of both moments of the records' logarithms (`TangentMoments`) leads to a
private mean, to principal directions in the tangent space there, and to their
variances.
"""

from dataclasses import dataclass
from functools import partial
from math import acos, pi, sqrt
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from curvedp import _validate
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import Choice
from curvedp.core.released import ReleasedValue
from curvedp.core.statistic import public_ball
from curvedp.errors import ParameterError
from curvedp.estimators.base import (
    BallEstimator,
    PrivateTransformer,
    choose_private_ball,
)
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.inference.shapes import Region
from curvedp.inference.tangent_regions import (
    VarianceIntervals,
    components_above_noise,
    directions_region,
    estimate_of_release,
    variance_intervals,
)
from curvedp.mechanisms.staged.step_to_mean import (
    ONE_SHOT,
    TWO_STEP,
    best_mechanism,
    one_shot_mechanism,
    two_step_mechanism,
)
from curvedp.records.chunked import map_records
from curvedp.release.choose import ChosenMechanism
from curvedp.release.rebuild import final_mechanism_of, mechanism_of
from curvedp.statistics.tangent_moments import (
    SearchedTangentMoments,
    Spectrum,
    TangentMoments,
    TangentMomentsNearMean,
    TangentMomentsSum,
    check_dimension,
    separate_from_noise,
)
from curvedp.statistics.tangent_vectors import logs_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# How the moments in a public ball are released.
_METHODS = ("auto", ONE_SHOT, TWO_STEP)

RegionTarget = Literal["mean", "variances", "directions"]


@dataclass(eq=False, repr=False)
class PrivateTangentPCA(PrivateTransformer, BallEstimator):
    """The mean of records on a manifold, and the geodesics along which they vary most.

    The logarithms of the records at a point near their mean are vectors. One noisy
    release of their mean and of their second moment gives a private mean, principal
    directions and variances: one certificate, one charge. The distribution of the
    noise shows how many directions are more than noise.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    radius : float or "private"
        The radius of the public ball into which records are clipped; a ball that
        contains all of them clips nothing. "private" finds a ball that holds most of
        them; what is released is about the records clipped to it, and their variances
        are a little smaller.
    center : point, optional
        The center of the public ball; by default the manifold's origin.
    outer_radius : float, optional
        With `radius="private"`: the radius of the public outer ball, which may be
        generous. By default it covers a compact space entirely and matrices in any unit
        of measurement; it is 25 in hyperbolic space and 1e6 in flat space.
    guarantee : Guarantee
        The privacy guarantee of the release.
    ledger : Ledger, optional
        The ledger that is charged. Nothing is charged if `fit` raises an error.
    label : str, optional
        The name of the ledger's entry.
    source : Source, optional
        A source of random bits that replaces the cryptographic one in simulations. The
        certificate records the replacement.
    mechanism : {"auto", "one-shot", "two-step"}
        How a public ball is used. "one-shot" takes the logarithms at its center.
        "two-step" first steps to a private mean: in curved space logarithms at a
        distant center distort what they measure. "auto" takes the one with the smaller
        predicted angle, which `curvedp.plan(statistic="tangent-pca")` reports.
    n_components : int, optional
        How many directions are kept. By default those that stand out of the noise, and
        at least one. Every number is post-processing of the same release.

    Attributes
    ----------
    mean_ : ndarray, shape point_shape
        The private mean.
    components_ : ndarray, shape (n_components, *point_shape)
        Tangent vectors at `mean_`, orthonormal in the metric of the manifold.
    explained_variance_ : ndarray, shape (n_components,)
        The variance along each, without the bias of the noise. Directions that do not
        stand out share what is left of the total evenly.
    explained_variance_ratio_ : ndarray, shape (n_components,)
        The same as fractions of the total variance.
    n_components_ : int
        How many directions were kept.
    n_components_above_noise_ : int
        How many directions stand out of the noise: with probability at least 95% the
        records do vary in as many.
    covariance_ : ndarray, shape (dim, dim)
        The positive semidefinite covariance of all directions, in the coordinates
        `manifold.to_coordinates(mean_, ·)`.
    variance_noise_ : float
        The standard deviation of the noise in a variance.
    ball_ : Ball
        The ball into which records were clipped.
    certificate_ : Certificate
        The certificate of the release.
    predicted_error_ : float
        The expected angle between the first direction and the true one, in radians.

    Notes
    -----
    X may be a dask array, which is streamed.

    Guarantees

    - errors are because of parameters, shapes and types, never of a record's values,
      and nothing is spent then;
    - `fit` meets `guarantee` for replace-one adjacency with n public, for ANY data; for
      add-remove adjacency with n private, in a public ball;
    - with `groups`, for replacing one person with all their records.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp import GDP
    >>> from curvedp.geometry import Sphere
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], [0, 0.6, 0.2], (1000, 3)))
    >>> center = [1.0, 0.0, 0.0]
    >>> pca = PrivateTangentPCA(Sphere(2), center=center, radius=0.8, n_components=1)
    >>> pca = pca.fit(X)
    >>> bool(abs(pca.components_[0, 1]) > 0.98), pca.transform(X).shape
    (True, (1000, 1))
    """

    _adjacencies = ("replace-one", "add-remove")
    _name = "principal geodesics"
    _column = "tangentpca"

    n_components: int | None = None

    @property
    def _n_features_out(self) -> int:  # type: ignore[override]  # read only
        """Return how many columns `transform` makes: one for each direction."""
        return len(self.components_)

    def fit(self, X: Any, y: Any = None, groups: Any = None) -> Self:
        """Release mean and principal directions, and charge them to the ledger.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records: an array, a dask array, or an array on a device.
        y : ignored
            scikit-learn passes labels to every estimator; these are not read.
        groups : sequence of n ids, optional
            The person to whom each record belongs. Then a person is the unit of
            privacy: each person's records are averaged first, and the directions are
            those along which people vary.

        Returns
        -------
        self
            With `mean_`, `components_`, `explained_variance_`, `covariance_`,
            `certificate_` and the other attributes of the class set.
        """
        self._validate_params()
        check_dimension(check_manifold(self.manifold))
        n_components = self._check_n_components()
        records, privacy_unit = self._load_records(X, groups)
        chosen = self._calibrated_mechanism(
            records.n, in_memory=records.location == "memory"
        )
        vector = self._release_one(chosen, records, "moments", privacy_unit)

        manifold = self.manifold_
        if not self._searches_ball:
            # After a step to the mean the ball of the moments is wider; records are
            # clipped into the public one.
            self.ball_ = public_ball(manifold, self.center, self.radius)
        estimate = estimate_of_release(vector, self.certificate_)
        spectrum = separate_from_noise(
            estimate.covariance,
            estimate.covariance_noise,
            components_above_noise(vector, self.certificate_),
        )
        self.mean_ = estimate.mean
        self.covariance_ = spectrum.covariance
        self.variance_noise_ = estimate.covariance_noise
        self._drawn_covariance = estimate.covariance
        if n_components is None:
            n_components = max(1, spectrum.n_above_noise)
        self._set_components(spectrum, n_components)
        return self._warn_after_release()

    def _set_components(self, spectrum: Spectrum, n_components: int) -> None:
        """Set the fitted attributes that describe the first principal directions.

        Parameters
        ----------
        spectrum : Spectrum
            The variances and directions of the released covariance.
        n_components : int
            How many directions are kept.
        """
        self._directions = _with_fixed_signs(spectrum.directions[:n_components])
        self.components_ = np.asarray(
            self.manifold_.from_coordinates(self.mean_, self._directions)
        )
        self.explained_variance_ = spectrum.variances[:n_components]
        # If all variances are 0, nothing is divided by 0.
        total_variance = float(spectrum.variances.sum()) or 1.0
        self.explained_variance_ratio_ = self.explained_variance_ / total_variance
        self.n_components_ = n_components
        self.n_components_above_noise_ = spectrum.n_above_noise

    def _check_n_components(self) -> int | None:
        """Return the number of directions that was asked for, or None.

        Raises
        ------
        ParameterError
            If it is not an integer between 1 and the dimension of the manifold.
        """
        if self.n_components is None:
            return None
        n_components = _validate.integer("n_components", self.n_components, 1)
        if n_components > self.manifold.dim:
            raise ParameterError(
                f"is more than the {self.manifold.dim} dimensions of the manifold",
                parameter="n_components",
                value=n_components,
            )
        return n_components

    def _calibrated_mechanism(self, n: int, *, in_memory: bool) -> ChosenMechanism:
        """Return the calibrated mechanism, and why it was chosen.

        Parameters
        ----------
        n : int
            The number of records, or of people.
        in_memory : bool
            Whether the records are in memory.

        Returns
        -------
        ChosenMechanism
            The mechanism that releases the tangent moments, and why it was chosen.
        """
        if self._n_is_private:
            return self._choose_sum_mechanism(TangentMomentsSum)
        if self._searches_ball:
            _validate.choice("mechanism", self.mechanism, ("auto", "private-ball"))
            searched = SearchedTangentMoments(
                self.manifold, self.center, self.outer_radius, n
            )
            return choose_private_ball(searched, self.guarantee, in_memory=in_memory)

        _validate.choice("mechanism", self.mechanism, _METHODS)
        ball = public_ball(self.manifold, self.center, self.radius)
        statistic = TangentMoments(self.manifold, *ball, n)
        if self.mechanism == ONE_SHOT:
            one_shot = one_shot_mechanism(statistic, self.guarantee)
            return ChosenMechanism(one_shot, Choice(ChoiceRule.NAMED))
        if self.mechanism == TWO_STEP:
            two_step = two_step_mechanism(statistic, self.guarantee)
            return ChosenMechanism(two_step, Choice(ChoiceRule.NAMED))
        better = best_mechanism(statistic, self.guarantee)
        return ChosenMechanism(better, Choice(ChoiceRule.ONLY_ONE))

    @property
    def releases(self) -> list[ReleasedValue]:
        """Return the mean, and the directions, each as long as its standard deviation.

        Both follow from one draw of moments and have the same certificate.
        """
        (published,) = super().releases
        deviations = np.sqrt(self.explained_variance_)
        axes = (1,) * len(self.manifold_.point_shape)
        return [
            published._replace(title="mean", value=self.mean_),
            published._replace(
                title="principal directions, each as long as its standard deviation",
                value=deviations.reshape(-1, *axes) * self.components_,
            ),
        ]

    @property
    def predicted_error_(self) -> float:
        """Return the expected angle between the first direction and the true one.

        It is in radians, and computed from released numbers. To first order the
        direction turns toward another one by the noise in their common entry of the
        covariance, divided by the gap of their variances. If no variance is above the
        noise, the angle is that of a random direction.
        """
        check_is_fitted(self)
        if self.n_components_above_noise_ == 0:
            return acos(1 / sqrt(self.manifold_.dim))
        eigenvalues = np.linalg.eigvalsh(self._drawn_covariance)
        largest = eigenvalues[-1]
        others = np.flip(eigenvalues)[1:]  # in descending order
        noise = self.variance_noise_ / sqrt(2)
        gaps = np.maximum(largest - others, 1e-300)
        # A quotient by a tiny gap overflows. The direction is unknown then, and the angle
        # becomes π/2. All numbers are released ones, so that a warning would be harmless.
        with np.errstate(over="ignore"):
            angle = float(np.sqrt(np.sum((noise / gaps) ** 2)))
        return min(angle, pi / 2)

    def confidence_region(  # type: ignore[override]  # more targets than one
        self,
        level: float = 0.95,
        of: str = "records",
        target: RegionTarget = "mean",
        components: int | None = None,
    ) -> Region | VarianceIntervals:
        """Return a confidence region of the mean, the variances or the directions.

        It is computed from the release and its public certificate, which states the
        scales of the noise. So it costs no further budget.

        Parameters
        ----------
        level : float
            The probability with which the region contains the true value.
        of : {"records", "population"}
            Whether the true mean is that of the clipped records, or that of the
            population from which they were drawn independently. For variances and
            directions only "records" is possible.
        target : {"mean", "variances", "directions"}
            The quantity. "mean": the Fréchet mean of the clipped records. "variances":
            the largest principal variances; all intervals hold simultaneously.
            "directions": the subspace of the leading principal directions, in
            coordinates at `mean_`; the radius of the region is an angle.
        components : int, optional
            The number of variances or directions. By default the `n_components_` kept
            ones for "variances", and 1 for "directions".

        Returns
        -------
        Region or VarianceIntervals
            `VarianceIntervals` for "variances", otherwise a `Region`.
        """
        _validate.choice("target", target, ("mean", "variances", "directions"))
        check_is_fitted(self)
        if target == "mean":
            self._check_enlarged_ball()
            return super().confidence_region(level, of)
        _validate.within("level", level, 0.0, 1.0, open_low=True, open_high=True)
        _validate.choice("of", of, ("records",))
        if target == "directions":
            count = 1 if components is None else components
            return directions_region(self.certificate_, count, level)
        count = self.n_components_ if components is None else components
        count = _validate.integer("components", count, 1)
        return variance_intervals(
            self.certificate_, min(count, self.manifold_.dim), level
        )

    def _check_enlarged_ball(self) -> None:
        """Raise an error if there is no region of the mean, because its ball is too large.

        Raises
        ------
        ParameterError
            If records in the public ball have one mean, but records in the ball about
            the end of the step, which holds the public one, may have several.
        """
        public = mechanism_of(self.certificate_).statistic
        if not isinstance(public, TangentMomentsNearMean):
            return
        limit = self.manifold_.convexity_radius
        statistic: Any = final_mechanism_of(self.certificate_).statistic
        if public.outer_radius < limit <= statistic.radius:
            raise ParameterError(
                "no confidence region of the mean: the private step to the mean has "
                f"enlarged the public ball to radius {statistic.radius:.4g}, and only "
                f"below {limit:.4g} records are known to have one mean; a private radius "
                "has a region, and so has a public center near the mean"
            )

    def transform(self, X: Any) -> Any:
        """Return the coordinates of the records along the principal geodesics.

        Parameters
        ----------
        X : array of shape (n, *point_shape)
            The records.

        Returns
        -------
        array of shape (n, n_components)
            A lazy dask array if X is a dask array. The coordinates are computed from
            the records without noise, so they are still private data.
        """
        check_is_fitted(self)
        manifold = self.manifold_
        coordinates = partial(_scores, manifold, self.mean_, self._directions)
        return map_records(
            coordinates, X, manifold.point_shape, (len(self.components_),)
        )

    def inverse_transform(self, scores: Any) -> np.ndarray:
        """Return the points of the manifold with the given coordinates.

        Parameters
        ----------
        scores : array of shape (n, n_components)
            Coordinates along the principal directions, such as `transform` returns.

        Returns
        -------
        array of shape (n, *point_shape)
            exp_m(Σ_j score_j · component_j) with m the released mean.
        """
        check_is_fitted(self)
        array = _validate.array("scores", scores)
        if array.ndim != 2 or array.shape[1] != len(self.components_):
            raise ParameterError(
                f"scores have shape {array.shape}, not (n, {len(self.components_)})"
            )
        manifold = self.manifold_
        return np.asarray(
            manifold.from_normal_coordinates(self.mean_, array @ self._directions)
        )

    def plot(self, components: int | None = None) -> "Figure":
        """Draw the first principal geodesics and the variances (extra: report).

        Parameters
        ----------
        components : int, optional
            How many geodesics to draw; by default all components, but at most three.

        Returns
        -------
        matplotlib.figure.Figure
            Tensors are drawn as ellipsoids, shapes as outlines, directions on a globe,
            from two standard deviations on one side of the mean to two on the other.
        """
        from curvedp.report.geodesics import PrincipalGeodesics, geodesics_figure

        check_is_fitted(self)
        count = min(3, self.n_components_) if components is None else components
        count = _validate.integer("components", count, 1)
        intervals = None
        if self.certificate_.guarantee.adjacency == "replace-one":
            intervals = self._intervals_or_none()
        geodesics = PrincipalGeodesics(
            self.manifold_,
            self.mean_,
            self._directions[:count],
            self.explained_variance_,
            self.n_components_above_noise_,
            intervals,
        )
        return geodesics_figure(geodesics)

    def _intervals_or_none(self) -> VarianceIntervals | None:
        """Return the intervals of the kept variances, or None if there are none.

        Intervals are computed from the noisy integers that the certificate lists. Of a
        very large draw it has the hash alone.
        """
        if self.certificate_.release["integers"] is None:
            return None
        return variance_intervals(self.certificate_, self.n_components_)


def _with_fixed_signs(directions: np.ndarray) -> np.ndarray:
    """Return directions whose largest entry is positive.

    A principal direction and its negative mean the same; with a fixed sign the same
    release always gives the same picture.

    Parameters
    ----------
    directions : array, shape (k, dim)
        One direction in each row.
    """
    largest = np.argmax(np.abs(directions), axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    return np.ascontiguousarray(directions * signs[:, np.newaxis])


def _scores(
    manifold: Manifold, mean: np.ndarray, directions: np.ndarray, records: np.ndarray
) -> np.ndarray:
    """Return the coordinates of records along directions at the mean. NOT private.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    mean : array of shape point_shape
        The released mean.
    directions : array, shape (k, dim)
        Orthonormal rows, in coordinates at the mean.
    records : array of shape (n, *point_shape)
        A record that has no logarithm at the mean is taken for the mean.

    Returns
    -------
    array, shape (n, k)
        The inner products of the logarithms with the directions.
    """
    logs = logs_at(manifold, mean, np.asarray(manifold.from_record(records)))
    return np.asarray(logs @ directions.T)
