"""Exact draws of Gaussian noise about a plane, that is on Grassmann(m, 2), the planes
through 0 in ℝ^m. Two planes differ by their principal angles θ₁ ≥ θ₂. All numbers are
*balls* (midpoints with error bounds), computed with more and more bits until a decision
is certain.

In the tangent space at a plane with the orthonormal basis P, a vector is an m×2 matrix
H whose columns are orthogonal to P. Its singular values θ₁ ≥ θ₂ are the principal
angles between the plane and

    exp_P(H) = P·cos(√A) + H·(sin(√A)/√A),        A = HᵀH.

The density exp(−|θ|²/2σ²) with respect to the Riemannian volume is, in the tangent
space, that of independent normals of scale σ times

    J(θ) = (sin θ₁/θ₁ · sin θ₂/θ₂)^(m−4) · sin(θ₁−θ₂)/(θ₁−θ₂) · sin(θ₁+θ₂)/(θ₁+θ₂) ≤ 1

where θ₁ < π/2, and 0 elsewhere. So normals are accepted with probability J. The basis
in which the plane is released is rotated uniformly, because the basis of the footpoint
may depend on the data.
"""

from typing import NamedTuple

import numpy as np
from flint import arb

from curvedp.geometry import Grassmann
from curvedp.geometry.manifold import Manifold
from curvedp.laws.grassmann import acceptance_without_envelope, rank_of
from curvedp.numerics.enclosures import arb_array, decide, first_precision, round_arb
from curvedp.randomness.csprng import Source
from curvedp.randomness.lazy_reals import LazyNormals, LazyUniforms, accepts

# Normals that make the uniform rotation of the released basis.
_ROTATION_NORMALS = 4

# At wider scales fewer normals are accepted, and nothing is drawn.
_SMALLEST_ACCEPTANCE = 1e-3


def has_exact_plane_sampler(manifold: Manifold) -> bool:
    """Return whether a manifold is Grassmann(m, 2) of rank two, where draws are exact.

    Parameters
    ----------
    manifold : Manifold
        Any manifold.

    Returns
    -------
    bool
        True for the planes of a space of four dimensions or more.
    """
    return (
        isinstance(manifold, Grassmann) and manifold.r == 2 and rank_of(manifold) == 2
    )


def plane_acceptance(manifold: Grassmann, sigma: float) -> float:
    """Return the probability that a tangent normal is accepted.

    Parameters
    ----------
    manifold : Grassmann
        The planes of an m-dimensional space.
    sigma : float
        The scale σ.

    Returns
    -------
    float
        A number between 0 and 1, from public numbers alone.
    """
    return acceptance_without_envelope(2, manifold.m - 2, sigma)


def needs_too_many_proposals(manifold: Grassmann, sigma: float) -> bool:
    """Return whether an exact draw at this scale would need too many proposals.

    Too many are more than about a thousand: then the draw is refused.

    Parameters
    ----------
    manifold : Grassmann
        The planes of an m-dimensional space.
    sigma : float
        The scale σ.

    Returns
    -------
    bool
        Whether a draw is refused.
    """
    return plane_acceptance(manifold, sigma) < _SMALLEST_ACCEPTANCE


def draw_plane(
    m: int, sigma: float, center: np.ndarray, source: Source, grid: int
) -> np.ndarray:
    """Return an exact draw of the Gaussian about a plane, rounded to the grid 2^-grid.

    A normal tangent vector at the center is proposed until one is accepted, with the
    probability J that corrects the density for the volume of the manifold
    (`_is_accepted`). The exponential map takes it to a plane. A plane has many
    orthonormal bases, and the one that the exponential map gives depends on the basis
    of the center. So a uniformly random one is released.

    Parameters
    ----------
    m : int
        The dimension of the space that holds the planes.
    sigma : float
        The scale σ.
    center : array of shape (m, 2)
        A basis of the footpoint; its entries are taken as exact numbers.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    array of Python ints, shape (m, 2)
        An orthonormal basis of the drawn plane, rotated uniformly, in units of 2^-grid.
    """
    # Propose tangent vectors until one is accepted.
    while True:
        normals = LazyNormals(source, 2 * m)
        if _is_accepted(center, normals, sigma, LazyUniforms(source, 1)):
            break
    rotation = LazyNormals(source, _ROTATION_NORMALS)

    def round_at(precision: int) -> np.ndarray | None:
        """Return the integers of the basis; None if one is not certain yet."""
        # The plane. The exponential map divides by the difference of the two angles.
        tangent = _tangent(center, normals, sigma, precision)
        angles = _principal_angles(tangent.gram)
        if not angles.are_distinct:
            return None
        basis = _exponential(tangent, angles)

        # Orthonormalizing a 2×2 matrix of normals gives a uniform orthogonal matrix.
        normal_matrix = rotation.balls(precision).reshape(2, 2)
        rotated_basis = basis @ _orthonormal_columns(normal_matrix)
        integers = [round_arb(entry, grid) for entry in rotated_basis.ravel()]
        if any(integer is None for integer in integers):
            return None
        return np.array(integers, dtype=object).reshape(m, 2)

    return decide(round_at, first_precision(grid))


