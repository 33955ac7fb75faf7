# %% [markdown]
# # A mean over hospitals, without a curator
#
# Ten hospitals have diffusion tensors that they may not share. Together they release the mean of all tensors. Each
# hospital adds up the logarithms of its own tensors at a public point, rounds the sum to whole numbers, adds its
# share of the noise and masks the result. The server learns the noisy total and nothing else, so nobody has to be
# trusted with the data. The noise is that of a single release. If, instead, each hospital published its own private
# mean, the average of these means would have about √10 times as much noise.
#
# Without arguments, this script runs in one process and draws a picture. With `--sites 10 --dropouts 3 --json`, each
# hospital is a separate process. The processes communicate over Flower on this machine (extra: federated), three of
# them are stopped during the run, and the script prints a report.

# %%
import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from curvedp import GDP, Ledger, PrivateFrechetMean
from curvedp.core.certificate import is_certificate_signed
from curvedp.federated import (
    MeanKernel,
    Plan,
    Site,
    coordinate,
    in_process,
    key_of,
    new_identity,
)
from curvedp.geometry import SPDAffineInvariant, frechet_mean
from curvedp.mechanisms import Certificate
from curvedp.signing import write_key

manifold = SPDAffineInvariant(3)
parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument(
    "--sites", type=int, help="run so many sites as processes of their own"
)
parser.add_argument(
    "--dropouts",
    type=int,
    default=0,
    help="kill so many of them on the way; as many are tolerated",
)
parser.add_argument("--records", type=int, default=200, help="tensors at each site")
parser.add_argument("--json", action="store_true", help="print the report as JSON")
options, _ = parser.parse_known_args()


def tensors(rng, n):
    """Return the synthetic tensors of a hospital, in 10⁻³ mm²/s, around a tensor of white matter."""
    around = 0.7 * np.diag([1.6, 0.8, 0.7])
    return manifold.exp(
        around,
        manifold.from_coordinates(around, 0.3 * rng.normal(size=(n, manifold.dim))),
    )


# %% [markdown]
# ## The plan
#
# The plan is public. It states the manifold, the ball, the keys and the numbers of records of the sites, the
# guarantee, and how many sites may be lost. Every site has its own copy of the plan, and refuses to take part in any
# other plan.


# %%
def make_plan(identities, counts, dropouts):
    kernel = MeanKernel(manifold, radius=2.5, center=np.eye(3))
    return Plan(
        kernel,
        [key_of(one) for one in identities],
        counts,
        GDP(1.0),
        dropouts=dropouts,
        rounds=3,
    )


# %% [markdown]
# ## Sites as processes
#
# The key, the records and the ledger of each site stay in its own folder. Flower carries the messages, and curvedp
# computes the masked sums.


# %%
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_site(folder, plan, identity, records):
    folder.mkdir()
    (folder / "plan.json").write_text(json.dumps(plan.to_dict()))
    write_key(folder / "key.pem", identity)
    np.save(folder / "records.npy", records)
    Ledger(folder / "site.ledger", budget=GDP(2.0))
    files = {
        "plan": "plan.json",
        "key": "key.pem",
        "records": "records.npy",
        "ledger": "site.ledger",
    }
    (folder / "site.json").write_text(json.dumps(files))


def write_app(folder, plan):
    """Write a Flower app of three lines, and the settings of its server."""
    folder.mkdir()
    lines = (
        "from curvedp.federated import flower",
        "client = flower.client",
        "server = flower.server",
        "",
    )
    (folder / "federated_app.py").write_text("\n".join(lines))
    (folder / "plan.json").write_text(json.dumps(plan.to_dict()))
    (folder / "pyproject.toml").write_text(f"""
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "federated-mean"
version = "1.0.0"
description = "A private mean over sites"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "curvedp"
[tool.flwr.app.components]
serverapp = "federated_app:server"
clientapp = "federated_app:client"
[tool.flwr.app.config]
plan = "{folder / "plan.json"}"
output = "{folder / "release.json"}"
timeout = 90.0
""")
    return folder / "release.json"


