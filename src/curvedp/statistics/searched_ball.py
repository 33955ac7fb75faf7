"""Statistics for which a private search finds the ball that holds most records. The
user states only a large public *outer ball*; a mechanism in stages
(`curvedp.mechanisms.staged`) finds a smaller ball in it.
`BallSearchStatistic.with_ball` returns the statistic of the records clipped to that
ball.
"""

from abc import abstractmethod
from dataclasses import dataclass
from math import inf, isfinite, pi, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np

from curvedp import _validate
from curvedp.core.codes import PostProcessing, ProtectedUnit
from curvedp.core.fields import AtLeastTwo, assign
from curvedp.core.statistic import Ball, Statistic, public_ball
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.capabilities import ScalableCone
from curvedp.geometry.frechet_mean.error_bound import solver_error
from curvedp.geometry.frechet_mean.public_ball import PublicBall, clip_records
from curvedp.geometry.manifold import Manifold
from curvedp.records.base import Records, open_records
from curvedp.regression.jacobi import check_symmetric
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.geodesic import GeodesicLine
from curvedp.statistics.populations import (
    EMBEDDING_SHAPE,
    MEAN_SHAPE,
    SKEWED_SHAPE,
    PopulationShape,
)

# The radius of a ball is reduced to this fraction of the largest one in which a mean is
# unique, or in which residuals of a geodesic do not reach the cut locus.
_CONVEXITY_SHARE = 0.75
# The smallest and the largest radius for a variance. Doubles can hold the squares of
# radii in this range, and noise of their size.
_SMALLEST_SQUARED_RADIUS = 1e-40
_LARGEST_SQUARED_RADIUS = 1e45
# The largest error of the computed mean, relative to the radius, for a variance about
# that mean.
_MEAN_ACCURACY = 1e-6
# The default radius of the outer ball on a cone of m × m matrices, divided by √m. It
# allows any unit of measurement, since the scales e^−100 to e^100 are in the ball.
_CONE_RADIUS = 100
# The default radius of the outer ball in flat space, and in hyperbolic space and others
# where doubles do not reach much farther.
_FLAT_RADIUS = 1e6
_CURVED_RADIUS = 25.0
# On spheres of this many dimensions or more, distances are assumed to be about equal.
CONCENTRATION_DIM = 32
# The radius there of the ball of public records, over the injectivity radius: records
# that fill half of it are 60° from its center on a sphere.
_EMBEDDING_RADIUS = 2 / 3
# Lengths in a geodesic regression are at most this many radii of curvature, because
# float64 cannot compute longer ones in hyperbolic space.
_FARTHEST_IN_CURVATURE = 100


def default_outer_radius(manifold: Manifold, outer_radius: Any = None) -> float:
    """Return the radius of the public outer ball in which a private search takes place.

    The default is generous: the ball holds all of a compact space, matrices in any unit
    of measurement on a cone of matrices, distances up to 25 in hyperbolic space, and
    distances up to 10⁶ in flat space. On a product the squared radii of the factors add
    up.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    outer_radius : float, optional
        The radius, if the caller has chosen one.

    Returns
    -------
    float
        The checked radius, or the generous default.

    Raises
    ------
    ParameterError
        If the chosen radius is not positive and finite.
    """
    if outer_radius is not None:
        return _validate.length("outer_radius", outer_radius)
    return sqrt(sum(_default_factor_radius(factor) ** 2 for factor in manifold.factors))


def _default_factor_radius(factor: Manifold) -> float:
    """Return the default radius of the outer ball for one factor of a space.

    Parameters
    ----------
    factor : Manifold
        A space that is not a product.

    Returns
    -------
    float
        In units of the factor's distance; twice the injectivity radius if that is
        finite, so that the ball holds the whole factor.
    """
    if 0 < factor.injectivity_radius < inf:
        return 2 * factor.injectivity_radius
    if isinstance(factor, ScalableCone):
        return _CONE_RADIUS * sqrt(factor.point_shape[0])
    is_flat = factor.constant_curvature == 0 and factor.float_set.max_distance == inf
    return _FLAT_RADIUS if is_flat else _CURVED_RADIUS


