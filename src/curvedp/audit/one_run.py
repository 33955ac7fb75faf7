"""Auditing an optimizer from ONE run: many records, each replaced or not by a fair coin, and guesses of the coins.

Steinke, Nasr & Jagielski 2023, Theorem 5.2 (replace-one form: a coin chooses between two values of a record). If the run is
(ε, δ)-DP and the attacker guesses r of the m coins, the number of right guesses is stochastically below a binomial with
success probability e^ε/(1+e^ε), but for a probability of at most

    max over i of 2mδ/i · P(v − i ≤ Bin(r, e^ε/(1+e^ε)) < v).

The smallest ε at which the observed number is not too surprising is a lower bound on the ε of the run. The library's own
optimizers have a canary on each axis of the start's tangent space: canary k lies out along ± the k-th axis, so that its
clipped gradient is along that axis and no other's is; the final point, in coordinates at the start, votes on each coin.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from itertools import count
from math import exp, inf, sqrt
from typing import Any, NamedTuple

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

OPTIMIZERS = ("dp-rgd", "dp-rsgd", "dp-rsvrg")
FAMILIES: tuple[Manifold, ...] = (
    Euclidean(2), Sphere(2), Lorentz(2), PoincareBall(2), SPDAffineInvariant(2), Grassmann(4, 2), Rotations(3),
)  # fmt: skip


def one_run_bound(
    canaries: int, guesses: int, right: int, delta: float, confidence: float
) -> float:
    """The largest ε that `right` of `guesses` right guesses about `canaries` coins refute, at this δ and confidence."""
    canaries = _validate.integer("canaries", canaries, 1)
    guesses, right = (
        _validate.integer("guesses", guesses, 1),
        _validate.integer("right", right, 0),
    )
    if not right <= guesses <= canaries:
        raise ParameterError(
            f"right={right}, guesses={guesses}, canaries={canaries}: they must increase in this order"
        )
    delta = _validate.within("delta", delta, 0, 1)
    confidence = _validate.within(
        "confidence", confidence, 0, 1, open_low=True, open_high=True
    )
    low, high = 0.0, 60.0
    if _surprise(canaries, guesses, right, 0.0, delta) > 1 - confidence:
        return 0.0
    while high - low > 1e-6:
        eps = (low + high) / 2
        low, high = (
            (low, eps)
            if _surprise(canaries, guesses, right, eps, delta) > 1 - confidence
            else (eps, high)
        )
    return low  # refuted: the bound is from below


def _surprise(
    canaries: int, guesses: int, right: int, eps: float, delta: float
) -> float:
    """An upper bound on the probability of so many right guesses under (ε, δ)-DP."""
    chance = stats.binom(guesses, 1 / (1 + exp(-eps)))
    tail = float(chance.sf(right - 1))
    if delta == 0 or right == 0:
        return min(tail, 1.0)
    i = np.arange(1, right + 1)
    between = chance.cdf(right - 1) - chance.cdf(right - i - 1)  # P(v − i ≤ W < v)
    return min(tail + float(np.max(2 * canaries * delta / i * between)), 1.0)


def audit_optimizer(
    run: Callable[[np.ndarray, Any], tuple[np.ndarray, Guarantee]],
    canaries: int,
    *,
    delta: float = 1e-9,
    confidence: float = 1 - 1e-6,
    guess_share: float | None = None,
    rng: np.random.Generator | None = None,
) -> AuditResult:
    """Flip a coin for each canary, run once, guess the coins from the scores that the run returns.

    Parameters
    ----------
    run : callable
        Given coins (±1) and a generator, trains on data in which record k is one of two values by coins[k]; returns a score
        for each canary, positive where its coin seems to be +1, and the guarantee that the run claims.
    canaries : int
        Records with a coin each.
    delta : float
        At which ε is bounded: far below (1 − confidence)/canaries, or the theorem proves nothing.
    confidence : float
        Of the bound.
    guess_share : float, optional
        Of the canaries that are guessed, the surest; a quarter by default.
    rng : numpy.random.Generator, optional
        For coins that must repeat.

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
    share = (
        0.25
        if guess_share is None
        else _validate.within("guess_share", guess_share, 0, 1, open_low=True)
    )
    surest = np.argsort(-np.abs(scores))[: max(1, int(share * canaries))]
    right = int(np.count_nonzero(np.sign(scores[surest]) == coins[surest]))
    audited = one_run_bound(canaries, len(surest), right, delta, confidence)
    claimed = float(claim.epsilon(delta)) if claim is not None else inf
    return AuditResult(claimed, audited, delta, canaries, confidence)


