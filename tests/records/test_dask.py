"""Dask: the same bits for every chunking, on a real cluster, with a worker killed, in little memory; free refusals."""

import os
import signal
import traceback
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from distributed import Client, LocalCluster, wait
from distributed.utils import get_mp_context

from curvedp import GDP, Ledger, PrivateDispersion, PrivateFrechetMean, PrivatePCA
from curvedp.errors import ParameterError
from curvedp.geometry import KendallShapes, Lorentz, SPDAffineInvariant, Sphere
from curvedp.optim import LeadingEigenvectorProblem, dp_rgd
from curvedp.randomness import GeneratorSource
from curvedp.records import from_parquet
from curvedp.release.verify import verify_certificate
from support.rough_records import cloud

TENSORS = SPDAffineInvariant(3)
CHUNKINGS = ((500,), (1, 499), (100, 100, 300), (7,) * 71 + (3,))


def source():
    return GeneratorSource(np.random.default_rng(7))


def chunked(X, sizes):
    return da.from_array(X, chunks=(sizes, *X.shape[1:]))


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


# ---- any chunking ----


@pytest.mark.parametrize(
    "M", [TENSORS, Sphere(2), Lorentz(3), KendallShapes(4)], ids=str
)
def test_the_release_does_not_depend_on_the_chunks(M):
    X = cloud(M, 0.4, 500)

    def release(data, estimator=PrivateFrechetMean):
        return estimator(
            M, radius=0.4, mechanism="tangent-gaussian", source=source()
        ).fit(data)

    means = [release(chunked(X, sizes)).location_ for sizes in CHUNKINGS]
    assert all(np.array_equal(mean, means[0]) for mean in means)
    np.testing.assert_allclose(
        means[0], release(X).location_, atol=1e-7
    )  # in memory: the same, up to the solver's error
    variances = [
        release(chunked(X, sizes), PrivateDispersion).variance_
        for sizes in CHUNKINGS[:2]
    ]
    assert (
        variances[0]
        == variances[1]
        == pytest.approx(release(X, PrivateDispersion).variance_, abs=1e-8)
    )


def test_certificates_of_streamed_means_verify(tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(1.0))
    X = chunked(cloud(TENSORS, 0.4, 500), (250, 250))
    private = PrivateFrechetMean(
        TENSORS, radius=0.4, guarantee=GDP(0.8), ledger=ledger
    ).fit(X)
    assert all(check.holds for check in verify_certificate(private.certificate_))
    assert [entry.guarantee for entry in ledger.entries] == [GDP(0.8)]
    assert private.certificate_.sensitivity > 2 * 0.4 / 500


def test_components_do_not_depend_on_the_chunks_and_are_those_of_memory():
    X = np.random.default_rng(0).normal(size=(500, 4)) * [3.0, 2.0, 1.0, 1.0]
    X[3], X[4] = np.nan, 1e300
    found = [
        PrivatePCA(2, radius=5.0, method="one-shot", source=source())
        .fit(data)
        .components_
        for data in (X, *(chunked(X, sizes) for sizes in CHUNKINGS[:3]))
    ]
    assert all(np.array_equal(components, found[0]) for components in found[1:])


def test_descents_want_records_in_memory(tmp_path):
    ledger, X = (
        Ledger(tmp_path / "x.ledger", GDP(3.0)),
        chunked(np.ones((500, 4)), (250, 250)),
    )
    for call in (
        lambda: dp_rgd(
            LeadingEigenvectorProblem(4),
            X,
            np.eye(4)[0],
            3,
            1.0,
            0.3,
            guarantee=GDP(1.0),
        ),
        lambda: PrivatePCA(radius=1.0, method="dp-rgd", ledger=ledger).fit(X),
    ):
        with pytest.raises(ParameterError, match="in memory"):
            call()
    assert ledger.spent is None


# ---- sources ----


def test_parquet_row_groups_are_chunks(tmp_path):
    X = cloud(TENSORS, 0.4, 500)
    names = [f"{i}{j}" for i in range(3) for j in range(3)]
    for part, rows in enumerate((X[:300], X[300:])):
        table = pa.table(
            {name: rows.reshape(-1, 9)[:, k] for k, name in enumerate(names)}
        )
        pyarrow.parquet.write_table(
            table, tmp_path / f"{part}.parquet", row_group_size=120
        )
    read = from_parquet([tmp_path / "0.parquet", tmp_path / "1.parquet"], TENSORS)
    assert read.chunks[0] == (120, 120, 60, 120, 80)
    np.testing.assert_array_equal(read.compute(), X)
    fit = [
        PrivateFrechetMean(TENSORS, radius=0.4, source=source()).fit(a)
        for a in (read, chunked(X, (500,)))
    ]
    assert np.array_equal(fit[0].location_, fit[1].location_)
    with pytest.raises(ParameterError, match="columns"):
        from_parquet(tmp_path / "0.parquet", Sphere(2))
    with pytest.raises(ParameterError, match="cannot read"):
        from_parquet(tmp_path / "none.parquet", TENSORS)
    with pytest.raises(ParameterError, match="no parquet file"):
        from_parquet([], TENSORS)