@dataclass(frozen=True, eq=False)
class SearchedBallStatistic(Statistic):
    """A statistic of n records in a public outer ball.

    Attributes
    ----------
    manifold : Manifold
        The manifold of the records.
    center : point
        The center of the outer ball; None stands for the origin.
    outer_radius : float
        The radius of the outer ball; None stands for `default_outer_radius`.
    n : int
        The number of records.
    """

    manifold: Manifold
    center: Any
    outer_radius: Any
    n: AtLeastTwo

    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = FrechetMean.privacy_units

    def __post_init__(self) -> None:
        """Fill in the default center and outer radius, and check every field."""
        radius = default_outer_radius(self.manifold, self.outer_radius)
        ball = public_ball(self.manifold, self.center, radius)
        assign(self, center=ball.center, outer_radius=ball.radius)
        super().__post_init__()

    @property
    def value_space(self) -> Manifold:
        """The manifold of the records."""
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """2/n, the sensitivity of a mean of n unit vectors.

        Each stage of the release multiplies it by its own radius.
        """
        return 2 / self.n

    @property
    def public_count(self) -> int:
        """The number n of records, which is public."""
        return self.n

    @property
    def outer_ball(self) -> Ball:
        """The public ball in which the search takes place, in the frame of the records."""
        return Ball(self.center, self.outer_radius)

    @property
    def reference_ball(self) -> Ball:
        """A ball of public records for which errors are predicted.

        The stages adapt to the spread of the records, so one spread is enough for
        predictions: a radius of 1, or a quarter of the injectivity radius if that is
        smaller. On spheres of 32 dimensions or more it is as large as for embeddings,
        which are about 60° from their mean.
        """
        injectivity_radius = self.manifold.injectivity_radius or 1.0
        radius = min(1.0, injectivity_radius / 4, self.outer_radius / 2)
        if self.manifold.dim >= CONCENTRATION_DIM and is_spherical(self.manifold):
            radius = min(_EMBEDDING_RADIUS * injectivity_radius, self.outer_radius / 2)
        return Ball(self.center, radius)

    @property
    def reference_spread(self) -> float:
        """The spread that predictions assume if the user states none.

        The spread is the root mean square distance of the records to their mean.
        """
        return self.reference_ball.radius / 2

    def collect_records(self, data: Any) -> Records:
        """Return the records after checking their number and shape.

        Records in memory are clipped into the outer ball. Other records (in files, on
        devices, in a cluster) are clipped later, when they are read.

        Parameters
        ----------
        data : array of shape (n, *point_shape) or Records
            The records of one data set.

        Returns
        -------
        Records
            The records with a public number; their contents are not checked.

        Raises
        ------
        ParameterError
            If the number, shape or type is wrong. The contents of a record never raise.
        """
        if isinstance(data, Records):
            records = data
        else:
            records = open_records(data, self.manifold.point_shape, "records")
        if records.n != self.n:
            raise ParameterError(f"{records.n} records, not {self.n}")
        if records.location != "memory":
            return records
        outer_domain = PublicBall(self.manifold, *self.outer_ball)
        clipped = clip_records(outer_domain, records.array())
        return open_records(clipped, self.manifold.point_shape)


class SearchData(NamedTuple):
    """The data for a ball search and for the final mechanism after it.

    Attributes
    ----------
    search_records : Records
        The records for which the ball is searched.
    target : Any
        The data of the final mechanism, such as the records of one class.
    shared_search : SharedSearch, optional
        A search whose ball several releases share.
    """

    search_records: Records
    target: Any
    shared_search: "SharedSearch | None" = None


class SharedSearch:
    """The draws of one ball search, made at the first release and shared by the others.

    Attributes
    ----------
    draws : list or None
        The draws of the search; None before the first release.
    """

    def __init__(self) -> None:
        """Start without draws; the mechanism of the first release stores them here."""
        self.draws: list[Any] | None = None


