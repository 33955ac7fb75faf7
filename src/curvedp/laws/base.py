"""What a noise law is here: a frozen (manifold, scale) that draws exactly and carries its own independent reference.

`sample` and `radial_cdf` share no code, so that one goodness-of-fit test serves every law. The fast path below is for
simulation and optimization: doubles from a NumPy generator. What leaves the machine is drawn by `curvedp.entropy`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from curvedp import _validate
from curvedp.errors import ParameterError
from curvedp.geometry.manifold import Manifold
from curvedp.laws.radial import Engine, Floats

Size = int | Sequence[int] | None

_BLOCK_ENTRIES = (
    1 << 15
)  # doubles in a block: a few temporaries of it fit the second-level cache


@dataclass(frozen=True)
class Law(ABC):
    """A distribution on `manifold` about a footpoint, with one scale."""

    manifold: Manifold
    scale: float

    def __post_init__(self) -> None:
        if not isinstance(self.manifold, Manifold):
            raise ParameterError(
                "must be a curvedp manifold", parameter="manifold", value=self.manifold
            )
        if not (
            type(self.scale) is float and 0 < self.scale < math.inf
        ):  # a search makes many laws
            object.__setattr__(self, "scale", _validate.positive("scale", self.scale))

    @abstractmethod
    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        """Independent draws about `center`, of shape size + point shape.

        `center` is one point, or points whose leading axes broadcast to `size`; without `size` there is one draw a
        center. `rng` is a `numpy.random.Generator`: nothing is drawn from global state.
        """

    @abstractmethod
    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        """Logarithm of the density at x with respect to the Riemannian volume; leading axes broadcast."""

    @abstractmethod
    def radial_cdf(self, r: ArrayLike) -> Floats:
        """P(distance to the footpoint ≤ r), elementwise, by quadrature or closed form independent of `sample`."""


@dataclass(frozen=True)
class IsotropicLaw(Law):
    """A law whose density depends on the distance to the footpoint alone, on a homogeneous manifold."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._engine  # refuses what has no law or no sampler

    @property
    @abstractmethod
    def _engine(self) -> Engine: ...

    @abstractmethod
    def _log_weight(self, distance: Floats) -> Floats: ...

    def sample(
        self, rng: np.random.Generator, center: ArrayLike, size: Size = None
    ) -> Floats:
        check_rng(rng)
        engine = self._engine
        engine.check_representable()
        point_shape = self.manifold.point_shape
        points, shape = draw_shape(size, center, point_shape)
        out = np.empty((int(np.prod(shape, dtype=np.intp)), *point_shape))
        for part, centers in blocks(points, shape, point_shape, self.manifold.dim):
            out[part] = engine.draw(rng, centers, part.stop - part.start)
        return out.reshape(shape + point_shape)

    def log_prob(self, x: ArrayLike, center: ArrayLike) -> Floats:
        shape = self.manifold.point_shape
        distance = self.manifold.dist(
            points_of("center", center, shape), points_of("x", x, shape)
        )
        return self._log_weight(np.asarray(distance)) - self.log_normalizer

    @property
    def log_normalizer(self) -> float:
        """log ∫ weight(d(x, p)) dvol(x), the same at every footpoint p."""
        return self._engine.log_normalizer

    def radial_cdf(self, r: ArrayLike) -> Floats:
        return self._engine.radial_cdf(radii(r))

    def certified_delta(self, sensitivity: float, eps: float) -> tuple[float, float]:
        """Rigorous (lower, upper) bounds on δ(eps), in ball arithmetic: on constant curvature and real projective spaces."""
        if (certified := getattr(self._engine, "certified_delta", None)) is None:
            raise ParameterError(
                f"no certified profile is known on {self.manifold!r}; use the profile"
            )
        return certified(sensitivity, eps)  # type: ignore[no-any-return]  # of two-point homogeneous spaces

    @property
    def mean_radius(self) -> float:
        """E[d(x, center)], by quadrature."""
        return self._engine.moment(1)

    @property
    def mean_square_radius(self) -> float:
        """E[d(x, center)²], by quadrature."""
        return self._engine.moment(2)


def check_rng(rng: Any) -> np.random.Generator:
    """Refuses seeds and legacy generators: a seed hidden in a call is how two releases come to share their noise."""
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(
            "must be a numpy.random.Generator, such as default_rng()",
            parameter="rng",
            value=rng,
        )
    return rng


def points_of(name: str, value: ArrayLike, point_shape: tuple[int, ...]) -> Floats:
    """Points as doubles, of any leading axes; only their shape and type can be refused."""
    points = _floats(name, value)
    axes = points.ndim - len(point_shape)
    if axes < 0 or points.shape[axes:] != point_shape:
        raise ParameterError(
            f"{name} has shape {points.shape}; it must end with the point shape {point_shape}"
        )
    return points


def _floats(name: str, value: ArrayLike) -> Floats:
    doubles = (
        isinstance(value, np.ndarray | float) and np.asarray(value).dtype == np.float64
    )
    return np.asarray(value) if doubles else _validate.array(name, value)


def radii(r: ArrayLike) -> Floats:
    """Where a distribution function of lengths is asked: any numbers but NaN."""
    lengths = _floats("r", r)
    if np.any(np.isnan(lengths)):
        raise ParameterError(
            "r must be a number or an array of numbers, and none may be NaN"
        )
    return lengths


def draw_shape(
    size: Size, center: ArrayLike, point_shape: tuple[int, ...]
) -> tuple[Floats, tuple[int, ...]]:
    """The center as an array and the shape of the draw without the point's own axes."""
    points = points_of("center", center, point_shape)
    batch = points.shape[: points.ndim - len(point_shape)]
    if size is None:
        return points, batch
    sizes = size if isinstance(size, tuple | list) else (size,)
    shape = tuple(
        n if type(n) is int and n >= 0 else _validate.integer("size", n, 0)
        for n in sizes
    )
    try:
        fits = np.broadcast_shapes(batch, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ParameterError(
            f"center has leading axes {batch}, which do not broadcast to size={size!r}"
        )
    return points, shape


def blocks(
    points: Floats, shape: tuple[int, ...], point_shape: tuple[int, ...], dim: int
) -> Iterator[tuple[slice, Floats]]:
    """Yields (slice, centers of that slice) over the draws in C order, in blocks that fit the cache."""
    count = int(np.prod(shape, dtype=np.intp))
    one = points.ndim == len(point_shape)
    centers = (
        points
        if one
        else np.broadcast_to(points, shape + point_shape).reshape((count, *point_shape))
    )
    step = max(1, _BLOCK_ENTRIES // max(dim, 1))
    for start in range(0, count, step):
        part = slice(start, min(start + step, count))
        yield part, centers if one else centers[part]


def uniform_directions(rng: np.random.Generator, count: int, dim: int) -> Floats:
    """`count` unit vectors of R^dim, uniform on the sphere."""
    if dim == 1:
        return np.where(rng.random((count, 1)) < 0.5, -1.0, 1.0)
    z = rng.standard_normal((count, dim))
    z /= np.sqrt(np.einsum("ij,ij->i", z, z))[:, None]
    return z
