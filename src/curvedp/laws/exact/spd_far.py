"""Exact draws of noise of large scale on positive definite matrices: real symmetric (β
= 1) or Hermitian ones (β = 2). The logarithms ρ of the eigenvalues are proposed as
normal numbers and accepted with some probability. A uniform rotation Q then gives the
draw Q·diag(e^ρ)·Q* about the identity.

The target is the law of the log-eigenvalues of a Gaussian of scale σ about the
identity (docs/theory/spd-gaussian.md). On ρ₁ > … > ρ_m its density is

    ∝ exp(−|ρ|²/2σ²)·∏_{i<j} sinh((ρᵢ−ρⱼ)/2)^β.

Since 2·sinh(x/2) = e^{x/2}(1 − e^{−x}), the product is, up to a constant factor,
e^{β⟨h, ρ⟩}·∏_{i<j} (1 − e^{−(ρᵢ−ρⱼ)})^β with hᵢ = (m+1−2i)/2. Completing the square
turns exp(−|ρ|²/2σ²)·e^{β⟨h, ρ⟩} into the density of N(βσ²h, σ²I), from which ρ is
proposed. A proposal that is decreasing is accepted with the probability that is left,
∏_{i<j} (1 − e^{−(ρᵢ−ρⱼ)})^β ≤ 1. The Laplace law is a mixture of Gaussians of a random
variance (`FarLaplaceDraw`).

Every constant is an exact real number, evaluated in balls (with error bounds) as far as
a decision needs. Complex numbers are real 2×2 blocks.
"""

import itertools

import numpy as np
from flint import arb, arb_mat

from curvedp.numerics.enclosures import arb_array, decide
from curvedp.randomness.csprng import Source
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms, accepts


def draw_far_gaussian(
    m: int, sigma: float, beta: int, source: Source
) -> "FarGaussianDraw":
    """Return an exact draw of the Gaussian about the identity, by rejection.

    Parameters
    ----------
    m : int
        The size of the matrix.
    sigma : float
        The scale σ.
    beta : {1, 2}
        Symmetric or Hermitian.
    source : Source
        The random bits.

    Returns
    -------
    FarGaussianDraw
        The accepted proposal, with its rotation.
    """
    while True:
        proposal = FarGaussianDraw(m, sigma, LazyNormals(source, m), beta)
        if proposal.is_accepted(source):
            proposal.draw_rotation(source)
            return proposal


def draw_far_laplace(
    m: int, scale: float, beta: int, source: Source
) -> "FarLaplaceDraw":
    """Return an exact draw of the Laplace law about the identity, by rejection.

    Parameters
    ----------
    m : int
        The size of the matrix.
    scale : float
        The scale σ.
    beta : {1, 2}
        Symmetric or Hermitian.
    source : Source
        The random bits.

    Returns
    -------
    FarLaplaceDraw
        The accepted proposal, with its rotation.
    """
    while True:
        proposal = FarLaplaceDraw(m, scale, LazyNormals(source, 2 * m + 1), beta)
        if proposal.is_accepted(source):
            proposal.draw_rotation(source)
            return proposal