@dataclass(frozen=True, eq=False)
class BallSearchStatistic(SearchedBallStatistic):
    """A statistic of the records in a ball that is itself found privately."""

    # The number of records that is enough, over the number that is enough for a mean
    # with Gaussian noise.
    min_records_factor: ClassVar[float] = 1.0
    # The measured error with Laplace stages over that with Gaussian stages of the same
    # noise. An (ε, δ) guarantee allows both kinds.
    laplace_cost_ratio: ClassVar[float] = inf

    @property
    def reference_shape(self) -> PopulationShape:
        """How the public records lie on which errors are predicted."""
        return SKEWED_SHAPE

    @abstractmethod
    def with_ball(self, ball: Ball) -> Statistic:
        """Return the statistic of the records that are clipped to a ball.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.

        Returns
        -------
        Statistic
            The statistic with its sensitivity in that ball, for the final mechanism.
        """

    @abstractmethod
    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the options of the mechanisms that may make the final release.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            The kind of noise of all stages.
        in_memory : bool
            Whether the records are in memory, so that they can be read several times.

        Returns
        -------
        list of str
            The options, the best mechanism first.
        """

    @abstractmethod
    def simulated_error(
        self,
        final_mechanism: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the error of one simulated release of public records.

        Parameters
        ----------
        final_mechanism : Mechanism
            The mechanism that releases the statistic in the ball that was found.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (k, *point_shape)
            The public records.
        mean : array of shape point_shape
            Their Fréchet mean.

        Returns
        -------
        float
            The error in the units of the released value. The mean of many such errors
            is the predicted error that users see.
        """

    def split_data(self, data: Any) -> SearchData:
        """Return the data for the search, and the data for the final mechanism.

        Parameters
        ----------
        data : Any
            The records as prepared, with what else a subclass reads.

        Returns
        -------
        SearchData
            By default the same data for both.
        """
        return SearchData(data, data)

    def load_data(self, data: Any) -> Any:
        """Return the data in the form that `split_data` takes.

        Parameters
        ----------
        data : array of shape (n, *point_shape) or Records
            The records.

        Returns
        -------
        Records
            The checked records, or what a subclass passes to `split_data`.

        Raises
        ------
        ParameterError
            If the number, shape or type of the records is wrong.
        """
        return self.collect_records(data)


