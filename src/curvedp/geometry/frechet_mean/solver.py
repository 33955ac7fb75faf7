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

# Number of earlier steps that Anderson acceleration uses.
_ANDERSON_MEMORY = 5

# Anderson acceleration skips an earlier step if less than this fraction of its change
# is linearly independent of later changes: the remainder is round-off.
_LEAST_NEW_FRACTION = 1e-3

# A Hessian is computed again after a step that left more than this fraction of the
# residual.
SLOW_CONVERGENCE = 0.1

# Armijo's rule: fraction of the predicted decrease that must be gained.
_ARMIJO_FRACTION = 1e-4

# Changes of the cost below this fraction of it are round-off.
_VISIBLE_CHANGE = 1e-12

# A line search ends when the predicted decrease is below this fraction of the cost.
_LEAST_DECREASE = 1e-16

Iterate = Any
"""Where a pass is made: a point, or whatever a backend represents a point by."""

NewtonStep = Callable[[np.ndarray], np.ndarray]
"""Maps the mean logarithm at an iterate (minus the gradient) to a step from there."""


class PassRequest(NamedTuple):
    """A request for a pass over the records.

    Attributes
    ----------
    x : Iterate
        The iterate at which logarithms are taken.
    with_cost : bool
        Whether the pass must also give the mean squared distance, and the mean
        logarithm as accurately as the backend can. Without it a cheaper approximation
        of the mean logarithm will do.
    """

    x: Iterate
    with_cost: bool


@dataclass(frozen=True)
class PassResult:
    """What a pass over the records at an iterate x computes.

    Parameters
    ----------
    mean_log : array
        Mean of log_x xᵢ over the records xᵢ, in coordinates at x.
    mean_square : float
        Mean squared distance of the records to x; NaN where it was not computed.
    error : float
        Bound on the error of the mean logarithm.
    """

    mean_log: np.ndarray
    mean_square: float
    error: float = 0.0

    @cached_property
    def residual(self) -> float:
        """Upper bound of the length of the mean logarithm, the gradient of the cost.

        The length is 0 at the mean, and searches end where this bound is small.
        """
        return float(np.linalg.norm(self.mean_log)) + self.error


