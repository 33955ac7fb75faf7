"""One noisy gradient step from the public center: a private mean on every manifold. The
step is v = mean log_c xᵢ + noise, where the logarithms of the records xᵢ at the center
c of a public ball are clipped to its radius r. The release is exp_c v.

Each logarithm depends on its own record alone and has length at most r, so
the *computed* mean moves by at most 2r/n: no curvature, no solver error and no
convexity limit enters. Its bias is of second order in the distance from the center to
the mean.

Gaussian noise releases the mean squared length of the logarithms as well, at no cost
(`_append_squares`). Error bars for the population follow from it. Where curvature is
positive and the same along all geodesics, so does the Hessian of ½·mean d² along the step,
by which the step is divided: without the division a step on a sphere falls short by the
share that the Hessian is below 1, nearly a half where records are 60° from their mean.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, isfinite, log2, sqrt
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.core.capabilities import (
    HasNoiseLength,
    LeadsToRegion,
    NoisyDraw,
    NoisyMeanSquare,
    PostProcessesItself,
    SimulatesRelease,
    SometimesExcluded,
)
from curvedp.core.certificate import Certificate
from curvedp.core.chart import grid_of, shrink_points, shrink_rows
from curvedp.core.codes import PostProcessing
from curvedp.core.mechanism import Draw, MechanismInfo, check_supported, replay_draws
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.ball import ball_coordinates
from curvedp.geometry.comparison import hessian_along_step, is_positively_curved
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.staged.queries import mean_sensitivity
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
from curvedp.statistics.tangent_vectors import clip_rows_to, logs_at

# The weight of the squared length beside a logarithm. Every weight up to 1.66 costs
# nothing (docs/theory/inference.md, "The mean square costs nothing").
SQUARE_WEIGHT = 1.5

# A step is divided by no less than this, however far the records are. From about here
# on, the noise that the division enlarges is worth more than the bias it removes.
_SMALLEST_HESSIAN = 0.25


class MeanMechanism(VectorMechanism, PostProcessesItself):
    """A private Fréchet mean that reads the records and shrinks its draw to the center."""

    statistic: FrechetMean

    @classmethod
    def supports(cls, statistic: Statistic) -> bool:
        """Return whether a statistic is a Fréchet mean, which this class releases."""
        return isinstance(statistic, FrechetMean)

    @property
    def center(self) -> np.ndarray:
        """The center of the public ball, in the canonical frame.

        In that frame an isometry has moved the center to the origin, if the space has
        such an isometry.
        """
        return np.asarray(self.statistic.ball.center)

    @property
    def radius(self) -> float:
        """The radius of the public ball."""
        return float(self.statistic.radius)

    @property
    def clipping_radius(self) -> float:
        """How far from the center a clipped record can be.

        It is the radius of the ball, or less where float64 cannot represent all of it.
        """
        return float(self.statistic.clipping_radius)

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What is done to a drawn point, in order, as the certificate lists it.

        It is shrunk toward the center, and projected into the public ball. Shrinkage is
        by the rule of James and Stein, which reduces the error of a noisy vector only
        from dimension 3 on.
        """
        if self.manifold.dim < 3:
            return self.statistic.post_processing
        return (PostProcessing.SHRINK_TO_CENTER, *self.statistic.post_processing)

    def post_process(self, value: np.ndarray) -> np.ndarray:
        """Shrink and project a drawn point, and move it to the frame of the records.

        Parameters
        ----------
        value : array of shape point_shape
            The drawn point, in the canonical frame (an isometry has moved the center of
            the public ball to the origin).
        """
        points = self.post_process_points(value[None])
        return np.asarray(self.statistic.to_data_frame(points)[0])

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        """Project drawn points into the public ball.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            The drawn points, in the canonical frame (an isometry has moved the center
            of the ball to the origin).
        """
        return np.asarray(self.statistic.project(points))


Moments = Literal["first", "first-and-second"]


def check_moments(name: str, value: Any) -> Moments:
    """Return "first" or "first-and-second", or raise `ParameterError`."""
    _validate.choice(name, value, ("first", "first-and-second"))
    return "first" if value == "first" else "first-and-second"


HessianEstimate = Literal["identity", "from-mean-square"]


def _check_hessian(name: str, value: Any) -> HessianEstimate:
    """Return "identity" or "from-mean-square", or raise `ParameterError`."""
    _validate.choice(name, value, ("identity", "from-mean-square"))
    return "identity" if value == "identity" else "from-mean-square"


