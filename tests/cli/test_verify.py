"""curvedp verify: float draws, hostile certificates, markup, and no process that outlives its time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from curvedp import GDP, verification
from curvedp.errors import ParameterError, VerificationFailed
from curvedp.geometry import Sphere
from curvedp.mechanisms import GaussianMechanism
from curvedp.signing import digest
from support.shell import run
from support.worker import forked_workers


def test_float_draws_are_never_plainly_verified(sphere_file):
    certificate = sphere_file / "c.json"
    kng = ["--mechanism", "kng", "--epsilon", 1, "--certificate", certificate]
    assert (
        run(
            "release", sphere_file / "x.npy", "-m", "sphere:2", "-r", 0.5, *kng
        ).exit_code
        == 0
    )
    result = run("verify", certificate)
    assert result.exit_code == 3
    assert "sampler not" in result.output
    stated = (
        GaussianMechanism.calibrated(Sphere(2), 0.01, GDP(1.0))
        .release(Sphere(2).origin)
        .certificate
    )
    stated.save(sphere_file / "stated.json")
    result = run("verify", sphere_file / "stated.json")
    assert (result.exit_code, "sensitivity not" in result.output) == (3, True), (
        result.output
    )
    forged = json.loads(certificate.read_text())
    forged["parameters"]["scale"] *= 0.9
    for text in (json.dumps(forged), resealed(forged)):
        certificate.write_text(text)
        assert run("verify", certificate).exit_code == 1


def test_a_unit_that_somebody_wrote_is_not_called_recomputed(sphere_file):
    """A forger who seals a certificate anew passes; what is said must not hide that."""
    certificate = sphere_file / "c.json"
    typed = ["-m", "sphere:2", "-r", 0.5, "--mu", 1, "--certificate", certificate]
    assert run("release", sphere_file / "x.npy", *typed).exit_code == 0
    forged = json.loads(certificate.read_text())
    forged["privacy_unit"] = forged["statistic"]["privacy_unit"] = "person"
    certificate.write_text(resealed(forged))
    result = run("verify", certificate)
    assert result.exit_code == 0
    assert "every claim was recomputed" not in result.output
    assert "not recomputed: whom it protects, of how many records" in result.output


def resealed(record):
    """A forger takes the SHA-256 of the certificate anew."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    return json.dumps({**body, "sha256": digest(body).hex()})


def hostile(text):
    """Certificates that ask for a lot of work or memory, or that are none."""
    honest = json.loads(text)

    def on(name, **more):
        changed = json.loads(text)
        changed["manifold"] = changed["statistic"]["manifold"] = name
        return resealed({**changed, **more})

    yield from map(
        on,
        (
            "sphere:99999999",
            "sphere:999999",
            "spd-affine:60",
            "euclidean:999999",
            "stiefel:400,200",
            "grassmann:300,150",
        ),
    )
    yield on("product(" + ", ".join(["spd-affine:8"] * 200) + ")")
    yield on("product(" * 300 + "sphere:2" + ")" * 300)
    laplace = {"mechanism": "riemannian-laplace", "parameters": {"scale": 0.01}}
    yield on("sphere:300", **laplace)
    yield on("lorentz:300", **laplace)
    yield resealed(
        {**honest, "release": {**honest["release"], "integers": [[10**4000] * 3]}}
    )
    yield resealed({**honest, "statistic": {**honest["statistic"], "n": 10**300}})
    yield "[" * 100_000
    yield '{"a":' * 50_000
    yield text[:-20]
    yield "0" * (5 << 20)


@pytest.mark.starts_workers
def test_hostile_certificates_end_in_one_line_in_time(sphere_file, monkeypatch):
    certificate, forged = sphere_file / "c.json", sphere_file / "h.json"
    given = ["-m", "sphere:2", "-r", 0.5, "--mu", 1, "--mechanism", "gaussian"]
    given += ["--certificate", certificate]
    assert run("release", sphere_file / "x.npy", *given).exit_code == 0

    # Every certificate has a worker with its limits; the library is imported once.
    with forked_workers(monkeypatch, sphere_file / "workers") as workers:
        assert run("verify", certificate).exit_code == 0
        for number, text in enumerate(hostile(certificate.read_text())):
            forged.write_text(text)
            before = sum(os.times()[:2]) + workers.cpu_seconds
            result = run("verify", forged, "--json")
            # Of computing: what else the machine does is no matter.
            assert sum(os.times()[:2]) + workers.cpu_seconds - before <= 10, number
            assert result.exit_code in (1, 2), (number, result)
            said = result.stderr.strip().splitlines()
            assert len(said) == 1, (number, result)
            assert len(said[0]) < 500

            # A huge space, a deep name, a deep file: as a process of its own, too.
            if number in (0, 7, 12):
                command = [sys.executable, "-m", "curvedp", "verify", forged, "--json"]
                alone = subprocess.run(command, capture_output=True, text=True)
                expected = (result.exit_code, 1)
                assert (alone.returncode, alone.stderr.count("\n")) == expected, number


def test_markup_and_escapes_are_inert(sphere_file):
    """In the terminal and on the page, wherever a stranger's text can stand."""
    certificate = sphere_file / "c.json"
    given = ["-m", "sphere:2", "-r", 0.5, "--mu", 1, "--certificate", certificate]
    assert run("release", sphere_file / "x.npy", *given).exit_code == 0
    evil = "[bold red]x[/] \x1b[31m \x07 <script>alert(1)</script> [/nothing]"
    for name in ("mechanism", "manifold", "unit", "trust", "created"):
        forged = json.loads(certificate.read_text())
        forged[name] = evil
        (sphere_file / "e.json").write_text(resealed(forged))
        result = run("verify", sphere_file / "e.json")
        assert "\x1b" not in result.output, name
        assert "\x07" not in result.output, name
        assert result.exit_code in (0, 1, 2), (name, result.output)


@pytest.fixture
def found_by_workers(monkeypatch):
    """Processes find the modules of this folder."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


@pytest.mark.starts_workers
@pytest.mark.usefixtures("found_by_workers")
@pytest.mark.parametrize("operation", ["sleep", "compute"])
def test_no_worker_outlives_its_time(operation, monkeypatch):
    monkeypatch.setattr(verification, "_START_SECONDS", 5)
    before = os.times().children_user
    with pytest.raises(ParameterError, match=r"recomputed within 0\.3 s"):
        ask_tiring_worker(operation, 0.3)
    # Of computing: waiting is no work.
    assert os.times().children_user - before < 5


@pytest.mark.starts_workers
@pytest.mark.usefixtures("found_by_workers")
def test_a_worker_is_limited_in_memory_and_its_errors_are_told():
    with pytest.raises(ParameterError, match="2 GB"):
        ask_tiring_worker("allocate", 30)
    with pytest.raises(ParameterError, match=r"cannot be recomputed \(KeyError\)"):
        ask_tiring_worker("fail", 30)
    with pytest.raises(VerificationFailed, match="not so"):
        ask_tiring_worker("refuse", 30)
    with pytest.raises(ParameterError, match="2 GB"):
        ask_tiring_worker("die", 30)
    assert ask_tiring_worker("add", 30, numbers=[3, 4]) == 7


def ask_tiring_worker(operation, seconds, **question):
    """Ask `tiring_worker`, which has the operations that no certificate should have."""
    return verification.run_in_worker(operation, question, seconds, "tiring_worker")
