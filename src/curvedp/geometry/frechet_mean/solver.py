"""The search for a Fréchet mean, which learns about the records by passes over them. A
pass at a point x computes the mean of log_x xᵢ over all records xᵢ, which is minus the
gradient of the cost ½·mean d², and if asked for the mean of d²(x, xᵢ). The search is a
generator: it yields a request for each pass that it needs and is sent the result, so
that the same search serves records in memory, on devices and on clusters.

Steps are Newton's with the Hessian of some of the records, improved by Anderson
acceleration. A step is accepted by Armijo's rule and shortened otherwise
(docs/theory/frechet-mean.md). The passes are made by `backends`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
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

SLOW_CONVERGENCE = 0.1
"""A Hessian is computed again after a step that left more than this fraction of the
residual."""

# Armijo's rule: fraction of the predicted decrease that must be gained.
_ARMIJO_FRACTION = 1e-4

# Changes of the cost below this fraction of it are round-off.
_VISIBLE_CHANGE = 1e-12

# A line search ends when the predicted decrease is below this fraction of the cost.
_LEAST_DECREASE = 1e-16

Iterate = Any
"""A point of the manifold, in the form in which a backend represents it."""

NewtonStep = Callable[[np.ndarray], np.ndarray]
"""Maps the mean logarithm at an iterate (minus the gradient) to a step from there."""


class PassRequest(NamedTuple):
    """A request for a pass over the records.

    Attributes
    ----------
    x : Iterate
        The iterate at which logarithms are taken.
    with_cost : bool
        Whether the pass must also compute the mean squared distance, and compute the
        mean logarithm as accurately as the backend can. If not, a cheaper approximation
        of the mean logarithm is enough.
    """

    x: Iterate
    with_cost: bool


@dataclass(frozen=True)
class PassResult:
    """The result of a pass over the records at an iterate x.

    Parameters
    ----------
    mean_log : array
        Mean of log_x xᵢ over the records xᵢ, in coordinates at x.
    mean_square : float
        Mean squared distance of the records to x; NaN if it was not computed.
    error : float
        Bound on the error of the mean logarithm.
    """

    mean_log: np.ndarray
    mean_square: float
    error: float = 0.0

    @cached_property
    def residual(self) -> float:
        """An upper bound on the length of the mean logarithm, which is 0 at the mean.

        A search ends at an iterate where this bound is small.
        """
        return float(np.linalg.norm(self.mean_log)) + self.error


class MeanBackend(ABC):
    """The part of a search that depends on the space and on where the records are.

    A backend supplies the first iterate, moves iterates, and supplies Newton's method.
    """

    first_iterate: Iterate
    """The iterate at which the first pass is made."""

    @abstractmethod
    def move(self, x: Iterate, step: np.ndarray) -> Iterate:
        """Return the iterate that a step from x leads to.

        Parameters
        ----------
        x : Iterate
            The iterate from which the step is made.
        step : array
            A tangent vector, in the coordinates of mean logarithms at x.

        Returns
        -------
        Iterate
            The point exp_x(step), as the backend represents points.
        """

    @abstractmethod
    def newton(self, x: Iterate, convergence: float) -> NewtonStep | None:
        """Return Newton's method at x, or None if the search keeps the one in use.

        Parameters
        ----------
        x : Iterate
            The iterate from which the next step is made.
        convergence : float
            The fraction of the residual that the last step left. If there was no last
            step it is inf.

        Returns
        -------
        callable or None
            A function that maps the mean logarithm at x to a step.
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


@dataclass
class _PassBudget:
    """A count of the passes that a search may still make.

    The search and its line searches use the same count, so that the cap holds for all
    their passes together.

    Parameters
    ----------
    remaining : int
        The number of passes that are left.
    """

    remaining: int

    def spend(self) -> bool:
        """Return whether a pass is left, and if so count it as made."""
        if self.remaining <= 0:
            return False
        self.remaining -= 1
        return True


def evenly_spaced(n: int, sample_size: int) -> np.ndarray:
    """Return the indices of `sample_size` evenly spaced records out of n.

    Backends compute a start or a Hessian from such a sample. It is not random, so that
    the same records give the same mean.

    Parameters
    ----------
    n : int
        The number of records, more than `sample_size`.
    sample_size : int
        The number of records in the sample.

    Returns
    -------
    array of int, shape (sample_size,)
        Increasing indices, from 0 to n − 1.
    """
    return np.linspace(0, n - 1, sample_size).astype(np.int64)


