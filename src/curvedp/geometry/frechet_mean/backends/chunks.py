"""The Fréchet mean of records that are seen only through sums over them: chunks on a cluster, arrays on a device.

Each pass sends out an iterate x and brings back two sums over the records: the coordinates of log_x xᵢ and the squares of
d(x, xᵢ). Both are added in fixed point, so that a pass, and with it the mean, is the same to the last bit for every way of
cutting the records into chunks and for every order in which the chunks come in.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from math import inf, isnan
from typing import Any, NamedTuple

import numpy as np

from curvedp._silence import numerical_silence
from curvedp.geometry.ball import project_to_ball
from curvedp.geometry.frechet_mean.error_bound import (
    contraction,
    mean_iterations,
    tolerance,
)
from curvedp.geometry.frechet_mean.solver import (
    Asked,
    Course,
    Moments,
    Search,
    Solve,
    run,
    search,
)
from curvedp.geometry.manifold import Array, Manifold
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.spd_affine import SPDAffineInvariant
from curvedp.geometry.spaces.spd_common import pack
from curvedp.numerics.arrays import namespace
from curvedp.numerics.fixed_point import FixedPoint
from curvedp.numerics.spd3 import Factor, Logs, lower_entries, whitened_logs
from curvedp.numerics.spd_pencil import log_spectrum
from curvedp.numerics.threads import blocks, in_threads

_PASSES = 20  # of the search, before the contraction takes over
_BLOCK = 1 << 13  # records whose logarithms are held at once
_SAMPLE_TOLERANCE, _DENSE, _DIFFERENCE, _WORK = (
    1e-6,
    32,
    1e-4,
    1 << 18,
)  # of the first guess
_ROOM = 1 + 1e-9  # for the round-off of lengths of at most 2r


class Domain(NamedTuple):
    """A manifold and the public ball on it that the records are mapped into."""

    manifold: Manifold
    center: np.ndarray
    radius: float

    @property
    def grid(self) -> FixedPoint:
        """How sums are written: no two points of the ball are farther apart than 2r."""
        return FixedPoint(2 * self.radius * _ROOM)

    def clip(self, x: Array) -> np.ndarray:
        """One point mapped into the ball."""
        return np.asarray(project_to_ball(*self, x[None])[0])


Found = tuple[np.ndarray, float]  # a mean, and the mean square distance to it
Sums = Callable[
    [np.ndarray], Any
]  # x -> exact sums over all records, as `block_sums` gives them
GroupSums = Callable[
    [dict[int, np.ndarray]], Iterable[Any]
]  # the same for several groups, each with its own x


def block_sums(domain: Domain, x: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Exact sums, (2, dim + 1) int64, over records X (k, *point_shape), after mapping each into the ball (NumPy). The
    last entry is that of d²(x, xᵢ)/2r, which has the bound of the others. A record's terms depend on it alone."""
    X, M = (
        np.asarray(X, dtype=np.float64, order="C"),
        domain.manifold,
    )  # a row's float sums depend on its layout
    total = np.zeros((2, M.dim + 1), dtype=np.int64)
    with numerical_silence():
        if isinstance(M, SPDAffineInvariant) and M.m == 3:
            center, here, rest = Factor.of(domain.center), Factor.of(x), [X[:0]]
            for part in (X[i : i + _BLOCK] for i in range(0, len(X), _BLOCK)):
                entries, skew = lower_entries(part)
                logs = whitened_logs(here, entries)
                sure = (
                    surely_inside(center, domain.radius, entries, skew) & logs.sure
                )  # they stay as they are
                total += tensor_sums(domain.grid, logs, sure)
                rest.append(part[~sure])
            X = np.concatenate(rest)
        for i in range(0, len(X), _BLOCK):
            total += inside_sums(
                M, domain.grid, x, project_to_ball(*domain, X[i : i + _BLOCK])
            )
    return total


def inside_sums(M: Manifold, grid: FixedPoint, x: Array, X: Array) -> Array:
    """The same for records that are in the ball already, of any array library."""
    xp = namespace(X)
    if isinstance(M, SPDAffineInvariant):  # log(L⁻¹XL⁻ᵀ), without going through log_x X
        _, logs, U = log_spectrum(x, X)
        Z = pack((U * logs[..., None, :]) @ U.mT)
    else:
        Z = M.to_coordinates(x, M.log(x, X))
    square = xp.sum(Z * Z, axis=-1)
    usable = (
        square <= grid.bound**2
    )  # NaN fails; never false but for a kernel that broke down
    terms = xp.concat([Z, (square / grid.bound)[:, None]], axis=-1)
    return grid.sums(xp.where(usable[:, None], terms, 0.0))


