"""What Dask costs: the private mean of 3×3 tensors on two worker processes, against one process with the array in memory.

    OMP_NUM_THREADS=1 python -m benchmarks.distributed             overhead at 10⁷ tensors, memory from 10⁵ to 10⁷
    OMP_NUM_THREADS=1 python -m benchmarks.distributed --stream    20 times a worker's memory limit streamed through

Both sides use two cores: NumPy by threads, the cluster by two workers of one thread. `cpu` is processor time over all
processes; on a busy machine its ratio is the steadier figure. Peak memory is the kernel's high-water mark of each worker.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, LocalCluster

from curvedp import GDP, Ledger, PrivateFrechetMean
from curvedp.geometry import SPDAffineInvariant

SIZES = (100_000, 1_000_000, 10_000_000)
CHUNK = 250_000
LIMIT = 384 * 2**20  # bytes a worker may hold in the streaming run
M = SPDAffineInvariant(3)


def tensors(seed: int, rows: int) -> np.ndarray:
    """Random SPD matrices about I, nearly all within 1.5 of it."""
    factor = np.eye(3) + 0.15 * np.random.default_rng(seed).standard_normal(
        (rows, 3, 3)
    )
    return factor @ factor.mT


def stored(folder: Path, n: int) -> Path:
    """n tensors in one npy file, written chunk by chunk."""
    path = folder / f"{n}.npy"
    file = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=(n, 3, 3))
    for seed, start in enumerate(range(0, n, CHUNK)):
        file[start : start + CHUNK] = tensors(seed, len(file[start : start + CHUNK]))
    file.flush()
    return path


def load(path: str, start: int) -> np.ndarray:
    return np.array(np.lib.format.open_memmap(path, mode="r")[start : start + CHUNK])


def opened(path: Path, n: int) -> da.Array:
    """The file as a dask array that workers read piece by piece."""
    pieces = [
        da.from_delayed(
            dask.delayed(load)(str(path), start),
            (min(CHUNK, n - start), 3, 3),
            np.float64,
        )
        for start in range(0, n, CHUNK)
    ]
    return da.concatenate(pieces)


def two_workers(limit: int) -> LocalCluster:
    """Of one thread each, without dask's profiler: it keeps an hour of samples, about 100 KiB for each second of work."""
    with dask.config.set({"distributed.worker.profile.enabled": False}):
        return LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit=limit,
            dashboard_address=":0",
        )


def fit(X: Any, ledger: Ledger | None = None) -> np.ndarray:
    private = PrivateFrechetMean(
        M, radius=1.5, guarantee=GDP(1.0), mechanism="tangent-gaussian", ledger=ledger
    )
    return private.fit(X).location_


def spent(client: Client | None) -> float:
    """Processor seconds of this process and of the workers."""
    workers = sum(client.run(time.process_time).values()) if client is not None else 0.0
    return time.process_time() + workers


def timed(
    X: Any, client: Client | None = None, ledger: Ledger | None = None
) -> tuple[float, float]:
    cpu, wall = spent(client), time.perf_counter()
    fit(X, ledger)
    return time.perf_counter() - wall, spent(client) - cpu


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak() -> float:
    """MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return (
        int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
    )


def spilled(dask_worker: Any) -> float:
    """Bytes that a worker has written to disk for want of memory, since it started."""
    metrics = dask_worker.data.cumulative_metrics
    return sum(
        value
        for (label, unit), value in metrics.items()
        if label == "disk-write" and unit == "bytes"
    )


def pauses(client: Client) -> int:
    """How often a worker stopped taking tasks for want of memory: it logs each time."""
    return sum(
        "Pausing worker" in line
        for log in client.get_worker_logs().values()
        for _, line in log
    )


def overhead() -> None:
    print(
        f"{'n':>10} {'one process':>16} {'two workers':>16} {'ratio':>14} {'peak MiB a worker':>20}"
    )
    print(
        f"{'':>10} {'wall     cpu':>16} {'wall     cpu':>16} {'wall    cpu':>14} {'before    during':>20}"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        two_workers(2**30) as cluster,
        Client(cluster) as client,
    ):
        for n in SIZES:
            path = stored(Path(folder), n)
            data, lazy = (
                np.array(np.lib.format.open_memmap(path, mode="r")),
                opened(path, n),
            )
            fit(data[:1000])  # what is imported or set up once
            fit(lazy[:1000])
            client.run(reset_peak)
            before = max(client.run(peak).values())
            cluster_wall, cluster_cpu = timed(lazy, client)
            during = max(client.run(peak).values())
            with dask.config.set(scheduler="synchronous"):
                wall, cpu = timed(data)
            print(
                f"{n:>10} {wall:7.2f}s {cpu:7.2f}s {cluster_wall:7.2f}s {cluster_cpu:7.2f}s "
                f"{cluster_wall / wall:6.2f} {cluster_cpu / cpu:6.2f} {before:10.0f} {during:9.0f}",
                flush=True,
            )
            path.unlink()


def stream(times: int) -> None:
    rows = 100_000
    groups = times * LIMIT // (72 * rows) + 1
    pieces = [
        da.from_delayed(dask.delayed(tensors)(seed, rows), (rows, 3, 3), np.float64)
        for seed in range(groups)
    ]
    X = da.concatenate(pieces)
    print(
        f"{X.nbytes / 2**30:.2f} GiB a pass ({len(X)} tensors), {times} times the {LIMIT / 2**20:.0f} MiB of a worker",
        flush=True,
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        two_workers(LIMIT) as cluster,
        Client(cluster) as client,
    ):
        ledger = Ledger(Path(folder) / "stream.ledger", GDP(2.0))
        fit(X[:1000])
        pids = set(client.run(os.getpid).values())
        client.run(reset_peak)
        before = max(client.run(peak).values())
        wall, cpu = timed(X, client, ledger)
        highest, same = (
            max(client.run(peak).values()),
            set(client.run(os.getpid).values()) == pids,
        )
        written = sum(client.run(spilled).values())
        print(
            f"wall {wall:.1f} s, cpu {cpu:.1f} s, peak {before:.0f} -> {highest:.0f} MiB a worker of {LIMIT / 2**20:.0f}"
        )
        print(
            f"no worker restarted: {same}; pauses: {pauses(client)}; bytes spilled: {written:.0f}"
        )
        print(f"entries in the ledger: {len(ledger.entries)}, {ledger.spent}")


if __name__ == "__main__":
    if "--stream" in sys.argv:
        stream(
            int(sys.argv[sys.argv.index("--stream") + 1]) if len(sys.argv) > 2 else 20
        )
    else:
        overhead()
