"""Rigid motions of R^n: a rotation and a translation together, such as the pose of a body."""

from dataclasses import dataclass
from functools import cached_property

from curvedp import _validate
from curvedp.geometry.manifold import Array
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.rotations import Rotations
from curvedp.numerics.arrays import like, namespace


@dataclass(frozen=True)
class SpecialEuclidean(PullbackManifold):
    """Rigid motions of R^n as matrices [[R, t], [0, 1]], with the metric of SO(n) × R^n.

    R is a rotation and t a translation. Squared distances are d²(R, R') +
    |t − t'|²/length². This product metric is invariant on the left under rotations, and
    under all translations (Park 1995: no metric is bi-invariant). A translation by
    `length` counts as much as a rotation by one radian. The length is public and part
    of the metric.

    Parameters
    ----------
    n : int
        The dimension of the space that moves, at least 2.
    length : float
        The public length scale.

    Examples
    --------
    >>> import numpy as np
    >>> M = SpecialEuclidean(3, length=0.5)
    >>> moved = np.eye(4)
    >>> moved[:3, 3] = [1.0, 0.0, 0.0]
    >>> float(M.dist(M.origin, moved))
    2.0
    """

    kind = "special-euclidean"
    n: int
    length: float = 1.0
    sizes = (("n", 2),)

    def __post_init__(self) -> None:
        """Check that n is a whole number ≥ 2, and `length` a positive finite number."""
        super().__post_init__()
        object.__setattr__(self, "length", _validate.length("length", self.length))

    @cached_property
    def model(self) -> Product:
        """The space in which kernels are computed: rotations times translations.

        A translation is measured there in units of `length`.
        """
        return Product(Rotations(self.n), Euclidean(self.n))

    @property
    def point_shape(self) -> tuple[int, ...]:
        """A point is a matrix with n + 1 rows and columns."""
        return (self.n + 1, self.n + 1)

    def exp(self, p: Array, v: Array) -> Array:
        """Return the end of the geodesic from p with velocity v.

        The rotation moves along its geodesic, and translations are added. They are not
        divided by `length`, so that a velocity of 0 changes no bit.

        Parameters
        ----------
        p, v : arrays of shape (..., n + 1, n + 1)
            A pose, and a tangent vector at it.

        Returns
        -------
        array of shape (..., n + 1, n + 1)
            The end points.
        """
        rotations, _ = self.model.factors
        rotation = rotations.exp(p[..., :-1, :-1], v[..., :-1, :-1])
        translation = p[..., :-1, -1] + v[..., :-1, -1]
        return _block_matrix(rotation, translation, 1.0)

    def residual(self, p: Array) -> Array:
        """Return how far a matrix p is from a rigid motion [[R, t], [0, 1]].

        It is the residual of R as a rotation, plus the largest error of the last row.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            Arrays that may be points.

        Returns
        -------
        array of shape (...)
            The residuals; 0 on the manifold.
        """
        xp = namespace(p)
        last_row = like(p, [0.0] * self.n + [1.0])
        gap = xp.max(xp.abs(p[..., -1, :] - last_row), axis=-1)
        return super().residual(p) + gap

    def to_model(self, x: Array) -> Array:
        """Return the rigid motion x = [[R, t], [0, 1]] as a pair (R, t/length), joined."""
        return self.model.join([x[..., :-1, :-1], x[..., :-1, -1] / self.length])

    def from_model(self, y: Array) -> Array:
        """Return the matrix [[R, t], [0, 1]] of a pair y of R and t/length.

        Parameters
        ----------
        y : array of shape (..., *model.point_shape)
            Points of the model.

        Returns
        -------
        array of shape (..., *point_shape)
            Points of this manifold.
        """
        rotation, translation = self.model.split(y)
        return _block_matrix(rotation, self.length * translation, 1.0)

    def inverse_differential(self, p: Array, w: Array) -> Array:
        """Return the tangent matrix [[U, s], [0, 0]] of a pair w of U and s/length.

        U is the velocity of the rotation and s that of the translation, at any p.

        Parameters
        ----------
        p : array of shape (..., *point_shape)
            A point.
        w : array of shape (..., *model.point_shape)
            A tangent vector of the model at the image of p.

        Returns
        -------
        array of shape (..., *point_shape)
            Tangent vectors at p.
        """
        rotation, translation = self.model.split(w)
        return _block_matrix(rotation, self.length * translation, 0.0)


def _block_matrix(rotation: Array, translation: Array, corner: float) -> Array:
    """Return the matrix [[rotation, translation], [0, corner]] of a rigid motion.

    Poses and their velocities are stored as such matrices.

    Parameters
    ----------
    rotation : array of shape (..., n, n)
        The upper left block.
    translation : array of shape (..., n)
        The last column above the corner.
    corner : float
        The last entry: 1 for a pose, 0 for a velocity.

    Returns
    -------
    array of shape (..., n + 1, n + 1)
        The matrix.
    """
    xp = namespace(rotation, translation)
    top = xp.concat([rotation, translation[..., None]], axis=-1)
    zeros = 0 * translation
    last_row = xp.concat([zeros, corner + 0 * translation[..., :1]], axis=-1)
    return xp.concat([top, last_row[..., None, :]], axis=-2)