def run_search(
    search: Search[Result], make_pass: Callable[[PassRequest], PassResult]
) -> Result:
    """Run a search with a function that makes its passes, and return its result.

    This is the loop for records in memory. Clusters and devices answer the requests of
    a search in their own way.

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
        The result that the generator returns.
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

    This generator yields a `PassRequest` for each pass over the records that it needs,
    and its caller sends back the `PassResult`; `run_search` is such a caller. A step is
    tried with Newton's method and Anderson acceleration. If the result is not accepted
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
    budget = _PassBudget(max_passes)
    x = backend.first_iterate
    current = yield PassRequest(x, with_cost=True)
    # Before the first step there is no convergence: inf asks for a new Hessian.
    newton_step = backend.newton(x, inf) or _gradient_step
    acceleration = AndersonAcceleration()

    while current.residual > tolerance and budget.spend():  # NaN ends the search too
        # Try an accelerated Newton step.
        step = acceleration.step(newton_step(current.mean_log))
        candidate = backend.move(x, step)
        result = yield PassRequest(candidate, with_cost=False)
        predicted_decrease = float(np.sum(step * current.mean_log))
        accepted = _is_accepted(result, current, predicted_decrease)

        # If it does not help, search along the plain Newton step.
        if accepted:
            convergence = result.residual / current.residual
        else:
            convergence = inf
            candidate, result = yield from _line_search(
                backend, x, current, newton_step, budget
            )
            if candidate is x:  # no step helps any more
                break

        # The backend has a new Hessian if the last step was slow. The memory of the
        # acceleration is of no use after a change of the method or a rejected step.
        new_newton_step = backend.newton(candidate, convergence)
        if new_newton_step is not None:
            newton_step = new_newton_step
        if new_newton_step is not None or not accepted:
            acceleration = AndersonAcceleration()
        x, current = candidate, result

    return x, current, current.residual <= tolerance


def _gradient_step(mean_log: np.ndarray) -> np.ndarray:
    """Return the mean logarithm itself as the step: gradient descent of step length 1."""
    return mean_log


def _line_search(
    backend: MeanBackend,
    x: Iterate,
    current: PassResult,
    newton_step: NewtonStep,
    budget: _PassBudget,
) -> Search[tuple[Iterate, PassResult]]:
    """Try the steps 1, ½, ¼, … in one direction from x until a point is accepted.

    The direction is Newton's, or minus the gradient where Newton's leads uphill. Like
    `search_mean`, this generator yields a `PassRequest` for each pass, and its caller
    sends back the `PassResult`.

    Parameters
    ----------
    backend : MeanBackend
        It moves iterates and supplies Newton's method.
    x : Iterate
        The iterate at which the search begins.
    current : PassResult
        The result of the pass made at x.
    newton_step : callable
        Newton's method in use, in case the backend has no other for x.
    budget : _PassBudget
        The passes that may still be made; those of the line search are counted.

    Returns
    -------
    iterate : Iterate
        The first accepted iterate; x itself if there is none.
    result : PassResult
        The result of the pass made there.
    """
    # Acceptance compares costs: compute the cost at x if the last pass did not.
    if isnan(current.mean_square):
        current = yield PassRequest(x, with_cost=True)

    # The direction: Newton's step, or minus the gradient if that leads uphill.
    newton_step = backend.newton(x, inf) or newton_step
    step = newton_step(current.mean_log)
    predicted_decrease = float(np.sum(step * current.mean_log))
    if not predicted_decrease > 0:  # the Hessian is indefinite, or of another point
        step = current.mean_log
        predicted_decrease = current.residual**2

    while budget.spend():
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

    The cost is ½·mean d², and its gradient is minus the mean logarithm. A move is
    accepted in two cases: it halves the length of the gradient without raising the
    cost, or the cost decreases by a fraction of what the gradient predicts (Armijo's
    rule). If the predicted decrease is below the round-off of the cost, Armijo's rule
    is replaced: any shorter gradient is enough.

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
    # The first case. The cost may not have been computed; then it is NaN, and the length
    # of the gradient decides alone.
    halves_gradient = result.residual < 0.5 * current.residual
    highest_equal_cost = (1 + _VISIBLE_CHANGE) * current.mean_square
    raises_cost = result.mean_square > highest_equal_cost  # False for NaN
    if halves_gradient and not raises_cost:
        return True

    # The second case, or its replacement near the minimum.
    is_decrease_invisible = abs(predicted_decrease) <= (
        _VISIBLE_CHANGE * current.mean_square
    )
    if is_decrease_invisible:
        return result.residual < current.residual

    # The mean square is twice the cost, so it must fall by twice as much.
    required_square = current.mean_square - 2 * _ARMIJO_FRACTION * predicted_decrease
    return predicted_decrease > 0 and result.mean_square <= required_square


class AndersonAcceleration:
    """Improves the steps of a fixed-point iteration with the help of earlier steps.

    Let F be the step that is proposed now, ΔX the matrix of earlier steps and ΔF the
    matrix of the changes of the proposal after each of them. The accelerated step is
    F − (ΔX + ΔF)γ, where γ is the least-squares solution of ΔF·γ = F (Anderson 1965).
    """

    def __init__(self) -> None:
        """Start with an empty memory, so that the first proposal is not changed."""
        self._steps: list[np.ndarray] = []
        self._proposals: list[np.ndarray] = []

    def step(self, proposal: np.ndarray) -> np.ndarray:
        """Return the accelerated step for a proposed one, and remember both.

        Let F be the proposal, ΔX the matrix of the last steps, and ΔF that of the
        changes of the proposals after them. The result is F − (ΔX + ΔF)γ, where γ is
        the least-squares solution of ΔF·γ = F. It is computed column by column, with
        orthonormal combinations of the columns of ΔF (`direction`) and the same
        combinations of those of ΔX + ΔF (`correction`). The first proposal is returned
        as it is.

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
        """Make the changes ΔF of the proposals orthonormal, and treat ΔX + ΔF likewise.

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
