"""What a site signs, and what it tells a server that it refuses."""

import contextlib
import copy
import json
import sqlite3
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from curvedp.core.certificate import seal
from curvedp.errors import CurvedpError, FederationRefused
from curvedp.federated import MeanKernel, Site, coordinate, flower, in_process
from curvedp.federated.flower import answer_text
from curvedp.federated.masking import REFUSALS
from curvedp.federated.plan import Round
from curvedp.federated.release import build_certificate
from curvedp.geometry import Euclidean
from curvedp.ledger import Ledger
from curvedp.ledger import write_key as write_ledger_key
from curvedp.mechanisms import Certificate
from curvedp.privacy import GDP
from curvedp.signing import write_key
from federated.runs import sites_of, study
from support.releases import value_at


@pytest.fixture(scope="module")
def run():
    """(plan, people, records, states before signing, the honest request to sign)."""
    plan, people, records = study(3, kernel=MeanKernel(Euclidean(2), 1.0), dropouts=0)
    sites, states, requests = sites_of(plan, people, records), {}, []

    def watched(asked):
        for i, request in asked.items():
            if request["stage"] == "sign":
                states[i] = copy.deepcopy(sites[i].state)
                requests.append(copy.deepcopy(dict(request)))
        return in_process(sites)(asked)

    release = coordinate(plan, watched)
    assert len(release.signatures) == 3
    return plan, people, records, states, json.loads(json.dumps(requests[0]))


def site_before_signing(run, **options):
    plan, people, records, states, _ = run
    state = copy.deepcopy(states[0])
    return Site(plan, people[0], records[0], state=state, **options)


def is_signed(run, request):
    try:
        return "signature" in site_before_signing(run).answer(request)
    except CurvedpError:
        return False


def resealed(record):
    certificate = Certificate.from_json(json.dumps(record))
    return json.loads(seal(certificate).to_json())


def leaves(value, path=()):
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*path, name))
    elif isinstance(value, list) and value:
        for place in sorted({0, len(value) - 1}):
            yield from leaves(value[place], (*path, place))
    else:
        yield path


def others(value):
    """Other values of the same kind, and of others."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 0, -1, "1"]
    if isinstance(value, float):
        return [value * 1.001 + 0.001, value * 0.999, 1e9, None]
    if isinstance(value, str):
        swapped = ("f" if value[:1] == "0" else "0") + value[1:]
        return [swapped, value + "0", "approved by the ethics board of every site", ""]
    entry = {"entry": 7, "head": "0" * 64}
    return [entry, "approved", 1, [], {}, [1]]


def test_every_leaf_of_the_certificate_is_the_sites_own(run):
    """Every leaf × other values: none is signed, but another time in the plan's hours."""
    request = run[-1]
    assert is_signed(run, request)
    signed = []
    for path in leaves(request["certificate"]):
        for other in others(value_at(request["certificate"], path)):
            if value_at(request["certificate"], path) == other:
                continue
            forged = copy.deepcopy(request["certificate"])
            value_at(forged, path[:-1])[path[-1]] = other
            try:
                forged = resealed(forged) if path != ("sha256",) else forged
            except CurvedpError:
                continue  # it cannot even be read
            if is_signed(run, {**request, "certificate": forged}):
                signed.append((path, other))
    assert not signed, signed[:5]


def test_words_of_the_server_are_not_signed(run):
    """What the reviews' server had signed by every site."""
    request, plan = run[-1], run[0]
    certificate = request["certificate"]
    entry = {"entry": 12, "head": "ab" * 32}
    software = {"curvedp": "9.9.9", "python": "3.13.0"}
    choice = certificate["release"]["choice"]
    words = "approved by the ethics board of every site"
    for changes in (
        {"ledger": entry},
        {"software": software},
        *(
            {"release": {**certificate["release"], "choice": {**choice, **more}}}
            for more in (
                {"excluded": [words]},
                {"predicted_errors": {words: 1.0}},
                {"rule": "named"},
            )
        ),
        {"created": "1999-01-01T00:00:00+00:00"},
        {"created": (datetime.now(UTC) + timedelta(hours=1)).isoformat()},
    ):
        forged = resealed({**certificate, **changes})
        assert not is_signed(run, {**request, "certificate": forged}), changes
    now = datetime.now(UTC).isoformat(timespec="seconds")
    assert plan.is_within_hours(now)
    other_time = resealed({**certificate, "created": now})
    assert is_signed(run, {**request, "certificate": other_time})


