"""Error bars and tests on what is released: confidence regions from certificates, and private permutation tests."""

from curvedp.inference.hypotheses import PermutationTest, k_sample_test, paired_test, two_sample_test
from curvedp.inference.lines import LineRegion
from curvedp.inference.region import components_of, consistent, radii_of, region_of, simultaneous
from curvedp.inference.shapes import Region

__all__ = [
    "LineRegion",
    "PermutationTest",
    "Region",
    "components_of",
    "consistent",
    "k_sample_test",
    "paired_test",
    "radii_of",
    "region_of",
    "simultaneous",
    "two_sample_test",
]
