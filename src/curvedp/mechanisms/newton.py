"""Noisy Newton steps: a private Fréchet mean on spheres and hyperbolic spaces.

Each step releases the noisy gradient at the current point, which is already public, and
two numbers about H, the mean Hessian of ½d²; the noise is divided by H. For a record at
distance s in direction u let t = |1 − s·ct s| (ct = cot on spheres, coth in hyperbolic
space). Then H = 1 ± mean t·(1 − uuᵀ), so mean t and mean t·⟨u, a⟩² fix H along an axis
a and, on average, across it (docs/utility.md). Everything else is post-processing.
Gaussian releases add their μ² (Dong, Roth & Su 2022, Corollary 2, which allows each to
depend on those before), Laplace releases their ε.
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import (
    ChecksItself,
    HasNoiseLength,
    LeadsToRegion,
    NoisyDraw,
    SimulatesRelease,
    SometimesExcluded,
)
from curvedp.core.certificate import Certificate, Check
from curvedp.core.fields import Positive, assign
from curvedp.core.mechanism import Draw, MechanismInfo, check_supported, replay_draws
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.mechanisms.chart import CHART_ERROR, grid_of, shrink_points
from curvedp.mechanisms.gradient_step import MeanMechanism
from curvedp.mechanisms.sensitivity import mean_gradient_sensitivity
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

# Coordinates that are held in memory at once while logarithms are computed.
_MAX_COORDINATES = 1 << 21
# Steps are no longer than this many radii of curvature, over which H changes.
_MAX_STEP = 1.0
# Below this eigenvalue of H no step is trusted; the sensitivity theorem stops there,
# too.
_SMALLEST_HESSIAN = 0.1


class StepSchedule(NamedTuple):
    """How the budget is spent. The numbers were chosen by simulation.

    Attributes
    ----------
    n_steps : int
    hessian_share : float
        Of the budget, for the numbers about H.
    growth : float
        Each step's gradient has this many times the budget of the one before.
    is_averaged : bool
        Whether a step is weighted against those before it, by precision.
    """

    n_steps: int
    hessian_share: float
    growth: float
    is_averaged: bool


# On a sphere H is nearly 1: steps converge at once, and what the first one paid for can
# be averaged in. In hyperbolic space H is large and differs between directions: more
# has to be known about it, and early steps are still far from the mean.
_SCHEDULES_ON_SPHERES: dict[NoiseKind, StepSchedule] = {
    "gaussian": StepSchedule(2, 0.01, 8.0, True),
    "laplace": StepSchedule(2, 0.03, 8.0, True),
}
_SCHEDULES_IN_HYPERBOLIC_SPACE: dict[NoiseKind, StepSchedule] = {
    "gaussian": StepSchedule(4, 0.1, 3.0, False),
    "laplace": StepSchedule(2, 0.1, 5.0, False),
}
# The growth where just three steps are made in hyperbolic space: they begin near the
# mean.
_GROWTH_OF_THREE_STEPS = 5.0


class StepNoise(NamedTuple):
    """The noise of one step, as the certificate lists it.

    Attributes
    ----------
    distance : float
        How far the step's point is from the center.
    gradient_scale : float
    hessian_scale : float or None
        None where the step takes H from the one before.
    """

    distance: float
    gradient_scale: float
    hessian_scale: float | None


class BudgetShares(NamedTuple):
    """Shares of the budget by step, for gradients and for the numbers about H."""

    gradients: list[float]
    hessians: list[float]


class NewtonRun(NamedTuple):
    """What runs from the center lead to.

    Attributes
    ----------
    points : array, shape (runs, *point_shape)
    step_noises : list of StepNoise
        Of the first run.
    noise_std : array, shape (runs, 1)
        About the noise that is left in each coordinate, from the private H.
    last_gradient : LastGradient
    """

    points: np.ndarray
    step_noises: list[StepNoise]
    noise_std: np.ndarray
    last_gradient: "LastGradient"


class LastGradient(NamedTuple):
    """The last noisy gradient of the first run: where, what, and its noise scale."""

    point: np.ndarray
    gradient: np.ndarray
    noise_scale: float


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
        By default as many as suit the curvature.

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for ANY
      records: only the accuracy depends on whether the steps converge;
    - every released number is on the grid 2^-30 (finer for small noise), within total
      variation distance `slack` of the ideal law.
    """

    if TYPE_CHECKING:
        statistic: FrechetMean

    scale: Positive
    steps: Any = None

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "noisy-newton", option="newton", reads="array", is_staged=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        reason = self.reason_excluded(self.statistic)
        if reason is not None:
            raise ParameterError(f"NewtonMechanism: {reason}")
        if self.steps is None:
            assign(self, steps=self._schedule.n_steps)
        else:
            assign(self, steps=_validate.integer("steps", self.steps, 1))
        # A ball that is too large is refused here.
        self.gradient_sensitivity(self.radius)

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the mechanism with the least noise, for all steps together."""
        check_supported(cls, statistic)
        assert isinstance(statistic, FrechetMean)  # it is supported
        level = smallest_noise(guarantee)
        return cls(scale=level.scale, statistic=statistic, noise_kind=level.kind)

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why it cannot be used: it is for spheres and hyperbolic spaces only."""
        space = statistic.value_space
        if space.constant_curvature in (None, 0.0) or space.dim < 2:
            return f"it is for spheres and hyperbolic spaces, not {space!r}"
        return None

    @property
    def total_sensitivity(self) -> float:
        """Every step scales its own noise; the whole is one release of sensitivity 1."""
        return 1.0

    @property
    def sensitivity(self) -> float:
        """How far the gradient at the center can move."""
        return float(self.gradient_sensitivity(0.0))

    @property
    def noise_length(self) -> float:
        """At most the root mean square length of the last step's noise."""
        dim = self.manifold.dim
        smallest_hessian = 1.0
        if self.curvature > 0:
            smallest_hessian = max(1 - self._largest_excess, _SMALLEST_HESSIAN)
        last_step = self.step_noise(self.steps - 1, self.radius)
        std = last_step.gradient_scale * std_per_scale(self.noise_kind, dim)
        return std * sqrt(dim) / smallest_hessian

    @property
    def max_simulated_draws(self) -> int:  # type: ignore[override]  # usually a constant
        """Each draw is a run of several steps; lengths vary less in many dimensions."""
        return min(128, max(32, 384 // self.manifold.dim))

    @property
    def curvature(self) -> float:
        """The curvature of the space, which is not 0."""
        curvature = self.manifold.constant_curvature
        assert curvature is not None  # `reason_excluded` refuses other spaces
        return curvature

    # ---- sensitivities and shares of the budget ----

    def gradient_sensitivity(self, distance: Any) -> Any:
        """Return the largest change of the computed mean log_w xᵢ.

        Parameters
        ----------
        distance : float or array
            Of w from the center of the ball.
        """
        exact = mean_gradient_sensitivity(
            self.manifold, self.clipping_radius, self.statistic.n, distance
        )
        root_curvature = sqrt(max(-self.curvature, 0.0))
        with np.errstate(over="ignore"):  # infinite where doubles hold no such point
            growth = np.exp(root_curvature * distance)
        relative_error = CHART_ERROR + 2.0**-48 * self.manifold.dim * growth
        return exact + 4 * self.radius * relative_error

    @property
    def hessian_sensitivity(self) -> float:
        """The sensitivity of (mean t, mean t·⟨u, a⟩²).

        A record's pair lies in the triangle 0 ≤ q ≤ t ≤ t(r), of diameter √2·t(r); a
        mean of n such pairs moves by that over n.
        """
        n = self.statistic.n
        return (sqrt(2) * self._largest_excess / n) * (1 + 1e-9) + 1e-9 / n

    @property
    def _largest_excess(self) -> float:
        """t(r), the largest value of t in the ball."""
        return float(self._hessian_excess(np.asarray(self.radius)))

    def _hessian_excess(self, distance: np.ndarray) -> np.ndarray:
        """Return t = |1 − s·ct s|, which increases from 0, with s cut at the radius."""
        in_curvature = np.minimum(distance, self.radius) * sqrt(abs(self.curvature))
        s = np.maximum(in_curvature, 1e-4)  # below that t < 1e-8
        if self.curvature < 0:
            return np.asarray(np.abs(1 - s / np.tanh(s)))
        return np.asarray(np.abs(1 - s / np.tan(s)))

    @property
    def _schedule(self) -> StepSchedule:
        if self.curvature < 0:
            return _SCHEDULES_IN_HYPERBOLIC_SPACE[self.noise_kind]
        return _SCHEDULES_ON_SPHERES[self.noise_kind]

    @cached_property
    def shares(self) -> BudgetShares:
        """The shares of all steps; the last step takes H from the one before."""
        schedule = self._schedule
        growth = schedule.growth
        if self.steps == 3 < schedule.n_steps:
            growth = _GROWTH_OF_THREE_STEPS
        weights = [growth**step for step in range(self.steps)]
        gradient_share = 1 - schedule.hessian_share
        gradients = [gradient_share * weight / sum(weights) for weight in weights]

        n_hessians = max(1, self.steps - 1)
        hessians = [schedule.hessian_share / n_hessians] * n_hessians
        hessians += [0.0] * (self.steps - n_hessians)
        return BudgetShares(gradients, hessians)

    def step_noise(self, step: int, distance: float) -> StepNoise:
        """Return the noise of a step that is taken at a distance from the center."""
        gradient_share = self.shares.gradients[step]
        hessian_share = self.shares.hessians[step]
        # The margin covers the rounding of the shares.
        scale = nextafter(self.scale * (1 + 1e-12), inf)
        if self.noise_kind == "gaussian":
            gradient_share = sqrt(gradient_share)
            hessian_share = sqrt(hessian_share)

        sensitivity = float(self.gradient_sensitivity(distance))
        hessian_scale = None
        if hessian_share > 0:
            hessian_scale = self.hessian_sensitivity * scale / hessian_share
        return StepNoise(
            float(distance), sensitivity * scale / gradient_share, hessian_scale
        )

    # ---- release, replay and simulation ----

    def prepare_data(self, data: Any) -> np.ndarray:
        """Return the records, clipped into the ball, in the canonical frame."""
        points = data.array() if isinstance(data, Records) else data
        return self.statistic.clip_records(points)

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        """Run the Newton steps on the records, with exact noise."""
        noise = ExactNoise(self.noise_kind, source)
        run = self._run(data[None], 1, noise)
        transcript = self._transcript(run)
        return Draw(run.points[0], noise.integers, noise.slack, transcript)

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        run = self._replay(certificate.release["integers"])
        return np.asarray(self.post_process(run.points[0]))

    def further_checks(self, certificate: Certificate) -> list[Check]:
        """Check that every step is where the integers before it lead, with its noise."""
        run = self._replay(certificate.release["integers"])
        stages = certificate.release["stages"]
        return check_transcript(self._transcript(run), stages)[:1]

    def noisy_draw(self, integers: Any) -> NoisyDraw:
        """Return the last noisy gradient: given the steps before, its noise is fresh."""
        point, gradient, noise_scale = self._replay(integers).last_gradient
        return NoisyDraw(
            "gradient",
            self.noise_law(self.manifold.dim, noise_scale),
            gradient,
            cell=2.0 ** -grid_of(noise_scale),
            base=point,
            reach=self.radius + float(self.manifold.dist(self.center, point)),
        )

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases of one population of records, or of several at once.

        A run takes its time by its steps, hardly by how many runs are made together.
        """
        points = self.simulate_draws(rng, data, size)
        flat = points.reshape(-1, *self.manifold.point_shape)
        return self.post_process_points(flat).reshape(points.shape)

    def simulate_draws(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Draw points in floats, before they are projected. NOT private."""
        point_shape = self.manifold.point_shape
        populations = np.asarray(data)
        populations = populations.reshape(
            -1, *populations.shape[-1 - len(point_shape) :]
        )
        add_noise = self._simulated_steps(rng, len(populations), size)
        points = self._run(populations, len(populations) * size, add_noise).points
        if populations.ndim > np.ndim(data):
            return points
        return points.reshape(-1, size, *point_shape)

    def _simulated_steps(
        self, rng: np.random.Generator, n_populations: int, size: int
    ) -> AddNoise:
        """Return float noise for runs of several populations.

        All noise is drawn beforehand, one population after the other, so that
        simulating several at once gives the same numbers as simulating each by itself.
        """
        sizes: list[int] = []
        for hessian_share in self.shares.hessians:
            sizes.append(self.manifold.dim)
            if hessian_share > 0:
                sizes.append(2)
        by_population = [
            [simulate_noise(rng, self.noise_kind, (size, columns)) for columns in sizes]
            for _ in range(n_populations)
        ]
        by_stage = (np.concatenate(stage) for stage in zip(*by_population, strict=True))

        def add_noise(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            return np.asarray(values + scales[:, None] * next(by_stage))

        return add_noise

    def _transcript(self, run: NewtonRun) -> list[dict[str, Any]]:
        """Return the steps of the first run, for the certificate."""
        noise_left = float(run.noise_std[0, 0])
        return [
            {**step._asdict(), "noise_left": noise_left} for step in run.step_noises
        ]

    def _replay(self, integers: Any) -> NewtonRun:
        """Make the steps again from a certificate's integers, without records."""
        return self._run(None, 1, replay_draws(integers))

    def _run(
        self, populations: np.ndarray | None, n_runs: int, add_noise: AddNoise
    ) -> NewtonRun:
        """Make `n_runs` independent runs from the center.

        Parameters
        ----------
        populations : array, shape (k, n, *point_shape), or None
            Records, for as many runs each. Without records the runs are replayed from
            what `add_noise` returns.
        n_runs : int
        add_noise : function of (values, scales)
        """
        manifold = self.manifold
        weights = self._precision_weights
        points = np.broadcast_to(self.center, (n_runs, *manifold.point_shape))
        excess = np.zeros((n_runs, 2))
        step_noises: list[StepNoise] = []

        for step in range(self.steps):
            # In the first step all runs are at the center.
            distinct_points = points[:1] if step == 0 else points
            logs = _LogCache()
            distance = np.asarray(manifold.dist(self.center, points))
            distance = np.minimum(distance, self.radius)
            noise = self.step_noise(step, float(distance[0]))
            step_noises.append(noise)

            sensitivities = self.gradient_sensitivity(distance)
            first_sensitivity = self.gradient_sensitivity(distance[0])
            gradient_scales = noise.gradient_scale * sensitivities / first_sensitivity
            mean_log = self._mean_log(distinct_points, populations, logs)
            repeated = np.repeat(mean_log, n_runs // len(mean_log), axis=0)
            gradient = add_noise(repeated, gradient_scales)
            last = LastGradient(points[0], gradient[0], float(gradient_scales[0]))

            if step == 0:
                axis = _unit_rows(gradient)
            else:
                to_center = manifold.log(points, self.center)
                axis = _unit_rows(
                    np.asarray(manifold.to_coordinates(points, to_center))
                )

            if noise.hessian_scale is not None:
                mean_excess = self._mean_excess(
                    distinct_points, populations, axis, logs
                )
                noisy = add_noise(mean_excess, np.full(n_runs, noise.hessian_scale))
                std = noise.hessian_scale * std_per_scale(self.noise_kind, 2)
                excess = self._estimate_excess(noisy, std)

            along, across = self._hessian(excess)
            component = np.sum(gradient * axis, axis=1, keepdims=True) * axis
            move = component / along + (gradient - component) / across
            if self._schedule.is_averaged:
                move *= weights[step] / sum(weights[: step + 1])
            points = self._take_step(points, move)

        gradient_std = gradient_scales * std_per_scale(self.noise_kind, manifold.dim)
        mean_inverse_square = (
            along**-2 + (manifold.dim - 1) * across**-2
        ) / manifold.dim
        noise_std = gradient_std[:, None] * np.sqrt(mean_inverse_square)
        if self._schedule.is_averaged:
            noise_std *= sqrt(weights[-1] / sum(weights))
        shrunk = shrink_points(manifold, self.center, np.asarray(points), noise_std)
        return NewtonRun(shrunk, step_noises, noise_std, last)

    @property
    def _precision_weights(self) -> list[float]:
        """The precision of each step's gradient, up to a common factor."""
        if self.noise_kind == "gaussian":
            return list(self.shares.gradients)
        return [share**2 for share in self.shares.gradients]

    def _take_step(self, points: np.ndarray, move: np.ndarray) -> np.ndarray:
        """Move points along vectors of bounded length, and project them into the ball."""
        manifold = self.manifold
        length = np.linalg.norm(move, axis=1, keepdims=True)
        in_curvature = length * sqrt(abs(self.curvature))
        move = move * (_MAX_STEP / np.maximum(in_curvature, _MAX_STEP))
        moved = manifold.exp(points, manifold.from_coordinates(points, move))
        return np.asarray(project_to_ball(manifold, self.center, self.radius, moved))

    # ---- what is read of the records ----

    def _mean_log(
        self, points: np.ndarray, populations: np.ndarray | None, logs: "_LogCache"
    ) -> np.ndarray:
        """Return the mean of log_w xᵢ, in coordinates, at each point w."""
        if populations is None:
            return np.zeros((1, self.manifold.dim))
        n_runs = max(len(points), len(populations))

        def sum_logs(z: np.ndarray, runs: slice) -> np.ndarray:
            return np.asarray(z.sum(axis=1))

        return self._mean_over_records(
            points, populations, n_runs, self.manifold.dim, sum_logs, logs
        )

    def _mean_excess(
        self,
        points: np.ndarray,
        populations: np.ndarray | None,
        axis: np.ndarray,
        logs: "_LogCache",
    ) -> np.ndarray:
        """Return (mean t, mean t·⟨u, a⟩²) of the records, for each run's axis a."""
        if populations is None:
            return np.zeros((1, 2))

        def sum_excess(z: np.ndarray, runs: slice) -> np.ndarray:
            """Return (Σ t, Σ t·⟨u, a⟩²) over the logarithms z = s·u."""
            distances = np.linalg.norm(z, axis=-1)
            components = np.einsum("bnd,bd->bn", z, axis[runs])
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
        logs: "_LogCache",
    ) -> np.ndarray:
        """Return the mean over records of terms of their logarithms, for each run.

        Parameters
        ----------
        points : array, shape (1 or n_runs, *point_shape)
            Where logarithms are taken.
        populations : array, shape (k, n, *point_shape)
        n_runs : int
            Run i reads the population i·k // n_runs.
        size : int
            How many numbers the mean has.
        sum_terms : function of (logs, runs)
            Adds up the terms of logarithms, shape (runs, records, dim).
        logs : _LogCache
            Keeps the logarithms for the next question at the same points.
        """
        dim = self.manifold.dim
        n_populations, n = populations.shape[:2]
        runs_at_once = max(1, _MAX_COORDINATES // (n * dim))
        records_at_once = max(1, _MAX_COORDINATES // dim)
        population_of_run = np.arange(n_runs) * n_populations // n_runs

        means = np.empty((n_runs, size))
        for runs in blocks(n_runs, runs_at_once):

            def sum_part(part: slice, runs: slice = runs) -> np.ndarray:
                z = logs.get(
                    self.manifold, points, populations, runs, part, population_of_run
                )
                return np.asarray(sum_terms(z, runs))

            parts = in_threads(sum_part, blocks(n, records_at_once))
            means[runs] = np.sum(parts, axis=0) / n
        return means

    # ---- what the two numbers say about H ----

    def _estimate_excess(self, noisy: np.ndarray, noise_std: float) -> np.ndarray:
        """Return (t, q) from their noisy values by linear Bayes.

        The prior has t about uniform on [0, t(r)], and q = t·cos² about t/dim.
        """
        largest = self._largest_excess
        dim = self.manifold.dim

        def towards_prior(value: np.ndarray, prior: Any, variance: float) -> np.ndarray:
            weighted = variance * value + noise_std**2 * prior
            return np.asarray(weighted / (variance + noise_std**2))

        t = towards_prior(noisy[:, 0], largest / 2, largest**2 / 12)
        t = np.clip(t, 0.0, largest)
        q = towards_prior(noisy[:, 1], t / dim, (largest / dim) ** 2)
        return np.stack([t, np.clip(q, 0.0, t)], axis=-1)

    def _hessian(self, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return H along the axis and, on average, across it."""
        t, q = excess[:, :1], excess[:, 1:]
        sign = 1.0 if self.curvature < 0 else -1.0
        along = 1 + sign * (t - q)
        across = 1 + sign * (t - (t - q) / (self.manifold.dim - 1))
        return (
            np.maximum(along, _SMALLEST_HESSIAN),
            np.maximum(across, _SMALLEST_HESSIAN),
        )


class _LogCache:
    """Logarithms of blocks of records at the points of one step."""

    def __init__(self) -> None:
        self._blocks: dict[Any, np.ndarray] = {}

    def get(
        self,
        manifold: Any,
        points: np.ndarray,
        populations: np.ndarray,
        runs: slice,
        part: slice,
        population_of_run: np.ndarray,
    ) -> np.ndarray:
        """Return logarithms, shape (runs, records, dim), computed at most once."""
        has_one_point = len(points) == 1
        key = (len(points), 0 if has_one_point else runs.start, part.start)
        if key not in self._blocks and has_one_point:
            records = populations[:, part].reshape(-1, *manifold.point_shape)
            logs = np.asarray(manifold.normal_coordinates(points[0], records))
            self._blocks[key] = logs.reshape(len(populations), -1, manifold.dim)
        elif key not in self._blocks:
            records = populations[population_of_run[runs], part]
            self._blocks[key] = np.asarray(
                manifold.normal_coordinates(points[runs, None], records)
            )
        logs = self._blocks[key]
        if not has_one_point:
            return logs
        populations_of_block = population_of_run[runs]
        if np.array_equal(populations_of_block, np.arange(len(logs))):
            return logs  # one run for each population: no copy is needed
        return np.asarray(logs[populations_of_block])


def _unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return the directions of vectors; a vector of length 0 stays 0."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    safe_lengths = np.where(lengths > 0, lengths, 1.0)
    return np.asarray(np.where(lengths > 0, vectors / safe_lengths, 0.0))
