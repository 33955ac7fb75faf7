"""Covariance descriptors of images, Appendix C.1 of Utpala et al. (2023): one positive
definite matrix for each image.
"""

import numpy as np
from scipy.ndimage import convolve

__all__ = ["covariance_descriptors"]

# Sobel's first derivative and the 5 × 5 second derivative along one axis. The paper's
# printed first kernel sums to −1.5 (E14).
FIRST_DERIVATIVE = np.array([[1, 0, -1], [2, 0, -2], [1, 0, -1]]) / 4
SECOND_DERIVATIVE = np.outer([1, 4, 6, 4, 1], [1, 0, -2, 0, 1]) / 32


def covariance_descriptors(images: np.ndarray, ridge: float = 1e-6) -> np.ndarray:
    """Return the covariance descriptor of each image: an 11 × 11 SPD matrix.

    It is the covariance, over the pixels of an image, of 11 features of a pixel, plus a
    multiple of the identity. The features are the place x, y; the colors R, G, B; and
    |I_x|, |I_y|, |I_xx|, |I_yy|, √(I_x² + I_y²) and arctan(|I_x|/|I_y|), where I is the
    mean of the colors and indices are derivatives. Places and colors are from 0 to 1.

    Parameters
    ----------
    images : array of shape (n, height, width, 3)
        Colors from 0 to 255.
    ridge : float
        The number that is added to the diagonal, so that the matrix is positive
        definite.

    Returns
    -------
    array of shape (n, 11, 11)
        One matrix for each image.

    Examples
    --------
    >>> images = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 3))
    >>> covariance_descriptors(images).shape
    (2, 11, 11)
    """
    colors = images.astype(float) / 255
    n, height, width, _ = colors.shape
    intensity = colors.mean(axis=-1)

    def derivative(kernel: np.ndarray) -> np.ndarray:
        """Return the absolute value of the intensities' convolution with a kernel."""
        return np.asarray(np.abs(convolve(intensity, kernel[None], mode="nearest")))

    dx, dy = derivative(FIRST_DERIVATIVE), derivative(FIRST_DERIVATIVE.T)
    dxx, dyy = derivative(SECOND_DERIVATIVE), derivative(SECOND_DERIVATIVE.T)
    rows = np.arange(height) / (height - 1)
    columns = np.arange(width) / (width - 1)
    y, x = np.meshgrid(rows, columns, indexing="ij")
    place = np.broadcast_to(np.stack([x, y], axis=-1), (n, height, width, 2))
    derivatives = [dx, dy, dxx, dyy, np.hypot(dx, dy), np.arctan2(dx, dy)]
    columns_of_features = [place, colors, *(each[..., None] for each in derivatives)]

    # A row for each pixel, a column for each feature.
    features = np.concatenate(columns_of_features, axis=-1)
    features = features.reshape(n, height * width, 11)
    features = features - features.mean(axis=1, keepdims=True)
    covariance = features.swapaxes(1, 2) @ features / (height * width)
    return np.asarray(covariance + ridge * np.eye(11))
