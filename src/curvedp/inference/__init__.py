"""Error bars and tests on what is released: confidence regions from certificates, and private permutation tests."""

from curvedp.inference.region import Region, region_of

__all__ = ["Region", "region_of"]
