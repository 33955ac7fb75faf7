"""Exact Laplace draws about many points of the two-sphere at once, rounded to a grid.
Random numbers are first evaluated in floats with proved error bounds, called float
balls. The few draws whose rounding is not certain then are computed one by one with
more bits, as Arb balls.

The further bits belong to the same random numbers. So each draw has exactly the law of
the ideal draw, rounded. Theorem N5 (docs/theory/local.md) has the proof.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from flint import arb

from curvedp.laws.exact.charts import Enclosure
from curvedp.numerics.enclosures import (
    FILTER_GRID,
    FloatBall,
    decide,
    first_precision,
    round_arb,
)
from curvedp.randomness.csprng import Allowance, Source
from curvedp.randomness.lazy_reals import LazyUniforms

LARGEST_SCALE = 1.0
"""The sphere accepts about half of the radii of the plane at this scale."""

BLOCK = 1 << 13
"""Draws that are evaluated together, and whose random bytes one public bound covers.

Change it only together with `_ALLOWED_NUMBERS`, which says why the bound suffices.
"""

Vector = list[Enclosure]
"""A vector of R³: three numbers, or arrays of numbers, in balls."""

# Between these two numbers lies π; a radius outside of them is compared in floats.
_BELOW_PI = 3.141592653589792
_ABOVE_PI = 3.141592653589794

# A quarter of a radius below π is below this number, where the series are accurate.
_LARGEST_QUARTER = 0.786

# Terms of the series of sin y/y and cos y in powers of y². The next term is below 2^-70.
_SERIES_TERMS = 10

# The `Allowance` of a block is that of a draw of so many numbers: 4 MiB of random bytes
# and τ = 2^-100. A block of 2^13 draws takes at most 70 000 uniforms (at the largest
# scale), which is 0.56 MB at 64 bits each. An undecided comparison doubles the bits of
# all uniforms of a batch. At 256 bits these are 2.2 MB, and a decision is still open
# with probability below 2^-180. So the allowance is exceeded with probability below
# 2^-100.
_ALLOWED_NUMBERS = 4096

# How many proposals a batch holds, in units of the expected number, and how many more.
# π/4 of the pairs for a direction lie in the disk, and 1.3 is a little more than 4/π.
_SPARE_RADII = 1.02
_PAIRS_PER_DIRECTION = 1.3
_SPARE_TRIALS = 8


class SphereDraws(NamedTuple):
    """Rounded draws about many points of the two-sphere.

    Attributes
    ----------
    integers : array of int64, shape (n, 3)
        The drawn points in units of 2^-grid.
    tau : float
        A bound of the total variation between the law of each row and its ideal
        rounded law, with AES as an ideal cipher.
    n_in_arb : int
        How many draws float balls left undecided, so that Arb balls settled them. It is
        a diagnosis of speed.
    """

    integers: np.ndarray
    tau: float
    n_in_arb: int


def draw_on_two_sphere(
    centers: np.ndarray, scale: float, source: Source, grid: int
) -> SphereDraws:
    """Draw from the Laplace law about each center on the two-sphere, exactly.

    The radius r has the density ∝ sin(r)·e^{−r/σ} on (0, π). With independent uniforms
    u, v and w, the proposal r = −σ·log(u·v) has the density ∝ r·e^{−r/σ}, and is
    accepted if r < π and w·r < sin r. The direction (a, b) = (x² − y², 2xy)/(x² + y²)
    is uniform on the circle if (x, y) is uniform in the disk (von Neumann 1951). With
    the frame (e₁, e₂) at the center p, the draw is cos r·p + sin r·(a·e₁ + b·e₂).

    Parameters
    ----------
    centers : array, shape (n, 3)
        Finite vectors, none of them 0. The footpoints are centers/|center|, where the
        float64 entries are taken as exact numbers.
    scale : float
        The scale σ of the law, at most `LARGEST_SCALE`.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid, at most `FILTER_GRID`.

    Returns
    -------
    SphereDraws
        One rounded draw for each center, with the slack `tau`.
    """
    if not (0 < scale <= LARGEST_SCALE and 1 <= grid <= FILTER_GRID):
        raise ValueError("the scale or the grid is out of the range of this sampler")

    # Draw in blocks, so that memory stays flat. Each block has its own allowance of
    # random bits, and the largest slack is returned.
    integers = np.empty((len(centers), 3), dtype=np.int64)
    tau = 0.0
    n_in_arb = 0
    for start in range(0, len(centers), BLOCK):
        rows = slice(start, start + BLOCK)
        allowance = Allowance(_ALLOWED_NUMBERS)
        noise = _draw_noise(len(centers[rows]), scale, allowance.meter(source))
        n_in_arb += noise.round_points(centers[rows], grid, integers[rows])
        tau = max(tau, allowance.tau())
    return SphereDraws(integers, tau, n_in_arb)


@dataclass(frozen=True)
class _Radii:
    """Proposed radii r = −σ·log(u·v), with the numbers w that decide about them.

    u, v and w are independent uniforms. A radius is accepted if r < π and w·r < sin r.

    Parameters
    ----------
    uniforms : LazyUniforms
        u, v and w of each proposal, one after the other.
    scale : float
        The scale σ of the law.
    """

    uniforms: LazyUniforms
    scale: float

    def floats(self) -> FloatBall:
        """Return all proposed radii −σ·log(u·v) as float balls.

        u and v are uniform, and σ is the scale of the law.
        """
        u = self._uniform(0)
        v = self._uniform(1)
        return (u.log() + v.log()) * (-self.scale)

    def ball(self, index: int, bits: int) -> arb:
        """Return one radius as an Arb ball.

        Parameters
        ----------
        index : int
            The index of the proposal in its batch.
        bits : int
            The precision of its uniforms.

        Returns
        -------
        arb
            A ball around the radius.
        """
        u, v = self.uniforms.balls(bits, (3 * index, 3 * index + 1))
        return -(u.log() + v.log()) * arb(self.scale)

    def accepted_indices(self, radii: FloatBall) -> np.ndarray:
        """Return the indices of the accepted proposals, decided with certainty.

        Parameters
        ----------
        radii : FloatBall
            The radii of all proposals, as `floats` returned them.

        Returns
        -------
        array of int
            The indices, in increasing order. Where floats do not decide, Arb does.
        """
        # Compare r with π. A ball that is not certainly below it is replaced by 1.
        is_short = radii.mid + radii.rad < _BELOW_PI
        is_long = radii.mid - radii.rad > _ABOVE_PI
        short = FloatBall(
            np.where(is_short, radii.mid, 1.0), np.where(is_short, radii.rad, 0.0)
        )

        # Compare w·r with sin r.
        excess = self._uniform(2) * short - _sin_cos(short).sin
        is_accepted = is_short & (excess.mid + excess.rad < 0)
        is_rejected = is_long | (is_short & (excess.mid - excess.rad > 0))

        # The few proposals that floats do not decide.
        for index in np.flatnonzero(~(is_accepted | is_rejected)).tolist():
            is_accepted[index] = self._is_accepted(index)
        return np.flatnonzero(is_accepted)

    def _is_accepted(self, index: int) -> bool:
        """Decide with certainty whether one proposal is accepted, by adding bits.

        Called for the few proposals that float balls do not decide.

        Parameters
        ----------
        index : int
            The index of the proposal in its batch.

        Returns
        -------
        bool
            Whether r < π and w·r < sin r.
        """

        def is_accepted_at(bits: int) -> bool | None:
            """Return whether it is accepted; None if so few bits do not decide it."""
            r = self.ball(index, bits)
            if r > arb.pi():
                return False
            if not r < arb.pi():
                return None

            # The third of the three uniforms of this proposal.
            w = self.uniforms.balls(bits, (3 * index + 2,))[0]
            excess = w * r - r.sin()
            if excess.contains(0):
                return None
            return bool(excess < 0)

        return decide(is_accepted_at)

    def _uniform(self, which: int) -> FloatBall:
        """Return one of the three uniforms of every proposal as float balls.

        Parameters
        ----------
        which : {0, 1, 2}
            u, v or w, which follow each other in `uniforms`.

        Returns
        -------
        FloatBall
            One ball for each proposal.
        """
        return self.uniforms.floats()[which::3]


@dataclass(frozen=True)
class _Directions:
    """Uniform points of the square [−1, 1]², of which those in the unit disk are used.

    Parameters
    ----------
    uniforms : LazyUniforms
        The pairs, as (x + 1)/2 and (y + 1)/2.
    """

    uniforms: LazyUniforms

    def floats(self) -> tuple[FloatBall, FloatBall]:
        """Return the coordinates x and y of all points as float balls."""
        points = self.uniforms.floats() * 2.0 - 1.0
        return points[0::2], points[1::2]

    def balls(self, index: int, bits: int) -> tuple[arb, arb]:
        """Return x and y of one point as Arb balls.

        Parameters
        ----------
        index : int
            The index of the point in its batch.
        bits : int
            The precision of its uniforms.

        Returns
        -------
        x, y : arb
            Balls around the coordinates, which lie in [−1, 1].
        """
        u, v = self.uniforms.balls(bits, (2 * index, 2 * index + 1))
        return 2 * u - 1, 2 * v - 1

    def accepted_indices(self) -> np.ndarray:
        """Return the indices of the points in the disk, decided with certainty.

        Returns
        -------
        array of int
            The indices, in increasing order. Where floats do not decide, Arb does.
        """
        x, y = self.floats()
        excess = x * x + y * y - 1.0
        is_inside = excess.mid + excess.rad < 0
        is_outside = excess.mid - excess.rad > 0
        for index in np.flatnonzero(~(is_inside | is_outside)).tolist():
            is_inside[index] = self._is_inside(index)
        return np.flatnonzero(is_inside)

    def _is_inside(self, index: int) -> bool:
        """Decide with certainty whether one point lies in the disk, by adding bits.

        Called for the few points that float balls do not decide.

        Parameters
        ----------
        index : int
            The index of the point in its batch.

        Returns
        -------
        bool
            Whether x² + y² < 1.
        """

        def is_in_disk_at(bits: int) -> bool | None:
            """Return whether it is in the disk; None if that is not certain yet."""
            x, y = self.balls(index, bits)
            excess = x * x + y * y - 1
            return None if excess.contains(0) else bool(excess < 0)

        return decide(is_in_disk_at)


class _RadiusBatch(NamedTuple):
    """Proposed radii, and which of them are used.

    Attributes
    ----------
    proposals : _Radii
        The lazy numbers of all proposals.
    indices : array of int
        The accepted proposals.
    floats : FloatBall
        All proposals as float balls.
    """

    proposals: _Radii
    indices: np.ndarray
    floats: FloatBall


class _DirectionBatch(NamedTuple):
    """Proposed directions, and which of them are used.

    Attributes
    ----------
    proposals : _Directions
        The lazy numbers of all proposals.
    indices : array of int
        The accepted proposals.
    """

    proposals: _Directions
    indices: np.ndarray


@dataclass(frozen=True)
class _Noise:
    """Radii and directions of a block of draws, in batches of accepted proposals.

    Parameters
    ----------
    radii : list of _RadiusBatch
        As many accepted radii, in all batches together, as there are draws.
    directions : list of _DirectionBatch
        The accepted directions: as many as radii.
    """

    radii: list[_RadiusBatch]
    directions: list[_DirectionBatch]

    def round_points(self, centers: np.ndarray, grid: int, integers: np.ndarray) -> int:
        """Compute the draws about the centers, and write them into `integers`.

        A draw is the end of a geodesic from its center, with a radius and a direction
        of this noise. All draws are first computed together in float balls: float64
        numbers with proved error radii. Those whose rounding is not certain are then
        computed one by one with more bits.

        Parameters
        ----------
        centers : array, shape (n, 3)
            The vectors along which the footpoints lie.
        grid : int
            The grid is 2^-grid.
        integers : array of int64, shape (n, 3)
            Receives the draws.

        Returns
        -------
        int
            How many draws were settled in Arb balls.
        """
        # All draws together. A draw is settled if all three coordinates are.
        is_certain = np.ones(len(centers), dtype=bool)
        with np.errstate(all="ignore"):
            for column, coordinate in enumerate(self._points_in_floats(centers)):
                rounded, is_coordinate_certain = coordinate.round(grid)
                integers[:, column] = rounded
                is_certain &= is_coordinate_certain

        # The few that float balls do not decide, one by one. Each needs the batch and
        # the proposal from which its radius and its direction came.
        undecided = np.flatnonzero(~is_certain)
        radius_positions = list(_proposal_positions(self.radii))
        direction_positions = list(_proposal_positions(self.directions))
        for row in undecided.tolist():
            integers[row] = self._round_with_arb(
                centers[row], radius_positions[row], direction_positions[row], grid
            )
        return len(undecided)

    def _points_in_floats(self, centers: np.ndarray) -> Vector:
        """Return all draws as float balls, one array for each coordinate.

        Parameters
        ----------
        centers : array, shape (n, 3)
            The vectors along which the footpoints lie.

        Returns
        -------
        list of three FloatBall
            The coordinates of the n draws.
        """
        # The accepted radii r, and the accepted points (x, y) of the unit disk, which
        # determine the directions.
        r = _join([batch.floats[batch.indices] for batch in self.radii])
        x_batches = []
        y_batches = []
        for batch in self.directions:
            x, y = batch.proposals.floats()
            x_batches.append(x[batch.indices])
            y_batches.append(y[batch.indices])

        center = [FloatBall(column) for column in centers.T]
        return _point_in_polar_coordinates(
            center,
            _frame_sign(centers[:, 0]),
            _sin_cos(r),
            _join(x_batches),
            _join(y_batches),
        )

    def _round_with_arb(
        self,
        center: np.ndarray,
        radius_position: "_ProposalPosition",
        direction_position: "_ProposalPosition",
        grid: int,
    ) -> list[int]:
        """Return one rounded draw; bits are added until its rounding is certain.

        Called for the few draws that float balls do not decide.

        Parameters
        ----------
        center : array of shape (3,)
            The vector along which the footpoint lies.
        radius_position, direction_position : _ProposalPosition
            Where the radius and the direction of this draw stand.
        grid : int
            The grid is 2^-grid.

        Returns
        -------
        list of int
            The three coordinates in units of 2^-grid.
        """
        radii = self.radii[radius_position.batch].proposals
        directions = self.directions[direction_position.batch].proposals
        exact_center = [arb(entry) for entry in center.tolist()]
        frame_sign = float(_frame_sign(center[0]))

        def evaluate(bits: int) -> list[int] | None:
            """Return the three integers; None if one is not certain yet."""
            r = radii.ball(radius_position.place, bits)
            sin, cos = r.sin_cos()
            x, y = directions.balls(direction_position.place, bits)
            point = _point_in_polar_coordinates(
                exact_center, frame_sign, _SinCos(sin, cos), x, y
            )

            integers = []
            for coordinate in point:
                integer = round_arb(coordinate, grid)
                if integer is None:
                    return None
                integers.append(integer)
            return integers

        return decide(evaluate, first_precision(grid))


def _draw_noise(count: int, scale: float, source: Source) -> _Noise:
    """Draw the radii and directions of a block by rejection sampling.

    Both are drawn before any center is looked at, so how long it takes does not depend
    on the data. Radii are proposed from an envelope, and directions from pairs (x, y)
    in a square, of which those in the unit disk are accepted.

    Called once for each block of centers.

    Parameters
    ----------
    count : int
        How many draws.
    scale : float
        The scale σ of the law.
    source : Source
        The random bits.

    Returns
    -------
    _Noise
        `count` accepted radii and directions.
    """
    radii = _draw_radii(count, scale, source)
    return _Noise(radii, _draw_directions(count, source))


def _draw_radii(count: int, scale: float, source: Source) -> list[_RadiusBatch]:
    """Draw batches of radii until `count` of them are accepted.

    Parameters
    ----------
    count : int
        The number of accepted radii.
    scale : float
        The scale σ of the law.
    source : Source
        The random bits.

    Returns
    -------
    list of _RadiusBatch
        The batches; one is usually enough.
    """
    # The sphere accepts this part of the proposals, which are radii of the plane.
    acceptance = (1 + math.exp(-math.pi / scale)) / (1 + scale**2)
    batches: list[_RadiusBatch] = []
    n_missing = count
    while n_missing > 0:
        n_proposals = math.ceil(n_missing / acceptance * _SPARE_RADII) + _SPARE_TRIALS
        proposals = _Radii(LazyUniforms(source, 3 * n_proposals), scale)
        with np.errstate(all="ignore"):
            floats = proposals.floats()
            indices = proposals.accepted_indices(floats)[:n_missing]
        batches.append(_RadiusBatch(proposals, indices, floats))
        n_missing -= len(indices)
    return batches


def _draw_directions(count: int, source: Source) -> list[_DirectionBatch]:
    """Draw batches of points of the square until `count` of them lie in the disk.

    Parameters
    ----------
    count : int
        The number of accepted points.
    source : Source
        The random bits.

    Returns
    -------
    list of _DirectionBatch
        The batches; one is usually enough.
    """
    batches: list[_DirectionBatch] = []
    n_missing = count
    while n_missing > 0:
        n_points = math.ceil(n_missing * _PAIRS_PER_DIRECTION) + _SPARE_TRIALS
        proposals = _Directions(LazyUniforms(source, 2 * n_points))
        indices = proposals.accepted_indices()[:n_missing]
        batches.append(_DirectionBatch(proposals, indices))
        n_missing -= len(indices)
    return batches


class _SinCos(NamedTuple):
    """The sine and the cosine of angles, in Arb balls or float balls.

    Attributes
    ----------
    sin, cos : balls
        The sine and the cosine of the same angles.
    """

    sin: Enclosure
    cos: Enclosure


def _sin_cos(r: FloatBall) -> _SinCos:
    """Return the sine and the cosine of radii between 0 and π.

    With y = r/4 below 0.786, the series of sin y and cos y up to y^19 and y^18 leave
    less than 2^-70·y and 2^-60. Angles are doubled twice by sin 2y = 2·sin y·cos y and
    cos 2y = 1 − 2·sin² y. All else is arithmetic of float balls. Where y is not known
    to be that small, the result is a ball without bounds.

    Parameters
    ----------
    r : FloatBall
        The radii.

    Returns
    -------
    _SinCos
        Float balls around sin r and cos r.
    """
    y = r * 0.25
    is_small = np.abs(y.mid) + y.rad < _LARGEST_QUARTER

    # The series in y², by Horner's rule from the highest power down.
    square = y * y
    sine_series = FloatBall(np.zeros_like(y.mid))
    cosine_series = FloatBall(np.zeros_like(y.mid))
    for k in reversed(range(_SERIES_TERMS)):
        sine_series = sine_series * square + _reciprocal_factorial(2 * k + 1)
        cosine_series = cosine_series * square + _reciprocal_factorial(2 * k)
    # The remainders of the docstring: 2^-70 of sin y/y, and 2^-60 of cos y.
    sin = y * _add_remainder(sine_series, 2.0**-70, is_small)
    cos = _add_remainder(cosine_series, 2.0**-60, is_small)

    # From y to 2y, and from there to 4y = r.
    double_sin = 2.0 * (sin * cos)
    double_cos = 1.0 - 2.0 * (sin * sin)
    return _SinCos(
        2.0 * (double_sin * double_cos), 1.0 - 2.0 * (double_sin * double_sin)
    )


def _reciprocal_factorial(k: int) -> FloatBall:
    """Return (−1)^{⌊k/2⌋}/k!, a coefficient of the series of sine and cosine.

    Parameters
    ----------
    k : int
        The power that it belongs to.

    Returns
    -------
    FloatBall
        The number; its radius covers the rounding of the quotient.
    """
    value = (-1.0) ** (k // 2) / math.factorial(k)
    return FloatBall(value, abs(value) * 2.0**-52)


def _add_remainder(
    ball: FloatBall, remainder: float, is_valid: np.ndarray
) -> FloatBall:
    """Return a series with its remainder; a ball without bounds where it is not valid.

    Parameters
    ----------
    ball : FloatBall
        The sum of the first terms.
    remainder : float
        A bound on the terms that were left out.
    is_valid : array of bool
        Whether that bound holds, for each ball.

    Returns
    -------
    FloatBall
        Balls around the sum of the infinite series.
    """
    # The factor 1 + 2^-50 covers the rounding of this sum.
    radius = np.where(is_valid, ball.rad * (1 + 2.0**-50) + remainder, np.inf)
    return FloatBall(ball.mid, radius)


def _point_in_polar_coordinates(
    center: Vector,
    frame_sign: np.ndarray | float,
    radial: _SinCos,
    x: Enclosure,
    y: Enclosure,
) -> Vector:
    """Return cos r·p + sin r·(a·e₁ + b·e₂), for Arb balls or float balls.

    It is the point at the distance r from p in a uniform direction. Here p =
    center/|center|, (a, b) = (x² − y², 2xy)/(x² + y²), and e₁, e₂ are the second and
    the third unit vector, reflected by the Householder reflection that carries ±(1, 0,
    0) to p (`Sphere.from_coordinates`).

    Parameters
    ----------
    center : list of three balls
        A vector along which the footpoint p lies.
    frame_sign : float, or array of floats
        1 where p₁ < 0, and −1 elsewhere.
    radial : _SinCos
        sin r and cos r.
    x, y : balls
        A point of the disk.

    Returns
    -------
    list of three balls
        The coordinates of the draw.
    """
    # The footpoint p.
    squared_length = sum(entry * entry for entry in center[1:]) + center[0] * center[0]
    length = squared_length.sqrt()
    p = [entry / length for entry in center]

    # A uniform point of the circle, from a uniform point of the disk: (x + iy)² has
    # twice its angle, which is uniform too, and needs no square root to be scaled.
    square_x, square_y = x * x, y * y
    squared_radius = square_x + square_y
    a = (square_x - square_y) / squared_radius
    b = 2.0 * (x * y) / squared_radius

    # The reflection of (0, a, b). The sign makes the divisor at least 1.
    product_with_p = p[1] * a + p[2] * b
    quotient = product_with_p / (1.0 - p[0] * frame_sign)
    direction = [
        product_with_p * frame_sign,
        a - quotient * p[1],
        b - quotient * p[2],
    ]
    return [
        radial.cos * p_entry + radial.sin * w_entry
        for p_entry, w_entry in zip(p, direction, strict=True)
    ]


def _frame_sign(first_entry: np.ndarray) -> np.ndarray:
    """Return the sign of the reflection that takes the frame at e₁ to a center.

    The sign is chosen so that no digits cancel in `_point_in_polar_coordinates`.

    Parameters
    ----------
    first_entry : array
        The first coordinates of centers.

    Returns
    -------
    array
        1 where it is negative and −1 elsewhere, so that nothing cancels.
    """
    return np.where(first_entry < 0, 1.0, -1.0)


def _join(batches: list[FloatBall]) -> FloatBall:
    """Concatenate the balls of all batches.

    Used to compute all draws of a block by one call.

    Parameters
    ----------
    batches : list of FloatBall
        One array of balls for each batch.

    Returns
    -------
    FloatBall
        The balls, batch after batch.
    """
    return FloatBall(
        np.concatenate([batch.mid for batch in batches]),
        np.concatenate([batch.rad for batch in batches]),
    )


class _ProposalPosition(NamedTuple):
    """Where an accepted proposal stands: the number of its batch, its place there."""

    batch: int
    place: int


def _proposal_positions(
    batches: Sequence[_RadiusBatch | _DirectionBatch],
) -> Iterator[_ProposalPosition]:
    """Yield the positions of all accepted proposals, in the order of the draws.

    Used to find the lazy numbers of a draw that float balls do not decide.

    Parameters
    ----------
    batches : list of _RadiusBatch or _DirectionBatch
        The batches, with the indices of their accepted proposals.

    Yields
    ------
    _ProposalPosition
        The number of the batch, and the place of a proposal in it.
    """
    for number, batch in enumerate(batches):
        for index in batch.indices.tolist():
            yield _ProposalPosition(number, index)
