"""Noise laws: distributions of points on a manifold about a center, the footpoint, with
a scale. A law draws points (`sample`), evaluates its density (`log_prob`), and knows
the distribution of the distance from the center (`radial_cdf`). The functions here
check the arguments of these methods.

`sample` and `radial_cdf` share no code, so that one goodness-of-fit test serves every
law. Sampling here is for simulation and optimization, in float64 from a NumPy
generator. A value that is released is drawn by `curvedp.laws.exact` instead.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.laws.backend import Floats, LawBackend

Size = int | Sequence[int] | None
"""The shape of a sample; None means one draw for each center."""

# Floats in one block of draws: a few temporaries of this size fit the second-level
# cache.
_BLOCK_ENTRIES = 1 << 15


@dataclass(frozen=True)
class Law(ABC):
    """A distribution on a manifold about a footpoint, with one scale.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    scale : float
        The scale parameter, positive and finite.
    """

    manifold: Manifold
    scale: float

    def __post_init__(self) -> None:
        """Check that the manifold is one and that the scale is positive and finite."""
        if not isinstance(self.manifold, Manifold):
            raise ParameterError(
                "must be a curvedp manifold", parameter="manifold", value=self.manifold
            )
        # Calibration makes many laws, so a plain float takes the short way.
        is_valid_float = type(self.scale) is float and 0 < self.scale < math.inf
        if not is_valid_float:
            object.__setattr__(self, "scale", _validate.positive("scale", self.scale))

    @abstractmethod
    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Return independent draws about `center`.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness; nothing is drawn from global state.
        center : array
            One point, or points whose leading axes broadcast to `size`.
        size : int or sequence of int, optional
            The shape of the draws; by default one draw for each center.

        Returns
        -------
        array of shape (*size, *point_shape)
            The draws, in float64: for simulation, not for release.
        """

    @abstractmethod
    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Return the log-density at x with respect to the Riemannian volume.

        The leading axes of `x` and `center` broadcast.

        Parameters
        ----------
        x : array, shape (..., *point_shape)
            Points of the manifold.
        center : array, shape (..., *point_shape)
            The centers of the law; they broadcast with `x`.

        Returns
        -------
        array
            One log-density for each pair of a point and a center.
        """

    @abstractmethod
    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return the probability that a draw is at most a distance r from its center.

        It is computed by quadrature or in closed form, independently of `sample`.

        Parameters
        ----------
        r : array_like
            Distances.

        Returns
        -------
        array
            P(distance ≤ r), of the shape of `r`.
        """


