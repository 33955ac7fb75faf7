"""Exact draws of noise for releases: the ideal continuous draw, rounded to a public
grid 2^−grid. The noise is a real number of which as many bits are drawn as needed. The
draw is enclosed in a *ball*, a midpoint with an error bound, and an integer is returned
only when the whole ball lies in one cell of the grid.

The float64 entries of the footpoint (the center of the noise) are taken as the exact
numbers they are. No float rounding touches the law, so no last bit can tell two
footpoints apart, as it can with floats (Mironov 2012). docs/theory/release-path.md has
the proof and the threat model.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import numpy as np
from flint import arb

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry import Manifold
from curvedp.geometry.capabilities import AffineInvariantCone, UnitQuadric
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.grassmann import Grassmann
from curvedp.geometry.spaces.product import join_factors, split_into_factors
from curvedp.laws.backend import Kind
from curvedp.laws.exact.charts import exact_chart
from curvedp.laws.exact.exponential import draw_in_chart
from curvedp.laws.exact.grassmann import (
    draw_plane,
    has_exact_plane_sampler,
    needs_too_many_proposals,
    plane_acceptance,
)
from curvedp.laws.exact.radial import ExactRadialDensity
from curvedp.laws.exact.spd import acceptance_probability, draw_spd
from curvedp.laws.isotropic.space import two_point_homogeneous_space
from curvedp.numerics.enclosures import (
    FILTER_GRID,
    FILTER_SIZE,
    arb_array,
    decide,
    first_precision,
    round_arb,
)
from curvedp.randomness.csprng import Allowance, Source, check_source
from curvedp.randomness.lazy_reals import LazyNormals

# The finest grid is 2^-200.
_MAX_GRID = 200

# Beyond these scales the slopes of envelopes leave float64. A hyperbolic radius is of
# the order of σ²d, and e^r has a limited range too.
_SMALLEST_SCALE = 1e-290
_LARGEST_SCALE = 1e290
_LARGEST_HYPERBOLIC_SCALE = 1e12

# Largest residual of a footpoint on manifolds where not every array is a point.
_LARGEST_RESIDUAL = 1e-6


@dataclass(frozen=True)
class ExactDraw:
    """A draw on the grid: integers·2^-grid is the ideal draw, rounded to the nearest.

    The integers are all that is released; `value` and `point` are functions of them.

    Parameters
    ----------
    integers : array of Python ints
        Ambient coordinates of a point, or coordinates of the tangent space at the
        origin (`is_released_in_flat_coordinates`), in units of 2^-grid.
    grid : int
        The grid is 2^-grid.
    tau : float
        A bound of the total variation between the law of `integers` and the ideal
        rounded law, with AES as an ideal cipher. It depends on the manifold and the law
        alone, not on what the draw happened to use.
    manifold : Manifold
        The manifold of the point.
    """

    integers: np.ndarray
    grid: int
    tau: float
    manifold: Manifold

    @property
    def value(self) -> np.ndarray:
        """integers·2^-grid as float64, each rounded once and correctly."""
        # Python divides integers with correct rounding.
        floats = [int(k) / (1 << self.grid) for k in self.integers.ravel()]
        return np.array(floats, dtype=np.float64).reshape(self.integers.shape)

    @property
    def point(self) -> Any:
        """A point of the manifold near the grid point (`point_from_grid`).

        It is computed in floats from the released integers, which is post-processing.
        """
        return point_from_grid(self.manifold, self.value)


@lru_cache(maxsize=256)
def grid_shape(manifold: Manifold) -> tuple[int, ...]:
    """Return the shape of `ExactDraw.integers` on a manifold.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.

    Returns
    -------
    tuple of int
        (dim,) if the draw is released in flat coordinates, and otherwise the shape of a
        point. On a product the integers of the factors are flattened and concatenated.
    """
    if len(manifold.factors) > 1:
        return (sum(math.prod(grid_shape(factor)) for factor in manifold.factors),)
    if is_released_in_flat_coordinates(manifold):
        return (manifold.dim,)
    return manifold.point_shape


def point_from_grid(manifold: Manifold, value: np.ndarray) -> Any:
    """Return the point of the manifold that belongs to grid coordinates.

    Coordinates that were rounded miss the manifold's equations a little; the point is
    their projection. Flat coordinates go through exp at the origin.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the draw.
    value : array of shape grid_shape(manifold)
        `ExactDraw.value`.

    Returns
    -------
    array of shape point_shape
        The point, in float64.
    """
    if len(manifold.factors) > 1:
        return _product_point_from_grid(manifold, value)
    if is_released_in_flat_coordinates(manifold):
        v = manifold.from_coordinates(manifold.origin, value)
        return manifold.exp(manifold.origin, v)
    return manifold.project(value)


def _product_point_from_grid(manifold: Manifold, value: np.ndarray) -> Any:
    """Return `point_from_grid` for a product, factor by factor.

    Called by `point_from_grid` when the manifold is a product.

    Parameters
    ----------
    manifold : Manifold
        A product.
    value : array of shape grid_shape(manifold)
        The coordinates of all factors, one after the other.

    Returns
    -------
    array of shape point_shape
        The point of the product, in float64.
    """
    # Cut the flat array into the coordinates of each factor.
    shapes = [grid_shape(factor) for factor in manifold.factors]
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    factor_values = np.split(value, ends)

    # The point of each factor, and the product of them.
    points = [
        point_from_grid(factor, factor_value.reshape(shape))
        for factor, factor_value, shape in zip(
            manifold.factors, factor_values, shapes, strict=True
        )
    ]
    return join_factors(manifold, points)


def has_exact_laplace(manifold: Manifold) -> bool:
    """Return whether `exact_laplace` can draw on a manifold.

    Called by mechanisms, which refuse other manifolds before any privacy budget is
    spent.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.

    Returns
    -------
    bool
        True on spaces with a chart for exact draws and on positive definite matrices.
    """
    space = two_point_homogeneous_space(manifold)
    if space is not None and exact_chart(manifold) is not None:
        return True
    return isinstance(manifold, AffineInvariantCone)


def has_exact_gaussian(manifold: Manifold) -> bool:
    """Return whether `exact_gaussian` can draw on a manifold.

    Called by mechanisms, which refuse other manifolds before any privacy budget is
    spent. On a product, every factor must have an exact Gaussian sampler. Other spaces
    have one if they are Euclidean or flat, if they have an exact Laplace sampler, or if
    their points are planes.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.

    Returns
    -------
    bool
        Whether there is a sampler at some scale.
    """
    if len(manifold.factors) > 1:
        return all(has_exact_gaussian(factor) for factor in manifold.factors)
    if isinstance(manifold, Euclidean) or is_released_in_flat_coordinates(manifold):
        return True
    return has_exact_laplace(manifold) or has_exact_plane_sampler(manifold)


def check_drawable_scale(manifold: Manifold, sigma: float) -> None:
    """Refuse a scale of the Gaussian at which an exact draw would take too many trials.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.
    sigma : float
        The scale of the Gaussian.

    Raises
    ------
    ParameterError
        If too few tangent normals are accepted, which happens on planes only.
    """
    for factor in manifold.factors:
        # Only planes have a largest scale.
        is_wide = (
            isinstance(factor, Grassmann)
            and has_exact_plane_sampler(factor)
            and needs_too_many_proposals(factor, sigma)
        )
        if is_wide:
            raise ParameterError(
                f"is too wide for an exact draw on {factor!r}; use the mechanism "
                "tangent-gaussian",
                parameter="sigma",
                value=sigma,
            )


@lru_cache(maxsize=256)
def is_released_in_flat_coordinates(manifold: Manifold) -> bool:
    """Return whether a draw is released in flat coordinates, and not in those of a point.

    This holds for a flat space that is not a product and whose points are not vectors,
    such as the positive definite matrices with a flat metric.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.

    Returns
    -------
    bool
        Whether `ExactDraw.integers` are flat coordinates.
    """
    if len(manifold.factors) > 1:
        return False
    if isinstance(manifold, Euclidean | AffineInvariantCone):
        return False
    if exact_chart(manifold) is not None:
        return False
    space = two_point_homogeneous_space(manifold)
    return space is not None and space.curvature == 0


def exact_draw(
    kind: Kind,
    manifold: Manifold,
    scale: float,
    center: Any,
    *,
    source: Source | None = None,
    grid: int = 30,
) -> ExactDraw:
    """Draw from a law about the center, rounded to the grid 2^-grid.

    Ambient coordinates are rounded. The sign of a line and the rotation of a shape are
    drawn uniformly. The flat SPD metrics are released in their flat coordinates at the
    identity. The law of `integers` is within `tau` of the exact rounded law at the
    exact footpoint: center/|center| on the sphere, the lift of the spatial part on
    Lorentz, the symmetric or Hermitian part of a matrix. `tau` is 2^-100 for up to 4096
    numbers, and grows with their number and with the trials that a draw of matrices is
    expected to take.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The Riemannian Gaussian or the Riemannian Laplace law (on Euclidean space the
        multivariate one of the norm).
    manifold : Manifold
        The manifold of the points.
    scale : float
        The scale σ > 0 of the law.
    center : array of shape point_shape
        The footpoint; its entries are taken as exact numbers.
    source : Source, optional
        The random bits; a new `SecureSource` by default.
    grid : int
        The number of bits after the binary point, between 1 and 200.

    Returns
    -------
    ExactDraw
        The integers in units of 2^-grid, with the slack `tau`.

    Raises
    ------
    NotIntegrable
        If a Laplace law does not exist at this scale; the message names the limit.
    ParameterError
        If an argument does not qualify or the manifold has no exact sampler.
    """
    # Check all arguments before anything is drawn.
    footpoint = _check_center(manifold, center)
    is_known_kind = isinstance(kind, str) and kind in get_args(Kind)
    if not is_known_kind:
        _validate.choice("kind", kind, get_args(Kind))
    scale = _check_scale(manifold, scale)
    _check_grid(grid)
    return _draw_with_valid_arguments(
        kind, manifold, scale, footpoint, check_source(source), grid
    )


def exact_gaussian(
    manifold: Manifold,
    scale: float,
    center: Any,
    *,
    source: Source | None = None,
    grid: int = 30,
) -> ExactDraw:
    """Draw from the Riemannian Gaussian about a center, rounded to the grid 2^-grid.

    The density is ∝ exp(−d²/2σ²), d the distance to the center. This is
    `exact_draw("gaussian", …)`.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    scale : float
        The scale σ > 0.
    center : array of shape point_shape
        The footpoint; its entries are taken as exact numbers.
    source : Source, optional
        The random bits; a new `SecureSource` by default.
    grid : int
        The number of bits after the binary point, between 1 and 200.

    Returns
    -------
    ExactDraw
        The integers in units of 2^-grid. Its `tau` bounds the total variation distance
        of their law from the ideal rounded law. It is 2^-100 for up to 4096 numbers.
    """
    return exact_draw("gaussian", manifold, scale, center, source=source, grid=grid)


def exact_laplace(
    manifold: Manifold,
    scale: float,
    center: Any,
    *,
    source: Source | None = None,
    grid: int = 30,
) -> ExactDraw:
    """Draw from the Riemannian Laplace law about a center, rounded to the grid 2^-grid.

    The density is ∝ exp(−d/σ), d the distance to the center. This is
    `exact_draw("laplace", …)`.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    scale : float
        The scale σ > 0.
    center : array of shape point_shape
        The footpoint; its entries are taken as exact numbers.
    source : Source, optional
        The random bits; a new `SecureSource` by default.
    grid : int
        The number of bits after the binary point, between 1 and 200.

    Returns
    -------
    ExactDraw
        The integers in units of 2^-grid. Its `tau` bounds the total variation distance
        of their law from the ideal rounded law. It is 2^-100 for up to 4096 numbers.

    Raises
    ------
    NotIntegrable
        If the law does not exist at this scale.
    """
    return exact_draw("laplace", manifold, scale, center, source=source, grid=grid)


def _draw_with_valid_arguments(
    kind: Kind,
    manifold: Manifold,
    scale: float,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> ExactDraw:
    """Draw from a law for arguments that `exact_draw` has checked.

    A Gaussian on a product is drawn factor by factor, because its parts are
    independent; the slacks `tau` of the factors add up.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    manifold : Manifold
        The space on which the noise lives.
    scale : float
        Its scale σ.
    center : array of shape point_shape
        The footpoint.
    source : Source
        The random bits; a draw that uses more than a public limit of them raises.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    ExactDraw
        The integers in units of 2^-grid, with their slack.
    """
    if len(manifold.factors) > 1 and kind == "gaussian":
        centers = split_into_factors(manifold, center)
        draws = [
            _draw_with_valid_arguments(kind, factor, scale, factor_center, source, grid)
            for factor, factor_center in zip(manifold.factors, centers, strict=True)
        ]
        integers = np.concatenate([draw.integers.ravel() for draw in draws])
        return ExactDraw(integers, grid, sum(draw.tau for draw in draws), manifold)

    # Count the random bytes, which must stay below a public limit.
    allowance = _allowance(kind, manifold, scale)
    metered_source = allowance.meter(source)
    integers = _draw_integers(kind, manifold, scale, center, metered_source, grid)
    return ExactDraw(integers, grid, allowance.tau(), manifold)


def draw_slack(kind: Kind, manifold: Manifold, scale: float) -> float:
    """Return the slack `tau` of every exact draw of a law, before anything is drawn.

    It bounds the total variation between the released integers and the ideal rounded
    draw, and increases δ of a release by (1 + e^ε)·tau. It depends on public numbers
    alone.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    manifold : Manifold
        A space on which it can be drawn.
    scale : float
        Its scale σ.

    Returns
    -------
    float
        `ExactDraw.tau`.
    """
    factors = manifold.factors if kind == "gaussian" else (manifold,)
    return sum(_allowance(kind, factor, scale).tau() for factor in factors)


def _allowance(kind: Kind, manifold: Manifold, scale: float) -> Allowance:
    """Return the public limit on the random bytes of a draw on one space.

    A draw by rejection takes a random number of proposals. The limit is so far above
    the expected number that it is exceeded with probability below the slack `tau`.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    manifold : Manifold
        A space, no product of several factors.
    scale : float
        Its scale σ.

    Returns
    -------
    Allowance
        It meters a source and knows the slack.
    """
    acceptance = 1.0
    if isinstance(manifold, AffineInvariantCone):
        m, beta = manifold.cone_size
        acceptance = acceptance_probability(kind, m, beta, scale)
    elif isinstance(manifold, Grassmann) and has_exact_plane_sampler(manifold):
        check_drawable_scale(manifold, scale)
        acceptance = plane_acceptance(manifold, scale)
    return Allowance(math.prod(manifold.point_shape), acceptance)


def _draw_integers(
    kind: Kind,
    manifold: Manifold,
    scale: float,
    center: np.ndarray,
    source: Source,
    grid: int,
) -> np.ndarray:
    """Return the integers of an exact draw, by the sampler for this kind of manifold.

    Called by `exact_draw` after the arguments were checked and the random bytes were
    limited.

    Parameters
    ----------
    kind : {"gaussian", "laplace"}
        The law.
    manifold : Manifold
        The space on which the noise lives.
    scale : float
        Its scale σ.
    center : array of shape point_shape
        The footpoint.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    array of Python ints, shape grid_shape(manifold)
        The coordinates in units of 2^-grid.

    Raises
    ------
    ParameterError
        If the manifold has no exact sampler of this kind.
    """
    # A Gaussian on Euclidean space has independent normal coordinates. Its Laplace law
    # is drawn by radius and direction, like both laws on the other spaces where all
    # directions are alike (two-point homogeneous spaces).
    if kind == "gaussian" and isinstance(manifold, Euclidean):
        return _draw_flat_gaussian(center, scale, source, grid)
    space = two_point_homogeneous_space(manifold)
    chart = exact_chart(manifold)
    if space is not None and chart is not None:
        density = ExactRadialDensity(kind, space, scale)
        return draw_in_chart(density, chart, center, source, grid)

    # On positive definite matrices and on planes the density depends on more than the
    # radius. Each has a rejection sampler of its own.
    if isinstance(manifold, AffineInvariantCone):
        m, beta = manifold.cone_size
        return draw_spd(kind, m, beta, scale, center, source, grid)
    if kind == "gaussian" and has_exact_plane_sampler(manifold):
        return draw_plane(center.shape[0], scale, center, source, grid)

    # On the other flat spaces, normal coordinates at the origin preserve distances.
    if kind == "gaussian" and is_released_in_flat_coordinates(manifold):
        coordinates = manifold.normal_coordinates(manifold.origin, center)
        return _draw_flat_gaussian(np.asarray(coordinates), scale, source, grid)

    raise ParameterError(
        f"has no exact {kind} sampler; use the mechanism tangent-gaussian",
        parameter="manifold",
        value=manifold,
    )


def _draw_flat_gaussian(
    center: np.ndarray, sigma: float, source: Source, grid: int
) -> np.ndarray:
    """Return a Gaussian with independent coordinates, rounded to the grid.

    Many coordinates are computed together in float64, with proved error bounds. If the
    nearest multiple of 2^-grid is not certain for a coordinate, it is computed in Arb,
    with more and more bits.

    Parameters
    ----------
    center : array of shape (n,)
        The mean, taken as exact numbers.
    sigma : float
        The standard deviation.
    source : Source
        The random bits.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    array of Python ints, shape (n,)
        The coordinates in units of 2^-grid.
    """
    normals = LazyNormals(source, center.size)
    integers = np.zeros(center.size, dtype=object)
    undecided = np.arange(center.size)

    # All coordinates together, in floats.
    if center.size >= FILTER_SIZE and grid <= FILTER_GRID:
        with np.errstate(all="ignore"):
            coordinates = normals.floats() * sigma + center
            rounded, is_certain = coordinates.round(grid)
        integers[is_certain] = [int(k) for k in rounded[is_certain]]
        undecided = np.flatnonzero(~is_certain)

    # Those that are not certain, one by one.
    for i in undecided.tolist():
        integers[i] = _round_coordinate(normals, i, sigma, float(center[i]), grid)
    return integers


def _round_coordinate(
    normals: LazyNormals, i: int, sigma: float, mean: float, grid: int
) -> int:
    """Return mean + sigma·(normal i), rounded to the grid 2^-grid, with certainty.

    More bits of the normal are drawn until the rounded value is certain.

    Called for each coordinate whose rounding float64 does not decide.

    Parameters
    ----------
    normals : LazyNormals
        The standard normals of all coordinates.
    i : int
        The index of the coordinate, and of its normal.
    sigma, mean : float
        The standard deviation and the mean of the coordinate. The floats are taken as
        exact real numbers.
    grid : int
        The grid is 2^-grid.

    Returns
    -------
    int
        The nearest integer to 2^grid times the coordinate.
    """

    def round_at(precision: int) -> int | None:
        """Return the rounded coordinate; None if it is not certain yet."""
        noise = arb(sigma) * normals.ball(i, precision)
        return round_arb(arb(mean) + noise, grid)

    return decide(round_at, first_precision(grid))


def _check_scale(manifold: Manifold, scale: float) -> float:
    """Return the scale of the law; raise if float64 slopes of envelopes could overflow.

    Called by `exact_draw` before anything is drawn.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.
    scale : float
        The scale σ, as the caller passes it.

    Returns
    -------
    float
        The scale.
    """
    is_unbounded = manifold.float_set.max_distance == math.inf
    largest_scale = _LARGEST_SCALE if is_unbounded else _LARGEST_HYPERBOLIC_SCALE
    return _validate.within("scale", scale, _SMALLEST_SCALE, largest_scale)


def _check_grid(grid: int) -> None:
    """Raise unless `grid` is an integer from 1 to 200.

    Called by `exact_draw` before anything is drawn.

    Parameters
    ----------
    grid : int
        The number of bits after the binary point.
    """
    is_valid_int = type(grid) is int and 1 <= grid <= _MAX_GRID
    if not is_valid_int and _validate.integer("grid", grid, 1) > _MAX_GRID:
        raise ParameterError(
            f"must be at most {_MAX_GRID}", parameter="grid", value=grid
        )


def _check_center(manifold: Manifold, center: Any) -> np.ndarray:
    """Return the footpoint as a float64 array; raise if it is no point of the manifold.

    Called by `exact_draw` before anything is drawn.

    Parameters
    ----------
    manifold : Manifold
        The space on which the noise lives.
    center : array-like of shape point_shape
        The center of the noise, as the caller passes it.

    Returns
    -------
    array of shape point_shape
        The footpoint.

    Raises
    ------
    ParameterError
        If it has another shape, is not finite, or is no point.
    """
    if not isinstance(manifold, Manifold):
        raise ParameterError("must be a manifold", parameter="manifold", value=manifold)

    footpoint = _validate.array("center", center)
    if footpoint.shape != manifold.point_shape:
        raise ParameterError(
            f"center has shape {footpoint.shape}; "
            f"it must have shape {manifold.point_shape}"
        )
    if not np.all(np.isfinite(footpoint)):
        raise ParameterError("center must be finite")
    _check_on_manifold(manifold, footpoint)
    return footpoint


def _check_on_manifold(manifold: Manifold, center: np.ndarray) -> None:
    """Raise if a finite array of the right shape does not determine a footpoint.

    A footpoint is the center of an exact draw. What is checked depends on the manifold:

    - A product: every factor.
    - A sphere or hyperboloid (a quadric): the array is scaled or lifted onto it, which
      is possible except for 0 on a sphere.
    - The Poincaré ball: the norm is compared with 1, exactly.
    - Positive definite matrices: nothing, since they are checked when factored.
    - Any other manifold: the array must satisfy its equations to rounding error.

    Parameters
    ----------
    manifold : Manifold
        The space.
    center : array
        The footpoint, finite and of the right shape.
    """
    if len(manifold.factors) > 1:
        centers = split_into_factors(manifold, center)
        for factor, factor_center in zip(manifold.factors, centers, strict=True):
            _check_on_manifold(factor, factor_center)
        return

    if isinstance(manifold, UnitQuadric):
        is_sphere = manifold.embedding_signature[0] > 0
        if is_sphere and not np.any(center):
            raise ParameterError("center must not be 0 on a sphere")
        return

    # Of the other spaces of negative curvature, the Poincaré ball has vectors as points
    # and the positive definite cone has matrices.
    has_negative_curvature = manifold.curvature_bounds[0] < 0
    if has_negative_curvature and center.ndim == 1:
        if not _is_in_open_unit_ball(center):
            raise ParameterError("center must lie inside the unit ball")
        return

    is_point = has_negative_curvature or manifold.residual(center) <= _LARGEST_RESIDUAL
    if not is_point:
        raise ParameterError(f"center must be a point of {manifold!r}")


def _is_in_open_unit_ball(vector: np.ndarray) -> bool:
    """Return whether |vector| < 1, decided with certainty.

    Parameters
    ----------
    vector : array of shape (d,)
        The entries are taken as exact numbers.

    Returns
    -------
    bool
        Whether the vector is a point of the Poincaré ball.
    """
    entries = arb_array(vector)
    sign_of_excess = decide(lambda precision: _certain_sign(entries.dot(entries) - 1))
    return sign_of_excess < 0


def _certain_sign(x: arb) -> int | None:
    """Return the sign of a ball, or None if the ball does not determine it.

    Called with more and more bits until the sign is certain.

    Parameters
    ----------
    x : arb
        An interval of real numbers (midpoint and radius).

    Returns
    -------
    int or None
        −1, 0 or 1, or None.
    """
    if x.is_exact() and x == 0:
        return 0
    if x.contains(0):
        return None
    return 1 if x > 0 else -1
