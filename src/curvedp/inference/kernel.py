"""Kernel statistics of records on a manifold: how far apart samples are, with bounded sensitivity.

The kernel is Gaussian in the chart of the public ball, k(x, y) = exp(−|z_x − z_y|²/2ℓ²), ℓ two fifths of the radius: positive
definite on every manifold, as the coordinates are Euclidean, and characteristic on the ball. ‖φ(x) − φ(x')‖² = 2 − 2k <= 2.
"""

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter, sqrt
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import null_space
from scipy.spatial.distance import cdist

from curvedp import _validate
from curvedp.core.codes import ProtectedUnit
from curvedp.core.fields import assign
from curvedp.core.statistic import Statistic
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean
from curvedp.geometry.ball import ball_coordinates, carry_records
from curvedp.geometry.capabilities import canonical_center
from curvedp.geometry.manifold import Manifold
from curvedp.randomness import Source
from curvedp.records.tables import to_float_records

_MOST = 10_000  # records: the kernel's matrix is held in memory
_UNIT = 2.0**-53


@dataclass(frozen=True, eq=False)
class KernelStatistic(Statistic):
    """√Σ‖Σ wᵢ φ(xᵢ)‖² over contrasts w of samples of public sizes, and its values at contrasts that are permuted."""

    manifold: Manifold
    center: Any
    radius: float
    sizes: Any

    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (ProtectedUnit.RECORD,)
    # Whether row i of every sample is one pair.
    is_paired: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sizes, list | tuple) or len(self.sizes) < 2:
            raise ParameterError("sizes must be those of two samples or more")
        assign(
            self,
            sizes=[
                _validate.integer("the size of a sample", size, 2)
                for size in self.sizes
            ],
        )
        if self.total > _MOST:
            raise ParameterError(
                f"{self.total} records are too many for a kernel test, which takes up to {_MOST}"
            )

    @property
    @abstractmethod
    def exact_sensitivity(self) -> float:
        """Of the statistic in real numbers."""

    @property
    @abstractmethod
    def contrasts(self) -> np.ndarray:
        """The weight of a record of each sample, one row a contrast."""

    @abstractmethod
    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """For each contrast: one row for the data as they are, then one for each permutation."""

    @property
    def total(self) -> int:
        """How many records there are in all."""
        return sum(self.sizes)

    @property
    def public_count(self) -> int:
        return self.total

    @property
    def value_space(self) -> Manifold:
        return Euclidean(1)

    @cached_property
    def sensitivity(self) -> float:
        """In real numbers, and the float error at both ends.

        The computed square is off by at most η = Σ|wᵢwⱼ|·(relative error of k, 20(d+8)u, its exponent being at most 12.5, and
        of sums of N terms, then of C contrasts, 2.1(N+C+8)u); its root is off by at most √η.
        """
        mass = float(np.sum((np.abs(self.contrasts) @ self.sizes) ** 2))
        eta = (
            mass
            * _UNIT
            * (
                20 * (self.manifold.dim + 8)
                + 2.1 * (self.total + len(self.contrasts) + 8)
            )
        )
        return nextafter(self.exact_sensitivity + 2 * sqrt(eta), inf)

    def coordinates(self, data: Any) -> np.ndarray:
        """Coordinates of all samples in the ball, shortened to its radius; what is not finite becomes the center.

        Only shapes and types can be refused.
        """
        parts = []
        for number, (size, sample) in enumerate(zip(self.sizes, data, strict=True), 1):
            array = to_float_records(
                f"sample {number}", sample, self.manifold.point_shape
            )
            if array.shape != (expected := (size, *self.manifold.point_shape)):
                raise ParameterError(
                    f"sample {number} has shape {array.shape}, not {expected}"
                )
            carried = carry_records(self.manifold, self.center, array)
            parts.append(
                ball_coordinates(
                    self.manifold,
                    canonical_center(self.manifold, self.center),
                    self.radius,
                    carried,
                )
            )
        return np.concatenate(parts)

    def kernel(self, z: np.ndarray) -> np.ndarray:
        """k of all pairs of coordinates."""
        return np.asarray(
            np.exp(-3.125 * cdist(z / self.radius, z / self.radius, "sqeuclidean"))
        )  # ℓ = 2r/5

    def permuted(self, z: np.ndarray, permutations: int, source: Source) -> np.ndarray:
        """The statistic and its permuted values. NOT private."""
        kernel = self.kernel(z)
        squares = [
            np.sum((w @ kernel) * w, axis=1)
            for w in self.permuted_weights(permutations, source)
        ]
        return np.asarray(np.sqrt(np.maximum(np.sum(squares, axis=0), 0.0)))


@dataclass(frozen=True, eq=False)
class SamplesDistance(KernelStatistic):
    """√Σ pⱼ‖μⱼ − μ‖²: how far the mean embeddings μⱼ of k samples are from that of all, pⱼ the share of sample j.

    Of two samples it is √(p₁p₂) times their maximum mean discrepancy (Gretton et al. 2012, biased). With mⱼ = √pⱼ·μⱼ it is
    the length of m across √p, so that any orthonormal basis of what is across √p gives k − 1 contrasts. A record of sample
    j has the weight √((1 − pⱼ)/(N·nⱼ)) over all of them, whatever the permutation, and moves the statistic by √2 times that.
    """

    name: ClassVar[str] = "kernel distance of samples"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
    )

    @property
    def exact_sensitivity(self) -> float:
        """Of a record of the smallest sample."""
        least = min(self.sizes)
        return sqrt(2 * (1 - least / self.total) / (self.total * least))

    @cached_property
    def contrasts(self) -> np.ndarray:
        """An orthonormal basis across √p, times √pⱼ/nⱼ."""
        root = np.sqrt(np.array(self.sizes) / self.total)
        return np.asarray(null_space(root[None]).T * root / np.array(self.sizes))

    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """In random order: of random words of 64 bits, which tie with probability below N²·2^-65."""
        order = np.argsort(
            source.words((permutations, self.total)), axis=1, kind="stable"
        )
        for contrast in self.contrasts:
            own = np.repeat(contrast, self.sizes)
            yield np.concatenate([own[None], own[order]])


@dataclass(frozen=True, eq=False)
class PairedDistance(KernelStatistic):
    """‖μ₁ − μ₂‖ of the members of n pairs, which change places: a pair moves it by at most 2√2/n."""

    name: ClassVar[str] = "kernel distance of pairs"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.PAIR,
        ProtectedUnit.PERSON,
    )
    is_paired: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.sizes) != 2 or self.sizes[0] != self.sizes[1]:
            raise ParameterError(
                f"samples of {' and '.join(map(str, self.sizes))} records do not form pairs"
            )

    @property
    def exact_sensitivity(self) -> float:
        return 2 * sqrt(2) / int(self.sizes[0])

    @property
    def contrasts(self) -> np.ndarray:
        return np.array([[1.0, -1.0]]) / int(self.sizes[0])

    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """The same sign turned for both members of a pair."""
        signs = 1 - 2.0 * (source.words((permutations, self.sizes[0])) & np.uint64(1))
        signs = np.concatenate([np.ones((1, self.sizes[0])), signs]) / self.sizes[0]
        yield np.concatenate([signs, -signs], axis=1)
