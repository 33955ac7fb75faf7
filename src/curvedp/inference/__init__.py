"""Confidence regions for released values, and private hypothesis tests.
Confidence regions follow from certificates alone, without data and without budget.
Permutation tests are private releases of their own.
"""

from curvedp.inference.hypotheses import k_sample_test, paired_test, two_sample_test
from curvedp.inference.lines import LineRegion
from curvedp.inference.region import consistent, region_of
from curvedp.inference.shapes import Region
from curvedp.inference.synthetic import SyntheticEstimate, combine_synthetic

__all__ = [
    "LineRegion",
    "Region",
    "SyntheticEstimate",
    "combine_synthetic",
    "consistent",
    "k_sample_test",
    "paired_test",
    "region_of",
    "two_sample_test",
]
