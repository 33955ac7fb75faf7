"""Kernel statistics of records on a manifold: how far apart two samples are, with bounded sensitivity.

The kernel is Gaussian in the chart of the public ball, k(x, y) = exp(−|z_x − z_y|²/2ℓ²) with ℓ half the radius: positive
definite on every manifold, as the coordinates are Euclidean, and characteristic on the ball. ‖φ(x) − φ(x')‖² = 2 − 2k <= 2.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from curvedp import _validate
from curvedp.entropy import Source
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.geometry.ball import ball_coordinates, carry_records
from curvedp.geometry.base import Manifold
from curvedp.mechanisms.statistic import Statistic, public_ball

__all__ = ["KernelStatistic", "PairedDistance", "TwoSampleDistance"]

_MOST = 10_000  # records: the kernel's matrix is held in memory
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class KernelStatistic(Statistic):
    """‖Σ wᵢ φ(xᵢ)‖ for public weights of two samples, and its values at weights that are permuted."""

    manifold: Manifold
    center: Any
    radius: float
    n: int

    valued: ClassVar[bool] = False
    units: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        ball = public_ball(self.manifold, self.center, self.radius)
        values = {"center": ball.center, "radius": ball.radius, "n": _validate.integer("n", self.n, 2)}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        if self.total > _MOST:
            raise ParameterError(f"{self.total} records are too many for a kernel test, which takes up to {_MOST}")

    @property
    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Of the two samples."""

    @property
    @abstractmethod
    def exact_sensitivity(self) -> float:
        """Of the statistic in real numbers."""

    @abstractmethod
    def weights(self, permutations: int, source: Source) -> np.ndarray:
        """One row for the data as they are, then one for each permutation."""

    @property
    def total(self) -> int:
        """How many records there are in all."""
        return sum(self.sizes)

    @property
    def space(self) -> Manifold:
        """A number."""
        return Euclidean(1)

    @cached_property
    def sensitivity(self) -> float:
        """In real numbers, and the float error at both ends.

        The computed square is off by at most η = Σ|wᵢwⱼ|·(relative error of k, 10(d+8)u as its exponent is at most 8, and of
        two sums of N terms, 2.1(N+8)u), where Σ|wᵢwⱼ| = 4; its root is off by at most √η.
        """
        eta = 4 * _UNIT * (10 * (self.manifold.dim + 8) + 2.1 * (self.total + 8))
        return nextafter(self.exact_sensitivity + 2 * sqrt(eta), inf)

    def accepted(self, data: Any) -> np.ndarray:
        """Coordinates of both samples in the ball, shortened to its radius; what is not finite becomes the center.

        Only shapes and types can be refused.
        """
        parts = []
        for name, size, sample in zip("XY", self.sizes, data, strict=True):
            array = _validate.array(name, sample)
            if array.shape != (size, *self.manifold.point_shape):
                raise ParameterError(f"{name} has shape {array.shape}, not {(size, *self.manifold.point_shape)}")
            carried = carry_records(self.manifold, self.center, array)
            parts.append(ball_coordinates(self.manifold, self.manifold.home(self.center), self.radius, carried))
        return np.concatenate(parts)

    def permuted(self, z: np.ndarray, permutations: int, source: Source) -> np.ndarray:
        """The statistic and its permuted values. NOT private."""
        kernel = np.exp(-2 * cdist(z / self.radius, z / self.radius, "sqeuclidean"))  # ℓ = r/2
        weights = self.weights(permutations, source)
        return np.asarray(np.sqrt(np.maximum(np.sum((weights @ kernel) * weights, axis=1), 0.0)))


@dataclass(frozen=True, eq=False)
class TwoSampleDistance(KernelStatistic):
    """The maximum mean discrepancy of two independent samples of n and m records (Gretton et al. 2012, biased).

    A record belongs to one mean of feature vectors, whatever the permutation, and moves it by at most √2/min(n, m).
    """

    m: int

    name: ClassVar[str] = "kernel distance of two samples"
    unit: ClassVar[str] = "one record of either sample, replaced by any other; the sizes of both are public"

    def __post_init__(self) -> None:
        object.__setattr__(self, "m", _validate.integer("m", self.m, 2))
        super().__post_init__()

    @property
    def sizes(self) -> tuple[int, int]:
        """n and m."""
        return self.n, self.m

    @property
    def exact_sensitivity(self) -> float:
        """√2/min(n, m)."""
        return sqrt(2) / min(self.sizes)

    def weights(self, permutations: int, source: Source) -> np.ndarray:
        """1/n and −1/m, in random order: of random words of 64 bits, which tie with probability below N²·2^-65."""
        own = np.repeat([1 / self.n, -1 / self.m], self.sizes)
        order = np.argsort(source.words((permutations, self.total)), axis=1, kind="stable")
        return np.concatenate([own[None], own[order]])


@dataclass(frozen=True, eq=False)
class PairedDistance(KernelStatistic):
    """The same for n pairs, whose members change places: a pair moves it by at most 2√2/n."""

    name: ClassVar[str] = "kernel distance of pairs"
    unit: ClassVar[str] = "one pair of records, replaced by any other; the number of pairs is public"

    @property
    def sizes(self) -> tuple[int, int]:
        """n twice."""
        return self.n, self.n

    @property
    def exact_sensitivity(self) -> float:
        """2√2/n."""
        return 2 * sqrt(2) / self.n

    def weights(self, permutations: int, source: Source) -> np.ndarray:
        """±1/n, the same sign turned for both members of a pair."""
        signs = 1 - 2.0 * (source.words((permutations, self.n)) & np.uint64(1))
        signs = np.concatenate([np.ones((1, self.n)), signs]) / self.n
        return np.concatenate([signs, -signs], axis=1)
