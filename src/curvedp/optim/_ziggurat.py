"""Standard normals from a stream of random words by the ziggurat method, on whole
arrays. The area under the right half of the density is covered by 256 horizontal layers
of equal area, stacked like a ziggurat, wide at the bottom (Marsaglia & Tsang 2000). A
random word chooses a layer and a point x of its width.

If x is less than the width of the next layer, it lies under the curve and is accepted;
that happens to 98.8% of the words. Otherwise x lies in the wedge at the end of the
layer, part of which is above the curve. A second uniform number, a height in the layer,
decides, and a point above the curve is drawn again from the start. What the bottom layer
has beyond its rectangle is the tail of the density, and is drawn from the distribution
of the tail. Layer and point come from different bits (Doornik 2005). Points have 55 bits
with their sign, like those of `Source.normal`.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from curvedp.randomness import Source

# The number of layers.
_LAYERS = 256

# How many words are processed at a time: intermediate arrays then stay in the cache.
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

    All layers have the same area. A layer whose lower edge is at the height e^{−x²/2}
    has the width x, and its upper edge is where a rectangle of this width has the area.
    The bottom layer consists of a rectangle and the tail beyond it; its width is that
    of one rectangle of the same area.

    Returns
    -------
    array of shape (257,)
        Decreasing widths.
    """
    widths = [_LAYER_AREA / _curve(_TAIL_START), _TAIL_START]
    while len(widths) < _LAYERS:
        # The upper edge of the layer before, which is the lower edge of this one.
        height = _LAYER_AREA / widths[-1] + _curve(widths[-1])
        widths.append(np.sqrt(-2 * np.log(height)))
    return np.array([*widths, 0.0])


_WIDTHS = _layer_widths()

# A signed integer of 56 bits times this is a point of the layer.
_POINT_SPACING = _WIDTHS[:-1] * 2.0**-55

# A point of the layer that is nearer to 0 than this is certainly under the curve.
_INNER_WIDTHS = _WIDTHS[1:]

# The height at which each layer begins; the bottom layer stands on the axis.
_HEIGHTS = _curve(_WIDTHS)
_HEIGHTS[0] = 0.0


class _Undecided(NamedTuple):
    """Points that may lie above the curve: their indices in the output, and their layers."""

    indices: np.ndarray
    layers: np.ndarray


def ziggurat_normals(source: Source, shape: tuple[int, ...]) -> np.ndarray:
    """Draw standard normals by the ziggurat method, with all random bits from `source`.

    First every number is a random point of a random layer. Then the few points that may
    lie above the curve are accepted or replaced, all at once.

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
        indices = np.concatenate([chunk.indices for chunk in undecided])
        layers = np.concatenate([chunk.layers for chunk in undecided])
        _settle_undecided(source, normals, _Undecided(indices, layers))
    return normals.reshape(shape)


def _fill(source: Source, out: np.ndarray, offset: int) -> _Undecided:
    """Fill an array with random points of random layers; most are normals already.

    Called by `ziggurat_normals` for each chunk of the output.

    Parameters
    ----------
    source : Source
        The random bits.
    out : array
        A part of the output; it is overwritten.
    offset : int
        The index in the whole output at which `out` begins.

    Returns
    -------
    _Undecided
        The points that may lie above the curve. All others are normals already.
    """
    # The last 8 bits of a word choose one of 256 layers; the other 56, as a signed
    # integer, choose a point of its width, to the left or the right of 0.
    words = source.words(out.shape).view(np.int64)
    layers = (words & (_LAYERS - 1)).astype(np.intp)
    np.multiply((words >> 8) + 0.5, np.take(_POINT_SPACING, layers), out=out)
    undecided = np.flatnonzero(np.abs(out) >= np.take(_INNER_WIDTHS, layers))
    return _Undecided(undecided + offset, layers[undecided])


def _settle_undecided(
    source: Source, normals: np.ndarray, undecided: _Undecided
) -> None:
    """Accept or replace the undecided points, in place.

    A point of a wedge that lies under the curve is accepted; one above it is drawn
    again. A point of the bottom layer beyond `_TAIL_START` is replaced by a draw from
    the tail.

    Called by `ziggurat_normals` for all chunks together, because few points are
    undecided.

    Parameters
    ----------
    source : Source
        The random bits.
    normals : array
        The whole output; it is overwritten at the undecided indices.
    undecided : _Undecided
        The indices of these points in the output, and their layers.
    """
    indices, layers = undecided
    if not len(indices):
        return

    # A wedge: a uniform height within the layer, which must lie under the curve.
    x = normals[indices]
    bottom = _HEIGHTS[layers]
    top = _HEIGHTS[layers + 1]
    height = bottom + source.uniform(x.shape) * (top - bottom)
    is_under_curve = height < _curve(x)

    # Points of a wedge above the curve are drawn again from the start.
    rejected = np.flatnonzero(~is_under_curve & (layers > 0))
    x[rejected] = ziggurat_normals(source, rejected.shape)

    # The tail: a tail probability that is uniform between 0 and that of its beginning.
    tail = np.flatnonzero(layers == 0)
    uniforms = source.uniform(tail.shape, full_precision=True)
    tail_probability = uniforms * ndtr(-_TAIL_START)
    x[tail] = np.sign(x[tail]) * -ndtri(tail_probability)
    normals[indices] = x
