"""The three data sets of Figure 3 of Utpala et al. (2023): images of tissue,
handwritten digits, and a tree of mammals embedded in the Poincaré disk.
"""

from pathlib import Path

import numpy as np

from curvedp.papers.data_sets import load_dataset
from curvedp.papers.opt.descriptors import covariance_descriptors


def pathmnist(folder: Path | None = None, label: int = 0) -> np.ndarray:
    """Return the covariance descriptors of PathMNIST's images of one class.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    label : int
        0 for adipose tissue, 1 for background.
    """
    table = load_dataset("pathmnist", folder)
    return covariance_descriptors(table["images"][table["labels"] == label])


def mnist(folder: Path | None = None, digit: int = 0) -> np.ndarray:
    """Return MNIST's images of a digit as unit vectors of R^784.

    They are scaled to unit length, so that a clipping norm is public.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    digit : int
        The digit.
    """
    table = load_dataset("mnist", folder)
    images = table["images"][table["labels"] == digit]
    flat = images.reshape(len(images), -1).astype(float)
    return np.asarray(flat / np.linalg.norm(flat, axis=1, keepdims=True))


def mammals(folder: Path | None = None) -> np.ndarray:
    """Return WordNet's mammals, embedded in the Poincaré disk.

    Parameters
    ----------
    folder : Path, optional
        The folder with the data sets.
    """
    return np.asarray(load_dataset("mammals", folder))
