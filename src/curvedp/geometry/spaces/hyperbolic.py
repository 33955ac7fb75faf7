"""Hyperbolic space H^d of curvature −1: the formulas that its two models share. The
models are the hyperboloid and the ball. On the hyperboloid a point has a time
coordinate, the hyperbolic cosine of its distance from the origin, and a spatial part, a
vector x of R^d whose length is the hyperbolic sine.

Far from the origin, at distance a, a displacement of unit length changes the ambient
coordinates by cosh a in the radial direction and by 1 in tangential ones. So the
formulas here split a vector at a point into its part along x and the part orthogonal to
x (`elementary.orthogonal_part` keeps the digits of the latter), and add terms of one
sign. Near the origin polar coordinates are singular and would spoil gradients. There the
plain formulas are well conditioned and are used instead.
"""

import math
from collections.abc import Callable
from functools import cached_property, partial, wraps
from typing import Any, ClassVar

import numpy as np
from array_api_compat import is_numpy_array

from curvedp.geometry.capabilities import OriginIsometry
from curvedp.geometry.float_set import BallFloatSet, FloatSet
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.euclidean import VectorManifold
from curvedp.numerics import elementary
from curvedp.numerics.arrays import namespace
from curvedp.numerics.constant_work import in_public_time
from curvedp.numerics.elementary import cosh_sinhc, euclidean_norm, safe_sqrt
from curvedp.numerics.threads import blocks

# How many numbers of one array are worked on together.
_BLOCK_NUMBERS = 1 << 15

# Points up to this distance from the origin are well represented: e^15 units of round-off
# are 4e-10.
_SAFE_RADIUS = 15.0


class Hyperbolic(VectorManifold, OriginIsometry):
    """Hyperbolic space of curvature −1, the base class of its two models.

    Attributes
    ----------
    max_representable_distance : float
        Distance from the origin beyond which a model's coordinates overflow, or no
        longer tell points apart.
    """

    injectivity_radius = math.inf
    max_representable_distance: ClassVar[float]

    @property
    def curvature_bounds(self) -> tuple[float, float]:
        """The curvature −1 as lower and upper bound; 0 on the line H¹, without planes."""
        return (-1.0, -1.0) if self.d > 1 else (0.0, 0.0)

    @cached_property
    def float_set(self) -> FloatSet:
        """The set of well-represented points: the ball of radius 15 about the origin."""
        return BallFloatSet(
            max_distance=self.max_representable_distance,
            amplification=_roundoff_amplification,
            ball_radius=_SAFE_RADIUS,
        )

    def inner(self, p: Array, u: Array, v: Array) -> Array:
        """Return the Riemannian inner product of u and v, tangent vectors at p.

        It is the dot product of their orthonormal coordinates.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        u, v : arrays of shape (..., *point_shape)
            Tangent vectors at p.

        Returns
        -------
        array of shape (...)
            The inner products.
        """
        u_coordinates = self.to_coordinates(p, u)
        v_coordinates = self.to_coordinates(p, v)
        return namespace(p, u, v).vecdot(u_coordinates, v_coordinates)

    def norm(self, p: Array, v: Array) -> Array:
        """Return the Riemannian length of v at p: that of its orthonormal coordinates."""
        return euclidean_norm(namespace(p, v), self.to_coordinates(p, v))

    def from_record(self, x: Array) -> Array:
        """Return the point that a record x stands for: `project(x)`.

        In both models every finite record has a nearest point.
        """
        return self.project(x)


def _roundoff_amplification(radius: float) -> float:
    """Return how far a point moves, at most, per unit of relative coordinate error.

    At distance r from the origin, coordinates are about e^r times larger than the
    displacements that they describe, so their rounding moves a point by e^r units. It
    changes vectors of length at most 2r there, which are summed for a mean, by 2r·e^r
    (`tests/mechanisms/test_solver_error.py` finds about 2e^r units of round-off a
    step).

    Parameters
    ----------
    radius : float
        The largest distance from the origin; points beyond 15 are not used.

    Returns
    -------
    float
        (1 + 2r)·e^r at r = min(radius, 15).
    """
    r = min(radius, _SAFE_RADIUS)
    return (1 + 2 * r) * math.exp(r)


