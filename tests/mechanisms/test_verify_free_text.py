"""No leaf of a certificate carries words or numbers that nobody has checked.

A forger may write any text into any place of a certificate and take its SHA-256 anew.
`verify` must confirm none of these texts: every text is a code of a closed list, a
registered name, a version, a time or a hash.
"""

import copy
import functools
import json

import numpy as np
import pytest

from curvedp import GDP, PrivateFrechetMean, PrivateMDM, PureDP
from curvedp.core.certificate import Certificate
from curvedp.core.certificate_form import (
    NOT_INSTALLED,
    PACKAGES,
    is_version,
    public_version,
)
from curvedp.core.codes import ChoiceRule
from curvedp.core.mechanism import MAX_LISTED_INTEGERS
from curvedp.errors import CurvedpError
from curvedp.federated import MeanKernel
from curvedp.geometry import Euclidean, Sphere
from curvedp.inference import k_sample_test, paired_test, two_sample_test
from curvedp.mechanisms import LogGaussianMechanism
from curvedp.release.choose import mechanism_kinds
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.release.verify import verify_certificate
from curvedp.signing import digest
from federated.runs import run as federated_run
from federated.runs import study
from mechanisms.test_verify import MAKERS as OTHER_MAKERS
from support.releases import value_at

SPHERE = Sphere(2)
RECORDS = np.asarray(
    SPHERE.from_normal_coordinates(
        SPHERE.origin, 0.2 * np.random.default_rng(0).normal(size=(60, 2))
    )
)


def two_sample_test_certificate(**options):
    return two_sample_test(
        SPHERE, RECORDS[:30], RECORDS[30:], radius=0.7, **options
    ).certificate


def paired_test_certificate():
    return paired_test(SPHERE, RECORDS[:30], RECORDS[30:], radius=0.7).certificate


def three_sample_test_certificate():
    samples = (RECORDS[:20], RECORDS[20:40], RECORDS[40:])
    return k_sample_test(SPHERE, samples, radius=0.7, level=0.1).certificate


def federated_mean():
    plan, people, records = study(3, kernel=MeanKernel(Euclidean(2), 1.0), dropouts=0)
    return federated_run(plan, people, records).certificate


def mean_by_the_best_mechanism():
    return PrivateFrechetMean(SPHERE, radius=0.7).fit(RECORDS).certificate_


def classes_by_the_best_mechanism():
    model = PrivateMDM(SPHERE, radius=0.7).fit(RECORDS, np.arange(60) % 2)
    return model.certificates_[0]


TESTS = {
    "test of two samples": two_sample_test_certificate,
    "test of two samples by Laplace": functools.partial(
        two_sample_test_certificate, guarantee=PureDP(1.0)
    ),
    "test of pairs": paired_test_certificate,
    "test of three samples": three_sample_test_certificate,
}
for maker in (
    two_sample_test_certificate,
    paired_test_certificate,
    three_sample_test_certificate,
):
    maker.__test__ = False  # these make certificates and are no tests themselves

COMPARED = {
    "mean by the best mechanism": mean_by_the_best_mechanism,
    "classes by the best mechanism": classes_by_the_best_mechanism,
}
MAKERS = {**OTHER_MAKERS, **TESTS, **COMPARED, "federated mean": federated_mean}

FREE_TEXTS = (
    "audited by the ministry",
    "auditedbytheministry",
    "1auditedbytheministry",
    "1.0+auditedbytheministry",
    "audited",
)


@functools.cache
def genuine(name):
    """Return a certificate as JSON values; each is made once."""
    return json.loads(MAKERS[name]().to_json())


