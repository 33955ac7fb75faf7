"""Sites: what they pay, whom they refuse before a sum is formed, what they sign, and what a hostile server gets."""

import copy
import functools
import json
from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from curvedp.core.certificate import is_certificate_signed, seal
from curvedp.errors import (
    BudgetExceeded,
    CurvedpError,
    FederationRefused,
    ParameterError,
)
from curvedp.federated import (
    ClassMeansKernel,
    DispersionKernel,
    MeanKernel,
    Plan,
    Site,
    coordinate,
    in_process,
    new_identity,
)
from curvedp.federated import site as of_sites
from curvedp.geometry import SPDAffineInvariant, SPDLogEuclidean
from curvedp.ledger import Ledger
from curvedp.privacy import GDP
from federated.masked_run import identities, keys
from federated.runs import SPD, answered_until_mask, run, sites_of, study

# ---- ledgers, vetoes, signatures ----


def test_each_site_pays_once_and_before_its_first_vector(tmp_path):
    plan, people, records = study(3, dropouts=0)
    ledgers = [Ledger(tmp_path / f"{i}.ledger", GDP(1.2)) for i in range(3)]
    sites = {
        i: Site(plan, person, x, ledger=book)
        for i, (person, x, book) in enumerate(
            zip(people, records, ledgers, strict=True)
        )
    }
    coordinate(plan, in_process(sites))
    assert [len(book.entries) for book in ledgers] == [1, 1, 1]
    assert ledgers[0].entries[0].guarantee == GDP(1.0)
    assert plan.id[:16] in ledgers[0].entries[0].label


def test_a_site_that_cannot_pay_is_a_lost_one(tmp_path):
    plan, people, records = study(4, dropouts=1)
    poor = Ledger(tmp_path / "poor.ledger", GDP(0.5))
    sites = sites_of(plan, people, records)
    sites[2] = Site(plan, people[2], records[2], ledger=poor)
    release = coordinate(plan, in_process(sites))
    assert [list(r.surviving_sites) for r in release.rounds] == [
        [0, 1, 3]
    ] * plan.rounds
    assert poor.entries == []
    with pytest.raises(BudgetExceeded):
        answered_until_mask(
            plan, people, records, ledger=Ledger(tmp_path / "two.ledger", GDP(0.5))
        )


def test_a_veto_is_heard_before_any_key(tmp_path):
    plan, people, records = study(4, dropouts=1)
    sites = sites_of(plan, people, records)
    sites[1] = Site(
        plan,
        people[1],
        records[1],
        veto=lambda asked: "the board said no" if asked.id == plan.id else None,
    )
    with pytest.raises(FederationRefused, match="the board said no"):
        sites[1].answer(
            {
                "stage": "announce",
                "plan": plan.to_dict(),
                "time": datetime.now(UTC).isoformat(),
            }
        )
    assert 1 not in coordinate(plan, in_process(sites)).rounds[0].surviving_sites


def test_every_site_signs_the_certificate_and_no_other():
    plan, people, records = study(3, dropouts=0)
    release = run(plan, people, records)
    assert set(release.signatures) == set(plan.sites)
    assert all(
        is_certificate_signed(release.certificate, key, sign)
        for key, sign in release.signatures.items()
    )
    other = seal(replace(release.certificate, guarantee=GDP(0.1)))
    assert not any(
        is_certificate_signed(other, key, sign)
        for key, sign in release.signatures.items()
    )


@pytest.mark.parametrize(
    "lie", ["rounds", "points", "plan", "claims", "integers", "lost"]
)
def test_no_site_signs_for_a_server_that_lies(lie):
    plan, people, records = study(3, dropouts=0)

    def lying(ask):
        def asked(requests):
            changed = {}
            for i, request in requests.items():
                if request["stage"] == "sign":
                    request = copy.deepcopy(request)
                    if lie == "plan":
                        request["certificate"]["statistic"]["hours"] = 3.0
                    elif lie == "claims":
                        request["certificate"]["claims"]["gdp"] = 0.5
                    elif lie == "integers":
                        request["certificate"]["release"]["integers"][0][0] += 1
                    elif lie == "lost":
                        request["certificate"]["release"]["stages"][0]["lost"] = [
                            plan.sites[0]
                        ]
                    elif lie == "rounds":
                        request["rounds"][0][0][0] += 2 ** plan.exponents[0]
                    else:
                        request[lie] = (np.array(request[lie]) + 0.01).tolist()
                changed[i] = request
            return ask(changed)

        return asked

    assert (
        coordinate(plan, lying(in_process(sites_of(plan, people, records)))).signatures
        == {}
    )