def other_totals(run):
    """A request to sign other totals of the last round: all else follows from them."""
    plan, request = run[0], copy.deepcopy(run[-1])
    rounds = [Round(*pair) for pair in request["rounds"]]
    total = [k + 2 ** (plan.exponents[-1] - 4) for k in rounds[-1].total]
    rounds[-1] = Round(total, rounds[-1].surviving_sites)
    certificate = build_certificate(plan, rounds)
    request["rounds"] = [list(pair) for pair in rounds]
    request["certificate"] = json.loads(certificate.to_json())
    return request


@pytest.mark.parametrize("kept", ["object", "state", "journal"])
def test_a_site_signs_one_certificate_a_session(run, kept, tmp_path):
    """Whatever the site goes on with: its object, its state, or another process's."""
    first, second = run[-1], other_totals(run)
    assert is_signed(run, second)  # alone, a site cannot tell it from the true one
    site = site_before_signing(run, journal=tmp_path)
    signature = site.answer(first)["signature"]
    if kept == "state":
        plan, people, records, _, _ = run
        state = json.loads(json.dumps(site.state))
        site = Site(plan, people[0], records[0], state=state)
    if kept == "journal":
        site = site_before_signing(run, journal=tmp_path)
    assert (
        site.answer(first)["signature"] == signature
    )  # a lost answer, asked for again
    with pytest.raises(FederationRefused, match="another certificate"):
        site.answer(second)


def test_a_site_of_another_version_signs_nothing(run):
    plan, people, records, states, request = run
    other = replace(plan, software="0.0.1")
    certificate = build_certificate(other, [Round(*pair) for pair in request["rounds"]])
    state = copy.deepcopy(states[0])
    state["session"]["terms"] = other.id
    site = Site(other, people[0], records[0], state=state)
    asked = {**request, "certificate": json.loads(certificate.to_json())}
    with pytest.raises(FederationRefused):
        site.answer(asked)


# ---- what a refusal tells ----

SECRETS = ("secret", "patients", "GDP", "0.3", "31", "29", "budget", ".npy", "/")


@pytest.fixture
def folder(tmp_path):
    """A site's folder with a small budget."""
    plan, people, records = study(3, 29, dropouts=0)
    (tmp_path / "plan.json").write_text(json.dumps(plan.to_dict()))
    write_key(tmp_path / "key.pem", people[1])
    np.save(tmp_path / "patients-secret.npy", records[1])
    np.save(tmp_path / "other-secret.npy", np.concatenate([records[1], records[0][:2]]))
    np.save(tmp_path / "shape-secret.npy", np.zeros((29, 5)))
    Ledger(tmp_path / "secret.ledger", GDP(0.3))
    settings = {
        "plan": "plan.json", "key": "key.pem", "records": "patients-secret.npy",
        "ledger": "secret.ledger",
    }  # fmt: skip
    (tmp_path / "site.json").write_text(json.dumps(settings))
    return tmp_path, plan, settings


def said_to_server(reply):
    assert set(reply) == {"refused"}, reply
    assert reply["refused"] in REFUSALS
    text = json.dumps(reply)
    assert not [secret for secret in SECRETS if secret in text], text
    return reply["refused"]


def announce(plan, **changes):
    time = datetime.now(UTC).isoformat()
    request = {"stage": "announce", "plan": plan.to_dict(), "time": time, **changes}
    return json.dumps(request)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("records", "no-secret.npy"), ("records", "other-secret.npy"),
        ("records", "shape-secret.npy"), ("records", "plan.json"), ("records", 3),
        ("plan", "no-secret.json"), ("plan", "key.pem"), ("key", "no-secret.pem"),
        ("key", "plan.json"), ("ledger", "no-secret.ledger"), ("ledger", "plan.json"),
        ("labels", "secret-column"), ("groups", "secret-column"),
    ],
)  # fmt: skip
def test_no_fault_of_a_sites_files_is_told(folder, name, value):
    path, plan, settings = folder
    (path / "site.json").write_text(json.dumps({**settings, name: value}))
    reply, state = answer_text(announce(plan), str(path / "site.json"), None)
    assert said_to_server(reply) == "unavailable"
    assert state is None