class Processes:
    """A SuperLink and SuperNodes on the loopback interface, all ended with the block."""

    def __init__(self, folder):
        self.folder, self.port, self.started = folder, free_port(), []
        quiet = {
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        }
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        found = filter(
            None, os.environ.get("PYTHONPATH", "").split(os.pathsep)
        )  # sites start in other folders
        modules = os.pathsep.join(os.path.abspath(each) for each in found)
        self.environment = {
            **os.environ,
            **quiet,
            **threads,
            "PATH": path,
            "PYTHONPATH": modules,
        }
        (folder / "flwr").mkdir()
        address = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (folder / "flwr" / "config.toml").write_text(address)

    def start(self, name, *command):
        log = (self.folder / f"{name}.log").open("wb")
        tool = [str(Path(sys.executable).parent / command[0]), *command[1:]]
        process = subprocess.Popen(
            tool,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env=self.environment,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def __enter__(self):
        engine = [sys.executable, "-c", "import curvedp.federated.flower"]
        if subprocess.run(
            engine, cwd=self.folder, env=self.environment, check=False
        ).returncode:
            raise SystemExit(
                "the sites' program cannot start; pip install 'curvedp[federated]'"
            )
        where = ("--host", "127.0.0.1", "--port", str(self.port))
        self.start(
            "superlink",
            "flower-superlink",
            "--insecure",
            "--disable-runtime-dependency-installation",
            *where,
        )
        wait_for(lambda: listening(self.port), 60, "the SuperLink")
        return self

    def node(self, name, settings):
        link = (
            "--superlink",
            f"127.0.0.1:{self.port}",
            "--host",
            "127.0.0.1",
            "--port",
            str(free_port()),
        )
        return self.start(
            name,
            "flower-supernode",
            "--insecure",
            *link,
            "--node-config",
            f'site="{settings}"',
        )

    def __exit__(self, *_):
        for process in self.started:
            process.terminate()  # a SuperLink ends the processes that it started in sessions of their own
        for process in reversed(self.started):
            end(process, patience=10)


def end(process, patience=0):
    """Wait for a process, then kill it and all processes that it started."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def listening(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition, seconds, what):
    end_of_wait = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end_of_wait:
            raise SystemExit(f"{what} did not come within {seconds} s")
        time.sleep(0.5)


def run_processes(folder, sites, dropouts, n):
    """Run `sites` processes; kill the first `dropouts` after they have charged their ledgers."""
    rng = np.random.default_rng(7)
    identities = [new_identity() for _ in range(sites)]
    records = [tensors(rng, n) for _ in range(sites)]
    plan = make_plan(identities, [n] * sites, dropouts)
    for i, (identity, held) in enumerate(zip(identities, records, strict=True)):
        write_site(folder / f"site{i}", plan, identity, held)
    output = write_app(folder / "app", plan)
    with Processes(folder) as processes:
        nodes = [
            processes.node(f"site{i}-node", folder / f"site{i}" / "site.json")
            for i in range(sites)
        ]
        submitted = processes.start("run", "flwr", "run", str(folder / "app"), "here")
        doomed = set(range(dropouts))

        def done():
            for i in [
                i for i in doomed if Ledger(folder / f"site{i}" / "site.ledger").entries
            ]:
                end(nodes[i])
                doomed.discard(i)
            if submitted.poll():
                raise SystemExit(
                    f"the run was not accepted: {(folder / 'run.log').read_text()}"
                )
            return output.is_file()

        wait_for(done, 240 + 60 * sites, "the release")  # minutes on a busy machine
    return plan, records, json.loads(output.read_text())


def report(plan, records, release):
    """Return public facts about a run, and the error, which is known here because the data are synthetic."""
    if "stopped" in release:
        return {"stopped": release["stopped"], **release["transport"]}
    alive = release["rounds"][-1]["alive"]
    truth = frechet_mean(manifold, np.concatenate([records[i] for i in alive]))
    certificate = Certificate.from_json(json.dumps(release["certificate"]))
    signed = [
        key
        for key, sign in release["signatures"].items()
        if is_certificate_signed(certificate, key, sign)
    ]
    return {
        "sites": len(plan.sites),
        "alive": alive,
        "rounds": len(release["rounds"]),
        "value": release["value"],
        "gdp": release["certificate"]["claims"]["gdp"],
        "signed": len(signed),
        "error": float(manifold.dist(truth, np.array(release["value"]))),
        "certificate": release["certificate"],
        "signatures": release["signatures"],
        **release["transport"],
    }


# %% [markdown]
# ## In one process
#
# Here the same sites run in one process, without Flower. Three of the ten sites may be lost. In this run none is lost,
# and the additional noise that the plan provides for lost sites is removed again.


# %%
def run_here(sites=10, dropouts=3, n=200):
    rng = np.random.default_rng(7)
    identities = [new_identity() for _ in range(sites)]
    records = [tensors(rng, n) for _ in range(sites)]
    plan = make_plan(identities, [n] * sites, dropouts)
    held = {
        i: Site(plan, one, x)
        for i, (one, x) in enumerate(zip(identities, records, strict=True))
    }
    release = coordinate(plan, in_process(held))
    together = np.concatenate(records)
    central = (
        PrivateFrechetMean(manifold, radius=2.5, center=np.eye(3), guarantee=GDP(1.0))
        .fit(together)
        .location_
    )
    alone = [
        PrivateFrechetMean(
            manifold, radius=2.5, center=np.eye(3), guarantee=GDP(1.0)
        ).fit(x)
        for x in records
    ]
    local = frechet_mean(manifold, np.array([one.location_ for one in alone]))
    truth = frechet_mean(manifold, together)
    return {
        "a central curator": manifold.dist(truth, central),
        "federated": manifold.dist(truth, release.value),
        "mean of ten private means": manifold.dist(truth, local),
    }


if options.sites:
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that the processes end with this one
    with tempfile.TemporaryDirectory() as name:
        said = report(
            *run_processes(Path(name), options.sites, options.dropouts, options.records)
        )
    print(
        json.dumps(said)
        if options.json
        else "\n".join(f"{key}: {value}" for key, value in said.items())
    )
else:
    import matplotlib.pyplot as plt  # only this branch draws a picture

    errors = run_here()
    for name, error in errors.items():
        print(
            f"{name}: distance {float(error):.4f} to the mean of all tensors (not to be published)"
        )
    figure, axis = plt.subplots(figsize=(6, 2.2), layout="constrained")
    axis.barh(
        list(errors)[::-1],
        [float(error) for error in errors.values()][::-1],
        color="#455a64",
    )
    axis.set_xlabel("distance to the mean of all tensors, one run")
    figure.savefig("federated_mean.png", dpi=120)
