"""Error bars and tests on what is released: confidence regions from certificates, and private permutation tests."""

from curvedp.inference.region import Region, region_of
from curvedp.inference.two_sample import PermutationTest, paired_test, two_sample_test

__all__ = ["PermutationTest", "Region", "paired_test", "region_of", "two_sample_test"]
