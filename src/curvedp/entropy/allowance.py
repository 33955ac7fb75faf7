"""How many random bytes one exact draw may use: a public number, from which its τ follows.

How many it does use depends on the footpoint (digits are asked for until the cell is certain) and on luck (trials), so
a τ counted from them would tell about the data. A draw of up to 4096 numbers is allowed 512 epochs of the source,
hence τ = 512·2^-109 = 2^-100. Half of that is for the epochs that are open in other threads. The other half is 4 MiB:
at 4096 bits for each of 4096 numbers, more than float64 footpoints and the finest grid ask for, or 90 times the
expected number of trials at 64 bits. A draw that used more would be outside its τ: it is not released. That is less
likely than 2^-100.
"""

import math

from curvedp.entropy.csprng import EPOCH_BYTES, EPOCH_DISTANCE, Source
from curvedp.errors import NotResolved

_NUMBERS = 4096
_EPOCHS = 512


class Allowance:
    """What a draw of so many numbers may use, if each trial is accepted with the given probability."""

    def __init__(self, numbers: int, acceptance: float = 1.0) -> None:
        self._blocks = math.ceil(numbers / (_NUMBERS * acceptance))
        self._used = [0]

    def meter(self, source: Source) -> Source:
        """The same source; what is drawn from it is counted here."""
        return _Metered(source, self._used)

    def tau(self) -> float:
        """The public bound. Raises `NotResolved` if the draw was not within it."""
        if self._used[0] > self._blocks * (_EPOCHS // 2) * EPOCH_BYTES:
            raise NotResolved("a draw used more random bytes than its public bound allows; nothing is released")
        return self._blocks * _EPOCHS * EPOCH_DISTANCE


class _Metered(Source):
    def __init__(self, source: Source, used: list[int]) -> None:
        self.name, self.is_cryptographic = source.name, source.is_cryptographic
        self._source, self._used = source, used

    def random_bytes(self, n: int) -> bytes:
        self._used[0] += n
        return self._source.random_bytes(n)

    def child(self) -> Source:
        return _Metered(self._source.child(), self._used)
