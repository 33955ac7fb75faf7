"""Noisy Newton steps: a private Fréchet mean whose noise is divided by the curvature that the records themselves have.

Each step releases the noisy gradient at the current, already public point w, and two numbers about H, the mean Hessian of ½d²
(why: docs/utility.md): with t = |1 − s·ct s| for a record at distance s in direction u, H = 1 ± (mean t(1 − uuᵀ)), so mean t
and mean t·⟨u, a⟩² fix H along an axis a and, on average, across it. Everything else is post-processing of these Gaussian
releases, whose μ add in squares (Dong, Roth & Su 2022, Corollary 2, which allows each to depend on those before), or of
Laplace ones (`noise`), whose ε add up (`stages`).
"""

from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import project_to_ball
from curvedp.mechanisms.base import Draw, Reading, replay
from curvedp.mechanisms.certificate import Certificate, Check
from curvedp.mechanisms.chart import CHART_ERROR, grid_of, james_stein
from curvedp.mechanisms.noise import (
    Noise,
    ShrunkMeanMechanism,
    float_noise,
    least_noise,
    spread_of,
)
from curvedp.mechanisms.sensitivity import mean_gradient_sensitivity
from curvedp.mechanisms.stages import same_stages
from curvedp.mechanisms.statistic import Positive, Statistic, assign
from curvedp.numerics.threads import blocks, in_threads
from curvedp.privacy import Guarantee

_WORK = 1 << 21  # coordinates held at once
_TRUSTED = 1.0  # steps are no longer than the radius of curvature, over which H changes
_LEAST_HESSIAN = (
    0.1  # below this no step is trusted; the sensitivity theorem stops there too
)


class _Schedule(NamedTuple):
    """How the budget is spent, by the sign of curvature: constants, chosen by simulation."""

    steps: int
    of_hessian: float  # share of μ² for the numbers about H
    ratio: float  # each step's gradient has so many times the budget of the one before
    averaged: bool  # whether a step is weighted against those before, by precision


# On a sphere H is nearly 1: steps converge at once, and what the first one paid for can be averaged in. In hyperbolic space
# H is large and differs between directions: more has to be known about it, and early steps are still far from the mean.
_POSITIVE = {
    "gaussian": _Schedule(2, 0.01, 8.0, True),
    "laplace": _Schedule(2, 0.03, 8.0, True),
}
_NEGATIVE = {
    "gaussian": _Schedule(4, 0.1, 3.0, False),
    "laplace": _Schedule(2, 0.1, 5.0, False),
}
_NEAR = 5.0  # that ratio of just three steps by Gaussian noise in hyperbolic space, which begin near the mean


class Stage(NamedTuple):
    """One step as released: how far its point was from the center, and the noise of the gradient and of the two numbers."""

    distance: float
    gradient_scale: float
    hessian_scale: float | None


