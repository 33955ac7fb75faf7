"""Shrinking a noisy point towards the public center: post-processing, which costs no privacy and lowers the error.

Positive-part James-Stein in the normal chart at the center. For z ~ N(m, σ²I) in dimension d >= 3,
(1 − (d−2)σ²/|z|²)₊ z has a smaller mean square error than z for EVERY m (James & Stein 1961; Baranchik 1964); the gain is
all of the noise but 2σ² where m is near the center, and vanishes where |m| is large against the noise.
"""

from typing import Any

import numpy as np

from curvedp.geometry.base import Manifold


def james_stein(manifold: Manifold, center: np.ndarray, points: np.ndarray, noise: Any) -> np.ndarray:
    """Points, shape (k, *point_shape), drawn towards the center; `noise` is the σ of each coordinate, one or a column.

    >>> from curvedp.geometry import Euclidean
    >>> james_stein(Euclidean(3), np.zeros(3), np.array([[2.0, 0, 0], [0.5, 0, 0]]), 1.0)
    array([[1.5, 0. , 0. ],
           [0. , 0. , 0. ]])
    """
    if manifold.dim < 3:
        return points
    z = np.asarray(manifold.chart(center, points))
    square = np.sum(z * z, axis=-1, keepdims=True)
    lost = (manifold.dim - 2) * np.square(noise)
    keep = np.where(square > lost, 1 - lost / np.where(square > lost, square, 1.0), 0.0)
    return np.asarray(manifold.unchart(center, keep * z))


def shrunk(v: np.ndarray, noise: float) -> np.ndarray:
    """One vector drawn towards 0, where the dimension allows it.

    >>> shrunk(np.array([2.0, 0, 0]), 1.0)
    array([1.5, 0. , 0. ])
    """
    square, lost = float(v @ v), (v.size - 2) * noise**2
    if v.size < 3:
        return v
    return v * (1 - lost / square) if square > lost else np.zeros_like(v)