class MeanBackend(ABC):
    """The access of a search to a space and to its records.

    A backend knows where to start, how to move an iterate, and Newton's method.
    """

    start: Iterate
    """Where the first pass is made."""

    @abstractmethod
    def move(self, x: Iterate, step: np.ndarray) -> Iterate:
        """Return the iterate that a step from x leads to.

        Parameters
        ----------
        x : Iterate
            Where the step begins.
        step : array
            A tangent vector, in the coordinates of mean logarithms at x.

        Returns
        -------
        Iterate
            The point exp_x(step), as the backend represents points.
        """

    @abstractmethod
    def newton(self, x: Iterate, convergence: float) -> NewtonStep | None:
        """Return Newton's method at x, or None to go on with the one in use.

        Parameters
        ----------
        x : Iterate
            Where the next step begins.
        convergence : float
            Fraction of the residual that the last step left; inf where there was none.

        Returns
        -------
        callable or None
            Maps the mean logarithm at x to a step.
        """

    def point(self, x: Iterate) -> np.ndarray:
        """Return the point of the manifold that an iterate stands for.

        Parameters
        ----------
        x : Iterate
            A point as the backend represents it, such as a factor of a matrix.

        Returns
        -------
        array of shape point_shape
            The point; by default the iterate itself.
        """
        return np.asarray(x)

    def iterate_at(self, p: np.ndarray) -> Iterate:
        """Return the iterate that stands for a point of the manifold.

        Parameters
        ----------
        p : array of shape point_shape
            A point.

        Returns
        -------
        Iterate
            The point as the backend represents it; by default the point itself.
        """
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
    search : generator
        It yields a `PassRequest` for each pass that it needs, is sent the `PassResult`,
        and returns its result at the end.
    make_pass : callable
        Makes a pass over the records: maps a `PassRequest` to a `PassResult`.

    Returns
    -------
    object
        What the generator returns.
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
    """Search for the Fréchet mean of the records of a backend.

    This generator yields a `PassRequest` for each pass over the records that it needs
    and is to be sent the `PassResult`; `run_search` runs it. A step is tried with
    Newton's method and Anderson acceleration. If the result is not accepted
    (`_is_accepted`), a line search follows. The search ends when the length of the mean
    logarithm is within the tolerance, or when no step helps any more.

    Parameters
    ----------
    backend : MeanBackend
        The start, moves and Newton steps.
    tolerance : float
        An iterate is the mean if the length of its mean logarithm is at most this.
    max_passes : int
        Cap on the number of passes.

    Returns
    -------
    x : Iterate
        The best iterate that was seen.
    result : PassResult
        The result of the pass made at x.
    converged : bool
        Whether its residual is within the tolerance.
    """
    # The line search takes passes from the same iterator, so the cap holds for both.
    passes_left = iter(range(max_passes))
    x = backend.start
    current = yield PassRequest(x, with_cost=True)
    newton_step = backend.newton(x, inf) or (lambda mean_log: mean_log)
    acceleration = AndersonAcceleration()
    for _ in passes_left:
        if not current.residual > tolerance:  # NaN ends the search too
            break
        step = acceleration.step(newton_step(current.mean_log))
        candidate = backend.move(x, step)
        result = yield PassRequest(candidate, with_cost=False)

        predicted_decrease = float(np.sum(step * current.mean_log))
        accepted = _is_accepted(result, current, predicted_decrease)
        convergence = inf
        if accepted:
            convergence = result.residual / current.residual
        else:
            candidate, result = yield from _line_search(
                backend, x, current, newton_step, passes_left
            )
            if candidate is x:
                break

        new_newton_step = backend.newton(candidate, convergence)
        if new_newton_step is not None or not accepted:
            newton_step = new_newton_step or newton_step
            acceleration = AndersonAcceleration()
        x, current = candidate, result
    return x, current, current.residual <= tolerance


def _line_search(
    backend: MeanBackend,
    x: Iterate,
    current: PassResult,
    newton_step: NewtonStep,
    passes_left: Iterator[int],
) -> Search[tuple[Iterate, PassResult]]:
    """Try the steps 1, ½, ¼, … in one direction from x until a point is accepted.

    The direction is Newton's, or minus the gradient where Newton's leads uphill. Like
    `search_mean`, this generator yields a `PassRequest` for each pass and is to be sent
    the `PassResult`.

    Parameters
    ----------
    backend : MeanBackend
        Moves iterates and supplies Newton's method.
    x : Iterate
        Where the search begins.
    current : PassResult
        The result of the pass made at x.
    newton_step : callable
        Newton's method in use, in case the backend has no other for x.
    passes_left : iterator
        One item for each pass that may still be made; items are consumed.

    Returns
    -------
    iterate : Iterate
        The first accepted iterate; x itself if there is none.
    result : PassResult
        The result of the pass made there.
    """
    if isnan(current.mean_square):  # that pass was made without the cost
        current = yield PassRequest(x, with_cost=True)
    step = (backend.newton(x, inf) or newton_step)(current.mean_log)
    predicted_decrease = float(np.sum(step * current.mean_log))
    if not predicted_decrease > 0:  # the Hessian is indefinite, or of another point
        step = current.mean_log
        predicted_decrease = current.residual**2

    for _ in passes_left:
        candidate = backend.move(x, step)
        result = yield PassRequest(candidate, with_cost=True)
        if _is_accepted(result, current, predicted_decrease):
            return candidate, result

        step = step / 2
        predicted_decrease = predicted_decrease / 2
        if predicted_decrease <= _LEAST_DECREASE * current.mean_square:
            break
    return x, current


