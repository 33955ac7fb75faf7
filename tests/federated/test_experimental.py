"""Federation says that it is experimental, once in a process, at the site and the server."""

import subprocess
import sys
import warnings

import numpy as np
import pytest

from curvedp.errors import ExperimentalWarning
from curvedp.federated import (
    MeanKernel,
    Plan,
    Site,
    coordinate,
    experimental,
    in_process,
    key_of,
    new_identity,
)
from curvedp.geometry import Euclidean
from curvedp.privacy import GDP


def _plan_and_identities():
    identities = [new_identity() for _ in range(3)]
    keys = [key_of(identity) for identity in identities]
    plan = Plan(MeanKernel(Euclidean(2), 1.0), keys, [20, 20, 20], GDP(1.0))
    return plan, identities


def test_a_site_warns_once(monkeypatch):
    plan, identities = _plan_and_identities()
    monkeypatch.setattr(experimental, "_was_warned", False)
    with pytest.warns(ExperimentalWarning, match="outside cryptographers") as caught:
        Site(plan, identities[0], np.zeros((20, 2)))
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Site(plan, identities[1], np.zeros((20, 2)))


def test_a_server_warns(monkeypatch):
    plan, identities = _plan_and_identities()
    sites = {
        number: Site(plan, identity, np.zeros((20, 2)))
        for number, identity in enumerate(identities)
    }
    monkeypatch.setattr(experimental, "_was_warned", False)
    with pytest.warns(ExperimentalWarning, match="outside cryptographers") as caught:
        coordinate(plan, in_process(sites))
    assert caught[0].filename == __file__


def test_reading_a_plan_does_not_warn():
    """Who verifies a certificate rebuilds its plan, and uses no masking."""
    program = (
        "import warnings; warnings.simplefilter('error')\n"
        "from curvedp.federated import MeanKernel, Plan, key_of, new_identity\n"
        "from curvedp.geometry import Euclidean\n"
        "from curvedp.privacy import GDP\n"
        "keys = [key_of(new_identity()) for _ in range(3)]\n"
        "Plan(MeanKernel(Euclidean(2), 1.0), keys, [20, 20, 20], GDP(1.0))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
