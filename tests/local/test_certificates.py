"""Certificates of local reports: they verify, and every tampering is rejected."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import Euclidean, Lorentz, Sphere, Torus
from curvedp.local import (
    Earth,
    LocalCertificate,
    LocalGaussian,
    LocalLaplace,
    MetricLaplace,
    PrivUnit,
    verify_local_certificate,
)
from curvedp.local.certificate import hash_reports
from curvedp.privacy import GDP, PureDP
from curvedp.signing import digest
from mechanisms.test_verify import STRANGE, at, changed, leaves, same
from mechanisms.test_verify_free_text import FREE_TEXTS, forgeries
from support.randomness import seeded_source

MECHANISMS = [
    MetricLaplace(Earth(), 1.0),
    MetricLaplace(Earth(6378.137, (10.0, 20.0)), 0.25),
    MetricLaplace(Sphere(2), 3.0, public_point=[0.0, 0.0, 1.0]),
    MetricLaplace(Torus(2), 2.0),
    MetricLaplace(Lorentz(2), 4.0),
    PrivUnit(12, 4.0),
    LocalGaussian(Euclidean(2), [0.0, 0.0], 1.0, GDP(0.5)),
    LocalLaplace(Sphere(2), [1.0, 0.0, 0.0], 0.5, PureDP(2.0)),
]


def refuted(certificate):
    """The claims that verification refutes, or the refusal to build the mechanism."""
    try:
        checks = verify_local_certificate(certificate)
    except ParameterError as error:
        return [str(error)]
    return [check.claim for check in checks if check.holds is False]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_certificates_verify_before_and_after_reports(mechanism):
    assert refuted(mechanism.certificate_) == []
    X = np.repeat(mechanism.space.public_record[None], 5, axis=0)
    mechanism.randomize(X)
    certificate = mechanism.certificate_
    assert refuted(certificate) == []
    assert certificate.reports["count"] == 5
    again = LocalCertificate.from_json(certificate.to_json())
    assert again == certificate
    assert refuted(again) == []


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_every_changed_number_is_rejected(mechanism):
    """Each number of the parameters and the guarantee, changed and sealed anew."""
    record = json.loads(mechanism.certificate_.to_json())
    changed = 0
    for field in ("parameters", "guarantee"):
        for name, value in record[field].items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            for factor in (0.9, 1.1):
                other = {**record[field], name: type(value)(value * factor)}
                if other[name] == value:
                    continue
                forged = replace(mechanism.certificate_, **{field: other}).sealed()
                is_weaker_claim = name in ("certified_epsilon", "scale", "sensitivity")
                if is_weaker_claim and factor > 1:
                    continue  # more noise, or a larger ε, than needed is no lie
                assert refuted(forged), (field, name, factor)
                changed += 1
    assert changed >= 4


def test_forged_fields_are_rejected():
    mechanism = MetricLaplace(Earth(), 1.0)
    mechanism.randomize([[51.5, -0.1], [48.9, 2.4]])
    certificate = mechanism.certificate_
    rows = [list(row) for row in certificate.reports["integers"]]
    rows[0][0] += 1
    forgeries = [
        replace(certificate, slack=1e-40).sealed(),
        replace(certificate, space="sphere:2").sealed(),
        replace(certificate, mechanism="privunit").sealed(),
        replace(
            certificate, entropy={"source": "pcg64", "cryptographic": True}
        ).sealed(),
        replace(
            certificate, reports={**certificate.reports, "integers": rows}
        ).sealed(),
        replace(certificate, reports={**certificate.reports, "count": 3}).sealed(),
        replace(
            certificate,
            reports={
                "count": 1,
                "sha256": hash_reports([[1, 2]]),
                "integers": [[1, 2]],  # a report on Earth has three integers
            },
        ).sealed(),
        replace(certificate, guarantee={"kind": "local", "epsilon": 1.0}).sealed(),
        replace(certificate, slack=0.5),  # not sealed anew
    ]
    for forged in forgeries:
        assert refuted(forged), forged


def test_privunit_cannot_hide_its_cap():
    certificate = PrivUnit(12, 4.0).certificate_
    for change in (
        {"cap_weight": str(2**64 - 1)},
        {"cap_weight": "0"},
        {"threshold": 0.9},
        {"threshold": -0.5},
        {"certified_epsilon": 0.1},
        {"mean_length": 1.0},
    ):
        parameters = {**certificate.parameters, **change}
        assert refuted(replace(certificate, parameters=parameters).sealed()), change


def test_reports_of_another_source_do_not_verify():
    mechanism = MetricLaplace(Earth(), 1.0)
    mechanism.randomize([51.5, -0.1], source=seeded_source(1))
    assert refuted(mechanism.certificate_)


def test_reports_that_are_not_listed_are_not_confirmed():
    mechanism = MetricLaplace(Earth(), 1.0)
    mechanism.randomize(np.zeros((2000, 2)))
    answers = [
        check.holds for check in verify_local_certificate(mechanism.certificate_)
    ]
    assert answers.count(None) == 1
    assert False not in answers


def reported(mechanism):
    """Return the certificate of two reports as JSON values."""
    mechanism.randomize(np.repeat(mechanism.space.public_record[None], 2, axis=0))
    return json.loads(mechanism.certificate_.to_json())


def is_confirmed(record):
    """Return whether a forger's certificate, sealed again, is confirmed and explained."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    try:
        sealed = {**body, "sha256": digest(body).hex()}
        certificate = LocalCertificate.from_json(json.dumps(sealed))
        certificate.explain()
        return not refuted(certificate)
    except CurvedpError:
        return False


