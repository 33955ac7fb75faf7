"""The one search for a Fréchet mean: it asks for passes over the records and is sent what they found.

A pass at x gives the mean of log_x xᵢ, minus the gradient of ½ mean d², in orthonormal coordinates at x, and the mean of
d²(x, xᵢ). Memory, devices and clusters supply passes (`frechet`, `spd`, `device`, `streamed`); nothing here sees a
record. Steps are Newton's with the Hessian of some of the records, made better by what each step teaches (`Secants`);
what is kept, and what is tried where a step is not, is in docs/frechet-mean.md and below.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf, isnan
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

_MEMORY = 5  # steps that secants look back
_NEW = (
    1e-3  # share of a change that must be new: less is round-off, and would be blown up
)
SLOW = 0.1  # share of the residual left by a step that was slow: its Hessian is out of date
_ARMIJO, _SEEN, _LEAST = (
    1e-4,
    1e-12,
    1e-16,
)  # share of the slope to be gained; of the cost: what shows, what cannot

Place = Any  # where a pass is made: a point, or whatever stands for one
Solve = Callable[[np.ndarray], np.ndarray]  # velocity -> step


class Asked(NamedTuple):
    """A pass that a search asks for."""

    x: Place
    careful: (
        bool  # whether the mean square is needed, and the gradient as good as it gets
    )


@dataclass(frozen=True)
class Moments:
    """What a pass finds."""

    velocity: np.ndarray  # mean log, in coordinates at the place
    square: float  # mean d²; NaN where it was not computed
    error: float = 0.0  # of the velocity, at most

    @cached_property
    def residual(self) -> float:
        """‖mean log‖, at most."""
        return float(np.linalg.norm(self.velocity)) + self.error


class Course(ABC):
    """How a search goes about. A place is a point, unless a course has something else to stand for one."""

    start: Place  # where the first pass is made

    @abstractmethod
    def move(self, x: Place, step: np.ndarray) -> Place:
        """Along a step given in coordinates at x."""

    @abstractmethod
    def newton(self, x: Place, gain: float) -> Solve | None:
        """Which step a velocity asks for at x, where the last step left this share of the residual; None: as before."""

    def point(self, x: Place) -> np.ndarray:
        """The point of a place."""
        return np.asarray(x)

    def at(self, p: np.ndarray) -> Place:
        """The place of a point."""
        return p


Result = TypeVar("Result")
Search = Generator[
    Asked, Moments, Result
]  # asks for passes, is sent what they find, ends with its result


def run(search: Search[Result], passes: Callable[[Asked], Moments]) -> Result:
    """A search with somebody to make its passes."""
    try:
        asked = next(search)
        while True:
            asked = search.send(passes(asked))
    except StopIteration as done:
        return cast(Result, done.value)


def search(
    course: Course, enough: float, passes: int
) -> Search[tuple[Place, Moments, bool]]:
    """Until the residual is `enough`, no step helps any more, or all passes are made: the best place that was seen, what
    the pass there found, and whether it is the mean."""
    left = iter(range(passes))  # one cap for this loop and the one inside
    x = course.start
    best = yield Asked(x, True)
    solve, secants = course.newton(x, inf) or (lambda velocity: velocity), Secants()
    for _ in left:
        if not best.residual > enough:  # NaN ends it too
            break
        step = secants.step(solve(best.velocity))
        y = course.move(x, step)
        new = yield Asked(y, False)
        kept = _kept(new, best, float(np.sum(step * best.velocity)))
        if not kept:
            y, new = yield from _shorter(course, x, best, solve, left)
            if y is x:
                break
        fresh = course.newton(y, new.residual / best.residual if kept else inf)
        if fresh is not None or not kept:
            solve, secants = fresh or solve, Secants()
        x, best = y, new
    return x, best, best.residual <= enough


def _shorter(
    course: Course, x: Place, best: Moments, solve: Solve, left: Iterator[int]
) -> Search[tuple[Place, Moments]]:
    """The first of the steps 1, ½, ¼, … along Newton's, or the gradient's where that leads uphill, that is kept; or x."""
    if isnan(best.square):  # a quick look
        best = yield Asked(x, True)
    step = (course.newton(x, inf) or solve)(best.velocity)
    slope = float(np.sum(step * best.velocity))
    if not slope > 0:  # the Hessian is indefinite, or of another place
        step, slope = best.velocity, best.residual**2
    for _ in left:
        y = course.move(x, step)
        new = yield Asked(y, True)
        if _kept(new, best, slope):
            return y, new
        step, slope = step / 2, slope / 2
        if slope <= _LEAST * best.square:
            break
    return x, best


def _kept(new: Moments, best: Moments, slope: float) -> bool:
    """Half the gradient at no higher cost, or Armijo's rule; where the change of cost is below its round-off, any gain."""
    if (
        new.residual < 0.5 * best.residual
        and not new.square > (1 + _SEEN) * best.square
    ):
        return True
    if abs(slope) <= _SEEN * best.square:
        return new.residual < best.residual
    return slope > 0 and new.square <= best.square - 2 * _ARMIJO * slope


class Secants:
    """Steps taken, and what they changed: F − (ΔX + ΔF)γ, γ the least-squares fit of F by ΔF along ΔX (Anderson 1965)."""

    def __init__(self) -> None:
        self.steps: list[np.ndarray] = []
        self.values: list[np.ndarray] = []

    def step(self, value: np.ndarray) -> np.ndarray:
        """The next step, from the Newton-like one that the present gradient asks for."""
        self.values = [*self.values, value][-_MEMORY - 1 :]
        step = value
        if self.steps:
            changed = [(new - old).ravel() for old, new in pairwise(self.values)]
            # orthonormal, from the latest: the changes fall by orders of magnitude from step to step
            rest = value.ravel()
            basis: list[tuple[np.ndarray, np.ndarray]] = []
            for moved, change in zip(
                reversed(self.steps), reversed(changed), strict=True
            ):
                together, whole = moved.ravel() + change, float(np.linalg.norm(change))
                for q, with_q in basis:
                    part = float(q @ change)
                    change, together = change - part * q, together - part * with_q
                length = float(np.linalg.norm(change))
                if length > _NEW * whole:
                    basis.append((change / length, together / length))
                    step = step - float(basis[-1][0] @ rest) * basis[-1][1].reshape(
                        value.shape
                    )
        self.steps = [*self.steps, step][-_MEMORY:]
        return step
