"""Exact draws of noise of small scale on positive definite matrices: real symmetric (β
= 1) or Hermitian ones (β = 2). A draw about the identity is Y = e^V. The matrix V is
proposed from a Gaussian matrix law, the near envelope, and accepted with the
probability density/envelope.

V has the density exp(−|V|²/2σ²)·∏_{i<j} sinhc(x_ij)^β, with x_ij half the difference of
two eigenvalues of V and sinhc x = sinh x/x. Numbers are balls, midpoints with error
bounds. Complex numbers a + ib are real blocks [[a, −b], [b, a]].
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from flint import acb, acb_mat, arb, arb_mat

from curvedp.laws.spd.normalizer import dimension
from curvedp.numerics.enclosures import FILTER_SIZE, FloatBall, float_ball, float_up
from curvedp.numerics.enclosures import precision as at_precision
from curvedp.randomness.csprng import Source
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms, accepts

# Covers the roundings of a few float operations on an upper bound.
_ROUND_UP = 1 + 2.0**-40


class MatrixScales(NamedTuple):
    """The factors by which a standard Gaussian matrix is scaled, as balls."""

    trace: Any
    """The factor of the part proportional to the identity."""
    traceless: Any
    """The factor of the traceless part."""


class SinhcBound(ABC):
    """A distribution of V by normals, and a bound of ∏ sinhc that makes it an envelope.

    V is the logarithm of a draw about the identity, with the density
    exp(−|V|²/2σ²)·∏_{i<j} sinhc(x_ij)^β for a Gaussian law. x_ij is half the difference
    of two eigenvalues of V, and sinhc x = sinh x/x.

    Attributes
    ----------
    m : int
        The size of the matrices.
    beta : {1, 2}
        1 for real symmetric, 2 for Hermitian matrices.
    """

    m: int
    beta: int

    @property
    @abstractmethod
    def n_normals(self) -> int:
        """The number of standard normals from which one matrix V is made."""

    @abstractmethod
    def scales(self, normals: Any) -> MatrixScales:
        """Return the scales of the trace part and the traceless part of V.

        Parameters
        ----------
        normals : array of Arb balls, or FloatBall
            All normals of the matrix; the scales are balls of the same kind.

        Returns
        -------
        MatrixScales
            The factors of a standard Gaussian matrix.
        """

    @abstractmethod
    def log_bound(self, sum_of_squares: arb, normals: Any) -> arb:
        """Return an upper bound of Σ_{i<j} log sinhc x_ij.

        x_ij is half the difference of two eigenvalues of V, and sinhc x = sinh x/x.
        Each subclass uses one of the two parameters: the tangent bound needs the
        differences x_ij, and the Laplace bound needs the length of V.

        Parameters
        ----------
        sum_of_squares : ball
            Σ_{i<j} x_ij².
        normals : array of balls
            The normals of the matrix.

        Returns
        -------
        arb
            The bound, as a ball.
        """


@dataclass(frozen=True)
class TangentBound(SinhcBound):
    """The bound log sinhc x ≤ a + b·x² of the Gaussian law, with constants rounded up.

    The function φ(y) = log sinhc √y is concave, so each tangent bounds it. Since
    Σ_{i<j} x_ij² = (m/4)·|V₀|² with V₀ the traceless part of V, the envelope is a
    Gaussian matrix whose traceless part has variance s² = 1/(1/σ² − βmb/2) in place of
    σ².

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        σ, the scale of the law.
    traceless_scale : float
        s, the scale of the traceless part V₀ in the envelope.
    offset : float
        a, the constant term of the tangent.
    beta : {1, 2}
        Symmetric or Hermitian.
    """

    m: int
    sigma: float
    traceless_scale: float
    offset: float
    beta: int = 1

    def slope(self) -> arb:
        """Return the slope b = (2/βm)·(1/σ² − 1/s²) of the tangent, as a ball.

        It is computed from the rounded s, so that bound and envelope agree exactly.

        m is the size of the matrices, β = 1 for real symmetric and 2 for Hermitian
        ones, σ the scale of the law, and s that of the envelope's traceless part.
        """
        difference = 1 / arb(self.sigma) ** 2 - 1 / arb(self.traceless_scale) ** 2
        return 2 * difference / (self.beta * self.m)

    @property
    def n_normals(self) -> int:
        """One normal for each real entry of V."""
        return dimension(self.m, self.beta)

    def scales(self, normals: Any) -> MatrixScales:
        """Return σ for the trace and s for the traceless part, as balls.

        σ is the scale of the law, and s makes the Gaussian matrix an envelope of it.

        Parameters
        ----------
        normals : array of Arb balls, or FloatBall
            The normals of the matrix, which decide the kind of balls.

        Returns
        -------
        MatrixScales
            The two factors.
        """
        number = FloatBall if isinstance(normals, FloatBall) else arb
        return MatrixScales(number(self.sigma), number(self.traceless_scale))

    def log_bound(self, sum_of_squares: arb, normals: Any) -> arb:
        """Return b·Σx_ij² + a·m(m − 1)/2, an upper bound of Σ_{i<j} log sinhc x_ij.

        x_ij is half the difference of two of the m eigenvalues, b is `slope`, and a is
        `offset`.

        Parameters
        ----------
        sum_of_squares : ball
            Σ_{i<j} x_ij².
        normals : array of balls
            Not used: this bound depends on the differences x_ij alone.

        Returns
        -------
        arb
            The bound, as a ball.
        """
        n_pairs = self.m * (self.m - 1) // 2
        return self.slope() * sum_of_squares + n_pairs * arb(self.offset)


@dataclass(frozen=True)
class LaplaceBound(SinhcBound):
    """The bound ∏ sinhc ≤ e^{|h||V|} of the Laplace law, from sinhc x ≤ eˣ.

    V has a uniform direction and a length from Gamma(dim, 1/scale − β|h|), which is
    half a χ² with 2·dim degrees of freedom divided by the rate: all is made of normals.

    Parameters
    ----------
    m : int
        The size of the matrices.
    scale : float
        σ, the scale of the law.
    beta : {1, 2}
        Symmetric or Hermitian.
    """

    m: int
    scale: float
    beta: int = 1

    @property
    def n_normals(self) -> int:
        """One normal per dimension for the direction of V, two for its length."""
        return 3 * dimension(self.m, self.beta)

    def _norm_of_h(self) -> arb:
        """Return |h| = √(m(m²−1)/12) as a ball: the length of hᵢ = (m+1−2i)/2.

        It is the constant in Σ_{i<j} |x_ij| ≤ |h|·|V|, where x_ij is half the
        difference of two eigenvalues of V.
        """
        return (arb(self.m * (self.m**2 - 1)) / 12).sqrt()

    def _length(self, normals: Any) -> Any:
        """Return |V|, half a χ² with 2·dim degrees of freedom divided by 1/σ − β|h|.

        σ is the scale of the law, dim the dimension of the matrices, β = 1 for real
        symmetric and 2 for Hermitian ones, and |h| = √(m(m²−1)/12).

        Parameters
        ----------
        normals : array of balls or FloatBall
            All normals of the matrix; those after the first dim are used.

        Returns
        -------
        arb or FloatBall
            |V|.
        """
        length_normals = normals[dimension(self.m, self.beta) :]
        twice_rate = 2 * (1 / arb(self.scale) - self.beta * self._norm_of_h())
        if isinstance(normals, FloatBall):
            twice_rate = float_ball(twice_rate)
        return length_normals.dot(length_normals) / twice_rate

    def scales(self, normals: Any) -> MatrixScales:
        """Return the same factor |V|/|G| for both parts of a Gaussian matrix G.

        The matrix V has the direction of G and the length of `_length`. The first
        `dimension` normals are the entries of G.

        Parameters
        ----------
        normals : array of balls or FloatBall
            All normals of the matrix.

        Returns
        -------
        MatrixScales
            The factor, twice.
        """
        direction = normals[: dimension(self.m, self.beta)]
        ratio = self._length(normals) / direction.dot(direction).sqrt()
        return MatrixScales(ratio, ratio)

    def log_bound(self, sum_of_squares: arb, normals: Any) -> arb:
        """Return |h|·|V|, an upper bound of Σ_{i<j} log sinhc x_ij.

        |h| is √(m(m²−1)/12), and x_ij half the difference of two eigenvalues of V.

        Parameters
        ----------
        sum_of_squares : ball
            Not used: this bound depends on the length of V alone.
        normals : array of balls
            The normals of the matrix; its length |V| is a function of them.

        Returns
        -------
        arb
            The bound, as a ball.
        """
        return self._norm_of_h() * self._length(normals)


@lru_cache(maxsize=256)
def tangent_bound(m: int, sigma: float, tangent: float, beta: int = 1) -> TangentBound:
    """Return the `TangentBound` whose tangent to log sinhc touches at one point x.

    The tangent in x² is a + b·x² with b = (coth x − 1/x)/(2x) and a = log sinhc x −
    b·x². It lies above log sinhc everywhere, whatever x > 0 is.

    Rounding s or a down would break the bound.

    Parameters
    ----------
    m : int
        The size of the matrices.
    sigma : float
        σ, the scale of the law.
    tangent : float
        x > 0, where the tangent touches.
    beta : {1, 2}
        Symmetric or Hermitian.

    Returns
    -------
    TangentBound
        The bound, with constants rounded so that it holds.
    """
    if m == 1:
        # In one dimension there is no curvature.
        return TangentBound(1, sigma, sigma, 0.0, beta)
    with at_precision(256):
        x = arb(tangent)
        b = (x.coth() - 1 / x) / (2 * x)
        # Rounded up, s makes `slope` at least this tangent's b, so that the line
        # a + slope·x² is above the tangent for every x.
        scale = float_up(1 / (1 / arb(sigma) ** 2 - beta * m * b / 2).sqrt())

        offset = float_up((x.sinh() / x).log() - b * x * x)
    return TangentBound(m, sigma, scale, offset, beta)


def draw_near(bound: SinhcBound, source: Source) -> "NearDraw":
    """Return an exact draw of a matrix V, by rejection from an envelope.

    Parameters
    ----------
    bound : SinhcBound
        The distribution of V and the envelope.
    source : Source
        The random bits.

    Returns
    -------
    NearDraw
        The accepted proposal.
    """
    while True:
        proposal = NearDraw(bound, LazyNormals(source, bound.n_normals))
        if accepts(LazyUniforms(source, 1), proposal.log_ratio):
            return proposal


class FloatEigen(NamedTuple):
    """Approximate eigenvalues and eigenvectors of V with proved error bounds."""

    values: np.ndarray
    """Eigenvalues, in ascending order."""
    vectors: np.ndarray
    """The columns are eigenvectors, orthonormal up to `orthogonality_error`."""
    value_error: float
    """Each eigenvalue of V is within this of its partner in `values`."""
    orthogonality_error: float
    """η ≥ |Q̂ᵀQ̂ − I| for the matrix Q̂ of `vectors`."""


class FloatExp(NamedTuple):
    """An approximation of e^V with a proved error bound."""

    matrix: FloatBall
    """The approximation, with the rounding of its own arithmetic."""
    spectral_error: float
    """A bound of the distance from e^V in the spectral norm."""


class NearDraw:
    """One proposal: the matrix V as a function of lazy normals.

    Parameters
    ----------
    bound : SinhcBound
        The distribution of V and the envelope.
    normals : LazyNormals
        bound.n_normals standard normals.
    """

    def __init__(self, bound: SinhcBound, normals: LazyNormals) -> None:
        """Store the lazy normals of a proposal; nothing is computed yet.

        Parameters
        ----------
        bound : SinhcBound
            The distribution of V and the envelope.
        normals : LazyNormals
            `bound.n_normals` standard normals.
        """
        self._bound = bound
        self._normals = normals
        self._float_eigen: FloatEigen | None = None
        self._layout = _matrix_layout(bound.m, bound.beta)

    @property
    def is_large(self) -> bool:
        """Whether the matrix is so large that floats, tried before Arb, save time."""
        return self._bound.n_normals >= FILTER_SIZE

    def _matrix(self, normals: Any, root_half: Any) -> Any:
        """Return the random matrix V = s·G + (σ − s)·(tr G/m)·I.

        G is the Gaussian matrix of the normals. V has the traceless part of G scaled by
        s, and the trace of G scaled by σ (`SinhcBound.scales`).

        Parameters
        ----------
        normals : array of balls or FloatBall
            The standard normals.
        root_half : ball
            √½, the standard deviation of an entry off the diagonal.

        Returns
        -------
        array of balls or FloatBall
            The matrix V.
        """
        m = self._bound.m
        identity = np.eye(len(self._layout.normal_index))
        scales = self._bound.scales(normals)

        # The entries of s·G: standard deviation 1 on the diagonal, √½ off it.
        signed_deviations = self._layout.sign * (1 - identity) * root_half + identity
        entry_normals = normals[self._layout.normal_index]
        scaled_gaussian = entry_normals * signed_deviations * scales.traceless

        # (σ − s)·tr G/m; the first m normals are the diagonal of G.
        trace = normals[:m].sum()
        diagonal_shift = trace * (scales.trace - scales.traceless) / m
        return scaled_gaussian + identity * diagonal_shift

    def _matrix_in_balls(self, precision: int) -> arb_mat:
        """Return balls around the entries of V, the logarithm of the draw.

        Called with more and more bits until the result is certain.

        Real symmetric matrices have β = 1 and Hermitian ones β = 2.

        Parameters
        ----------
        precision : int
            About how many bits of the normals are used.

        Returns
        -------
        arb_mat
            The matrix; for β = 2 as real blocks [[a, −b], [b, a]].
        """
        matrix = self._matrix(self._normals.balls(precision), arb(0.5).sqrt())
        return arb_mat(matrix.tolist())

    def _float_eigenvalues_with_errors(self) -> FloatEigen:
        """Return float64 eigenvalues and eigenvectors of V with proved error bounds.

        V is the logarithm of the draw, a symmetric matrix. Let D be the diagonal matrix
        of the computed eigenvalues and Q̂ the matrix of the computed eigenvectors, with
        the polar decomposition Q̂ = U·P. With η ≥ |Q̂ᵀQ̂ − I| ≥ |P − I|,

            |V − U D Uᵀ| ≤ |V − Q̂DQ̂ᵀ| + (2η + η²)|D| =: e,

        and by Weyl's inequality each eigenvalue of V is within e of its partner in D.
        In the code `residual` is |V − Q̂DQ̂ᵀ|, `orthogonality_error` is η, and `error`
        is e.

        The error bounds must hold for any output of `eigh`, however inaccurate it is;
        tests/laws/exact/test_filter.py checks the bound that follows for the
        exponential.

        Returns
        -------
        FloatEigen
            The eigenvalues and eigenvectors, computed once for each proposal.
        """
        if self._float_eigen is not None:
            return self._float_eigen
        root_half = FloatBall(math.sqrt(0.5), 2.0**-53)
        matrix = self._matrix(self._normals.floats(), root_half)
        values, vectors = np.linalg.eigh(matrix.mid)

        # η and |V − Q̂DQ̂ᵀ|, bounded in float balls.
        vector_ball = FloatBall(vectors)
        gram = vector_ball.T.sharp_dot(vector_ball)
        orthogonality_error = _frobenius_bound(gram - np.eye(len(values)))
        rebuilt_matrix = (vector_ball * values).sharp_dot(vector_ball.T)
        residual = _frobenius_bound(matrix - rebuilt_matrix)

        # The bound e of the docstring.
        largest_value = float(np.abs(values).max())
        polar_error = 2 * orthogonality_error + orthogonality_error**2
        error = residual + polar_error * largest_value
        self._float_eigen = FloatEigen(
            values, vectors, error * _ROUND_UP, orthogonality_error
        )
        return self._float_eigen

    def _eigenvalues(self, precision: int) -> list[arb] | None:
        """Return balls around the eigenvalues of V; None if Arb cannot separate them.

        V is the logarithm of the draw. For large matrices, float64 eigenvalues with
        proved errors are used at the first precision of 64 bits.

        Called to decide whether the proposal is accepted.

        Parameters
        ----------
        precision : int
            Bits.

        Returns
        -------
        list of arb, or None
            One ball for each of the m eigenvalues.
        """
        m = self._bound.m
        beta = self._bound.beta

        # The quick cases: a number, and a large matrix in floats.
        if m == 1:
            return [self._matrix_in_balls(precision)[0, 0]]
        if self.is_large and precision == 64:
            with np.errstate(all="ignore"):
                eigen = self._float_eigenvalues_with_errors()
            # The eigenvalues of a matrix of 2×2 blocks come in pairs.
            return [
                arb(value, eigen.value_error) for value in eigen.values[::beta].tolist()
            ]

        # All others in Arb.
        matrix = self._matrix_in_balls(precision)
        if beta == 2:
            matrix = _complex_from_blocks(matrix, m)
        try:
            return [value.real for value in matrix.eig()]
        except ValueError:
            # Arb could not separate two eigenvalues at this precision.
            return None

    def log_ratio(self, precision: int) -> arb:
        """Return a ball around log(target/envelope), which is at most 0.

        It is β·(Σ_{i<j} log sinhc x_ij − bound), where x_ij is half the difference of
        two eigenvalues of V, sinhc x = sinh x/x, and `SinhcBound.log_bound` gives the
        bound.

        Real symmetric matrices have β = 1 and Hermitian ones β = 2.

        Parameters
        ----------
        precision : int
            Bits. The ball is NaN if the eigenvalues are not separated at this
            precision.

        Returns
        -------
        arb
            The ball.
        """
        eigenvalues = self._eigenvalues(precision)
        if eigenvalues is None:
            return arb.nan()

        log_product, sum_of_squares = _sinhc_product(eigenvalues)
        normals = self._normals.balls(precision)
        log_bound = self._bound.log_bound(sum_of_squares, normals)
        return self._bound.beta * (log_product - log_bound)

    def exp(self, precision: int) -> arb_mat:
        """Return balls around the entries of Y = e^V, the draw about the identity.

        Real symmetric matrices have β = 1 and Hermitian ones β = 2.

        Parameters
        ----------
        precision : int
            About how many bits of the normals are used.

        Returns
        -------
        arb_mat
            The matrix; for β = 2 as real blocks [[a, −b], [b, a]].
        """
        return self._matrix_in_balls(precision).exp()

    def float_exp(self) -> FloatExp:
        """Return e^V in floats, with a bound of the error in the spectral norm.

        The result is Q̂e^DQ̂ᵀ, with the diagonal matrix D of the computed eigenvalues
        and the matrix Q̂ of the computed eigenvectors, whose polar factor is U. With e
        and η the bounds `value_error` and `orthogonality_error` of `FloatEigen`,

            |e^V − Q̂e^DQ̂ᵀ| ≤ |e^V − Ue^DUᵀ| + |U e^D Uᵀ − Q̂e^DQ̂ᵀ|
                            ≤ e·exp(max D + e) + (2η + η²)·exp(max D).

        Returns
        -------
        FloatExp
            The approximation and the bound.
        """
        eigen = self._float_eigenvalues_with_errors()
        orthogonality_error = eigen.orthogonality_error

        with at_precision(64):
            exponentials = [arb(value).exp() for value in eigen.values.tolist()]
            growth = float_ball(np.array(exponentials, dtype=object))  # e^D
            largest = arb(float(eigen.values.max()) + eigen.value_error).exp()
            largest_growth = float(largest.upper())

        vector_ball = FloatBall(eigen.vectors)
        approximation = (vector_ball * growth).sharp_dot(vector_ball.T)

        # The bound of the docstring.
        relative_error = (
            eigen.value_error + 2 * orthogonality_error + orthogonality_error**2
        )
        error = relative_error * largest_growth
        return FloatExp(approximation, error * _ROUND_UP)


class _SinhcProduct(NamedTuple):
    """Two sums over all pairs of eigenvalues; x is half the difference of a pair."""

    log_product: arb  # Σ log(sinh x/x)
    sum_of_squares: arb  # Σ x²


def _sinhc_product(eigenvalues: list[arb]) -> _SinhcProduct:
    """Return balls around Σ log sinhc x_ij and Σ x_ij² over all pairs of eigenvalues.

    x_ij is half the difference of two eigenvalues, and sinhc x = sinh x/x. Each sinhc
    is evaluated at the midpoint of the ball of x_ij, because sinh x/x cannot be
    evaluated on a ball around 0. Since |d log sinhc x/dx| ≤ |x|/3, this is off by at
    most `uncertainty`, by which the ball is widened.

    tests/laws/exact/test_spd_near.py checks that the envelope lies above its target.

    Parameters
    ----------
    eigenvalues : list of arb
        Balls around the eigenvalues.

    Returns
    -------
    _SinhcProduct
        The two sums.
    """
    product = arb(1)
    uncertainty = arb(0)
    sum_of_squares = arb(0)
    for i, first in enumerate(eigenvalues):
        for second in eigenvalues[:i]:
            x = (first - second) / 2

            # Evaluate sinh x/x at the midpoint, and bound its change within the ball.
            midpoint = x.mid()
            radius = x.rad()
            if midpoint != 0:  # sinhc 0 = 1
                product = product * midpoint.sinh() / midpoint
            uncertainty = uncertainty + radius * (abs(midpoint) + radius) / 3
            sum_of_squares = sum_of_squares + x * x
    return _SinhcProduct(product.log() + arb(0, 1) * uncertainty, sum_of_squares)


def _complex_from_blocks(matrix: arb_mat, m: int) -> acb_mat:
    """Return the complex m×m matrix of a real matrix of blocks [[a, −b], [b, a]].

    The block stands for a + ib. The complex matrix has each eigenvalue once, and the
    real one twice.

    Used to compute each eigenvalue once, and not twice.

    Parameters
    ----------
    matrix : arb_mat, size 2m × 2m
        A matrix of m × m blocks.
    m : int
        The number of blocks in a row.

    Returns
    -------
    acb_mat
        The complex matrix.
    """
    rows = []
    for i in range(0, 2 * m, 2):
        row = [acb(matrix[i, j], matrix[i + 1, j]) for j in range(0, 2 * m, 2)]
        rows.append(row)
    return acb_mat(rows)


class MatrixLayout(NamedTuple):
    """Which normal stands at each entry of a matrix, and with which sign.

    Attributes
    ----------
    normal_index : array of int, shape (k, k)
        The index of the normal at each entry; k is m, or 2m for Hermitian matrices.
    sign : array of shape (k, k)
        1 or −1; 0 where a real block has a zero.
    """

    normal_index: np.ndarray
    sign: np.ndarray


@lru_cache(maxsize=64)
def _matrix_layout(m: int, beta: int) -> MatrixLayout:
    """Return the positions of the normals in a symmetric or Hermitian matrix.

    The first m normals are the diagonal, the next m(m−1)/2 the real parts off the
    diagonal, then come the imaginary parts.

    Parameters
    ----------
    m : int
        The size of the matrix.
    beta : {1, 2}
        1 for a real symmetric matrix; 2 for a Hermitian one, which is written as a real
        2m×2m matrix of blocks [[a, −b], [b, a]] for its entries a + ib.

    Returns
    -------
    MatrixLayout
        For each entry, the index of its normal, and its sign.
    """
    # The real part: a diagonal, and the same numbers above and below it.
    rows, columns = np.triu_indices(m, 1)
    n_pairs = len(rows)
    real_index = np.diag(np.arange(m))
    real_index[rows, columns] = m + np.arange(n_pairs)
    real_index[columns, rows] = m + np.arange(n_pairs)
    if beta == 1:
        return MatrixLayout(real_index, np.ones((m, m)))

    # The imaginary part changes its sign under transposition.
    imaginary_index = np.zeros((m, m), dtype=int)
    imaginary_index[rows, columns] = m + n_pairs + np.arange(n_pairs)
    imaginary_index[columns, rows] = m + n_pairs + np.arange(n_pairs)
    antisymmetric_sign = np.triu(np.ones((m, m)), 1) - np.tril(np.ones((m, m)), -1)

    # Each entry a + ib becomes a·[[1, 0], [0, 1]] + b·[[0, −1], [1, 0]]. The Kronecker
    # product with a 2×2 matrix replaces each entry by a multiple of that matrix.
    on_block_diagonal = np.eye(2, dtype=int)
    off_block_diagonal = 1 - on_block_diagonal
    imaginary_unit = np.array([[0, -1], [1, 0]])
    index = np.kron(real_index, on_block_diagonal)
    index = index + np.kron(imaginary_index, off_block_diagonal)
    sign = np.kron(np.ones((m, m)), on_block_diagonal)
    sign = sign + np.kron(antisymmetric_sign, imaginary_unit)
    return MatrixLayout(index, sign)


def _frobenius_bound(x: FloatBall) -> float:
    """Return an upper bound of the Frobenius norm of every matrix in the ball.

    Used to bound the errors of eigenvalues and eigenvectors that were computed in
    floats.

    Parameters
    ----------
    x : FloatBall
        A matrix with error radii.

    Returns
    -------
    float
        The bound.
    """
    largest_entries = np.abs(x.mid) + x.rad
    norm = float(np.sqrt((largest_entries * largest_entries).sum()))
    # The summand covers squares that underflow to 0.
    return norm * _ROUND_UP + 2.0**-500