@dataclass(frozen=True, eq=False, kw_only=True)
class NewtonMechanism(ShrunkMeanMechanism):
    """A private Fréchet mean of n records by noisy Newton steps from the public center, on a space of constant curvature.
    Records are moved into the public ball first, and so is every step.

    Guarantees
    - μ-GDP with μ = 1/`scale`, or pure ε = 1/`scale`, for replace-one adjacency, for ANY records: only the accuracy depends
      on whether the steps converge;
    - every released number is on the grid 2^-30 (finer for small noise), within total variation τ of the ideal law.
    """

    scale: Positive
    steps: Any = None  # as many as suit the curvature

    moved = 1.0
    name: ClassVar[str] = "noisy-newton"
    option: ClassVar[str | None] = "newton"
    staged: ClassVar[bool] = True
    together: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if (refusal := self.left_out(self.statistic)) is not None:
            raise ParameterError(f"NewtonMechanism: {refusal}")
        steps = (
            self._schedule.steps
            if self.steps is None
            else _validate.integer("steps", self.steps, 1)
        )
        assign(self, steps=steps)
        self.gradient_sensitivity(self.radius)  # refuses a ball that is too large

    @classmethod
    def for_statistic(cls, statistic: Statistic, guarantee: Guarantee) -> Self:
        law, scale = least_noise(guarantee)
        return cls(scale=scale, statistic=statistic, law=law)

    @classmethod
    def left_out(cls, statistic: Statistic) -> str | None:
        """Spheres and hyperbolic spaces only."""
        space = statistic.space
        if space.constant_curvature in (None, 0.0) or space.dim < 2:
            return f"it is for spheres and hyperbolic spaces, not {space!r}"
        return None

    @property
    def sensitivity(self) -> float:
        """How far the gradient at the center can move."""
        return float(self.gradient_sensitivity(0.0))

    @property
    def length(self) -> float:
        """Of the last step's noise, at most, in the mean square; what steps leave beside it is nothing next to the radius."""
        weakest = (
            1.0 if self.curvature < 0 else max(1 - self._largest_bend, _LEAST_HESSIAN)
        )
        scale = self.stage(self.steps - 1, self.radius).gradient_scale * spread_of(
            self.law, self.manifold.dim
        )
        return scale * sqrt(self.manifold.dim) / weakest

    @property
    def most_simulated(self) -> int:  # type: ignore[override]  # of others it is a constant
        """Each is a walk of several steps, and lengths vary the less the more dimensions there are."""
        return min(128, max(32, 384 // self.manifold.dim))

    @property
    def curvature(self) -> float:
        """The space's, which is not 0."""
        found = self.manifold.constant_curvature
        assert found is not None  # or `left_out` refuses it
        return found

    # ---- what moves by how much, and which share of the budget it gets ----

    def gradient_sensitivity(self, distance: Any) -> Any:
        """Largest change of the computed mean log_w xᵢ at `distance` from the center: the theorem's, and the float error."""
        exact = mean_gradient_sensitivity(
            self.manifold, self.reach, self.statistic.n, distance
        )
        root = sqrt(max(-self.curvature, 0.0))
        with np.errstate(over="ignore"):  # infinite where doubles hold no such point
            digits = CHART_ERROR + 2.0**-48 * self.manifold.dim * np.exp(
                root * distance
            )
        return exact + 4 * self.radius * digits

    @property
    def hessian_sensitivity(self) -> float:
        """Of (mean t, mean t·⟨u,a⟩²): the diameter √2·t(r)/n of the triangle 0 ≤ q ≤ t ≤ t(r), over n."""
        n: int = self.statistic.n
        return (sqrt(2) * self._largest_bend / n) * (1 + 1e-9) + 1e-9 / n

    @property
    def _largest_bend(self) -> float:
        return float(self._bend(np.asarray(self.radius)))

    def _bend(self, distance: np.ndarray) -> np.ndarray:
        """t = |1 − s·ct s|, its argument cut at the radius: increasing from 0."""
        s = np.maximum(
            np.minimum(distance, self.radius) * sqrt(abs(self.curvature)), 1e-4
        )  # t < 1e-8 below that
        return np.asarray(
            np.abs(1 - (s / np.tanh(s) if self.curvature < 0 else s / np.tan(s)))
        )

    @property
    def _schedule(self) -> _Schedule:
        return (_NEGATIVE if self.curvature < 0 else _POSITIVE)[self.law]

    @cached_property
    def shares(self) -> tuple[list[float], list[float]]:
        """Shares of μ² of the gradients and of the numbers about H; the last step takes H from the one before."""
        plan, measured = self._schedule, max(1, self.steps - 1)
        ratio = _NEAR if self.steps == 3 < plan.steps else plan.ratio
        weights = [ratio**step for step in range(self.steps)]
        gradients = [
            (1 - plan.of_hessian) * weight / sum(weights) for weight in weights
        ]
        return gradients, [
            plan.of_hessian / measured if step < measured else 0.0
            for step in range(self.steps)
        ]

    def stage(self, step: int, distance: float) -> Stage:
        """The noise of a step taken at `distance` from the center."""
        gradient, hessian = (share[step] for share in self.shares)
        scale = nextafter(
            self.scale * (1 + 1e-12), inf
        )  # covers the rounding of the shares
        if self.law == "gaussian":
            gradient, hessian = sqrt(gradient), sqrt(hessian)
        return Stage(
            float(distance),
            float(self.gradient_sensitivity(distance)) * scale / gradient,
            self.hessian_sensitivity * scale / hessian if hessian > 0 else None,
        )

    # ---- the steps ----

    def draw(self, data: np.ndarray, source: Source) -> Draw:
        draws, noisy = self.exact_noise(source)
        value, stages, noise = self._walk(data[None], 1, noisy)
        return Draw.of(value[0], draws, self._told(stages, noise))

    def checks(self, certificate: Certificate) -> list[Check]:
        """Every step is where the integers before it lead, with its noise."""
        _, walked, noise = self._walk(None, 1, replay(certificate.release["integers"]))
        return same_stages(self._told(walked, noise), certificate.release["stages"])[:1]

    def _told(self, stages: list[Stage], noise: np.ndarray) -> list[dict[str, Any]]:
        return [
            {**stage._asdict(), "noise_left": float(noise[0, 0])} for stage in stages
        ]

    def simulate(
        self, rng: np.random.Generator, records: np.ndarray, size: int
    ) -> np.ndarray:
        """Float releases for records that stand for n of their kind: for predicted error, NOT for release. Of several
        populations at once, as if one after another: a walk takes its time by its steps, hardly by their number."""
        several = np.asarray(records).reshape(
            -1, *np.shape(records)[-1 - len(self.manifold.point_shape) :]
        )
        columns = [
            c
            for share in self.shares[1]
            for c in ((self.manifold.dim, 2) if share > 0 else (self.manifold.dim,))
        ]
        drawn = [
            [float_noise(rng, self.law, (size, c)) for c in columns] for _ in several
        ]
        noise = (np.concatenate(step) for step in zip(*drawn, strict=True))
        found = self._walk(
            several,
            len(several) * size,
            lambda values, b: values + b[:, None] * next(noise),
        )[0]
        return (
            found
            if several.ndim > np.ndim(records)
            else found.reshape(-1, size, *self.manifold.point_shape)
        )

    def value_of(self, certificate: Certificate) -> np.ndarray:
        value, _, _ = self._walk(None, 1, replay(certificate.release["integers"]))
        return np.asarray(self.finish(value[0]))

    def reading(self, integers: Any) -> Reading:
        """The last noisy gradient, where it was taken: given the steps before, its noise is fresh."""
        seen: list[tuple[np.ndarray, np.ndarray, float]] = []
        self._walk(None, 1, replay(integers), seen)
        w, gradient, scale = seen[-1]
        reach = self.radius + float(self.manifold.dist(self.center, w))
        return Reading(
            "gradient",
            self.law_of(self.manifold.dim, scale),
            gradient,
            w,
            reach,
            cell=2.0 ** -grid_of(scale),
        )

    def _walk(
        self,
        records: np.ndarray | None,
        size: int,
        noisy: Noise,
        seen: list[Any] | None = None,
    ) -> tuple[np.ndarray, list[Stage], np.ndarray]:
        """`size` independent walks from the center, the noise of the first one's steps, and what is left of it in each
        coordinate (about: from the private H), of populations of records, shape (k, n, *point_shape), for as many walks
        each. Without records, a walk is read back from what `noisy` gives."""
        M, stages = self.manifold, []
        w = np.broadcast_to(self.center, (size, *M.point_shape))
        bend = np.zeros((size, 2))
        weights = [
            share if self.law == "gaussian" else share**2 for share in self.shares[0]
        ]
        for step in range(len(weights)):
            distance = np.minimum(np.asarray(M.dist(self.center, w)), self.radius)
            stages.append(self.stage(step, float(distance[0])))
            moved, first = (
                self.gradient_sensitivity(distance),
                self.gradient_sensitivity(distance[0]),
            )
            scales = stages[-1].gradient_scale * moved / first
            logs: dict[Any, np.ndarray] = {}
            here = w[:1] if step == 0 else w  # at first all walks are at the center
            measured = (
                np.zeros((1, M.dim))
                if records is None
                else self._means(here, records, None, logs)
            )
            gradient = noisy(np.repeat(measured, size // len(measured), axis=0), scales)
            if seen is not None:
                seen.append((w[0], gradient[0], float(scales[0])))
            axis = _unit(
                gradient
                if step == 0
                else np.asarray(M.to_coordinates(w, M.log(w, self.center)))
            )
            if stages[-1].hessian_scale is not None:
                values = (
                    np.zeros((1, 2))
                    if records is None
                    else self._means(here, records, axis, logs)
                )
                scale = stages[-1].hessian_scale
                bend = self._settled(
                    noisy(values, np.full(size, scale)), scale * spread_of(self.law, 2)
                )
            along, across = self._hessian(bend)
            part = np.sum(gradient * axis, axis=1, keepdims=True) * axis
            move = part / along + (gradient - part) / across
            if self._schedule.averaged:
                move *= weights[step] / sum(weights[: step + 1])
            length = np.linalg.norm(move, axis=1, keepdims=True)
            move *= _TRUSTED / np.maximum(length * sqrt(abs(self.curvature)), _TRUSTED)
            w = project_to_ball(
                M, self.center, self.radius, M.exp(w, M.from_coordinates(w, move))
            )
        scales = scales * spread_of(self.law, M.dim)
        noise = scales[:, None] * np.sqrt(
            (along**-2 + (M.dim - 1) * across**-2) / M.dim
        )
        if self._schedule.averaged:
            noise *= sqrt(weights[-1] / sum(weights))
        return james_stein(M, self.center, np.asarray(w), noise), stages, noise

    def _means(
        self,
        w: np.ndarray,
        records: np.ndarray,
        axis: np.ndarray | None,
        logs: dict[Any, np.ndarray],
    ) -> np.ndarray:
        """At each point, for its share of the populations: the mean of log_w xᵢ in coordinates; or of (t, t⟨u,a⟩²) where an
        axis is given. The logarithms are kept for the next question at the same points."""
        M, (groups, n) = self.manifold, records.shape[:2]
        points = max(1, _WORK // (n * M.dim))
        rows = max(1, _WORK // M.dim)
        walks = max(len(w), groups) if axis is None else len(axis)
        whose = np.arange(walks) * groups // walks

        def total(at: slice, part: slice) -> np.ndarray:
            key = len(w), at.start if len(w) > 1 else 0, part.start
            if key not in logs and len(w) == 1:
                logs[key] = np.asarray(
                    M.normal_coordinates(
                        w[0], records[:, part].reshape(-1, *M.point_shape)
                    )
                )
                logs[key] = logs[key].reshape(groups, -1, M.dim)
            elif key not in logs:
                logs[key] = np.asarray(
                    M.normal_coordinates(w[at, None], records[whose[at], part])
                )
            z = logs[key] if len(logs[key]) == len(whose[at]) else logs[key][whose[at]]
            if axis is None:
                return np.asarray(z.sum(axis=1))
            s = np.linalg.norm(z, axis=-1)
            cosine = np.einsum("bnd,bd->bn", z, axis[at]) / np.maximum(
                s, np.finfo(float).tiny
            )
            t = self._bend(s)
            return np.stack(
                [t.sum(axis=1), (t * np.minimum(cosine**2, 1.0)).sum(axis=1)], axis=-1
            )

        out = np.empty((walks, M.dim if axis is None else 2))
        for at in blocks(walks, points):
            parts = in_threads(lambda part, at=at: total(at, part), blocks(n, rows))  # type: ignore[misc]  # mypy infers no lambda with a default
            out[at] = np.sum(parts, axis=0) / n
        return out

    def _settled(self, noisy: np.ndarray, scale: float) -> np.ndarray:
        """(t, q) from their noisy values: linear Bayes, t about uniform on [0, t(r)] and q about t/dim."""
        largest, d = self._largest_bend, self.manifold.dim

        def towards(value: np.ndarray, prior: Any, spread: float) -> np.ndarray:
            return np.asarray((spread * value + scale**2 * prior) / (spread + scale**2))

        t = np.clip(towards(noisy[:, 0], largest / 2, largest**2 / 12), 0.0, largest)
        q = towards(noisy[:, 1], t / d, (largest / d) ** 2)
        return np.stack([t, np.clip(q, 0.0, t)], axis=-1)

    def _hessian(self, bend: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """H along the axis and, on average, across it."""
        t, q = bend[:, :1], bend[:, 1:]
        sign = 1.0 if self.curvature < 0 else -1.0
        along, across = (
            1 + sign * (t - q),
            1 + sign * (t - (t - q) / (self.manifold.dim - 1)),
        )
        return np.maximum(along, _LEAST_HESSIAN), np.maximum(across, _LEAST_HESSIAN)


def _unit(v: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(v, axis=1, keepdims=True)
    return np.asarray(np.where(length > 0, v / np.where(length > 0, length, 1.0), 0.0))
