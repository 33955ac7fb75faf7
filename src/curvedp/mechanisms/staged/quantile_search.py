"""Private quantiles of distances: how far from a point most records are.

There are two ways. `BinarySearch` asks for one noisy count at a time, which suits
Gaussian noise: k questions cost √k in noise. For pure ε they would cost k times the
noise, so `ShellHistogram` asks once for the counts in all of many public shells: a
replaced record leaves one shell and enters another, so all counts together move by 2,
however many there are.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, gammaincinv, poch

from curvedp.mechanisms.staged.budget import ReleasedCounts, StageBudget

# Decreasing lengths -> how many records exceed each of them.
CountBeyond = Callable[[np.ndarray], np.ndarray]

# A search over 2^7 − 1 lengths, each 1.25 times the next, reaches down to 1e-12 of the
# first.
DEFAULT_QUERIES = 7
DEFAULT_RATIO = 1.25

# Beyond this many times the likeliest median, nothing is looked for.
MAX_MEDIAN_RATIO = 4.0

# Candidate medians and radii that are weighed for each shell.
_CANDIDATES_PER_SHELL = 3

# How much of what a ball cuts off adds up to a bias: 1 if all records outside lie one
# way. Measured on real data sets.
_BIAS_SHARE = 0.7

# Laws of a distance x for which x^order is Gamma(power/order): exponential tails (order
# 1), normal ones (2) and sharp edges (16), each from many records near 0 to all in one
# shell.
_LAW_POWERS, _LAW_ORDERS = np.stack(
    [(power, order) for order in (1.0, 2.0, 16.0) for power in 2.0 ** np.arange(-1, 7)],
    axis=1,
)


class BinarySearch(NamedTuple):
    """A binary search over 2^queries − 1 public lengths, each `ratio` times the next.

    An early question that noise answers wrongly leads far too high; one that is passed
    too easily ends at the length it was asked about, where a few more records are cut
    off. So each question allows `patience` standard deviations more than the next one.
    """

    queries: int = DEFAULT_QUERIES
    ratio: float = DEFAULT_RATIO
    patience: float = 0.0

    def count_std(self, scale: float, share: float) -> float:
        """Return the standard deviation of each noisy count.

        Parameters
        ----------
        scale : float
            1/μ of the whole release.
        share : float
            Of the budget, for the whole search.
        """
        return scale * sqrt(self.queries / share)

    def find(
        self,
        budget: StageBudget,
        count_beyond: CountBeyond,
        largest: float,
        allowed_outside: float,
        share: float,
        center: np.ndarray | None = None,
    ) -> float:
        """Return the smallest public length that about `allowed_outside` records exceed.

        Parameters
        ----------
        budget : StageBudget
        count_beyond : function
            Counts the records beyond each of a decreasing array of lengths.
        largest : float
            The first of the public lengths.
        allowed_outside : float
            How many records may exceed the answer.
        share : float
            Of the budget, for the whole search.
        center : array, optional
            The point from which the lengths are distances, for the transcript.
        """
        n_lengths = 2**self.queries - 1
        lengths = largest * self.ratio ** -np.arange(n_lengths, dtype=np.float64)
        counts = count_beyond(lengths)

        low, high = 0, n_lengths - 1
        for questions_left in reversed(range(self.queries)):
            middle = (low + high + 1) // 2
            count = counts[middle : middle + 1]
            answer = budget.release("radius", share / self.queries, 1.0, count)
            noisy_count = float(answer.values[0])
            budget.counts.append(
                ReleasedCounts(center, float(lengths[middle]), noisy_count, answer.std)
            )
            threshold = allowed_outside + questions_left * self.patience * answer.std
            if noisy_count <= threshold:
                low = middle
            else:
                high = middle - 1
            high = max(low, high)
        return float(lengths[low])


class ShellEstimate(NamedTuple):
    """What a noisy histogram of distances says.

    Attributes
    ----------
    typical_distance : float
        About the middle of the two neighboring shells that hold most records.
    best_radius : float
        The radius of a ball in which a mean is expected to err least.
    """

    typical_distance: float
    best_radius: float


class ShellHistogram(NamedTuple):
    """A histogram over `n_shells` public shells whose radii are `ratio` times the next.

    The outermost shell holds everything that is farther out, the innermost everything
    that is nearer.
    """

    n_shells: int
    ratio: float

    def reaching_to(self, smallest_share: float) -> "ShellHistogram":
        """Return a histogram with no more shells than reach that share of the first radius."""
        if not 0 < smallest_share < 1:
            return self
        needed = 2 + ceil(-log(smallest_share) / log(self.ratio))
        return self._replace(n_shells=min(self.n_shells, needed))

    def estimate(
        self,
        budget: StageBudget,
        count_beyond: CountBeyond,
        n: int,
        largest: float,
        noise_per_radius: float,
        share: float,
        center: np.ndarray,
    ) -> ShellEstimate:
        """Release the counts of all shells, and estimate a typical distance and a radius.

        Parameters
        ----------
        budget : StageBudget
        count_beyond : function
            Counts the records beyond each of a decreasing array of lengths.
        n : int
            The number of records.
        largest : float
            The radius of the outermost shell.
        noise_per_radius : float
            The noise to come in a ball of radius r has the length r·noise_per_radius/n.
        share : float
            Of the budget.
        center : array
            The point from which distances are measured.
        """
        radii = largest * self.ratio ** -np.arange(self.n_shells, dtype=np.float64)
        counts = np.diff(count_beyond(radii)[1:], prepend=0.0, append=float(n))
        answer = budget.release("shells", share, sqrt(2), counts, l1_sensitivity=2.0)
        noisy = answer.values
        noise_scale = budget.transcript[-1]["noise"]
        budget.counts.append(
            ReleasedCounts(center, radii[1:], np.cumsum(noisy)[:-1], noise_scale)
        )

        fullest = int(np.argmax(noisy[:-1] + noisy[1:]))
        sum_of_two = noisy[fullest] + noisy[fullest + 1]
        difference = noisy[fullest] - noisy[fullest + 1]
        position = 0.0
        if sum_of_two > 0:
            position = float(np.clip(difference / sum_of_two, -1, 1)) / 2
        typical_distance = radii[fullest + 1] * self.ratio**position

        best_share = best_radius_share(noisy, noise_scale, n, noise_per_radius, self)
        return ShellEstimate(float(typical_distance), largest * best_share)


def best_radius_share(
    noisy_counts: np.ndarray,
    noise_scale: float,
    n: int,
    noise_per_radius: float,
    shells: ShellHistogram,
) -> float:
    """Return the radius of least expected loss, over the first radius of the histogram.

    The loss of a radius is the noise to come, in proportion to it, and the bias by what
    it cuts off. The latter is averaged over laws of the distance (`distance_laws`),
    weighted by how likely they make the noisy counts.
    """
    expected_counts = n * distance_laws(shells).shell_shares
    misfits = np.sum(np.abs(noisy_counts - expected_counts), axis=-1) / noise_scale
    shares = best_radius_shares(misfits[None], n, np.array([noise_per_radius]), shells)
    return float(shares[0])


def best_radius_shares(
    misfits: np.ndarray, n: int, noise_per_radius: np.ndarray, shells: ShellHistogram
) -> np.ndarray:
    """Return `best_radius_share` of many histograms at once.

    Parameters
    ----------
    misfits : array, shape (histograms, laws, medians)
        The distance of the noisy counts from those of every law, in noise scales; the
        log likelihood up to a constant and its sign.
    n : int
    noise_per_radius : array, shape (histograms,)
    shells : ShellHistogram
    """
    laws = distance_laws(shells)
    n_candidates = misfits.shape[2]
    radii = shells.ratio ** -(np.arange(n_candidates) / _CANDIDATES_PER_SHELL)
    likeliest_median = np.argmin(misfits.min(axis=1), axis=-1)
    # A law whose median is farther than MAX_MEDIAN_RATIO from the likeliest one would
    # count for its length alone: it is left out.
    window = int(_CANDIDATES_PER_SHELL * log(MAX_MEDIAN_RATIO) / log(shells.ratio))

    shares = np.empty(len(misfits))
    for median in np.unique(likeliest_median):
        rows = likeliest_median == median
        medians = slice(max(median - window, 0), median + window + 1)
        log_losses = misfits[rows, :, medians].reshape(int(rows.sum()), -1)
        weights = np.exp(log_losses.min(axis=1, keepdims=True) - log_losses)
        excess = laws.mean_excess[:, medians].reshape(-1, n_candidates)
        mean_excess = weights @ excess / weights.sum(axis=1, keepdims=True)
        loss = noise_per_radius[rows, None] * radii + _BIAS_SHARE * n * mean_excess
        shares[rows] = radii[np.argmin(loss, axis=1)]
    return shares


class DistanceLaws(NamedTuple):
    """Laws of the distance, each with its median at each candidate radius.

    Attributes
    ----------
    shell_shares : array, shape (laws, medians, shells)
        The share of records in each shell.
    mean_excess : array, shape (laws, medians, radii)
        The mean of (x − r)₊ at each radius r, in units of the first radius.
    """

    shell_shares: np.ndarray
    mean_excess: np.ndarray


@lru_cache(maxsize=32)
@np.errstate(over="ignore")
def distance_laws(shells: ShellHistogram) -> DistanceLaws:
    """Tabulate the laws for which x^order is Gamma(power/order), for one histogram.

    With a = power/order and s = m·(x/median)^order, m the median of Gamma(a), the share
    of records within x is the regularized incomplete gamma function P(a, s), and E(x −
    r)₊ = E[x; x > r] − r·P(x > r) with E[x; x > r] = median·Γ(a + 1/order)/Γ(a) ·
    m^{−1/order} · Q(a + 1/order, s).
    """
    shape = (_LAW_POWERS / _LAW_ORDERS)[:, None]
    order = _LAW_ORDERS[:, None]
    n_candidates = _CANDIDATES_PER_SHELL * shells.n_shells
    steps = np.arange(-n_candidates, n_candidates)
    over_median = shells.ratio ** (steps / _CANDIDATES_PER_SHELL)
    gamma_median = gammaincinv(shape, 0.5)
    s = gamma_median * over_median**order
    candidates = np.arange(n_candidates)

    shell_edges = _CANDIDATES_PER_SHELL * np.arange(1, shells.n_shells)
    edge_steps = candidates[:, None] - shell_edges + n_candidates
    below_edges = gammainc(shape, s)[:, edge_steps]
    shell_shares = -np.diff(below_edges, prepend=1.0, append=0.0, axis=-1)

    mean_beyond = (
        poch(shape, 1 / order)
        * gamma_median ** (-1 / order)
        * gammaincc(shape + 1 / order, s)
    )
    excess = mean_beyond - over_median * gammaincc(shape, s)
    radius_steps = candidates[:, None] - candidates + n_candidates
    medians = shells.ratio ** -(candidates[:, None] / _CANDIDATES_PER_SHELL)
    return DistanceLaws(shell_shares, excess[:, radius_steps] * medians)
