"""One ledger, one unit of privacy: what protects records and persons is never added up."""

import contextlib
import hashlib
import itertools
import json
import sqlite3

import numpy as np
import pytest

from curvedp import (
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivatePCA,
    PrivateSoftmax,
    PrivateTangentSpace,
)
from curvedp.core.codes import ProtectedUnit
from curvedp.core.registry import statistics
from curvedp.errors import CurvedpError, LedgerCorrupted, ParameterError
from curvedp.federated import ClassMeansKernel, Site, coordinate, in_process
from curvedp.federated.kernels import Kernel
from curvedp.geometry import Euclidean, SPDLogEuclidean
from curvedp.inference import k_sample_test, two_sample_test
from curvedp.inference.kernel import KernelStatistic
from curvedp.ledger import Ledger
from curvedp.ledger.book import unit_in_words
from curvedp.privacy import GDP, PrivacyUnit, PureDP
from curvedp.release.selection import private_selection
from federated.runs import study

RECORD, PERSON = PrivacyUnit.RECORD, PrivacyUnit.PERSON
UNITS = (RECORD, PERSON)
UNITS_IN_CLASS = (PrivacyUnit.RECORD_IN_CLASS, PrivacyUnit.PERSON_IN_CLASS)


def other_than(unit):
    """Return the unit of persons for one of records, and the other way round."""
    return RECORD if unit in (PERSON, PrivacyUnit.PERSON_IN_CLASS) else PERSON


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.ledger"


def spend_with(ledger, unit):
    ledger.spend(GDP(0.1), "by hand", unit=unit)


def spend_on_groups_with(ledger, unit):
    ledger.spend_on_disjoint_groups([GDP(0.1), GDP(0.2)], "by hand", unit=unit)


def spend_in_a_partition_with(ledger, unit):
    ledger.spend(GDP(0.1), "by hand", unit=unit, partition="wards", group="a")


SPENDS = (spend_with, spend_on_groups_with, spend_in_a_partition_with)


@pytest.mark.parametrize("second", SPENDS)
@pytest.mark.parametrize("first", [None, *SPENDS])
@pytest.mark.parametrize("unit", UNITS_IN_CLASS)
def test_the_other_unit_is_refused_before_anything_is_paid(path, unit, first, second):
    """Whether the ledger was created with its unit, or has it of its first charge."""
    if first is None:
        ledger = Ledger(path, GDP(2.0), unit=unit)
    else:
        ledger = Ledger(path, GDP(2.0))
        assert ledger.unit is None
        first(ledger, unit)
    content = path.read_bytes()
    for use in (ledger, Ledger(path)):
        assert use.unit is unit
        with pytest.raises(ParameterError, match="do not add up"):
            second(use, other_than(unit))
        assert path.read_bytes() == content
        second(use, unit)
        content = path.read_bytes()
    second(ledger, None)  # by hand, without a unit: the caller vouches
    entry = ledger.entries[-1]
    assert entry.unit is None
    assert ledger.unit is unit
    assert ledger.verify() == len(ledger.entries)


def test_a_ledger_is_opened_with_the_unit_that_it_has(path):
    Ledger(path, GDP(1.0))
    for unit in UNITS:
        with pytest.raises(ParameterError, match="does not say whom"):
            Ledger(path, unit=unit)
    Ledger(path).spend(GDP(0.1), "x", unit="person")
    assert Ledger(path, GDP(1.0), unit="person").unit is PERSON
    with pytest.raises(ParameterError, match="per person, not per record"):
        Ledger(path, unit="record")


@pytest.mark.parametrize("unit", ["", "people", 1, True, b"person", ["person"]])
def test_nothing_else_is_a_unit(path, unit):
    with pytest.raises(ParameterError, match="unit="):
        Ledger(path, GDP(1.0), unit=unit)
    assert not path.exists()
    ledger = Ledger(path, GDP(1.0))
    with pytest.raises(ParameterError, match="unit="):
        ledger.spend(GDP(0.1), "x", unit=unit)
    assert ledger.entries == []


