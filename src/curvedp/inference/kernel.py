"""Kernel statistics of records on a manifold: how far apart samples are.

The kernel is Gaussian in the chart of the public ball, k(x, y) = exp(−|z_x −
z_y|²/2ℓ²), with ℓ two fifths of the radius. It is positive definite on every manifold,
as the coordinates are Euclidean, and characteristic on the ball. Its features φ satisfy
‖φ(x) − φ(x')‖² = 2 − 2k ≤ 2, which bounds what one record can change.
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

# The largest number of records, because the matrix of the kernel is held in memory.
_MAX_RECORDS = 10_000

# The unit round-off of doubles.
_ROUND_OFF = 2.0**-53

# 1/2ℓ² for coordinates in units of the radius, with the bandwidth ℓ = 2/5.
_KERNEL_RATE = 3.125


@dataclass(frozen=True, eq=False)
class KernelStatistic(Statistic):
    """A distance of samples: √Σ‖Σ wᵢ φ(xᵢ)‖², summed over contrasts w of the samples.

    Subclasses say what the contrasts are and how they are permuted.

    Parameters
    ----------
    manifold : Manifold
    center, radius : point and float
        The public ball.
    sizes : list of int
        The public number of records of each sample.
    """

    manifold: Manifold
    center: Any
    radius: float
    sizes: Any

    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (ProtectedUnit.RECORD,)
    # Whether row i of every sample is one pair.
    is_paired: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse sizes that are not those of at least two samples, or too many records."""
        super().__post_init__()
        if not isinstance(self.sizes, list | tuple) or len(self.sizes) < 2:
            raise ParameterError("sizes must be those of two samples or more")
        sizes = [
            _validate.integer("the size of a sample", size, 2) for size in self.sizes
        ]
        assign(self, sizes=sizes)
        if self.total > _MAX_RECORDS:
            raise ParameterError(
                f"{self.total} records are too many for a kernel test, which takes up to "
                f"{_MAX_RECORDS}"
            )

    @property
    @abstractmethod
    def exact_sensitivity(self) -> float:
        """How far one record moves the statistic, in real numbers."""

    @property
    @abstractmethod
    def contrasts(self) -> np.ndarray:
        """The weight of a record of each sample, shape (contrasts, samples)."""

    @abstractmethod
    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """Yield the weights of all records for each contrast.

        Each is an array of shape (1 + permutations, total): its first row is for the
        data as they are, the others for the permutations.
        """

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
        """How far one record moves the computed statistic.

        That is the sensitivity in real numbers and the float error at both ends. The
        computed square is off by at most η = Σ|wᵢwⱼ|·(the relative error of k,
        20(d+8)u, its exponent being at most 12.5, and of sums of N terms, then of C
        contrasts, 2.1(N+C+8)u); its root is off by at most √η.
        """
        weight_mass = float(np.sum((np.abs(self.contrasts) @ self.sizes) ** 2))
        kernel_error = 20 * (self.manifold.dim + 8)
        sum_error = 2.1 * (self.total + len(self.contrasts) + 8)
        eta = weight_mass * _ROUND_OFF * (kernel_error + sum_error)
        return nextafter(self.exact_sensitivity + 2 * sqrt(eta), inf)

    def coordinates(self, samples: Any) -> np.ndarray:
        """Return the coordinates of all samples in the ball, one after the other.

        Coordinates are shortened to the radius, and a record that is not finite becomes
        the center. Only shapes and types can be refused.

        Parameters
        ----------
        samples : sequence of arrays of shape (size, *point_shape)

        Returns
        -------
        array of shape (total, dim)
        """
        point_shape = self.manifold.point_shape
        origin = canonical_center(self.manifold, self.center)
        parts = []
        sized_samples = zip(self.sizes, samples, strict=True)
        for number, (size, sample) in enumerate(sized_samples, 1):
            array = to_float_records(f"sample {number}", sample, point_shape)
            expected = (size, *point_shape)
            if array.shape != expected:
                raise ParameterError(
                    f"sample {number} has shape {array.shape}, not {expected}"
                )
            moved = carry_records(self.manifold, self.center, array)
            parts.append(ball_coordinates(self.manifold, origin, self.radius, moved))
        return np.concatenate(parts)

    def kernel(self, z: np.ndarray) -> np.ndarray:
        """Return k of all pairs of the coordinates z, shape (n, n)."""
        in_radii = z / self.radius
        squared_distances = cdist(in_radii, in_radii, "sqeuclidean")
        return np.asarray(np.exp(-_KERNEL_RATE * squared_distances))

    def permuted(self, z: np.ndarray, permutations: int, source: Source) -> np.ndarray:
        """Return the statistic, then its permuted values. NOT private.

        Parameters
        ----------
        z : array of shape (total, dim)
            What `coordinates` returns.
        permutations : int
        source : Source
            Where the permutations come from.
        """
        kernel = self.kernel(z)
        squares = [
            np.sum((weights @ kernel) * weights, axis=1)
            for weights in self.permuted_weights(permutations, source)
        ]
        total = np.sum(squares, axis=0)
        return np.asarray(np.sqrt(np.maximum(total, 0.0)))