def test_zarr_chunks(tmp_path):
    X = cloud(TENSORS, 0.4, 500)
    da.to_zarr(chunked(X, (100,) * 5), str(tmp_path / "x.zarr"))
    fit = [
        PrivateFrechetMean(TENSORS, radius=0.4, source=source()).fit(a)
        for a in (da.from_zarr(str(tmp_path / "x.zarr")), chunked(X, (500,)))
    ]
    assert np.array_equal(fit[0].location_, fit[1].location_)


# ---- refusals ----


def wrong_size():
    read = dask.delayed(np.zeros)((90, 3))
    return da.from_delayed(read, shape=(100, 3), dtype=np.float64)


def wrong_shape():
    return da.from_delayed(
        dask.delayed(np.zeros)((100, 4)), shape=(100, 3), dtype=np.float64
    )


def unreadable():
    return da.from_delayed(
        dask.delayed(np.load)("no-such-file.npy"), shape=(100, 3), dtype=np.float64
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: da.zeros((100, 3), chunks=(50, 2)),
            r"cut through a record; X.rechunk\({1: -1}\)",
        ),
        (
            lambda: (x := da.zeros((100, 3), chunks=(50, 3)))[x[:, 0] == 0],
            "unknown size",
        ),
        (lambda: da.zeros((100, 4), chunks=50), "shape"),
        (lambda: da.zeros(3), "shape"),
        (lambda: da.zeros((1, 3)), "records"),
        (lambda: da.zeros((100, 3), chunks=(50, 3), dtype=complex), "dtype"),
        (lambda: da.zeros((1 << 37, 3), chunks=(1 << 36, 3)), "at most"),
        (wrong_size, "hold 90 records; their sizes say 100"),
        (wrong_shape, "shape"),
        (unreadable, "FileNotFoundError.*Nothing was released"),
    ],
)
def test_refusals_are_one_line_and_spend_nothing(tmp_path, make, message):
    ledger = Ledger(tmp_path / "x.ledger", GDP(3.0))
    for estimator in (PrivateFrechetMean, PrivateDispersion):
        with pytest.raises(ParameterError, match=message) as caught:
            estimator(Sphere(2), radius=0.5, ledger=ledger).fit(make())
        assert "\n" not in str(caught.value)
    assert ledger.spent is None


@pytest.mark.parametrize(
    "error", [ValueError, KeyError, RuntimeError, OSError, MemoryError, UnicodeError]
)
def test_what_a_reader_says_of_a_value_is_not_told(tmp_path, error):
    def read():
        raise error("could not convert 3.14159 cm to a number")

    X, ledger = (
        da.from_delayed(dask.delayed(read)(), (100, 3), float),
        Ledger(tmp_path / "x.ledger", GDP(3.0)),
    )
    for fit in (
        PrivateFrechetMean(Sphere(2), radius=0.5, ledger=ledger).fit,
        PrivateDispersion(Sphere(2), radius=0.5, ledger=ledger).fit,
        PrivatePCA(radius=1.0, ledger=ledger).fit,
    ):
        with pytest.raises(
            ParameterError,
            match=rf"{error.__name__} in a task.*Nothing was released",
        ) as caught:
            fit(X)
        assert "3.14159" not in "".join(traceback.format_exception(caught.value))
    assert ledger.spent is None


@pytest.mark.parametrize(
    "X", [da.zeros((100, 6), chunks=(50, 4)), da.zeros(5), da.zeros((1, 5))]
)
def test_refusals_of_components(tmp_path, X):
    ledger = Ledger(tmp_path / "x.ledger", GDP(3.0))
    with pytest.raises(ParameterError):
        PrivatePCA(radius=1.0, ledger=ledger).fit(X)
    assert ledger.spent is None


def test_kng_needs_records_in_memory():
    with pytest.raises(ParameterError, match="mechanism"):
        PrivateFrechetMean(Sphere(2), radius=0.5, mechanism="kng").fit(
            da.zeros((100, 3))
        )


# ---- a real cluster ----

