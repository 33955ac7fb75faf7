"""Newton's method for the affine-invariant Fréchet mean of SPD matrices. The current
point of the search is whitened, so that it is the identity I, and every record becomes
a matrix A with eigenvalues λ and eigenvectors U. `SPDNewton` computes the Hessian of the
cost ½·mean d² from these eigensystems, and turns a mean logarithm into a step.
`backends.spd` makes the passes over the records.
"""

from collections.abc import Sequence
from operator import methodcaller
from typing import NamedTuple

import numpy as np

from curvedp.geometry.frechet_mean.solver import evenly_spaced
from curvedp.geometry.manifold import Array as Matrix
from curvedp.numerics.matrix_functions import sym
from curvedp.numerics.threads import in_threads

# Ratios λ_min/λ_max in a Hessian are raised to this one: round-off may make an
# eigenvalue negative, and the Hessian need not be exact.
_LEAST_EIGENVALUE_RATIO = 1e-16

# Up to this number m of rows the Hessian, an m²×m² matrix, is inverted.
_MOST_ROWS_TO_INVERT = 3

# Numbers of records that give the Hessian to about one percent: for matrices of up to 3
# rows, of up to `_MEDIUM_ROWS` rows, and of more rows, whose Hessians vary less.
_SAMPLE_FOR_SMALL_MATRICES = 1024
_SAMPLE_FOR_MEDIUM_MATRICES = 256
_MEDIUM_ROWS = 32
_SAMPLE_FOR_LARGE_MATRICES = 128

# Cap on the rounds of conjugate gradients. They need only a few, and the search does not
# accept a step that does not help.
_MOST_ROUNDS = 1000

# Conjugate gradients end when the squared residual is at most this fraction of the first
# one. The first constant is for a solution that is refined afterwards, the second for
# one that is not.
_SQUARE_REDUCTION_BEFORE_REFINEMENT = 1e-6
_SQUARE_REDUCTION = 1e-8

# How often a Newton step is refined with the Hessian of all records. Each refinement
# gains about two digits.
_REFINEMENTS = 2


class WhitenedEigen(NamedTuple):
    """Eigensystems of n whitened m×m matrices G⁻¹XG⁻ᵀ, and the weights of the records X.

    GGᵀ is the point at which the matrices were whitened.

    Attributes
    ----------
    eigenvalues : array of shape (n, m)
        In ascending order.
    vectors : array of shape (n, m, m)
        The eigenvectors, in columns.
    weights : array of shape (n,)
        The weights of the records.
    """

    eigenvalues: Matrix
    vectors: Matrix
    weights: Matrix

    @classmethod
    def concatenate(cls, eigen_blocks: Sequence["WhitenedEigen"]) -> "WhitenedEigen":
        """Join the eigensystems of several blocks of records.

        Accurate passes store eigensystems block by block.

        Parameters
        ----------
        eigen_blocks : sequence of WhitenedEigen
            At least one block.

        Returns
        -------
        WhitenedEigen
            The eigensystems of all records; a single block is returned as it is.
        """
        if len(eigen_blocks) == 1:
            return eigen_blocks[0]
        return cls(
            np.concatenate([block.eigenvalues for block in eigen_blocks]),
            np.concatenate([block.vectors for block in eigen_blocks]),
            np.concatenate([block.weights for block in eigen_blocks]),
        )

    def sample(self, sample_size: int) -> "WhitenedEigen":
        """Return the eigensystems of evenly spaced records, with weights that sum to 1.

        A few hundred records give the Hessian of the cost to about one percent.

        Parameters
        ----------
        sample_size : int
            The number of records in the sample, fewer than there are.

        Returns
        -------
        WhitenedEigen
            The sample.
        """
        rows = evenly_spaced(len(self.weights), sample_size)
        weights = self.weights[rows]
        return WhitenedEigen(
            self.eigenvalues[rows], self.vectors[rows], weights / weights.sum()
        )


def hessian_sample_size(m: int) -> int:
    """Return how many m×m records suffice to compute the Hessian of the cost.

    Parameters
    ----------
    m : int
        The number of rows of each matrix.

    Returns
    -------
    int
        The number of records that give the Hessian to about one percent.
    """
    if m <= _MOST_ROWS_TO_INVERT:
        return _SAMPLE_FOR_SMALL_MATRICES
    if m <= _MEDIUM_ROWS:
        return _SAMPLE_FOR_MEDIUM_MATRICES
    return _SAMPLE_FOR_LARGE_MATRICES


