"""Lengths by pure ε: one noisy count of records in each of many public shells, and what is read off them.

The ε of k questions add up, so a binary search would have k times the noise. A record that is replaced leaves one shell and
enters another: all counts together move by 2, however many there are.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil, log
from typing import NamedTuple

import numpy as np
from scipy.special import gammainc, gammaincc, gammaincinv, poch

from curvedp.mechanisms.stages import Stages

WIDER = 4.0  # times the typical length, or the likeliest median: beyond it nothing is looked for
_FINE = 3  # medians and radii that are weighed for each shell
_ONE_WAY = 0.7  # how much of what is cut off adds up: 1 if all records that lie outside lie one way
# Laws of a distance x, where x^order is Gamma(power/order): with exponential tails, normal ones and sharp edges, each from
# many records near 0 to all in one shell.
_POWER, _ORDER = np.stack([(power, order) for order in (1.0, 2.0, 16.0) for power in 2.0 ** np.arange(-1, 7)], axis=1)


class Shells(NamedTuple):
    """So many public lengths, each `ratio` times the next."""

    number: int
    ratio: float

    def down_to(self, least: float) -> "Shells":
        """No more of them than reach that share of the first."""
        if not 0 < least < 1:
            return self
        return self._replace(number=min(self.number, 2 + ceil(-log(least) / log(self.ratio))))

    def lengths(self, top: float) -> np.ndarray:
        """From `top` downwards."""
        return top * self.ratio ** -np.arange(self.number, dtype=np.float64)


def private_shells(
    stages: Stages,
    beyond: Callable[[np.ndarray], np.ndarray],
    n: int,
    top: float,
    worth: float,
    share: float,
    about: np.ndarray,
    shells: Shells,
) -> tuple[float, float]:
    """Read off a noisy count of records in each shell, `beyond` counting how many exceed each length; the outermost holds all
    that is farther out, the innermost all that is nearer: about the middle of the two neighboring ones that hold most, and
    the radius in which a mean is expected to err least, if the noise to come is r·worth/n long in a ball of radius r."""
    lengths = shells.lengths(top)
    counts = np.diff(beyond(lengths)[1:], prepend=0.0, append=float(n))
    noisy, _ = stages.ask("shells", share, np.sqrt(2), counts, summed=2.0)
    noise = stages.told[-1]["noise"]
    stages.counts.append((about, lengths[1:], np.cumsum(noisy)[:-1], noise))
    best = int(np.argmax(noisy[:-1] + noisy[1:]))
    more, both = noisy[best] - noisy[best + 1], noisy[best] + noisy[best + 1]
    typical = lengths[best + 1] * shells.ratio ** (float(np.clip(more / both, -1, 1)) / 2 if both > 0 else 0.0)
    return float(typical), top * least_loss(noisy, noise, n, worth, shells)


def least_loss(noisy: np.ndarray, noise: float, n: int, worth: float, shells: Shells) -> float:
    """The radius, over the first length, of least expected loss: noise in proportion to it, and what it cuts off, for laws
    of the distance that are as likely as the noisy counts say, all the same before."""
    misfits = np.sum(np.abs(noisy - n * laws(shells)[0]), axis=-1) / noise
    return float(least_losses(misfits[None], n, np.array([worth]), shells)[0])


def least_losses(misfits: np.ndarray, n: int, worth: np.ndarray, shells: Shells) -> np.ndarray:
    """The same of many rows: what the counts of each are from those of every law, in scales of their noise."""
    best, radii = np.argmin(misfits.min(axis=1), axis=-1), shells.ratio ** -(np.arange(misfits.shape[2]) / _FINE)
    reach, found = int(_FINE * log(WIDER) / log(shells.ratio)), np.empty(len(misfits))
    for middle in np.unique(
        best
    ):  # what is farther than WIDER from the likeliest median would count for its length alone
        rows, near = best == middle, slice(max(middle - reach, 0), middle + reach + 1)
        likely = misfits[rows, :, near].reshape(int(rows.sum()), -1)
        likely = np.exp(likely.min(axis=1, keepdims=True) - likely)
        cut = likely @ laws(shells)[1][:, near].reshape(-1, len(radii)) / likely.sum(axis=1, keepdims=True)
        found[rows] = radii[np.argmin(worth[rows, None] * radii + _ONE_WAY * n * cut, axis=1)]
    return found


@lru_cache(maxsize=32)
@np.errstate(over="ignore")
def laws(shells: Shells) -> tuple[np.ndarray, np.ndarray]:
    """Of every law with its median at each radius: the share of records in each shell, and the mean of (x − r)₊ at each
    radius r; both in units of the first length."""
    shape, order, size = (_POWER / _ORDER)[:, None], _ORDER[:, None], _FINE * shells.number
    x = shells.ratio ** (np.arange(-size, size) / _FINE)  # over the median
    s, at = gammaincinv(shape, 0.5) * x**order, np.arange(size)
    mean = poch(shape, 1 / order) * gammaincinv(shape, 0.5) ** (-1 / order) * gammaincc(shape + 1 / order, s)
    edges = at[:, None] - _FINE * np.arange(1, shells.number) + size
    inside = -np.diff(gammainc(shape, s)[:, edges], prepend=1.0, append=0.0, axis=-1)
    excess = (mean - x * gammaincc(shape, s))[:, at[:, None] - at + size]
    return inside, excess * shells.ratio ** -(at[:, None] / _FINE)