class _Tangent(NamedTuple):
    """A tangent vector of the Grassmann manifold, in balls.

    Attributes
    ----------
    basis : array of balls, shape (m, 2)
        P, an orthonormal basis of the plane at which the vector is tangent.
    vector : array of balls, shape (m, 2)
        H, the tangent vector; its columns are orthogonal to those of P.
    gram : array of balls, shape (2, 2)
        A = HᵀH, whose eigenvalues are the squares of the principal angles.
    """

    basis: np.ndarray
    vector: np.ndarray
    gram: np.ndarray


class _Angles(NamedTuple):
    """The two principal angles, in balls.

    Attributes
    ----------
    first, second : arb
        θ₁ ≥ θ₂, the roots of the eigenvalues of A.
    first_square, second_square : arb
        The eigenvalues of A.
    are_distinct : bool
        Whether θ₁ > θ₂ > 0 is certain. With probability one it becomes certain if the
        precision grows.
    """

    first: arb
    second: arb
    first_square: arb
    second_square: arb
    are_distinct: bool


def _tangent(
    center: np.ndarray, normals: LazyNormals, sigma: float, precision: int
) -> _Tangent:
    """Return a random tangent vector H at a plane: normal noise orthogonal to it.

    This is one proposal of `draw_plane`, computed to the given precision.

    H is σ times an m×2 matrix of standard normals, minus its projection on the plane.

    Parameters
    ----------
    center : array of shape (m, 2)
        A basis of the plane.
    normals : LazyNormals
        2m standard normals.
    sigma : float
        The scale σ.
    precision : int
        How many bits of the normals are used.

    Returns
    -------
    _Tangent
        The orthonormal basis P, the tangent vector H, and A = HᵀH.
    """
    # P, the noise, and its part orthogonal to P.
    basis = _orthonormal_columns(arb_array(center))
    noise = normals.balls(precision).reshape(center.shape) * arb(sigma)
    vector = noise - basis @ (basis.T @ noise)
    return _Tangent(basis, vector, vector.T @ vector)


def _orthonormal_columns(columns: np.ndarray) -> np.ndarray:
    """Make the two columns of a matrix orthonormal by the Gram–Schmidt process.

    Used to orthonormalize the basis of the footpoint, and to make a random rotation
    from normal numbers.

    Parameters
    ----------
    columns : array of balls, shape (m, 2)
        Two linearly independent columns.

    Returns
    -------
    array of balls, shape (m, 2)
        An orthonormal basis of their span.
    """
    first = columns[:, 0] / columns[:, 0].dot(columns[:, 0]).sqrt()
    second = columns[:, 1] - first * first.dot(columns[:, 1])
    return np.stack([first, second / second.dot(second).sqrt()], axis=1)


def _principal_angles(gram: np.ndarray) -> _Angles:
    """Return the principal angles: the roots of the eigenvalues of A = HᵀH.

    The eigenvalues are (a + c)/2 ± √(((a − c)/2)² + b²) for A = [[a, b], [b, c]]. The
    smaller one is the determinant divided by the larger one, which keeps its digits.

    Parameters
    ----------
    gram : array of balls, shape (2, 2)
        The symmetric matrix A.

    Returns
    -------
    _Angles
        The angles θ₁ ≥ θ₂, with their squares.
    """
    a, b, c = gram[0, 0], gram[0, 1], gram[1, 1]
    half_difference = (a - c) / 2
    root = (half_difference * half_difference + b * b).sqrt()

    # Compute the larger eigenvalue, and the smaller one from the determinant.
    first_square = (a + c) / 2 + root
    second_square = (a * c - b * b) / first_square
    first, second = first_square.sqrt(), second_square.sqrt()
    are_distinct = bool(second > 0) and bool(first > second)
    return _Angles(first, second, first_square, second_square, are_distinct)


