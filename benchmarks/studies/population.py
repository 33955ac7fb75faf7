"""Do the regions of the population hold it? Bootstrap worlds of real data sets.

    python -m benchmarks.population --data-dir DATA

(or CURVEDP_DATA=DATA python -m benchmarks.population). The records of a data set are the
population of a world, and n independent draws of them are its sample. For each data set
the table shows n, the dimension, the guarantee, and

- in which share of the worlds there is a region (there is none where the ball that was
  found is so wide that the mean need not be unique);
- where there is one, how often the 95% region of the population holds the Fréchet mean of all records,
  clipped or not;
- how often the 95% region of the records does, which is made for the sample's mean;
- the width: the median radius of the region of the population, as a multiple of the
  region without privacy, which is the 95% quantile of the distances between the means of
  samples and of the population.

`docs/evidence/coverage.md` shows the output.
"""

import argparse
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.predictions import DataSet, data_sets
from curvedp import GDP, ApproxDP, PrivateFrechetMean, ReleaseWarning
from curvedp.errors import ParameterError
from curvedp.geometry import frechet_mean
from curvedp.privacy import Guarantee

GUARANTEES: tuple[Guarantee, ...] = (GDP(1.0), ApproxDP(1.0, 1e-6))

# Data sets with at least 200 records, in up to ten dimensions, whose mean is unique.
NAMES = (
    "diffusion tensors small_64D",
    "diffusion tensors small_101D",
    "storms, first fixes",
    "earthquakes",
    "wrist",
    "bio-diseasome, Poincaré ball",
)


# Samples from which the region without privacy is computed: the standard error of a 95%
# quantile of so many distances is about 3% of it.
NONPRIVATE_SAMPLES = 400


class Coverage(NamedTuple):
    """How a region does in the worlds of one data set."""

    exists: float
    of_population: float
    of_records: float
    width: float


def coverage(data: DataSet, guarantee: Guarantee, worlds: int) -> Coverage:
    """Draw samples, release their means, and ask whether regions hold the population's.

    A world in which there is no region counts for `exists` alone.
    """
    manifold, records = data.manifold, data.records
    mean = np.asarray(frechet_mean(manifold, records))
    rng = np.random.default_rng(0)
    model = PrivateFrechetMean(manifold, radius="private", guarantee=guarantee)
    is_held: dict[str, list[bool]] = {"population": [], "records": []}
    radii = []
    for _ in range(worlds):
        sample = records[rng.integers(len(records), size=len(records))]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReleaseWarning)
            model.fit(sample)
        for target, held in is_held.items():
            try:
                region = model.confidence_region(0.95, of=target)
            except ParameterError:
                continue
            held.append(bool(manifold.dist(region.center, mean) <= region.radius))
            if target == "population":
                radii.append(region.radius)
    nonprivate_radius = _nonprivate_radius(data, mean, rng)
    width = float(np.median(radii)) / nonprivate_radius if radii else float("inf")
    return Coverage(
        exists=len(radii) / worlds,
        of_population=float(np.mean(is_held["population"])),
        of_records=float(np.mean(is_held["records"])),
        width=width,
    )


def _nonprivate_radius(
    data: DataSet, mean: np.ndarray, rng: np.random.Generator
) -> float:
    """Return the 95% quantile of the distances of means of samples from the mean."""
    manifold, records = data.manifold, data.records
    errors = np.empty(NONPRIVATE_SAMPLES)
    for i in range(NONPRIVATE_SAMPLES):
        sample = records[rng.integers(len(records), size=len(records))]
        errors[i] = float(manifold.dist(mean, frechet_mean(manifold, sample)))
    return float(np.quantile(errors, 0.95))


def table(folder: Path, worlds: int, only: str) -> Iterator[str]:
    """Yield the rows of the table."""
    yield (
        "| data | n | dim | guarantee | has a region | holds the population's mean | "
        "the records' region does | width |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for data in data_sets(folder):
        if data.name not in NAMES or only not in data.name:
            continue
        for guarantee in GUARANTEES:
            found = coverage(data, guarantee, worlds)
            yield (
                f"| {data.name} | {len(data.records)} | {data.manifold.dim} | "
                f"{guarantee} | {found.exists:.2f} | {found.of_population:.3f} | {found.of_records:.3f} | "
                f"{found.width:.2f} |"
            )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("CURVEDP_DATA"))
    parser.add_argument("--worlds", type=int, default=300)
    parser.add_argument("--only", default="", help="part of a data set's name")
    given = parser.parse_args()
    if given.data_dir is None:
        parser.error("name the data folder: --data-dir or CURVEDP_DATA")
    for line in table(Path(given.data_dir), given.worlds, given.only):
        print(line, flush=True)


if __name__ == "__main__":
    main()
