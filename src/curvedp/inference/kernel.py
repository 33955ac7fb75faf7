"""Kernel statistics that measure how far apart samples on a manifold are.
The kernel is Gaussian in the normal coordinates z of the public ball:
k(x, y) = exp(−|z_x − z_y|²/2ℓ²), with a bandwidth ℓ of two fifths of the radius. It is
positive definite on every manifold, because the coordinates are Euclidean, and
characteristic on the ball. Its feature map φ satisfies ‖φ(x) − φ(x')‖² = 2 − 2k ≤ 2,
which bounds how much one record can change a statistic.
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
    """The base of statistics that measure how far apart samples are.

    The statistic is √Σ_w ‖Σᵢ wᵢ φ(xᵢ)‖². The outer sum is over contrasts w, which give
    every record xᵢ a weight wᵢ; φ is the feature map of the kernel. Subclasses say what
    the contrasts are and how they are permuted.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the records.
    center, radius : point and float
        The public ball.
    sizes : list of int
        The public number of records of each sample.
    """

    manifold: Manifold
    center: Any
    radius: float
    sizes: Any

    # Which sample a record belongs to, and the sizes of the samples, are public.
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD_IN_CLASS,
    )
    # Whether row i of every sample is one pair.
    is_paired: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Check the sizes of the samples.

        Raises
        ------
        ParameterError
            If there are fewer than two samples, a sample has fewer than 2 records, or
            the kernel matrix of all records would not fit into memory.
        """
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
        """The largest change of the statistic by one record, in exact arithmetic."""

    @property
    @abstractmethod
    def contrasts(self) -> np.ndarray:
        """The weight of a record of each sample, shape (contrasts, samples).

        A contrast w compares the samples: Σᵢ wᵢ φ(xᵢ) is 0 in expectation if all
        samples have the same distribution.
        """

    @abstractmethod
    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """Yield the weights of all records, as they are and permuted, for each contrast.

        Each item is an array of shape (1 + permutations, total). Its first row has the
        weights for the data as they are; the other rows are for the permutations.

        Parameters
        ----------
        permutations : int
            The number of permutations.
        source : Source
            The source of random bits from which permutations are drawn.
        """

    @property
    def total(self) -> int:
        """The number of records of all samples together."""
        return sum(self.sizes)

    @property
    def public_count(self) -> int:
        """The number of records of all samples together, which is public."""
        return self.total

    @property
    def value_space(self) -> Manifold:
        """The real line: the statistic is one number."""
        return Euclidean(1)

    @cached_property
    def sensitivity(self) -> float:
        """The largest change of the computed statistic by one record.

        It is the sensitivity in exact arithmetic plus the float error of both values.
        The computed square of the statistic is off by at most

            η = Σ|wᵢwⱼ| · u · (20(d + 8) + 2.1(N + C + 8)),

        with wᵢ the weights of the records and u = 2⁻⁵³. The first term is the relative
        error of the kernel in d dimensions, whose exponent is at most 12.5. The second
        is that of sums over N records and C contrasts. The root of the square is off by
        at most √η.
        """
        weight_mass = float(np.sum((np.abs(self.contrasts) @ self.sizes) ** 2))
        kernel_error = 20 * (self.manifold.dim + 8)
        sum_error = 2.1 * (self.total + len(self.contrasts) + 8)
        eta = weight_mass * _ROUND_OFF * (kernel_error + sum_error)
        return nextafter(self.exact_sensitivity + 2 * sqrt(eta), inf)

    def coordinates(self, samples: Any) -> np.ndarray:
        """Return the normal coordinates of the records of all samples, clipped to the ball.

        Longer coordinates are shortened to the radius, and a record that is not finite
        becomes the center. Only shapes and types can be refused.

        Parameters
        ----------
        samples : sequence of arrays of shape (size, *point_shape)
            The samples.

        Returns
        -------
        array of shape (total, dim)
            The samples one after the other.
        """
        point_shape = self.manifold.point_shape
        origin = canonical_center(self.manifold, self.center)
        coordinates_of_samples = []
        sized_samples = zip(self.sizes, samples, strict=True)
        for number, (size, sample) in enumerate(sized_samples, 1):
            array = to_float_records(f"sample {number}", sample, point_shape)
            expected = (size, *point_shape)
            if array.shape != expected:
                raise ParameterError(
                    f"sample {number} has shape {array.shape}, not {expected}"
                )
            canonical = carry_records(self.manifold, self.center, array)
            coordinates_of_samples.append(
                ball_coordinates(self.manifold, origin, self.radius, canonical)
            )
        return np.concatenate(coordinates_of_samples)

    def kernel(self, z: np.ndarray) -> np.ndarray:
        """Return the Gaussian kernel exp(−|z_x − z_y|²/2ℓ²) of all pairs of records.

        The bandwidth ℓ is two fifths of the radius of the ball.

        Parameters
        ----------
        z : array of shape (n, dim)
            The coordinates of the records in the ball.

        Returns
        -------
        array of shape (n, n)
            The kernel matrix, whose diagonal is 1.
        """
        in_radii = z / self.radius
        squared_distances = cdist(in_radii, in_radii, "sqeuclidean")
        return np.asarray(np.exp(-_KERNEL_RATE * squared_distances))

    def permuted(self, z: np.ndarray, permutations: int, source: Source) -> np.ndarray:
        """Return the statistic, followed by its permuted values. NOT private.

        A weight vector w has the squared statistic wᵀKw, K the kernel matrix; the
        squares for all contrasts are added.

        Parameters
        ----------
        z : array of shape (total, dim)
            The coordinates of all records, as `coordinates` returns them.
        permutations : int
            The number of permutations.
        source : Source
            The source of random bits for the permutations.

        Returns
        -------
        array of shape (1 + permutations,)
            The statistic √Σ_w wᵀKw of the data, then of each permutation.
        """
        kernel = self.kernel(z)
        # wᵀKw for each row w of the weights.
        squares = [
            np.sum((weights @ kernel) * weights, axis=1)
            for weights in self.permuted_weights(permutations, source)
        ]
        total = np.sum(squares, axis=0)
        return np.asarray(np.sqrt(np.maximum(total, 0.0)))


