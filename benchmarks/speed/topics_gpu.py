"""Private k-means on arrays of PyTorch or JAX where they lie, beside Lloyd's algorithm.

    python -m benchmarks.topics_gpu [--library torch] [--n 1000000] [--clusters 50 1000]

The records are vectors of 384 numbers in single precision, of any length, drawn about
random centers. The yardstick is Lloyd's algorithm without privacy: the same library,
device and records, in single precision, with as many passes over the records as the
release makes. A pass takes the direction of each row, finds the nearest center, and
adds up each cluster.

The output has the seconds of both, the seconds of each stage, and whether the device
released the same integers as the host does from the same random numbers.
docs/evidence/topics.md shows it.
"""

import argparse
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

from curvedp.geometry import Sphere
from curvedp.mechanisms.staged.kmeans import KMeansMechanism
from curvedp.numerics.arrays import like, namespace, to_host
from curvedp.numerics.threads import blocks
from curvedp.privacy import GDP
from curvedp.randomness import GeneratorSource
from curvedp.records.base import Records, open_records
from curvedp.statistics.clusters import Clusters

_SIZE = 384
# The deviation of each coordinate about a center, whose coordinates have deviation 1.
_SPREAD = 0.7
# How many records Lloyd's algorithm reads at once: as many as the release does.
_BLOCK = 1 << 16


def to_torch(X: np.ndarray) -> Any:
    """Return a tensor, on a GPU if there is one."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.asarray(X, device=device)


def to_jax(X: np.ndarray) -> Any:
    """Return an array of JAX on its first device."""
    import jax

    return jax.block_until_ready(jax.device_put(X, jax.devices()[0]))


LIBRARIES: dict[str, Callable[[np.ndarray], Any]] = {"torch": to_torch, "jax": to_jax}


def embeddings(n: int, n_clusters: int) -> np.ndarray:
    """Return rows about random centers, in single precision."""
    rng = np.random.default_rng(1)
    centers = rng.standard_normal((n_clusters, _SIZE), dtype=np.float32)
    X = np.empty((n, _SIZE), dtype=np.float32)
    for block in blocks(n, _BLOCK):
        noise = rng.standard_normal(X[block].shape, dtype=np.float32)
        labels = rng.integers(n_clusters, size=len(noise))
        X[block] = centers[labels] + _SPREAD * noise
    return X


def lloyd(X: Any, n_clusters: int, passes: int) -> np.ndarray:
    """Return centers after steps of Lloyd's algorithm for directions, without privacy.

    Parameters
    ----------
    X : array, shape (n, size)
        The records, in an array of any library. The first ones are initial centers.
    n_clusters : int
        The number of clusters.
    passes : int
        The number of steps, each of which reads all records.
    """
    xp = namespace(X)
    n_records, size = X.shape
    centers = _directions(X[:n_clusters, ...])
    clusters = like(X, np.arange(n_clusters))
    for _ in range(passes):
        sums = like(X, np.zeros((n_clusters, size)))
        for block in blocks(n_records, _BLOCK):
            units = _directions(X[block, ...])
            labels = xp.argmax(units @ centers.T, axis=1)
            membership = xp.astype(clusters[:, None] == labels[None, :], X.dtype)
            sums = sums + membership @ units
        centers = _directions(sums)
    return to_host(centers)


def _directions(rows: Any) -> Any:
    """Return each row divided by its length; a row of zeros stays as it is."""
    xp = namespace(rows)
    lengths = xp.sqrt(xp.sum(rows * rows, axis=1, keepdims=True))
    return rows / xp.clip(lengths, min=1e-30)


def release(X: Any, n_clusters: int, source: Any = None) -> Any:
    """Release clusters, and return the mechanism's release."""
    statistic = Clusters(Sphere(_SIZE - 1), None, 1.0, n_clusters, None, X.shape[0])
    mechanism = KMeansMechanism.calibrate(statistic, GDP(1.0))
    records = open_records(X, (_SIZE,))
    return mechanism.release(records, source=source)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return how long some work takes, in seconds, and its result."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