class SPDNewton:
    """Newton's method: the map from a mean logarithm E to the step H⁻¹E.

    The point of the search is whitened, so that it is the identity I, and every record
    becomes a matrix A = U·diag(λ)·Uᵀ. H is the Hessian of the cost ½·mean d² at I, which
    is the mean over the records of the maps E ↦ U(K ⊙ UᵀEU)Uᵀ. Here K_rs is
    (s/2)·coth(s/2) at s = log λ_r − log λ_s, and ⊙ multiplies entry by entry.

    H is at least 1 and varies little from record to record, so a few hundred records
    give it to about one percent. For small matrices (`_MOST_ROWS_TO_INVERT`) the Hessian
    of such a sample is inverted. For larger ones Hx = E is solved by conjugate
    gradients with the Hessian of the sample, and the solution is then refined with that
    of all records. The refinement costs a tenth of a pass and gains three to six digits
    in each Newton step.

    Parameters
    ----------
    eigen_blocks : sequence of WhitenedEigen
        The whitened matrices, in blocks.
    """

    def __init__(self, eigen_blocks: Sequence[WhitenedEigen]) -> None:
        """Form the Hessian of a sample, and that of all records for refinement.

        Parameters
        ----------
        eigen_blocks : sequence of WhitenedEigen
            Eigenvalues, eigenvectors and weights of the whitened records, in blocks.
        """
        self._total_weight = sum(float(block.weights.sum()) for block in eigen_blocks)

        # The Hessian of a sample, or of all records if they are few.
        all_records = WhitenedEigen.concatenate(eigen_blocks)
        n, m = all_records.eigenvalues.shape
        sample_size = hessian_sample_size(m)
        is_sampled = n > sample_size
        sample = all_records.sample(sample_size) if is_sampled else all_records
        self._sample_hessian = _Hessian(sample)

        # The inverse for small matrices (None for others), and the Hessian of all
        # records, block by block, where steps are refined (empty elsewhere).
        self.inverse = None
        if m <= _MOST_ROWS_TO_INVERT:
            self.inverse = np.linalg.inv(self._sample_hessian.matrix())
        self._full_hessian: list[_Hessian] = []
        if self.inverse is None and is_sampled:
            self._full_hessian = [_Hessian(block) for block in eigen_blocks]

    def __call__(self, mean_log: Matrix) -> Matrix:
        """Return the Newton step H⁻¹E, with H the Hessian of the cost ½·mean d².

        E is the symmetric part of the mean logarithm. The step is symmetric to the last
        bit, like the values of H, and must stay so: otherwise the residual would keep a
        skew part that never decreases, and if the mean logarithm is only round-off (the
        start was the mean already) the conjugate gradients would diverge.

        Parameters
        ----------
        mean_log : array, shape (m, m)
            The mean logarithm of the records at the whitened iterate, which is minus
            the gradient of the cost.

        Returns
        -------
        array, shape (m, m)
            The step.
        """
        right_side = sym(mean_log)
        if self.inverse is not None:
            entries = self.inverse @ right_side.ravel()
            return sym(entries.reshape(right_side.shape))

        step = self._conjugate_gradients(right_side)
        if self._full_hessian:
            for _ in range(_REFINEMENTS):
                # Correct the step for the residual E − Hx with the H of all records.
                residual = right_side - self._full_hessian_times(step)
                step = step + self._conjugate_gradients(residual)
        return step

    def _full_hessian_times(self, step: Matrix) -> Matrix:
        """Return the product of the Hessian of all records with a symmetric matrix."""
        products = in_threads(methodcaller("times", step), self._full_hessian)
        return np.sum(products, axis=0) / self._total_weight

    def _conjugate_gradients(self, right_side: Matrix) -> Matrix:
        """Solve Hx = right_side approximately, with H the Hessian of a sample.

        The method of conjugate gradients reduces the residual right_side − Hx to 1e-4
        of its length, or to 1e-3 where the solution will be refined with the Hessian of
        all records.

        Parameters
        ----------
        right_side : array of shape (m, m)
            A symmetric matrix.

        Returns
        -------
        array of shape (m, m)
            The symmetric matrix x.
        """
        x = np.zeros_like(right_side)
        residual = right_side
        direction = residual
        residual_square = float(np.sum(residual * residual))

        is_refined = bool(self._full_hessian)
        reduction = _SQUARE_REDUCTION
        if is_refined:
            reduction = _SQUARE_REDUCTION_BEFORE_REFINEMENT
        goal = reduction * residual_square
        for _ in range(_MOST_ROUNDS):
            if not residual_square > goal:
                break
            image = self._sample_hessian.times(direction)
            curvature = float(np.sum(direction * image))
            if not curvature > 0:  # the direction is so small that products vanish
                break

            # The minimum along the direction, and the next, conjugate direction.
            step_length = residual_square / curvature
            x = x + step_length * direction
            residual = residual - step_length * image
            last_square = residual_square
            residual_square = float(np.sum(residual * residual))
            direction = residual + (residual_square / last_square) * direction
        return x


