"""The certificate of a federated release: built and verified like every other, and changed in no place without notice."""

import copy
import json

import numpy as np
import pytest

from curvedp.errors import CurvedpError, ParameterError
from curvedp.federated import DispersionKernel, MomentKernel, Plan, coordinate, in_process
from curvedp.federated.release import FederatedMechanism
from curvedp.geometry import Euclidean
from curvedp.mechanisms.certificate import Certificate
from curvedp.mechanisms.verify import rebuild_mechanism, verify_certificate
from curvedp.privacy import GDP
from federated.runs import SPD, sites_of, study


@pytest.fixture(scope="module")
def released():
    plan, people, records = study(4, 30, dropouts=1)
    return plan, coordinate(
        plan, in_process(sites_of(plan, people, records), lambda stage, i: stage == "mask" and i == 2)
    )


def test_a_certificate_verifies_and_gives_its_value_back(released):
    plan, release = released
    certificate = Certificate.from_json(release.certificate.to_json())
    checks = verify_certificate(certificate)
    assert [check for check in checks if check.holds is False] == []
    assert np.allclose(rebuild_mechanism(certificate).value_of(certificate), release.value)
    assert certificate.claims.gdp <= 1.0 + 1e-9
    assert certificate.release["stages"][0]["lost"] == [plan.sites[2]]
    assert "no curator" in certificate.trust


@pytest.mark.parametrize("kernel", [DispersionKernel(SPD, 1.0), MomentKernel(Euclidean(3), 1.0)], ids=lambda k: k.name)
def test_other_kernels_verify(kernel):
    plan, people, records = study(3, 30, kernel=kernel, dropouts=0)
    certificate = coordinate(plan, in_process(sites_of(plan, people, records))).certificate
    assert all(check.holds is not False for check in verify_certificate(certificate))


def leaves(value, path=()):
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for i, inner in enumerate(value) for leaf in leaves(inner, (*path, i))]
    return [(path, value)]


def changed(body, path, value):
    body = copy.deepcopy(body)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return body


def weaker(path, old, new):
    """What a change may do without being a lie: claim less, or say other words about people and times."""
    if path[0] in ("created", "software", "ledger", "sha256") or path[:2] == ("release", "reason"):
        return True
    numbers = isinstance(old, float) and isinstance(new, float)
    return numbers and new > old and path[0] in ("claims", "sensitivity", "guarantee")


def test_no_leaf_can_be_changed_to_claim_more(released):
    _, release = released
    body = release.certificate.to_dict()
    for path, old in leaves(body):
        for new in variants(old):
            if new == old or weaker(path, old, new):
                continue
            try:
                checks = verify_certificate(Certificate.from_json(json.dumps(changed(body, path, new))).sealed())
            except CurvedpError:
                continue
            # a plan with other terms is another plan, which may verify as such; its id differs, and no site has signed it
            refuted = any(check.holds is False for check in checks)
            assert refuted or path[0] == "statistic", (path, old, new)


def variants(old):
    if isinstance(old, bool):
        return [not old]
    if isinstance(old, int):
        return [old + 1]
    if isinstance(old, float):
        return [old * 0.9, -old, old * 2]
    return [f"{old}x"] if isinstance(old, str) else [1.0]


def test_less_slack_than_the_plan_has_is_refuted(released):
    body = released[1].certificate.to_dict()
    for path in (("numerics", "tau"), ("claims", "slack")):
        body = changed(body, path, body[path[0]][path[1]] / 2)
    forged = Certificate.from_json(json.dumps(body)).sealed()
    assert any(check.holds is False for check in verify_certificate(forged))


def test_the_command_line_verifies_it(released, tmp_path):
    from typer.testing import CliRunner

    from curvedp.cli import app

    released[1].certificate.save(tmp_path / "c.json")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "c.json")])
    assert done.exit_code == 0, done.output


def test_the_mechanism_is_only_for_sums_over_sites():
    plan, _, _ = study(3, dropouts=0)
    assert FederatedMechanism.for_statistic(plan, GDP(1.0)).statistic.id == plan.id
    with pytest.raises(ParameterError, match="the plan is for"):
        FederatedMechanism.for_statistic(plan, GDP(2.0))
    with pytest.raises(ParameterError, match="drawn by the sites"):
        FederatedMechanism(statistic=plan).release(np.zeros(3))
    with pytest.raises(ParameterError):
        Plan.from_dict({})
