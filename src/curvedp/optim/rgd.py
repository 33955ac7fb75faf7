"""DP-RGD: private gradient descent on a manifold, with every record in every step. Each
step releases the mean of the records' clipped gradients, with Gaussian noise in the
tangent space.
"""

from collections.abc import Callable
from typing import Any

from curvedp.optim.problem import Problem
from curvedp.optim.result import OptimResult
from curvedp.optim.rsgd import dp_rsgd
from curvedp.privacy import Guarantee


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
    """Minimize a mean loss by gradient descent with noisy clipped gradients.

    One step is w ← exp_w(−rate·(mean of clipped gradients + ξ)), with ξ a tangent
    Gaussian of standard deviation `noise` (Han et al. 2022; corrected in
    docs/errata.md, E5 and E13).

    Parameters
    ----------
    problem : Problem
        The loss of a point and a record, and the manifold on which it is minimized.
    data : array of shape (n, …)
        One record for each row.
    init : array of shape point_shape
        The public start, whose precision is that of the run.
    steps : int
        The number of steps.
    clip : float
        The largest length of a record's gradient; longer ones are shortened to it.
    learning_rate : float or callable
        The factor of the gradient in a step: a number, or a function of the number of
        the step.
    guarantee : Guarantee, optional
        The guarantee that the run must satisfy; the noise is computed from it. Exactly
        one of `guarantee` and `noise` must be given.
    noise : float, optional
        The standard deviation of ξ; the guarantee is computed from it.
    rng : None, numpy.random.Generator or JAX key
        None for the operating system's entropy; the others are for simulation.
    record_history : bool or int
        True to record the objective after every step, a number k after every k-th. It
        is NOT private.
    groups : sequence of n ids, optional
        The person to whom each record belongs. Then a person's gradient is the mean of
        their records', clipped once; n is the number of people, and a person with all
        their records is the unit of privacy.

    Returns
    -------
    OptimResult
        The last iterate `point`, its `guarantee`, the `noise`, and a `certificate`.

    Notes
    -----
    Guarantees

    - exactly √steps·2·clip/(n·noise)-GDP for replace-one adjacency, all iterates
      included, for any data: a record whose gradient is not finite contributes zero.
    - For a guarantee with adjacency="add-remove", n is private: a noisy count is
      released first, and each step divides a noisy sum of gradients by it.
      `result.noise` is then the standard deviation on a sum.

    Examples
    --------
    >>> import numpy as np
    >>> from curvedp.geometry import Sphere
    >>> from curvedp.optim import FrechetMeanProblem
    >>> from curvedp.privacy import GDP
    >>> rng = np.random.default_rng(0)
    >>> X = Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (500, 3)))
    >>> result = dp_rgd(FrechetMeanProblem(Sphere(2)), X, np.array([1.0, 0, 0]),
    ...                 steps=10, clip=0.7, learning_rate=0.5, guarantee=GDP(1.0))
    >>> result.guarantee
    GDP(1.0)
    """
    return dp_rsgd(
        problem,
        data,
        init,
        steps,
        None,  # Every record is in every step.
        clip,
        learning_rate,
        guarantee,
        noise,
        rng,
        record_history=record_history,
        groups=groups,
    )
