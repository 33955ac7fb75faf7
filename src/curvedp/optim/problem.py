"""What is minimized: the mean over records z of loss(w, z), w on a manifold.

Everything private happens in coordinates: `gradient` gives the Riemannian gradient of one record in an orthonormal frame
at w (`from_coordinates`), where its Riemannian length is the Euclidean one. Clipping, averaging and noise are then the
Euclidean ones, and one isometry a step carries the result back to the tangent space.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from curvedp import _validate
from curvedp.core.fields import assign
from curvedp.errors import ParameterError
from curvedp.geometry import Grassmann, Sphere
from curvedp.geometry.capabilities import (
    rough_from_normal_coordinates,
    rough_normal_coordinates,
    transport_coordinates,
)
from curvedp.geometry.manifold import Manifold, check_manifold
from curvedp.numerics.autodiff import without_derivatives


@dataclass(frozen=True)
class Problem:
    """Any loss(w, z) -> scalar, written in JAX, of a point w of `manifold` and one record z.

    Parameters
    ----------
    manifold, loss : Manifold and callable
        Where w lives, and loss(w, z) of a point and one record, a scalar.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from curvedp.geometry import Sphere
    >>> problem = Problem(Sphere(2), lambda w, z: -(w @ z) ** 2)
    """

    manifold: Manifold
    loss: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        check_manifold(self.manifold)
        if not callable(self.loss):
            raise ParameterError(
                "must be a function loss(w, z) that returns a number",
                parameter="loss",
                value=self.loss,
            )

    @property
    def record_shape(self) -> tuple[int, ...] | None:
        """The shape of one record; None where it is the loss's own affair."""
        return None

    def gradients(self, w: Any, records: Any) -> Any:
        """Coordinates, shape (k, dim), of the Riemannian gradient at w of each record.

        The differential of exp at 0 is the identity, so the coordinates are the loss's ambient slope pulled back through
        the frame: the transpose of `from_coordinates`, whatever the metric.
        """

        def gradient(z: Any) -> Any:
            slope, zero = (
                jax.grad(self.loss)(w, z),
                jnp.zeros(self.manifold.dim, dtype=w.dtype),
            )
            return jax.vjp(lambda c: self.manifold.from_coordinates(w, c), zero)[1](
                slope
            )[0]

        return jax.vmap(gradient)(records)

    def slopes(self, w: Any, records: Any) -> Any:
        """Each record's gradient as a row of numbers whose Euclidean length is its Riemannian one: what is clipped."""
        return self.gradients(w, records)

    def total(self, w: Any, slopes: Any) -> Any:
        """Coordinates of a sum of `slopes`. Linear, and never longer than its argument."""
        return slopes

    def move(self, w: Any, coordinates: Any) -> Any:
        """The point reached from w along the tangent vector with these coordinates."""
        with without_derivatives():
            return rough_from_normal_coordinates(self.manifold, w, coordinates)

    def carry(self, p: Any, q: Any, coordinates: Any) -> Any:
        """Coordinates at q of tangent vectors transported from p, given by their coordinates there, shape (..., dim)."""
        with without_derivatives():
            return transport_coordinates(self.manifold, p, q, coordinates)

    def objective(self, w: Any, data: Any) -> Any:
        """The mean loss."""
        return jnp.mean(jax.vmap(lambda z: self.loss(w, z))(data))


@dataclass(frozen=True)
class FrechetMeanProblem(Problem):
    """½·d²(w, z): its minimizer is the Fréchet mean.

    Parameters
    ----------
    manifold : Manifold
        Where points and records live.

    Examples
    --------
    >>> from curvedp.geometry import SPDAffineInvariant
    >>> FrechetMeanProblem(SPDAffineInvariant(3)).manifold.dim
    6
    """

    loss: Callable[[Any, Any], Any] = field(
        init=False, repr=False, compare=False, default=None
    )  # type: ignore[assignment]  # set below

    def __post_init__(self) -> None:
        manifold = self.manifold
        assign(self, loss=lambda w, z: manifold.dist(w, z) ** 2 / 2)
        super().__post_init__()

    record_shape = property(
        lambda self: self.manifold.point_shape
    )  # a point of the manifold

    def gradients(self, w: Any, records: Any) -> Any:
        """-log_w z of each record: no differentiation through the distance."""
        with without_derivatives():
            return -rough_normal_coordinates(self.manifold, w, records)


@dataclass(frozen=True)
class LeadingEigenvectorProblem(Problem):
    """-(wᵀz)² on the unit sphere of R^dim: its minimizer is the leading eigenvector of Σ zzᵀ.

    Parameters
    ----------
    dim : int
        The length of a record.

    Examples
    --------
    >>> LeadingEigenvectorProblem(784).manifold
    Sphere(d=783)
    """

    manifold: Manifold = field(init=False, repr=False)
    loss: Callable[[Any, Any], Any] = field(init=False, repr=False, compare=False)
    dim: int = 2

    def __init__(self, dim: int) -> None:
        dim = _validate.integer("dim", dim, 2)
        assign(
            self,
            dim=dim,
            manifold=Sphere(dim - 1),
            loss=lambda w, z: -(jnp.sum(w * z) ** 2),
        )

    record_shape = property(lambda self: (self.dim,))  # a vector of R^dim

    def gradients(self, w: Any, records: Any) -> Any:
        """-2(wᵀz)z without its part along w, of each record."""
        return self.manifold.to_coordinates(w, self.slopes(w, records))

    def slopes(self, w: Any, records: Any) -> Any:
        """Tangent vectors of R^dim: only their sum is turned into coordinates."""
        along = records @ w
        return -2 * along[:, None] * (records - along[:, None] * w)

    def total(self, w: Any, slopes: Any) -> Any:
        """One reflection."""
        return self.manifold.to_coordinates(w, slopes)


@dataclass(frozen=True)
class SubspaceProblem(Problem):
    """-‖wᵀz‖² on the Grassmann manifold: its minimizer is the leading `rank`-dimensional subspace of Σ zzᵀ.

    Parameters
    ----------
    dim, rank : int
        Of the vectors, and of the subspace.

    Examples
    --------
    >>> SubspaceProblem(10, 2).manifold
    Grassmann(m=10, r=2)
    """

    manifold: Manifold = field(init=False, repr=False)
    loss: Callable[[Any, Any], Any] = field(init=False, repr=False, compare=False)
    dim: int = 2
    rank: int = 1

    def __init__(self, dim: int, rank: int) -> None:
        dim, rank = _validate.integer("dim", dim, 2), _validate.integer("rank", rank, 1)
        assign(
            self,
            dim=dim,
            rank=rank,
            manifold=Grassmann(dim, rank),
            loss=lambda w, z: -jnp.sum((z @ w) ** 2),
        )

    record_shape = property(lambda self: (self.dim,))  # a vector of R^dim

    def gradients(self, w: Any, records: Any) -> Any:
        """-2z(zᵀw) without its part in the subspace, of each record."""
        slopes = -2 * records[:, :, None] * (records @ w)[:, None, :]
        return self.manifold.to_coordinates(w, self.manifold.to_tangent(w, slopes))
