"""What an optimizer minimizes: the mean over records z of loss(w, z), w on a manifold.

Everything private happens in coordinates: `gradients` gives the Riemannian gradient of
each record in an orthonormal frame at w (`from_coordinates`), where its Riemannian
length is the Euclidean one. Clipping, averaging and noise are then the Euclidean ones,
and one isometry in each step maps the result back to the tangent space.
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
    """A loss to minimize in the mean over records, on a manifold.

    Parameters
    ----------
    manifold : Manifold
        Where the minimizer w is sought.
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
        """Refuse what is no manifold, and a loss that cannot be called."""
        check_manifold(self.manifold)
        if not callable(self.loss):
            raise ParameterError(
                "must be a function loss(w, z) that returns a number",
                parameter="loss",
                value=self.loss,
            )

    @property
    def record_shape(self) -> tuple[int, ...] | None:
        """The shape of one record; None where the loss decides it."""
        return None

    def gradients(self, w: Any, records: Any) -> Any:
        """Return the Riemannian gradient at w of each record, in coordinates there.

        The differential of exp at 0 is the identity, so the coordinates are the ambient
        gradient of the loss pulled back through the frame: the transpose of
        `from_coordinates` applied to it, whatever the metric.

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
            return pull_back(ambient_gradient)[0]

        return jax.vmap(gradient)(records)

    def slopes(self, w: Any, records: Any) -> Any:
        """Return each record's gradient as the row of numbers that is clipped.

        The Euclidean length of a row is the Riemannian length of the gradient. By
        default the rows are the coordinates; a problem may choose rows that are cheaper
        to compute, of which `total` makes coordinates.

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
        """Return the coordinates at w of a sum of `slopes`.

        The map is linear, and what it returns is never longer than its argument. So the
        sensitivity of the sum is that of the coordinates too.

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
        """Return the point reached from w along a tangent vector, given by coordinates.

        Parameters
        ----------
        w : array of shape point_shape
            The iterate.
        coordinates : array of shape (dim,)
            The step in orthonormal coordinates at w.

        Returns
        -------
        array of shape point_shape
            exp_w(step), to about the precision of a descent; it may be slightly off the
            manifold.
        """
        with without_derivatives():
            return rough_from_normal_coordinates(self.manifold, w, coordinates)

    def carry(self, p: Any, q: Any, coordinates: Any) -> Any:
        """Return tangent vectors at p transported to q, from coordinates to coordinates.

        Parallel transport along the geodesic from p to q keeps lengths. Variance
        reduction compares gradients at two points by it.

        Parameters
        ----------
        p : array of shape point_shape
            Where the vectors are.
        q : array of shape point_shape
            Where they are carried to.
        coordinates : array of shape (..., dim)
            The vectors in orthonormal coordinates at p.

        Returns
        -------
        array of shape (..., dim)
            The transported vectors in orthonormal coordinates at q.
        """
        with without_derivatives():
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

        Only their sum is turned into coordinates, which is cheaper than turning each.

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
    """-‖wᵀz‖² on the Grassmann manifold: its minimizer is the leading `rank`-dimensional subspace of Σ zzᵀ.

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
