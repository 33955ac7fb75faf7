"""A private mean for which nobody has to know a radius: units, location, radius and mean, found one after the other.

The user gives a public OUTER ball as generous as he likes. Every stage is a Gaussian release about numbers that one record
moves by a known amount, each at points that are already released, and the μ² of all stages add up to that of the whole. How
many stages there are depends on released values, so the sum is bounded by the filter theorem for Gaussian DP (Smith &
Thakurta 2022, fully adaptive composition): shares are taken from a public total of 1 and a stage that would exceed it does
not exist.

| stage | what is released | sensitivity | why |
|---|---|---|---|
| units | histogram of t = log det x/√m on a public grid (cones of matrices) | √2 | one count falls by 1, one rises by 1 |
| extrinsic | mean of embedded points (spheres, rotations, shapes …) | diameter/n | each has its own public bound |
| radius | counts of records beyond a distance, seven of them | 1 each | a count of records with a property |
| location | mean of clip_r(log_c x) | 2r/n | each vector depends on its own record and on released values only |
| bend | two numbers about the Hessian (hyperbolic spaces) | √2·t(r)/n | as in `newton` |
| final | mean of clip_r(log_c x), or noisy Newton steps in B(c, r) | 2r/n | no curvature, solver or convexity enters |

The last one holds for the computed numbers on ANY manifold: clipping comes last, and sums are exact in fixed point, so that
no rounding of one record depends on another. Constants are those of a measured prototype, one set for every space.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil, inf, log2, nextafter, sqrt
from typing import Any, ClassVar, Literal, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, project_to_ball
from curvedp.geometry.ball import carry_records
from curvedp.geometry.base import Manifold
from curvedp.geometry.numerics.fixed_point import FixedPoint
from curvedp.laws import RiemannianGaussian
from curvedp.laws.exact import ExactDraw, exact_gaussian
from curvedp.mechanisms.base import Check, Draw, Mechanism, Reading, assign, check_guarantee, replay
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.chart import GRID
from curvedp.mechanisms.newton import NewtonMechanism
from curvedp.mechanisms.statistic import Ball, FrechetMean, Stated, Statistic, public_ball
from curvedp.privacy import GDP, Guarantee, PrivacyProfile, gaussian_profile, smallest_scale
from curvedp.records.base import Records, open_records

__all__ = [
    "Measured",
    "OuterBallMean",
    "PrivateBallMechanism",
    "Stages",
    "Unmeasured",
    "clipped_logs",
    "collected",
    "default_outer_radius",
    "least_scale",
    "logs_at",
    "mean_moved",
    "private_radius",
    "same_stages",
]

_UNITS, _EXTRINSIC, _RADIUS, _LOCATION, _BEND = 0.04, 0.06, 0.05, 0.06, 0.01  # shares of μ²
_QUERIES, _RATIO = 7, 1.25  # radii: 127 of them, from the outer radius down to 1e-12 of it
_MOST_STEPS = 4
_BIN = 2.0  # width of a bin of units
_HOPELESS = 1.5  # relative noise of a location step at which none is taken


def default_outer_radius(manifold: Manifold) -> float:
    """Generous: all of a compact space, any unit of measurement on a cone of matrices, distance 25 in hyperbolic space."""
    return sqrt(sum(_default(factor) ** 2 for factor in manifold.factors))


def _default(manifold: Manifold) -> float:
    if 0 < manifold.injectivity_radius < inf:
        return 2 * manifold.injectivity_radius
    if manifold.is_cone:
        return 100 * sqrt(manifold.point_shape[0])
    return 1e6 if manifold.constant_curvature == 0 else 25.0


@dataclass(frozen=True, eq=False)
class OuterBallMean(Statistic):
    """The Fréchet mean of n records in a ball that is itself found privately, inside a public outer ball.

    Parameters
    ----------
    manifold : Manifold
        Where the records live.
    center, outer_radius : point and float
        The public outer ball; by default about the origin, and as wide as `default_outer_radius`.
    n : int
        How many records there are.
    """

    manifold: Manifold
    center: Any
    outer_radius: Any
    n: int

    name: ClassVar[str] = "Fréchet mean in a private ball"
    units: ClassVar[tuple[str, ...]] = FrechetMean.units
    valued: ClassVar[bool] = False

    def __post_init__(self) -> None:
        outer = default_outer_radius(self.manifold) if self.outer_radius is None else self.outer_radius
        ball = public_ball(self.manifold, self.center, _validate.length("outer_radius", outer))
        assign(self, center=ball.center, outer_radius=ball.radius, n=_validate.integer("n", self.n, 2))

    @property
    def space(self) -> Manifold:
        """The records' own."""
        return self.manifold

    @property
    def outer(self) -> Ball:
        """The public outer ball."""
        return Ball(self.center, self.outer_radius)

    @property
    def typical(self) -> Ball:
        """Records within distance 1, or a quarter of what is injective: the stages are made for any spread."""
        return Ball(self.center, min(1.0, self.manifold.injectivity_radius / 4, self.outer_radius / 2))

    @property
    def sensitivity(self) -> float:
        """Of a mean of vectors of unit length: every stage scales it by its own radius."""
        return 2 / self.n


