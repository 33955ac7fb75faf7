"""DP-RSVRG: variance-reduced steps, private at one full gradient an epoch (Utpala et al. 2023, with E11 and E12 mended).

At the anchor w̃ the noisy full gradient g̃ is released once and then only post-processed; each inner step releases a noisy
clipped sum of DIFFERENCES grad f(w) - PT grad f(w̃), which are small near the anchor and so can be clipped hard.
"""

import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, Literal

import jax
import jax.numpy as jnp

from curvedp import _validate
from curvedp._silence import quiet_about_records
from curvedp.errors import ParameterError
from curvedp.mechanisms import optimizer as mechanisms
from curvedp.optim import _loop as loop
from curvedp.optim._batches import chance_of, check_batch, draw_batches, parted
from curvedp.optim._randomness import Randomness
from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult, finished
from curvedp.privacy import Guarantee
from curvedp.privacy import optimizer_accounting as cost
from curvedp.statistics.clipped_gradient import ClippedGradient, ClippedGradientSum


def dp_rsvrg(
    problem: Problem,
    data: Any,
    init: Any,
    epochs: int,
    inner_steps: int,
    clip: tuple[float, float],
    learning_rate: float | Callable[[int], float],
    guarantee: Guarantee | None = None,
    noise: tuple[float, float] | float | None = None,
    rng: Any = None,
    batch_size: float | None = None,
    sampling: Literal["poisson", "fixed-size"] = "poisson",
    output: Literal["last", "random"] = "last",
    restarts: int = 1,
    record_history: int = False,
    groups: Any = None,
) -> OptimResult:
    """`epochs` anchors with `inner_steps` variance-reduced steps each, from batches of expected size `batch_size`.

    The released anchor gradient is shortened to C1 (free: it is post-processing), because differences clipped to C1 cannot
    balance a longer one.

    Guarantees
    - `result.guarantee` bounds the composition of all epochs and steps of all restarts for replace-one adjacency, or where
      asked for with adjacency="add-remove", of these and a noisy count: the number of records is private then.

    Parameters
    ----------
    epochs, inner_steps : int
        How many anchors, and steps from each.
    clip : (C0, C1)
        Bounds of a record's gradient at the anchor and of its difference.
    guarantee : Guarantee, optional
        The budget is split for the smallest error at the end (`accounting.rsvrg_noise`).
    noise : (σ₁, σ₂) or float, optional
        Standard deviations on the mean full gradient and on the averaged difference; one number: both.
    batch_size : int, optional; float where n is private
        Of the differences. Left out it is ⌈√n⌉: then √n inner steps cost as much as the anchor's pass. Where n is private
        (a guarantee with adjacency="add-remove"), the share of the records.
    output : "last" or "random"
        The paper's option I, or its option II, a uniformly drawn iterate.
    restarts : int
        The whole is run so often, each from the output of the one before (its Algorithm 12), and all are charged.
    problem, data, init, learning_rate, rng, sampling, record_history, groups
        As in `dp_rsgd`.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> X = Sphere(2).project(np.random.default_rng(0).normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rsvrg(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]), epochs=3, inner_steps=10,
    ...                   batch_size=50, clip=(0.7, 0.3), learning_rate=0.2, noise=(0.01, 0.01))
    >>> result.guarantee.epsilon(1e-6) < 10
    True
    """
    sizes = {"epochs": epochs, "inner_steps": inner_steps, "restarts": restarts}
    epochs, inner_steps, restarts = (
        _validate.integer(name, value, 1) for name, value in sizes.items()
    )
    bounds = _pair("clip", clip)
    _validate.choice("output", output, ("last", "random"))
    schedule = loop.rates(learning_rate, epochs * inner_steps).reshape(
        epochs, inner_steps
    )
    marks = loop.recorded(record_history, restarts * epochs * inner_steps).reshape(
        restarts, epochs, inner_steps
    )
    chance = (
        chance_of(batch_size, sampling) if loop.is_added(guarantee, noise) else None
    )
    with loop.full_precision(), loop.compiled_once(problem), quiet_about_records():
        w, records = loop.prepare(
            problem, data, init, groups, least=2 if chance is None else 0
        )
        n, manifold, random = len(records), problem.manifold, Randomness(rng)
        total, rate = restarts * epochs, float(schedule.mean())
        made: Any
        asked: Any = guarantee
        scales: Any = (None, None)
        if chance is not None:
            charged: Any = tuple(
                cost.add_remove_clip(bound, manifold.dim, w.dtype) for bound in bounds
            )
            sd, count_noise = cost.add_remove_rsvrg_noise(
                total, inner_steps, chance, charged, asked, rate
            )
            size, count = max(int(chance * n), 1), random.noisy(n, count_noise)
            scales, units = (
                (bounds[0] / count, bounds[1] / (chance * count)),
                (sd[0] / bounds[0], sd[1] / bounds[1]),
            )
            statistic: Any = ClippedGradientSum(manifold, charged[0])
            made = partial(
                mechanisms.AddedVarianceReducedMechanism,
                rate=chance,
                count_noise=count_noise,
            )
        else:
            size = check_batch(
                math.isqrt(n - 1) + 1 if batch_size is None else batch_size, n, sampling
            )
            batches_of = zip(bounds, (None, size), strict=True)
            charged = tuple(
                cost.rounded_clip(bound, manifold.dim, w.dtype, n, batch)
                for bound, batch in batches_of
            )
            if guarantee is not None:
                sd = cost.rsvrg_noise(
                    n, total, inner_steps, size, charged, guarantee, sampling, rate
                )
            else:
                sd = _pair(
                    "noise", (noise, noise) if isinstance(noise, Real) else noise
                )
            asked = guarantee or cost.rsvrg_guarantee(
                n, total, inner_steps, size, charged, sd, sampling
            )
            statistic, units = ClippedGradient(manifold, charged[0], n), sd
            made = partial(
                mechanisms.VarianceReducedMechanism, batch_size=size, sampling=sampling
            )
        run = {
            "epochs": total,
            "inner_steps": inner_steps,
            "difference_clip": charged[1],
            "statistic": statistic,
        }
        mechanism = made(**run, full_noise=sd[0], inner_noise=sd[1])
        history = []
        for record in marks:
            chosen, kept = (
                divmod(
                    int(random.integers(epochs * inner_steps, (1,))[0]), inner_steps
                ),
                w,
            )
            for epoch in range(epochs):
                every = chance is not None and (chance == 1 or not n)
                batches = (
                    None
                    if every
                    else draw_batches(random, n, size, inner_steps, sampling, chance)
                )
                xi = (
                    units[0] * random.normal(1, manifold.dim)[0],
                    units[1] * random.normal(inner_steps, manifold.dim),
                )
                keep = output == "random" and epoch == chosen[0]
                told = record[epoch] if marks.any() else None
                w, path, values = _epoch(
                    problem,
                    records,
                    w,
                    bounds,
                    scales,
                    size,
                    batches,
                    schedule[epoch],
                    xi,
                    told,
                    keep,
                )
                history.append(values)
                kept = manifold.project(path[chosen[1]]) if keep else kept
            w = w if output == "last" else kept
        return finished(mechanism, w, asked, sd, random, history, marks, groups)