def test_no_site_signs_sums_in_which_it_took_no_part():
    """A server that never asked it for a vector, and one that lists it among those of a round in which it was lost."""
    plan, people, records = study(4, dropouts=1, rounds=2)
    sites, asked = sites_of(plan, people, records), []

    def remembered(requests):
        asked.extend(requests.values())
        return in_process(
            sites,
            lambda stage, i: i == 3 and bool(asked) and asked[-1].get("round") == 1,
        )(requests)

    assert len(coordinate(plan, remembered).signatures) == 3
    request = asked[-1]
    sites[3].state["masked"].pop("1", None)
    for site, surviving_sites in (
        (Site(plan, people[0], records[0]), [0, 1, 2]),
        (sites[3], [0, 1, 2]),
        (sites[3], [0, 1, 2, 3]),
    ):
        lying = {
            **request,
            "rounds": [[total, surviving_sites] for total, _ in request["rounds"]],
        }
        with pytest.raises(FederationRefused, match="took part in"):
            site.answer(lying)


# ---- refused before a sum is formed ----


OTHERS = {
    "kernel": [
        MeanKernel(SPD, 2.0),
        MeanKernel(SPD, 1.0, np.diag([2.0, 1.0])),
        MeanKernel(SPDAffineInvariant(3), 1.0),
        MeanKernel(SPDLogEuclidean(2), 1.0),
        DispersionKernel(SPD, 1.0),
        ClassMeansKernel(SPD, 1.0, count=1),
    ],
    "sites": [keys(identities(6))[1:], keys(identities(5))[::-1]],
    "counts": [[30, 30, 30, 30, 31]],
    "guarantee": [GDP(0.5), GDP(1.0000001)],
    "dropouts": [0],
    "collusion": [0],
    "rounds": [2],
    "protects": ["person"],
    "created": ["2026-01-01T00:00:00+00:00"],
    "hours": [23.0],
    "software": ["0.0"],
    "exponents": [],  # follow from the others: another grid is another plan, or none
}


def test_every_term_has_another_value_to_try():
    assert set(OTHERS) == {field.name for field in fields(Plan)}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, each in OTHERS.items() for value in each],
    ids=lambda v: str(v)[:40],
)
def test_a_site_of_another_plan_refuses_before_a_sum_is_formed(name, value, tmp_path):
    """Whatever the term: too few are left, no vector was sent, no ledger charged."""
    plan, people, records = study(5, dropouts=1, collusion=1)
    terms = {
        field.name: getattr(plan, field.name)
        for field in fields(Plan)
        if field.name != "exponents"
    }
    other, stages = Plan(**{**terms, name: value}), []
    M, books = (
        other.kernel.manifold,
        [Ledger(tmp_path / f"{i}.ledger", GDP(2.0)) for i in range(5)],
    )
    sites = sites_of(plan, people, records)
    for i in (1, 2):
        extra = {"groups": np.arange(30)} if other.protects == "person" else {}
        held = np.repeat(np.asarray(M.origin)[None], other.counts[i][0], axis=0)
        sites[i] = Site(other, people[i], held, ledger=books[i], **extra)

    def listening(requests):
        stages.append(next(iter(requests.values()))["stage"])
        return in_process(sites)(requests)

    with pytest.raises(FederationRefused, match="are needed"):
        coordinate(plan, listening)
    assert stages == ["announce"]
    assert not any(book.entries for book in books)
    with pytest.raises(
        FederationRefused, match="another plan; it differs in"
    ) as caught:
        sites[1].answer(
            {
                "stage": "announce",
                "plan": plan.to_dict(),
                "time": datetime.now(UTC).isoformat(),
            }
        )
    assert name in str(caught.value)
    with pytest.raises(ParameterError, match="another grid"):
        Plan.from_dict({**plan.to_dict(), "exponents": [k + 1 for k in plan.exponents]})