def is_confirmed(record):
    """Return whether a forger's certificate, sealed again, is confirmed in every claim."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    try:
        sealed = {**body, "sha256": digest(body).hex()}
        checks = verify_certificate(Certificate.from_json(json.dumps(sealed)))
    except CurvedpError:
        return False
    return all(check.holds is not False for check in checks)


def places(value, path=()):
    """Yield the path of every part of a JSON value; of a long list, its two ends."""
    yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from places(part, (*path, name))
    elif isinstance(value, list) and value:
        for position in {0, len(value) - 1}:
            yield from places(value[position], (*path, position))


def forgeries(record, text):
    """Yield (path, record) for every place where a free text could be put.

    A text replaces a leaf, becomes a key, or is added to a list or an object.
    """
    for path in places(record):
        part = value_at(record, path)
        if isinstance(part, dict):
            for value in (text, 1.0):
                forged = copy.deepcopy(record)
                value_at(forged, path)[text] = value
                yield (*path, text), forged
            for name in part:
                forged = copy.deepcopy(record)
                renamed = value_at(forged, path)
                renamed[text] = renamed.pop(name)
                yield (*path, name), forged
        if isinstance(part, list):
            forged = copy.deepcopy(record)
            value_at(forged, path).append(text)
            yield path, forged
        if path and path != ("sha256",):  # the forger's seal replaces it anyway
            forged = copy.deepcopy(record)
            value_at(forged, path[:-1])[path[-1]] = text
            yield path, forged


@pytest.mark.parametrize("name", MAKERS)
def test_no_place_of_a_certificate_holds_a_free_text(name):
    """Every leaf, key and list of the certificates of every mechanism."""
    record = genuine(name)
    assert is_confirmed(record)
    confirmed = [
        path
        for path, forged in forgeries(record, FREE_TEXTS[0])
        if is_confirmed(forged)
    ]
    assert not confirmed


@pytest.mark.parametrize("name", COMPARED)
@pytest.mark.parametrize("text", FREE_TEXTS[1:])
def test_texts_of_other_forms_are_refused_too(name, text):
    record = genuine(name)
    assert not [
        path for path, forged in forgeries(record, text) if is_confirmed(forged)
    ]


# ---- why a mechanism was chosen


@pytest.mark.parametrize("name", COMPARED)
def test_predicted_errors_are_predicted_again(name):
    record = genuine(name)
    choice = record["release"]["choice"]
    assert choice["rule"] == "smallest_predicted_error"
    assert len(choice["predicted_errors"]) > 1
    for option in choice["predicted_errors"]:
        for factor in (0.0, 0.5, 0.9, 1.1, 2.0, -1.0):
            forged = copy.deepcopy(record)
            forged["release"]["choice"]["predicted_errors"][option] *= factor
            assert not is_confirmed(forged), (option, factor)


@pytest.mark.parametrize("name", COMPARED)
def test_a_candidate_cannot_be_declared_left_out(name):
    record = genuine(name)
    choice = record["release"]["choice"]
    for option in choice["predicted_errors"]:
        forged = copy.deepcopy(record)
        del forged["release"]["choice"]["predicted_errors"][option]
        forged["release"]["choice"]["excluded"].append(option)
        assert not is_confirmed(forged), option
    for option in (*choice["predicted_errors"], *choice["excluded"]):
        forged = copy.deepcopy(record)
        forged["release"]["choice"]["excluded"].append(option)
        assert not is_confirmed(forged), option


@pytest.mark.parametrize("rule", ChoiceRule)
@pytest.mark.parametrize("name", COMPARED)
def test_only_one_rule_has_errors_to_compare(name, rule):
    forged = copy.deepcopy(genuine(name))
    forged["release"]["choice"]["rule"] = rule.value
    assert is_confirmed(forged) == (rule is ChoiceRule.SMALLEST_PREDICTED_ERROR)


@pytest.mark.parametrize("rule", [ChoiceRule.PRIVATE_BALL, ChoiceRule.PRIVATE_COUNT])
def test_a_rule_that_cannot_lead_to_the_mechanism_is_refused(rule):
    forged = copy.deepcopy(genuine("gaussian"))
    forged["release"]["choice"]["rule"] = rule.value
    assert not is_confirmed(forged)


@pytest.mark.parametrize("name", MAKERS)
def test_the_only_mechanism_has_no_other(name):
    """Only where nothing else is offered may a certificate say so."""
    record = genuine(name)
    mechanism = rebuild_mechanism(Certificate.from_json(json.dumps(record)))
    offered = set(mechanism_kinds(mechanism.statistic)) - {mechanism.info.option}
    forged = copy.deepcopy(record)
    forged["release"]["choice"] = {
        "rule": ChoiceRule.ONLY_ONE.value,
        "predicted_errors": {},
        "excluded": [],
    }
    is_moment = "second moment" in record["statistic"]["name"]  # PCA has but one
    assert is_confirmed(forged) == (not offered or is_moment)


# ---- integers that are not listed


@pytest.mark.parametrize("name", MAKERS)
def test_few_integers_are_listed(name):
    """Without its integers, a certificate could be about any value.

    Geodesics may take any number of draws.
    """
    record = genuine(name)
    is_geodesic = record["statistic"]["name"] == "geodesic regression"
    forged = copy.deepcopy(record)
    forged["release"]["integers"] = None
    assert is_confirmed(forged) == is_geodesic


def test_many_integers_are_not_listed():
    """Their SHA-256 stands for them, and that is what is said."""
    dim = MAX_LISTED_INTEGERS + 1
    mechanism = LogGaussianMechanism(Euclidean(dim), 0.01, 1.0)
    certificate = mechanism.release(np.zeros(dim)).certificate
    assert certificate.release["integers"] is None
    (check,) = [
        check for check in verify_certificate(certificate) if check.claim == "integers"
    ]
    assert check.holds
    assert "too many to list" in check.detail


# ---- versions


def test_a_version_is_numbers_and_few_words():
    versions = [
        "1",
        "0.2.0",
        "3.13.0rc1",
        "2.1.0.dev20260101",
        "1.0.post1",
        "1.0a1.dev2",
    ]
    assert all(map(is_version, versions))
    assert is_version(NOT_INSTALLED)
    for text in FREE_TEXTS:
        assert not is_version(text)
        assert is_version(public_version(text))
    for other in (
        "",
        "1.",
        "v1.0",
        "1.0 ",
        "1.0-audited",
        "1.0.audited",
        "1" * 60,
        "１.0",
    ):
        assert not is_version(other), other


@pytest.mark.parametrize("package", ["python", *PACKAGES])
@pytest.mark.parametrize("text", FREE_TEXTS)
def test_every_package_has_a_version_and_no_text(package, text):
    forged = copy.deepcopy(genuine("gaussian"))
    assert package in forged["software"]
    forged["software"][package] = text
    assert not is_confirmed(forged)


# ---- the parameters of a test


@pytest.mark.parametrize("name", TESTS)
def test_level_and_permutations_are_bound_to_each_other(name):
    """A little more or less of one of them is not a level that the test attains."""
    record = genuine(name)
    for parameter in ("level", "permutations"):
        value = record["parameters"][parameter]
        changes = [value * (1 + change) for change in (-1e-3, 1e-3, -1e-9, 1e-9, 0.02)]
        changes += [np.nextafter(value, 0.0), np.nextafter(value, np.inf)]
        if parameter == "permutations":
            changes += [value - 1, value + 1, value + 2, value - 7, 2 * value]
        for new in changes:
            forged = copy.deepcopy(record)
            forged["parameters"][parameter] = new
            assert not is_confirmed(forged), (parameter, new)


def test_a_test_keeps_its_level_and_its_decision():
    """The stated level is the attained one: the largest k/(B + 1) not above the request."""
    for level, permutations, attained in (
        (0.05, 498, 24),
        (0.05, 499, 25),
        (0.4, 4, 2),
    ):
        certificate = two_sample_test_certificate(
            level=level, permutations=permutations
        )
        assert certificate.parameters["level"] == attained / (permutations + 1)
    assert GDP(1.0) == certificate.guarantee