@pytest.mark.parametrize(
    "facts",
    [
        {"n": -1},
        {"n": 2.5},
        {"n": "40"},
        {"n": True},
        {"space": ""},
        {"space": "a\nb"},
        {"space": 3},
        {"statistic": "x" * 201},
        {"statistic": "\x1b[8m"},
        {"statistic": []},
    ],
)
def test_facts_of_an_entry_are_checked(path, facts):
    ledger = Ledger(path, GDP(1.0))
    with pytest.raises(ParameterError, match=next(iter(facts))):
        ledger.spend(GDP(0.1), "x", **facts)
    assert ledger.entries == []


def test_a_private_number_is_refused(path):
    ledger = Ledger(path, GDP(1.0, adjacency="add-remove"))
    with pytest.raises(ParameterError, match="n is private"):
        ledger.spend(GDP(0.1, adjacency="add-remove"), "x", n=40)
    ledger.spend(GDP(0.1, adjacency="add-remove"), "x")
    assert ledger.entries[0].n is None


# ---- classes that are public


# A small world: two records, each with a label and a value. A unit is the set of pairs
# of data sets that differ in it.
WORLD = [
    tuple(zip(labels, values, strict=True))
    for labels in itertools.product("ab", repeat=2)
    for values in itertools.product((0, 1), repeat=2)
]


def differing(first, second):
    """Return the positions at which two data sets differ."""
    rows = zip(first, second, strict=True)
    return [position for position, (row, other) in enumerate(rows) if row != other]


def neighbors(unit):
    """Return all pairs of data sets of the small world that differ in one unit.

    Both records are of one person where persons are protected.
    """
    is_person = unit in (PERSON, PrivacyUnit.PERSON_IN_CLASS)
    pairs = set()
    for first, second in itertools.product(WORLD, repeat=2):
        changed = differing(first, second)
        keeps_class = all(first[k][0] == second[k][0] for k in changed)
        if (is_person or len(changed) <= 1) and (
            keeps_class or unit in (RECORD, PERSON)
        ):
            pairs.add((first, second))
    return pairs


@pytest.mark.parametrize("charged", PrivacyUnit)
@pytest.mark.parametrize("counted", PrivacyUnit)
def test_a_ledger_takes_only_what_covers_all_its_neighbors(path, counted, charged):
    """A charge for one unit counts for another only if it bounds all of its pairs."""
    ledger = Ledger(path, GDP(2.0), unit=counted)
    content = path.read_bytes()
    if charged.implies(counted):
        assert neighbors(counted) <= neighbors(charged)
        ledger.spend(GDP(0.1), "x", unit=charged)
    else:
        with pytest.raises(ParameterError, match="do not add up"):
            ledger.spend(GDP(0.1), "x", unit=charged)
        assert path.read_bytes() == content
    assert ledger.unit is Ledger(path).unit is counted


@pytest.mark.parametrize("unit", ProtectedUnit)
def test_every_protected_unit_is_counted_for_what_it_implies(unit):
    """A release within public classes is never counted for a record or a person."""
    if unit is ProtectedUnit.AS_IN_EACH_RUN:
        assert unit.ledger_unit is None
        return
    assert unit.ledger_unit in PrivacyUnit
    is_within_a_part = unit.value.endswith(("_in_class", "_in_domain"))
    assert (unit.ledger_unit in UNITS_IN_CLASS) == is_within_a_part
    assert unit.privacy_unit.in_class is unit.ledger_unit.in_class


@pytest.mark.parametrize("spend", [spend_on_groups_with, spend_in_a_partition_with])
@pytest.mark.parametrize("unit", UNITS)
def test_disjoint_groups_protect_a_unit_within_its_group(path, unit, spend):
    """Parallel composition says nothing about a record that changes its group."""
    ledger = Ledger(path, GDP(2.0), unit=unit)
    with pytest.raises(ParameterError, match="do not add up"):
        spend(ledger, unit)
    assert ledger.entries == []
    in_class = Ledger(path.with_name("other.ledger"), GDP(2.0), unit=unit.in_class)
    spend(in_class, unit)
    spend_with(in_class, unit)
    assert [entry.unit for entry in in_class.entries] == [unit.in_class, unit]