def test_clocks_that_differ_are_refused():
    plan, people, records = study(3, dropouts=0)
    site = Site(plan, people[0], records[0])
    for minutes in (-60 * 24, -20, -5.1, 5.1, 20):
        skewed = (datetime.now(UTC) + timedelta(minutes=minutes)).isoformat()
        with pytest.raises(FederationRefused, match="clock"):
            site.answer({"stage": "announce", "plan": plan.to_dict(), "time": skewed})
    for nonsense in ("now", "", None, 3, "2026-01-01T00:00:00", float("nan")):
        with pytest.raises(FederationRefused) as caught:
            site.answer({"stage": "announce", "plan": plan.to_dict(), "time": nonsense})
        assert "\n" not in str(caught.value)
    old, people, records = study(3, dropouts=0, created="2026-01-01T00:00:00+00:00")
    with pytest.raises(FederationRefused):
        run(old, people, records)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_a_run_that_a_server_draws_out_ends_with_the_plan(late, monkeypatch, tmp_path):
    plan, people, records = study(3, dropouts=0, hours=2.0)
    ledger = Ledger(tmp_path / "ledger", GDP(5.0))
    sites, begun = sites_of(plan, people, records, ledger=ledger), datetime.now
    hours = [0.0]

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return begun(tz) + timedelta(hours=hours[0])

    monkeypatch.setattr(of_sites, "datetime", Clock)

    def ask(requests):
        if any(request.get("round") == late for request in requests.values()):
            hours[0] = 2.2
        return in_process(sites)(requests)

    with pytest.raises(FederationRefused, match="0 of 3 sites"):
        coordinate(plan, ask)
    assert bool(ledger.entries) == (
        late > 0
    )  # nothing is paid for a vector that is not given
    assert {len(site.state["masked"]) for site in sites.values()} == {late}


def test_records_that_are_not_the_plans_are_refused():
    plan, people, records = study(3, 30, dropouts=0)
    for wrong in (
        records[0][:-1],
        records[0][:, :1],
        np.zeros((30, 3, 3)),
        records[0][0],
    ):
        with pytest.raises(ParameterError):
            Site(plan, people[0], wrong)
    with pytest.raises(ParameterError, match="labels"):
        Site(plan, people[0], records[0], np.zeros(30))
    with pytest.raises(ParameterError, match="not among"):
        Site(plan, new_identity(), records[0])


@pytest.mark.parametrize(
    "request_",
    [{}, {"stage": "none"}, {"stage": "announce"}, {"stage": "mask", "round": 0, "at": 1, "boxes": {}}, {"stage": "unmask"},
     {"stage": "announce", "plan": 3, "time": 1}, {"stage": "share", "announcements": {"0": 1}}, {"stage": "sign"}],
    ids=str,
)  # fmt: skip
def test_nonsense_from_the_server_is_refused_in_one_line(request_):
    plan, people, records = study(3, dropouts=0)
    with pytest.raises(FederationRefused) as caught:
        Site(plan, people[0], records[0]).answer(request_)
    assert "\n" not in str(caught.value)


def leaves(value, place=()):
    """Places in a JSON value, the value's own included; of lists the first and the last."""
    yield place
    if isinstance(value, list):
        value = {k: value[k] for k in (0, len(value) - 1) if value}
    for key, part in value.items() if isinstance(value, dict) else ():
        yield from leaves(part, (*place, key))


def with_leaf(value, place, new):
    if not place:
        return new
    return {**value, place[0]: with_leaf(value[place[0]], place[1:], new)} if isinstance(value, dict) else [
        with_leaf(part, place[1:], new) if k == place[0] else part for k, part in enumerate(value)
    ]  # fmt: skip


STRANGE = [
    None,
    True,
    -1,
    7,
    10**400,
    2**64,
    0.5,
    np.nan,
    np.inf,
    1e308,
    "",
    "x",
    "\ud800",
    "9" * 5000,
    [],
    {},
    [[None]],
    {"0": 1},
    functools.reduce(lambda inner, _: [inner], range(5000), 0),
]


def test_no_leaf_of_a_request_makes_a_site_raise_or_pay_for_nothing(tmp_path):
    plan, people, records = study(3, 4, dropouts=0, rounds=1)
    sites, asked = sites_of(plan, people, records), []

    def remembered(requests):
        asked.append((copy.deepcopy(sites[0].state), copy.deepcopy(requests[0])))
        return in_process(sites)(requests)

    coordinate(plan, remembered)
    assert [request["stage"] for _, request in asked] == [
        "announce",
        "share",
        "mask",
        "unmask",
        "sign",
    ]
    book = Ledger(tmp_path / "l.ledger", GDP(100.0))
    for state, request in asked:
        places = (
            [(name,) for name in request]
            if request["stage"] == "sign"
            else list(leaves(request))[1:]
        )
        for place in places:
            for strange in STRANGE:
                site = Site(
                    plan, people[0], records[0], state=copy.deepcopy(state), ledger=book
                )
                paid = len(book.entries)
                said = in_process({0: site})({0: with_leaf(request, place, strange)})
                assert said or len(book.entries) == paid, (place, strange)


