"""True local privacy of records in a public ball: Gaussian and Laplace noise.

Two records in a ball of radius ρ are at most 2ρ apart. So noise that is calibrated to
the sensitivity 2ρ makes one report private, whatever the record is. The noise is that
of the mechanisms that a curator uses, with the same exact profiles.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.core.chart import grid_of
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Manifold, project_to_ball
from curvedp.laws import RiemannianGaussian, RiemannianLaplace
from curvedp.laws.exact import draw_slack, exact_draw, exact_gaussian, point_from_grid
from curvedp.local.mechanism import LocalMechanism
from curvedp.local.spaces import PointRecords
from curvedp.mechanisms import GaussianMechanism, LaplaceMechanism
from curvedp.mechanisms.vector import NoiseKind
from curvedp.numerics.directed_rounding import round_up
from curvedp.privacy import Guarantee
from curvedp.randomness import Source
from curvedp.randomness.csprng import Allowance

# Clipping is computed in doubles: records may be farther from the center than the
# radius by this part of it.
_CLIPPING_ERROR = 1e-9

# Numbers of one exact flat draw, which one public bound of random bytes covers.
_BLOCK_NUMBERS = 4096


class _BallRecords(PointRecords):
    """Records of a public ball; what cannot be read becomes its center."""

    def __init__(self, manifold: Manifold, center: Any, radius: float) -> None:
        super().__init__(manifold, center)
        object.__setattr__(self, "radius", radius)

    radius: float

    def read(self, records: np.ndarray) -> np.ndarray:
        """Return every record clipped to the ball.

        Parameters
        ----------
        records : array, shape (n, *point_shape)
            Whatever was recorded.
        """
        clipped = project_to_ball(
            self.manifold, self.public_record, self.radius, records
        )
        return np.asarray(clipped)


class BoundedNoise(LocalMechanism):
    """Noise about a record that is clipped to a public ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array
        The center of the public ball.
    radius : float
        Its radius ρ; records farther out are clipped.
    guarantee : Guarantee
        The local guarantee of one report, such as `GDP(1.0)` or `PureDP(2.0)`: any
        record of the ball could have been any other one.

    Attributes
    ----------
    scale : float
        The scale of the noise.
    certificate_ : LocalCertificate
        What is promised; after `randomize`, about those reports.
    """

    kind: ClassVar[NoiseKind]

    def __init__(
        self, manifold: Manifold, center: Any, radius: float, guarantee: Guarantee
    ) -> None:
        if not isinstance(manifold, Manifold):
            raise ParameterError(
                "must be a manifold", parameter="manifold", value=manifold
            )
        self.manifold = manifold
        self.radius = _validate.length("radius", radius)
        self.guarantee = guarantee
        self.space = _BallRecords(manifold, center, self.radius)
        self.sensitivity = round_up(2 * self.radius * (1 + _CLIPPING_ERROR))
        self.scale = self._calibrate()
        self.certificate_ = self._certificate()

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.manifold!r}, radius={self.radius:g}, "
            f"guarantee={self.guarantee!r})"
        )

    @abstractmethod
    def _calibrate(self) -> float:
        """Return the smallest noise scale that meets the guarantee."""

    @property
    def report_space(self) -> PointRecords:
        """The manifold: reports are not clipped to the ball of the records."""
        return PointRecords(self.manifold, self.space.public_record)

    @property
    def grid(self) -> int:
        """Reports are multiples of 2^-grid."""
        return grid_of(self.scale)

    def parameters(self) -> dict[str, Any]:
        """Return the public ball, the scale and the grid."""
        return {
            "center": self.space.public_record.tolist(),
            "radius": self.radius,
            "sensitivity": self.sensitivity,
            "scale": self.scale,
            "grid": self.grid,
        }

    def guarantee_record(self) -> dict[str, Any]:
        """Return local privacy with the guarantee."""
        return {
            "kind": "local",
            "promise": str(self.guarantee),
            "definition": self.guarantee.to_dict(),
        }

    @property
    def report_slack(self) -> float:
        """2^-100 for few coordinates; more on matrices, where a draw takes trials."""
        if self._is_flat_gaussian:
            # A record of d coordinates lies in at most so many blocks.
            n_blocks = (self.manifold.dim - 2) // _BLOCK_NUMBERS + 2
            return n_blocks * Allowance(_BLOCK_NUMBERS).tau()
        return draw_slack(self.kind, self.manifold, self.scale)

    @property
    def _is_flat_gaussian(self) -> bool:
        """Whether all coordinates are independent normals, drawn many at once."""
        return self.kind == "gaussian" and isinstance(self.manifold, Euclidean)

    def draw_reports(self, points: np.ndarray, source: Source) -> np.ndarray:
        if self._is_flat_gaussian:
            return self._draw_flat(points, source)
        draws = [
            exact_draw(
                self.kind, self.manifold, self.scale, p, source=source, grid=self.grid
            )
            for p in points
        ]
        return np.array([draw.integers for draw in draws])

    def _draw_flat(self, points: np.ndarray, source: Source) -> np.ndarray:
        """Draw independent Gaussian coordinates, many records at once.

        Parameters
        ----------
        points : array, shape (n, d)
            The clipped records.
        source : Source
            The random bits.
        """
        numbers = points.ravel()
        integers = np.empty(numbers.size, dtype=object)
        for start in range(0, numbers.size, _BLOCK_NUMBERS):
            block = numbers[start : start + _BLOCK_NUMBERS]
            draw = exact_gaussian(
                Euclidean(block.size), self.scale, block, source=source, grid=self.grid
            )
            integers[start : start + _BLOCK_NUMBERS] = draw.integers
        return integers.reshape(points.shape)

    def points_from_grid(self, integers: np.ndarray) -> np.ndarray:
        unit = 1 << self.grid
        flat = np.array([int(k) / unit for k in integers.ravel()], dtype=np.float64)
        coordinates = flat.reshape(integers.shape)
        if isinstance(self.manifold, Euclidean):
            return coordinates
        points = [point_from_grid(self.manifold, row) for row in coordinates]
        return np.array(points)

    def simulate_points(
        self, points: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        law: RiemannianGaussian | RiemannianLaplace
        if self.kind == "gaussian":
            law = RiemannianGaussian(self.manifold, self.scale)
        else:
            law = RiemannianLaplace(self.manifold, self.scale)
        return law.sample(rng, points)


class LocalGaussian(BoundedNoise):
    """Riemannian Gaussian noise about one record of a public ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array
        The center of the public ball.
    radius : float
        Its radius ρ; records farther out are clipped.
    guarantee : Guarantee
        The local guarantee of one report, such as `GDP(1.0)`.

    Examples
    --------
    >>> from curvedp.geometry import Euclidean
    >>> from curvedp.privacy import GDP
    >>> noise = LocalGaussian(Euclidean(2), [0.0, 0.0], 1.0, GDP(0.5))
    >>> round(noise.scale, 6)
    4.0
    """

    name = "local-gaussian"
    kind = "gaussian"

    def _calibrate(self) -> float:
        mechanism = GaussianMechanism.calibrated(
            self.manifold, self.sensitivity, self.guarantee
        )
        return mechanism.sigma


class LocalLaplace(BoundedNoise):
    """Riemannian Laplace noise about one record of a public ball.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center : array
        The center of the public ball.
    radius : float
        Its radius ρ; records farther out are clipped.
    guarantee : Guarantee
        The local guarantee of one report, such as `PureDP(2.0)`.

    Examples
    --------
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.privacy import PureDP
    >>> noise = LocalLaplace(Sphere(2), [1.0, 0.0, 0.0], 0.5, PureDP(2.0))
    >>> noise.scale <= 0.5 * (1 + 1e-8)
    True
    """

    name = "local-laplace"
    kind = "laplace"

    def _calibrate(self) -> float:
        mechanism = LaplaceMechanism.calibrated(
            self.manifold, self.sensitivity, self.guarantee
        )
        return mechanism.scale
