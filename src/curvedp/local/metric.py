"""Metric privacy of one record: geo-indistinguishability on the Earth and other spaces.
`MetricLaplace` reports a point whose density falls by e^{-ε} with every unit of
distance from the true one. docs/theory/local.md has the theorem and its proof.
"""

import math
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy  # scipy.optimize is loaded by its first use

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.core.chart import grid_of
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold, Sphere, Torus
from curvedp.laws import RiemannianLaplace
from curvedp.laws.exact import draw_slack, exact_laplace, has_exact_laplace
from curvedp.laws.exact.draw import point_from_grid
from curvedp.laws.exact.two_sphere import LARGEST_SCALE, draw_on_two_sphere
from curvedp.local.mechanism import LocalMechanism
from curvedp.local.spaces import RecordSpace, read_batch, record_space
from curvedp.local.torus import TorusLaplace
from curvedp.numerics.directed_rounding import round_fraction
from curvedp.numerics.enclosures import FILTER_GRID
from curvedp.randomness import Source
from curvedp.randomness.csprng import Allowance

# From this dimension on, a report that is mostly noise is refused.
HIGH_DIMENSION = 16

# A report is mostly noise if its expected angle is at least this, where 90° is the
# angle of a uniformly random direction.
LARGEST_ANGLE = math.pi / 3

# The largest level of a quantile: doubles do not tell higher ones from 1.
_LARGEST_LEVEL = 1 - 1e-12


class _DistanceDistribution(Protocol):
    """The distance from record to report, under density ∝ e^(−distance/scale).

    The distribution is the same about every record. Distances are in the manifold's own
    unit.
    """

    @property
    def mean_radius(self) -> float:
        """Mean distance from record to report."""
        ...

    @property
    def log_normalizer(self) -> float:
        """log ∫ e^(−distance/scale), the integral over the whole manifold."""
        ...

    def radial_cdf(self, r: Any) -> np.ndarray:
        """Return the probability that the distance is at most r, elementwise."""
        ...