def _is_accepted(
    center: np.ndarray, normals: LazyNormals, sigma: float, uniform: LazyUniforms
) -> bool:
    """Decide with certainty whether a normal tangent vector is accepted.

    The Gaussian on the manifold has the density of the tangent normal times the
    Jacobian of the exponential map. With the principal angles θ₁ ≥ θ₂ of the tangent
    vector and sinc x = sin x/x, that Jacobian is

        J(θ) = sinc(θ₁ − θ₂)·sinc(θ₁ + θ₂)·(sinc θ₁·sinc θ₂)^{m−4} ≤ 1.

    So a proposal is accepted with probability J(θ). Beyond the cut locus, θ₁ ≥ π/2,
    where the exponential map would reach a plane a second time, it is rejected.

    Both decisions must be certain, and use the same normal numbers at every precision.

    Parameters
    ----------
    center : array of shape (m, 2)
        A basis of the footpoint.
    normals : LazyNormals
        2m standard normals.
    sigma : float
        The scale σ.
    uniform : LazyUniforms
        One uniform number u on (0, 1), whose digits are drawn as they are needed. The
        proposal is accepted if u < J(θ).

    Returns
    -------
    bool
        Whether the proposal is accepted.
    """
    exponent = len(center) - 4  # m − 4

    def angles_at(precision: int) -> _Angles:
        """Return the principal angles of the proposal, to a given precision."""
        return _principal_angles(_tangent(center, normals, sigma, precision).gram)

    def is_inside(precision: int) -> bool | None:
        """Return whether θ₁ < π/2; None if that is not certain yet."""
        excess = angles_at(precision).first - arb.pi() / 2
        if excess.contains(0) or not excess.is_finite():
            return None
        return bool(excess < 0)

    def log_acceptance(precision: int) -> arb:
        """Return an interval that contains log J(θ); NaN if θ₁ and θ₂ may be equal."""
        angles = angles_at(precision)
        if not angles.are_distinct:
            return arb("nan")
        jacobian = _sinc(angles.first - angles.second)
        jacobian *= _sinc(angles.first + angles.second)
        jacobian *= (_sinc(angles.first) * _sinc(angles.second)) ** exponent
        return jacobian.log()

    return decide(is_inside) and accepts(uniform, log_acceptance)


def _sinc(x: arb) -> arb:
    """Return sin x/x, as a ball, for a ball x that does not contain 0."""
    return x.sin() / x


def _exponential(tangent: _Tangent, angles: _Angles) -> np.ndarray:
    """Return exp_P(H) = P·cos(√A) + H·(sin(√A)/√A), in balls.

    It is the end of the geodesic from the plane with the basis P and the velocity H.

    Called by `draw_plane` for the accepted tangent vector.

    Parameters
    ----------
    tangent : _Tangent
        The basis P (`basis`), the tangent vector H (`vector`) and A = HᵀH (`gram`).
    angles : _Angles
        The distinct roots of the eigenvalues of A.

    Returns
    -------
    array of balls, shape (m, 2)
        An orthonormal basis of the drawn plane.
    """
    cosine = _function_of_gram(
        tangent.gram, angles, angles.first.cos(), angles.second.cos()
    )
    sinc = _function_of_gram(
        tangent.gram, angles, _sinc(angles.first), _sinc(angles.second)
    )
    return np.asarray(tangent.basis @ cosine + tangent.vector @ sinc)


def _function_of_gram(
    gram: np.ndarray, angles: _Angles, at_first: arb, at_second: arb
) -> np.ndarray:
    """Return f(A) from the values of f at the two eigenvalues λ₁ ≠ λ₂ of A.

    The result is f(A) = f(λ₂) + (f(λ₁) − f(λ₂))·(A − λ₂)/(λ₁ − λ₂), by Lagrange's
    interpolation.

    Parameters
    ----------
    gram : array of balls, shape (2, 2)
        The symmetric matrix A.
    angles : _Angles
        The roots of λ₁ and λ₂.
    at_first, at_second : arb
        f(λ₁) and f(λ₂).

    Returns
    -------
    array of balls, shape (2, 2)
        The matrix f(A).
    """
    identity = arb_array(np.eye(2))
    gap = angles.first_square - angles.second_square
    slope = (at_first - at_second) / gap
    return np.asarray(
        identity * at_second + (gram - identity * angles.second_square) * slope
    )
