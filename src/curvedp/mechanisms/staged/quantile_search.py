"""Find privately within which distance of a point most records are. A search asks for
noisy counts of the records beyond public radii, and returns a public radius.
`BinarySearch` asks for one count at a time, for Gaussian noise; `ShellHistogram` asks
for all counts at once, for Laplace noise.

With Gaussian noise, k questions need √k times the noise of one question. For pure ε
they would need k times the noise.

A histogram asks one question: how many records lie in each of many public shells? A
replaced record leaves one shell and enters another, so the counts change by at most 2
in total, however many shells there are.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, log, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, gammaincinv, poch

from curvedp.mechanisms.staged.budget import ReleasedCounts, StageBudget

# A function of decreasing lengths that returns how many records exceed each of them.
CountBeyond = Callable[[np.ndarray], np.ndarray]

# By default a search has 2^7 − 1 lengths, each 1.25 times the next. The smallest one is
# 1e-12 of the largest.
DEFAULT_QUERIES = 7
DEFAULT_RATIO = 1.25

# Laws of the distance are ignored if their median is more than this many times larger
# or smaller than the likeliest median.
MAX_MEDIAN_RATIO = 4.0

# Each shell is divided into this many candidates for a median or a radius.
_CANDIDATES_PER_SHELL = 3

# The bias of a mean by clipping to a ball, over the mean length that is cut off. It
# would be 1 if all records outside lay in one direction. Measured on real data sets.
_BIAS_SHARE = 0.7

# The family of laws of a distance x: x^order is Gamma(power/order). The order makes
# exponential tails (1), normal tails (2) or a sharp edge (16). The power goes from many
# records near 0 (1/2) to all records in one shell (64).
_LAW_POWERS, _LAW_ORDERS = np.stack(
    [(power, order) for order in (1.0, 2.0, 16.0) for power in 2.0 ** np.arange(-1, 7)],
    axis=1,
)


class BinarySearch(NamedTuple):
    """A binary search over 2^queries − 1 public lengths, each `ratio` times the next.

    At each step a noisy count decides whether a length is long enough, that is, whether
    few records exceed it. If an early step wrongly says "too short", the result is far
    too large; if it wrongly says "long enough", a few more records than allowed exceed
    the result. The second mistake is better, so earlier steps allow more records.

    Attributes
    ----------
    queries : int
        The number of noisy counts.
    ratio : float
        The ratio of neighboring lengths, above 1.
    patience : float
        How many more records each step allows than the next one, in standard deviations
        of a noisy count.
    """

    queries: int = DEFAULT_QUERIES
    ratio: float = DEFAULT_RATIO
    patience: float = 0.0

    def count_std(self, scale: float, share: float) -> float:
        """Return the standard deviation of each noisy count, for Gaussian noise.

        Parameters
        ----------
        scale : float
            1/μ of the whole release.
        share : float
            The fraction of the privacy budget that the whole search takes.
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
        """Find the smallest public length that about `allowed_outside` records exceed.

        Used to find the radius of a ball, or the length to which vectors are clipped.
        Each step releases one noisy count, and halves the range of lengths.

        Parameters
        ----------
        budget : StageBudget
            The budget. It is charged `share`, and stores the noisy counts.
        count_beyond : function
            Maps a decreasing array of lengths to the number of records that exceed
            each. Its answers are NOT private.
        largest : float
            The largest of the public lengths.
        allowed_outside : float
            How many records may exceed the result.
        share : float
            The fraction of the privacy budget for the whole search.
        center : array, optional
            The point from which distances are measured, if the lengths are distances.
            It is stored with the counts.

        Returns
        -------
        float
            One of the public lengths. It is the largest one if every noisy count says
            that its length is too short.
        """
        n_lengths = 2**self.queries - 1
        lengths = largest * self.ratio ** -np.arange(n_lengths, dtype=np.float64)
        counts = count_beyond(lengths)

        # The result is among lengths[low], …, lengths[high], which get shorter. Every
        # step halves that range: if few enough records exceed the length in the middle,
        # the result is that length or a shorter one.
        low = 0
        high = n_lengths - 1
        for steps_left in reversed(range(self.queries)):
            middle = (low + high + 1) // 2
            exact_count = counts[middle : middle + 1]
            released = budget.release(
                "radius", share / self.queries, sensitivity=1.0, values=exact_count
            )
            noisy_count = float(released.values[0])
            noise_std = released.std
            budget.counts.append(
                ReleasedCounts(center, float(lengths[middle]), noisy_count, noise_std)
            )

            # Earlier steps allow more records, because a wrong "too short" is worse
            # than a wrong "long enough": it makes the result far too large.
            extra_allowed = steps_left * self.patience * noise_std
            if noisy_count <= allowed_outside + extra_allowed:
                low = middle
            else:
                high = max(low, middle - 1)
        return float(lengths[low])