class StageClock:
    """Measures how long each pass over the records takes, inside a `with` block.

    Attributes
    ----------
    seconds : list of float
        Of each call of `Records.sums_in_place` and `Records.project_once`, in order.
    """

    def __init__(self, kind: type[Records]) -> None:
        self.seconds: list[tuple[str, float]] = []
        self._kind: Any = kind

    def __enter__(self) -> "StageClock":
        """Replace the methods of the class by ones that take the time."""
        self._originals = (self._kind.sums_in_place, self._kind.project_once)

        def measure(name: str, method: Any) -> Any:
            def measured(records: Any, *arguments: Any) -> Any:
                seconds, result = timed(lambda: method(records, *arguments))
                self.seconds.append((name, seconds))
                return result

            return measured

        self._kind.sums_in_place = measure("sum", self._originals[0])
        self._kind.project_once = measure("project", self._originals[1])
        return self

    def __exit__(self, *error: object) -> None:
        """Restore the methods."""
        self._kind.sums_in_place, self._kind.project_once = self._originals


def report(X: Any, n_clusters: int, repeats: int) -> None:
    """Print the seconds of the release and of Lloyd's algorithm.

    Parameters
    ----------
    X : array, shape (n, size)
        The records on the device.
    n_clusters : int
        The number of clusters.
    repeats : int
        How often each is run; the medians are printed.
    """
    small = X[: 4 * _BLOCK, ...]
    passes = len(release(small, n_clusters).certificate.release["stages"])
    lloyd(small, n_clusters, 2)
    private = [timed(lambda: release(X, n_clusters))[0] for _ in range(repeats)]
    public = [timed(lambda: lloyd(X, n_clusters, passes))[0] for _ in range(repeats)]
    few = X[: 20 * n_clusters, ...]
    fixed = min(timed(lambda: release(few, n_clusters))[0] for _ in range(2))
    ratio = np.median(private) / np.median(public)
    print(
        f"| {X.shape[0]:,} | {n_clusters} | {passes} | {np.median(private):.3f} | "
        f"{fixed:.3f} | {np.median(public):.3f} | {ratio:.1f} |",
        flush=True,
    )
    with StageClock(type(open_records(X, (_SIZE,)))) as clock:
        release(X, n_clusters)
    stages = ", ".join(f"{name} {seconds:.3f}" for name, seconds in clock.seconds)
    print(f"  seconds of the passes: {stages}", flush=True)


def compare_with_host(X: np.ndarray, on_device: Any, n_clusters: int) -> None:
    """Print whether host and device release the same integers.

    Parameters
    ----------
    X : array, shape (n, size)
        Records on the host.
    on_device : array
        The same records on the device.
    n_clusters : int
        The number of clusters.
    """
    releases = [
        release(
            records, n_clusters, GeneratorSource(np.random.default_rng(3))
        ).certificate.release
        for records in (X, on_device)
    ]
    is_same = releases[0]["integers"] == releases[1]["integers"]
    print(f"same integers as on the host, n = {len(X):,}: {'yes' if is_same else 'NO'}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    installed = [name for name in LIBRARIES if find_spec(name) is not None]
    parser.add_argument("--library", choices=[*LIBRARIES], nargs="+", default=installed)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--clusters", type=int, nargs="+", default=[50, 200, 1000])
    parser.add_argument("--compared", type=int, default=50_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()

    X = embeddings(options.n, 50)
    for library in options.library:
        on_device = LIBRARIES[library](X)
        print(f"\n{library} on {on_device.device}\n", flush=True)
        first = slice(0, options.compared)
        compare_with_host(X[first], on_device[first, ...], 50)
        print("\n| n | k | passes | release, s | of it at any n | Lloyd, s | ratio |")
        print("|---" * 7 + "|")
        for n_clusters in options.clusters:
            report(on_device, n_clusters, options.repeats)
        del on_device


if __name__ == "__main__":
    main()
