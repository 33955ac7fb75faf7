"""Statistics of records in a public outer ball that only has to be large enough.

A mechanism in stages (`curvedp.mechanisms.staged`) finds where the records are. Where
it then releases a statistic of the records in a ball that it found, the statistic is a
`BallSearchStatistic`, which says what it is in that ball.
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

# A found ball is cut at this share of the largest ball in which a mean is unique, or in
# which a geodesic is clear of its cut locus.
_CONVEXITY_SHARE = 0.75
# Radii whose squares, and the noise about them, doubles can hold.
_SMALLEST_SQUARED_RADIUS = 1e-40
_LARGEST_SQUARED_RADIUS = 1e45
# How well, relative to the radius, the mean must be known for a variance about it.
_MEAN_ACCURACY = 1e-6


def default_outer_radius(manifold: Manifold, outer_radius: Any = None) -> float:
    """Return the radius of the public outer ball of a private search.

    By default the ball is generous: all of a compact space, any unit of measurement on
    a cone of matrices, a distance of 25 in hyperbolic space and wherever doubles do not
    reach much farther, and 10⁶ in flat space. The squares for the factors of a product
    add up.

    Parameters
    ----------
    manifold : Manifold
        Where the records are.
    outer_radius : float, optional
        The radius that the caller chose.
    """
    if outer_radius is not None:
        return _validate.length("outer_radius", outer_radius)

    def radius_of(factor: Manifold) -> float:
        """Return a generous radius for one factor of the space."""
        if 0 < factor.injectivity_radius < inf:
            return 2 * factor.injectivity_radius
        if isinstance(factor, ScalableCone):
            return 100 * sqrt(factor.point_shape[0])
        is_flat = (
            factor.constant_curvature == 0 and factor.float_set.max_distance == inf
        )
        return 1e6 if is_flat else 25.0

    return sqrt(sum(radius_of(factor) ** 2 for factor in manifold.factors))


@dataclass(frozen=True, eq=False)
class SearchedBallStatistic(Statistic):
    """A statistic of n records in a public outer ball.

    The ball is by default about the origin, and as wide as `default_outer_radius` says.
    """

    manifold: Manifold
    center: Any
    outer_radius: Any
    n: AtLeastTwo

    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = FrechetMean.privacy_units

    def __post_init__(self) -> None:
        radius = default_outer_radius(self.manifold, self.outer_radius)
        ball = public_ball(self.manifold, self.center, radius)
        assign(self, center=ball.center, outer_radius=ball.radius)
        super().__post_init__()

    @property
    def value_space(self) -> Manifold:
        return self.manifold

    @property
    def sensitivity(self) -> float:
        """Of a mean of vectors of unit length; every stage scales it by its own radius."""
        return 2 / self.n

    @property
    def public_count(self) -> int:
        return self.n

    @property
    def outer_ball(self) -> Ball:
        """The public outer ball."""
        return Ball(self.center, self.outer_radius)

    @property
    def reference_ball(self) -> Ball:
        """A ball of records for which errors are predicted.

        The stages suit any spread, so records within distance 1 stand for all, or
        within a quarter of the injectivity radius.
        """
        injectivity_radius = self.manifold.injectivity_radius or 1.0
        radius = min(1.0, injectivity_radius / 4, self.outer_radius / 2)
        return Ball(self.center, radius)

    @property
    def reference_spread(self) -> float:
        """The root mean square distance to their mean of records that nobody describes."""
        return self.reference_ball.radius / 2

    def collect_records(self, data: Any) -> Records:
        """Return the records, wherever they are; those in memory are clipped.

        Parameters
        ----------
        data : object
            The records of one data set: an array, or `Records`.

        Raises
        ------
        ParameterError
            For a wrong number, shape or type, never for what a record holds.
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
    """What a ball search and its final mechanism read.

    Attributes
    ----------
    search_records : Records
        For these the ball is found.
    target : Any
        What the final mechanism takes.
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
        None until the first release has searched.
    """

    def __init__(self) -> None:
        self.draws: list[Any] | None = None


@dataclass(frozen=True, eq=False)
class BallSearchStatistic(SearchedBallStatistic):
    """A statistic of the records in a ball that is itself found privately."""

    # How many times the records of a mean are enough, where the noise is Gaussian.
    min_records_factor: ClassVar[float] = 1.0
    # How much more Laplace stages cost than Gaussian ones, which (ε, δ) may take;
    # measured.
    laplace_cost_ratio: ClassVar[float] = inf

    @abstractmethod
    def with_ball(self, ball: Ball) -> Statistic:
        """Return the statistic of the records in a ball that was found."""

    @abstractmethod
    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the names of mechanisms that may come last, the best first."""

    @abstractmethod
    def simulated_error(
        self,
        final: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the error of one simulated release of such records.

        Parameters
        ----------
        final : Mechanism
            The final mechanism, in a ball that was found.
        rng : numpy.random.Generator
        records : array
            Public records that stand for n of their kind.
        mean : point
            Their Fréchet mean.
        """

    def split_data(self, data: Any) -> SearchData:
        """Return what the search reads, and what the final mechanism takes."""
        return SearchData(data, data)

    def prepare(self, data: Any) -> Any:
        """Return the data in the form that `split_data` takes."""
        return self.collect_records(data)