@pytest.mark.filterwarnings("ignore")
def test_classes_and_records_share_a_ledger_for_classes_only(path):
    in_class = Ledger(path, GDP(9.0), unit="record_in_class")
    for name in ("mean", "classes", "mean"):
        ESTIMATORS[name](in_class, None)
    assert len(in_class.entries) == 3
    for_records = Ledger(path.with_name("other.ledger"), GDP(9.0), unit="record")
    ESTIMATORS["mean"](for_records, None)
    with pytest.raises(ParameterError, match="unit='record_in_class'"):
        ESTIMATORS["classes"](for_records, None)
    assert len(for_records.entries) == 1


# ---- every way to a release


RNG = np.random.default_rng(0)
N = 60
PEOPLE = np.repeat(np.arange(N // 2), 2)
VECTORS = RNG.normal(size=(N, 2)) * 0.1
MATRICES = np.tile(np.eye(3), (N, 1, 1)) + np.einsum(
    "n,ij->nij", RNG.uniform(0, 0.3, N), np.ones((3, 3))
)
LABELS = np.repeat([0, 1], N // 2)
ONE_LABEL_EACH = np.repeat([0, 1], N // 2)
PLANE = Euclidean(2)
CONES = SPDLogEuclidean(3)
PAID = {"guarantee": GDP(1.0), "label": "x"}

ESTIMATORS = {
    "mean": lambda ledger, groups: PrivateFrechetMean(
        PLANE, radius=1.0, ledger=ledger, **PAID
    ).fit(VECTORS, groups=groups),
    "mean in a private ball": lambda ledger, groups: PrivateFrechetMean(
        PLANE, radius="private", outer_radius=9.0, ledger=ledger, **PAID
    ).fit(VECTORS, groups=groups),
    "tangent space": lambda ledger, groups: PrivateTangentSpace(
        CONES, radius=2.0, ledger=ledger, **PAID
    ).fit(MATRICES, groups=groups),
    "median": lambda ledger, groups: PrivateFrechetMedian(
        PLANE, radius=1.0, ledger=ledger, **PAID
    ).fit(VECTORS, groups=groups),
    "dispersion": lambda ledger, groups: PrivateDispersion(
        PLANE, radius=1.0, ledger=ledger, **PAID
    ).fit(VECTORS, groups=groups),
    "classes": lambda ledger, groups: PrivateMDM(
        PLANE, radius=1.0, ledger=ledger, **PAID
    ).fit(VECTORS, ONE_LABEL_EACH, groups=groups),
    "directions": lambda ledger, groups: PrivatePCA(
        1, radius=1.0, method="one-shot", ledger=ledger, **PAID
    ).fit(VECTORS, groups=groups),
    "classifier": lambda ledger, groups: PrivateSoftmax(
        CONES, reduce=2, ledger=ledger, **PAID
    ).fit(MATRICES, LABELS, groups=groups),
    "line": lambda ledger, groups: PrivateGeodesicRegression(
        PLANE,
        radius=1.0,
        speed=1.0,
        clip=1.0,
        x_range=(0, 1),
        method="dp-rgd",
        ledger=ledger,
        **PAID,
    ).fit(np.linspace(0, 1, N), VECTORS, groups=groups),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("unit", UNITS)
def test_every_estimator_states_its_unit(path, name, unit):
    groups = PEOPLE if unit is PERSON else None
    ledger = Ledger(path, GDP(9.0))
    ESTIMATORS[name](ledger, groups)
    (entry,) = ledger.entries
    protected = unit.in_class if name == "classes" else unit
    assert entry.unit is protected is ledger.unit
    assert entry.n == (N // 2 if unit is PERSON else N)
    assert entry.space
    assert entry.statistic
    other = Ledger(path.with_name("other.ledger"), GDP(9.0), unit=other_than(unit))
    with pytest.raises(ParameterError, match="do not add up"):
        ESTIMATORS[name](other, groups)
    assert other.entries == []


def test_tests_state_records_and_choices_what_they_are_told(path):
    ledger = Ledger(path, GDP(9.0))
    test = two_sample_test(
        PLANE,
        VECTORS[:30],
        VECTORS[30:],
        radius=1.0,
        guarantee=PureDP(1.0),
        ledger=ledger,
    )
    assert 0 <= test.pvalue <= 1
    (entry,) = ledger.entries
    assert (entry.unit, entry.n) == (RECORD.in_class, N)

    def choose(unit):
        return private_selection(
            [1, 2],
            lambda candidate, guarantee, source: (0.0, candidate),
            PureDP(1.0),
            ledger=ledger,
            unit=unit,
        )

    for unit in (None, "record", "record_in_class"):
        choose(unit)
    units = [entry.unit for entry in ledger.entries[1:]]
    assert units == [None, RECORD, RECORD.in_class]
    with pytest.raises(ParameterError, match="do not add up"):
        choose("person")
    with pytest.raises(ParameterError, match="unit="):
        choose("people")
    assert len(ledger.entries) == 4


# ---- records in groups that are public: classes, samples, classes of sites


def _test_of_samples(ledger, number_of_samples):
    samples = np.array_split(VECTORS, number_of_samples)
    k_sample_test(PLANE, samples, radius=1.0, ledger=ledger)


def _class_means_of_sites(ledger):
    plan, people, records = study(
        3,
        kernel=ClassMeansKernel(PLANE, 1.0, count=2),
        dropouts=0,
        counts=[[15, 15]] * 3,
    )
    sites = {
        index: Site(plan, person, records[index], labels=np.repeat([0, 1], 15))
        for index, person in enumerate(people[1:], 1)
    }
    sites[0] = Site(
        plan, people[0], records[0], labels=np.repeat([0, 1], 15), ledger=ledger
    )
    coordinate(plan, in_process(sites))


WITH_PUBLIC_GROUPS = {
    "classes": lambda ledger: ESTIMATORS["classes"](ledger, None),
    "two samples": lambda ledger: _test_of_samples(ledger, 2),
    "three samples": lambda ledger: _test_of_samples(ledger, 3),
    "classes of sites": _class_means_of_sites,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WITH_PUBLIC_GROUPS)
def test_public_groups_are_counted_for_records_within_their_group(path, name):
    """A record that changes its group changes public sizes: nothing is promised then."""
    release = WITH_PUBLIC_GROUPS[name]
    for_records = Ledger(path, GDP(9.0), unit="record")
    # A site that refuses to pay is lost, so the federated run stops.
    with contextlib.suppress(CurvedpError):
        release(for_records)
    assert for_records.entries == []

    in_class = Ledger(path.with_name("other.ledger"), GDP(9.0))
    release(in_class)
    assert in_class.unit is RECORD.in_class


def test_no_statistic_of_public_groups_claims_more():
    """Every test of samples, and every kernel of a federated sum that has classes."""
    tests_of_samples = [
        kind
        for kind in statistics
        if issubclass(kind, KernelStatistic) and not kind.is_paired
    ]
    assert tests_of_samples
    for kind in tests_of_samples:
        units = [unit.ledger_unit for unit in kind.privacy_units]
        assert set(units) <= set(UNITS_IN_CLASS), kind

    kernels_with_classes = [
        kind
        for kind in Kernel.registry.values()
        if kind.n_classes is not Kernel.n_classes
    ]
    assert kernels_with_classes == [ClassMeansKernel]
    for protects in ("record", "person"):
        for count, within_a_class in ((1, False), (2, True)):
            plan, _, _ = study(
                3,
                kernel=ClassMeansKernel(PLANE, 1.0, count=count),
                dropouts=0,
                counts=[[15] * count] * 3,
                protects=protects,
            )
            (unit,) = plan.privacy_units
            assert (unit.ledger_unit in UNITS_IN_CLASS) == within_a_class


# ---- ledgers of earlier versions, and lines that somebody changed


def _old_ledger(path, extra=({}, {})):
    """A ledger as version 0.2 wrote it: format 2, totals, no unit."""
    first = {"budget": GDP(2.0).to_dict(), "format": 2, "id": "0" * 32, "keyed": False}
    entry = {
        "label": "old",
        "guarantee": GDP(0.5).to_dict(),
        "partition": None,
        "group": None,
        "time": "2026-01-01T00:00:00+00:00",
        "opens": None,
        "total": ["1/4"],
        "of_group": None,
    }
    connection, previous = sqlite3.connect(path), ""
    connection.execute(
        "CREATE TABLE entries (number INTEGER PRIMARY KEY, body TEXT NOT NULL, "
        "hash TEXT NOT NULL) STRICT"
    )
    bodies = [first | extra[0], entry, entry | {"total": ["1/2"]} | extra[1]]
    for number, body in enumerate(bodies):
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        previous = hashlib.sha256(f"{previous}\n{number}\n{text}".encode()).hexdigest()
        connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?)", (number, text, previous)
        )
    connection.execute(f"PRAGMA user_version={len(bodies)}")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("unit", UNITS)
def test_an_old_ledger_opens_and_takes_the_unit_of_its_next_charge(path, unit):
    _old_ledger(path)
    ledger = Ledger(path, GDP(2.0))
    assert ledger.unit is None
    entry = ledger.entries[0]
    assert (entry.unit, entry.n, entry.space, entry.statistic) == (None,) * 4
    assert "unknown until a charge states it" in ledger._repr_html_()
    ledger.spend(GDP(0.1), "by hand")
    assert ledger.unit is None
    ledger.spend(GDP(0.1), "new", unit=unit)
    assert ledger.unit is unit is Ledger(path).unit
    with pytest.raises(ParameterError, match="do not add up"):
        ledger.spend(GDP(0.1), "other", unit=other_than(unit))
    assert ledger.verify() == 4


@pytest.mark.parametrize(
    "extra",
    [
        ({"unit": "record"}, {"unit": "person"}),
        ({"unit": "people"}, {}),
        ({}, {"unit": "people"}),
        ({}, {"unit": 1}),
        ({}, {"unit": []}),
    ],
)
def test_lines_with_another_unit_are_damage(path, extra):
    _old_ledger(path, extra)
    with pytest.raises(LedgerCorrupted):
        Ledger(path)


@pytest.mark.parametrize(
    "facts", [{"n": "x"}, {"n": True}, {"space": 1}, {"statistic": []}]
)
def test_facts_of_another_kind_are_damage(path, facts):
    _old_ledger(path, ({}, facts))
    with pytest.raises(CurvedpError):
        _ = Ledger(path).entries


def test_a_keyed_ledger_with_a_unit_asks_for_its_key(path):
    """The first line is longer by its unit: the key is asked for all the same."""
    from curvedp.ledger import write_key

    key = path.with_name("key")
    write_key(key)
    Ledger(path, GDP(1.0), key=key, unit="person")
    with pytest.raises(ParameterError, match="has a key"):
        Ledger(path)
    assert Ledger(path, key=key).unit is PERSON


@pytest.mark.parametrize("unit", UNITS_IN_CLASS)
def test_a_total_over_several_partitions_says_what_it_protects(tmp_path, unit):
    """A record that changes its sample, but not its class, is not protected by both."""
    ledger = Ledger(tmp_path / "x.ledger", GDP(2.0), unit=unit)
    ledger.spend(GDP(0.5), "means by diagnosis", unit=unit)
    ledger.spend(GDP(0.5), "test by region", unit=unit)
    assert "stays in the same one in each release" in unit_in_words(ledger.unit)
    assert "in each release" in ledger._repr_html_()
    for plain in UNITS:
        assert "in each release" not in unit_in_words(plain)


def test_nothing_left_can_be_printed(tmp_path):
    """`remaining` is None for programs; people read words."""
    ledger = Ledger(tmp_path / "x.ledger", GDP(1.0))
    assert ledger.remaining_in_words == "GDP(1.0)"
    ledger.spend(GDP(1.0), "all")
    assert ledger.remaining is None
    assert ledger.remaining_in_words == "nothing"
    assert "nothing of GDP(1.0)" in str(ledger)
    ledger.freeze("the study has ended")
    assert ledger.remaining is None
    assert "frozen" in ledger.remaining_in_words
