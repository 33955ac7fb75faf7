"""The audit of a private optimizer from a single run: a lower bound on its ε.
For each of many records, the canaries, a fair coin chooses between two values of the
record. An attacker guesses the coins from the result of the run. If too many guesses
are right, the claimed privacy is refuted.

Theorem 5.2 of Steinke, Nasr &
Jagielski (2023), in the form for replace-one adjacency: if the run is (ε, δ)-DP and the
attacker guesses r of the m coins, the number of right guesses reaches v with
probability at most

    P(W ≥ v) + max over i of 2mδ/i · P(v − i ≤ W < v),    W ~ Bin(r, e^ε/(1 + e^ε)).

The largest ε at which the observed number is too surprising is a lower bound on the ε
of the run.

For the library's own optimizers, canary k is at ± the k-th axis of the tangent space at
the start, so that its clipped gradient is along that axis and no other canary's is. The
final point, in coordinates at the start, votes on each coin.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import count
from math import exp, inf, sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import stats

from curvedp import _validate
from curvedp.audit.empirical import AuditResult
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.geometry.manifold import Manifold
from curvedp.privacy import GDP, Guarantee

if TYPE_CHECKING:
    from curvedp.optim.problem import Problem
    from curvedp.optim.result import OptimResult

OPTIMIZERS = ("dp-rgd", "dp-rsgd", "dp-rsvrg")

# One manifold of each family; `_large_enough` chooses the size that the canaries need.
FAMILIES: tuple[Manifold, ...] = (
    Euclidean(2),
    Sphere(2),
    Lorentz(2),
    PoincareBall(2),
    SPDAffineInvariant(2),
    Grassmann(4, 2),
    Rotations(3),
)

# The largest ε that is tried, and the precision of the bisection for it.
_LARGEST_EPSILON = 60.0
_EPSILON_PRECISION = 1e-6

# The fraction of the coins that an attacker guesses by default: those with the largest
# scores.
_GUESS_SHARE = 0.25

# The run that is audited: its number of steps, the length to which gradients are
# clipped, the GDP parameter of the whole run, and its learning rate.
_STEPS = 4
_CLIP_LENGTH = 0.5
_MU = 2.0
_LEARNING_RATE = 0.01

# For principal components, this many records at 0 are added for each canary.
_ZEROS_PER_CANARY = 9


def one_run_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float
) -> float:
    """Return a lower bound on ε, from the number of coins that were guessed right.

    It is the largest ε at which this many right guesses would be too improbable.

    Parameters
    ----------
    canaries : int
        The number m of coins.
    guesses : int
        The number r of coins that were guessed.
    right : int
        The number v of right guesses.
    delta : float
        The δ at which ε is bounded.
    confidence : float
        The probability with which the bound is true.

    Returns
    -------
    float
        A lower bound on the ε of the run; 0 if no ε is refuted.

    Raises
    ------
    ParameterError
        Unless right ≤ guesses ≤ canaries and 0 ≤ δ ≤ 1 and 0 < confidence < 1.
    """
    canaries = _validate.integer("canaries", canaries, 1)
    guesses = _validate.integer("guesses", guesses, 1)
    right = _validate.integer("right", right, 0)
    if not right <= guesses <= canaries:
        raise ParameterError(
            f"right={right}, guesses={guesses}, canaries={canaries}: "
            "they must not decrease in this order"
        )
    delta = _validate.within("delta", delta, 0, 1)
    confidence = _validate.within(
        "confidence", confidence, 0, 1, open_low=True, open_high=True
    )

    def is_refuted(epsilon: float) -> bool:
        """Return whether so many right guesses are too improbable at this ε."""
        probability = _probability_bound(canaries, guesses, right, epsilon, delta)
        return probability <= 1 - confidence

    if not is_refuted(0.0):
        return 0.0
    largest_refuted = 0.0
    upper = _LARGEST_EPSILON
    while upper - largest_refuted > _EPSILON_PRECISION:
        middle = (largest_refuted + upper) / 2
        if is_refuted(middle):
            largest_refuted = middle
        else:
            upper = middle
    return largest_refuted


def _probability_bound(
    canaries: int, guesses: int, right: int, epsilon: float, delta: float
) -> float:
    """Bound the probability of at least `right` right guesses under (ε, δ)-DP.

    Theorem 5.2 of Steinke, Nasr & Jagielski (2023), for replace-one adjacency. With
    m = canaries, r = guesses, v = right and W ~ Bin(r, e^ε/(1 + e^ε)), the bound is

        P(W ≥ v) + max over i of 2mδ/i · P(v − i ≤ W < v),

    or 1 if that is larger.

    Parameters
    ----------
    canaries, guesses, right : int
        The number of coins, of guessed coins, and of right guesses.
    epsilon, delta : float
        The guarantee that is assumed.

    Returns
    -------
    float
        The bound on the probability.
    """
    binomial = stats.binom(guesses, 1 / (1 + exp(-epsilon)))
    tail = float(binomial.sf(right - 1))
    if delta == 0 or right == 0:
        return min(tail, 1.0)

    i = np.arange(1, right + 1)
    probability_between = binomial.cdf(right - 1) - binomial.cdf(right - i - 1)
    delta_term = float(np.max(2 * canaries * delta / i * probability_between))
    return min(tail + delta_term, 1.0)


def audit_optimizer(
    run: Callable[[np.ndarray, Any], tuple[np.ndarray, Guarantee]],
    canaries: int,
    *,
    delta: float = 1e-9,
    confidence: float = 1 - 1e-6,
    guess_share: float | None = None,
    rng: np.random.Generator | None = None,
) -> AuditResult:
    """Audit an optimizer with a single run, and return a lower bound on its ε.

    A coin is tossed for each canary, a record with two possible values. Then the
    coins are guessed from the result of the run.

    Parameters
    ----------
    run : callable
        run(coins, rng) trains on data in which record k has one of two values, chosen
        by coins[k] = ±1. It returns a score for each canary, positive if the coin seems
        to be +1, and the guarantee that the run claims.
    canaries : int
        The number of records with a coin, at least 8.
    delta : float
        The δ at which ε is bounded: far below (1 − confidence)/canaries, or the theorem
        proves nothing.
    confidence : float
        The probability with which the bound is true.
    guess_share : float, optional
        The fraction of the coins that is guessed, those with the largest scores; a
        quarter by default.
    rng : numpy.random.Generator, optional
        The generator of the coins; give one for an audit that can be repeated.

    Returns
    -------
    AuditResult
        The claimed ε and its proved lower bound.

    Raises
    ------
    ParameterError
        If a parameter is out of its range.

    Examples
    --------
    >>> from curvedp.privacy import GDP
    >>> def run(coins, rng):
    ...     return coins + rng.normal(0, 2, coins.size), GDP(1.0)
    >>> audit_optimizer(run, 400, rng=np.random.default_rng(0)).holds
    True
    """
    canaries = _validate.integer("canaries", canaries, 8)
    rng = np.random.default_rng() if rng is None else rng
    coins = rng.choice([-1, 1], canaries)
    scores, claim = run(coins, rng)

    if guess_share is None:
        guess_share = _GUESS_SHARE
    guess_share = _validate.within("guess_share", guess_share, 0, 1, open_low=True)
    guess_count = max(1, int(guess_share * canaries))

    # Guess the coins of the canaries with the clearest scores.
    guessed_canaries = np.argsort(-np.abs(scores))[:guess_count]
    guesses = np.sign(scores[guessed_canaries])
    right_count = int(np.count_nonzero(guesses == coins[guessed_canaries]))
    audited = one_run_bound(canaries, guess_count, right_count, delta, confidence)
    claimed = float(claim.epsilon(delta)) if claim is not None else inf
    return AuditResult(claimed, audited, delta, canaries, confidence)


class OptimizerCase(NamedTuple):
    """An optimizer on a family of manifolds, audited from one run.

    Attributes
    ----------
    mechanism : str
        The optimizer's name, one of `OPTIMIZERS`, or "PrivatePCA-dp-rgd".
    manifold : Manifold
        A small member of the family; the audit uses one with a dimension for each
        canary.
    """

    mechanism: str
    manifold: Manifold

    def audit(
        self, canaries: int, confidence: float, rng: np.random.Generator
    ) -> AuditResult:
        """Audit one run with this many canaries.

        Parameters
        ----------
        canaries : int
            The number of records with a coin.
        confidence : float
            The probability with which the bound is true.
        rng : numpy.random.Generator
            The generator of coins and noise.

        Returns
        -------
        AuditResult
            The claimed ε and its lower bound, at a δ small enough for the theorem.
        """
        if self.mechanism == "PrivatePCA-dp-rgd":
            run = _train_pca
        else:
            run = partial(_train_mean, self.mechanism, self.manifold)
        delta = (1 - confidence) / (100 * canaries)
        return audit_optimizer(
            run, canaries, delta=delta, confidence=confidence, rng=rng
        )


def optimizer_cases() -> Iterator[OptimizerCase]:
    """Yield a case for each optimizer of `curvedp.optim` and each family of manifolds.

    The optimizers need JAX, which the extra `jax` installs.

    Yields
    ------
    OptimizerCase
        An optimizer and a small manifold of the family.
    """
    for name in OPTIMIZERS:
        for space in FAMILIES:
            yield OptimizerCase(name, space)
    yield OptimizerCase("PrivatePCA-dp-rgd", Sphere(2))


def _large_enough(family: Manifold, dim: int) -> Manifold:
    """Return the smallest manifold of a family with at least `dim` dimensions.

    Families with two sizes (Grassmann) get matrices that are twice as high as wide.

    Parameters
    ----------
    family : Manifold
        Any member of the family.
    dim : int
        The number of dimensions that is needed.

    Returns
    -------
    Manifold
        The manifold, on which each canary has an axis of its own.
    """
    kind: Any = type(family)
    has_two_sizes = len(fields(kind)) == 2
    for size in count(2):
        manifold: Manifold = kind(2 * size, size) if has_two_sizes else kind(size)
        if manifold.dim >= dim:
            return manifold
    raise AssertionError("count() has no end")


def _train_mean(
    optimizer: str, family: Manifold, coins: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, Guarantee]:
    """Train a Fréchet mean of canaries with a private optimizer, and score the coins.

    Canary k is at distance 1 from the origin along the k-th axis of the tangent space,
    on the side that its coin chooses.

    Parameters
    ----------
    optimizer : str
        One of `OPTIMIZERS`.
    family : Manifold
        Any manifold of the family.
    coins : array of ±1
        The side of each canary.
    rng : numpy.random.Generator
        The generator of noise and batches.

    Returns
    -------
    scores : array
        The final point's coordinate along the axis of each canary.
    guarantee : Guarantee
        The guarantee that the optimizer claims.
    """
    from curvedp import optim

    canary_count = len(coins)
    manifold = _large_enough(family, canary_count)
    start = np.asarray(manifold.origin)
    coordinates = coins[:, np.newaxis] * np.eye(canary_count, manifold.dim)
    tangents = manifold.from_coordinates(start, coordinates)
    records = np.asarray(manifold.exp(start, tangents))
    problem = optim.FrechetMeanProblem(manifold)

    result = _descend(optimizer, problem, records, start, rng)
    final_coordinates = manifold.normal_coordinates(start, result.point)
    return np.asarray(final_coordinates)[:canary_count], result.guarantee


def _descend(
    optimizer: str,
    problem: "Problem",
    records: np.ndarray,
    start: np.ndarray,
    rng: np.random.Generator,
) -> "OptimResult":
    """Run a few noisy steps of an optimizer, and return its result.

    A mean of n gradients, clipped to length c, has sensitivity 2c/n. T steps with noise
    of standard deviation √T·2c/(nμ) are μ-GDP together.

    Parameters
    ----------
    optimizer : str
        One of `OPTIMIZERS`.
    problem : Problem
        The problem, whose objective is minimized.
    records : array
        The records.
    start : array
        The point at which the descent starts.
    rng : numpy.random.Generator
        The generator of noise and batches.

    Returns
    -------
    OptimResult
        The last point, and the guarantee that the optimizer claims.
    """
    from curvedp import optim

    clip = _CLIP_LENGTH
    noise = sqrt(_STEPS) * 2 * clip / (len(records) * _MU)
    common: dict[str, Any] = {"learning_rate": _LEARNING_RATE, "rng": rng}
    if optimizer == "dp-rgd":
        return optim.dp_rgd(
            problem, records, start, clip=clip, noise=noise, steps=_STEPS, **common
        )
    common["batch_size"] = len(records) // 2
    if optimizer == "dp-rsgd":
        return optim.dp_rsgd(
            problem, records, start, clip=clip, noise=noise, steps=_STEPS, **common
        )
    # Two epochs of two steps; full and variance-reduced gradients get the same noise.
    return optim.dp_rsvrg(
        problem,
        records,
        start,
        clip=(clip, clip),
        noise=(noise, noise),
        epochs=2,
        inner_steps=2,
        **common,
    )


def _train_pca(
    coins: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, Guarantee]:
    """Train a private principal component on canaries, and score the coins.

    Canary k is (w ± uₖ)/√2 with the start w and the k-th axis uₖ of its tangent space:
    the gradient of −(w·z)² there is along ∓uₖ. Nine times as many records are 0. They
    shrink the steps and the noise by the same factor, so that the descent stays near its start.

    Parameters
    ----------
    coins : array of ±1
        The side of each canary.
    rng : numpy.random.Generator
        The generator of the noise.

    Returns
    -------
    scores : array
        The component along the axis of each canary.
    guarantee : Guarantee
        The guarantee that the estimator claims.
    """
    from curvedp.estimators import PrivatePCA
    from curvedp.randomness import GeneratorSource

    canary_count = len(coins)
    sphere = Sphere(canary_count)
    guarantee = GDP(_MU)

    # The estimator starts at this public point.
    start_direction = np.random.default_rng(0).standard_normal(canary_count + 1)
    start = np.asarray(sphere.project(start_direction))
    axes = np.asarray(sphere.from_coordinates(start, np.eye(canary_count)))

    canaries = (start + coins[:, np.newaxis] * axes) / sqrt(2)
    zeros = np.zeros((_ZEROS_PER_CANARY * canary_count, len(start)))
    model = PrivatePCA(
        1, radius=1.0, method="dp-rgd", guarantee=guarantee, source=GeneratorSource(rng)
    )
    component = model.fit(np.concatenate([canaries, zeros])).components_[0]

    # A component has no sign; take the one that is nearer to the start.
    sign = np.sign(component @ start)
    return np.asarray(axes @ component) * sign, guarantee
