"""Poses: rotations and translations together."""

from dataclasses import dataclass

from curvedp import _validate
from curvedp.geometry.manifold import Array, fact
from curvedp.geometry.spaces.euclidean import Euclidean
from curvedp.geometry.spaces.product import Product
from curvedp.geometry.spaces.pullback import PullbackManifold
from curvedp.geometry.spaces.rotations import Rotations
from curvedp.numerics.arrays import like, namespace


@dataclass(frozen=True)
class SpecialEuclidean(PullbackManifold):
    """Rigid motions of R^n as matrices [[R, t], [0, 1]], with the metric of SO(n) × R^n, translations in units of `length`.

    d² = d²(R, R') + |t − t'|²/length²: the product metric, invariant on the left under rotations and under all
    translations (Park 1995: no metric is bi-invariant). The length says how far a translation must go to weigh as
    much as one radian; it is public and part of the metric.

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
    model = fact(lambda self: Product(Rotations(self.n), Euclidean(self.n)))
    point_shape = fact(lambda self: (self.n + 1, self.n + 1))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "length", _validate.length("length", self.length))

    def exp(self, p: Array, v: Array) -> Array:
        """Translations are added as they are, so that a step of 0 changes nothing."""
        turn = self.model.factors[0].exp(p[..., :-1, :-1], v[..., :-1, :-1])
        return _matrix(turn, p[..., :-1, -1] + v[..., :-1, -1], 1.0)

    def residual(self, p: Array) -> Array:
        """Of the rotation, plus how far the last row is from (0, …, 0, 1)."""
        xp = namespace(p)
        return super().residual(p) + xp.max(
            xp.abs(p[..., -1, :] - like(p, [0.0] * self.n + [1.0])), axis=-1
        )

    # To the product and back: linear, so the differentials are the same.

    def to_model(self, x: Array) -> Array:
        return self.model.join([x[..., :-1, :-1], x[..., :-1, -1] / self.length])

    def from_model(self, y: Array) -> Array:
        turn, move = self.model.split(y)
        return _matrix(turn, self.length * move, 1.0)

    def _pull(self, p: Array, w: Array) -> Array:
        turn, move = self.model.split(w)
        return _matrix(turn, self.length * move, 0.0)


def _matrix(turn: Array, move: Array, corner: float) -> Array:
    xp = namespace(turn, move)
    last = xp.concat([0 * move, corner + 0 * move[..., :1]], axis=-1)
    return xp.concat(
        [xp.concat([turn, move[..., None]], axis=-1), last[..., None, :]], axis=-2
    )
