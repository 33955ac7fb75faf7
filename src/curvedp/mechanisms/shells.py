"""Lengths by pure ε: one noisy count of records in each of many public shells, and what is read off them.

The ε of k questions add up, so a binary search would have k times the noise. A record that is replaced leaves one shell and
enters another: all counts together move by 2, however many there are.
"""

from collections.abc import Callable
from math import ceil, log
from typing import NamedTuple

import numpy as np

from curvedp.mechanisms.stages import Stages

WIDER = 4.0  # times the typical length: beyond it nothing is looked for


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


class Found(NamedTuple):
    """What a noisy histogram of shells says: about the middle of the two neighboring ones that hold most, and the smallest
    length that about as many records exceed as were allowed outside."""

    typical: float
    radius: float


def private_shells(
    stages: Stages,
    beyond: Callable[[np.ndarray], np.ndarray],
    n: int,
    top: float,
    outside: float,
    share: float,
    about: np.ndarray,
    shells: Shells,
) -> Found:
    """Read off a noisy count of records in each shell, `beyond` counting how many exceed each length; the outermost holds all
    that is farther out, the innermost all that is nearer. Counts farther out than `WIDER` typical lengths are noise."""
    lengths = shells.lengths(top)
    counts = np.diff(beyond(lengths)[1:], prepend=0.0, append=float(n))
    noisy, _ = stages.ask("shells", share, np.sqrt(2), counts, summed=2.0)
    stages.counts.append((about, lengths[1:], np.cumsum(noisy)[:-1], stages.told[-1]["noise"]))
    best = int(np.argmax(noisy[:-1] + noisy[1:]))
    first = max(0, best - ceil(log(WIDER) / log(shells.ratio)))
    far = np.append(np.cumsum(noisy[first : best + 1]) > outside, True)  # no shorter than the middle of the two
    stop = int(np.argmax(far))
    more, both = noisy[best] - noisy[best + 1], noisy[best] + noisy[best + 1]
    typical = lengths[best + 1] * shells.ratio ** (float(np.clip(more / both, -1, 1)) / 2 if both > 0 else 0.0)
    return Found(float(typical), float(lengths[first + stop]))