class FarGaussianDraw:
    """One proposal: log-eigenvalues as lazy reals, and reflections that turn them.

    Parameters
    ----------
    m : int
        The size of the matrix.
    scale : float
        The scale σ of the law.
    normals : LazyNormals
        One normal for each log-eigenvalue.
    beta : {1, 2}
        Symmetric or Hermitian.
    """

    def __init__(
        self, m: int, scale: float, normals: LazyNormals, beta: int = 1
    ) -> None:
        """Store the lazy numbers of a proposal; nothing is computed yet.

        Parameters
        ----------
        m : int
            The size of the matrix.
        scale : float
            The scale σ.
        normals : LazyNormals
            One normal for each log-eigenvalue; a subclass takes further ones.
        beta : {1, 2}
            1 for real symmetric, 2 for Hermitian matrices.
        """
        self.m = m
        self.beta = beta
        self._scale = scale
        self._normals = normals
        self._reflections: list[LazyNormals] = []

    def _standard_deviation(self, normals: np.ndarray) -> arb:
        """Return σ; a subclass makes it random, from further normals.

        σ is the scale of the proposed log-eigenvalues.

        Parameters
        ----------
        normals : array
            Independent standard normals; those after the first m are used.

        Returns
        -------
        arb
            σ, as a ball.
        """
        return arb(self._scale)

    def log_eigenvalues(self, precision: int) -> list[arb]:
        """Return the log-eigenvalues of this proposal, to a given precision.

        They are ρᵢ = βσ²hᵢ + σzᵢ with hᵢ = (m+1−2i)/2, independent standard normals zᵢ,
        and β = 1 for symmetric and 2 for Hermitian matrices.

        σ is the scale of the Gaussian.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        list of m balls
            ρ₁, …, ρ_m.
        """
        normals = self._normals.balls(precision)
        sigma = self._standard_deviation(normals)
        # Python counts i from 0, and the formula from 1.
        return [
            sigma * (sigma * self.beta * (self.m - 1 - 2 * i) / 2 + z)
            for i, z in enumerate(normals[: self.m])
        ]

    def log_ratio(self, precision: int) -> arb:
        """Return log(target/envelope) at this proposal.

        The proposal is accepted with the probability target/envelope. The target has
        the density ∝ exp(−|ρ|²/2σ²)·∏ (2·sinh((ρᵢ−ρⱼ)/2))^β at the log-eigenvalues ρ₁ >
        … > ρ_m, and the envelope is the Gaussian ∝ exp(−|ρ|²/2σ²)·e^{β⟨h, ρ⟩} of the
        proposals, with hᵢ = (m+1−2i)/2. Their ratio has the logarithm

            β·Σ_{i<j} log(1 − e^{−(ρᵢ−ρⱼ)}) ≤ 0,

        where β is 1 for real and 2 for complex matrices (see the head of this module).
        `accepts` raises `EnvelopeViolation` if it is positive.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        arb
            A ball around the logarithm, which is at most 0.
        """
        rho = self.log_eigenvalues(precision)
        product = arb(1)
        for i, larger in enumerate(rho):
            for smaller in rho[i + 1 :]:
                product = product * -(smaller - larger).expm1()
        return self.beta * product.log()

    def is_decreasing(self) -> bool:
        """Return whether the log-eigenvalues satisfy ρ₁ > … > ρ_m, with certainty.

        The proposal does not enforce this order, in which the target law lists the
        log-eigenvalues of a matrix.

        Returns
        -------
        bool
            False if two neighbors are in the wrong order; such a proposal is rejected.
        """

        def is_decreasing_at(precision: int) -> bool | None:
            """Return whether they decrease; None if that is not certain yet."""
            rho = self.log_eigenvalues(precision)
            gaps = [larger - smaller for larger, smaller in itertools.pairwise(rho)]
            if any(gap < 0 for gap in gaps):
                return False
            return True if all(gap > 0 for gap in gaps) else None

        return decide(is_decreasing_at)

    def is_accepted(self, source: Source) -> bool:
        """Decide with certainty whether rejection sampling accepts this proposal.

        Parameters
        ----------
        source : Source
            The random bits of the uniform number that decides.

        Returns
        -------
        bool
            False if the log-eigenvalues are not decreasing, or with the probability
            1 − target/envelope.
        """
        return self.is_decreasing() and accepts(LazyUniforms(source, 1), self.log_ratio)

    def draw_rotation(self, source: Source) -> None:
        """Draw the normals of a uniform rotation Q, and store them in this object.

        Q is a product of reflections in dimensions 2, …, m (Stewart 1980). It is Haar
        distributed up to the signs or phases of its columns, which Q·diag(e^ρ)·Q* does
        not depend on.

        ρ are the log-eigenvalues of the proposal.

        Parameters
        ----------
        source : Source
            The random bits.
        """
        dimensions = range(2, self.m + 1)
        self._reflections = [
            LazyNormals(source, self.beta * dimension) for dimension in dimensions
        ]

    def exp(self, precision: int) -> arb_mat:
        """Return the matrix Q·diag(e^ρ)·Q* of this proposal, to a given precision.

        ρ are its log-eigenvalues, and Q is a product of Householder reflections.

        Parameters
        ----------
        precision : int
            The number of bits.

        Returns
        -------
        arb_mat
            Balls around the entries of the matrix.
        """
        # diag(e^ρ); an eigenvalue of a Hermitian matrix fills a 2×2 block.
        size = self.beta * self.m
        matrix = arb_mat(size, size)
        for i, rho_i in enumerate(self.log_eigenvalues(precision)):
            for diagonal_index in range(self.beta * i, self.beta * (i + 1)):
                matrix[diagonal_index, diagonal_index] = rho_i.exp()

        # Each reflection is applied from both sides.
        for normals in self._reflections:
            reflection = self._reflection_matrix(normals.balls(precision))
            matrix = reflection * matrix * reflection
        return matrix

    def _reflection_matrix(self, g: np.ndarray) -> arb_mat:
        """Return the Householder reflection that takes a vector g to a multiple of e₁.

        It is I − 2uu*/|u|² with u = g + (g₁/|g₁|)·|g|·e₁.

        Parameters
        ----------
        g : array of balls
            A vector that fills the last coordinates; complex entries are two reals
            each.

        Returns
        -------
        arb_mat
            Balls around the entries of the reflection.
        """
        # The vector u.
        beta = self.beta
        size = beta * self.m
        start = size - len(g)
        first = g[:beta]
        u = g.copy()
        u[:beta] = first * (1 + (g.dot(g) / first.dot(first)).sqrt())

        # u as a real matrix of 2×2 blocks, or of numbers, below zeros.
        axis = arb_array(np.zeros((size, beta)))
        axis[start:, 0] = u
        if beta == 2:
            # The second column is the first one times the imaginary unit.
            axis[start::2, 1] = -u[1::2]
            axis[start + 1 :: 2, 1] = u[::2]
        reflection = np.eye(size) - axis.dot(axis.T) * (2 / u.dot(u))
        return arb_mat(reflection.tolist())


class FarLaplaceDraw(FarGaussianDraw):
    """One proposal of the Laplace law: a Gaussian proposal of a random variance.

    The variance is Gamma((m+1)/2, c), that is a χ² with m + 1 degrees of freedom
    divided by 2c = 1/scale² − β²|h|² (`laws.spd.laplace`). It is made of m + 1 further
    normals.
    """

    def _standard_deviation(self, normals: np.ndarray) -> arb:
        """Return the square root of the random variance.

        Parameters
        ----------
        normals : array
            Independent standard normals: m for the log-eigenvalues, and then m + 1
            for the variance.

        Returns
        -------
        arb
            The square root, as a ball.
        """
        m = self.m
        further_normals = normals[m:]
        squared_growth_rate = arb(self.beta**2 * m * (m * m - 1)) / 12
        twice_c = 1 / arb(self._scale) ** 2 - squared_growth_rate
        return (further_normals.dot(further_normals) / twice_c).sqrt()