class OptimizerCase(NamedTuple):
    """An optimizer on a family of manifolds, audited from one run."""

    mechanism: str
    manifold: Manifold

    def audit(
        self, canaries: int, confidence: float, rng: np.random.Generator
    ) -> AuditResult:
        """One run with that many canaries; the manifold has as many dimensions, and δ is small enough to prove anything."""
        train = (
            _train_pca
            if self.mechanism == "PrivatePCA-dp-rgd"
            else partial(_train, *self)
        )
        delta = (1 - confidence) / (100 * canaries)
        return audit_optimizer(
            train, canaries, delta=delta, confidence=confidence, rng=rng
        )


def optimizer_cases() -> Iterator[OptimizerCase]:
    """The optimizers of `curvedp.optim` (extra: jax); the manifold's size is set by the number of canaries."""
    for name in OPTIMIZERS:
        for space in FAMILIES:
            yield OptimizerCase(name, space)
    yield OptimizerCase("PrivatePCA-dp-rgd", Sphere(2))


def _large_enough(family: Manifold, dim: int) -> Manifold:
    """The smallest manifold of the family (of matrices: half as wide as high) with at least so many dimensions."""
    kind: Any = type(family)
    sizes = (kind(2 * k, k) if len(fields(kind)) == 2 else kind(k) for k in count(2))
    found: Manifold = next(M for M in sizes if M.dim >= dim)
    return found


def _train(
    name: str, family: Manifold, coins: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, Guarantee]:
    from curvedp import optim

    m = len(coins)
    manifold = _large_enough(family, m)
    start = np.asarray(manifold.origin)
    data = np.asarray(
        manifold.exp(
            start,
            manifold.from_coordinates(start, coins[:, None] * np.eye(m, manifold.dim)),
        )
    )
    problem = optim.FrechetMeanProblem(manifold)
    steps, clip, mu = 4, 0.5, 2.0
    noise = sqrt(steps) * 2 * clip / (m * mu)
    options: dict[str, Any] = {
        "learning_rate": 0.01,
        "rng": rng,
        "clip": clip,
        "noise": noise,
        "steps": steps,
    }
    if name == "dp-rsgd":
        options |= {"batch_size": m // 2}
    elif name == "dp-rsvrg":
        options |= {
            "batch_size": m // 2,
            "clip": (clip, clip),
            "noise": (noise, noise),
            "epochs": 2,
            "inner_steps": 2,
        }
        del options["steps"]
    found = getattr(optim, name.replace("-", "_"))(problem, data, start, **options)
    return np.asarray(manifold.normal_coordinates(start, found.point))[
        :m
    ], found.guarantee


def _train_pca(
    coins: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, Guarantee]:
    """Records (w ± uₖ)/√2 about the public start w of the descent: the slope of −(w·z)² there is ∓ along uₖ. Nine
    times as many records are 0: they shrink steps and noise alike, so that the descent stays where it started."""
    from curvedp.entropy import GeneratorSource
    from curvedp.estimators import PrivatePCA

    sphere, guarantee = Sphere(len(coins)), GDP(2.0)
    w = np.asarray(
        sphere.project(np.random.default_rng(0).standard_normal(len(coins) + 1))
    )
    axes = np.asarray(sphere.from_coordinates(w, np.eye(len(coins))))
    model = PrivatePCA(
        1, radius=1.0, method="dp-rgd", guarantee=guarantee, source=GeneratorSource(rng)
    )
    records = np.concatenate(
        [(w + coins[:, None] * axes) / sqrt(2), np.zeros((9 * len(coins), len(w)))]
    )
    point = model.fit(records).components_[0]
    return np.asarray(axes @ point) * np.sign(point @ w), guarantee