def in_cache_blocks(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate a method so that large NumPy batches are computed block by block.

    The kernels of hyperbolic spaces consist of some hundred small steps. For ten
    thousand records at once, most of the time would be spent on writing intermediate
    results to memory. Those of a block stay in the processor's cache.

    Parameters
    ----------
    kernel : callable
        A method of a manifold whose arguments are arrays of vectors, with coordinates
        along the last axis, and which broadcasts over the other axes.

    Returns
    -------
    callable
        The decorated method. A result does not depend on the other vectors of the
        batch.
    """

    @wraps(kernel)
    def blocked_kernel(self: Any, *arrays: Array) -> Array:
        """Call the kernel for blocks of vectors, and concatenate the results.

        Arrays of other libraries, a single vector and a batch that fits into one
        block go to the kernel directly.
        """
        if not all(map(is_numpy_array, arrays)):
            return kernel(self, *arrays)
        batch_shape = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
        n_records = math.prod(batch_shape)
        block_size = max(2, _BLOCK_NUMBERS // arrays[0].shape[-1])
        is_one_block = n_records <= block_size and n_records != 1
        if not batch_shape or is_one_block:
            return kernel(self, *arrays)

        flat_arrays = [_flatten_batch(array, batch_shape) for array in arrays]
        results = [
            _call_on_block(partial(kernel, self), flat_arrays, block)
            for block in blocks(n_records, block_size)
        ]
        return np.concatenate(results).reshape(*batch_shape, *results[0].shape[1:])

    return blocked_kernel


def _call_on_block(
    kernel: Callable[..., Array], flat_arrays: list[np.ndarray], block: slice
) -> np.ndarray:
    """Return the results of a kernel for one block of a batch of vectors.

    `in_cache_blocks` calls it for each block.

    Parameters
    ----------
    kernel : callable
        A function of arrays of vectors.
    flat_arrays : list of arrays of shape (n, k) or (k,)
        Its arguments. A single vector is an argument for all blocks.
    block : slice
        The rows to compute.

    Returns
    -------
    array
        One result for each row of the block.
    """
    # For a single record `elementary.dot` adds in another order than for a batch, and
    # the last digits would differ. So the record is taken twice.
    n_in_block = block.stop - block.start
    rows: Any = block if n_in_block > 1 else [block.start, block.start]
    arguments = [array if array.ndim == 1 else array[rows] for array in flat_arrays]
    return np.asarray(kernel(*arguments)[:n_in_block])


def _flatten_batch(array: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """Broadcast an array of vectors to a batch shape with its axes merged into one.

    A block is then a slice of the first axis.

    Parameters
    ----------
    array : array of shape (..., d)
        Vectors.
    batch : tuple of int
        The shape to which all axes but the last are broadcast.

    Returns
    -------
    array of shape (n, d)
        The vectors, n the product of `batch`. A single vector is returned as it is.
    """
    if array.ndim == 1:
        return array
    broadcast = np.broadcast_to(array, (*batch, array.shape[-1]))
    return broadcast.reshape(math.prod(batch), -1)


def dot(xp: Any, u: Array, v: Array) -> Array:
    """Return the dot product Σ uᵢvᵢ of vectors, with a last axis of length 1.

    The axis is kept so that the product can multiply vectors.

    Parameters
    ----------
    xp : module
        The array library.
    u, v : arrays of shape (..., d)
        Vectors.

    Returns
    -------
    array of shape (..., 1)
        The products.
    """
    return elementary.dot(xp, u, v)[..., None]


def hypot_one(xp: Any, x: Array) -> Array:
    """Return √(1 + x²) without overflow, by a function that is smooth at 0.

    The `hypot` of array libraries takes ten times as long.

    Parameters
    ----------
    xp : module
        The array library of x.
    x : array
        Any numbers.

    Returns
    -------
    array
        √(1 + x²), of the same shape.
    """
    modulus = xp.abs(x)
    is_large = modulus > 1
    # For |x| > 1 it is |x|·√(1 + 1/x²).
    ratio = xp.where(is_large, 1 / xp.where(is_large, modulus, 1.0), x)
    root = xp.sqrt(1 + ratio * ratio)
    return xp.where(is_large, modulus * root, root)


def lift(xp: Any, x: Array) -> tuple[Array, Array]:
    """Return the time coordinate of the hyperboloid's point with spatial part x.

    Parameters
    ----------
    xp : module
        The array library.
    x : array of shape (..., d)
        Spatial parts of points.

    Returns
    -------
    time : array of shape (..., 1)
        √(1 + |x|²).
    length : array of shape (..., 1)
        |x|.
    """
    length = euclidean_norm(xp, x)[..., None]
    return hypot_one(xp, length), length


def apply_where(
    xp: Any, condition: Array, near: Callable[[], Array], far: Callable[[], Array]
) -> Array:
    """Return near() where the condition holds and far() elsewhere.

    For NumPy arrays a function that no entry needs is not called, except inside
    `public_time`, where the work must not depend on the data.

    Parameters
    ----------
    xp : module
        The array library.
    condition : array of bool, shape (..., 1)
        True for the entries that `near` computes.
    near, far : callables
        Functions without arguments that return the values of all entries.

    Returns
    -------
    array
        The chosen values.
    """
    if is_numpy_array(condition) and not in_public_time():
        all_alike = np.all(condition) == np.any(condition)
        if all_alike:
            return near() if np.all(condition) else far()
    return xp.where(condition, near(), far())


def polar_exp(
    xp: Any, x: Array, time: Array, length: Array, radial: Array, tangential: Array
) -> Array:
    """Return the end of a geodesic on the hyperboloid that starts far from the origin.

    Let x be the spatial part of the start and a its distance from the origin. Let n be
    the length of the velocity and ψ its angle to the radial direction. The component of
    the end point along x is sinh a·cosh n + cosh a·sinh n·cos ψ. For velocities toward
    the origin the two terms cancel. Then the equal expression sinh(a − n) +
    cosh a·sinh n·(1 + cos ψ) is used, with n(1 + cos ψ) = |tangential|²/(n − radial).

    Parameters
    ----------
    xp : module
        The array library.
    x, time, length : arrays of shapes (..., d), (..., 1) and (..., 1)
        Spatial part of the start, its time coordinate cosh a, and |x| = sinh a.
    radial : array, shape (..., 1)
        Component of the velocity along the radial unit vector.
    tangential : array, shape (..., d)
        The spatial part of the velocity orthogonal to x.

    Returns
    -------
    array, shape (..., d)
        The spatial part of the end point.
    """
    tangential_square = dot(xp, tangential, tangential)
    squared_speed = radial * radial + tangential_square  # n²
    cosh, sinhc = cosh_sinhc(xp, squared_speed)  # cosh n and sinh(n)/n

    # The component along x, by the first expression and by the second one.
    outward = cosh * length + sinhc * radial * time
    goes_inward = radial < -1
    speed = safe_sqrt(xp, xp.where(goes_inward, squared_speed, 1.0))  # n
    speed_minus_radial = speed - xp.where(goes_inward, radial, -1.0)
    sideways = sinhc * time * tangential_square / speed_minus_radial
    inward = xp.sinh(xp.asinh(length) - speed) + sideways

    along_x = xp.where(goes_inward, inward, outward)
    return along_x / xp.where(length == 0, 1.0, length) * x + sinhc * tangential


def rotate_by_holonomy(
    xp: Any, w: Array, u: Array, one_minus_inner: Array, z: Array
) -> Array:
    """Return the coordinates of a vector after parallel transport from w to y.

    Coordinates at a point refer to the frame that is transported in parallel from the
    origin to that point. In these frames the transport from w to y is a rotation in the
    plane of w and y, the holonomy of the geodesic triangle of the origin, w and y. The
    angle of the rotation is the area A of the triangle, with tan(A/2) =
    |w∧y|/(1 − ⟨w,y⟩) for vectors of the ball model (Ungar 2008, gyr[y, −w]). The
    rotation is computed by its Cayley transform, which needs no angle and is smooth if
    w and y are parallel.

    Parameters
    ----------
    xp : module
        The array library.
    w : array, shape (..., d)
        The first point, in the ball model.
    u : array, shape (..., d)
        The part of the second point y orthogonal to w.
    one_minus_inner : array, shape (..., 1)
        1 − ⟨w, y⟩.
    z : array, shape (..., d)
        Coordinates of a tangent vector at w.

    Returns
    -------
    array, shape (..., d)
        The coordinates of the transported vector at y.
    """
    w_square = dot(xp, w, w)
    u_square = dot(xp, u, u)
    w_part = dot(xp, w, z)
    u_part = dot(xp, u, z)

    # The rotation minus the identity, applied to z: terms of first and second order in
    # the skew matrix wuᵀ − uwᵀ.
    squared_denominator = w_square * u_square + one_minus_inner * one_minus_inner
    scale = 2 / squared_denominator
    first_order = u_part * w - w_part * u
    second_order = u_square * w_part * w + w_square * u_part * u
    return z + scale * (one_minus_inner * first_order - second_order)