class ShellEstimate(NamedTuple):
    """Estimates from a noisy histogram of distances.

    Attributes
    ----------
    typical_distance : float
        About the middle of the two neighboring shells that hold most records.
    best_radius : float
        The radius of the ball in which a private mean has the least expected error.
    """

    typical_distance: float
    best_radius: float


class ShellHistogram(NamedTuple):
    """A histogram of distances over public shells.

    The radii of the shells fall by a constant ratio. The outermost shell also holds all
    records that are farther away, and the innermost all that are nearer.

    Attributes
    ----------
    n_shells : int
        The number of shells.
    ratio : float
        The ratio of neighboring radii, above 1.
    """

    n_shells: int
    ratio: float

    def without_inner_shells(self, smallest_share: float) -> "ShellHistogram":
        """Return a histogram without the shells below the smallest radius of interest.

        Parameters
        ----------
        smallest_share : float
            The smallest radius of interest, divided by the radius of the outermost
            shell. If it is not between 0 and 1, the histogram is returned unchanged.
        """
        if not 0 < smallest_share < 1:
            return self
        # Two more shells are kept: one for rounding, and one for all nearer records.
        shells_needed = 2 + ceil(-log(smallest_share) / log(self.ratio))
        return self._replace(n_shells=min(self.n_shells, shells_needed))

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

        Used under pure ε, where a binary search would need more noise.

        Parameters
        ----------
        budget : StageBudget
            The budget. It is charged `share`, and stores the noisy counts.
        count_beyond : function
            Maps a decreasing array of distances to the number of records beyond each.
            Its answers are NOT private.
        n : int
            The number of records.
        largest : float
            The radius of the outermost shell.
        noise_per_radius : float
            The length of the noise of the mean that will be released later is
            r·noise_per_radius/n in a ball of radius r.
        share : float
            The fraction of the privacy budget for the histogram.
        center : array of shape point_shape
            The point from which distances are measured.

        Returns
        -------
        ShellEstimate
            A typical distance, and the best radius for that mean.
        """
        radii = largest * self.ratio ** -np.arange(self.n_shells, dtype=np.float64)
        shell_counts = self._exact_counts(count_beyond(radii), n)
        # Replacing a record moves one count down and one up, by 1 each.
        released = budget.release(
            "shells", share, sqrt(2), shell_counts, l1_sensitivity=2.0
        )
        noisy_counts = released.values
        noise_scale = budget.transcript[-1]["noise"]
        noisy_counts_beyond = np.cumsum(noisy_counts)[:-1]
        budget.counts.append(
            ReleasedCounts(center, radii[1:], noisy_counts_beyond, noise_scale)
        )

        best_share = best_radius_share(
            noisy_counts, noise_scale, n, noise_per_radius, self
        )
        return ShellEstimate(
            typical_distance=self._typical_distance(radii, noisy_counts),
            best_radius=largest * best_share,
        )

    @staticmethod
    def _exact_counts(counts_beyond: np.ndarray, n: int) -> np.ndarray:
        """Return the number of records in each shell. NOT private.

        The outermost shell begins at the second radius and has no records beyond it.
        The innermost one holds all records that are left.

        Parameters
        ----------
        counts_beyond : array of shape (n_shells,)
            The number of records beyond each of the decreasing radii.
        n : int
            The number of records.
        """
        return np.diff(counts_beyond[1:], prepend=0.0, append=float(n))

    def _typical_distance(self, radii: np.ndarray, noisy_counts: np.ndarray) -> float:
        """Return a typical distance: the middle of the two fullest neighboring shells.

        It is the radius between the two shells, moved by up to half a shell toward the
        one with more records.

        Parameters
        ----------
        radii : array, shape (n_shells,)
            The decreasing radii of the shells.
        noisy_counts : array, shape (n_shells,)
            The released number of records in each shell.

        Returns
        -------
        float
            The distance, in the unit of the radii.
        """
        outer = int(np.argmax(noisy_counts[:-1] + noisy_counts[1:]))
        inner = outer + 1
        sum_of_counts = noisy_counts[outer] + noisy_counts[inner]
        difference = noisy_counts[outer] - noisy_counts[inner]

        shift = 0.0
        if sum_of_counts > 0:
            shift = float(np.clip(difference / sum_of_counts, -1, 1)) / 2
        return float(radii[inner] * self.ratio**shift)


def best_radius_share(
    noisy_counts: np.ndarray,
    noise_scale: float,
    n: int,
    noise_per_radius: float,
    shells: ShellHistogram,
) -> float:
    """Return the radius of least expected loss, as a fraction of the outermost radius.

    The loss of a radius r is the length of the noise of a mean in a ball of that
    radius, plus the bias of the mean because records are clipped to the ball. The bias
    is averaged over distributions of the distance (`distance_distributions`), weighted
    by their likelihood given the noisy counts.

    Parameters
    ----------
    noisy_counts : array, shape (n_shells,)
        The released number of records in each shell.
    noise_scale : float
        The Laplace scale of the noise of each count.
    n : int
        The number of records.
    noise_per_radius : float
        The length of the noise is r·noise_per_radius/n in a ball of radius r.
    shells : ShellHistogram
        The public shells.

    Returns
    -------
    float
        The best radius, as a fraction of the outermost radius.
    """
    expected_counts = n * distance_distributions(shells).shell_shares
    misfits = np.sum(np.abs(noisy_counts - expected_counts), axis=-1) / noise_scale
    shares = best_radius_shares(misfits[None], n, np.array([noise_per_radius]), shells)
    return float(shares[0])


def best_radius_shares(
    misfits: np.ndarray, n: int, noise_per_radius: np.ndarray, shells: ShellHistogram
) -> np.ndarray:
    """Return the radius of least expected loss for each of many noisy histograms.

    `best_radius_share` describes the loss.

    Parameters
    ----------
    misfits : array of shape (histograms, distributions, medians)
        The sum over shells of |noisy count − expected count|, divided by the noise
        scale, for every distribution of the distance and every candidate median. Up to
        a constant this is the negative log likelihood of Laplace noise.
    n : int
        The number of records.
    noise_per_radius : array of shape (histograms,)
        The length of the noise is r·noise_per_radius/n in a ball of radius r.
    shells : ShellHistogram
        The public shells, which all histograms share.

    Returns
    -------
    array of shape (histograms,)
        The best radius of each histogram, as a fraction of the outermost radius.
    """
    laws = distance_distributions(shells)
    n_candidates = misfits.shape[2]
    radii = shells.ratio ** -(np.arange(n_candidates) / _CANDIDATES_PER_SHELL)
    likeliest_medians = np.argmin(misfits.min(axis=1), axis=-1)
    # How many candidates lie between a median and MAX_MEDIAN_RATIO times that median.
    # Laws outside this window are unlikely, but their long distances would dominate.
    window = int(_CANDIDATES_PER_SHELL * log(MAX_MEDIAN_RATIO) / log(shells.ratio))

    shares = np.empty(len(misfits))
    # Histograms with the same likeliest median use the same distributions.
    for median in np.unique(likeliest_medians):
        has_median = likeliest_medians == median
        medians = slice(max(median - window, 0), median + window + 1)
        mean_excess = _likely_mean_excess(
            misfits[has_median, :, medians], laws.mean_excess[:, medians]
        )

        # The loss is multiplied by n. The first term is the noise, the second the bias.
        noise_length = np.outer(noise_per_radius[has_median], radii)
        loss = noise_length + _BIAS_SHARE * n * mean_excess
        shares[has_median] = radii[np.argmin(loss, axis=1)]
    return shares


def _likely_mean_excess(misfits: np.ndarray, mean_excess: np.ndarray) -> np.ndarray:
    """Return the mean length beyond each radius, averaged over likely distributions.

    Parameters
    ----------
    misfits : array of shape (histograms, distributions, medians)
        The negative log likelihood of each distribution and median, up to a constant.
    mean_excess : array of shape (distributions, medians, radii)
        The mean length E(x − r)₊ beyond each radius r, for each distribution and
        median.

    Returns
    -------
    array of shape (histograms, radii)
        The average for each noisy histogram.
    """
    n_histograms = len(misfits)
    n_radii = mean_excess.shape[2]
    misfit_rows = misfits.reshape(n_histograms, -1)
    excess_rows = mean_excess.reshape(-1, n_radii)
    # Likelihoods are divided by the largest one, so that they do not underflow.
    smallest_misfits = misfit_rows.min(axis=1, keepdims=True)
    likelihoods = np.exp(smallest_misfits - misfit_rows)
    total_likelihood = likelihoods.sum(axis=1, keepdims=True)
    return np.asarray(likelihoods @ excess_rows / total_likelihood)


class DistanceDistributions(NamedTuple):
    """A table of probability distributions of the distance x from a point to a record.

    Every distribution appears once for each candidate median. The unit of length is the
    outermost radius of a histogram.

    Attributes
    ----------
    shell_shares : array, shape (distributions, medians, shells)
        The probability of each shell.
    mean_excess : array, shape (distributions, medians, radii)
        E(x − r)₊, the mean length beyond the radius r, for each candidate radius r.
    """

    shell_shares: np.ndarray
    mean_excess: np.ndarray


@lru_cache(maxsize=32)
@np.errstate(over="ignore")
def distance_distributions(shells: ShellHistogram) -> DistanceDistributions:
    """Tabulate distributions of the distance x, for the shells of one histogram.

    In each distribution x^k is a multiple of a Gamma(a) variable, for several orders k
    and shapes a = power/k. Let m be the median of Gamma(a), M the median of x, and s(r)
    = m·(r/M)^k. With the regularized incomplete gamma functions P and Q = 1 − P,

        P(x ≤ r)    = P(a, s(r)),
        E[x; x > r] = M·m^(−1/k)·Γ(a + 1/k)/Γ(a)·Q(a + 1/k, s(r)),
        E(x − r)₊   = E[x; x > r] − r·Q(a, s(r)).

    A search for a radius compares a noisy histogram of distances with these
    distributions, and so finds the radius that fits the records best. Radii and medians
    M are both taken from the same list of candidates: candidate i is ratio^(−i/3) times
    the outermost radius, where `ratio` is the ratio of the radii of neighboring shells.
    A function of r/M thus depends only on the difference of two candidate numbers. It
    is computed once for each difference, and then looked up for every pair.

    Parameters
    ----------
    shells : ShellHistogram
        The shells, whose radii are powers of their `ratio`.

    Returns
    -------
    DistanceDistributions
        The probability of each shell and the mean excess over each radius, for every
        distribution and median.
    """
    n_candidates = _CANDIDATES_PER_SHELL * shells.n_shells
    candidates = np.arange(n_candidates)[:, np.newaxis]

    # For the radius of candidate i and the median of candidate k, the quotient r/M is
    # ratio^(j/3) with j = k − i. The tables have the column j + n_candidates for it.
    candidate_difference = np.arange(-n_candidates, n_candidates)
    radius_over_median = shells.ratio ** (candidate_difference / _CANDIDATES_PER_SHELL)
    probability_below, excess_over_median = _tables_by_quotient(radius_over_median)

    # The edges between shells are every third candidate. The probability of a shell is
    # the difference of P(x ≤ r) at its two edges; the outermost shell has no outer edge
    # and the innermost one no inner edge.
    edge_candidates = _CANDIDATES_PER_SHELL * np.arange(1, shells.n_shells)
    column_of_edge = candidates - edge_candidates + n_candidates
    probability_below_edges = probability_below[:, column_of_edge]
    shell_shares = -np.diff(probability_below_edges, prepend=1.0, append=0.0, axis=-1)

    # Multiplying by the median gives the excess in units of the outermost radius.
    column_of_radius = candidates - candidates.T + n_candidates
    medians = shells.ratio ** -(candidates / _CANDIDATES_PER_SHELL)
    mean_excess = excess_over_median[:, column_of_radius] * medians
    return DistanceDistributions(shell_shares, mean_excess)


def _tables_by_quotient(
    radius_over_median: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Tabulate P(x ≤ r) and E(x − r)₊/M for quotients r/M, by `distance_distributions`' formulas.

    Parameters
    ----------
    radius_over_median : array of shape (quotients,)
        Radii r in units of the median M.

    Returns
    -------
    probability_below, excess_over_median : arrays of shape (distributions, quotients)
        P(x ≤ r), and E(x − r)₊ in units of the median.
    """
    order = _LAW_ORDERS[:, np.newaxis]
    shape = (_LAW_POWERS / _LAW_ORDERS)[:, np.newaxis]
    gamma_median = gammaincinv(shape, 0.5)
    s = gamma_median * radius_over_median**order
    # E[x; x > r] in units of M. The Pochhammer symbol poch(a, h) is Γ(a + h)/Γ(a).
    mean_beyond = (
        poch(shape, 1 / order)
        * gamma_median ** (-1 / order)
        * gammaincc(shape + 1 / order, s)
    )
    excess_over_median = mean_beyond - radius_over_median * gammaincc(shape, s)
    return gammainc(shape, s), excess_over_median
