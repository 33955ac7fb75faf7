"""A private Fréchet mean by noisy Newton steps, on spheres and in hyperbolic spaces.
Each step releases, with noise, the gradient at a public point and two numbers that
estimate the Hessian. Noisy numbers are integers on a public grid; a certificate lists
them, and `verify` replays the steps from them.

The gradient is that of the Fréchet function (half the mean squared distance to the
records) at the current point. The step is the gradient divided by the estimated mean
Hessian H.

For a record at distance s (in radii of curvature) in the direction u let t = |1 − s·ct
s|, where ct is cot on spheres and coth in hyperbolic space. Then H = 1 ± mean t·(1 −
uuᵀ), with + in hyperbolic space. So mean t and mean t·⟨u, a⟩² determine H along an axis
a and, on average, across it (docs/evidence/utility.md). Everything else is
post-processing. In hyperbolic space the last step may release the mean square distance
and all of H together with its gradient, for little noise
(`curvedp.statistics.hyperbolic_moments`). The squares μ² of Gaussian releases add up (Dong, Roth & Su 2022,
Corollary 2, which lets each release depend on earlier ones); the ε of Laplace releases
add up.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import (
    ChecksItself,
    HasNoiseLength,
    LeadsToRegion,
    NoisyDraw,
    NoisyMeanHessian,
    NoisyMeanSquare,
    SimulatesRelease,
    SometimesExcluded,
)
from curvedp.core.certificate import Certificate, Check
from curvedp.core.chart import CHART_ERROR, grid_of, shrink_points, shrink_vector
from curvedp.core.fields import Positive, assign
from curvedp.core.mechanism import Draw, MechanismInfo, check_supported, replay_draws
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.mechanisms.gradient_step import MeanMechanism, Moments, check_moments
from curvedp.mechanisms.staged.budget import check_transcript
from curvedp.mechanisms.vector import (
    AddNoise,
    ExactNoise,
    NoiseKind,
    simulate_noise,
    smallest_noise,
    std_per_scale,
)
from curvedp.numerics.threads import blocks, in_threads
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.hyperbolic_moments import (
    HyperbolicMoments,
    HyperbolicMomentVector,
)
from curvedp.statistics.second_moment import symmetric_to_vector, vector_to_symmetric
from curvedp.statistics.sensitivity import mean_gradient_sensitivity

# The number of coordinates that are held in memory while logarithms are computed.
_MAX_COORDINATES = 1 << 21
# The length of the longest step in radii of curvature, over which H changes.
_MAX_STEP = 1.0
# Estimated eigenvalues of the mean Hessian H below this number are raised to it, so
# that a step is at most ten times as long as its gradient.
_SMALLEST_HESSIAN = 0.1
# Distances, in radii of curvature, are raised to this number before the Hessian excess
# t is computed, because t = |1 − s·cot s| cancels for small s. There t is below 1e-8.
_SMALLEST_DISTANCE = 1e-4
# Relative margins for rounding.
_ROUNDING_OF_HESSIAN = 1e-9
_ROUNDING_OF_SHARES = 1e-12
# In more dimensions than this the mean Hessian is not released: it has dim(dim + 1)/2
# entries, and its largest error grows with √dim.
_MAX_HESSIAN_DIM = 20


class StepSchedule(NamedTuple):
    """How many steps there are, and how they divide the privacy budget.

    Attributes
    ----------
    n_steps : int
        The number of steps.
    hessian_share : float
        The fraction of the budget that is spent on the Hessian, in all steps together.
    growth : float
        The budget of each step's gradient over that of the previous step's gradient.
    is_averaged : bool
        Whether the result is an average over the steps, weighted by precision.
    """

    n_steps: int
    hessian_share: float
    growth: float
    is_averaged: bool


# On a sphere the mean Hessian H is nearly 1: the first step already comes close to the
# mean, so the steps are averaged. In hyperbolic space H is large and differs between
# directions: it takes more of the budget, and early steps end far from the mean. The
# numbers were chosen by simulation.
_SCHEDULES_ON_SPHERES: dict[NoiseKind, StepSchedule] = {
    "gaussian": StepSchedule(2, 0.01, 8.0, True),
    "laplace": StepSchedule(2, 0.03, 8.0, True),
}
_SCHEDULES_IN_HYPERBOLIC_SPACE: dict[NoiseKind, StepSchedule] = {
    "gaussian": StepSchedule(4, 0.1, 3.0, False),
    "laplace": StepSchedule(2, 0.1, 5.0, False),
}
# The growth of the budget if a hyperbolic release makes three steps instead of four.
# After a private search they begin near the mean, so that early steps need less.
_GROWTH_OF_THREE_STEPS = 5.0


class StepNoise(NamedTuple):
    """The noise of one step, as the certificate lists it.

    Attributes
    ----------
    distance : float
        The distance from the public center to the point where the step begins.
    gradient_scale : float
        The noise scale of the gradient.
    hessian_scale : float or None
        The noise scale of the two numbers about the Hessian. None if the step uses the
        Hessian of the step before.
    """

    distance: float
    gradient_scale: float
    hessian_scale: float | None


class BudgetShares(NamedTuple):
    """The fractions of the privacy budget that the steps take.

    Attributes
    ----------
    gradients : list of float
        The share of the gradient in each step.
    hessians : list of float
        The share of the two numbers about the Hessian in each step; 0 if the step
        releases none.
    """

    gradients: list[float]
    hessians: list[float]


class LastGradient(NamedTuple):
    """The last noisy gradient of a run.

    Attributes
    ----------
    point : array
        Where the gradient was taken.
    gradient : array, shape (dim,)
        Its coordinates at the point.
    noise_scale : float
        The noise scale of its coordinates.
    moments : HyperbolicMoments, optional
        What was released together with it; the first row is that of this run.
    """

    point: np.ndarray
    gradient: np.ndarray
    noise_scale: float
    moments: HyperbolicMoments | None = None


class HessianEstimates(NamedTuple):
    """Estimates of the mean Hessian H of each run, which is at least 1.

    Attributes
    ----------
    eigenvalues : array, shape (runs, dim)
        The eigenvalues of H.
    eigenvectors : array, shape (runs, dim, dim)
        The eigenvectors, one in each column.
    """

    eigenvalues: np.ndarray
    eigenvectors: np.ndarray

    def divide(self, vectors: np.ndarray) -> np.ndarray:
        """Return H⁻¹v for the vector v of each run.

        Parameters
        ----------
        vectors : array, shape (runs, dim)
            One vector for each run.
        """
        components = np.einsum("bde,bd->be", self.eigenvectors, vectors)
        divided = components / self.eigenvalues
        return np.asarray(np.einsum("bde,be->bd", self.eigenvectors, divided))


class NewtonRun(NamedTuple):
    """The results of one or several runs, each of several steps from the center.

    Attributes
    ----------
    points : array, shape (runs, *point_shape)
        The last point of each run.
    step_noises : list of StepNoise
        The noise of each step of the first run.
    noise_std : array, shape (runs, 1)
        The approximate standard deviation of the noise in each coordinate of the last
        point.
    last_gradient : LastGradient
        The last gradient of the first run.
    """

    points: np.ndarray
    step_noises: list[StepNoise]
    noise_std: np.ndarray
    last_gradient: LastGradient


@dataclass(frozen=True, eq=False, kw_only=True)
class NewtonMechanism(
    MeanMechanism,
    SimulatesRelease,
    LeadsToRegion,
    ChecksItself,
    HasNoiseLength,
    SometimesExcluded,
):
    """A private Fréchet mean of n records by noisy Newton steps from the public center.

    The space has constant curvature, not 0. Records are clipped into the public ball
    first, and so is every step.

    Attributes
    ----------
    scale : float
        1/μ, or 1/ε, of the whole release.
    steps : int, optional
        The number of steps. The default is the one measured to be best: 2 on spheres
        and for pure ε, 4 in hyperbolic space with Gaussian noise.
    moments : {"first", "first-and-second"}
        Whether the last step releases the mean square distance and the mean Hessian of
        the records with the mean logarithm. This is possible in hyperbolic space with
        Gaussian noise. The step before the last then releases nothing about the
        Hessian. Confidence regions become several times as narrow.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for
      ANY records: only the accuracy depends on whether the steps converge;
    - every released number is on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal distribution.
    """

    if TYPE_CHECKING:
        statistic: FrechetMean

    scale: Positive
    steps: Any = None
    moments: Annotated[Moments, check_moments] = "first"

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "noisy-newton", option="newton", reads="array", is_staged=True
    )

    def __post_init__(self) -> None:
        """Check the space, the number of steps, the moments and the radius.

        Raises
        ------
        ParameterError
            If the space has no constant curvature, the ball is too large, or second
            moments are asked of Laplace noise or on a sphere.
        """
        super().__post_init__()
        reason = self.reason_excluded(self.statistic)
        if reason is not None:
            raise ParameterError(f"NewtonMechanism: {reason}")

        if self.steps is None:
            assign(self, steps=self._schedule.n_steps)
        else:
            assign(self, steps=_validate.integer("steps", self.steps, 1))

        is_hyperbolic_gaussian = self.curvature < 0 and self.noise_kind == "gaussian"
        if self.releases_second_moments and not is_hyperbolic_gaussian:
            raise ParameterError(
                "needs a hyperbolic space and Gaussian noise",
                parameter="moments",
                value=self.moments,
            )

        # This raises if the ball is too large.
        self.gradient_sensitivity(self.radius)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism whose steps together meet a guarantee with least noise.

        Parameters
        ----------
        statistic : FrechetMean
            The mean that is to be released.
        guarantee : Guarantee
            The privacy guarantee that the whole release must satisfy.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, FrechetMean)  # it is supported
        level = smallest_noise(guarantee)
        return cls(scale=level.scale, statistic=statistic, noise_kind=level.kind)

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why the mechanism cannot be used for a statistic, or None if it can.

        It is for spheres and hyperbolic spaces of dimension at least 2.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released.

        Returns
        -------
        str or None
            The reason as a clause of a sentence, or None.
        """
        space = statistic.value_space
        if space.constant_curvature in (None, 0.0) or space.dim < 2:
            return f"it is for spheres and hyperbolic spaces, not {space!r}"
        return None

    @property
    def releases_second_moments(self) -> bool:
        """Whether the last step releases the mean square distance and mean Hessian."""
        return self.moments == "first-and-second"

    def with_second_moments(self) -> Self:
        """Return this mechanism with second moments, where they are of use.

        Returns
        -------
        NewtonMechanism
            A mechanism with the same guarantee; itself on spheres, with Laplace noise,
            and in more than 20 dimensions.
        """
        is_possible = self.curvature < 0 and self.noise_kind == "gaussian"
        if not is_possible or self.manifold.dim > _MAX_HESSIAN_DIM:
            return self
        return replace(self, moments="first-and-second")

    @property
    def total_sensitivity(self) -> float:
        """The sensitivity of all steps together, in units of `scale`: always 1.

        Each step multiplies its noise by its own sensitivity and its share of the
        budget, so that all steps cost as much as one release of sensitivity 1.
        """
        return 1.0

    @property
    def sensitivity(self) -> float:
        """How far the gradient at the center can move if one record is replaced."""
        return float(self.gradient_sensitivity(0.0))

    @property
    def noise_length(self) -> float:
        """An upper bound on the root mean square length of the noise of the last step.

        A step is the gradient, divided by the mean Hessian. The bound is the length of
        the noise in the gradient, divided by the smallest eigenvalue that the mean
        Hessian can have.
        """
        dim = self.manifold.dim
        smallest_hessian = 1.0
        if self.curvature > 0:
            smallest_hessian = max(1 - self._largest_excess, _SMALLEST_HESSIAN)

        last_step = self.step_noise(self.steps - 1, self.radius)
        noise_std = last_step.gradient_scale * std_per_scale(self.noise_kind, dim)
        return noise_std * sqrt(dim) / smallest_hessian

    @property
    def max_simulated_draws(self) -> int:  # type: ignore[override]  # usually a constant
        """How many releases to simulate for a predicted error, between 32 and 128.

        In high dimensions fewer simulations are made: each one takes longer, and the
        length of the noise varies less.
        """
        return min(128, max(32, 384 // self.manifold.dim))

    @property
    def curvature(self) -> float:
        """The curvature of the space, which is not 0."""
        curvature = self.manifold.constant_curvature
        assert curvature is not None  # `reason_excluded` refuses other spaces
        return curvature

    # ---- sensitivities and shares of the budget ----

    def gradient_sensitivity(self, distance: Any) -> Any:
        """Return how far the computed gradient can move if one record is replaced.

        The gradient at a point w is the mean of log_w xᵢ over the records xᵢ. The bound
        is the exact sensitivity of this mean (`mean_gradient_sensitivity`) plus a bound
        on the rounding errors of logarithms, which in hyperbolic space grow with the
        distance.

        Parameters
        ----------
        distance : float or array
            The distance of w from the center of the ball.

        Returns
        -------
        float or array
            The bound for each distance.
        """
        exact = mean_gradient_sensitivity(
            self.manifold, self.clipping_radius, self.statistic.n, distance
        )
        root_curvature = sqrt(max(-self.curvature, 0.0))
        with np.errstate(over="ignore"):  # infinite if doubles hold no such point
            growth = np.exp(root_curvature * distance)
        relative_error = CHART_ERROR + 2.0**-48 * self.manifold.dim * growth
        return exact + 4 * self.radius * relative_error

    def step_sensitivity(self, step: int, distance: Any) -> Any:
        """Return how far the vector of a step can move if one record is replaced.

        The vector is the mean logarithm of the records; in the last step their second
        moments may follow it.

        Parameters
        ----------
        step : int
            The number of the step, from 0.
        distance : float or array
            The distance of the point of the step from the center of the ball.

        Returns
        -------
        float or array
            The bound for each distance.
        """
        is_last = step == self.steps - 1
        if not (is_last and self.releases_second_moments):
            return self.gradient_sensitivity(distance)
        vector = self._moment_vector(np.atleast_1d(distance))
        return vector.sensitivity(self.statistic.n).reshape(np.shape(distance))[()]

    def _moment_vector(self, distances: np.ndarray) -> HyperbolicMomentVector:
        """Return the vector that the last step releases, at each run's point.

        Parameters
        ----------
        distances : array of shape (runs,)
            The distance of each point from the center of the ball.
        """
        return HyperbolicMomentVector(
            dim=self.manifold.dim,
            root_curvature=sqrt(-self.curvature),
            radius=self.clipping_radius,
            center_distance=distances,
        )

    @property
    def hessian_sensitivity(self) -> float:
        """How far the two numbers about the Hessian can move if one record is replaced.

        The numbers are the means of t and of q = t·⟨u, a⟩² over the n records, where t
        is the Hessian excess of a record, u its direction, and a the axis. The pair (t,
        q) of a record lies in the triangle 0 ≤ q ≤ t ≤ t(r), where r is the radius of
        the ball. The diameter of the triangle is √2·t(r), so the mean pair moves by at
        most √2·t(r)/n.
        """
        n = self.statistic.n
        exact = sqrt(2) * self._largest_excess / n
        return exact * (1 + _ROUNDING_OF_HESSIAN) + _ROUNDING_OF_HESSIAN / n

    @property
    def _largest_excess(self) -> float:
        """The largest Hessian excess of a record; records on the ball's boundary have it."""
        return float(self._hessian_excess(np.asarray(self.radius)))

    def _hessian_excess(self, distance: np.ndarray) -> np.ndarray:
        """Return the Hessian excess t of records at given distances.

        The squared distance to a record, halved, has the Hessian 1 along the geodesic
        to the record, and 1 ± t across it: t = |1 − s·cot s| on a sphere and |1 −
        s·coth s| in hyperbolic space, where s is the distance in radii of curvature. It
        increases with s from 0.

        Parameters
        ----------
        distance : array
            Distances to records. Distances beyond the radius of the ball count as the
            radius.

        Returns
        -------
        array
            t for each distance.
        """
        # Lengths times √|κ| are in radii of curvature.
        s = np.minimum(distance, self.radius) * sqrt(abs(self.curvature))
        s = np.maximum(s, _SMALLEST_DISTANCE)
        if self.curvature < 0:
            return np.asarray(np.abs(1 - s / np.tanh(s)))
        return np.asarray(np.abs(1 - s / np.tan(s)))

    @property
    def _schedule(self) -> StepSchedule:
        """The schedule for the sign of the curvature and the kind of noise."""
        if self.curvature < 0:
            return _SCHEDULES_IN_HYPERBOLIC_SPACE[self.noise_kind]
        return _SCHEDULES_ON_SPHERES[self.noise_kind]

    @cached_property
    def shares(self) -> BudgetShares:
        """The fractions of the privacy budget that the steps take; they add up to 1.

        The budget for gradients grows from step to step by a constant factor. Every
        step but the last also releases two numbers about the Hessian, for equal shares;
        the last step uses those of the previous one. If there is only one step, it
        releases its own.

        If the last step releases the mean Hessian, the step before it uses the two
        numbers of an earlier one, and their share goes to the gradients.
        """
        schedule = self._schedule
        growth = schedule.growth
        if self.steps == 3 and schedule.n_steps > 3:
            growth = _GROWTH_OF_THREE_STEPS
        weights = [growth**step for step in range(self.steps)]
        n_hessians = max(1, self.steps - 1)
        share_of_hessian = schedule.hessian_share / n_hessians
        if self.releases_second_moments:
            n_hessians = max(min(1, self.steps - 1), self.steps - 2)
        gradient_share = 1 - n_hessians * share_of_hessian
        if not self.releases_second_moments:
            gradient_share = 1 - schedule.hessian_share
        gradients = [gradient_share * weight / sum(weights) for weight in weights]

        hessians = [share_of_hessian] * n_hessians
        hessians += [0.0] * (self.steps - n_hessians)
        return BudgetShares(gradients, hessians)

    def step_noise(self, step: int, distance: float) -> StepNoise:
        """Return the noise scales of one step, from its shares of the privacy budget.

        A share of ε needs noise that is larger by the factor 1/share. For Gaussian
        noise the shares are of μ², so the factor is 1/√share.

        Parameters
        ----------
        step : int
            The number of the step, from 0.
        distance : float
            The distance from the center of the ball to the point where the step begins.

        Returns
        -------
        StepNoise
            The distance, the scale of the noise in the gradient, and the scale of the
            noise in the numbers about the Hessian.
        """
        gradient_share = self.shares.gradients[step]
        hessian_share = self.shares.hessians[step]
        if self.noise_kind == "gaussian":
            gradient_share = sqrt(gradient_share)
            hessian_share = sqrt(hessian_share)

        # The scale for a sensitivity of 1, with a margin because shares are rounded.
        scale = nextafter(self.scale * (1 + _ROUNDING_OF_SHARES), inf)
        sensitivity = float(self.step_sensitivity(step, distance))
        gradient_scale = sensitivity * scale / gradient_share
        hessian_scale = None
        if hessian_share > 0:
            hessian_scale = self.hessian_sensitivity * scale / hessian_share
        return StepNoise(float(distance), gradient_scale, hessian_scale)

    # ---- release, replay and simulation ----

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the records in the form in which `draw` takes them.

        Parameters
        ----------
        data : array of shape (n, *point_shape) or Records
            The records.

        Returns
        -------
        array of shape (n, *point_shape)
            The records, clipped into the public ball, in the canonical frame (an
            isometry has moved the center of the ball to the origin).
        """
        points = data.array() if isinstance(data, Records) else data
        return self.statistic.clip_records(points)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Run the Newton steps on the records, with exact noise.

        Parameters
        ----------
        data : array of shape (n, *point_shape)
            The records, clipped into the public ball, in the canonical frame (an
            isometry has moved the center of the ball to the origin).
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The last point, with the noisy numbers of all steps as integers on the
            public grid, and the noise scales of the steps.
        """
        noise = ExactNoise(self.noise_kind, source)
        run = self._run(data[None], 1, noise)
        transcript = self._transcript(run)
        return Draw(run.points[0], noise.integers, noise.slack, transcript)

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Compute the released mean again: replay all steps from a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release, which lists the noisy integers of all steps.
        """
        run = self._replay(certificate.release["integers"])
        return np.asarray(self.post_process(run.points[0]))

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check that the stated steps follow from the released integers.

        The steps are computed again from the integers on the public grid, and compared
        with those that the certificate states.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.

        Returns
        -------
        list of Check
            A single check. It passes if the certificate states the same steps with the
            same noise scales as the replay.
        """
        run = self._replay(certificate.release["integers"])
        stated_stages = certificate.release["stages"]
        stages_check, _shares_check = check_transcript(
            self._transcript(run), stated_stages
        )
        # The second check is about shares of the budget, which Newton steps do not have.
        return [stages_check]

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the last noisy gradient of a certificate, with its noise distribution.

        Its noise is independent of all earlier steps, so that a confidence region for
        the mean follows from it alone.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.

        Returns
        -------
        NoisyDraw
            The noisy gradient, and the point at which it was taken.
        """
        last = self._replay(integers).last_gradient
        mean_square = None
        mean_hessian = None
        if last.moments is not None:
            mean_square = NoisyMeanSquare(
                value=float(last.moments.mean_square[0]),
                noise_std=float(last.moments.mean_square_std[0]),
            )
            mean_hessian = NoisyMeanHessian(
                matrix=_hessian_matrix(last.moments, run=0),
                matrix_std=float(last.moments.excess_matrix_std[0]),
                mean_excess=float(last.moments.mean_excess[0]),
                mean_excess_std=float(last.moments.mean_excess_std[0]),
            )
        distance = float(self.manifold.dist(self.center, last.point))
        return NoisyDraw(
            "gradient",
            self.noise_law(self.manifold.dim, last.noise_scale),
            last.gradient,
            grid_width=2.0 ** -grid_of(last.noise_scale),
            base=last.point,
            max_length=self.radius + distance,
            mean_square=mean_square,
            mean_hessian=mean_hessian,
        )

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases in floats, for predicted errors. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        data : array of shape (k, *point_shape) or (populations, k, *point_shape)
            Public records of one population, or of several. Simulating many runs at
            once takes hardly longer than one.
        size : int
            The number of releases to simulate for each population.

        Returns
        -------
        array of shape (size, *point_shape) or (populations, size, *point_shape)
            The released points.
        """
        points = self.simulate_draws(rng, data, size)
        flat = points.reshape(-1, *self.manifold.point_shape)
        return self.post_process_points(flat).reshape(points.shape)

    def simulate_draws(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases in floats, before their post-processing. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        data : array of shape (k, *point_shape) or (populations, k, *point_shape)
            Public records of one population, or of several.
        size : int
            The number of releases to simulate for each population.

        Returns
        -------
        array of shape (size, *point_shape) or (populations, size, *point_shape)
            The drawn points.
        """
        point_shape = self.manifold.point_shape
        records = np.asarray(data)
        # A single population becomes a batch of one.
        populations = records.reshape(-1, *records.shape[-1 - len(point_shape) :])
        n_populations = len(populations)

        add_noise = self._simulated_steps(rng, n_populations, size)
        points = self._run(populations, n_populations * size, add_noise).points
        has_one_population = populations.ndim > records.ndim
        if has_one_population:
            return points
        return points.reshape(-1, size, *point_shape)

    def _simulated_steps(
        self, rng: np.random.Generator, n_populations: int, size: int
    ) -> AddNoise:
        """Return a function that adds float noise to the steps of several populations.

        All noise is drawn here, one population after the other. Simulating several
        populations at once therefore gives the same numbers as simulating each alone.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        n_populations : int
            The number of populations.
        size : int
            The number of runs for each population.

        Returns
        -------
        function of (values, scales)
            Returns the values plus noise of these scales. It must be called once for
            each noisy quantity, in the order in which `_run` adds noise.
        """
        # A step adds noise to its gradient, and maybe to two numbers about the Hessian.
        lengths_of_vectors: list[int] = []
        for hessian_share in self.shares.hessians:
            lengths_of_vectors.append(self.manifold.dim)
            if hessian_share > 0:
                lengths_of_vectors.append(2)
        if self.releases_second_moments:
            lengths_of_vectors[-1] = self._moment_vector(np.zeros(1)).size

        noise_by_population = [
            [
                simulate_noise(rng, self.noise_kind, (size, length))
                for length in lengths_of_vectors
            ]
            for _ in range(n_populations)
        ]
        # One array for each noisy quantity, with a row for each run.
        noise_by_quantity = (
            np.concatenate(rows) for rows in zip(*noise_by_population, strict=True)
        )

        def add_noise(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            """Add the noise of the next quantity, one scale for each run."""
            return np.asarray(values + scales[:, None] * next(noise_by_quantity))

        return add_noise

    def _transcript(self, run: NewtonRun) -> list[dict[str, Any]]:
        """Return what a certificate lists for each step: its noise scales.

        Parameters
        ----------
        run : NewtonRun
            The runs; only the first one is described.

        Returns
        -------
        list of dict
            For each step the distance from the public center, the noise scales of the
            gradient and of the Hessian, and under "noise_left" the standard deviation
            of the noise in each coordinate of the released point.
        """
        noise_left = float(run.noise_std[0, 0])
        return [
            {**step._asdict(), "noise_left": noise_left} for step in run.step_noises
        ]

    def _replay(self, integers: Any) -> NewtonRun:
        """Repeat the steps of a release without records, from its recorded integers.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.
        """
        return self._run(None, 1, replay_draws(integers))

    def _run(
        self, populations: np.ndarray | None, n_runs: int, add_noise: AddNoise
    ) -> NewtonRun:
        """Make independent runs, each of `steps` noisy Newton steps from the center.

        A step divides the noisy mean logarithm of the records (the negative gradient of
        half the mean squared distance) by an estimate of the mean Hessian.

        Parameters
        ----------
        populations : array of shape (k, n, *point_shape), or None
            The records of k populations; n_runs/k runs read each of them. None if a
            release is replayed without records.
        n_runs : int
            The number of runs; 1 for a release and its replay.
        add_noise : function of (values, scales)
            Returns the values plus noise. In a replay it ignores the values and returns
            the recorded draws.

        Returns
        -------
        NewtonRun
            The last points, and the noise of the steps.
        """
        manifold = self.manifold
        points = np.broadcast_to(self.center, (n_runs, *manifold.point_shape))
        # The two numbers about the Hessian; zeros stand for a Hessian of 1.
        hessian_excess = np.zeros((n_runs, 2))
        step_noises: list[StepNoise] = []

        for step in range(self.steps):
            # In the first step all runs are at the center.
            distinct_points = points[:1] if step == 0 else points
            logs = _LogarithmCache()
            distance = np.asarray(manifold.dist(self.center, points))
            distance = np.minimum(distance, self.radius)
            noise = self.step_noise(step, float(distance[0]))
            step_noises.append(noise)

            # The noise of the first run, scaled to the sensitivity at each run's point.
            sensitivities = self.step_sensitivity(step, distance)
            first_sensitivity = self.step_sensitivity(step, distance[0])
            gradient_scales = noise.gradient_scale * sensitivities / first_sensitivity
            if self.releases_second_moments and step == self.steps - 1:
                return self._last_step_with_moments(
                    points,
                    distance,
                    populations,
                    add_noise,
                    gradient_scales,
                    step_noises,
                )
            mean_log = self._mean_logarithm(distinct_points, populations, logs)
            mean_log_of_runs = np.repeat(mean_log, n_runs // len(mean_log), axis=0)
            gradient = add_noise(mean_log_of_runs, gradient_scales)
            last_gradient = LastGradient(
                points[0], gradient[0], float(gradient_scales[0])
            )

            # A step that releases nothing about the Hessian uses the last estimate.
            axis = self._hessian_axis(step, points, gradient)
            if noise.hessian_scale is not None:
                mean_excess = self._mean_excess(
                    distinct_points, populations, axis, logs
                )
                noisy_excess = add_noise(
                    mean_excess, np.full(n_runs, noise.hessian_scale)
                )
                excess_std = noise.hessian_scale * std_per_scale(self.noise_kind, 2)
                hessian_excess = self._estimate_excess(noisy_excess, excess_std)

            # Divide the gradient by the Hessian, along the axis and across it.
            hessian_along, hessian_across = self._hessian_from_excess(hessian_excess)
            gradient_along = np.sum(gradient * axis, axis=1, keepdims=True) * axis
            gradient_across = gradient - gradient_along
            move = gradient_along / hessian_along + gradient_across / hessian_across
            move *= self._averaging_weight(step)
            points = self._take_step(points, move)

        # The noise left in the last point is that of the last gradient, divided by the
        # Hessian, and reduced by the average over the steps.
        gradient_std = gradient_scales * std_per_scale(self.noise_kind, manifold.dim)
        mean_inverse_square = (
            hessian_along**-2 + (manifold.dim - 1) * hessian_across**-2
        ) / manifold.dim
        noise_std = gradient_std[:, None] * np.sqrt(mean_inverse_square)
        noise_std *= sqrt(self._averaging_weight(self.steps - 1))
        shrunk = shrink_points(manifold, self.center, np.asarray(points), noise_std)
        return NewtonRun(shrunk, step_noises, noise_std, last_gradient)

    def _last_step_with_moments(
        self,
        points: np.ndarray,
        distances: np.ndarray,
        populations: np.ndarray | None,
        add_noise: AddNoise,
        noise_scales: np.ndarray,
        step_noises: list[StepNoise],
    ) -> NewtonRun:
        """Make the last step of each run, by the mean Hessian that it releases itself.

        Parameters
        ----------
        points : array of shape (n_runs, *point_shape)
            The point of each run before the step.
        distances : array of shape (n_runs,)
            The distances of these points from the center of the ball.
        populations : array of shape (k, n, *point_shape), or None
            The records of each population; None in a replay.
        add_noise : function of (values, scales)
            Returns the values plus noise, or the recorded draws.
        noise_scales : array of shape (n_runs,)
            The standard deviation of the noise in each entry of a run's vector.
        step_noises : list of StepNoise
            The noise of all steps, this one included.

        Returns
        -------
        NewtonRun
            The results of the runs.
        """
        n_runs = len(points)
        vector = self._moment_vector(distances)
        mean_vectors = np.zeros((n_runs, vector.size))
        if populations is not None:
            mean_vectors = self._mean_over_records(
                points,
                populations,
                n_runs,
                vector.size,
                vector.sum_vectors,
                _LogarithmCache(),
            )
        moments = vector.estimate_moments(
            add_noise(mean_vectors, noise_scales), noise_scales
        )
        last_gradient = LastGradient(
            points[0], moments.mean_log[0], float(noise_scales[0]), moments
        )

        hessian = self._estimate_hessian(moments, vector.largest_excess)
        next_points = self._take_step(points, hessian.divide(moments.mean_log))
        mean_inverse_square = np.mean(hessian.eigenvalues**-2, axis=1)
        noise_std = (noise_scales * np.sqrt(mean_inverse_square))[:, None]
        shrunk = shrink_points(self.manifold, self.center, next_points, noise_std)
        return NewtonRun(shrunk, step_noises, noise_std, last_gradient)

    def _estimate_hessian(
        self, moments: HyperbolicMoments, largest_excess: np.ndarray
    ) -> HessianEstimates:
        """Estimate the mean Hessian of each run from its noisy moments.

        The mean Hessian is (1 + T)·1 − A, where T is the mean Hessian excess and A the
        mean of t·uuᵀ, whose trace is T. The estimate of T is a linear Bayes estimate: a
        priori T is uniform on [0, L], where L is its largest value. The part of A
        without trace is shrunk by the rule of James and Stein.

        Parameters
        ----------
        moments : HyperbolicMoments
            The noisy moments of each run.
        largest_excess : array of shape (runs,)
            L for each run.

        Returns
        -------
        HessianEstimates
            The eigenvalues and eigenvectors. Eigenvalues are raised to at least 1.
        """
        dim = self.manifold.dim
        prior_variance = largest_excess**2 / 12
        noise_variance = moments.mean_excess_std**2
        total = prior_variance * moments.mean_excess
        total = (total + noise_variance * largest_excess / 2) / (
            prior_variance + noise_variance
        )
        total = np.clip(total, 0.0, largest_excess)

        hessians = np.empty((len(total), dim, dim))
        for run, excess in enumerate(total.tolist()):
            matrix = moments.excess_matrix[run]
            traceless = matrix - np.trace(matrix) / dim * np.eye(dim)
            shrunk = shrink_vector(
                symmetric_to_vector(traceless), float(moments.excess_matrix_std[run])
            )
            mean_eigenvalue = 1 + excess - excess / dim
            hessians[run] = mean_eigenvalue * np.eye(dim)
            hessians[run] -= vector_to_symmetric(shrunk, dim)
        eigenvalues, eigenvectors = np.linalg.eigh(hessians)
        return HessianEstimates(np.maximum(eigenvalues, 1.0), eigenvectors)

    def _hessian_axis(
        self, step: int, points: np.ndarray, gradient: np.ndarray
    ) -> np.ndarray:
        """Return the axis along which each run measures the Hessian.

        In the first step it is the direction of the noisy gradient, in later steps the
        direction to the center of the ball.

        Parameters
        ----------
        step : int
            The number of the step, from 0.
        points : array of shape (runs, *point_shape)
            The current point of each run.
        gradient : array of shape (runs, dim)
            The noisy gradient at the point, in coordinates.

        Returns
        -------
        array of shape (runs, dim)
            Unit vectors, in coordinates at the points.
        """
        if step == 0:
            return _unit_rows(gradient)
        to_center = self.manifold.log(points, self.center)
        return _unit_rows(np.asarray(self.manifold.to_coordinates(points, to_center)))

    def _averaging_weight(self, step: int) -> float:
        """Return the weight of a step in the running average of all steps so far.

        It is the precision (inverse variance) of the step's gradient, divided by the
        sum of the precisions so far; or 1 if the schedule does not average steps.

        Parameters
        ----------
        step : int
            The number of the step, from 0.
        """
        if not self._schedule.is_averaged:
            return 1.0
        precisions = self._precision_weights[: step + 1]
        return precisions[-1] / sum(precisions)

    @property
    def _precision_weights(self) -> list[float]:
        """The precision (inverse variance) of each step's gradient, up to one factor."""
        if self.noise_kind == "gaussian":
            return list(self.shares.gradients)
        return [share**2 for share in self.shares.gradients]

    def _take_step(self, points: np.ndarray, move: np.ndarray) -> np.ndarray:
        """Move points along tangent vectors, and project the results into the ball.

        Parameters
        ----------
        points : array of shape (runs, *point_shape)
            The current point of each run.
        move : array of shape (runs, dim)
            The tangent vectors, in coordinates at the points. Vectors longer than one
            radius of curvature are shortened to that length.

        Returns
        -------
        array of shape (runs, *point_shape)
            The next points.
        """
        manifold = self.manifold
        length = np.linalg.norm(move, axis=1, keepdims=True)
        length_in_curvature_radii = length * sqrt(abs(self.curvature))
        move = move * (_MAX_STEP / np.maximum(length_in_curvature_radii, _MAX_STEP))
        next_points = manifold.exp(points, manifold.from_coordinates(points, move))
        return np.asarray(
            project_to_ball(manifold, self.center, self.radius, next_points)
        )

    # ---- what is read of the records ----

    def _mean_logarithm(
        self,
        points: np.ndarray,
        populations: np.ndarray | None,
        logs: "_LogarithmCache",
    ) -> np.ndarray:
        """Return the mean logarithm of the records at each point.

        It is minus the gradient of the Fréchet function (half the mean squared distance
        to the records), to which a step adds noise. NOT private.

        Parameters
        ----------
        points : array of shape (1 or runs, *point_shape)
            The point of each run, or one point that all runs share.
        populations : array of shape (k, n, *point_shape), or None
            The records of each population; None in a replay.
        logs : _LogarithmCache
            Keeps the logarithms at these points, because the Hessian needs them too.

        Returns
        -------
        array of shape (runs, dim)
            The means, in coordinates at the points. In a replay it is one row of zeros.
        """
        if populations is None:
            return np.zeros((1, self.manifold.dim))
        n_runs = max(len(points), len(populations))

        def sum_logs(block_logs: np.ndarray, runs: slice) -> np.ndarray:
            """Return the sum of logarithms over the records of a block, for each run.

            Parameters
            ----------
            block_logs : array of shape (runs, records, dim)
                The logarithms of the records at the point of each run.
            runs : slice
                Not used: it gives this function the signature of other sums.
            """
            return np.asarray(block_logs.sum(axis=1))

        return self._mean_over_records(
            points, populations, n_runs, self.manifold.dim, sum_logs, logs
        )

    def _mean_excess(
        self,
        points: np.ndarray,
        populations: np.ndarray | None,
        axis: np.ndarray,
        logs: "_LogarithmCache",
    ) -> np.ndarray:
        """Return the two numbers about the mean Hessian, for each run.

        Half the squared distance to a record has the Hessian 1 along the geodesic to
        the record and 1 ± t across it; t is the Hessian excess. The two numbers are the
        means of t and of t·⟨u, a⟩² over the records, where the unit vector u is the
        direction to the record, and a is the axis.

        Parameters
        ----------
        points : array of shape (1 or runs, *point_shape)
            The point of each run, or one point that all runs share.
        populations : array of shape (k, n, *point_shape), or None
            The records of each population; None in a replay.
        axis : array of shape (runs, dim)
            The axis a of each run: a unit vector in coordinates at its point.
        logs : _LogarithmCache
            The logarithms at these points, which the gradient needed too.

        Returns
        -------
        array of shape (runs, 2)
            The two means. In a replay it is one row of zeros.
        """
        if populations is None:
            return np.zeros((1, 2))

        def sum_excess(block_logs: np.ndarray, runs: slice) -> np.ndarray:
            """Return (Σ t, Σ t·⟨u, a⟩²) over the records of a block, for each run.

            Parameters
            ----------
            block_logs : array of shape (runs, records, dim)
                The logarithms of the records at the point of each run.
            runs : slice
                Which runs these are.
            """
            distances = np.linalg.norm(block_logs, axis=-1)
            # ⟨log, a⟩ for each run and record.
            components = np.einsum("bnd,bd->bn", block_logs, axis[runs])
            cosines = components / np.maximum(distances, np.finfo(float).tiny)
            t = self._hessian_excess(distances)
            t_along = t * np.minimum(cosines**2, 1.0)
            return np.stack([t.sum(axis=1), t_along.sum(axis=1)], axis=-1)

        return self._mean_over_records(
            points, populations, len(axis), 2, sum_excess, logs
        )

    def _mean_over_records(
        self,
        points: np.ndarray,
        populations: np.ndarray,
        n_runs: int,
        size: int,
        sum_terms: Any,
        logs: "_LogarithmCache",
    ) -> np.ndarray:
        """Return the mean over records of a function of their logarithms, for each run.

        Runs and records are processed in blocks that fit in memory, in threads.

        Parameters
        ----------
        points : array of shape (1 or n_runs, *point_shape)
            The points at which logarithms are taken.
        populations : array of shape (k, n, *point_shape)
            The records of each population. Run i reads the population i·k // n_runs.
        n_runs : int
            The number of runs.
        size : int
            The length of the function's value.
        sum_terms : function of (logs, runs)
            Takes logarithms of shape (runs in the block, records in the block, dim) and
            the slice of runs. It returns the sum of the function over the records.
        logs : _LogarithmCache
            Keeps the logarithms, because a step needs them twice.

        Returns
        -------
        array of shape (n_runs, size)
            The means.
        """
        dim = self.manifold.dim
        n_populations, n = populations.shape[:2]
        runs_at_once = max(1, _MAX_COORDINATES // (n * dim))
        records_at_once = max(1, _MAX_COORDINATES // dim)
        population_of_run = np.arange(n_runs) * n_populations // n_runs

        means = np.empty((n_runs, size))
        for runs in blocks(n_runs, runs_at_once):
            # The default `runs=runs` keeps the block of this iteration.
            def sum_block(records: slice, runs: slice = runs) -> np.ndarray:
                """Return the sum over one block of records, for one block of runs."""
                block_logs = logs.get(
                    self.manifold, points, populations, runs, records, population_of_run
                )
                return np.asarray(sum_terms(block_logs, runs))

            block_sums = in_threads(sum_block, blocks(n, records_at_once))
            means[runs] = np.sum(block_sums, axis=0) / n
        return means

    # ---- what the two numbers say about H ----

    def _estimate_excess(self, noisy: np.ndarray, noise_std: float) -> np.ndarray:
        """Estimate the two numbers about the Hessian from their noisy values.

        The numbers are T, the mean Hessian excess of the records, and Q, the part of it
        along the axis. The Hessian excess of a record says how much the Hessian of half
        the squared distance to it differs from 1. The estimates are linear Bayes
        estimates: A priori T is uniform on [0, L], where L is its largest value, and Q
        has mean T/dim and standard deviation L/dim.

        Parameters
        ----------
        noisy : array of shape (runs, 2)
            T and Q with noise.
        noise_std : float
            The standard deviation of the noise in each number.

        Returns
        -------
        array of shape (runs, 2)
            Estimates of T and Q with 0 ≤ Q ≤ T ≤ L.
        """
        largest_excess = self._largest_excess
        dim = self.manifold.dim

        def posterior_mean(
            value: np.ndarray, prior_mean: Any, prior_variance: float
        ) -> np.ndarray:
            """Return the average of value and prior mean, weighted by precision."""
            weighted = prior_variance * value + noise_std**2 * prior_mean
            return np.asarray(weighted / (prior_variance + noise_std**2))

        # The uniform distribution on [0, L] has the mean L/2 and the variance L²/12.
        total = posterior_mean(noisy[:, 0], largest_excess / 2, largest_excess**2 / 12)
        total = np.clip(total, 0.0, largest_excess)
        along = posterior_mean(noisy[:, 1], total / dim, (largest_excess / dim) ** 2)
        return np.stack([total, np.clip(along, 0.0, total)], axis=-1)

    def _hessian_from_excess(self, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean Hessian along the axis and, on average, across it.

        A Newton step divides the gradient by it, component by component. It is computed
        from two released numbers, so this is post-processing.

        Parameters
        ----------
        excess : array of shape (runs, 2)
            T, the mean Hessian excess of the records, and Q, the part of it along the
            axis.

        Returns
        -------
        along : array of shape (runs, 1)
            1 ± (T − Q), with + in hyperbolic space and − on spheres; at least 0.1.
        across : array of shape (runs, 1)
            1 ± (T − (T − Q)/(dim − 1)), with the same sign; at least 0.1.
        """
        t = excess[:, :1]
        q = excess[:, 1:]
        sign = 1.0 if self.curvature < 0 else -1.0
        along = 1 + sign * (t - q)
        across = 1 + sign * (t - (t - q) / (self.manifold.dim - 1))
        return (
            np.maximum(along, _SMALLEST_HESSIAN),
            np.maximum(across, _SMALLEST_HESSIAN),
        )


class _LogarithmCache:
    """Computes the logarithms of the records at the points of one step, and keeps them.

    A step needs them twice: for the gradient and for the Hessian.
    """

    def __init__(self) -> None:
        """Start without any logarithms; `get` computes them."""
        self._blocks: dict[Any, np.ndarray] = {}

    def get(
        self,
        manifold: Any,
        points: np.ndarray,
        populations: np.ndarray,
        runs: slice,
        records_block: slice,
        population_of_run: np.ndarray,
    ) -> np.ndarray:
        """Return the logarithms of a block of records for a block of runs.

        They are computed in the first call, and kept for later calls.

        Parameters
        ----------
        manifold : Manifold
            The space.
        points : array of shape (1 or n_runs, *point_shape)
            The point of each run, or one point that all runs share.
        populations : array of shape (k, n, *point_shape)
            The records of each population.
        runs : slice
            The block of runs.
        records_block : slice
            The block of records.
        population_of_run : array of int, shape (n_runs,)
            The index of the population that each run reads.

        Returns
        -------
        array of shape (runs in the block, records in the block, dim)
            The logarithms, in coordinates at the points.
        """
        if len(points) > 1:
            key = (len(points), runs.start, records_block.start)
            if key not in self._blocks:
                records = populations[population_of_run[runs], records_block]
                logs = manifold.normal_coordinates(points[runs, None], records)
                self._blocks[key] = np.asarray(logs)
            return self._blocks[key]

        # All runs are at one point, so each population has one set of logarithms.
        key = (1, 0, records_block.start)
        if key not in self._blocks:
            records = populations[:, records_block].reshape(-1, *manifold.point_shape)
            logs = np.asarray(manifold.normal_coordinates(points[0], records))
            self._blocks[key] = logs.reshape(len(populations), -1, manifold.dim)
        logs_of_populations = self._blocks[key]
        populations_of_block = population_of_run[runs]
        if np.array_equal(populations_of_block, np.arange(len(logs_of_populations))):
            return logs_of_populations  # one run per population: no copy is needed
        return np.asarray(logs_of_populations[populations_of_block])


def _hessian_matrix(moments: HyperbolicMoments, run: int) -> np.ndarray:
    """Return the noisy mean Hessian of one run, without shrinkage.

    It is (1 + T)·1 − A, where T is the mean Hessian excess and A the mean of t·uuᵀ. Both
    were released with noise. The trace of A is T, so the noisy A is moved to the trace
    T, which has less noise.

    Parameters
    ----------
    moments : HyperbolicMoments
        The noisy moments.
    run : int
        The index of the run.

    Returns
    -------
    array of shape (dim, dim)
        A symmetric matrix.
    """
    matrix = moments.excess_matrix[run]
    excess = float(moments.mean_excess[run])
    dim = len(matrix)
    traceless = matrix - np.trace(matrix) / dim * np.eye(dim)
    return np.asarray((1 + excess - excess / dim) * np.eye(dim) - traceless)


def _unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return each row divided by its length; a row of zeros stays as it is."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    safe_lengths = np.where(lengths > 0, lengths, 1.0)
    return np.asarray(np.where(lengths > 0, vectors / safe_lengths, 0.0))
