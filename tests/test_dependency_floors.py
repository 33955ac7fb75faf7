"""The lowest versions that we allow have no hole that is known and that we know of."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# The first version without the hole, and the hole. A new advisory is a new line here.
REASONS = {
    "numcodecs": [
        ("0.16.6", "a zarr file names the pickle codec, and its chunks run as code"),
    ],
    "pyarrow": [
        ("14.0.1", "CVE-2023-47248: a parquet file's extension type runs code"),
        ("23.0.1", "CVE-2026-25087: use after free in the reader of Arrow's files"),
    ],
    "starlette": [
        ("0.47.2", "CVE-2025-54121: large uploads block the server"),
        ("0.49.1", "CVE-2025-62727: quadratic time for Range in FileResponse"),
        ("1.0.1", "CVE-2026-48710: a malformed Host header changes request.url.path"),
        ("1.1.0", "CVE-2026-48818: paths of other machines in StaticFiles on Windows"),
        ("1.3.1", "CVE-2026-48817, CVE-2026-54282, CVE-2026-54283"),
    ],
    "h11": [
        ("0.16", "CVE-2025-43859: requests smuggled through chunked bodies"),
    ],
    "cryptography": [
        ("44.0.1", "CVE-2024-12797: OpenSSL in the wheels, raw public keys"),
        ("46.0.5", "CVE-2026-26007: points of elliptic curves outside their subgroup"),
        ("46.0.6", "CVE-2026-34073"),
        # CVE-2026-69247 (fixed in 50) is about decryption with RSA, which is not used here;
        # Flower, for the extra "federated", asks for cryptography < 47.
        ("46.0.7", "CVE-2026-39892"),
    ],
    "dask": [
        ("2024.9.0", "CVE-2024-10096: code through pickles that a scheduler is sent"),
        ("2026.1.1", "CVE-2026-23528: scripts in the dashboard's pages"),
    ],
    "scikit-learn": [
        ("1.5.0", "CVE-2024-5206: texts of the data are kept in a fitted vectorizer"),
    ],
}  # fmt: skip


def version(text):
    """A version as numbers that can be compared."""
    return tuple(int(part) for part in re.match(r"[0-9.]*[0-9]", text)[0].split("."))


def floors(requirements):
    """The lowest version allowed of each package, where requirements say one."""
    found = {}
    for requirement in requirements:
        name, _, bounds = re.match(r"([\w-]+)(\[.*\])?(.*)", requirement).groups()
        lowest = re.search(r">=\s*([0-9.]+)", bounds)
        if lowest:
            found.setdefault(name.lower(), []).append(lowest[1])
    return found


def declared():
    """All requirements, without those of this project's own extras."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return [line for each in lists for line in each if not line.startswith("curvedp[")]


def too_low(requirements):
    """The packages whose lowest version has a hole, or is not said."""
    found = floors(requirements)
    return {
        name
        for name, holes in REASONS.items()
        for first_good, _ in holes
        if name not in found
        or any(version(lowest) < version(first_good) for lowest in found[name])
    }


def test_no_lowest_version_has_a_known_hole():
    assert too_low(declared()) == set()


def test_the_bounds_that_were_reported_are_found():
    """Those of 0.2.0: zarr without numcodecs, and starlette from 0.46 on."""
    old = ["cryptography>=44", "dask[array,distributed]>=2025.1", "scikit-learn>=1.6",
           "nibabel>=5.3", "pyarrow>=17", "zarr>=3", "starlette>=0.46", "uvicorn>=0.34"]  # fmt: skip
    expected = {"cryptography", "dask", "h11", "numcodecs", "pyarrow", "starlette"}
    assert too_low(old) == expected


def test_every_requirement_has_a_lowest_version():
    assert {re.match(r"[\w-]+", line)[0].lower() for line in declared()} == set(
        floors(declared())
    )


@pytest.mark.parametrize("name", ["constraints.txt", "constraints.hashed.txt"])
def test_pinned_versions_are_within_the_bounds(name):
    lines = (ROOT / name).read_text().splitlines()
    pins = dict(
        re.match(r"([\w.-]+)==([^\s;\\]+)", line).groups()
        for line in lines
        if re.match(r"[\w.-]+==", line)
    )
    for package, lowest in floors(declared()).items():
        if package != "flwr":  # which has an environment of its own
            assert all(version(pins[package]) >= version(each) for each in lowest)
    for package, holes in REASONS.items():
        assert all(version(pins[package]) >= version(good) for good, _ in holes)
