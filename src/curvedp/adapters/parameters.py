"""Gradients of torch's parameters, on geoopt's manifolds among others, in orthonormal coordinates (needs torch)."""

from typing import Any

import numpy as np

from curvedp.adapters.geoopt import from_geoopt
from curvedp.geometry import Euclidean


class Framed:
    """A parameter of torch with an orthonormal frame of our manifold there."""

    def __init__(self, parameter: Any) -> None:
        self.parameter, theirs = parameter, getattr(parameter, "manifold", None)
        flat = theirs is None or type(theirs).__name__ == "Euclidean"
        self.space = Euclidean(parameter.numel()) if flat else from_geoopt(theirs, tuple(parameter.shape))

    @property
    def _at(self) -> np.ndarray:
        values = self.parameter.detach().cpu().double().numpy()
        return np.asarray(self.space.project(values.reshape(self.space.point_shape)))

    def coordinates(self, gradients: Any) -> np.ndarray:
        """Riemannian gradients, each of its own record alone, given ordinary ones."""
        if hasattr(self.parameter, "manifold"):  # some write into their argument
            gradients = self.parameter.manifold.egrad2rgrad(self.parameter.detach(), gradients.clone())
        rows = gradients.detach().cpu().double().numpy().reshape(-1, *self.space.point_shape)
        with np.errstate(all="ignore"):
            return np.asarray(self.space.to_coordinates(self._at, rows))

    def assign(self, coordinates: np.ndarray) -> None:
        """The ordinary gradient whose Riemannian one has these coordinates: the derivative of w -> <v, w>."""
        import torch

        at = self.parameter.detach()
        v = torch.as_tensor(np.asarray(self.space.from_coordinates(self._at, coordinates))).reshape(at.shape).to(at)
        if hasattr(self.parameter, "manifold"):
            w = torch.zeros_like(v, requires_grad=True)
            (v,) = torch.autograd.grad(self.parameter.manifold.inner(at, v, w).sum(), w)
        self.parameter.grad = v


def size(framed: list[Framed]) -> tuple[int, Any]:
    """Dimensions in all, and the roughest kind of float."""
    kinds = [np.finfo(each.parameter.detach().cpu().numpy().dtype) for each in framed]
    return sum(each.space.dim for each in framed), max(kinds, key=lambda kind: kind.eps).dtype


def clipped_sum(framed: list[Framed], gradients: list[Any], clip: float) -> np.ndarray:
    """The sum of the records' gradients, each of length at most `clip` over all parameters; 0 where it is not finite."""
    rows = np.concatenate([each.coordinates(part) for each, part in zip(framed, gradients, strict=True)], axis=1)
    rows[~np.isfinite(rows).all(axis=1)] = 0.0
    with np.errstate(over="ignore"):  # a data-dependent warning is a release; a length that overflows is scaled to 0
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray((rows * np.minimum(1.0, clip / np.maximum(lengths, clip))).sum(axis=0))


def assign(framed: list[Framed], coordinates: np.ndarray) -> None:
    """A gradient over all parameters, to each its part."""
    ends = np.cumsum([each.space.dim for each in framed])[:-1]
    for each, part in zip(framed, np.split(coordinates, ends), strict=True):
        each.assign(part)