@dataclass(frozen=True, eq=False, kw_only=True)
class GradientMechanism(
    MeanMechanism, SimulatesRelease, LeadsToRegion, HasNoiseLength, SometimesExcluded
):
    """A private Fréchet mean by one noisy step from the center of a public ball.

    The ball may be larger than any theorem about means allows. The scale is the
    standard deviation of a coordinate, or b of the Laplace density ∝ exp(−|y|/b).

    Attributes
    ----------
    moments : {"first", "first-and-second"}
        Whether the mean squared length of the logarithms is released beside their mean.
        With Gaussian noise `calibrate` asks for it, because it costs nothing.
    hessian : {"identity", "from-mean-square"}
        By what the step is divided: by nothing, or by the Hessian that the released
        mean square implies (`hessian_along_step`). `calibrate` asks for the latter
        where curvature is positive (`is_positively_curved`).

    Notes
    -----
    Guarantees
    - exactly μ-GDP with μ = (2r/n and rounding)/σ for replace-one adjacency, or ε-DP
      with that over b, on any manifold, for ANY records.
    """

    if TYPE_CHECKING:
        statistic: FrechetMean

    moments: Annotated[Moments, check_moments] = "first"
    hessian: Annotated[HessianEstimate, _check_hessian] = "identity"

    info: ClassVar[MechanismInfo] = MechanismInfo(
        "gradient-step", option="gradient", reads="records"
    )

    def __post_init__(self) -> None:
        """Check the fields; Laplace noise releases the mean alone.

        Raises
        ------
        ParameterError
            If the mean square is asked of Laplace noise, or the Hessian without a mean
            square or where curvature is not positive.
        """
        super().__post_init__()
        if self.releases_mean_square and self.noise_kind != "gaussian":
            raise ParameterError(
                "needs Gaussian noise", parameter="moments", value=self.moments
            )
        if not self.divides_by_hessian:
            return
        if not (self.releases_mean_square and is_positively_curved(self.manifold)):
            raise ParameterError(
                "needs both moments and a space of positive curvature",
                parameter="hessian",
                value=self.hessian,
            )

    @classmethod
    def calibrate(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """Return the step with the least noise that meets a guarantee.

        The sensitivity of the mean of n logarithms of length at most r, the radius of
        the public ball, is 2r/n. With Gaussian noise the step also releases the mean
        squared length of the logarithms, because that raises the sensitivity by no more
        than a rounding error.

        Parameters
        ----------
        statistic : FrechetMean
            The mean that is to be released.
        guarantee : Guarantee
            The privacy guarantee that the release must satisfy.

        Returns
        -------
        GradientMechanism
            The mechanism, with its noise scale and with what it releases.
        """
        check_supported(cls, statistic)
        assert isinstance(statistic, FrechetMean)  # it is supported
        sensitivity = _step_sensitivity(statistic, statistic.manifold.dim + 1)
        level = smallest_noise(guarantee, sensitivity)
        if level.kind == "gaussian":
            is_curved = is_positively_curved(statistic.manifold)
            return cls(
                statistic=statistic,
                scale=level.scale,
                moments="first-and-second",
                hessian="from-mean-square" if is_curved else "identity",
            )
        # Laplace noise, for pure ε: the mean logarithm is released alone.
        level = smallest_noise(
            guarantee, _step_sensitivity(statistic, statistic.manifold.dim)
        )
        return cls(statistic=statistic, scale=level.scale, noise_kind=level.kind)

    @classmethod
    def reason_excluded(cls, statistic: Statistic) -> str | None:
        """Return why `mechanism="auto"` does not use this mechanism, or None.

        It is excluded in a ball in which the mean need not be unique.

        Parameters
        ----------
        statistic : Statistic
            The statistic that is to be released, with its manifold and public ball.

        Returns
        -------
        str or None
            The reason as a clause of a sentence. None if the mechanism is a candidate.
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
        """How far the released vector can move if one record is replaced.

        It is 2r/n for the mean of n logarithms of length at most r, plus the rounding
        of each record's vector and of the mean.
        """
        return _step_sensitivity(self.statistic, self._n_released_numbers)

    @property
    def releases_mean_square(self) -> bool:
        """Whether the mean squared length of the logarithms is released as well."""
        return self.moments == "first-and-second"

    @property
    def divides_by_hessian(self) -> bool:
        """Whether the step is divided by the Hessian along it."""
        return self.hessian == "from-mean-square"

    @property
    def post_processing(self) -> tuple[PostProcessing, ...]:
        """What is done to a drawn point, in order, as the certificate lists it.

        The point is shrunk to the center (in dimension 3 and more), maybe divided by
        the Hessian, and projected into the public ball.
        """
        if not self.divides_by_hessian:
            return super().post_processing
        *shrinkage, projection = super().post_processing
        return (*shrinkage, PostProcessing.DIVIDE_BY_HESSIAN, projection)

    @property
    def _n_released_numbers(self) -> int:
        """How many numbers are released: the coordinates, and possibly a mean square."""
        return self.manifold.dim + int(self.releases_mean_square)

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise in each coordinate."""
        return self.scale * std_per_scale(self.noise_kind, self.manifold.dim)

    @property
    def noise_length(self) -> float:
        """The root mean square length of the noise in the mean logarithm: std·√dim."""
        return self.noise_std * sqrt(self.manifold.dim)

    @property
    def grid_unit(self) -> float:
        """The unit in which noise is drawn: the least power of two ≥ the ball's radius.

        Noise is drawn on a grid of fixed width. In this public unit the grid is equally
        fine for records in millimeters and in kilometers.
        """
        return 2.0 ** ceil(log2(self.radius))

    def prepare_data(self, data: Any) -> Records:
        """Return the records in the form in which `draw` takes them.

        Records in memory are clipped into the public ball and replaced by their
        logarithms at its center, in coordinates. Records that are stored elsewhere (in
        a file, at other sites) stay where they are; `draw` does the same to them, a
        block at a time.

        Parameters
        ----------
        data : array of shape (n, *point_shape), or Records
            The records.

        Returns
        -------
        Records
            Logarithms if the records are in memory; else points, in the canonical frame
            (an isometry has moved the center of the ball to the origin).

        Raises
        ------
        ParameterError
            If there are not as many records as the statistic states.
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

        Entries are rounded to a fixed-point grid and added as integers, so that the
        mean does not depend on the order of the records or on where they are stored.

        Parameters
        ----------
        data : Records
            The records, as `prepare_data` returns them: logarithms if they are in
            memory, else points.
        source : Source
            Where random bits come from.

        Returns
        -------
        Draw
            The point after the step, with the noisy mean as integers on the public
            grid.
        """
        grid = FixedPoint(2 * self.clipping_radius)
        high_and_low_sums = data.sums(self._block_sum(data, grid)).reshape(2, -1)
        mean = grid.mean(high_and_low_sums, data.n) / self.grid_unit

        noise = ExactNoise(self.noise_kind, source)
        scales = np.array([self.scale / self.grid_unit])
        noisy_mean = noise(mean[np.newaxis], scales)
        (point,) = self._point_after_step(self.grid_unit * noisy_mean)
        return Draw(point, noise.integers, noise.slack)

    def _block_sum(
        self, data: Records, grid: FixedPoint
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Return the function that sums the clipped logarithms of a block of records.

        Parameters
        ----------
        data : Records
            Logarithms if they are in memory, else points.
        grid : FixedPoint
            The grid on which the sums are exact.
        """
        if data.location == "memory":
            return partial(
                _sum_logs, self.clipping_radius, self.releases_mean_square, grid
            )
        return partial(
            _sum_clipped_logs,
            self.manifold,
            self.center,
            self.radius,
            self.clipping_radius,
            self.releases_mean_square,
            grid,
        )

    def simulate(
        self, rng: np.random.Generator, data: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases in floats, to predict their error. NOT private.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        data : array of shape (n, *point_shape)
            A public population.
        size : int
            The number of releases.

        Returns
        -------
        array of shape (size, *point_shape)
            The released points, shrunk and projected into the public ball.
        """
        return self.post_process_points(self.simulate_draws(rng, data, size))

    def simulate_draws(
        self, rng: np.random.Generator, records: np.ndarray, size: int
    ) -> np.ndarray:
        """Simulate releases in floats, before their post-processing. NOT private.

        Errors are predicted from such draws on a public population.

        Parameters
        ----------
        rng : numpy.random.Generator
            The generator of the noise.
        records : array of shape (n, *point_shape)
            A public population.
        size : int
            The number of draws.

        Returns
        -------
        array of shape (size, *point_shape)
            The drawn points.
        """
        vectors = ball_coordinates(
            self.manifold, self.center, self.radius, records, timed=False
        )
        if self.divides_by_hessian:
            vectors = _append_squares(self.clipping_radius, vectors)
        mean = vectors.mean(axis=0)
        noise = simulate_noise(rng, self.noise_kind, (size, mean.size))
        return self._point_after_step(mean + self.scale * noise)

    def post_process_points(self, points: np.ndarray) -> np.ndarray:
        """Shrink drawn points to the center, and project them into the public ball.

        Parameters
        ----------
        points : array of shape (k, *point_shape)
            The drawn points, in the canonical frame (an isometry has moved the center
            of the ball to the origin).
        """
        if self.divides_by_hessian:  # `_divided_step` has shrunk them already
            return super().post_process_points(points)
        shrunk = shrink_points(self.manifold, self.center, points, self.noise_std)
        return super().post_process_points(shrunk)

    def reconstruct_value(self, certificate: Certificate) -> np.ndarray:
        """Compute the released mean again from the noisy integers in a certificate.

        Parameters
        ----------
        certificate : Certificate
            The certificate of a release.
        """
        vector = self._replay_vector(certificate.release["integers"])
        point = self._point_after_step(vector[None])[0]
        return np.asarray(self.post_process(point))

    def recorded_draw(self, integers: Any) -> NoisyDraw:
        """Return the noisy mean logarithm of a certificate, with its noise distribution.

        Confidence regions for the mean follow from it.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that a certificate lists.

        Returns
        -------
        NoisyDraw
            The mean logarithm plus noise, and maybe a noisy mean square.
        """
        vector = self._replay_vector(integers)
        log = vector[: self.manifold.dim]
        mean_square = None
        if self.releases_mean_square:
            unit = self.clipping_radius / SQUARE_WEIGHT
            mean_square = NoisyMeanSquare(
                value=unit * float(vector[-1]), noise_std=unit * self.scale
            )
        return NoisyDraw(
            "gradient",
            self.noise_law(self.manifold.dim, self.scale),
            log,
            grid_width=self.grid_unit * 2.0 ** -grid_of(self.scale / self.grid_unit),
            base=self.center,
            max_length=self.radius,
            mean_square=mean_square,
        )

    def _replay_vector(self, integers: Any) -> np.ndarray:
        """Return the vector that was drawn in a release: the noisy mean logarithm.

        Parameters
        ----------
        integers : list of lists of int
            The noisy integers on the public grid that the certificate lists.

        Returns
        -------
        array of shape (dim,) or (dim + 1,)
            Coordinates at the center of the ball, and maybe the entry that stands for
            the mean squared length of the logarithms.
        """
        unit_scale = self.scale / self.grid_unit
        in_units = replay_draws(integers)(
            np.empty(self._n_released_numbers), [unit_scale]
        )
        return np.asarray(self.grid_unit * in_units)

    def point_after_step(self, vector: np.ndarray) -> np.ndarray:
        """Return the point to which one drawn vector leads, before it is projected.

        Parameters
        ----------
        vector : array of shape (dim,) or (dim + 1,)
            The coordinates of a mean logarithm at the center, and maybe the entry of a
            mean square.

        Returns
        -------
        array of shape point_shape
            The point. Confidence regions map drawn vectors by it.
        """
        return np.asarray(self._point_after_step(vector[None])[0])

    def entry_of_mean_square(self, mean_square: float) -> float:
        """Return the last entry of a drawn vector that stands for a given mean square.

        `_append_squares` appends a·|u|²/r to the logarithm u of a record, with a the
        `SQUARE_WEIGHT` and r the clipping radius. This is the inverse of
        `_mean_square_from_entry`.

        Parameters
        ----------
        mean_square : float
            The mean squared length of the logarithms of the records.
        """
        return SQUARE_WEIGHT / self.clipping_radius * mean_square

    def _point_after_step(self, vectors: np.ndarray) -> np.ndarray:
        """Return where the step leads from the center c of the ball, for drawn vectors.

        Parameters
        ----------
        vectors : array of shape (k, dim) or (k, dim + 1)
            The coordinates of drawn mean logarithms at c, and maybe the entry of a mean
            square, which is used if the step is divided by the Hessian.
        """
        steps = vectors[:, : self.manifold.dim]
        # Noise beyond what doubles hold becomes infinite, without a warning.
        with np.errstate(over="ignore", invalid="ignore"):
            if self.divides_by_hessian:
                steps = self._divided_step(steps, square_entries=vectors[:, -1:])
            return np.asarray(self.manifold.from_normal_coordinates(self.center, steps))

    def _divided_step(self, logs: np.ndarray, square_entries: np.ndarray) -> np.ndarray:
        """Shrink mean logarithms for their noise, and divide them by the mean Hessian.

        The mean Hessian of half the squared distance to the records, along the step, is
        estimated from the root mean square distance of the records. It is raised to at
        least 0.25. A step is at most as long as the radius of the ball, and as the
        injectivity radius, beyond which it would lead back.

        Parameters
        ----------
        logs : array of shape (k, dim)
            The coordinates of drawn mean logarithms.
        square_entries : array of shape (k, 1)
            The entries drawn with them that stand for the mean squared length of the
            logarithms, in the unit of `entry_of_mean_square`.

        Returns
        -------
        array of shape (k, dim)
            The coordinates of the steps.
        """
        mean_square = self._mean_square_from_entry(square_entries)
        root_mean_square = np.sqrt(np.clip(mean_square, 0.0, self.clipping_radius**2))
        steps = shrink_rows(logs, self.noise_std)
        step_length = np.linalg.norm(steps, axis=-1, keepdims=True)
        hessian = hessian_along_step(self.manifold, root_mean_square, step_length)
        divided = steps / np.maximum(hessian, _SMALLEST_HESSIAN)
        longest_step = min(self.radius, self.manifold.injectivity_radius)
        return clip_rows_to(divided, longest_step)

    def _mean_square_from_entry(self, entry: np.ndarray) -> np.ndarray:
        """Return the mean squared length of logarithms that a drawn entry stands for.

        Parameters
        ----------
        entry : array
            Last entries of drawn vectors, in the unit of `entry_of_mean_square`.
        """
        return self.clipping_radius / SQUARE_WEIGHT * entry


def _step_sensitivity(statistic: Any, size: int) -> float:
    """Return how far the mean of the records' vectors can move if one is replaced.

    A vector has length at most r, the clipping radius, so the exact mean of n moves
    by at most 2r/n. The mean is computed on a fixed-point grid; the rounding of each
    entry is added.

    Parameters
    ----------
    statistic : FrechetMean
        The mean that is to be released: its clipping radius and number of records.
    size : int
        The number of entries of each vector.
    """
    radius = statistic.clipping_radius
    return mean_sensitivity(radius, FixedPoint(2 * radius), size, statistic.n)


def _append_squares(radius: float, vectors: np.ndarray) -> np.ndarray:
    """Append a·|u|²/r to vectors u of length at most r, a the `SQUARE_WEIGHT`.

    Theorem (docs/theory/inference.md, "The mean square costs nothing"). For |u|, |v| ≤
    r and a² ≤ 2.77 the vectors (u, a|u|²/r) and (v, a|v|²/r) are at most 2r apart: no
    farther than u and v alone can be.
    """
    # Divided by the radius first: squares of very long vectors are beyond doubles.
    squares = np.sum((vectors / radius) ** 2, axis=-1, keepdims=True)
    return np.concatenate([vectors, SQUARE_WEIGHT * radius * squares], axis=-1)


def _sum_logs(
    radius: float, appends_square: bool, grid: FixedPoint, logs: np.ndarray
) -> np.ndarray:
    """Return the exact sum of logarithms that are clipped to a radius.

    Parameters
    ----------
    radius : float
        Longer logarithms are shortened to this length.
    appends_square : bool
        Whether their squared lengths are summed as well.
    grid : FixedPoint
        The grid to which entries are rounded.
    logs : array of shape (k, dim)
        The coordinates of the logarithms of k records.

    Returns
    -------
    array of int, of 2·dim or 2·(dim + 1) entries
        The high parts of the sums of all entries, then the low parts. `grid.mean` turns
        them into the mean.
    """
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        clipped = clip_rows_to(logs, radius)
        if appends_square:
            clipped = _append_squares(radius, clipped)
        return np.asarray(grid.sums(clipped).ravel())


def _sum_clipped_logs(
    manifold: Manifold,
    center: np.ndarray,
    radius: float,
    clipping_radius: float,
    appends_square: bool,
    grid: FixedPoint,
    points: np.ndarray,
) -> np.ndarray:
    """Clip some records into the public ball, and return the exact sum of their logarithms.

    The mean of the logarithms, from which the step is made, is the sum of these sums
    over all blocks of records, divided by n.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array of shape point_shape
        The center of the public ball, where logarithms are taken.
    radius : float
        The radius of the ball into which records are clipped.
    clipping_radius : float
        The length to which logarithms are clipped.
    appends_square : bool
        Whether their squared lengths are summed as well.
    grid : FixedPoint
        The grid on which the sum is exact.
    points : array of shape (k, *point_shape)
        The records: some of all that there are.

    Returns
    -------
    array of int
        The high parts of the sums of all entries, then the low parts.
    """
    records = np.asarray(points, dtype=np.float64)
    clipped = np.asarray(project_to_ball(manifold, center, radius, records))
    logs = logs_at(manifold, center, clipped)
    return _sum_logs(clipping_radius, appends_square, grid, logs)
