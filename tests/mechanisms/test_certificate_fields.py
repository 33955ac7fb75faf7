"""No field of a certificate holds what it may not, whether or not a claim rests on it."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from curvedp import GDP, Ledger, PrivateFrechetMean, PrivateFrechetMedian, PrivateMDM
from curvedp.core.certificate_form import is_plain_text, read_time
from curvedp.core.codes import ChoiceRule, ProtectedUnit
from curvedp.core.mechanism import Choice, ReleaseTerms
from curvedp.core.statistic import UNIT_FIELD
from curvedp.core.wording import UNIT_WORDS, protected_unit_sentence
from curvedp.errors import CurvedpError, ParameterError
from curvedp.federated import MeanKernel
from curvedp.geometry import Euclidean, SpecialEuclidean, Sphere
from curvedp.mechanisms import Certificate, LogGaussianMechanism
from curvedp.randomness import SecureSource
from curvedp.release.choose import rank_mechanisms
from curvedp.release.rebuild import mechanism_of
from curvedp.release.verify import remarks_on, verify_certificate
from curvedp.signing import digest
from curvedp.statistics.frechet_mean import FrechetMean
from federated.runs import run as federated_run
from federated.runs import study
from support.releases import value_at

S2 = Sphere(2)
X = np.asarray(
    S2.from_normal_coordinates(
        S2.origin, 0.2 * np.random.default_rng(0).normal(size=(60, 2))
    )
)
PERSONS = np.arange(60) // 3


def paid(ledger):
    model = PrivateFrechetMean(S2, radius=0.7, ledger=ledger).fit(X, groups=PERSONS)
    return model.certificate_


def classes(ledger):
    model = PrivateMDM(S2, radius=0.7, ledger=ledger).fit(X, np.arange(60) % 2)
    return model.certificates_[0]


def private_ball(ledger):
    return PrivateFrechetMean(S2, radius="private").fit(X).certificate_


def number_is_private(ledger):
    guarantee = GDP(1.0, adjacency="add-remove")
    return PrivateFrechetMean(S2, radius=0.7, guarantee=guarantee).fit(X).certificate_


def median(ledger):
    return PrivateFrechetMedian(S2, radius=1.5).fit(X).certificate_


def with_a_length(ledger):
    M = SpecialEuclidean(2, 1 / 3)
    points = np.broadcast_to(M.origin, (40, *M.point_shape))
    model = PrivateFrechetMean(M, radius=1.0, mechanism="tangent-gaussian").fit(points)
    return model.certificate_


def federated(ledger):
    plan, people, records = study(3, kernel=MeanKernel(Euclidean(2), 1.0), dropouts=0)
    return federated_run(plan, people, records).certificate


MAKERS = [
    paid, classes, private_ball, number_is_private, median, with_a_length, federated
]  # fmt: skip

HOSTILE: list[Any] = [
    "\u202e", "a\u202eb", "\u2066", "\u200b", "\x1b[8m", "\x1b]0;x\x07", "\x00", "\n",
    "\ud800", "\ue000", "e\u0301\u0301", "x" * 5000, "audited by the ministry", "",
    "1 (of 1: the only release ever made)", "yesterday; audited", "<b>x</b>",
    ["checked", {"by": "an authority"}], {"\u202e": 1}, {}, [], None, True, False,
    0, -1, 1.5, 10**400, "2026-01-01\u202e10:00:00+00:00", "0" * 63, "A" * 64,
]  # fmt: skip


class CountingSource(SecureSource):
    """Counts how often random bits are read."""

    n_reads = 0

    def random_bytes(self, n):
        self.n_reads += 1
        return super().random_bytes(n)


def leaves(value, path=()):
    """Every leaf, and every object and list, of a JSON value; of a long list, its ends."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list):
        for place in sorted({0, len(value) - 1} if value else ()):
            yield from leaves(value[place], (*path, place))


def changed(record, path, new):
    forged = copy.deepcopy(record)
    place = forged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = new
    return forged


