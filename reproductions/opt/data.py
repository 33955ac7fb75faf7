"""The three datasets of Figure 3 of Utpala et al. (2023)."""

from pathlib import Path

import numpy as np
from scipy.ndimage import convolve

from examples.data_sets import load_dataset

# Sobel operators (E14: the paper's kernels are garbled): first derivative, and the 5 x 5 second derivative.
_FIRST = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]]) / 4
_SECOND = np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1]) / 32


def covariance_descriptors(images: np.ndarray, ridge: float = 1e-6) -> np.ndarray:
    """11 x 11 covariances over the pixels of x, y, R, G, B, |Ix|, |Iy|, |Ixx|, |Iyy|, √(Ix²+Iy²), arctan(|Ix|/|Iy|)."""
    colors = images.astype(float) / 255
    n, h, w, _ = colors.shape
    grey = colors.mean(axis=-1)
    dx, dy, dxx, dyy = (
        np.abs(convolve(grey, kernel[None], mode="nearest"))
        for kernel in (_FIRST, _FIRST.T, _SECOND, _SECOND.T)
    )
    y, x = np.meshgrid(np.arange(h) / (h - 1), np.arange(w) / (w - 1), indexing="ij")
    place = np.broadcast_to(np.stack([x, y], axis=-1), (n, h, w, 2))
    features = [
        place,
        colors,
        *(
            f[..., None]
            for f in (dx, dy, dxx, dyy, np.hypot(dx, dy), np.arctan2(dx, dy))
        ),
    ]
    table = np.concatenate(features, axis=-1).reshape(n, h * w, 11)
    table = table - table.mean(axis=1, keepdims=True)
    return table.swapaxes(1, 2) @ table / (h * w) + ridge * np.eye(11)


def pathmnist(folder: Path | None = None, label: int = 0) -> np.ndarray:
    """Descriptors of adipose tissue (0) or background (1)."""
    table = load_dataset("pathmnist", folder)
    return covariance_descriptors(table["images"][table["labels"] == label])


def mnist(folder: Path | None = None, digit: int = 0) -> np.ndarray:
    """Images of a digit as unit vectors of R^784."""
    table = load_dataset("mnist", folder)
    images = table["images"][table["labels"] == digit]
    flat = images.reshape(len(images), -1).astype(float)
    return flat / np.linalg.norm(flat, axis=1, keepdims=True)


def mammals(folder: Path | None = None) -> np.ndarray:
    """WordNet's mammals embedded in the Poincaré disc."""
    return np.asarray(load_dataset("mammals", folder))