def test_no_leaf_of_a_strangers_plan_raises_anything_else():
    terms = study(3, 4, dropouts=0, rounds=1)[0].to_dict()
    for place in leaves(terms):
        for strange in (*STRANGE, 10**5000):
            with suppress(CurvedpError):
                assert isinstance(
                    Plan.from_dict(with_leaf(terms, place, strange)), Plan
                )


def test_a_server_that_chooses_the_point_gets_bounded_terms():
    plan, _, records = study(3, dropouts=0)
    start, question = plan.kernel.initial_state_rows(), plan.questions[0]
    for place in (
        np.nan,
        1e308,
        -1.0,
    ):  # no point: refused, whatever the records, and before it is paid for
        at = start.copy()
        at[:, :8] = place
        for data in (records[0], np.full_like(records[0], np.nan), records[0][:0]):
            with pytest.raises(ParameterError):
                plan.kernel.bounded_rows(question, at, data, 0)
    for point in (
        np.eye(2),
        np.diag([1e12, 1e-12]),
        np.array([[1.0, 0.999], [0.999, 1.0]]),
    ):
        for radius in (0.0, -1.0, np.nan, np.inf, 1e-300, 1e300):
            at = np.concatenate(
                [point.ravel(), np.eye(2).ravel(), [radius, radius, np.nan]]
            )[None]
            rows = plan.kernel.bounded_rows(question, at, records[0], 0)
            assert (np.linalg.norm(rows, axis=1) <= 1 + 1e-12).all()


def test_a_place_that_is_none_is_refused_before_it_is_paid_for(tmp_path):
    plan, people, records = study(3, dropouts=0)
    sites, _ = answered_until_mask(plan, people, records)
    book = Ledger(tmp_path / "l.ledger", GDP(1.2))
    site = Site(
        plan, people[1], records[1], ledger=book, state=copy.deepcopy(sites[1].state)
    )
    boxes = {str(j): sites[j].state["bundles"].get("1", "") for j in (0, 2)}
    for at in (
        np.full(plan.kernel.initial_state_rows().shape, np.nan),
        np.zeros((2, 11)),
        3.0,
    ):
        with pytest.raises((FederationRefused, ParameterError)):
            site.answer(
                {
                    "stage": "mask",
                    "round": 0,
                    "at": np.asarray(at).tolist(),
                    "boxes": boxes,
                }
            )
    assert book.entries == []


def test_two_processes_of_a_site_do_not_both_answer(tmp_path):
    """From one state, before either has written it back: two vectors of a round would be two releases, paid once."""
    plan, people, records = study(3, dropouts=0)
    sites, _ = answered_until_mask(plan, people, records)
    twins = [
        Site(
            plan,
            people[1],
            records[1],
            state=copy.deepcopy(sites[1].state),
            journal=tmp_path,
        )
        for _ in range(2)
    ]
    boxes = {
        str(j): sites[j].state["bundles"]["1"]
        for j in (0, 2)
        if "1" in sites[j].state["bundles"]
    }
    request = {
        "stage": "mask",
        "round": 0,
        "at": plan.kernel.initial_state_rows().tolist(),
        "boxes": boxes | {"0": "", "2": ""},
    }
    assert "masked" in twins[0].answer(request)
    with pytest.raises(FederationRefused, match="has answered"):
        twins[1].answer(
            {**request, "at": (2 * plan.kernel.initial_state_rows()).tolist()}
        )
    with pytest.raises(FederationRefused, match="journal"):
        Site(plan, people[1], records[1], journal=tmp_path / "none").answer(
            {"stage": "announce"}
        )


def test_a_state_survives_json():
    plan, people, records = study(3, dropouts=0)
    sites = sites_of(plan, people, records)

    def restarted(requests):
        for i in requests:
            sites[i] = Site(
                plan,
                people[i],
                records[i],
                state=json.loads(json.dumps(sites[i].state)),
            )
        return in_process(sites)(requests)

    assert len(coordinate(plan, restarted).signatures) == 3