def surely_inside(center: Factor, radius: float, entries: Any, skew: Array) -> Array:
    """Which 3×3 SPD matrices `project_to_ball` leaves as they are (up to their symmetric parts)."""
    home = whitened_logs(center, entries)
    return home.sure & (home.square <= (radius * (1 - 1e-9)) ** 2) & (skew <= _SKEW)


def into_ball(domain: Domain, X: np.ndarray) -> np.ndarray:
    """`project_to_ball` of NumPy records; 3×3 SPD matrices that surely stay are only made symmetric."""
    M = domain.manifold
    if not (isinstance(M, SPDAffineInvariant) and M.m == 3):
        return np.asarray(project_to_ball(*domain, X))
    center = Factor.of(domain.center)

    def looked_at(part: slice) -> tuple[np.ndarray, bool]:
        entries, skew = lower_entries(X[part])
        sure = surely_inside(center, domain.radius, entries, skew)
        return sure, bool(np.any(skew[sure]))

    found = in_threads(looked_at, blocks(len(X), _BLOCK))
    sure = np.concatenate([np.empty(0, dtype=bool), *(part for part, _ in found)])
    with numerical_silence():  # the sum of two entries may overflow
        out = 0.5 * (X + X.mT) if any(skew for _, skew in found) else X
    if not sure.all():
        out = np.array(out)
        out[~sure] = project_to_ball(*domain, X[~sure])
    return out


def tensor_sums(grid: FixedPoint, logs: Logs, counted: Array) -> Array:
    """The sums of `inside_sums` over the matrices that are counted."""
    xp = namespace(counted)
    rows = [*logs.coordinates, logs.square / grid.bound]
    # row by row: a compiler makes one kernel of it, and nothing as long as the records is written
    return xp.stack([grid.sums(xp.where(counted, row, 0.0)) for row in rows], axis=1)


_SKEW = (
    (0.99e-6) ** 2
)  # below the tolerance at which `project_to_ball` takes a matrix for its symmetric part


def mean_in_ball(
    domain: Domain, course: Course, passes: int
) -> Search[tuple[Any, float]]:
    """(Place of the mean of records in the ball, mean d² to it), with the a-priori error of `solver_error`. The
    search's answer x is taken where its residual is within `tolerance` and, under positive curvature, x and its
    mean square are in the set S of `bound`: the gradient flow from x then ends at the mean after a length of at
    most ‖∇f(x)‖ over the convexity (step 3 there). Otherwise the contraction's public number of passes is made from
    the center. Either way the value is within `solver_error`; only the time depends on which, and so on the
    records. Residuals are believed, and steps begun, only where floats hold the point (`kept`)."""
    M, _, radius = domain
    x, found, good = yield from search(course, tolerance(M, radius), passes)
    if good and (near := _held(domain, course, x)) is not x:
        x, found = near, (yield Asked(near, True))
        good = found.residual <= tolerance(M, radius)
    found = (yield Asked(x, True)) if good and isnan(found.square) else found
    inside = M.curvature_bounds[1] <= 0 or (
        found.square <= radius**2 and float(M.dist(domain.center, x)) <= radius
    )
    return (
        (x, found.square)
        if good and inside
        else (yield from contracted(domain, course))
    )


def contracted(domain: Domain, course: Course) -> Search[tuple[Any, float]]:
    """The same by the contraction's public number of passes from the center."""
    M, _, radius = domain
    x, step = course.at(domain.center), _safe_step(M, radius)
    for _ in range(mean_iterations(M, radius)):
        x = _held(
            domain, course, course.move(x, step * (yield Asked(x, True)).velocity)
        )
    return x, (yield Asked(x, True)).square


def _held(domain: Domain, course: Course, place: Any) -> Any:
    point = course.point(place)
    near = kept(domain, point)
    return place if near is point else course.at(near)


def kept(domain: Domain, x: np.ndarray) -> np.ndarray:
    """The point of the ball that floats hold (`M.float_set`) and that is nearest to x; x itself where it is one.
    Where curvature is <= 0, both sets are convex and hold the center: the nearest point of one, then of the other,
    is in both, and no farther from any record, which is in both (Bridson & Haefliger 1999, II.2.4). Under the
    affine-invariant metric, too, the nearest matrix with a spectrum of a convex set has the nearest spectrum and
    the same eigenvectors, since d(A, B) is at least the distance of the sorted log-eigenvalues (Bhatia 2007, ch. 6;
    Lidskii). Elsewhere iterates are proved to stay in the ball, and floats hold all of it."""
    M, center, radius = domain
    if len(M.factors) > 1:
        parts = M.split(x)
        homes = [
            Domain(factor, start, radius)
            for factor, start in zip(M.factors, M.split(center), strict=True)
        ]
        found = list(map(kept, homes, parts))
        return x if all(map(operator.is_, found, parts)) else np.asarray(M.join(found))
    if M.convexity_radius < inf:
        return x
    wide = radius > M.float_set.safe_radius
    if not wide and float(M.dist(center, x)) <= radius:
        return x
    z = np.asarray(M.normal_coordinates(center, x))
    length = float(np.linalg.norm(z))
    if length <= radius * _ROOM and not (
        wide and float(M.float_set.shrink_factor(z)) * _ROOM < 1
    ):
        return x
    z = z * min(1.0, radius / length)
    return np.asarray(
        M.from_normal_coordinates(center, M.float_set.project(z) if wide else z)
    )