@dataclass(frozen=True)
class IsotropicLaw(Law):
    """A law on a homogeneous manifold whose density depends on the distance alone.

    Constructing it raises where the law does not exist or has no exact sampler.
    """

    def __post_init__(self) -> None:
        """Check the fields, and refuse a manifold or a scale that has no such law."""
        super().__post_init__()
        # Building the backend refuses manifolds and scales that have no law.
        _ = self._backend

    @property
    @abstractmethod
    def _backend(self) -> LawBackend:
        """The `LawBackend` with the sampler and the integrals of this law.

        Raises
        ------
        ParameterError
            If no exact sampler is known on the manifold, or the law does not exist.
        """

    @abstractmethod
    def _log_weight(self, distance: Floats) -> Floats:
        """Return the log-density at distances from the center, up to the normalizer.

        Called by `log_prob`, which subtracts the logarithm of the normalizer.

        Parameters
        ----------
        distance : array
            Distances d ≥ 0.

        Returns
        -------
        array
            −d²/2σ² or −d/σ, σ the scale, of the same shape.
        """

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Return independent draws about `center`, in blocks that fit the cache.

        Parameters
        ----------
        rng : numpy.random.Generator
            The only source of randomness.
        center : array, shape (..., *point_shape)
            One center, or one for each draw.
        size : int or tuple of int, optional
            The shape of the draws; by default that of the centers.

        Returns
        -------
        array, shape (*size, *point_shape)
            The draws, in float64: for simulation, not for release.
        """
        check_rng(rng)
        backend = self._backend
        backend.check_representable()

        point_shape = self.manifold.point_shape
        points, shape = check_center_and_size(size, center, point_shape)
        n_draws = math.prod(shape)
        draws = np.empty((n_draws, *point_shape))
        for block in sample_blocks(points, shape, point_shape, self.manifold.dim):
            count = block.rows.stop - block.rows.start
            draws[block.rows] = backend.draw(rng, block.centers, count)
        return draws.reshape(shape + point_shape)

    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Return the log-density at x with respect to the Riemannian volume.

        It is log weight(d(x, center)) − log Z, Z the normalizer.

        Parameters
        ----------
        x : array, shape (..., *point_shape)
            Points.
        center : array, shape (..., *point_shape)
            The centers of the law; leading axes broadcast with those of `x`.

        Returns
        -------
        array
            One log-density for each pair of a point and a center.
        """
        shape = self.manifold.point_shape
        center_points = check_points("center", center, shape)
        x_points = check_points("x", x, shape)
        distance = np.asarray(self.manifold.dist(center_points, x_points))
        return self._log_weight(distance) - self.log_normalizer

    @property
    def log_normalizer(self) -> float:
        """log Z = log ∫ weight(d(x, p)) dvol(x), the same at every footpoint p.

        The density of the law is weight(d(x, p))/Z.
        """
        return self._backend.log_normalizer

    def radial_cdf(self, r: ArrayLike) -> Floats:
        """Return P(d ≤ r) elementwise, d the distance of a draw to its center.

        Parameters
        ----------
        r : array_like
            Distances from the center; NaN is refused.

        Returns
        -------
        array
            P(d ≤ r), of the shape of `r`.
        """
        return self._backend.radial_cdf(check_radii(r))

    def certified_delta(self, sensitivity: float, eps: float) -> tuple[float, float]:
        """Return rigorous lower and upper bounds on δ(ε) of one draw.

        They are computed in ball arithmetic, on spaces of constant curvature and on
        real projective spaces.

        δ(ε) is the largest P(S) − e^ε·Q(S) over all sets S, for the laws P and Q about
        two footpoints as far apart as the sensitivity: a draw is (ε, δ(ε))-private.

        Parameters
        ----------
        sensitivity : float
            How far the footpoint can move between neighboring data sets.
        eps : float
            The ε at which δ is bounded.

        Returns
        -------
        lower, upper : float
            Bounds with lower <= δ(ε) <= upper.

        Raises
        ------
        ParameterError
            On other manifolds.
        """
        bounds = self._backend.certified_delta(sensitivity, eps)
        if bounds is None:
            raise ParameterError(
                f"no certified profile is known on {self.manifold!r}; use the profile"
            )
        return bounds

    @property
    def mean_radius(self) -> float:
        """E[d], the mean distance of a draw from its center, by quadrature.

        Mechanisms report it as the predicted error of a release.
        """
        return self._backend.moment(1)

    @property
    def mean_square_radius(self) -> float:
        """E[d²], the mean squared distance of a draw from its center, by quadrature."""
        return self._backend.moment(2)


def check_rng(rng: Any) -> np.random.Generator:
    """Return `rng` if it is a NumPy generator, else raise.

    Seeds and legacy generators are refused: with a seed in the call, two releases could
    share their noise.

    Parameters
    ----------
    rng : object
        The argument that was passed as a generator of random numbers.

    Returns
    -------
    np.random.Generator
        The generator itself.
    """
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(
            "must be a numpy.random.Generator, such as default_rng()",
            parameter="rng",
            value=rng,
        )
    return rng


def check_points(name: str, value: ArrayLike, point_shape: tuple[int, ...]) -> Floats:
    """Return points as a float64 array with any leading axes.

    Parameters
    ----------
    name : str
        The argument's name, for error messages.
    value : array-like
        The points. Only their shape and type can be refused.
    point_shape : tuple of int
        The shape of one point.

    Returns
    -------
    array, shape (..., *point_shape)
        The points.
    """
    points = _as_float_array(name, value)
    n_leading_axes = points.ndim - len(point_shape)
    if n_leading_axes < 0 or points.shape[n_leading_axes:] != point_shape:
        raise ParameterError(
            f"{name} has shape {points.shape}; "
            f"it must end with the point shape {point_shape}"
        )
    return points


def _as_float_array(name: str, value: ArrayLike) -> Floats:
    """Return `value` as a float64 array; arrays that are one already are not copied.

    Called on points and radii that a user passes.

    Parameters
    ----------
    name : str
        The argument's name, for error messages.
    value : array_like
        The argument.

    Returns
    -------
    array
        The numbers; the argument itself where it is a float64 array.
    """
    if isinstance(value, np.ndarray | float) and np.asarray(value).dtype == np.float64:
        return np.asarray(value)
    return _validate.array(name, value)


