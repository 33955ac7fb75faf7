"""Standard normals from a stream of random words, fast: the ziggurat of Marsaglia & Tsang (2000) on whole arrays.

The half-density is covered by 256 layers of equal area v. A word chooses a layer and a point x of its width; below the next
layer's width x lies under the curve and is kept (98.8% of the words). Otherwise it may lie in the layer's wedge, where a
second uniform decides; a point above the curve is drawn again from the start. The bottom layer's surplus is the tail,
drawn from its own law. Layer and point come from different bits (Doornik 2005). Points have 55 bits with their sign: the
float path, like `Source.normal`.
"""

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from curvedp.entropy import Source

_LAYERS = 256
_PIECE = (
    1 << 14
)  # words at a time: their intermediate arrays stay in the processor's cache


def _curve(x: Any) -> Any:
    return np.exp(-0.5 * np.square(x))


# Where the tail begins so that 256 equal areas close at height 1 (Marsaglia & Tsang 2000); they do to 1e-12.
_EDGE = 3.6541528853610088
_AREA = _EDGE * _curve(_EDGE) + np.sqrt(2 * np.pi) * ndtr(-_EDGE)


def _widths() -> np.ndarray:
    """Widths of the layers from the bottom (as wide as a rectangle of its area) to the top, then 0."""
    widths = [_AREA / _curve(_EDGE), _EDGE]
    while len(widths) < _LAYERS:
        widths.append(np.sqrt(-2 * np.log(_AREA / widths[-1] + _curve(widths[-1]))))
    return np.array([*widths, 0.0])


_WIDTHS = _widths()
_SCALE = (
    _WIDTHS[:-1] * 2.0**-55
)  # a signed 56-bit whole number times this is a point of the layer
_INSIDE = _WIDTHS[1:]
_HEIGHTS = _curve(_WIDTHS)
_HEIGHTS[0] = 0.0  # the bottom layer stands on the axis


def ziggurat_normals(source: Source, shape: tuple[int, ...]) -> np.ndarray:
    """Standard normals of the given shape, every bit from `source`."""
    out = np.empty(int(np.prod(shape)))
    looks = [_fill(source, out[i : i + _PIECE], i) for i in range(0, out.size, _PIECE)]
    if looks:
        _second_look(
            source, out, *(np.concatenate(part) for part in zip(*looks, strict=True))
        )
    return out.reshape(shape)


def _fill(source: Source, out: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
    """A point of a random layer in every place; where (counted from `first`) it may lie above the curve, and its layer."""
    words = source.words(out.shape).view(np.int64)
    layer = (words & (_LAYERS - 1)).astype(np.intp)
    np.multiply((words >> 8) + 0.5, np.take(_SCALE, layer), out=out)
    odd = np.flatnonzero(np.abs(out) >= np.take(_INSIDE, layer))
    return odd + first, layer[odd]


def _second_look(
    source: Source, out: np.ndarray, odd: np.ndarray, layer: np.ndarray
) -> None:
    """Keep the points under the curve, draw the others again; the bottom layer's surplus is the tail."""
    if not len(odd):
        return
    x, low, high = out[odd], _HEIGHTS[layer], _HEIGHTS[layer + 1]
    keep = low + source.uniform(x.shape) * (high - low) < _curve(x)
    fresh = np.flatnonzero(~keep & (layer > 0))
    x[fresh] = ziggurat_normals(source, fresh.shape)
    tail = np.flatnonzero(layer == 0)
    x[tail] = np.sign(x[tail]) * -ndtri(
        source.uniform(tail.shape, full_precision=True) * ndtr(-_EDGE)
    )
    out[odd] = x