class _Hessian:
    """The Hessian E ↦ Σ w·U(K ⊙ UᵀEU)Uᵀ of the cost, summed over some records.

    Every record is a whitened matrix with weight w, eigenvectors U and log-eigenvalues
    l. K_rs is (s/2)·coth(s/2) at s = l_r − l_s, and ⊙ multiplies entry by entry.
    """

    def __init__(self, eigen: WhitenedEigen) -> None:
        """Compute for every record the matrix w·K of the Hessian in its eigenvectors.

        Parameters
        ----------
        eigen : WhitenedEigen
            Eigenvalues, eigenvectors and weights of n whitened m×m matrices.
        """
        largest = eigen.eigenvalues[:, -1:]
        least_allowed = _LEAST_EIGENVALUE_RATIO * largest
        logs = np.log(np.maximum(eigen.eigenvalues, least_allowed))

        # K = (s/2)/tanh(s/2) for every record and every pair (r, s); it is 1 at s = 0.
        half_gap = 0.5 * (logs[:, :, None] - logs[:, None, :])  # s/2
        is_zero = half_gap == 0
        tanh = np.tanh(np.where(is_zero, 1.0, half_gap))
        K = np.where(is_zero, 1.0, half_gap / tanh)
        self._weighted_K = K * eigen.weights[:, None, None]
        self._U = eigen.vectors
        # The matrices Uᵀ one below the other, shape (n·m, m).
        self._eigenvector_rows = self._U.mT.reshape(-1, logs.shape[1])

    def times(self, E: Matrix) -> Matrix:
        """Return the product Σ w·U(K ⊙ UᵀEU)Uᵀ of this Hessian with a matrix E.

        The products of all records with E are computed as one tall matrix product. The
        constructor has computed the matrices w·K.

        Parameters
        ----------
        E : array of shape (m, m)
            A symmetric matrix.

        Returns
        -------
        array of shape (m, m)
            The product, symmetric to the last bit.
        """
        n, m, _ = self._U.shape
        rows_times_E = (self._eigenvector_rows @ E).reshape(n, m, m)  # UᵀE, by record
        rotated = self._U.mT @ rows_times_E.mT  # UᵀEU
        scaled = self._weighted_K * rotated
        left_products = (scaled @ self._U.mT).reshape(n * m, m)
        return sym(left_products.T @ self._eigenvector_rows)

    def matrix(self) -> Matrix:
        """Return this Hessian as a matrix that acts on the entries of E, row by row.

        The matrix is the sum over the records of (U⊗U)·diag(w·K)·(U⊗U)ᵀ, computed as
        one matrix product. The columns of U are the eigenvectors of a record, w is its
        weight, and K_rs is (s/2)·coth(s/2) at the difference s = l_r − l_s of its
        log-eigenvalues.

        Returns
        -------
        array of shape (m², m²)
            The matrix.
        """
        # With the records on the last axis, shape (m, m, n).
        U = np.ascontiguousarray(self._U.transpose(1, 2, 0))
        weighted_K = np.ascontiguousarray(self._weighted_K.transpose(1, 2, 0))

        # U⊗U of all records side by side: entry ((i, j), (r, s, record)) is U_ir·U_js.
        m = len(U)
        kronecker = U[:, None, :, None] * U[None, :, None, :]
        kronecker = kronecker.reshape(m * m, -1)
        return np.asarray((kronecker * weighted_K.reshape(1, -1)) @ kronecker.T)
