"""The problem that an optimizer solves: minimize the mean of loss(w, z) over records z.
The point w moves on a manifold. A problem returns the gradient of each record in
orthonormal coordinates at w, where Riemannian lengths are Euclidean ones. Clipping,
averaging and noise are then Euclidean operations on coordinates.
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
    """A loss whose mean over records is to be minimized on a manifold.

    Parameters
    ----------
    manifold : Manifold
        The manifold on which the minimizer w is sought.
    loss : callable
        loss(w, z) of a point w and one record z: a number, computed with JAX.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from curvedp.geometry import Sphere
    >>> problem = Problem(Sphere(2), lambda w, z: -(w @ z) ** 2)
    """

    manifold: Manifold
    loss: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        """Raise an error if `manifold` is not a manifold or `loss` cannot be called."""
        check_manifold(self.manifold)
        if not callable(self.loss):
            raise ParameterError(
                "must be a function loss(w, z) that returns a number",
                parameter="loss",
                value=self.loss,
            )

    @property
    def record_shape(self) -> tuple[int, ...] | None:
        """The shape of one record; None if the loss takes records of any shape."""
        return None

    def gradients(self, w: Any, records: Any) -> Any:
        """Return the Riemannian gradient at w of each record, in coordinates there.

        Automatic differentiation gives the ambient gradient of the loss in the entries
        of w. Its coordinates at w are the transpose of the linear map
        `from_coordinates`, applied to the ambient gradient. This is true for every
        metric, because the frame is orthonormal.

        Parameters
        ----------
        w : array of shape point_shape
            A point of the manifold, at which the gradients are taken.
        records : array of shape (k, …)
            The records z.

        Returns
        -------
        array of shape (k, dim)
            One row for each record, as long as its Riemannian gradient.
        """

        def from_coordinates(coordinates: Any) -> Any:
            """Return the tangent vector at w with these coordinates."""
            return self.manifold.from_coordinates(w, coordinates)

        def gradient(z: Any) -> Any:
            """Return the coordinates of the gradient of loss(·, z) at w."""
            ambient_gradient = jax.grad(self.loss)(w, z)
            zero = jnp.zeros(self.manifold.dim, dtype=w.dtype)
            _, pull_back = jax.vjp(from_coordinates, zero)
            (coordinates,) = pull_back(ambient_gradient)
            return coordinates

        return jax.vmap(gradient)(records)

    def slopes(self, w: Any, records: Any) -> Any:
        """Return each record's gradient, as the row of numbers that a step clips.

        The Euclidean length of a row must be the Riemannian length of the gradient,
        because rows are clipped by their length. By default the rows are the
        coordinates. A problem may choose other rows that are cheaper to compute; then
        `total` turns their sum into coordinates.

        Parameters
        ----------
        w : array of shape point_shape
            The iterate.
        records : array of shape (k, …)
            The records of a block.

        Returns
        -------
        array of shape (k, m)
            One row for each record; m is the dimension unless a subclass says
            otherwise.
        """
        return self.gradients(w, records)

    def total(self, w: Any, slopes: Any) -> Any:
        """Turn a sum of `slopes` into coordinates at w.

        The map must be linear and must not lengthen its argument. Then the coordinates
        have at most the sensitivity of the sum.

        Parameters
        ----------
        w : array of shape point_shape
            The iterate.
        slopes : array of shape (m,)
            A sum of rows that `slopes` returned at w, each clipped.

        Returns
        -------
        array of shape (dim,)
            The sum in orthonormal coordinates; by default the argument itself.
        """
        return slopes

    def move(self, w: Any, coordinates: Any) -> Any:
        """Return the point to which a step leads from w.

        Parameters
        ----------
        w : array of shape point_shape
            The iterate.
        coordinates : array of shape (dim,)
            The step in orthonormal coordinates at w.

        Returns
        -------
        array of shape point_shape
            exp_w(step), about as accurate as a descent needs it. Round-off may have
            moved it slightly off the manifold.
        """
        with without_derivatives():  # a step is not differentiated
            return rough_from_normal_coordinates(self.manifold, w, coordinates)

    def carry(self, p: Any, q: Any, coordinates: Any) -> Any:
        """Transport tangent vectors from p to q, in coordinates.

        Parallel transport along the geodesic from p to q keeps lengths. Used by
        variance reduction to subtract gradients at two points.

        Parameters
        ----------
        p : array of shape point_shape
            The point of the vectors.
        q : array of shape point_shape
            The point to which they are transported.
        coordinates : array of shape (..., dim)
            The vectors in orthonormal coordinates at p.

        Returns
        -------
        array of shape (..., dim)
            The transported vectors in orthonormal coordinates at q.
        """
        with without_derivatives():  # a transported vector is not differentiated
            return transport_coordinates(self.manifold, p, q, coordinates)

    def objective(self, w: Any, data: Any) -> Any:
        """Return the mean loss at w over all records. NOT private.

        Parameters
        ----------
        w : array of shape point_shape
            A point of the manifold.
        data : array of shape (n, …)
            All records.

        Returns
        -------
        float
            The exact mean, for the history that a caller asks for.
        """
        return jnp.mean(jax.vmap(lambda z: self.loss(w, z))(data))


@dataclass(frozen=True)
class FrechetMeanProblem(Problem):
    """The loss ½·d²(w, z) on a manifold, whose minimizer is the Fréchet mean.

    Parameters
    ----------
    manifold : Manifold
        The manifold of points and records.

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
        """Set the loss ½·d²(w, z) on the manifold."""
        manifold = self.manifold
        assign(self, loss=lambda w, z: manifold.dist(w, z) ** 2 / 2)
        super().__post_init__()

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of one record: a point of the manifold."""
        return self.manifold.point_shape

    def gradients(self, w: Any, records: Any) -> Any:
        """Return −log_w z of each record z, which is the gradient of ½·d²(w, z).

        No derivative of the distance is needed.

        Parameters
        ----------
        w : array of shape point_shape
            The iterate.
        records : array of shape (k, *point_shape)
            The records, points of the manifold.

        Returns
        -------
        array of shape (k, dim)
            One row for each record, in coordinates at w.
        """
        with without_derivatives():  # the logarithm is the gradient already
            return -rough_normal_coordinates(self.manifold, w, records)


@dataclass(frozen=True)
class LeadingEigenvectorProblem(Problem):
    """The loss −(wᵀz)² on the unit sphere, whose minimizer is the leading eigenvector.

    It is the leading eigenvector of the matrix Σ zzᵀ, the sum over all records z of
    R^dim.

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
        """Set the sphere of R^dim and the loss −(wᵀz)² on it.

        Parameters
        ----------
        dim : int
            The length of a record, at least 2.
        """
        dim = _validate.integer("dim", dim, 2)
        assign(
            self,
            dim=dim,
            manifold=Sphere(dim - 1),
            loss=lambda w, z: -(jnp.sum(w * z) ** 2),
        )

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of one record: a vector of R^dim."""
        return (self.dim,)

    def gradients(self, w: Any, records: Any) -> Any:
        """Return each record's gradient of −(wᵀz)² on the sphere, in coordinates.

        It is −2(wᵀz)z without its part along w.

        Parameters
        ----------
        w : array of shape (dim,)
            The iterate, a unit vector.
        records : array of shape (k, dim)
            The records.

        Returns
        -------
        array of shape (k, dim − 1)
            One row for each record.
        """
        return self.manifold.to_coordinates(w, self.slopes(w, records))

    def slopes(self, w: Any, records: Any) -> Any:
        """Return each record's gradient as a vector of R^dim tangent at w.

        Only the sum of these vectors is turned into coordinates, which is cheaper than
        to do so for each of them.

        Parameters
        ----------
        w : array of shape (dim,)
            The iterate, a unit vector.
        records : array of shape (k, dim)
            The records.

        Returns
        -------
        array of shape (k, dim)
            One row for each record, orthogonal to w.
        """
        products = records @ w
        tangent_parts = records - products[:, None] * w
        return -2 * products[:, None] * tangent_parts

    def total(self, w: Any, slopes: Any) -> Any:
        """Return a sum of tangent vectors in coordinates, by one reflection.

        Parameters
        ----------
        w : array of shape (dim,)
            The iterate, a unit vector.
        slopes : array of shape (dim,)
            A sum of vectors orthogonal to w.

        Returns
        -------
        array of shape (dim − 1,)
            Its coordinates at w.
        """
        return self.manifold.to_coordinates(w, slopes)


@dataclass(frozen=True)
class SubspaceProblem(Problem):
    """The loss −‖wᵀz‖² on subspaces, whose minimizer spans the leading eigenvectors.

    w is an orthonormal basis of a subspace of dimension `rank`, a point of the Grassmann
    manifold. The eigenvectors are those of the matrix Σ zzᵀ, the sum over all records z.

    Parameters
    ----------
    dim : int
        The dimension of the vectors.
    rank : int
        The dimension of the subspace.

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
        """Set the Grassmann manifold and the loss −‖wᵀz‖² on it.

        Parameters
        ----------
        dim : int
            The dimension of the vectors, at least 2.
        rank : int
            The dimension of the subspace.
        """
        dim = _validate.integer("dim", dim, 2)
        rank = _validate.integer("rank", rank, 1)
        assign(
            self,
            dim=dim,
            rank=rank,
            manifold=Grassmann(dim, rank),
            loss=lambda w, z: -jnp.sum((z @ w) ** 2),
        )

    @property
    def record_shape(self) -> tuple[int, ...]:
        """The shape of one record: a vector of R^dim."""
        return (self.dim,)

    def gradients(self, w: Any, records: Any) -> Any:
        """Return the gradient of −‖wᵀz‖² for each record z, in coordinates at w.

        It is −2z(zᵀw) without its part in the subspace.

        Parameters
        ----------
        w : array of shape (dim, rank)
            The iterate: an orthonormal basis of the subspace.
        records : array of shape (k, dim)
            The records.

        Returns
        -------
        array of shape (k, rank·(dim − rank))
            One row for each record.
        """
        # One dim×rank matrix z(zᵀw) for each record.
        ambient = -2 * records[:, :, None] * (records @ w)[:, None, :]
        return self.manifold.to_coordinates(w, self.manifold.to_tangent(w, ambient))
