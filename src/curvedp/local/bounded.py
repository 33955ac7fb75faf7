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
        """Check the center; it also stands for a record that cannot be read.

        Parameters
        ----------
        manifold : Manifold
            The manifold of the records.
        center : array
            The center of the public ball.
        radius : float
            The radius of the ball, already checked.
        """
        super().__init__(manifold, center)
        # The class is frozen, so that its fields are set in this way.
        object.__setattr__(self, "radius", radius)

    radius: float

    def read(self, records: np.ndarray) -> np.ndarray:
        """Return every record clipped to the public ball, so that noise can cover it.

        Parameters
        ----------
        records : array, shape (n, *point_shape)
            Whatever was recorded. An unreadable record becomes the ball's center.

        Returns
        -------
        array, shape (n, *point_shape)
            Points within `radius` of the center, up to rounding in doubles.
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
        The promise in full; after `randomize`, about those reports.
    """

    kind: ClassVar[NoiseKind]

    def __init__(
        self, manifold: Manifold, center: Any, radius: float, guarantee: Guarantee
    ) -> None:
        """Calibrate the noise to the diameter of the ball; nothing is drawn yet."""
        if not isinstance(manifold, Manifold):
            raise ParameterError(
                "must be a manifold", parameter="manifold", value=manifold
            )
        self.manifold = manifold
        self.radius = _validate.length("radius", radius)
        self.guarantee = guarantee
        self.space = _BallRecords(manifold, center, self.radius)
        # Two records of the ball are at most a diameter apart.
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
        """Return the smallest noise scale that meets the guarantee.

        Two records of the ball are at most `sensitivity` = 2ρ apart (rounded up), so
        noise calibrated to that distance makes any two records indistinguishable.
        Subclasses choose the family of noise.
        """

    @property
    def report_space(self) -> PointRecords:
        """The manifold: reports are not clipped to the ball of the records."""
        return PointRecords(self.manifold, self.space.public_record)

    @property
    def grid(self) -> int:
        """Number of binary digits of a report: reports are multiples of 2^-grid."""
        return grid_of(self.scale)

    def parameters(self) -> dict[str, Any]:
        """Return the public ball, its diameter, the noise scale and the grid.

        A verifier builds the mechanism again from these JSON values.
        """
        return {
            "center": self.space.public_record.tolist(),
            "radius": self.radius,
            "sensitivity": self.sensitivity,
            "scale": self.scale,
            "grid": self.grid,
        }

    def guarantee_record(self) -> dict[str, Any]:
        """Return the promise of local privacy: in words, and as JSON values."""
        return {
            "kind": "local",
            "promise": str(self.guarantee),
            "definition": self.guarantee.to_dict(),
        }

    @property
    def report_slack(self) -> float:
        """Bound of the total variation between one drawn report and an exact one.

        The random bits of the system are nearly uniform, with a known distance for each
        block. A draw is permitted a public number of bytes (else nothing is released),
        from which the bound follows: 2^-100 for few coordinates, more on matrices, where
        a draw takes many trials.
        """
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
        """Add exact Gaussian or Laplace noise to each clipped record.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            The clipped records.
        source : Source
            The random bits.

        Returns
        -------
        array of integers, shape (n, ...)
            The reports in units of 2^-grid.
        """
        if self._is_flat_gaussian:
            return self._draw_flat(points, source)
        draws = [
            exact_draw(
                self.kind,
                self.manifold,
                self.scale,
                point,
                source=source,
                grid=self.grid,
            )
            for point in points
        ]
        return np.array([draw.integers for draw in draws])

    def _draw_flat(self, points: np.ndarray, source: Source) -> np.ndarray:
        """Add independent Gaussian noise to the coordinates of many records at once.

        In flat space a Gaussian has independent coordinates. So all numbers of all
        records are one long vector, and each block of it is one exact draw.

        Parameters
        ----------
        points : array, shape (n, d)
            The clipped records.
        source : Source
            The random bits.

        Returns
        -------
        array of integers, shape (n, d)
            The reports in units of 2^-grid.
        """
        numbers = points.ravel()
        # Python integers, since wide noise on a fine grid overflows 64 bits.
        integers = np.empty(numbers.size, dtype=object)
        for start in range(0, numbers.size, _BLOCK_NUMBERS):
            block = numbers[start : start + _BLOCK_NUMBERS]
            draw = exact_gaussian(
                Euclidean(block.size), self.scale, block, source=source, grid=self.grid
            )
            integers[start : start + _BLOCK_NUMBERS] = draw.integers
        return integers.reshape(points.shape)

    def points_from_grid(self, integers: np.ndarray) -> np.ndarray:
        """Return the reported points: coordinates, projected to the manifold.

        Parameters
        ----------
        integers : array of integers, shape (n, ...)
            Reports in units of 2^-grid.
        """
        units_per_one = 1 << self.grid
        numbers = [int(integer) / units_per_one for integer in integers.ravel()]
        coordinates = np.array(numbers, dtype=np.float64).reshape(integers.shape)
        if isinstance(self.manifold, Euclidean):
            return coordinates
        points = [point_from_grid(self.manifold, row) for row in coordinates]
        return np.array(points)

    def simulate_points(
        self, points: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return reports with the same noise, drawn in floats. NOT private.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            The clipped records.
        rng : numpy.random.Generator
            The source of randomness.
        """
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
        """Return the smallest σ of Gaussian noise that meets the guarantee.

        The exact privacy profile of a curator's Gaussian mechanism is inverted at the
        diameter of the ball.
        """
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
        """Return the smallest scale of Laplace noise that meets the guarantee.

        For pure ε-privacy on a homogeneous space it is at most 2ρ/ε, up to rounding.
        """
        mechanism = LaplaceMechanism.calibrated(
            self.manifold, self.sensitivity, self.guarantee
        )
        return mechanism.scale