class MetricLaplace(LocalMechanism):
    """Report a nearby point: the exact Laplace distribution of a homogeneous space.

    Theorem N1 (docs/theory/local.md). On a homogeneous space the integral
    Z = ∫ e^{−ε·d(x, y)} dy does not depend on x. So the densities of the reports of two
    records x and x′ satisfy

        |log p(y | x) − log p(y | x′)| = ε·|d(x, y) − d(x′, y)| ≤ ε·d(x, x′)

    for every report y, with equality for y beyond x or x′ on their geodesic. Rounding
    to a public grid keeps the bound (Theorem N2).

    Parameters
    ----------
    manifold : Manifold or Earth
        Where the records live: a homogeneous space with an exact Laplace distribution
        (spheres, rotations of the plane and of three-space, hyperbolic and Euclidean
        spaces, lines, planar shapes, affine-invariant SPD matrices), or a torus of one
        or two angles.
    epsilon : float
        ε per unit of distance: per kilometer on `Earth()`, per radian on a sphere.
    public_point : array, optional
        The record that replaces one that cannot be read; the origin by default.
    insist : bool
        Whether a report that is mostly noise, in high dimension, is wanted all the
        same.

    Attributes
    ----------
    scale : float
        1/ε in the unit of the manifold, rounded up.
    expected_displacement : float
        The mean distance from record to report, in the unit of `epsilon`.
    certificate_ : LocalCertificate
        The promise in full; after `randomize`, about those reports.

    Raises
    ------
    NotIntegrable
        If ε is too small for the distribution to exist, on a space of negative
        curvature.
    ParameterError
        If the space has no exact Laplace distribution, or if the report would be mostly
        noise.

    Examples
    --------
    >>> from curvedp.local import Earth
    >>> places = MetricLaplace(Earth(), epsilon=1.0)  # per kilometer
    >>> round(places.expected_displacement, 2)
    2.0
    >>> round(places.displacement_quantile(0.95), 2)
    4.74
    >>> places.randomize([51.5007, -0.1246]).shape
    (2,)
    """

    name = "metric-laplace"

    def __init__(
        self,
        manifold: "Manifold | RecordSpace",
        epsilon: float,
        *,
        public_point: Any = None,
        insist: bool = False,
    ) -> None:
        """Choose the noise scale 1/ε, rounded up; nothing is drawn yet."""
        self.space = record_space(manifold, public_point)
        self.epsilon = _validate.length("epsilon", epsilon)
        self.insist = bool(insist)
        # ε·unit_length·scale ≥ 1, exactly: the noise is never too small.
        per_unit = Fraction(self.epsilon) * Fraction(self.space.unit_length)
        self.scale = round_fraction(1 / per_unit, up=True)
        self._law = _laplace_distribution(self.space.manifold, self.scale)
        self._refuse_noise()
        self.certificate_ = self._certificate()

    def __repr__(self) -> str:
        place = "Earth()" if self.space.name == "earth" else repr(self.space.manifold)
        return f"MetricLaplace({place}, epsilon={self.epsilon:g})"

    @property
    def grid(self) -> int:
        """Number of binary digits of a report: coordinates are multiples of 2^-grid."""
        return grid_of(self.scale)

    @cached_property
    def expected_displacement(self) -> float:
        """The mean distance from record to report, in the unit of `epsilon`."""
        return self.space.unit_length * self._law.mean_radius

    def displacement_quantile(self, level: float) -> float:
        """Return the distance within which a report lies with a given probability.

        Parameters
        ----------
        level : float
            The probability, such as 0.95; at most 1 − 10⁻¹².

        Returns
        -------
        float
            The distance, in the unit of `epsilon`.
        """
        probability = _validate.within(
            "level", level, 0.0, _LARGEST_LEVEL, open_low=True
        )
        # Double an upper bound until it encloses the quantile, then find the root.
        upper = self._law.mean_radius
        while float(self._law.radial_cdf(upper)) < probability:
            upper *= 2

        def excess(radius: float) -> float:
            """Return P(distance ≤ radius) − level, which increases."""
            return float(self._law.radial_cdf(radius)) - probability

        radius = scipy.optimize.brentq(excess, 0.0, upper)
        return self.space.unit_length * float(radius)

    def radial_probability(self, distances: Any) -> np.ndarray:
        """Return the probability that a report lies within given distances.

        Parameters
        ----------
        distances : array
            Distances from the record, in the unit of `epsilon`.
        """
        lengths = _validate.array("distances", distances) / self.space.unit_length
        return np.asarray(self._law.radial_cdf(lengths))

    def log_density(self, reports: Any, X: Any) -> np.ndarray:
        """Return the log-density of reports given their records.

        It is −ε·d(record, report) − log Z, where d is the distance and Z = ∫ e^(−ε·d).
        A server computes likelihoods from it. The difference of two values is the
        log-ratio that metric privacy bounds.

        Parameters
        ----------
        reports, X : arrays, shape (n, *record_shape)
            One report for each record.

        Returns
        -------
        array, shape (n,)
            Logarithms of densities per unit of volume, with lengths in the unit of
            `epsilon`. A single number if X is a single record.
        """
        report_points, _ = read_batch(self.space, reports)
        points, is_single = read_batch(self.space, X)
        with quiet_about_records():
            distances = self.space.manifold.dist(points, report_points)
        # Volumes in the unit of ε are unit_length^dim times the manifold's volumes.
        log_volume = self.space.manifold.dim * math.log(self.space.unit_length)
        values = -distances / self.scale - self._law.log_normalizer - log_volume
        return np.asarray(values[0] if is_single else values)

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters that a certificate states.

        From them anyone can reconstruct the mechanism.

        Returns
        -------
        dict
            "epsilon": ε for each unit of distance. "unit": the name of this unit, such
            as "km". "unit_length": how many such units one unit of the manifold's
            distance has. "scale": the noise scale in the manifold's distance. "grid":
            the number k for which coordinates of reports are multiples of 2^-k.
            "insist": whether the caller has accepted noise that hides almost
            everything. "public_record": the record that replaces unreadable ones.
            "expected_displacement": the mean distance from record to report, in the
            unit of ε.
        """
        return {
            "epsilon": self.epsilon,
            "unit": self.space.unit,
            "unit_length": self.space.unit_length,
            "scale": self.scale,
            "grid": self.grid,
            "insist": self.insist,
            "public_record": self.space.public_record.tolist(),
            "expected_displacement": self.expected_displacement,
        }

    def guarantee_record(self) -> dict[str, Any]:
        """Return the guarantee of metric privacy: ε for each unit of distance."""
        return {"kind": "metric", "epsilon": self.epsilon, "per": self.space.unit}

    @property
    def report_slack(self) -> float:
        """Bound of the total variation between one drawn report and an exact one.

        It is 2^-100, or more on matrices, where a draw takes many trials and so many
        random bytes.
        """
        if self._draws_many or isinstance(self._law, TorusLaplace):
            return Allowance(self.space.manifold.dim).tau()
        return draw_slack("laplace", self.space.manifold, self.scale)

    def draw_reports(self, points: np.ndarray, source: Source) -> np.ndarray:
        """Draw an exact Laplace report about each point, rounded to the grid.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            The records as points of the manifold.
        source : Source
            The random bits.

        Returns
        -------
        array of integers, shape (n, ...)
            The reports in units of 2^-grid: coordinates, or angles on a torus.
        """
        manifold = self.space.manifold
        if self._draws_many:
            return draw_on_two_sphere(points, self.scale, source, self.grid).integers
        if isinstance(self._law, TorusLaplace):
            rows = [self._law.draw_exactly(p, source, self.grid) for p in points]
            return np.array(rows, dtype=object)
        draws = [
            exact_laplace(manifold, self.scale, p, source=source, grid=self.grid)
            for p in points
        ]
        return np.array([draw.integers for draw in draws])

    @property
    def _draws_many(self) -> bool:
        """Whether the fast sampler of the two-sphere applies, which draws in batches.

        It needs a scale that is not too large and a grid that doubles can resolve; any
        other space or scale takes one exact draw for each record.
        """
        is_sphere = type(self.space.manifold) is Sphere and self.space.manifold.dim == 2
        return is_sphere and self.scale <= LARGEST_SCALE and self.grid <= FILTER_GRID

    def simulate_points(
        self, points: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Return reports with the same distribution, drawn in floats. NOT private.

        Parameters
        ----------
        points : array, shape (n, *point_shape)
            The records as points of the manifold.
        rng : numpy.random.Generator
            The source of randomness.
        """
        if isinstance(self._law, TorusLaplace):
            return self._law.sample(rng, points)
        return RiemannianLaplace(self.space.manifold, self.scale).sample(rng, points)

    def points_from_grid(self, integers: np.ndarray) -> np.ndarray:
        """Return the reported points: coordinates, projected to the manifold.

        Parameters
        ----------
        integers : array of integers, shape (n, ...)
            Reports in units of 2^-grid, as int64 or as Python integers.
        """
        manifold = self.space.manifold
        if not len(integers):
            return np.empty((0, *manifold.point_shape))
        if integers.dtype == np.int64:
            # Multiplication by a power of two is exact.
            coordinates = integers * 2.0**-self.grid
        else:
            # Python divides integers of any size with one correct rounding.
            units_per_one = 1 << self.grid
            numbers = [int(integer) / units_per_one for integer in integers.ravel()]
            coordinates = np.array(numbers).reshape(integers.shape)
        if isinstance(self._law, TorusLaplace):
            return coordinates
        if isinstance(manifold, Sphere):
            return np.asarray(manifold.project(coordinates))
        points = [point_from_grid(manifold, row) for row in coordinates]
        return np.array(points)

    def _refuse_noise(self) -> None:
        """Raise if reports on a sphere of high dimension would be mostly noise.

        There nearly all of a wide Laplace distribution lies at 90° from its record, as
        a random direction does. `insist` lets a caller have it all the same.
        """
        manifold = self.space.manifold
        is_high = isinstance(manifold, Sphere) and manifold.dim >= HIGH_DIMENSION
        if not is_high or self.insist:
            return
        angle = self._law.mean_radius
        if angle >= LARGEST_ANGLE:
            raise ParameterError(
                f"per radian puts a report {math.degrees(angle):.0f}° from its record on "
                f"average in dimension {manifold.dim} (pure noise is at 90°); take a "
                "larger epsilon, fewer dimensions or PrivUnit, or the option insist (--insist)",
                parameter="epsilon",
                value=self.epsilon,
            )


def _laplace_distribution(manifold: Manifold, scale: float) -> _DistanceDistribution:
    """Return a space's Laplace distribution, or raise where no exact draw is known.

    Parameters
    ----------
    manifold : Manifold
        A homogeneous space: on another one the normalizer, and so the privacy, would
        depend on the record.
    scale : float
        1/ε in the manifold's own unit of distance.

    Raises
    ------
    ParameterError
        If the space is not homogeneous, or its Laplace distribution cannot be drawn
        exactly.
    """
    if isinstance(manifold, Torus):
        return TorusLaplace(manifold.dim, scale)
    if not (manifold.is_homogeneous and has_exact_laplace(manifold)):
        raise ParameterError(
            "has no exact Laplace law; take a sphere, rotations of three-space, a "
            "hyperbolic or Euclidean space, a torus of one or two angles, or Earth()",
            parameter="manifold",
            value=manifold,
        )
    return RiemannianLaplace(manifold, scale)