def check_radii(r: ArrayLike) -> Floats:
    """Return radii as a float64 array; NaN is refused.

    Parameters
    ----------
    r : array-like
        The radii.

    Returns
    -------
    array
        The radii, of the shape of `r`.
    """
    radii = _as_float_array("r", r)
    if np.any(np.isnan(radii)):
        raise ParameterError(
            "r must be a number or an array of numbers, and none may be NaN"
        )
    return radii


def check_center_and_size(
    size: Size, center: ArrayLike, point_shape: tuple[int, ...]
) -> tuple[Floats, tuple[int, ...]]:
    """Check the arguments of `Law.sample`.

    Parameters
    ----------
    size : int, sequence of int, or None
        The requested shape of the draws; None means one draw for each center.
    center : array-like
        One point, or points whose leading axes broadcast to `size`.
    point_shape : tuple of int
        The shape of one point.

    Returns
    -------
    points : array
        The centers.
    shape : tuple of int
        The shape of the draws, without the axes of a point.
    """
    # The leading axes of the centers.
    points = check_points("center", center, point_shape)
    center_shape = points.shape[: points.ndim - len(point_shape)]
    if size is None:
        return points, center_shape

    # The axes of the centers must broadcast to the requested shape.
    sizes = size if isinstance(size, tuple | list) else (size,)
    shape = tuple(_check_axis_length(n) for n in sizes)
    try:
        is_compatible = np.broadcast_shapes(center_shape, shape) == shape
    except ValueError:
        is_compatible = False
    if not is_compatible:
        raise ParameterError(
            f"center has leading axes {center_shape}, "
            f"which do not broadcast to size={size!r}"
        )
    return points, shape


def _check_axis_length(n: Any) -> int:
    """Return n if it is a nonnegative integer, else raise.

    Called for each axis of the argument `size`.

    Parameters
    ----------
    n : object
        The length of an axis of a sample, as the caller gave it.

    Returns
    -------
    int
        The length.
    """
    if type(n) is int and n >= 0:
        return n
    return _validate.integer("size", n, 0)


class SampleBlock(NamedTuple):
    """Consecutive draws that are made together."""

    rows: slice
    """Which draws, in C order."""
    centers: Floats
    """Their common footpoint, or one footpoint for each of them."""


def sample_blocks(
    points: Floats, shape: tuple[int, ...], point_shape: tuple[int, ...], dim: int
) -> Iterator[SampleBlock]:
    """Divide a sample into blocks that fit the cache.

    Parameters
    ----------
    points : array
        The centers: one point, or points that broadcast to `shape`.
    shape : tuple of int
        The shape of the sample, without the axes of a point.
    point_shape : tuple of int
        The shape of one point.
    dim : int
        The dimension of the manifold, which determines the size of a block.

    Yields
    ------
    SampleBlock
        The positions of consecutive draws, and their center or centers.
    """
    n_draws = math.prod(shape)
    has_one_center = points.ndim == len(point_shape)
    if has_one_center:
        centers = points
    else:
        centers = np.broadcast_to(points, shape + point_shape)
        centers = centers.reshape((n_draws, *point_shape))

    # Yield blocks of consecutive draws.
    block_length = max(1, _BLOCK_ENTRIES // max(dim, 1))
    for start in range(0, n_draws, block_length):
        rows = slice(start, min(start + block_length, n_draws))
        yield SampleBlock(rows, centers if has_one_center else centers[rows])


def uniform_directions(rng: np.random.Generator, count: int, dim: int) -> Floats:
    """Return unit vectors of ℝ^dim, uniform on the sphere.

    Parameters
    ----------
    rng : numpy.random.Generator
        The source of randomness.
    count : int
        The number of vectors.
    dim : int
        Their length.

    Returns
    -------
    array, shape (count, dim)
        One unit vector in each row.
    """
    if dim == 1:
        return np.where(rng.random((count, 1)) < 0.5, -1.0, 1.0)
    # A normal vector has a uniform direction.
    vectors = rng.standard_normal((count, dim))
    vectors /= np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    return vectors