def is_weaker(path, old, new):
    """Return whether a forged leaf claims less, or is about another public mechanism."""
    is_number = type(new) in (int, float)
    if path[-1] in ("slack", "certified_epsilon"):
        return is_number and new >= old
    is_public_place = path[0] == "parameters" and path[1] in ("public_record", "center")
    return (is_public_place and type(new) is float) or path[-1] == "insist"


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_no_leaf_holds_what_nobody_has_checked(mechanism):
    """Every leaf of every mechanism, and whatever is no such thing at all."""
    record = reported(mechanism)
    assert is_confirmed(record)
    for path in leaves(record):
        old = at(record, path)
        for new in STRANGE:
            if same(old, new) or path[0] in ("schema", "sha256"):
                continue
            is_lie = is_confirmed(changed(record, path, new))
            assert not is_lie or is_weaker(path, old, new), (path, new)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_numbers_beyond_doubles_raise_nothing_else(mechanism):
    record = reported(mechanism)
    for path in leaves(record):
        for number in (10**400, -(10**400), 5e-324, 1e308):
            is_confirmed(changed(record, path, number))


def test_a_certified_epsilon_above_the_promise_is_refuted():
    record = reported(PrivUnit(12, 4.0))
    forged = changed(record, ("parameters", "certified_epsilon"), 1e308)
    assert not is_confirmed(forged)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_no_place_holds_a_free_text(mechanism):
    record = reported(mechanism)
    for text in FREE_TEXTS:
        for path, forged in forgeries(record, text):
            assert not is_confirmed(forged), (path, text)


def test_few_reports_cannot_be_left_out():
    record = reported(MetricLaplace(Earth(), 1.0))
    for count in (0, 1, 2, 1365):
        forged = copy.deepcopy(record)
        forged["reports"].update(count=count, integers=None)
        assert not is_confirmed(forged), count


@pytest.mark.parametrize("epsilon", [1e-16, 1e-100, 5e-324])
def test_an_epsilon_that_no_cap_has_is_refused_at_once(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        PrivUnit(8, epsilon)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "nonsense",
        '{"schema": "curvedp-local-certificate/1"}',
        "9" * 5000,
    ],
)
def test_other_texts_are_refused(text):
    with pytest.raises(ParameterError):
        LocalCertificate.from_json(text)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("slack", -1.0),
        ("slack", "0"),
        ("trust", "central"),
        ("path", "float"),
        ("reports", {"count": 1}),
        ("parameters", [1]),
        ("sha256", "00"),
        ("mechanism", 7),
    ],
)
def test_fields_of_another_kind_are_refused(field, value):
    record = json.loads(MetricLaplace(Earth(), 1.0).certificate_.to_json())
    with pytest.raises(ParameterError):
        LocalCertificate.from_json(json.dumps({**record, field: value}))


def test_certificates_tell_a_layman_what_is_protected():
    metric = MetricLaplace(Earth(), 1.0).certificate_.explain()
    assert "Metric privacy" in metric
    assert "Not protected: about where the record is" in metric
    assert "weaker than the guarantee that a curator gives" in metric
    local = PrivUnit(8, 2.0).certificate_.explain()
    assert "Local privacy" in local
    assert "whole record" in local
    small = MetricLaplace(Sphere(2), 1.0).certificate_.explain()
    assert "No two records are more than 3.14 radians apart" in small
    flat = MetricLaplace(Euclidean(2), 1.0).certificate_.explain()
    assert "units of distance" in flat


def test_certificates_hold_no_record(tmp_path):
    mechanism = MetricLaplace(Earth(), 1.0)
    mechanism.randomize([51.500729, -0.124625])
    path = tmp_path / "certificate.json"
    mechanism.certificate_.save(path)
    assert "51.50072" not in path.read_text()
    assert LocalCertificate.load(path) == mechanism.certificate_
    with pytest.raises(ParameterError):
        LocalCertificate.load(tmp_path / "missing.json")