ROWS = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Its workers are forked from a process that has imported what they need: importing it is most of their time."""
    settings = {
        "temporary-directory": str(tmp_path_factory.mktemp("dask")),
        "distributed.worker.profile.enabled": False,
        "distributed.worker.multiprocessing-method": "forkserver",
    }
    with dask.config.set(settings):
        get_mp_context().set_forkserver_preload(["distributed", "curvedp.estimators"])
        with LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            memory_limit="1GiB",
            dashboard_address=":0",
            silence_logs=60,
        ) as two:
            yield two


def made(seed, rows=ROWS):
    """A chunk that is made where it is needed: no data set of this size exists anywhere."""
    rng = np.random.default_rng(seed)
    factor = np.eye(3) + 0.2 * rng.normal(size=(rows, 3, 3))
    return factor @ factor.mT


def tensors(groups, rows=ROWS, make=made):
    blocks = [
        da.from_delayed(dask.delayed(make)(seed, rows), (rows, 3, 3), np.float64)
        for seed in range(groups)
    ]
    return da.concatenate(blocks)


def fatal(seed, rows, marker):
    """Kills its worker once, in the middle of the second pass."""
    if seed == 7:
        count = len(list(Path(marker).glob("pass*")))
        (Path(marker) / f"pass{count}").touch()
        if count == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    return made(seed, rows)


def private(data, **options):
    return PrivateFrechetMean(
        TENSORS, radius=1.5, mechanism="tangent-gaussian", source=source(), **options
    ).fit(data)


def test_two_workers_and_one_process_agree_to_the_last_bit(cluster):
    alone = private(tensors(8)).location_
    with Client(cluster), dask.config.set(scheduler=None):
        assert np.array_equal(private(tensors(8)).location_, alone)
        assert np.array_equal(
            private(tensors(8).rechunk((5000, 3, 3))).location_, alone
        )


def test_a_killed_worker_changes_nothing_and_costs_nothing(cluster, tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(3.0))
    alone = private(tensors(12)).location_
    with Client(cluster) as client, dask.config.set(scheduler=None):
        before = set(client.run(os.getpid).values())
        data = tensors(12, make=lambda seed, rows: fatal(seed, rows, str(tmp_path)))
        assert np.array_equal(private(data, ledger=ledger).location_, alone)
        client.wait_for_workers(2)
        assert set(client.run(os.getpid).values()) != before  # one did die
    assert len(list(tmp_path.glob("pass*"))) >= 3  # and its chunk was made again
    assert len(ledger.entries) == 1


def wide(seed):
    """Half a MiB of records: many bytes for little arithmetic."""
    return np.random.default_rng(seed).random((4096, 16))


def rows_of(groups):
    return da.concatenate(
        [
            da.from_delayed(dask.delayed(wide)(seed), (4096, 16), float)
            for seed in range(groups)
        ]
    )


def growth(client, work):
    """By how many bytes at most a worker's memory grows while work is done."""
    client.run(reset_peak)
    before = client.run(peak)
    work()
    return max(after - before[worker] for worker, after in client.run(peak).items())


def test_twenty_times_the_memory_that_workers_take_streams_through(cluster, tmp_path):
    # A data set that exists nowhere, in a twentieth of its size. `benchmarks.distributed --stream` sends 20 times a worker's
    # memory limit through a mean; here it is 20 times what the work adds to an idle worker, through the same sums.
    ledger, X = Ledger(tmp_path / "x.ledger", GDP(3.0)), rows_of(480)
    with Client(cluster) as client, dask.config.set(scheduler=None):
        PrivatePCA(radius=5.0).fit(rows_of(8))  # what is imported and set up once
        streamed = growth(client, lambda: PrivatePCA(radius=5.0, ledger=ledger).fit(X))
        kept = growth(client, lambda: wait(client.persist(X)))
    assert 20 * streamed <= X.nbytes
    assert 3 * kept > X.nbytes  # the control: each worker keeps half, and that is seen
    assert len(ledger.entries) == 1


def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")


def peak():
    status = Path("/proc/self/status").read_text()
    return 1024 * int(
        next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[
            1
        ]
    )


def test_a_lost_scheduler_is_one_line_and_spends_nothing(tmp_path):
    ledger = Ledger(tmp_path / "x.ledger", GDP(3.0))
    with (
        LocalCluster(
            n_workers=0, processes=False, dashboard_address=":0", silence_logs=60
        ) as lost,
        Client(lost),
        dask.config.set(scheduler=None),
    ):
        lost.close()
        with pytest.raises(
            ParameterError, match=r"dask.*Nothing was (spent|released)"
        ) as caught:
            private(tensors(2), ledger=ledger)
    assert "\n" not in str(caught.value)
    assert ledger.spent is None


def test_an_unreachable_scheduler_is_one_line(monkeypatch):
    class Silent:
        address = "tcp://192.0.2.1:8786"

        def identity(self):
            raise AssertionError("not reached")

    class Unreachable:
        scheduler = Silent()

        def sync(self, call, callback_timeout):
            raise TimeoutError("timed out after 10s")

    monkeypatch.setattr("distributed.default_client", Unreachable)
    with pytest.raises(
        ParameterError,
        match=r"192\.0\.2\.1:8786 does not answer \(timed out.*Nothing was spent",
    ):
        private(tensors(2))
