"""Records as tangent vectors at a public center, clipped to a public length.
Both steps treat every record on its own and never fail on what is in a record: a vector
that is not finite becomes zero.
"""

from math import frexp

import numpy as np

from curvedp.geometry.capabilities import fast_normal_coordinates
from curvedp.geometry.manifold import Manifold

# 2**1000 is the largest factor by which a row is scaled: it cannot overflow.
_LARGEST_EXPONENT = 1000


def logs_at(manifold: Manifold, center: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the logarithms of points at a center, as coordinates.

    They are the tangent vectors at the center that point to the records.

    Parameters
    ----------
    manifold : Manifold
        The manifold of the points.
    center : point
        The base point of the logarithms.
    points : array, shape (k, *point_shape)
        The points. One without a logarithm becomes a row of zeros.

    Returns
    -------
    array, shape (k, dim)
        log_center(x) of each point in an orthonormal basis at the center. A row is zero
        if any of its coordinates is not finite.
    """
    if len(points) == 0:
        return np.zeros((0, manifold.dim))

    # A warning that depends on the data would reveal something about them.
    with np.errstate(all="ignore"):
        logs = np.asarray(fast_normal_coordinates(manifold, center, points))
        # Column-major: rows are short, and later steps run along coordinates.
        logs = np.asfortranarray(logs)
        is_finite = np.isfinite(logs).all(axis=-1, keepdims=True)
        return np.where(is_finite, logs, 0.0)


def clip_rows_to(vectors: np.ndarray, radius: float) -> np.ndarray:
    """Shorten every row that is longer than a radius to that length.

    It bounds how far one replaced record can move a sum of rows. A row that is not
    finite becomes 0.

    Parameters
    ----------
    vectors : array, shape (k, dim)
        The rows, such as logarithms. Entries may be anything.
    radius : float
        The largest length, above 0.

    Returns
    -------
    array, shape (k, dim)
        The rows, of length at most `radius` up to rounding. A row that is not finite
        becomes zero.
    """
    # Squares of tiny numbers would be 0. Scaling by a power of two avoids that and
    # changes no other bit.
    unit = 2.0 ** min(-frexp(radius)[1], _LARGEST_EXPONENT)
    lengths = np.linalg.norm(vectors * unit, axis=-1, keepdims=True)
    is_long = lengths > radius * unit
    safe_lengths = np.where(lengths > 0, lengths, 1.0)

    clipped = vectors * np.where(is_long, radius * unit / safe_lengths, 1.0)
    is_finite = np.isfinite(clipped).all(axis=-1, keepdims=True)
    return np.where(is_finite, clipped, 0.0)
