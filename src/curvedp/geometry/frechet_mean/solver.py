"""The search for a Fréchet mean: it asks for passes over the records.

A pass at x gives the mean of log_x xᵢ, minus the gradient of the cost ½·mean d², in
orthonormal coordinates at x, and the mean of d²(x, xᵢ). Memory, devices and clusters
supply passes (`backends`); nothing here sees a record. Steps are Newton's with the
Hessian of some of the records, improved by Anderson acceleration; a step is accepted by
Armijo's rule and shortened otherwise (docs/theory/frechet-mean.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import inf, isnan
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

# Steps that Anderson acceleration looks back.
_MEMORY = 5

# Fraction of a change that must be new to it; less is round-off, which would be
# amplified.
_LEAST_NEW_FRACTION = 1e-3

# Fraction of the residual left by a step at which its Hessian is out of date.
SLOW_CONVERGENCE = 0.1

# Armijo's rule: fraction of the predicted decrease that must be gained.
_ARMIJO_FRACTION = 1e-4

# Changes of the cost below this fraction of it are round-off.
_VISIBLE_CHANGE = 1e-12

# Predicted decreases below this fraction of the cost cannot be seen at all.
_LEAST_DECREASE = 1e-16

Iterate = Any
"""Where a pass is made: a point, or whatever stands for one in a backend."""

NewtonStep = Callable[[np.ndarray], np.ndarray]
"""Maps minus the gradient at an iterate to a step from there."""


class PassRequest(NamedTuple):
    """A pass over the records that a search asks for."""

    x: Iterate
    careful: bool  # whether the cost is needed, and the gradient as good as it gets


@dataclass(frozen=True)
class PassResult:
    """What a pass over the records gives.

    Parameters
    ----------
    velocity : array
        Mean logarithm of the records, in coordinates at the iterate.
    square : float
        Mean squared distance to the records; NaN where it was not computed.
    error : float
        Bound on the error of the velocity.
    """

    velocity: np.ndarray
    square: float
    error: float = 0.0

    @cached_property
    def residual(self) -> float:
        """An upper bound of the length of the mean logarithm."""
        return float(np.linalg.norm(self.velocity)) + self.error


class MeanBackend(ABC):
    """What a search needs to know of a space and of where its records lie."""

    start: Iterate
    """Where the first pass is made."""

    @abstractmethod
    def move(self, x: Iterate, step: np.ndarray) -> Iterate:
        """Return the iterate after a step given in coordinates at x."""

    @abstractmethod
    def newton(self, x: Iterate, convergence: float) -> NewtonStep | None:
        """Return Newton's method at x, or None to go on with the one in use.

        Parameters
        ----------
        x : Iterate
            Where the next step begins.
        convergence : float
            Fraction of the residual that the last step left; inf where there was none.
        """

    def point(self, x: Iterate) -> np.ndarray:
        """Return the point of the manifold that an iterate stands for."""
        return np.asarray(x)

    def iterate_at(self, p: np.ndarray) -> Iterate:
        """Return the iterate that stands for a point."""
        return p


Result = TypeVar("Result")
Search = Generator[PassRequest, PassResult, Result]
"""A computation that yields requests for passes and is sent their results."""


def run_search(
    search: Search[Result], make_pass: Callable[[PassRequest], PassResult]
) -> Result:
    """Run a search with a function that makes its passes, and return its result.

    Parameters
    ----------
    search : Search
        A generator that yields the passes it needs.
    make_pass : callable
        Makes a pass over the records.
    """
    try:
        request = next(search)
        while True:
            request = search.send(make_pass(request))
    except StopIteration as finished:
        return cast(Result, finished.value)


def search_mean(
    backend: MeanBackend, tolerance: float, max_passes: int
) -> Search[tuple[Iterate, PassResult, bool]]:
    """Search for the mean until the residual is small or no step helps any more.

    Parameters
    ----------
    backend : MeanBackend
        The start, moves and Newton steps.
    tolerance : float
        Residual at which an iterate is the mean.
    max_passes : int
        Cap on the number of passes.

    Returns
    -------
    x : Iterate
        The best iterate that was seen.
    result : PassResult
        What the pass there gave.
    converged : bool
        Whether its residual is within the tolerance.
    """
    passes_left = iter(range(max_passes))  # one cap for this loop and the one inside
    x = backend.start
    best = yield PassRequest(x, True)
    newton_step = backend.newton(x, inf) or (lambda velocity: velocity)
    acceleration = AndersonAcceleration()
    for _ in passes_left:
        if not best.residual > tolerance:  # NaN ends the search too
            break
        step = acceleration.step(newton_step(best.velocity))
        candidate = backend.move(x, step)
        result = yield PassRequest(candidate, False)
        predicted_decrease = float(np.sum(step * best.velocity))
        accepted = _is_accepted(result, best, predicted_decrease)
        convergence = inf
        if accepted:
            convergence = result.residual / best.residual
        else:
            candidate, result = yield from _line_search(
                backend, x, best, newton_step, passes_left
            )
            if candidate is x:
                break
        fresh_step = backend.newton(candidate, convergence)
        if fresh_step is not None or not accepted:
            newton_step = fresh_step or newton_step
            acceleration = AndersonAcceleration()
        x, best = candidate, result
    return x, best, best.residual <= tolerance


def _line_search(
    backend: MeanBackend,
    x: Iterate,
    best: PassResult,
    newton_step: NewtonStep,
    passes_left: Iterator[int],
) -> Search[tuple[Iterate, PassResult]]:
    """Search along one direction with the steps 1, ½, ¼, … for a point to accept.

    The direction is Newton's, or minus the gradient where Newton's leads uphill.

    Parameters
    ----------
    backend : MeanBackend
        Moves iterates and supplies Newton's method.
    x : Iterate
        Where the search begins.
    best : PassResult
        The pass made at x.
    newton_step : callable
        Newton's method in use, in case the backend has no other for x.
    passes_left : iterator
        One item for each pass that may still be made; items are consumed.

    Returns
    -------
    iterate : Iterate
        The first accepted iterate; x itself if there is none.
    result : PassResult
        The pass made there.
    """
    if isnan(best.square):  # the last pass was a quick one
        best = yield PassRequest(x, True)
    step = (backend.newton(x, inf) or newton_step)(best.velocity)
    predicted_decrease = float(np.sum(step * best.velocity))
    if not predicted_decrease > 0:  # the Hessian is indefinite, or of another place
        step = best.velocity
        predicted_decrease = best.residual**2
    for _ in passes_left:
        candidate = backend.move(x, step)
        result = yield PassRequest(candidate, True)
        if _is_accepted(result, best, predicted_decrease):
            return candidate, result
        step = step / 2
        predicted_decrease = predicted_decrease / 2
        if predicted_decrease <= _LEAST_DECREASE * best.square:
            break
    return x, best


def _is_accepted(
    result: PassResult, best: PassResult, predicted_decrease: float
) -> bool:
    """Return whether the search moves to the point where `result` was computed.

    It does if the gradient is halved at no higher cost, or by Armijo's rule. If the
    predicted change of the cost is below its round-off, any smaller gradient suffices.

    Parameters
    ----------
    result, best : PassResult
        The passes at the new point and at the current one.
    predicted_decrease : float
        Decrease of ½·mean d² along the step, to first order.
    """
    halves_gradient = result.residual < 0.5 * best.residual
    raises_cost = result.square > (1 + _VISIBLE_CHANGE) * best.square  # False for NaN
    if halves_gradient and not raises_cost:
        return True
    if abs(predicted_decrease) <= _VISIBLE_CHANGE * best.square:
        return result.residual < best.residual
    required_cost = best.square - 2 * _ARMIJO_FRACTION * predicted_decrease
    return predicted_decrease > 0 and result.square <= required_cost


class AndersonAcceleration:
    """Improves the steps of a fixed-point iteration by what earlier steps changed.

    With F the proposed step, ΔX the last steps and ΔF the changes of F along them, the
    accelerated step is F − (ΔX + ΔF)γ, γ the least-squares fit of F by ΔF (Anderson
    1965).
    """

    def __init__(self) -> None:
        self._steps: list[np.ndarray] = []
        self._proposals: list[np.ndarray] = []

    def step(self, proposal: np.ndarray) -> np.ndarray:
        """Return the accelerated step for the step that Newton's method proposes.

        The changes ΔF are made orthonormal beginning with the latest, because they fall
        by orders of magnitude from step to step; what an older one adds of its own must
        be more than round-off.

        Parameters
        ----------
        proposal : array of shape (dim,)
            Newton's step.
        """
        self._proposals = [*self._proposals, proposal][-_MEMORY - 1 :]
        step = proposal
        if self._steps:
            changes = [(new - old).ravel() for old, new in pairwise(self._proposals)]
            flat_proposal = proposal.ravel()
            basis: list[tuple[np.ndarray, np.ndarray]] = []
            recent_first = zip(reversed(self._steps), reversed(changes), strict=True)
            for earlier_step, change in recent_first:
                combined = earlier_step.ravel() + change  # a column of ΔX + ΔF
                original_length = float(np.linalg.norm(change))
                for direction, its_combined in basis:
                    coefficient = float(direction @ change)
                    change = change - coefficient * direction
                    combined = combined - coefficient * its_combined
                length = float(np.linalg.norm(change))
                if length > _LEAST_NEW_FRACTION * original_length:
                    direction = change / length
                    combined = combined / length
                    basis.append((direction, combined))
                    gamma = float(direction @ flat_proposal)
                    step = step - gamma * combined.reshape(proposal.shape)
        self._steps = [*self._steps, step][-_MEMORY:]
        return step