@dataclass(frozen=True, eq=False)
class SamplesDistance(KernelStatistic):
    """The distance √Σⱼ pⱼ‖μⱼ − μ‖² of the mean embeddings of k samples from their mean.

    Here nⱼ is the size of sample j, N the number of all records, pⱼ = nⱼ/N, μⱼ the mean
    of the features of sample j, and μ that of all records. For two samples the
    statistic is √(p₁p₂) times their maximum mean discrepancy (Gretton et al. 2012,
    biased).

    Let m be the vector of the mⱼ = √pⱼ·μⱼ, and √p that of the √pⱼ. The statistic is the
    length of the part of m that is orthogonal to √p. So any orthonormal basis of the
    complement of √p gives k − 1 contrasts. The weights of one record of sample j in all
    contrasts have length √((1 − pⱼ)/(N·nⱼ)), whatever the permutation. Replacing the
    record moves the statistic by at most √2 times that length.

    That is about a record that is replaced within its sample. A record that moves to
    another sample changes two sizes, which are public. So samples are public classes,
    and the unit of privacy is a record, or a person, within its class.
    """

    name: ClassVar[str] = "kernel distance of samples"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.RECORD_IN_CLASS,
        ProtectedUnit.PERSON_IN_CLASS,
    )

    @property
    def exact_sensitivity(self) -> float:
        """√(2(1 − p)/(N·m)) for the smallest sample, of size m = pN among N records.

        A record of the smallest sample has the largest weight.
        """
        smallest = min(self.sizes)
        return sqrt(2 * (1 - smallest / self.total) / (self.total * smallest))

    @cached_property
    def contrasts(self) -> np.ndarray:
        """An orthonormal basis of the complement of √p, times √pⱼ/nⱼ in each column j.

        Here nⱼ is the size of sample j and pⱼ its fraction of all records. The result
        has shape (samples − 1, samples).
        """
        sizes = np.array(self.sizes)
        root_fractions = np.sqrt(sizes / self.total)
        basis = null_space(root_fractions[None]).T
        return np.asarray(basis * root_fractions / sizes)

    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """Yield the weights of all records for random orders of the records.

        There is one array of shape (1 + permutations, total) for each contrast; its
        first row is for the original order. An order is found by sorting random words
        of 64 bits, which have ties with probability below N²·2⁻⁶⁵ for N records.

        Parameters
        ----------
        permutations : int
            The number of random orders.
        source : Source
            The source of the random words.

        Returns
        -------
        iterator of arrays
            One array for each contrast.
        """
        words = source.words((permutations, self.total))
        orders = np.argsort(words, axis=1, kind="stable")
        for contrast in self.contrasts:
            weights = np.repeat(contrast, self.sizes)
            yield np.concatenate([weights[None], weights[orders]])


@dataclass(frozen=True, eq=False)
class PairedDistance(KernelStatistic):
    """The distance ‖μ₁ − μ₂‖ of the mean features of first and second members of n pairs.

    A permutation swaps the members of some pairs. Replacing one pair moves the
    statistic by at most 2√2/n.
    """

    name: ClassVar[str] = "kernel distance of pairs"
    privacy_units: ClassVar[tuple[ProtectedUnit, ...]] = (
        ProtectedUnit.PAIR,
        ProtectedUnit.PERSON,
    )
    is_paired: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise `ParameterError` unless there are two samples of the same size."""
        super().__post_init__()
        if len(self.sizes) != 2 or self.sizes[0] != self.sizes[1]:
            sizes = " and ".join(map(str, self.sizes))
            raise ParameterError(f"samples of {sizes} records do not form pairs")

    @property
    def exact_sensitivity(self) -> float:
        """2√2/n: a pair changes both means by vectors of length at most √2/n."""
        return 2 * sqrt(2) / int(self.sizes[0])

    @property
    def contrasts(self) -> np.ndarray:
        """The first member of a pair has the weight 1/n, the second −1/n."""
        return np.array([[1.0, -1.0]]) / int(self.sizes[0])

    def permuted_weights(
        self, permutations: int, source: Source
    ) -> Iterator[np.ndarray]:
        """Yield the weights of all records after swapping the members of random pairs.

        There is one array of shape (1 + permutations, 2n) for n pairs. A random sign
        for each pair says whether its members are swapped; the first row swaps none.

        Parameters
        ----------
        permutations : int
            The number of random choices of pairs.
        source : Source
            The source of one random bit for each pair.

        Returns
        -------
        iterator of arrays
            One array, because there is one contrast.
        """
        n_pairs = self.sizes[0]
        random_bits = source.words((permutations, n_pairs)) & np.uint64(1)
        signs = 1 - 2.0 * random_bits
        weights = np.concatenate([np.ones((1, n_pairs)), signs]) / n_pairs
        yield np.concatenate([weights, -weights], axis=1)
