"""Standard normals from a stream of random words, fast: the ziggurat on whole arrays.

The method (Marsaglia & Tsang 2000). The half-density is covered by 256 layers of equal
area. A word chooses a layer and a point x of its width; below the next layer's width x
lies under the curve and is accepted (98.8% of the words). Otherwise it may lie in the
layer's wedge, where a second uniform decides; a point above the curve is drawn again
from the start. The surplus of the bottom layer is the tail, drawn from its own law.
Layer and point come from different bits (Doornik 2005). Points have 55 bits with their
sign: the float path, like `Source.normal`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from curvedp.randomness import Source

_LAYERS = 256

# How many words are processed at a time, so that intermediate arrays stay in the cache.
_CHUNK_SIZE = 1 << 14


def _curve(x: Any) -> Any:
    """Return e^{−x²/2}, the density of the standard normal without its factor 1/√(2π).

    Parameters
    ----------
    x : float or array
        Real numbers.

    Returns
    -------
    float or array
        Numbers from 0 to 1; the curve under which the layers of the ziggurat are laid.
    """
    return np.exp(-0.5 * np.square(x))


# Where the tail begins so that 256 equal areas close at height 1 (Marsaglia & Tsang
# 2000); they do to 1e-12. The area of a layer follows.
_TAIL_START = 3.6541528853610088
_LAYER_AREA = _TAIL_START * _curve(_TAIL_START) + np.sqrt(2 * np.pi) * ndtr(
    -_TAIL_START
)


def _layer_widths() -> np.ndarray:
    """Return the widths of the 256 layers from the bottom to the top, then 0.

    Every layer has the same area. A layer that begins at the height e^{−x²/2} has the
    width x, and ends where this area is used up; there the next one begins. The bottom
    layer has the tail beyond its width in place of a rectangle; it counts as wide as a
    rectangle of its area.

    Returns
    -------
    array of shape (257,)
        Decreasing widths.
    """
    widths = [_LAYER_AREA / _curve(_TAIL_START), _TAIL_START]
    while len(widths) < _LAYERS:
        height = _LAYER_AREA / widths[-1] + _curve(widths[-1])
        widths.append(np.sqrt(-2 * np.log(height)))
    return np.array([*widths, 0.0])


_WIDTHS = _layer_widths()

# A signed integer of 56 bits times this is a point of the layer.
_POINT_SPACING = _WIDTHS[:-1] * 2.0**-55

# Below this width a point of the layer is certainly under the curve.
_INNER_WIDTHS = _WIDTHS[1:]

# The height at which each layer begins; the bottom layer stands on the axis.
_HEIGHTS = _curve(_WIDTHS)
_HEIGHTS[0] = 0.0


class _Undecided(NamedTuple):
    """Points that may lie above the curve: their places in the output, and their layers."""

    places: np.ndarray
    layers: np.ndarray


def ziggurat_normals(source: Source, shape: tuple[int, ...]) -> np.ndarray:
    """Draw standard normals by the ziggurat method, every bit from `source`.

    First every number is a random point of a random layer. The few points that may lie
    above the curve are then decided, all at once.

    Parameters
    ----------
    source : Source
        The random bits.
    shape : tuple of int
        The shape of the result.

    Returns
    -------
    array of float64
        Independent normals.
    """
    normals = np.empty(int(np.prod(shape)))
    undecided = [
        _fill(source, normals[start : start + _CHUNK_SIZE], start)
        for start in range(0, normals.size, _CHUNK_SIZE)
    ]
    if undecided:
        places = np.concatenate([part.places for part in undecided])
        layers = np.concatenate([part.layers for part in undecided])
        _decide(source, normals, _Undecided(places, layers))
    return normals.reshape(shape)


def _fill(source: Source, out: np.ndarray, offset: int) -> _Undecided:
    """Fill `out` with proposals, each a point of a random layer.

    Parameters
    ----------
    source : Source
        The random bits.
    out : array
        A part of the output; it is overwritten.
    offset : int
        Where `out` begins in the whole output.

    Returns
    -------
    _Undecided
        The proposals that may lie above the curve.
    """
    # The last 8 bits of a word choose one of 256 layers; the other 56, as a signed
    # integer, choose a point of its width, to the left or the right of 0.
    words = source.words(out.shape).view(np.int64)
    layers = (words & (_LAYERS - 1)).astype(np.intp)
    np.multiply((words >> 8) + 0.5, np.take(_POINT_SPACING, layers), out=out)
    undecided = np.flatnonzero(np.abs(out) >= np.take(_INNER_WIDTHS, layers))
    return _Undecided(undecided + offset, layers[undecided])


def _decide(source: Source, normals: np.ndarray, undecided: _Undecided) -> None:
    """Settle the undecided proposals in place: accept them or replace them.

    A point of a wedge that lies under the curve is accepted; one above it is drawn
    again. A point of the bottom layer beyond its width is replaced by a draw from the
    tail.

    Parameters
    ----------
    source : Source
        The random bits.
    normals : array
        The whole output; it is overwritten at the undecided places.
    undecided : _Undecided
        The places of these proposals in the output, and their layers.
    """
    places, layers = undecided
    if not len(places):
        return

    # A wedge: a uniform height within the layer, which must lie under the curve.
    x = normals[places]
    bottom = _HEIGHTS[layers]
    top = _HEIGHTS[layers + 1]
    is_under_curve = bottom + source.uniform(x.shape) * (top - bottom) < _curve(x)

    rejected = np.flatnonzero(~is_under_curve & (layers > 0))
    x[rejected] = ziggurat_normals(source, rejected.shape)

    # The tail: its probability is uniform below that of its beginning.
    tail = np.flatnonzero(layers == 0)
    tail_probability = source.uniform(tail.shape, full_precision=True) * ndtr(
        -_TAIL_START
    )
    x[tail] = np.sign(x[tail]) * -ndtri(tail_probability)
    normals[places] = x