def _safe_step(M: Manifold, radius: float) -> np.ndarray | float:
    """The contraction's step length; for each coordinate of a product."""
    if isinstance(M, Product):
        return np.concatenate(
            [np.full(factor.dim, _safe_step(factor, radius)) for factor in M.factors]
        )
    return contraction(M, radius).step


class Start(NamedTuple):
    """Where the passes begin, and the inverse Hessian of the cost of some records there (1 where it is not known)."""

    x: np.ndarray
    inverse: np.ndarray | float


class _Sums(Course):
    """The course of a search that sees sums alone: it keeps to the ball, which is convex and holds the records."""

    def __init__(self, domain: Domain, first: Start) -> None:
        self.domain, self.first, self.start = domain, first, domain.clip(first.x)

    def move(self, x: np.ndarray, step: np.ndarray) -> np.ndarray:
        M = self.domain.manifold
        near = kept(self.domain, np.asarray(M.from_normal_coordinates(x, step)))
        return (
            near
            if len(M.factors) == 1 and M.convexity_radius == inf
            else self.domain.clip(near)
        )

    def newton(self, x: np.ndarray, gain: float) -> Solve | None:
        inverse = np.asarray(self.first.inverse)
        return (
            (
                lambda velocity: (
                    inverse @ velocity if inverse.ndim else inverse * velocity
                )
            )
            if gain == inf
            else None
        )

    def moments(self, n: int, sums: Any) -> Moments:
        mean = self.domain.grid.mean(sums, n)
        return Moments(mean[:-1], float(mean[-1]) * self.domain.grid.bound)


def streamed_mean(domain: Domain, n: int, sums: Sums, start: Start) -> Found:
    """(x, mean d²(x, xᵢ)): the Fréchet mean of n records in the ball, from exact sums over them."""
    return streamed_means(domain, [n], lambda points: [sums(points[0])], [start])[0]


def streamed_means(
    domain: Domain, sizes: Sequence[int], sums: GroupSums, starts: Sequence[Start]
) -> list[Found]:
    """`streamed_mean` of each of several groups of records, side by side: a pass serves all that are not done yet."""
    courses = [_Sums(domain, start) for start in starts]
    searches = [mean_in_ball(domain, course, _PASSES) for course in courses]
    points = {group: next(search).x for group, search in enumerate(searches)}
    means: dict[int, Found] = {}
    while points:
        for group, found in zip(list(points), sums(points), strict=True):
            try:
                points[group] = (
                    searches[group].send(courses[group].moments(sizes[group], found)).x
                )
            except StopIteration as done:
                means[group] = done.value
                del points[group]
    return [means[group] for group in range(len(searches))]


def first_guess(domain: Domain, X: np.ndarray) -> Start:
    """A start from a few of the records: their own mean, and the inverse of their Hessian by differences where dim
    is small. It decides how many passes are needed, and nothing else."""
    M, course = domain.manifold, _Sums(domain, Start(domain.center, 1.0))

    def moments(x: np.ndarray, X: np.ndarray = X) -> Moments:
        return course.moments(len(X), block_sums(domain, x, X))

    x = run(search(course, _SAMPLE_TOLERANCE, _PASSES), lambda asked: moments(asked.x))[
        0
    ]
    if M.dim > _DENSE or M.curvature_bounds == (0.0, 0.0):
        return Start(x, 1.0)
    few = X[: max(128, _WORK // (M.dim * X[0].size))]
    ahead = [
        moments(np.asarray(M.from_normal_coordinates(x, step)), few).velocity
        for step in _DIFFERENCE * np.eye(M.dim)
    ]
    hessian = (moments(x, few).velocity - np.stack(ahead)).T / _DIFFERENCE
    try:
        inverse = np.linalg.inv(hessian)
    except np.linalg.LinAlgError:
        return Start(x, 1.0)
    return Start(x, inverse) if np.all(np.isfinite(inverse)) else Start(x, 1.0)