def resealed(record):
    """What a forger writes, who takes the SHA-256 anew."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    try:
        return {**body, "sha256": digest(body).hex()}
    except (CurvedpError, UnicodeError):  # it has no canonical JSON
        return record


def read(record):
    """The certificate, or None where it is refused when it is read."""
    try:
        return Certificate.from_json(json.dumps(record))
    except CurvedpError:
        return None


def confirmed(certificate):
    try:
        return all(check.holds for check in verify_certificate(certificate))
    except CurvedpError:
        return False


def texts(value):
    if isinstance(value, dict):
        return [text for pair in value.items() for part in pair for text in texts(part)]
    if isinstance(value, list):
        return [text for part in value for text in texts(part)]
    return [value] if isinstance(value, str) else []


@pytest.fixture(scope="module", params=MAKERS, ids=lambda make: make.__name__)
def genuine(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.__name__)
    certificate = request.param(Ledger(folder / "study.ledger", GDP(3.0)))
    return json.loads(certificate.to_json())


def test_a_genuine_certificate_is_confirmed(genuine):
    certificate = read(genuine)
    assert confirmed(certificate)
    claims = [check.claim for check in verify_certificate(certificate)]
    assert f"protected: {protected_unit_sentence(certificate)}" in claims
    (described,) = [claim for claim in claims if claim.startswith("statistic: ")]
    assert certificate.statistic["name"] in described
    n = certificate.statistic.get("n")
    plural = UNIT_WORDS[certificate.privacy_unit].plural
    assert n is None or f"n = {n} {plural}" in described


def may_be(path, value):
    """Whether a change makes another release's certificate, or one that claims less."""
    if path[:2] == ("release", "choice"):
        return path[2:] == ("excluded",) and value == []  # it says less
    if value is None:
        return path[0] == "claims" or path in (("ledger",), ("release", "integers"))
    return isinstance(value, int | float) and not isinstance(value, bool)


def test_no_leaf_brings_a_hostile_value_to_a_reader(genuine):
    """Every leaf × every hostile value: what is read has plain texts and finite numbers.

    A value that is of the field's form (another ISO time, another version) may be read,
    since a forger who takes the SHA-256 anew writes the certificate of another release.
    """
    wrong = []
    for path in leaves(genuine):
        for hostile in HOSTILE:
            forged = changed(genuine, path, hostile)
            certificate = read(forged if path == ("sha256",) else resealed(forged))
            if certificate is None:
                continue
            shown = [*texts(certificate.to_dict()), *remarks_on(certificate)]
            if not all(map(is_plain_text, shown)):
                wrong.append((path, hostile))
            is_same = value_at(genuine, path) == hostile
            if is_same or may_be(path, hostile):
                continue
            if confirmed(certificate):
                wrong.append((path, hostile, "confirmed"))
    assert not wrong, wrong[:5]


# Fields that nobody can recompute. All values of their form are accepted, and no others.
RECORDED = {
    ("ledger",): [{}, [], "", True, False, 0, -1, 1.5, {"\u202e": 1}],
    ("ledger", "entry"): [value for value in HOSTILE if value != 10**400],
    ("ledger", "head"): HOSTILE,
    ("created",): HOSTILE,
    ("software",): HOSTILE,
    ("software", "curvedp"): HOSTILE,
    ("software", "python"): HOSTILE,
    ("release", "choice"): HOSTILE,
    ("release", "choice", "rule"): HOSTILE,
    ("release", "choice", "predicted_errors"): [
        value for value in HOSTILE if value != {}
    ],
    ("release", "choice", "excluded"): [value for value in HOSTILE if value != []],
}


@pytest.mark.parametrize("path", RECORDED, ids=".".join)
def test_recorded_fields_have_types_and_closed_lists(path, tmp_path):
    record = json.loads(paid(Ledger(tmp_path / "x.ledger", GDP(3.0))).to_json())
    for hostile in RECORDED[path]:
        forged = resealed(changed(record, path, hostile))
        assert read(forged) is None, hostile