@dataclass(frozen=True, eq=False)
class SearchedMean(BallSearchStatistic):
    """The Fréchet mean of the records in a private ball."""

    name: ClassVar[str] = "Fréchet mean in a private ball"
    # Measured on storms on S² and on tensors, where both kinds are as good at 1.6.
    laplace_cost_ratio: ClassVar[float] = 2.0

    def with_ball(self, ball: Ball) -> FrechetMean:
        return FrechetMean(self.manifold, *ball, self.n)

    def simulated_error(
        self,
        final: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the distance of one simulated release to the mean of all records.

        Parameters
        ----------
        final : Mechanism
            The final mechanism, after the search.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        mean : array of shape point_shape
            Its mean.
        """
        released = simulate_mean(final, rng, records)
        return float(self.manifold.dist(mean, released))

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        if self.manifold.dim < 3:  # James-Stein shrinkage needs three dimensions
            return (PostProcessing.PROJECT_TO_BALL,)
        return (PostProcessing.SHRINK_IN_EVERY_STEP, PostProcessing.PROJECT_TO_BALL)

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        """Return the options of the mechanisms that may make the final release.

        In hyperbolic space these are noisy Newton steps, which read the records several
        times and need them in memory. Elsewhere it is one gradient step.

        Parameters
        ----------
        noise_kind : {"gaussian", "laplace"}
            The kind of noise of all stages.
        in_memory : bool
            Whether the records are in memory, so that they can be read several times.
        """
        if is_hyperbolic(self.manifold) and in_memory:
            return ["noisy-newton", "gradient-step"]
        return ["gradient-step"]


def simulate_mean(
    final: Any, rng: np.random.Generator, records: np.ndarray
) -> np.ndarray:
    """Simulate one release of a mean in floats. NOT private.

    Parameters
    ----------
    final : Mechanism
        The final mechanism, after a search.
    rng : numpy.random.Generator
        The generator of the noise.
    records : array of shape (n, *point_shape)
        A public population.

    Returns
    -------
    array of shape point_shape
        The released point, in the frame of the records.
    """
    mean: FrechetMean = final.statistic
    canonical = carry_records(mean.manifold, mean.center, records)
    clipped = np.asarray(project_to_ball(mean.manifold, *mean.ball, canonical))
    released = np.asarray(final.simulate(rng, clipped, 1))
    points = released.reshape(1, *mean.manifold.point_shape)
    return np.asarray(mean.to_data_frame(points)[0])


def is_hyperbolic(manifold: Manifold) -> bool:
    """Return whether a space has constant negative curvature and dimension at least 2."""
    return (manifold.constant_curvature or 0.0) < 0 and manifold.dim > 1


class ClassData(NamedTuple):
    """Records of all classes, those of one class, and the search that classes share."""

    everyone: Records
    members: Records
    shared_search: SharedSearch


@dataclass(frozen=True, eq=False)
class SearchedClassMean(SearchedMean):
    """The Fréchet mean of one class in a private ball that all classes share.

    A record is in one class, so replacing it within its class changes the stages of the
    ball and ONE final mechanism: the guarantee of the means of all classes together is
    that of one.

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
        super().__post_init__()
        if self.size > self.n:
            raise ParameterError(
                f"a class of {self.size} records is larger than all {self.n}"
            )

    @property
    def sensitivity(self) -> float:
        return 2 / self.size

    @property
    def public_count(self) -> int:
        return self.size

    def with_ball(self, ball: Ball) -> FrechetMean:
        return FrechetMean(self.manifold, *ball, self.size)

    def split_data(self, data: ClassData) -> SearchData:
        return SearchData(data.everyone, data.members, data.shared_search)

    def prepare(self, data: Any) -> ClassData:
        """Return the data unchanged: they were clipped into the outer ball before.

        Parameters
        ----------
        data : ClassData
            The records of one class.
        """
        if isinstance(data, ClassData):
            if data.everyone.n == self.n and data.members.n == self.size:
                return data
        raise ParameterError(
            f"the data must be {self.size} records of one class among {self.n} of all "
            "classes, as PrivateMDM prepares them"
        )


@dataclass(frozen=True, eq=False)
class SearchedVariance(BallSearchStatistic):
    """The Fréchet variance of the records in a private ball.

    The ball is cut where the mean need not be unique or cannot be computed.
    """

    name: ClassVar[str] = "Fréchet variance in a private ball"
    # What noise hides is cut off: 0.6 to 0.8 of the variance is left at nμ = 50, 0.9 at
    # 200.
    min_records_factor: ClassVar[float] = 2.5
    # Measured on S², H², SPD matrices and tensors.
    laplace_cost_ratio: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        # A space without a sensitivity is refused here, not after the first stages.
        _ = self.with_ball(self.outer_ball).sensitivity

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.CLIP_TO_VARIANCE_RANGE,)

    def with_ball(self, ball: Ball) -> FrechetVariance:
        """Return the variance of records in a ball that was found.

        The radius is reduced to one in which the mean is unique (convexity) and its
        solver accurate.

        Parameters
        ----------
        ball : Ball
            The ball that the search found.
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
        # Far out, doubles cannot tell where the mean is.
        while radius > 1 and solver_error(space, radius) > _MEAN_ACCURACY * radius:
            radius /= 2
        return FrechetVariance(space, ball.center, radius, self.n)

    def simulated_error(
        self,
        final: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the absolute error of one simulated variance.

        Parameters
        ----------
        final : Mechanism
            The final mechanism, after the search.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        mean : array of shape point_shape
            Its mean.
        """
        value = final.statistic.compute(
            open_records(records, self.manifold.point_shape)
        )
        distances = np.asarray(self.manifold.dist(mean, records))
        true_variance = float(np.mean(distances**2))
        released = float(final.simulate(rng, value, (1,))[0, 0])
        return abs(released - true_variance)

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
        """
        if noise_kind == "laplace":
            return ["riemannian-laplace"]
        return ["riemannian-gaussian"]


@dataclass(frozen=True, eq=False)
class SearchedGeodesic(BallSearchStatistic):
    """The geodesic through responses in a private ball.

    Its middle is in the ball, no prediction is farther from it than the radius, and
    residuals are clipped to the radius.

    Attributes
    ----------
    x_range : array, shape (predictors, 2)
        The public range of each predictor.
    """

    x_range: Any

    name: ClassVar[str] = "geodesic regression in a private ball"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = GeodesicLine.privacy_units

    def __post_init__(self) -> None:
        check_symmetric(self.manifold)
        super().__post_init__()
        # Anything but ranges, and too few records, are refused here.
        assign(self, x_range=self.with_ball(self.outer_ball).x_range)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        return (PostProcessing.PROJECT_TO_TANGENT_BALL,)

    def with_ball(self, ball: Ball) -> GeodesicLine:
        """Return the geodesic of responses in a ball that was found.

        The radius is reduced so that everything stays inside the cut locus and lengths
        can be computed.

        Parameters
        ----------
        ball : Ball
            The ball that the search found.
        """
        n_arms = 2 + len(np.atleast_2d(self.x_range))
        lower_curvature = self.manifold.curvature_bounds[0]
        farthest = 100 / sqrt(max(-lower_curvature, 1e-300))
        reach = min(self.manifold.injectivity_radius, farthest)
        radius = min(ball.radius, _CONVEXITY_SHARE * reach / n_arms)
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
        final: Any,
        rng: np.random.Generator,
        records: np.ndarray,
        mean: np.ndarray,
    ) -> float:
        """Return the error of one simulated release, by noise and by a misplaced ball.

        Parameters
        ----------
        final : Mechanism
            The final mechanism, after the search.
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population of responses.
        mean : array of shape point_shape
            Its mean.
        """
        center = final.statistic.center
        radius = final.statistic.radius
        outside = max(0.0, float(self.manifold.dist(center, mean)) - radius)
        noise_error = min(final.predict_error(), 2 * radius)
        return float(np.hypot(noise_error, outside))

    def final_mechanisms(
        self, noise_kind: str = "gaussian", *, in_memory: bool = True
    ) -> list[str]:
        return ["tangent-bundle-descent"]

    def split_data(self, data: Any) -> SearchData:
        """Return the records for the search and for the final release.

        The ball is found for the responses; if a person has several records, for the
        first response of each person.

        Parameters
        ----------
        data : RegressionData
            Predictors and responses.
        """
        responses = np.asarray(data[1])
        if len(data) > 2:
            _, first_of_person = np.unique(data[2], return_index=True)
            responses = responses[first_of_person]
        return SearchData(self.collect_records(responses), data)

    def prepare(self, data: Any) -> Any:
        """Return the data as they are: the final mechanism clips them."""
        self.with_ball(self.outer_ball).prepare(data)
        return data
