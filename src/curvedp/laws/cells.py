"""Former names, for callers that have not been renamed yet."""

from curvedp.laws.knorm.cells import LipschitzRejectionSampler as CellSampler
from curvedp.laws.knorm.cells import LocalLipschitzBounds as LocalConstants

__all__ = ["CellSampler", "LocalConstants"]