@dataclass(frozen=True, eq=False)
class SamplesDistance(KernelStatistic):
    """How far the mean embeddings of k samples are from that of all: √Σ pⱼ‖μⱼ − μ‖².

    μⱼ is the mean embedding of sample j and pⱼ its share. Of two samples the statistic
    is √(p₁p₂) times their maximum mean discrepancy (Gretton et al. 2012, biased). With
    mⱼ = √pⱼ·μⱼ it is the length of m across √p, so that any orthonormal basis of what
    is across √p gives k − 1 contrasts. A record of sample j has the weight √((1 −
    pⱼ)/(N·nⱼ)) over all of them, whatever the permutation, and moves the statistic by
    √2 times that.
    """

    name: ClassVar[str] = "kernel distance of samples"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD,
        ProtectedUnit.PERSON,
    )

    @property
    def exact_sensitivity(self) -> float:
        """How far one record moves the statistic: most, one of the smallest sample."""
        smallest = min(self.sizes)
        return sqrt(2 * (1 - smallest / self.total) / (self.total * smallest))

    @cached_property
    def contrasts(self) -> np.ndarray:
        """The contrasts: an orthonormal basis across √p, times √pⱼ/nⱼ."""
        sizes = np.array(self.sizes)
        root_shares = np.sqrt(sizes / self.total)
        basis = null_space(root_shares[None]).T
        return np.asarray(basis * root_shares / sizes)

    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """Yield the weights of records in random orders.

        An order is that of random words of 64 bits, which tie with probability below
        N²·2^-65.
        """
        words = source.words((permutations, self.total))
        orders = np.argsort(words, axis=1, kind="stable")
        for contrast in self.contrasts:
            weights = np.repeat(contrast, self.sizes)
            yield np.concatenate([weights[None], weights[orders]])


@dataclass(frozen=True, eq=False)
class PairedDistance(KernelStatistic):
    """‖μ₁ − μ₂‖ of the members of n pairs, which a permutation lets change places.

    Replacing a pair moves it by at most 2√2/n.
    """

    name: ClassVar[str] = "kernel distance of pairs"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.PAIR,
        ProtectedUnit.PERSON,
    )
    is_paired: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse samples that do not form pairs."""
        super().__post_init__()
        if len(self.sizes) != 2 or self.sizes[0] != self.sizes[1]:
            sizes = " and ".join(map(str, self.sizes))
            raise ParameterError(f"samples of {sizes} records do not form pairs")

    @property
    def exact_sensitivity(self) -> float:
        return 2 * sqrt(2) / int(self.sizes[0])

    @property
    def contrasts(self) -> np.ndarray:
        return np.array([[1.0, -1.0]]) / int(self.sizes[0])

    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """Yield weights in which some pairs have changed places: a random sign for each."""
        n_pairs = self.sizes[0]
        random_bits = source.words((permutations, n_pairs)) & np.uint64(1)
        signs = 1 - 2.0 * random_bits
        weights = np.concatenate([np.ones((1, n_pairs)), signs]) / n_pairs
        yield np.concatenate([weights, -weights], axis=1)