def test_unknown_packages_and_missing_ones_are_refused(tmp_path):
    record = json.loads(paid(None).to_json())
    software = record["software"]
    without = {name: v for name, v in software.items() if name != "curvedp"}
    for other in ({**software, "ministry-of-health": "1.0"}, without, {}):
        assert read(resealed({**record, "software": other})) is None
    old = dict.fromkeys(software, "0.0.1")
    assert read(resealed({**record, "software": old})) is not None


@pytest.mark.parametrize(
    "time",
    [
        "2026-01-31", "2026-01-31 10:00:00+00:00", "2026-01-31T10:00:00",
        "2026-02-31T10:00:00+00:00", "20260131T100000Z", "2026-W05-6T10:00:00+00:00",
        "2026-01-31T10:00:00+00:00 ", "２026-01-31T10:00:00Z", "2026-01-31T25:00:00Z",
    ],
)  # fmt: skip
def test_only_one_way_to_write_a_time_is_read(time):
    assert read_time(time) is None


def test_a_time_in_the_future_is_remarked(tmp_path):
    record = json.loads(paid(None).to_json())
    later = (datetime.now(UTC) + timedelta(days=400)).isoformat(timespec="seconds")
    future = read(resealed({**record, "created": later}))
    assert any("future" in remark for remark in remarks_on(future))
    assert not any("future" in remark for remark in remarks_on(read(record)))


def test_a_forged_unit_is_refuted_and_a_missing_one_not_known():
    """A statistic that can protect several units says which; the unit must agree."""
    for groups in (None, PERSONS):
        model = PrivateFrechetMean(S2, radius=0.7).fit(X, groups=groups)
        record = json.loads(model.certificate_.to_json())
        statistic = mechanism_of(model.certificate_).statistic
        assert len(statistic.privacy_units) > 1
        for unit in ProtectedUnit:
            certificate = read(resealed({**record, "privacy_unit": unit.value}))
            assert confirmed(certificate) == (unit == record["privacy_unit"]), unit
        older = {k: v for k, v in record["statistic"].items() if k != UNIT_FIELD}
        certificate = read(resealed({**record, "statistic": older}))
        unknown = [c for c in verify_certificate(certificate) if c.holds is None]
        claim = f"protected: {protected_unit_sentence(certificate)}"
        assert [check.claim for check in unknown] == [claim]


def chart_mechanism():
    """Return a mechanism that releases a value, here the mean of 60 records."""
    return LogGaussianMechanism.calibrate(FrechetMean(S2, None, 0.7, 60), GDP(1.0))


def test_a_release_refuses_texts_that_no_certificate_may_hold():
    mechanism = chart_mechanism()
    hostile = "\x1b[8m"
    for terms in (
        ReleaseTerms(choice=Choice(predicted_errors={hostile: 1.0})),
        ReleaseTerms(choice=Choice(excluded={hostile: "for a reason"})),
        ReleaseTerms(privacy_unit="one nation"),
        ReleaseTerms(privacy_unit=ProtectedUnit.PAIR),
    ):
        source = CountingSource()
        with pytest.raises(ParameterError):
            mechanism.release(X[0], source=source, terms=terms)
        assert source.n_reads == 0  # it is refused before anything is drawn


def test_an_error_that_doubles_do_not_hold_is_not_written_down():
    """What is paid for is not lost over a prediction: JSON has no infinity."""
    mechanism = chart_mechanism()
    ranking = rank_mechanisms(mechanism.statistic, GDP(1.0))
    own_error = ranking.candidates["tangent-gaussian"].error
    errors = {
        "kng": np.inf,
        "tangent-gaussian": np.float64(own_error),
        "laplace": np.nan,
    }
    choice = Choice(ChoiceRule.SMALLEST_PREDICTED_ERROR, errors)
    certificate = mechanism.release(X[0], terms=ReleaseTerms(choice=choice)).certificate
    again = read(json.loads(certificate.to_json()))
    assert again.release["choice"]["predicted_errors"] == {
        "tangent-gaussian": own_error
    }
    assert confirmed(again)