@dataclass(frozen=True, eq=False)
class SearchedMean(BallSearchStatistic):
    """The Fréchet mean of the records in a private ball."""

    name: ClassVar[str] = "Fréchet mean in a private ball"
    # Measured on storms on S² and on diffusion tensors, where both kinds of noise have
    # the same error at the ratio 1.6.
    laplace_cost_ratio: ClassVar[float] = 2.0

    @property
    def reference_shape(self) -> PopulationShape:
        """How the public records lie on which errors are predicted."""
        if self.manifold.dim >= CONCENTRATION_DIM and is_spherical(self.manifold):
            return EMBEDDING_SHAPE
        return MEAN_SHAPE

    def with_ball(self, ball: Ball) -> FrechetMean:
        """Return the Fréchet mean of the records clipped to a released ball.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.
        """
        return FrechetMean(self.manifold, *ball, self.n)

    def simulated_error(
        self,
        final_mechanism: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the distance of one simulated release to the mean of all records.

        Parameters
        ----------
        final_mechanism : Mechanism
            The mechanism that releases the mean in the ball that was found.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        mean : array of shape point_shape
            Its mean.

        Returns
        -------
        float
            The distance on the manifold. It includes the bias of clipping to the ball.
        """
        released = simulate_mean(final_mechanism, rng, records)
        return float(self.manifold.dist(mean, released))

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """Steps are shrunk (James-Stein, from dimension 3 on), and the mean is projected."""
        if self.manifold.dim < 3:  # James-Stein shrinkage needs three dimensions
            return (PostProcessing.PROJECT_TO_BALL,)
        return (PostProcessing.SHRINK_IN_EVERY_STEP, PostProcessing.PROJECT_TO_BALL)

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the options of the mechanisms that may make the final release.

        In hyperbolic space they are noisy Newton steps, which read the records several
        times and need them in memory, and one gradient step. Elsewhere only one
        gradient step is used.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            The kind of noise of all stages.
        in_memory : bool
            Whether the records are in memory, so that they can be read several times.

        Returns
        -------
        list of str
            The options, the best mechanism first.
        """
        if is_hyperbolic(self.manifold) and in_memory:
            return ["noisy-newton", "gradient-step"]
        return ["gradient-step"]


def simulate_mean(
    final_mechanism: Any, rng: np.random.Generator, records: np.ndarray
) -> np.ndarray:
    """Simulate one release of a mean in floats. NOT private.

    Parameters
    ----------
    final_mechanism : Mechanism
        The mechanism that releases the mean in the ball that was found.
    rng : numpy.random.Generator
        The generator of the noise.
    records : array of shape (n, *point_shape)
        A public population.

    Returns
    -------
    array of shape point_shape
        The released point, in the frame of the records.
    """
    mean: FrechetMean = final_mechanism.statistic
    canonical = carry_records(mean.manifold, mean.center, records)
    clipped = np.asarray(project_to_ball(mean.manifold, *mean.ball, canonical))
    released = np.asarray(final_mechanism.simulate(rng, clipped, 1))
    points = released.reshape(1, *mean.manifold.point_shape)
    return np.asarray(mean.to_data_frame(points)[0])


def is_hyperbolic(manifold: Manifold) -> bool:
    """Return whether a space has constant negative curvature and dimension at least 2.

    Parameters
    ----------
    manifold : Manifold
        The space. A product has no constant curvature, so the result is False.
    """
    return (manifold.constant_curvature or 0.0) < 0 and manifold.dim > 1


def is_spherical(manifold: Manifold) -> bool:
    """Return whether a space has constant positive curvature and dimension at least 2.

    Parameters
    ----------
    manifold : Manifold
        The space. A product has no constant curvature, so the result is False.
    """
    return (manifold.constant_curvature or 0.0) > 0 and manifold.dim > 1


class ClassData(NamedTuple):
    """The data for the mean of one class in a ball that all classes share.

    Attributes
    ----------
    all_records : Records
        The records of all classes.
    class_records : Records
        The records of the class.
    shared_search : SharedSearch
        The search for the ball, which all classes share.
    """

    all_records: Records
    class_records: Records
    shared_search: SharedSearch


@dataclass(frozen=True, eq=False)
class SearchedClassMean(SearchedMean):
    """The Fréchet mean of one class in a private ball that all classes share.

    Each record is in one class. If it is replaced by another record of the class, only
    the search for the ball and ONE final mechanism change. So the means of all classes
    together have the same guarantee as the mean of one.

    Attributes
    ----------
    size : int
        The number of records of the class; `n` is that of all classes.
    """

    size: AtLeastTwo

    name: ClassVar[str] = "Fréchet mean of a class in a private ball"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD_IN_CLASS,
        ProtectedUnit.PERSON_IN_CLASS,
    )

    def __post_init__(self) -> None:
        """Check every field, and that the class is no larger than the data set."""
        super().__post_init__()
        if self.size > self.n:
            raise ParameterError(
                f"a class of {self.size} records is larger than all {self.n}"
            )

    @property
    def sensitivity(self) -> float:
        """2/size, the sensitivity of a mean over the records of the class."""
        return 2 / self.size

    @property
    def public_count(self) -> int:
        """The number of records of the class, which is public."""
        return self.size

    def with_ball(self, ball: Ball) -> FrechetMean:
        """Return the Fréchet mean of the class, clipped to the ball of all classes.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.
        """
        return FrechetMean(self.manifold, *ball, self.size)

    def split_data(self, data: ClassData) -> SearchData:
        """Return the records of all classes for the search, and this class's records.

        Parameters
        ----------
        data : ClassData
            The records of all classes and of one class, with the search that they
            share.
        """
        return SearchData(data.all_records, data.class_records, data.shared_search)

    def load_data(self, data: Any) -> ClassData:
        """Return the data unchanged, after checking the numbers of records.

        Parameters
        ----------
        data : ClassData
            The records of all classes and of one class. They have already been clipped
            into the outer ball.

        Returns
        -------
        ClassData
            The same object.

        Raises
        ------
        ParameterError
            If the data are something else, or have other numbers of records.
        """
        if isinstance(data, ClassData):
            if data.all_records.n == self.n and data.class_records.n == self.size:
                return data
        raise ParameterError(
            f"the data must be {self.size} records of one class among {self.n} of all "
            "classes, as PrivateMDM prepares them"
        )