def _is_accepted(
    result: PassResult, current: PassResult, predicted_decrease: float
) -> bool:
    """Return whether the search may move from its current iterate to a new one.

    It may if the move halves the gradient at no higher cost, where the cost is
    ½·mean d². It may also if the cost decreases by a fraction of what the gradient
    predicts (Armijo's rule). If the predicted decrease is below the round-off of the
    cost, any smaller gradient suffices.

    Parameters
    ----------
    result, current : PassResult
        The results of the passes made at the new and at the current iterate.
    predicted_decrease : float
        Decrease of the cost along the step, to first order: ⟨step, mean logarithm⟩.

    Returns
    -------
    bool
        False also if the new gradient is NaN.
    """
    halves_gradient = result.residual < 0.5 * current.residual
    highest_equal_cost = (1 + _VISIBLE_CHANGE) * current.mean_square
    raises_cost = result.mean_square > highest_equal_cost  # False for NaN
    if halves_gradient and not raises_cost:
        return True
    if abs(predicted_decrease) <= _VISIBLE_CHANGE * current.mean_square:
        return result.residual < current.residual
    # The mean square is twice the cost, so it must fall by twice as much.
    required_square = current.mean_square - 2 * _ARMIJO_FRACTION * predicted_decrease
    return predicted_decrease > 0 and result.mean_square <= required_square


class AndersonAcceleration:
    """Improves the steps of a fixed-point iteration by what earlier steps changed.

    Let F be the step that is proposed now, ΔX the matrix of earlier steps and ΔF the
    matrix of the changes of the proposal after each of them. The accelerated step is
    F − (ΔX + ΔF)γ, where γ is the least-squares solution of ΔF·γ = F (Anderson 1965).
    """

    def __init__(self) -> None:
        """Begin without a memory: the first step will be the one that is proposed."""
        self._steps: list[np.ndarray] = []
        self._proposals: list[np.ndarray] = []

    def step(self, proposal: np.ndarray) -> np.ndarray:
        """Return the accelerated step for a proposed one, and remember both.

        With F the proposal, ΔX the last steps and ΔF the changes of the proposals after
        them, the result is F − (ΔX + ΔF)γ with γ the least-squares solution of
        ΔF·γ = F. The first proposal is returned as it is.

        Parameters
        ----------
        proposal : array
            The step that Newton's method proposes.

        Returns
        -------
        array
            The accelerated step, of the same shape.
        """
        self._proposals = [*self._proposals, proposal][-_ANDERSON_MEMORY - 1 :]
        step = proposal
        if self._steps:
            for direction, correction in self._orthonormal_changes():
                gamma = float(direction @ proposal.ravel())
                step = step - gamma * correction.reshape(proposal.shape)
        self._steps = [*self._steps, step][-_ANDERSON_MEMORY:]
        return step

    def _orthonormal_changes(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Make the changes ΔF of the proposals orthonormal, and combine ΔX + ΔF alike.

        Gram-Schmidt begins with the latest change, because changes fall by orders of
        magnitude from step to step. A change is left out if hardly anything of it is
        linearly independent of the later ones.

        Returns
        -------
        list of (direction, correction)
            An orthonormal basis of the changes of the proposals, and for each of its
            vectors the same linear combination of the columns of ΔX + ΔF; flat arrays.
        """
        changes = [(new - old).ravel() for old, new in pairwise(self._proposals)]
        basis: list[tuple[np.ndarray, np.ndarray]] = []
        latest_first = zip(reversed(self._steps), reversed(changes), strict=True)
        for earlier_step, change in latest_first:
            correction = earlier_step.ravel() + change  # a column of ΔX + ΔF
            original_length = float(np.linalg.norm(change))

            # Remove the components along later changes, and from ΔX + ΔF likewise.
            for direction, direction_correction in basis:
                coefficient = float(direction @ change)
                change = change - coefficient * direction
                correction = correction - coefficient * direction_correction

            length = float(np.linalg.norm(change))
            if length > _LEAST_NEW_FRACTION * original_length:
                basis.append((change / length, correction / length))
        return basis