def test_no_refusal_tells_the_budget_or_the_plan(folder, caplog):
    path, plan, _ = folder
    where = str(path / "site.json")
    other = replace(plan, guarantee=GDP(0.3), exponents=())
    said = said_to_server(answer_text(announce(other), where, None)[0])
    (path / "answered").rename(path / "first")  # the journal: each stage is once
    assert said == "plan"
    old = announce(plan, time="2020-01-01T00:00:00+00:00")
    assert said_to_server(answer_text(old, where, None)[0]) == "clock"
    (path / "answered").rename(path / "second")

    # up to the first vector, for which the site cannot pay
    reply, state = answer_text(announce(plan), where, None)
    assert "keys" in reply
    _, people, records = study(3, 29, dropouts=0)
    sites = sites_of(plan, people, records)
    said = {str(i): sites[i].answer(json.loads(announce(plan))) for i in (0, 2)}
    shares = {"stage": "share", "announcements": {**said, "1": reply}}
    shared, state = answer_text(json.dumps(shares), where, state)
    assert "boxes" in shared
    boxes = {str(j): sites[j].answer(shares)["boxes"]["1"] for j in (0, 2)}
    at_start = plan.kernel.initial_state_rows().tolist()
    mask = {"stage": "mask", "round": 0, "at": at_start, "boxes": boxes}
    with caplog.at_level("WARNING"):
        reply, _ = answer_text(json.dumps(mask), where, state)
    assert said_to_server(reply) == "unavailable"
    assert "does not fit" in caplog.text  # the site's own log says why
    assert Ledger(path / "secret.ledger").entries == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "null", '{"stage": "secret"}', '{"stage": []}', "[" * 10**5]
)
def test_nonsense_is_answered_by_a_code(folder, text):
    path, _, _ = folder
    for state in (None, "{}", '{"session": 1}'):
        reply, _ = answer_text(text, str(path / "site.json"), state)
        assert said_to_server(reply) in ("protocol", "unavailable")


def _exceptions(kind=Exception):
    """Every kind of exception of Python that can be raised with a text."""
    for each in kind.__subclasses__():
        if each.__module__ == "builtins":
            yield from _exceptions(each)
            with contextlib.suppress(TypeError):
                each("")
                yield each


@pytest.mark.parametrize("kind", [*_exceptions(), zipfile.BadZipFile, sqlite3.Error])
def test_no_exception_of_a_site_is_told(folder, monkeypatch, kind):
    """Flower would carry the text of what is not caught to the server."""

    def fail(*_, **__):
        raise kind("Frau Müller, budget 0.3")

    path, plan, _ = folder
    monkeypatch.setattr(flower, "party_from_settings", fail)
    reply, state = answer_text(announce(plan), str(path / "site.json"), None)
    assert said_to_server(reply) in REFUSALS
    assert state is None


def test_a_site_pays_from_a_keyed_ledger(folder):
    path, _, settings = folder
    write_ledger_key(path / "ledger.key")
    Ledger(path / "keyed.ledger", GDP(2.0), key=path / "ledger.key")
    keyed = {"ledger": "keyed.ledger", "ledger_key": "ledger.key"}
    (path / "keyed.json").write_text(json.dumps({**settings, **keyed}))
    site = flower.party_from_settings(str(path / "keyed.json"))
    assert site._ledger.key == path / "ledger.key"


def test_a_veto_keeps_its_reason_to_itself():
    plan, people, records = study(3, dropouts=0)
    site = Site(plan, people[0], records[0], veto=lambda plan: "a secret reason")
    with pytest.raises(FederationRefused) as caught:
        site.answer(json.loads(announce(plan)))
    assert caught.value.code == "declined"
