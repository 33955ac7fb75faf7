"""Auditing an optimizer from ONE run: many records, each replaced or not by a fair coin, and guesses of the coins.

Steinke, Nasr & Jagielski 2023, Theorem 5.2 (replace-one form: a coin chooses between two values of a record). If the run is
(ε, δ)-DP and the attacker guesses r of the m coins, the number of right guesses is stochastically below a binomial with
success probability e^ε/(1+e^ε), but for a probability of at most

    max over i of 2mδ/i · P(v − i ≤ Bin(r, e^ε/(1+e^ε)) < v).

The smallest ε at which the observed number is not too surprising is a lower bound on the ε of the run.
"""

from collections.abc import Callable
from math import exp, inf
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.privacy import Guarantee


class OneRunResult(NamedTuple):
    """`audited` is a lower bound on ε at `delta` that holds with the given confidence; `claimed` is the run's own ε.

    Attributes
    ----------
    claimed, audited : float
        ε at `delta` as the run claims, and the lower bound that the guesses prove.
    delta : float
        At which.
    canaries, guesses, right : int
        Coins, guesses made, guesses that were right.
    confidence : float
        Of the bound.

    Examples
    --------
    >>> OneRunResult(claimed=1.0, audited=1.2, delta=1e-9, canaries=400, guesses=100, right=90, confidence=0.999).holds
    False
    """

    claimed: float
    audited: float
    delta: float
    canaries: int
    guesses: int
    right: int
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether the claim survived."""
        return self.audited <= self.claimed


def one_run_bound(canaries: int, guesses: int, right: int, delta: float, confidence: float) -> float:
    """The largest ε that `right` of `guesses` right guesses about `canaries` coins refute, at this δ and confidence.

    Parameters
    ----------
    canaries, guesses, right : int
        Coins, guesses made, guesses that were right.
    delta : float
        At which ε is bounded.
    confidence : float
        Of the bound.

    Examples
    --------
    >>> round(one_run_bound(1000, 500, 400, 1e-6, 0.999), 2)
    1.04
    """
    canaries = _validate.integer("canaries", canaries, 1)
    guesses, right = _validate.integer("guesses", guesses, 1), _validate.integer("right", right, 0)
    if not right <= guesses <= canaries:
        raise ParameterError(f"right={right}, guesses={guesses}, canaries={canaries}: they must increase in this order")
    delta = _validate.within("delta", delta, 0, 1)
    confidence = _validate.within("confidence", confidence, 0, 1, open_low=True, open_high=True)
    low, high = 0.0, 60.0
    if _surprise(canaries, guesses, right, 0.0, delta) > 1 - confidence:
        return 0.0
    while high - low > 1e-6:
        eps = (low + high) / 2
        low, high = (low, eps) if _surprise(canaries, guesses, right, eps, delta) > 1 - confidence else (eps, high)
    return low  # refuted: the bound is from below


def _surprise(canaries: int, guesses: int, right: int, eps: float, delta: float) -> float:
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
) -> OneRunResult:
    """Flip a coin for each canary, run once, guess the coins from the scores that the run returns.

    `run(coins, rng)` trains on data in which record k is one of two values by coins[k] (±1), and returns a score for each
    canary, positive where its coin seems to be +1, and the guarantee that the run claims. δ must be far below
    (1 − confidence)/canaries, or the theorem proves nothing. The surest guesses are made:
    a quarter of them unless `guess_share` says otherwise.

    Parameters
    ----------
    run : callable
        (coins, rng) to scores and the guarantee claimed.
    canaries : int
        Records with a coin each.
    delta : float
        At which ε is bounded.
    confidence : float
        Of the bound.
    guess_share : float, optional
        Of the canaries that are guessed.
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
    share = 0.25 if guess_share is None else _validate.within("guess_share", guess_share, 0, 1, open_low=True)
    surest = np.argsort(-np.abs(scores))[: max(1, int(share * canaries))]
    right = int(np.count_nonzero(np.sign(scores[surest]) == coins[surest]))
    audited = one_run_bound(canaries, len(surest), right, delta, confidence)
    claimed = float(claim.epsilon(delta)) if claim is not None else inf
    return OneRunResult(claimed, audited, delta, canaries, len(surest), right, confidence)
