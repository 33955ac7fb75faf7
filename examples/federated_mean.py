# %% [markdown]
# # A mean over hospitals, without a curator
#
# Ten hospitals hold diffusion tensors that they may not pool. Each adds up its own tensors' logarithms at a public point,
# rounds to whole numbers, adds its share of the noise and masks the result; the server learns the noisy total and nothing
# else. No one is trusted with the data, and the noise is that of ONE release: if each hospital published its own private
# mean, the average of those would be about √10 times as noisy.
#
# Without arguments this runs in one process and draws a picture. `--sites 10 --dropouts 3 --json` runs every hospital in a
# process of its own over Flower on the loopback interface (extra: federated), kills three of them on the way, and prints a
# report.

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
    """A hospital's tensors, in 10⁻³ mm²/s: synthetic, about a tensor of white matter."""
    around = 0.7 * np.diag([1.6, 0.8, 0.7])
    return manifold.exp(
        around,
        manifold.from_coordinates(around, 0.3 * rng.normal(size=(n, manifold.dim))),
    )


# %% [markdown]
# ## The plan
#
# The plan is public. It names the space and the ball, the sites by their keys, how many records each has, the guarantee and
# how many sites may be lost. Every site holds its own copy, and refuses to answer for another.


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
# Each site's key, records and ledger stay in its own folder. The engine carries messages; the masked sum is ours.


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
    """A Flower app of three lines, and the settings of its server."""
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
    """Kill a process with all that it started, after so many seconds to end by itself."""
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
    """The release of `sites` real processes, of which the first `dropouts` are killed once they have paid."""
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
    """What is public of a run, and (for this synthetic study only) how far the value is from the truth."""
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
# The same sites, without the engine. Three of the ten may be lost; here none is, and no noise is paid for those that stay.


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
        "a curator's release": manifold.dist(truth, central),
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
    import matplotlib.pyplot as plt  # the processes need none

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