@partial(jax.jit, static_argnames=("problem", "size", "keep_path"))
def _epoch(
    problem: Problem,
    data: Any,
    anchor: Any,
    clip: tuple[Any, Any],
    scales: tuple[Any, Any],
    size: int,
    batches: Any,
    rate: Any,
    xi: tuple[Any, Any],
    marks: Any,
    keep_path: bool,
) -> tuple[Any, Any, Any]:
    """The last point, all points where they are wanted, and the recorded objectives; `scales` as of `noisy_mean`."""
    shared, each = parted(batches)
    released = loop.noisy_gradient(
        problem, anchor, data, None, len(data), clip[0], scales[0], xi[0]
    )
    # Differences of length at most C1 cannot balance a longer anchor gradient: the iterate would run away with it for the
    # rest of the epoch. What has been released may be shortened at no cost.
    released = loop.clip_rows(released[None], clip[1])[0]

    def step(w: Any, inputs: tuple[Any, Any, Any, Any]) -> tuple[Any, Any]:
        own, rate, xi, mark = inputs

        def differences(records: Any) -> Any:
            # Both points in one batch. As two calls they run side by side, and two batched decompositions that share
            # XLA's threads can wait for each other for ever (seen on two cores).
            both = jax.vmap(problem.gradients, (0, None))(
                jnp.stack([w, anchor]), records
            )
            return both[0] - problem.carry(anchor, w, both[1])

        batch = None if own is None else own | shared
        mean = loop.noisy_mean(data, batch, size, clip[1], scales[1], xi, differences)
        moved = loop.step_along(
            problem, w, rate, mean + problem.carry(anchor, w, released)
        )
        return moved, (
            w if keep_path else None,
            loop.objective_if(mark, problem, moved, data),
        )

    w, (path, values) = jax.lax.scan(step, anchor, (each, rate, xi[1], marks))
    return problem.manifold.project(w), path, values


def _pair(name: str, values: Any) -> tuple[float, float]:
    try:
        first, second = values
    except (TypeError, ValueError):
        raise ParameterError(
            "must be a pair of positive numbers", parameter=name, value=values
        ) from None
    return _validate.length(f"{name}[0]", first), _validate.length(f"{name}[1]", second)
