"""DP-RGD and DP-RSGD: gradients of all records, or of random batches, clipped record by record, with tangent Gaussian noise
(Han et al. 2022; E5, E13)."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import numpy as np

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.mechanisms import optimizer as mechanisms
from curvedp.optim import _loop as loop
from curvedp.optim._batches import chance_of, check_batch, draw_batches, parted
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy import Guarantee
from curvedp.privacy import optimizer_accounting as cost
from curvedp.statistics.clipped_gradient import ClippedGradient, ClippedGradientSum


def dp_rgd(
    problem: Problem,
    data: Any,
    init: Any,
    steps: int,
    clip: float,
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: float | None = None,
    rng: Any = None,
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """w <- exp_w(-rate·(mean of clipped gradients + ξ)), ξ a tangent Gaussian of standard deviation `noise`, `steps` times.

    Guarantees
    - exactly √steps·2·clip/(n·noise)-GDP for replace-one adjacency, all iterates included, for any data: a record whose
      gradient is not finite contributes zero.
    - Asked by a guarantee with adjacency="add-remove", n is private: a noisy count is released first, steps are along the
      quotient of noisy sums and it, and `result.noise` is the standard deviation on a sum.

    Parameters
    ----------
    problem, data, init : Problem, array and point
        Manifold and loss; one record a row; and the public start, which sets the precision.
    steps, clip : int and float
        How many, and the largest length of a record's gradient.
    learning_rate : float or callable
        A number, or a function of the step.
    guarantee, noise : Guarantee or float
        One of them: asked by a guarantee, the noise is derived; asked by a standard deviation, the guarantee.
    rng : optional
        None for the operating system's entropy; a NumPy generator or a JAX key is for simulation.
    record_history : bool or int
        True for the objective after every step, a number for every so many. It is NOT private.
    groups : array of ids, optional
        Whose record each is. Then a person's gradient is the mean of their records', clipped once; n is the number of
        persons, and a person with all their records is the unit of privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> from curvedp.privacy import GDP
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rgd(FrechetMeanProblem(Sphere(2)), X, X[0] * 0 + [1, 0, 0], steps=10, clip=0.7,
    ...                 learning_rate=0.5, guarantee=GDP(1.0))
    >>> result.guarantee
    GDP(1.0)
    """
    more: Any = {"record_history": record_history, "groups": groups}
    return dp_rsgd(
        problem,
        data,
        init,
        steps,
        None,
        clip,
        learning_rate,
        guarantee,
        noise,
        rng,
        **more,
    )


def dp_rsgd(
    problem: Problem,
    data: Any,
    init: Any,
    steps: int,
    batch_size: float | None,
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
      exactly accounted (`privacy.subsampling`), for any data.
    - Asked for anything but (ε, δ), the noise is that of known batches: nothing is gained from their chance.
    - Asked by a guarantee with adjacency="add-remove", n is private, as in `dp_rgd`; then `batch_size` is the public share of
      the records that a batch has on average, such as 0.01.

    Parameters
    ----------
    batch_size : int, or float where n is private
        The expected size of a Poisson batch, which has every record with chance batch_size/n; the sum is divided by it. None
        takes every record in every step, as `dp_rgd` does.
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
    steps, clip = _validate.integer("steps", steps, 1), _validate.length("clip", clip)
    schedule, marks = (
        loop.rates(learning_rate, steps),
        loop.recorded(record_history, steps),
    )
    added, every = loop.is_added(guarantee, noise), batch_size is None
    chance = None if not added else 1.0 if every else chance_of(batch_size, sampling)
    with loop.full_precision(), loop.compiled_once(problem), quiet_about_records():
        w, records = loop.prepare(problem, data, init, groups, least=0 if added else 2)
        n, manifold, random = len(records), problem.manifold, Randomness(rng)
        made: Any
        met: Any = guarantee
        if chance is not None:
            charged, size = (
                cost.add_remove_clip(clip, manifold.dim, w.dtype),
                max(int(chance * n), 1),
            )
            sd, count_noise = cost.add_remove_noise(steps, chance, charged, met)
            statistic: Any = ClippedGradientSum(manifold, charged)
            made = partial(
                mechanisms.AddedDescentMechanism, rate=chance, count_noise=count_noise
            )
            unit, scale = sd / clip, clip / (chance * random.noisy(n, count_noise))
            every = chance == 1 or not n
        else:
            size = n if every else check_batch(batch_size, n, sampling)
            charged = cost.rounded_clip(
                clip, manifold.dim, w.dtype, n, None if every else size
            )
            public: Any = (n, steps, charged) if every else (n, steps, size, charged)
            costs: Any = (
                (cost.rgd_noise, cost.rgd_guarantee)
                if every
                else (cost.rsgd_noise, cost.rsgd_guarantee)
            )
            how: Any = {} if every else {"sampling": sampling}
            sd, met = cost.derive(
                guarantee, noise, *(partial(each, *public, **how) for each in costs)
            )
            statistic = ClippedGradient(manifold, charged, n)
            made = (
                mechanisms.DescentMechanism
                if every
                else partial(mechanisms.BatchDescentMechanism, batch_size=size, **how)
            )
            unit, scale = sd, None
        mechanism = made(statistic=statistic, steps=steps, noise=sd)
        history = []
        for part in loop.chunks(
            steps, manifold.dim if every else max(manifold.dim, size)
        ):
            length = part.stop - part.start
            batches = (
                None
                if every
                else draw_batches(random, n, size, length, sampling, chance)
            )
            xi = unit * random.normal(length, manifold.dim)
            record = marks[part] if marks.any() else None
            w, values = _steps(
                problem,
                records,
                w,
                clip,
                scale,
                size,
                batches,
                schedule[part],
                xi,
                record,
            )
            history.append(values)
        return finished(
            mechanism, w, guarantee or met, sd, random, history, marks, groups
        )


@partial(jax.jit, static_argnames=("problem", "size"))
def _steps(
    problem: Problem,
    data: Any,
    w: Any,
    clip: Any,
    scale: Any,
    size: int,
    batches: Any,
    rate: Any,
    xi: Any,
    marks: Any,
) -> tuple[Any, Any]:
    """The last point and the recorded objectives; `scale` as of `noisy_mean`."""
    shared, each = parted(batches)

    def step(w: Any, inputs: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
        own, xi, rate, mark = inputs
        batch = None if own is None else own | shared
        w = loop.step_along(
            problem,
            w,
            rate,
            loop.noisy_gradient(problem, w, data, batch, size, clip, scale, xi),
        )
        return w, loop.objective_if(mark, problem, w, data)

    last, values = jax.lax.scan(step, w, (each, xi, rate, marks))
    return problem.manifold.project(last), values


def descent_mechanism(
    problem: Problem, n: int, steps: int, clip: float, guarantee: Guarantee
) -> mechanisms.DescentMechanism:
    """What `dp_rgd` in double precision releases for n records, calibrated: refuses before anything is spent."""
    charged = cost.rounded_clip(clip, problem.manifold.dim, np.float64, n)
    statistic = ClippedGradient(problem.manifold, charged, n)
    return mechanisms.DescentMechanism(
        statistic=statistic,
        steps=steps,
        noise=cost.rgd_noise(n, steps, charged, guarantee),
    )