class Stages:
    """The budget, and what has been released from it so far."""

    def __init__(self, scale: float, noisy: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self.left, self.told, self.counts = 1.0, [], []  # type: ignore[var-annotated]  # dictionaries; see `private_radius`
        self._scale, self._noisy = nextafter(scale * (1 + 1e-12), inf), noisy  # covers the rounding of the shares

    @staticmethod
    def exact(source: Source) -> tuple[list[ExactDraw], Callable[[np.ndarray, np.ndarray], np.ndarray]]:
        """Exact Gaussian noise, rounded to the public grid, and the list of what it has drawn."""
        draws: list[ExactDraw] = []

        def noisy(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            drawn = exact_gaussian(Euclidean(values.shape[1]), float(scales[0]), values[0], source=source, grid=GRID)
            draws.append(drawn)
            return np.asarray(drawn.value)[None]

        return draws, noisy

    def ask(self, kind: str, share: float, moved: float, values: np.ndarray) -> tuple[np.ndarray, float]:
        """Noisy values that one record moves by at most `moved`, for a share of the budget, and their noise."""
        share = min(share, self.left)
        self.left -= share
        noise = moved * self._scale / sqrt(share)
        self.told.append({"kind": kind, "share": share, "sensitivity": moved, "noise": noise, "size": values.size})
        return self._noisy(values[None], np.array([noise]))[0], noise


@dataclass(frozen=True, eq=False, init=False)
class PrivateBallMechanism(Mechanism):
    """All stages of the table above, as one release.

    Parameters
    ----------
    statistic : OuterBallMean
        What is released.
    scale : float
        1/μ: the noise for each unit of sensitivity over the whole release.
    last : {"step", "newton"}
        The last stage: one gradient step, or noisy Newton steps (hyperbolic spaces, records in memory).

    Notes
    -----
    Guarantees
    - μ-GDP with μ = 1/`scale` for replace-one adjacency, for ANY records;
    - every released number is on the grid 2^-30, in total within variation τ of the ideal law (certificate).
    """

    scale: float
    last: Literal["step", "newton"]

    name: ClassVar[str] = "private-ball"
    option: ClassVar[str | None] = "private-ball"
    reads: ClassVar[Literal["value", "records"]] = "records"
    staged: ClassVar[bool] = True
    streams: ClassVar[bool] = True
    most_simulated: ClassVar[int] = 32  # each is a walk through all stages

    def __init__(self, *, statistic: Statistic, scale: float, last: Any = "step") -> None:
        if not self.serves(statistic):
            raise ParameterError(f"PrivateBallMechanism releases means in a private ball, not the {statistic.name}")
        assign(self, statistic=statistic, scale=_validate.positive("scale", scale))
        assign(self, last=_validate.choice("last", last, ("step", "newton")))
        if last == "newton" and NewtonMechanism.left_out(statistic) is not None:
            raise ParameterError(f"last='newton': {NewtonMechanism.left_out(statistic)}")

    @classmethod
    def serves(cls, statistic: Statistic) -> bool:
        """Means in a private ball."""
        return type(statistic) is OuterBallMean

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """The least noise that meets the guarantee."""
        bent = (statistic.space.constant_curvature or 0.0) < 0 and statistic.space.dim > 1
        return cls(statistic=statistic, scale=least_scale(guarantee), last="newton" if bent else "step")

    @classmethod
    def streamed(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        """For records that are not in memory, and are not read by several steps in a row."""
        return cls(statistic=statistic, scale=least_scale(guarantee))

    @classmethod
    def rebuilt(cls, statistic: Statistic, parameters: Mapping[str, Any]) -> Self:
        """From the scale."""
        return cls(statistic=statistic, scale=parameters["scale"], last=parameters["last"])

    @property
    def _mean(self) -> OuterBallMean:
        assert isinstance(self.statistic, OuterBallMean)  # `serves` no other
        return self.statistic

    @property
    def n(self) -> int:
        """How many records there are."""
        return self._mean.n

    @property
    def sensitivity(self) -> float:
        """Of a mean of unit vectors."""
        return self.statistic.sensitivity

    @cached_property
    def profile(self) -> PrivacyProfile:
        """That of one Gaussian release of sensitivity 1."""
        return gaussian_profile(0.0, 1, self.scale, 1.0)

    @property
    def guarantee(self) -> Guarantee:
        """μ-GDP."""
        return GDP(self.profile.mu)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public numbers as JSON values."""
        return {"scale": self.scale, "last": self.last}

    @property
    def enough(self) -> bool:
        """Whether there are enough records for the stages to be of use: nμ >= 40, and 50 where units are unknown."""
        least = 50 if any(factor.is_cone for factor in self.manifold.factors) else 40
        return self.n / self.scale >= least

    def accepted(self, data: Any) -> Records:
        """Records wherever they lie; only their shape and type can be refused."""
        return collected(self._mean, data)

    def draw(self, data: Records, source: Source) -> Draw:
        """The stages, one after the other."""
        draws, noisy = Stages.exact(source)
        value, stages, ball = self._walk(Measured(self._mean, data), noisy)
        told = [*stages.told, {"kind": "ball", "center": ball.center.tolist(), "radius": ball.radius}]
        return Draw(value, [each.integers for each in draws], sum(each.tau for each in draws), told)

    def finish(self, value: np.ndarray) -> np.ndarray:
        """As it is: the last stage has moved it into its ball."""
        return value

    @property
    def afterwards(self) -> list[str]:
        """Shrinkage in each stage."""
        return ["James-Stein shrinkage in every step"] if self.manifold.dim >= 3 else []

    def value_of(self, certificate: Certificate) -> np.ndarray:
        """What the released integers lead to."""
        return self._replayed(certificate)[0]

    def ball_of(self, certificate: Certificate) -> Ball:
        """The ball that was found: a function of released integers."""
        return self._replayed(certificate)[2]

    def checks(self, certificate: Certificate) -> list[Check]:
        """Every stage follows from the integers before it, and their shares add up to at most 1."""
        _, stages, ball = self._replayed(certificate)
        told = [*stages.told, {"kind": "ball", "center": ball.center.tolist(), "radius": ball.radius}]
        return same_stages(told, certificate.release["stages"])

    def reading(self, integers: Any) -> Reading:
        """The last noisy gradient: given the ball that was found before, its noise is fresh."""
        _, stages, ball = self._walk(Unmeasured(self._mean), replay(integers))
        if self.last == "newton":
            walked = [stage for stage in stages.told if stage["kind"] == "newton"]
            draws = sum(1 + (stage["hessian_scale"] is not None) for stage in walked)
            newton = self._newton_in(ball, stages.told[-1]["share"])
            return newton.reading(integers[-draws:])._replace(frame=newton.statistic)
        unit, d = _unit(ball.radius), self.manifold.dim
        law = RiemannianGaussian(Euclidean(d), unit * stages.told[-1]["noise"])
        drawn, frame = unit * replay(integers[-1:])(np.empty(d)), Stated(self.manifold, 1.0, *ball)
        return Reading("gradient", law, drawn, *ball, frame=frame, cell=unit * 2.0**-GRID)

    def _replayed(self, certificate: Certificate) -> tuple[np.ndarray, Stages, Ball]:
        return self._walk(Unmeasured(self._mean), replay(certificate.release["integers"]))

    # ---- the stages ----

    def _walk(self, measured: "Unmeasured", noisy: Any) -> tuple[np.ndarray, Stages, Ball]:
        """(value, what was released, the last ball)."""
        M, n, stages = self.manifold, self.n, Stages(self.scale, noisy)
        d, mu = M.dim, 1 / self.scale
        outside = min(n / 2, 2 * sqrt(d) / mu + 2 * sqrt(_QUERIES) / (mu * sqrt(_RADIUS)))
        rough = 2 * sqrt(d) / (n * mu * sqrt(_LOCATION))
        c = self._units(measured, stages, self._mean.center)
        c, located = self._extrinsic(measured, stages, c)
        r = self._radius(measured, stages, c, outside)
        for _ in range(0 if located or rough > _HOPELESS else _MOST_STEPS):
            c = self._step(measured, stages, c, r, _LOCATION)
            smaller = self._radius(measured, stages, c, outside)
            done, r = smaller > r / 2, smaller
            if done:
                break
        if self.last == "newton":
            return self._newton(measured, stages, noisy, c, r)
        return self._step(measured, stages, c, r, 1.0), stages, Ball(c, r)

    def _units(self, measured: "Unmeasured", stages: Stages, c: np.ndarray) -> np.ndarray:
        """The scale of every factor that is a cone: the edge between the two neighboring bins that hold most."""
        for place, factor in enumerate(self.manifold.factors):
            if not factor.is_cone:
                continue
            half = np.ceil(min(self._mean.outer_radius, 100 * sqrt(factor.point_shape[0])) / _BIN)
            counts = measured.histogram(c, place, _BIN, int(half))
            noisy, _ = stages.ask("units", _UNITS, sqrt(2), counts)
            edge = _BIN * (float(np.argmax(noisy[:-1] + noisy[1:])) + 1 - half)
            parts = list(self.manifold.split(c))
            parts[place] = np.asarray(factor.unchart(parts[place], edge * _direction(factor, parts[place])))
            c = np.asarray(self.manifold.join(parts))
        return c

    def _extrinsic(self, measured: "Unmeasured", stages: Stages, c: np.ndarray) -> tuple[np.ndarray, bool]:
        """The mean of embedded points, brought back, for every factor that has an embedding."""
        factors, parts = self.manifold.factors, list(self.manifold.split(c))
        for place, factor in enumerate(factors):
            if factor.embedded_diameter is not None:
                mean, moved = measured.embedded(place)
                noisy, _ = stages.ask("extrinsic", _EXTRINSIC, moved, mean)
                parts[place] = np.asarray(factor.from_embedded(noisy))
        located = all(factor.embedded_diameter is not None for factor in factors)
        return np.asarray(self.manifold.join(parts)), located

    def _radius(self, measured: "Unmeasured", stages: Stages, c: np.ndarray, outside: float) -> float:
        return private_radius(self._mean, measured, stages, c, outside, _RADIUS)

    def _step(self, measured: "Unmeasured", stages: Stages, c: np.ndarray, r: float, share: float) -> np.ndarray:
        """One noisy clipped gradient step; with all that is left, the release itself."""
        mean, moved = measured.clipped(c, r)
        kind = "final" if share >= stages.left else "location"
        unit = _unit(r)
        noisy, noise = stages.ask(kind, share, moved / unit, mean / unit)
        v = _shrunk(unit * noisy, unit * noise)
        if kind == "location" and (self.manifold.constant_curvature or 0.0) < 0 and self.manifold.dim > 1:
            v = v / self._bend(measured, stages, c, r, v)
        length = float(np.linalg.norm(v))
        v = v * min(1.0, r / length) if length > 0 else v
        return np.asarray(self.manifold.unchart(c, v))

    def _bend(self, measured: "Unmeasured", stages: Stages, c: np.ndarray, r: float, v: np.ndarray) -> float:
        """H along the step, from private numbers: 1 where the records lie in its direction, about r where all around."""
        values, moved = measured.bend(c, r, v)
        noisy, _ = stages.ask("bend", _BEND, moved, values)
        return 1 + float(np.clip(noisy[0] - noisy[1], 0.0, moved * self.n))

    def _newton(
        self, measured: "Unmeasured", stages: Stages, noisy: Any, c: np.ndarray, r: float
    ) -> tuple[np.ndarray, Stages, Ball]:
        """Noisy Newton steps in B(c, r) with all that is left: noise divided by the records' own Hessian."""
        newton = self._newton_in(Ball(c, r), stages.left)
        value, walked, _ = newton.walk(measured.inside(newton), noisy)
        for stage in walked:
            stages.told.append({"kind": "newton", **stage._asdict()})
        stages.told.append(
            {"kind": "final", "share": stages.left, "sensitivity": newton.sensitivity, "noise": 0.0, "size": 0}
        )
        stages.left = 0.0
        return np.asarray(newton.finish(value[0])), stages, Ball(c, r)

    def _newton_in(self, ball: Ball, share: float) -> NewtonMechanism:
        return NewtonMechanism(scale=self.scale / sqrt(share), statistic=FrechetMean(self.manifold, *ball, self.n))

    # ---- what "auto" and `plan` want to know ----

    def simulate(self, rng: np.random.Generator, records: np.ndarray, size: int) -> np.ndarray:
        """Float releases for records that stand for n of their kind: for predicted error, NOT for release."""

        def noisy(values: np.ndarray, scales: np.ndarray) -> np.ndarray:
            return values + scales[:, None] * rng.standard_normal(values.shape)

        held = open_records(np.asarray(records), self.manifold.point_shape, least=1)
        return np.stack([self._walk(Measured(self._mean, held), noisy)[0] for _ in range(size)])


def _unit(r: float) -> float:
    """A public power of two, so that the grid is fine whatever the records' unit."""
    return float(2.0 ** ceil(log2(r)))


def least_scale(guarantee: Guarantee) -> float:
    return float(smallest_scale(lambda s: gaussian_profile(0.0, 1, s, 1.0), check_guarantee(guarantee), 1.0))


def collected(statistic: OuterBallMean, data: Any) -> Records:
    """Records wherever they lie, those in memory moved into the outer ball; only shape and type can be refused."""
    M = statistic.manifold
    records: Records = data if hasattr(data, "sums") else open_records(data, M.point_shape, "records")
    if records.n != statistic.n:
        raise ParameterError(f"{records.n} records, not {statistic.n}")
    if records.where != "memory":
        return records
    return open_records(project_to_ball(M, *statistic.outer, records.array()), M.point_shape)


def private_radius(
    statistic: OuterBallMean, measured: "Unmeasured", stages: Stages, c: np.ndarray, outside: float, share: float
) -> float:
    """The smallest of the public radii that about `outside` records are beyond, by binary search."""
    count = 2**_QUERIES - 1
    radii = statistic.outer_radius * _RATIO ** -np.arange(count, dtype=np.float64)
    beyond, low, high = measured.beyond(c, radii), 0, count - 1
    for _ in range(_QUERIES):
        middle = (low + high + 1) // 2
        noisy, noise = stages.ask("radius", share / _QUERIES, 1.0, beyond[middle : middle + 1])
        stages.counts.append((c, float(radii[middle]), float(noisy[0]), noise))
        low, high = (middle, high) if noisy[0] <= outside else (low, middle - 1)
        high = max(low, high)
    return float(radii[low])


def same_stages(told: list[Any], stated: Any) -> list[Check]:
    """Whether a certificate's stages are those that its integers lead to, and their shares add up to at most 1."""
    total = sum(stage.get("share", 0.0) for stage in told)
    same = isinstance(stated, list) and len(told) == len(stated)
    return [
        Check(
            f"{len(told)} stages",
            same and all(_alike(a, b) for a, b in zip(told, stated, strict=True)),
            "each follows from the integers released before it",
        ),
        Check(f"shares of μ² {total:.9g}", total <= 1 + 1e-9, "the filter's total"),
    ]


def _alike(a: Mapping[str, Any], b: Any) -> bool:
    """Two descriptions of a stage, up to the last digits of what is computed from integers."""
    return isinstance(b, dict) and sorted(a) == sorted(b) and all(_equal(a[name], b[name]) for name in a)


def _equal(mine: Any, stated: Any) -> bool:
    if isinstance(mine, str) or mine is None:
        return bool(mine == stated)
    numbers, others = np.asarray(mine), np.asarray(stated)
    same = others.dtype.kind in "if" and numbers.shape == others.shape
    return bool(same and np.allclose(numbers, others, rtol=1e-9, atol=1e-12))


def _shrunk(v: np.ndarray, noise: float) -> np.ndarray:
    """Positive-part James-Stein towards 0, where the dimension allows it."""
    square, lost = float(v @ v), (v.size - 2) * noise**2
    if v.size < 3:
        return v
    return v * (1 - lost / square) if square > lost else np.zeros_like(v)


def _direction(cone: Manifold, c: np.ndarray) -> np.ndarray:
    """Coordinates at c of the unit vector along which a cone is scaled."""
    z = np.asarray(cone.chart(c, np.e * c))
    return np.asarray(z / np.linalg.norm(z))


# ---- what is measured of the records, exactly and in any order -------------------------------------------------------------


class Unmeasured:
    """Numbers of the right shape and the right sensitivities, for reading a walk back from its integers."""

    def __init__(self, statistic: OuterBallMean) -> None:
        self._statistic, self._n = statistic, statistic.n

    def histogram(self, c: np.ndarray, place: int, width: float, half: int) -> np.ndarray:
        """Records by the scale of a factor."""
        return np.zeros(2 * half)

    def embedded(self, place: int) -> tuple[np.ndarray, float]:
        """(mean of embedded points of a factor, its sensitivity)."""
        factor = self._statistic.manifold.factors[place]
        diameter, grid = factor.embedded_diameter, FixedPoint(2.0)
        assert diameter is not None  # asked for only where there is an embedding
        size = np.asarray(factor.embedded(factor.origin)).size
        return self.mean(partial(_embedded, place, grid), grid, size), mean_moved(diameter / 2, grid, size, self._n)

    def beyond(self, c: np.ndarray, radii: np.ndarray) -> np.ndarray:
        """How many records are farther from c than each of the decreasing radii."""
        return self._totals(partial(_beyond, c, radii), len(radii)).astype(np.float64)

    def clipped(self, c: np.ndarray, r: float) -> tuple[np.ndarray, float]:
        """(mean of clip_r(log_c x) in coordinates, its sensitivity)."""
        grid, d = FixedPoint(2 * r), self._statistic.manifold.dim
        return self.mean(partial(clipped_logs, c, r, grid), grid, d), mean_moved(r, grid, d, self._n)

    def bend(self, c: np.ndarray, r: float, v: np.ndarray) -> tuple[np.ndarray, float]:
        """(mean t, mean t·cos²) of |1 − s·coth s| cut at r, and their sensitivity: as in `NewtonMechanism`."""
        root = sqrt(abs(self._statistic.manifold.constant_curvature or 0.0))
        most = float(_bent(np.asarray(r), r, root))
        grid, length = FixedPoint(2 * most), float(np.linalg.norm(v))
        axis = v / length if length > 0 else v
        values = self.mean(partial(_bend, c, r, root, axis, grid), grid, 2)
        return values, sqrt(2) * mean_moved(most / 2, grid, 2, self._n) * (1 + 1e-9)

    def inside(self, newton: NewtonMechanism) -> np.ndarray | None:
        """The records as the last steps want them."""
        return None

    def mean(self, kernel: Any, grid: FixedPoint, size: int) -> np.ndarray:
        return np.zeros(size)

    def _totals(self, kernel: Any, size: int) -> np.ndarray:
        return np.zeros(size, dtype=np.int64)


class Measured(Unmeasured):
    """The same numbers, of records."""

    def __init__(self, statistic: OuterBallMean, records: Records) -> None:
        super().__init__(statistic)
        self._records = records
        self._ready = None if records.where == "memory" else statistic.outer

    def histogram(self, c: np.ndarray, place: int, width: float, half: int) -> np.ndarray:
        return self._totals(partial(_histogram, c, place, width, half), 2 * half).astype(np.float64)

    def inside(self, newton: NewtonMechanism) -> np.ndarray:
        return newton.accepted(self._records.array()) if self._records.n == newton.n else self._stand_in(newton)

    def _stand_in(self, newton: NewtonMechanism) -> np.ndarray:
        """A few records that stand for many, in a simulation."""
        mean = newton.statistic
        assert isinstance(mean, FrechetMean)  # as `_newton` makes it
        carried = carry_records(self._statistic.manifold, mean.center, self._records.array())
        return np.asarray(project_to_ball(self._statistic.manifold, *mean.ball, carried))

    def mean(self, kernel: Any, grid: FixedPoint, size: int) -> np.ndarray:
        return grid.mean(self._sums(kernel).reshape(2, size), self._records.n)

    def _totals(self, kernel: Any, size: int) -> np.ndarray:
        found = self._sums(kernel)
        return found if self._records.n == self._n else np.round(found * (self._n / self._records.n))

    def _sums(self, kernel: Any) -> np.ndarray:
        return self._records.sums(partial(_measure, self._statistic.manifold, self._ready, kernel))


def mean_moved(bound: float, grid: FixedPoint, size: int, n: int) -> float:
    """How far a mean of n vectors of length at most `bound` moves when one is replaced: the rounding of its entries, of
    lengths (a few units for each coordinate) and of the mean's own entries is in it."""
    length = bound * (1 + 1e-9 + 4 * (size + 8) * 2.0**-52) + sqrt(size) * grid.resolution / 2
    return nextafter(2 * length / n + sqrt(size) * bound * 2.0**-51, inf)


def _measure(manifold: Manifold, outer: Ball | None, kernel: Any, block: Any) -> np.ndarray:
    """A kernel's sums over a block of records; those that were not moved into the outer ball before are now."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        block = np.asarray(block, dtype=np.float64)
        points = block if outer is None else project_to_ball(manifold, *outer, block)
        return np.asarray(kernel(manifold, np.asarray(points)), dtype=np.int64)


def logs_at(manifold: Manifold, c: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Coordinates of log_c x; what is not finite counts as 0."""
    z = np.asarray(manifold.chart(c, points)) if len(points) else np.zeros((0, manifold.dim))
    return np.where(np.isfinite(z).all(axis=-1, keepdims=True), z, 0.0)


def _lengths(manifold: Manifold, c: np.ndarray, points: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(logs_at(manifold, c, points), axis=-1))


def _beyond(c: np.ndarray, radii: np.ndarray, manifold: Manifold, points: np.ndarray) -> np.ndarray:
    lengths = np.sort(_lengths(manifold, c, points))
    return len(lengths) - np.searchsorted(lengths, radii, side="right")


def _clip(z: np.ndarray, r: float) -> np.ndarray:
    length = np.linalg.norm(z, axis=-1, keepdims=True)
    clipped = z * np.where(length > r, r / np.where(length > 0, length, 1.0), 1.0)
    return np.where(np.isfinite(clipped).all(axis=-1, keepdims=True), clipped, 0.0)


def clipped_logs(c: np.ndarray, r: float, grid: FixedPoint, manifold: Manifold, points: np.ndarray) -> np.ndarray:
    """Exact sums of clip_r(log_c x) over records."""
    with np.errstate(all="ignore"):  # a data-dependent warning is a release
        return np.asarray(grid.sums(_clip(logs_at(manifold, c, points), r)).ravel())


def _histogram(
    c: np.ndarray, place: int, width: float, half: int, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    factor, at = manifold.factors[place], np.asarray(manifold.split(c)[place])
    t = logs_at(factor, at, np.asarray(manifold.split(points)[place])) @ _direction(factor, at)
    bins = np.clip(np.floor(t / width), -half, half - 1).astype(np.int64) + half
    return np.bincount(bins, minlength=2 * half)


def _embedded(place: int, grid: FixedPoint, manifold: Manifold, points: np.ndarray) -> np.ndarray:
    factor = manifold.factors[place]
    found = np.asarray(factor.embedded(np.asarray(manifold.split(points)[place])))
    return np.asarray(grid.sums(np.where(np.isfinite(found), found, 0.0)).ravel())


def _bent(s: np.ndarray, r: float, root: float) -> np.ndarray:
    x = np.maximum(np.minimum(s, r) * root, 1e-4)
    return np.asarray(x / np.tanh(x) - 1)


def _bend(
    c: np.ndarray, r: float, root: float, axis: np.ndarray, grid: FixedPoint, manifold: Manifold, points: np.ndarray
) -> np.ndarray:
    z = _clip(logs_at(manifold, c, points), r)
    s = np.linalg.norm(z, axis=-1)
    cosine = (z @ axis) / np.maximum(s, np.finfo(float).tiny)
    t = _bent(s, r, root)
    return np.asarray(grid.sums(np.stack([t, t * np.minimum(cosine**2, 1.0)], axis=-1)).ravel())