@dataclass(frozen=True, eq=False)
class SearchedVariance(BallSearchStatistic):
    """The Fréchet variance of the records in a private ball.

    The radius of the ball is reduced if the mean need not be unique in it, or cannot be
    computed accurately.
    """

    name: ClassVar[str] = "Fréchet variance in a private ball"
    # The search leaves more records outside if there is more noise, and clipping them
    # reduces the variance: to 0.6 to 0.8 of the true one at nμ = 50, to 0.9 at 200.
    min_records_factor: ClassVar[float] = 2.5
    # Measured on S², H², SPD matrices and tensors.
    laplace_cost_ratio: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Check every field, and that the variance has a sensitivity on this space."""
        super().__post_init__()
        # A space on which no sensitivity is known is refused here, before the search.
        _ = self.with_ball(self.outer_ball).sensitivity

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """A drawn variance is clipped to [0, radius²]."""
        return (PostProcessing.CLIP_TO_VARIANCE_RANGE,)

    def with_ball(self, ball: Ball) -> FrechetVariance:
        """Return the variance of the records that are clipped to a ball.

        The radius is reduced if necessary: in the ball the mean must be unique, and it
        must be possible to compute it accurately.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.

        Returns
        -------
        FrechetVariance
            The variance in that ball or a smaller one about the same center.
        """
        space = self.manifold
        upper_curvature = space.curvature_bounds[1]
        convex_radius = inf
        if space.injectivity_radius > 0:
            convex_radius = space.injectivity_radius / 2
        if upper_curvature > 0 and isfinite(upper_curvature):
            convex_radius = min(convex_radius, pi / (2 * sqrt(upper_curvature)))

        radius = max(ball.radius, _SMALLEST_SQUARED_RADIUS)
        radius = min(radius, _LARGEST_SQUARED_RADIUS, _CONVEXITY_SHARE * convex_radius)
        # In a wide ball of negative curvature the computed mean has a large error.
        while radius > 1 and solver_error(space, radius) > _MEAN_ACCURACY * radius:
            radius /= 2
        return FrechetVariance(space, ball.center, radius, self.n)

    def simulated_error(
        self,
        final_mechanism: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the absolute error of one simulated variance.

        Parameters
        ----------
        final_mechanism : Mechanism
            The mechanism that releases the variance in the ball that was found.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        mean : array of shape point_shape
            Its mean.

        Returns
        -------
        float
            In squared units of distance. It includes what clipping to the ball removes.
        """
        value = final_mechanism.statistic.compute(
            open_records(records, self.manifold.point_shape)
        )
        distances = np.asarray(self.manifold.dist(mean, records))
        true_variance = float(np.mean(distances**2))
        released = float(final_mechanism.simulate(rng, value, (1,))[0, 0])
        return abs(released - true_variance)

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the isotropic mechanism with the stages' kind of noise.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            The kind of noise of all stages.
        in_memory : bool
            Whether the records are in memory, so that they can be read several times.

        Returns
        -------
        list of str
            One option: a variance is one number, and one mechanism is best.
        """
        if noise_kind == "laplace":
            return ["riemannian-laplace"]
        return ["riemannian-gaussian"]


@dataclass(frozen=True, eq=False)
class SearchedGeodesic(BallSearchStatistic):
    """The geodesic that fits responses in a private ball.

    The middle point of the geodesic is in the ball. For one predictor no prediction is
    farther from the middle point than the radius of the ball. Residuals are clipped to
    the radius.

    Attributes
    ----------
    x_range : array of shape (predictors, 2)
        The public range of each predictor.
    """

    x_range: Any

    name: ClassVar[str] = "geodesic regression in a private ball"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = GeodesicLine.privacy_units

    def __post_init__(self) -> None:
        """Check every field, the space, and that the records suffice for the predictors."""
        check_symmetric(self.manifold)
        super().__post_init__()
        # Wrong ranges, and too few records, are refused here.
        assign(self, x_range=self.with_ball(self.outer_ball).x_range)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """Point and velocities are projected onto their public bounds."""
        return (PostProcessing.PROJECT_TO_TANGENT_BALL,)

    def with_ball(self, ball: Ball) -> GeodesicLine:
        """Return the regression of responses near a ball.

        The radius is reduced if necessary, so that no residual crosses a cut locus and
        float64 can compute all lengths. With k predictors a residual is at most 2 + k
        radii long.

        Parameters
        ----------
        ball : Ball
            The released ball, in the coordinates of the records.

        Returns
        -------
        GeodesicLine
            The regression in that ball or a smaller one about the same center, for
            geodesics of length up to twice the radius.
        """
        radii_per_residual = 2 + len(np.atleast_2d(self.x_range))
        lower_curvature = self.manifold.curvature_bounds[0]
        # The tiny number stands for curvature 0, where the limit is not needed.
        root_curvature = sqrt(max(-lower_curvature, 1e-300))
        farthest = _FARTHEST_IN_CURVATURE / root_curvature
        longest_residual = min(self.manifold.injectivity_radius, farthest)
        radius = min(
            ball.radius, _CONVEXITY_SHARE * longest_residual / radii_per_residual
        )
        return GeodesicLine(
            self.manifold,
            ball.center,
            radius,
            speed=2 * radius,
            clip=radius,
            n=self.n,
            x_range=self.x_range,
        )

    def simulated_error(
        self,
        final_mechanism: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the predicted error of a release after one simulated search.

        It combines the error by noise, which has a formula, with the distance by which
        the mean of the responses lies outside the ball that was found.

        Parameters
        ----------
        final_mechanism : Mechanism
            The descent that was calibrated to the budget that the search left.
        rng : numpy.random.Generator
            Not used: the noise of the final mechanism has a formula.
        records : array of shape (n, *point_shape)
            A public population of responses.
        mean : array of shape point_shape
            Its mean.

        Returns
        -------
        float
            In units of distance.
        """
        center = final_mechanism.statistic.center
        radius = final_mechanism.statistic.radius
        outside = max(0.0, float(self.manifold.dist(center, mean)) - radius)
        noise_error = min(final_mechanism.predict_error(), 2 * radius)
        return float(np.hypot(noise_error, outside))

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return noisy descent on the tangent bundle, the only mechanism for a geodesic.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            Not used: the mechanism is the same for both.
        in_memory : bool
            Not used: regressions take records in memory.
        """
        return ["tangent-bundle-descent"]

    def split_data(self, data: Any) -> SearchData:
        """Return the data for the search, and the data for the final mechanism.

        The ball is searched for the responses. If people have several records, only the
        first response of each person is used.

        Parameters
        ----------
        data : (predictors, responses) or (predictors, responses, person_index)
            The data of the regression.

        Returns
        -------
        SearchData
            The responses for the search; all data for the regression.
        """
        responses = np.asarray(data[1])
        if len(data) > 2:
            _, first_of_person = np.unique(data[2], return_index=True)
            responses = responses[first_of_person]
        return SearchData(self.collect_records(responses), data)

    def load_data(self, data: Any) -> Any:
        """Return the data unchanged, after checking their shapes.

        The final mechanism clips them.

        Parameters
        ----------
        data : (predictors, responses) or (predictors, responses, person_index)
            The data of the regression.

        Returns
        -------
        tuple
            The same data.

        Raises
        ------
        ParameterError
            If a shape, a type, or the number of records or people is wrong.
        """
        self.with_ball(self.outer_ball).load_data(data)
        return data
