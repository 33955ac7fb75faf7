"""DP-RSGD: clipped gradients of random batches, noise on their sum (Han et al. 2022; E5)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.mechanisms.descent import BatchDescentMechanism, ClippedGradient
from curvedp.optim._added import added_descent, is_added
from curvedp.optim._batches import Batches, batch_sum, draw_batches
from curvedp.optim._loop import (
    chunks,
    clipped_total,
    compiled_once,
    descended,
    full_precision,
    joined,
    prepare,
    rates,
    recorded,
    slopes_of,
)
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy import Guarantee
from curvedp.privacy.descent import derive, rounded_clip, rsgd_guarantee, rsgd_noise


def dp_rsgd(
    problem: Problem,
    data: Any,
    init: Any,
    steps: int,
    batch_size: float,
    clip: float,
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: float | None = None,
    rng: Any = None,
    sampling: Literal["poisson", "fixed-size"] = "poisson",
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """w <- exp_w(-rate·(Σ clipped gradients of a random batch/batch_size + ξ)), `steps` times.

    Guarantees
    - `result.guarantee` bounds the composition of all steps for replace-one adjacency (a record moves the sum by 2·clip),
      exactly accounted (`privacy.subsampled`), for any data.
    - Asked for anything but (ε, δ), the noise is that of known batches: nothing is gained from their chance.
    - Asked by a guarantee with adjacency="add-remove", n is private, as in `dp_rgd`; then `batch_size` is the public share of
      the records that a batch has on average, such as 0.01.

    Parameters
    ----------
    batch_size : int, or float where n is private
        The expected size of a Poisson batch, which has every record with chance batch_size/n; the sum is divided by it.
    noise : float, optional
        The standard deviation of ξ, on the average (on the sum it is batch_size times that).
    sampling : "poisson" or "fixed-size"
        The latter is drawn without replacement.
    problem, data, init, steps, clip, learning_rate, guarantee, rng, record_history
        As in `dp_rgd`.
    groups : sequence of n ids, optional
        As in `dp_rgd`; batches are of persons then.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> from curvedp.privacy import ApproxDP
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rsgd(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]), steps=100, batch_size=20, clip=0.7,
    ...                  learning_rate=0.2, guarantee=ApproxDP(1.0, 1e-6))
    >>> result.point.shape
    (3,)
    """
    steps = _validate.integer("steps", steps, 1)
    clip = _validate.length("clip", clip)
    schedule, marks = rates(learning_rate, steps), recorded(record_history, steps)
    if is_added(guarantee, noise):
        chance = chance_of(batch_size, sampling)
        return added_descent(problem, data, init, schedule, clip, chance, guarantee, rng, marks, groups)
    with full_precision(), compiled_once(problem):
        w, records = prepare(problem, data, init, groups)
        n = len(records)
        size = check_batch(batch_size, n, sampling)
        charged = rounded_clip(clip, problem.manifold.dim, w.dtype, n, size)
        sd, met = derive(
            guarantee,
            noise,
            lambda target: rsgd_noise(n, steps, size, charged, target, sampling),
            lambda value: rsgd_guarantee(n, steps, size, charged, value, sampling),
        )
        random, history = Randomness(rng), []
        for part in chunks(steps, max(problem.manifold.dim, size)):
            count = part.stop - part.start
            batches = draw_batches(random, n, size, count, sampling)
            xi = sd * random.normal(count, problem.manifold.dim)
            record = marks[part] if marks.any() else None
            w, values = _steps(problem, records, w, clip, size, batches, schedule[part], xi, record)
            history.append(values)
        gradient = ClippedGradient(problem.manifold, charged, n)
        mechanism = BatchDescentMechanism(statistic=gradient, steps=steps, batch_size=size, noise=sd, sampling=sampling)
        told = joined(history, marks)
        return finished(mechanism, np.asarray(w), guarantee or met, sd, random, told, groups is not None)


def chance_of(batch_size: float | None, sampling: str) -> float:
    """Of a record to be in a batch, public where n is private."""
    if sampling != "poisson" or batch_size is None or isinstance(batch_size, int | np.integer):
        raise ParameterError(
            "n is private: give batch_size as a share of the records, such as 0.01, and sampling='poisson'"
        )
    return _validate.within("batch_size", batch_size, 0, 1, open_low=True)


def check_batch(batch_size: float, n: int, sampling: str) -> int:
    """A batch size between 1 and n, for a known sampling scheme."""
    _validate.choice("sampling", sampling, ("poisson", "fixed-size"))
    size = _validate.integer("batch_size", batch_size, 1)
    if size > n:
        raise ParameterError(f"batch_size={size} is more than the {n} records or persons")
    return size


@partial(jax.jit, static_argnames=("problem", "size"))
def _steps(
    problem: Problem, data: Any, w: Any, clip: Any, size: int, batches: Batches, rate: Any, xi: Any, marks: Any
) -> tuple[Any, Any]:
    flat = batches.get("flat")
    per_step = {name: array for name, array in batches.items() if name != "flat"}

    def gradient(w: Any, each: tuple[Batches, Any]) -> Any:
        batch, xi = each

        def part(numbers: Any, inside: Any) -> Any:
            return clipped_total(slopes_of(problem, w, data[numbers]), clip, inside)

        return problem.total(w, batch_sum(batch, flat, size, part)) / size + xi

    return descended(problem, data, w, gradient, (per_step, xi), rate, marks)  # type: ignore[no-any-return]  # a pair
