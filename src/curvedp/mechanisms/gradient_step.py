"""One noisy clipped gradient step from the public center: a private mean on every manifold.

v = mean log_c xᵢ + noise is released as exp_c v, c the center of a public ball of
radius r. Each logarithm depends on its own record alone and has length at most r, so
the *computed* mean moves by at most 2r/n: no curvature, no solver error and no
convexity limit enters. Its bias is of second order in the distance from the center to
the mean.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, isfinite, log2, sqrt
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from curvedp.core.capabilities import (
    HasNoiseLength,
    LeadsToRegion,
    NoisyDraw,
    PostProcessesItself,
    SimulatesRelease,
    SometimesExcluded,
)
from curvedp.core.certificate import Certificate
from curvedp.core.chart import grid_of, shrink_points
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import Draw, MechanismInfo, check_supported, replay_draws
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.queries import mean_sensitivity, sum_clipped
from curvedp.mechanisms.vector import (
    ExactNoise,
    VectorMechanism,
    simulate_noise,
    smallest_noise,
    std_per_scale,
)
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.records.base import Records, open_records
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.tangent_vectors import logs_at


class MeanMechanism(VectorMechanism, PostProcessesItself):
    """A private Fréchet mean that reads the records and shrinks its draw to the center."""

    statistic: FrechetMean

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        return isinstance(statistic, FrechetMean)

    @property
    def center(self) -> np.ndarray:
        """The center of the public ball, in the canonical frame."""
        return np.asarray(self.statistic.ball.center)

    @property
    def radius(self) -> float:
        """The radius of the public ball."""
        return float(self.statistic.radius)

    @property
    def clipping_radius(self) -> float:
        """How far from the center clipped records can be."""
        return float(self.statistic.clipping_radius)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        if self.manifold.dim < 3:  # James-Stein shrinkage needs three dimensions
            return self.statistic.post_processing
        return (PostProcessing.SHRINK_TO_CENTER, *self.statistic.post_processing)

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Shrink and project a drawn point, and move it to the frame of the records."""
        points = self.post_process_points(value[None])
        return np.asarray(self.statistic.to_data_frame(points)[0])

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        """Project drawn points, along the first axis, in the canonical frame."""
        return np.asarray(self.statistic.project(points))


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientMechanism(
    MeanMechanism, SimulatesRelease, LeadsToRegion, HasNoiseLength, SometimesExcluded
):
    """A private Fréchet mean by one noisy step from the center of a public ball.

    The ball may be larger than any theorem about means allows. The scale is the
    standard deviation of a coordinate, or b of the Laplace density ∝ exp(−|y|/b).

    Notes
    -----
    Guarantees
    - exactly μ-GDP with μ = (2r/n and rounding)/σ for replace-one adjacency, or ε-DP with
      that over b, on any manifold, for ANY records.
    """

    if TYPE_CHECKING:
        statistic: FrechetMean

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "gradient-step", option="gradient", reads="records"
    )

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the step with the least noise for the sensitivity 2r/n."""
        check_supported(cls, statistic)
        assert isinstance(statistic, FrechetMean)  # it is supported
        level = smallest_noise(guarantee, _step_sensitivity(statistic))
        return cls(statistic=statistic, scale=level.scale, noise_kind=level.kind)

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why `mechanism="auto"` does not use this mechanism, or None.

        It is excluded in a ball in which the mean need not be unique.

        Parameters
        ----------
        statistic : Statistic
            What is released.
        """
        space = statistic.value_space
        ball = statistic.value_ball
        if ball is None or not isfinite(space.curvature_bounds[1]):
            return None
        if ball.radius < space.convexity_radius:
            return None
        return (
            "the mean need not be unique in a ball of radius "
            f"{space.convexity_radius:.6g} or more"
        )

    @cached_property
    def sensitivity(self) -> float:
        """2r/n, with the rounding of a record's vector and of the mean."""
        return _step_sensitivity(self.statistic)

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each coordinate."""
        return self.scale * std_per_scale(self.noise_kind, self.manifold.dim)

    @property
    def noise_length(self) -> float:
        return self.noise_std * sqrt(self.manifold.dim)

    @property
    def grid_unit(self) -> float:
        """A public power of two near the radius: the grid is fine in any unit of records."""
        return 2.0 ** ceil(log2(self.radius))

    def prepare_data(self, data: Any) -> Records:
        """Return the logarithms, in the canonical frame, of records in memory.

        Records that are stored elsewhere are read when they are wanted.

        Parameters
        ----------
        data : object
            The records: an array, or `Records`.

        Parameters
        ----------
        data : object
            The records: an array, or `Records`.

        Parameters
        ----------
        data : object
            The records: an array, or `Records`.
        """
        if isinstance(data, Records) and data.location != "memory":
            if data.n != self.statistic.n:
                raise ParameterError(f"{data.n} records, not {self.statistic.n}")
            return data.to_canonical_frame(self.manifold, self.statistic.center)
        points = data.array() if isinstance(data, Records) else data
        clipped = self.statistic.clip_records(points)
        logs = logs_at(self.manifold, self.center, clipped)
        return open_records(logs, (self.manifold.dim,))

    def draw(self, data: Records, source: Source) -> Draw:
        """Draw one noisy mean of clipped logarithms, and step along it.

        The mean is a sum of integers on a fixed-point grid, so that it does not depend
        on the order or the place of the records.

        Parameters
        ----------
        data : Records
            The records.
        source : Source
            The random bits.

        Parameters
        ----------
        data : Records
            The records.
        source : Source
            The random bits.

        Parameters
        ----------
        data : Records
            The records.
        source : Source
            The random bits.
        """
        grid = FixedPoint(2 * self.clipping_radius)
        if data.location == "memory":
            kernel = partial(sum_clipped, self.clipping_radius, grid)
        else:
            kernel = partial(
                _sum_clipped_logs,
                self.manifold,
                self.center,
                self.radius,
                self.clipping_radius,
                grid,
            )
        total = data.sums(kernel)
        mean = grid.mean(total.reshape(2, -1), data.n) / self.grid_unit

        noise = ExactNoise(self.noise_kind, source)
        noisy_mean = noise(mean[None], np.array([self.scale / self.grid_unit]))[0]
        point = self._point_at(self.grid_unit * noisy_mean)
        return Draw(point, noise.integers, noise.slack)

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        return self.post_process_points(self.simulate_draws(rng, data, size))

    def simulate_draws(
        self, rng: np.random.Generator, records: np.ndarray, size: int
    ) -> np.ndarray:
        """Draw points in floats, before post-processing. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        size : int
            The number of draws.
        """
        coordinates = ball_coordinates(
            self.manifold, self.center, self.radius, records, timed=False
        )
        mean = coordinates.mean(axis=0)
        noise = simulate_noise(rng, self.noise_kind, (size, mean.size))
        return self._point_at(mean + self.scale * noise)

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        shrunk = shrink_points(self.manifold, self.center, points, self.noise_std)
        return super().post_process_points(shrunk)

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        vector = self._replay_vector(certificate.release["integers"])
        return np.asarray(self.post_process(self._point_at(vector)))

    def noisy_draw(self, integers: Any) -> NoisyDraw:
        """Return the drawn vector: the mean logarithm at the center, plus noise.

        Parameters
        ----------
        integers : list
            The released integers, as a certificate lists them.
        """
        return NoisyDraw(
            "gradient",
            self.noise_law(self.manifold.dim, self.scale),
            self._replay_vector(integers),
            cell=self.grid_unit * 2.0 ** -grid_of(self.scale / self.grid_unit),
            base=self.center,
            reach=self.radius,
        )

    def _replay_vector(self, integers: Any) -> np.ndarray:
        """Return the drawn tangent vector, from a certificate's grid integers."""
        unit_scale = self.scale / self.grid_unit
        in_units = replay_draws(integers)(np.empty(self.manifold.dim), [unit_scale])
        return np.asarray(self.grid_unit * in_units)

    def _point_at(self, vectors: np.ndarray) -> np.ndarray:
        """Return exp_c(v) for the center c of the ball.

        Parameters
        ----------
        vectors : array of shape (..., dim)
            Tangent vectors v at the center, in coordinates.
        """
        # Noise beyond what doubles hold becomes infinite, without a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(
                self.manifold.from_normal_coordinates(self.center, vectors)
            )


def _step_sensitivity(statistic: Any) -> float:
    """Return how far the computed mean logarithm of a `FrechetMean`'s records can move."""
    radius = statistic.clipping_radius
    dim = statistic.manifold.dim
    return mean_sensitivity(radius, FixedPoint(2 * radius), dim, statistic.n)


def _sum_clipped_logs(
    manifold: Manifold,
    center: np.ndarray,
    radius: float,
    clipping_radius: float,
    grid: FixedPoint,
    block: np.ndarray,
) -> np.ndarray:
    """Return the exact sum of the clipped logarithms of a block of records.

    Parameters
    ----------
    manifold : Manifold
        Where the records are.
    center : array of shape point_shape
        The center of the public ball, where logarithms are taken.
    radius : float
        The radius of the ball into which records are clipped.
    clipping_radius : float
        The length to which logarithms are clipped.
    grid : FixedPoint
        The grid on which the sum is exact.
    block : array of shape (records, *point_shape)
        Some of the records.
    """
    records = np.asarray(block, dtype=np.float64)
    inside = np.asarray(project_to_ball(manifold, center, radius, records))
    return sum_clipped(clipping_radius, grid, logs_at(manifold, center, inside))
