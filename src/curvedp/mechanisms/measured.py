"""What the stages of a release read of the records: whole sums, exact and so in any order, with their sensitivities.

Counts of records with a property move by 1 each; shares of records at edges of bins by √2, for pure ε by 2 in sum: each has
two, none negative, of length 1 or of sum 1; means of vectors of bounded length by twice the bound over n, as each vector
depends on its own record and on released values only (docs/private-ball.md). All hold for the computed numbers on ANY
manifold: clipping comes last, and no rounding of one record depends on another.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import ceil, frexp, inf, log, nextafter, pi, sqrt
from typing import Any, ClassVar

import numpy as np

from curvedp import _validate
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import project_to_ball
from curvedp.geometry.capabilities import (
    EmbeddedMean,
    ScalableCone,
    fast_normal_coordinates,
)
from curvedp.geometry.frechet_mean.backends.chunks import Domain, into_ball
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.base import Law
from curvedp.mechanisms.statistic import (
    Ball,
    FrechetMean,
    Several,
    Statistic,
    assign,
    check_point,
    public_ball,
)
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.records.base import Records, open_records

Bins = tuple[
    float, int, Law
]  # width, how many on either side of the public center, the law of the noise to come
_WHOLE = 2.0**20  # a share's resolution: rounded down, which makes none longer


def outer_radius_of(manifold: Manifold, given: Any = None) -> float:
    """The given radius, or a generous one: all of a compact space, any unit of measurement on a cone of matrices, distance
    25 in hyperbolic space and wherever doubles do not reach much farther, 10⁶ in flat space."""

    def default(factor: Manifold) -> float:
        if 0 < factor.injectivity_radius < inf:
            return 2 * factor.injectivity_radius
        if isinstance(factor, ScalableCone):
            return 100 * sqrt(factor.point_shape[0])
        return (
            1e6
            if factor.constant_curvature == 0 and factor.float_set.max_distance == inf
            else 25.0
        )

    if given is not None:
        return _validate.length("outer_radius", given)
    return sqrt(sum(default(factor) ** 2 for factor in manifold.factors))


@dataclass(frozen=True, eq=False)
class OuterBall(Statistic):
    """A statistic of n records in a public outer ball, which only has to be large enough: by default about the origin, and as
    wide as `outer_radius_of` says."""

    manifold: Manifold
    center: Any
    outer_radius: Any
    n: Several

    units: ClassVar[tuple[str, ...]] = FrechetMean.units
    valued: ClassVar[bool] = False
    outer = property(
        lambda self: Ball(self.center, self.outer_radius)
    )  # the public outer ball

    @property
    def public_n(self) -> int:
        return self.n

    # of a mean of vectors of unit length: every stage scales it by its own radius
    sensitivity = property(lambda self: 2 / self.n)

    def __post_init__(self) -> None:
        ball = public_ball(
            self.manifold,
            self.center,
            outer_radius_of(self.manifold, self.outer_radius),
        )
        assign(self, center=ball.center, outer_radius=ball.radius)
        super().__post_init__()

    @property
    def typical(self) -> Ball:
        """Records within distance 1, or a quarter of what is injective (at I where that has no bound, as of Bures and
        Wasserstein's metric): the stages are made for any spread."""
        return Ball(
            self.center,
            min(
                1.0,
                (self.manifold.injectivity_radius or 1.0) / 4,
                self.outer_radius / 2,
            ),
        )

    @property
    def typical_spread(self) -> float:
        """The root mean square distance to their mean of records whose own is not stated."""
        return self.typical.radius / 2

    def accepted(self, data: Any) -> Any:
        """`collected`, unless more than records are given."""
        return self.collected(data)

    def collected(self, data: Any) -> Records:
        """Records wherever they lie, those in memory moved into the outer ball; only shape and type can be refused."""
        records: Records = (
            data
            if hasattr(data, "sums")
            else open_records(data, self.manifold.point_shape, "records")
        )
        if records.n != self.n:
            raise ParameterError(f"{records.n} records, not {self.n}")
        if records.where != "memory":
            return records
        inside = into_ball(Domain(self.manifold, *self.outer), records.array())
        return open_records(inside, self.manifold.point_shape)


class Measured:
    """What the walk reads of the records; without any, numbers of the right shape and the right sensitivities, for reading
    it back from its integers."""

    def __init__(self, statistic: OuterBall, records: Records | None = None) -> None:
        self._statistic, self._n, self._records = statistic, statistic.n, records
        self._outer = (
            None if records is None or records.where == "memory" else statistic.outer
        )
        self._last: tuple[Any, Any] = (
            None,
            None,
        )  # a point, and the logarithms of records in memory there

    def histogram(
        self, c: np.ndarray, place: int, width: float, half: int, law: Law
    ) -> np.ndarray:
        """Records by the scale of a factor: at each edge of bins its share of the records in both."""
        size, bins = 2 * half + 1, (width, half, law)
        if (
            len(self._statistic.manifold.factors) == 1
        ):  # the next stage may want these logarithms too
            axis = scaling_direction(self._statistic.manifold, c)
            return self._totals(partial(_at_edges, axis, bins), size, c) / _WHOLE
        return self._totals(partial(_histogram, c, place, bins), size) / _WHOLE

    def embedded(self, place: int) -> tuple[np.ndarray, float]:
        """(mean of embedded points of a factor, its sensitivity)."""
        factor = self._statistic.manifold.factors[place]
        assert isinstance(factor, EmbeddedMean)  # asked for only where it is one
        diameter, grid = factor.embedded_diameter, FixedPoint(2.0)
        size = np.asarray(factor.embed(factor.origin)).size
        return self.mean(partial(_embedded, place, grid), grid, size), mean_moved(
            diameter / 2, grid, size, self._n
        )

    def beyond(self, c: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """How many records are farther from c than each of the decreasing radii."""
        return self._totals(partial(_beyond, radii), len(radii), c).astype(np.float64)

    def clipped(self, c: np.ndarray, r: float) -> tuple[np.ndarray, float]:
        """(mean of clip_r(log_c x) in coordinates, its sensitivity)."""
        grid, d = FixedPoint(2 * r), self._statistic.manifold.dim
        return self.mean(partial(clipped_sums, r, grid), grid, d, c), mean_moved(
            r, grid, d, self._n
        )

    def bend(self, c: np.ndarray, r: float, v: np.ndarray) -> tuple[np.ndarray, float]:
        """(mean t, mean t·cos²) of |1 − s·coth s| cut at r, and their sensitivity: as in `NewtonMechanism`."""
        root = sqrt(abs(self._statistic.manifold.constant_curvature or 0.0))
        most = float(_bent(np.asarray(r), r, root))
        grid, length = FixedPoint(2 * most), float(np.linalg.norm(v))
        axis = v / length if length > 0 else v
        values = self.mean(partial(_bend, r, root, axis, grid), grid, 2, c)
        return values, sqrt(2) * mean_moved(most / 2, grid, 2, self._n) * (1 + 1e-9)

    def mean(
        self, kernel: Any, grid: FixedPoint, size: int, at: np.ndarray | None = None
    ) -> np.ndarray:
        """Of what a kernel makes of records, or of their logarithms at a point."""
        if self._records is None:
            return np.zeros(size)
        return grid.mean(
            self._sums(self._records, kernel, at).reshape(2, size), self._records.n
        )

    def _totals(
        self, kernel: Any, size: int, at: np.ndarray | None = None
    ) -> np.ndarray:
        if self._records is None:
            return np.zeros(size, dtype=np.int64)
        found = self._sums(self._records, kernel, at)
        return (
            found
            if self._records.n == self._n
            else np.round(found * (self._n / self._records.n))
        )

    def _sums(self, records: Records, kernel: Any, at: np.ndarray | None) -> np.ndarray:
        if at is None or self._outer is not None:
            kernel = kernel if at is None else partial(_of_logs, at, kernel)
            return records.sums(
                partial(_measure, self._statistic.manifold, self._outer, kernel)
            )
        with np.errstate(all="ignore"):  # a data-dependent warning is a release
            return self.logs(at).sums(kernel)

    def logs(self, c: np.ndarray) -> Records:
        """The logarithms at c of records in memory, kept for what is asked next."""
        M, records = self._statistic.manifold, self._records
        assert records is not None  # or nothing is read of them
        if self._last[0] is None or not np.array_equal(self._last[0], c):
            self._last = (
                c,
                open_records(logs_at(M, c, records.array()), (M.dim,), least=0),
            )
        return self._last[1]  # type: ignore[no-any-return]  # records


def mean_moved(bound: float, grid: FixedPoint, size: int, n: int) -> float:
    """How far a mean of n vectors of length at most `bound` moves when one is replaced: the rounding of its entries, of
    lengths (a few units for each coordinate) and of the mean's own entries is in it."""
    length = (
        bound * (1 + 1e-9 + 4 * (size + 8) * 2.0**-52)
        + sqrt(size) * grid.resolution / 2
    )
    return nextafter(2 * length / n + sqrt(size) * bound * 2.0**-51, inf)


def _measure(
    manifold: Manifold, outer: Ball | None, kernel: Any, block: Any
) -> np.ndarray:
    """A kernel's sums over a block of records; those that were not moved into the outer ball before are now."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        block = np.asarray(block, dtype=np.float64)
        points = block if outer is None else project_to_ball(manifold, *outer, block)
        return np.asarray(kernel(manifold, np.asarray(points)), dtype=np.int64)


def scaling_direction(cone: Manifold, c: np.ndarray) -> np.ndarray:
    """Coordinates at c of the unit vector along which a cone is scaled."""
    z = np.asarray(cone.normal_coordinates(c, np.e * c))
    return np.asarray(z / np.linalg.norm(z))


def half_bins(cone: Manifold, outer: float, width: float) -> int:
    """So many bins of a cone's scale on either side: to the outer radius, or as far as doubles hold any unit."""
    return ceil(min(outer, 100 * sqrt(cone.point_shape[0])) / width)


def likeliest(
    sums: np.ndarray, noise: Any, n: int, law: Law = "gaussian"
) -> np.ndarray:
    """Where most records are, in bins from the middle edge, at the public center, by their noisy shares at all edges: between
    two neighboring edges, or in the middle, whichever is likeliest if all records were there.

    A pair of edges must be likelier than the middle by more than the square of the number of pairs that are as near, or of
    all pairs where records are too few to be seen among them: a wrong unit is no use. Where the length of shares is theirs,
    the logarithm of the likelihood is n·length/noise² and what all places have; of Laplace noise with deviation √2·b it is
    Σ (|y| − |y − share·n|)/b.
    """
    a, b, middle = sums[..., :-1], sums[..., 1:], sums.shape[-1] // 2
    up, down, noise = (
        np.maximum(b, 0.0),
        np.maximum(a, 0.0),
        np.asarray(noise)[..., None],
    )
    if law == "laplace":
        part, most = up / np.maximum(down + up, 1e-300), sqrt(2) / noise * n
        told = sqrt(2) / noise * (_nearer(a, n * (1 - part)) + _nearer(b, n * part))
        none = sqrt(2) / noise * _nearer(sums[..., [middle]], n)
    else:
        told, none = (
            n / noise**2 * np.sqrt(up**2 + down**2),
            n / noise**2 * sums[..., [middle]],
        )
        most = (n / noise) ** 2 / 2
    away, pairs = np.arange(a.shape[-1]) - middle, a.shape[-1]
    near = np.where(
        most > 2 * log(pairs), 2 * np.where(away < 0, -away, away + 1), pairs
    )
    gain = told - none - 2 * np.log(near)
    best = np.argmax(gain, axis=-1)[..., None]
    more, up, down = (
        np.take_along_axis(each, best, -1)[..., 0] for each in (gain, up, down)
    )
    part = (
        up / np.maximum(down + up, 1e-300)
        if law == "laplace"
        else np.arctan2(up, down) / (pi / 2)
    )
    return np.where(more > 0, best[..., 0] - middle + part, 0.0)


def _nearer(y: np.ndarray, to: Any) -> np.ndarray:
    return np.asarray(np.abs(y) - np.abs(y - to))


def rescaled(manifold: Manifold, c: np.ndarray, place: int, t: float) -> np.ndarray:
    """c with the cone at `place` of its factors scaled by a length t."""
    cone, parts = manifold.factors[place], list(manifold.split(c))
    parts[place] = np.asarray(
        cone.from_normal_coordinates(
            parts[place], t * scaling_direction(cone, parts[place])
        )
    )
    return usable(manifold, partial(manifold.join, parts), c)


def usable(
    manifold: Manifold, found: Callable[[], Any], otherwise: np.ndarray
) -> np.ndarray:
    """Where released numbers lead; where doubles cannot hold that point, the point before: post-processing."""
    try:
        with np.errstate(all="ignore"):
            return check_point("center", manifold, found())
    except (CurvedpError, ArithmeticError, ValueError, np.linalg.LinAlgError):
        return otherwise


def logs_at(manifold: Manifold, c: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Coordinates of log_c x; what is not finite counts as 0."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        z = (
            np.asarray(fast_normal_coordinates(manifold, c, points))
            if len(points)
            else np.zeros((0, manifold.dim))
        )
        z = np.asfortranarray(z)  # a coordinate is one run of memory: rows are short
        return np.where(np.isfinite(z).all(axis=-1, keepdims=True), z, 0.0)


def _of_logs(
    c: np.ndarray, kernel: Any, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    return np.asarray(kernel(logs_at(manifold, c, points)))


def _beyond(radii: np.ndarray, z: np.ndarray) -> np.ndarray:
    lengths = np.sort(np.linalg.norm(z, axis=-1))
    return len(lengths) - np.searchsorted(lengths, radii, side="right")


def clip(z: np.ndarray, r: float) -> np.ndarray:
    """Rows of length at most r; one that is not finite counts as 0."""
    unit = 2.0 ** min(
        -frexp(r)[1], 1000
    )  # squares of tiny numbers are 0; a power of two changes no other bit
    length = np.linalg.norm(z * unit, axis=-1, keepdims=True)
    clipped = z * np.where(
        length > r * unit, r * unit / np.where(length > 0, length, 1.0), 1.0
    )
    return np.where(np.isfinite(clipped).all(axis=-1, keepdims=True), clipped, 0.0)


def clipped_sums(r: float, grid: FixedPoint, z: np.ndarray) -> np.ndarray:
    """Exact sums of clip_r(z)."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        return np.asarray(grid.sums(clip(z, r)).ravel())


def _histogram(
    c: np.ndarray, place: int, bins: Bins, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    return _summed(bins, *scale_shares(manifold, c, place, bins, points))


def _at_edges(axis: np.ndarray, bins: Bins, z: np.ndarray) -> np.ndarray:
    return _summed(bins, *_shares(axis, bins, z))


def _summed(bins: Bins, first: np.ndarray, shares: np.ndarray) -> np.ndarray:
    edges = [
        np.bincount(first + k, _WHOLE * shares[k], 2 * bins[1] + 1) for k in (0, 1)
    ]  # sums of whole numbers
    return np.asarray(edges[0] + edges[1]).astype(np.int64)


def scale_shares(
    manifold: Manifold, c: np.ndarray, place: int, bins: Bins, points: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The edge, 0 to 2·half − 1, below the scale of each point's factor, which is a cone, and the point's shares there and at
    the next, whatever the point."""
    factor, at = manifold.factors[place], np.asarray(manifold.split(c)[place])
    return _shares(
        scaling_direction(factor, at),
        bins,
        logs_at(factor, at, np.asarray(manifold.split(points)[place])),
    )


def _shares(
    axis: np.ndarray, bins: Bins, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Two shares of length 1, or for Laplace noise of sum 1, tell where between its edges a record is and cost no more than
    one count: of two records they have no negative product, so that they differ by at most √2, or by 2 in sum."""
    width, half, law = bins
    at = np.clip((z @ axis) / width, -half, half)
    first = np.minimum(np.floor(at), half - 1)
    part = at - first
    shares = (
        (1 - part, part)
        if law == "laplace"
        else (np.cos(pi / 2 * part), np.sin(pi / 2 * part))
    )
    return first.astype(np.int64) + half, np.floor(_WHOLE * np.stack(shares)) / _WHOLE


def _embedded(
    place: int, grid: FixedPoint, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    factor = manifold.factors[place]
    assert isinstance(factor, EmbeddedMean)  # asked for only where it is one
    found = np.asarray(factor.embed(np.asarray(manifold.split(points)[place])))
    return np.asarray(grid.sums(np.where(np.isfinite(found), found, 0.0)).ravel())


def _bent(s: np.ndarray, r: float, root: float) -> np.ndarray:
    x = np.maximum(np.minimum(s, r) * root, 1e-4)
    return np.asarray(x / np.tanh(x) - 1)


def _bend(
    r: float, root: float, axis: np.ndarray, grid: FixedPoint, z: np.ndarray
) -> np.ndarray:
    z = clip(z, r)
    s = np.linalg.norm(z, axis=-1)
    cosine = (z @ axis) / np.maximum(s, np.finfo(float).tiny)
    t = _bent(s, r, root)
    return np.asarray(
        grid.sums(np.stack([t, t * np.minimum(cosine**2, 1.0)], axis=-1)).ravel()
    )
