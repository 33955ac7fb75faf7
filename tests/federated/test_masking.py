"""The masked sum: exact or refused under random faults, and what a hostile server or site gets from it."""

import copy
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp.errors import FederationRefused, ParameterError
from curvedp.federated import session as shamir
from curvedp.federated.masking import Party
from curvedp.federated.masks import is_announcement
from curvedp.federated.session import PROTOCOL, Session, hash_chain, mask_words
from curvedp.federated.unmasking import unmask_sum
from curvedp.signing import signature
from federated.masked_run import ASKED, identities, keys, parties, round_of, set_up

STAGES = ("announce", "share", "open", "mask", "unmask")


def vectors(rng, sites, length=5):
    return rng.integers(-(2**62), 2**62, (sites, length))


def exact(total, V, surviving_sites):
    return total.tolist() == [
        (sum(int(v) for v in V[surviving_sites, k]) + 2**63) % 2**64 - 2**63
        for k in range(V.shape[1])
    ]


def fault_pattern(rng):
    """(whether the sum must come, whether it came exactly) under one random pattern of losses, over two rounds."""
    count = int(rng.integers(3, 8))
    dropouts = int(rng.integers(0, (count - 1) // 2 + 1))
    if count < dropouts + 2:
        dropouts = count - 2
    session, sites = parties(count, dropouts, 0, 2)
    rate = rng.uniform(0, 0.6) * dropouts / count
    once = {i: str(rng.choice(STAGES)) for i in range(count) if rng.random() < rate}
    try:
        announcements, roster = set_up(sites, lambda stage, i: once.get(i) == stage)
    except FederationRefused:
        return []
    outcomes = []
    for number in range(2):
        V = vectors(rng, count)
        gone = {
            i: str(rng.choice(("mask", "unmask")))
            for i in range(count)
            if rng.random() < rate
        }

        def lost(stage, i, gone=gone):
            return gone.get(i) == stage or once.get(i) == stage

        try:
            surviving_sites, total, _ = round_of(
                session, sites, announcements, roster, number, V, lost
            )
            outcomes.append(
                exact(total, V, surviving_sites)
                and len(surviving_sites) >= session.threshold
            )
        except FederationRefused:
            outcomes.append(None)
    return outcomes


def test_random_faults_leave_the_sum_exact_or_refused():
    """Ten thousand patterns are in `benchmarks/studies/federated.py`."""
    rng = np.random.default_rng(22)
    outcomes = [outcome for _ in range(80) for outcome in fault_pattern(rng)]
    assert False not in outcomes
    assert outcomes.count(True) > 50
    assert outcomes.count(None) > 5, "the patterns must reach refusals too"


def test_losses_up_to_the_public_number_are_survived_in_every_stage():
    for stage in STAGES:
        session, sites = parties(7, 3)
        announcements, roster = set_up(
            sites, lambda s, i, stage=stage: s == stage and i < 3
        )
        V = vectors(np.random.default_rng(1), 7)
        surviving_sites, total, _ = round_of(
            session,
            sites,
            announcements,
            roster,
            0,
            V,
            lambda s, i, stage=stage: s == stage and i < 3,
        )
        assert exact(total, V, surviving_sites), stage


def test_one_loss_too_many_is_refused_in_every_stage():
    for stage in STAGES:
        session, sites = parties(7, 2)

        def lost(s, i, stage=stage):
            return s == stage and i < 3

        with pytest.raises(FederationRefused):
            round_of(
                session,
                sites,
                *set_up(sites, lost),
                0,
                vectors(np.random.default_rng(1), 7),
                lost,
            )


# ---- the server ----


def ready(count=7, dropouts=3, collusion=0, rounds=2):
    session, sites = parties(count, dropouts, collusion, rounds)
    return session, sites, *set_up(sites)


def test_a_second_list_of_survivors_gets_no_second_sum():
    """Two sums of one round, over six sites and over seven, would give away the seventh."""
    session, sites, announcements, roster = ready(7, 2)
    V = vectors(np.random.default_rng(2), 7)
    masked = {i: sites[i].mask(0, ASKED, V[i]) for i in roster}
    six = {i: masked[i] for i in range(6)}
    answers = {i: sites[i].unmask(0, six) for i in range(5)} | {
        6: sites[6].unmask(0, masked)
    }
    _, seeds = unmask_sum(
        session, 0, ASKED, announcements, roster, six, {i: answers[i] for i in range(5)}
    )
    assert len(seeds) == 6
    with pytest.raises(FederationRefused, match="are needed"):
        unmask_sum(session, 0, ASKED, announcements, roster, masked, answers)
    for i in range(5):
        with pytest.raises(FederationRefused, match="once a round"):
            sites[i].unmask(0, masked)


def test_sites_told_different_rosters_cancel_nothing():
    """Two groups with rosters of their own would be two sums, each with less noise than is claimed."""
    _, sites = parties(7, 2)
    announcements = {p.index: p.announce() for p in sites}
    boxes = {p.index: p.share(announcements) for p in sites}
    groups = {i: range(5) if i < 2 else range(7) for i in range(7)}
    for p in sites:
        p.open({j: boxes[j][str(p.index)] for j in groups[p.index] if j != p.index})
    V = vectors(np.random.default_rng(3), 7)
    # reads private seeds: even with every self mask off, no set of sites may add up to what its members hold
    bare = [
        p.mask(0, ASKED, V[p.index]) - mask_words(p._secrets_of_round(0)[1], 5)
        for p in sites
    ]
    for subset in (s for k in range(1, 8) for s in combinations(range(7), k)):
        assert not exact(sum(bare[i] for i in subset).view(np.int64), V, list(subset))


def test_sites_asked_different_things_cancel_nothing():
    session, sites, announcements, roster = ready(5, 1)
    V = vectors(np.random.default_rng(4), 5)
    masked = {i: sites[i].mask(0, b"one" if i < 2 else b"two", V[i]) for i in roster}
    answers = {i: sites[i].unmask(0, masked) for i in roster}
    with pytest.raises(FederationRefused):
        unmask_sum(session, 0, b"two", announcements, roster, masked, answers)


def test_a_server_cannot_put_its_own_keys_in_a_sites_name():
    session, sites = parties(4, 1)
    announcements = {p.index: p.announce() for p in sites}
    forger = Party(
        session, identities(4)[2]
    )  # a party with other secrets under the same key
    body = {k: v for k, v in forger.announce().items() if k != "signature"}
    swapped = {
        **body,
        "signature": signature(Ed25519PrivateKey.generate(), body, PROTOCOL),
    }
    with pytest.raises(FederationRefused, match="not signed by its key"):
        sites[0].share({**announcements, 2: swapped})
    replayed = Party(
        Session(session.sites, 1, 0, 1, "another"), identities(4)[2]
    ).announce()
    with pytest.raises(FederationRefused, match="not signed by its key"):
        sites[0].share({**announcements, 2: replayed})
    with pytest.raises(
        FederationRefused, match="under this site's name is not its own"
    ):
        sites[2].share({**announcements, 2: forger.announce()})
    for name, value in {
        "keys": announcements[1]["keys"],
        "session": "00",
        "site": 3,
    }.items():
        with pytest.raises(FederationRefused):
            sites[0].share({**announcements, 2: {**announcements[2], name: value}})


@pytest.mark.parametrize(
    "place", range(3)
)  # the channel's key, and the pair keys of two rounds
@pytest.mark.parametrize(
    "point",
    [
        bytes(32),
        bytes([1]) + bytes(31),
        bytes([0xEC]) + bytes([0xFF]) * 30 + bytes([0x7F]),
    ],
)
def test_a_site_whose_keys_nobody_can_agree_with_is_a_lost_one(place, point):
    """Of small order: noticed when it is announced, not when the others mask, and have paid."""
    session, sites = parties(4, 1, 0, 2)
    said = sites[3].announce()
    at = 64 * (place and 1 + (place - 1) * session.secrets)
    keys_ = said["keys"][:at] + point.hex() + said["keys"][at + 64 :]
    body = {"session": said["session"], "site": 3, "keys": keys_}
    announced = {**body, "signature": signature(identities(4)[3], body, PROTOCOL)}
    assert is_announcement(session, 3, said)
    assert not is_announcement(session, 3, announced)


def test_every_stage_is_answered_once():
    session, sites, announcements, roster = ready(4, 1)
    V = vectors(np.random.default_rng(5), 4)
    round_of(session, sites, announcements, roster, 0, V)
    with pytest.raises(FederationRefused):
        sites[0].share(announcements)
    with pytest.raises(FederationRefused):
        sites[0].open({})
    with pytest.raises(FederationRefused):
        sites[0].mask(0, ASKED, V[0])
    with pytest.raises(FederationRefused):
        sites[0].unmask(0, range(4))
    for number in (-1, 2, 9):
        with pytest.raises(FederationRefused):
            sites[0].mask(number, ASKED, V[0])
    with pytest.raises(FederationRefused):
        sites[0].unmask(1, range(4))  # before the masked vector
    sites[0].mask(1, ASKED, V[0])
    for survivors in ((1, 2, 3), (0, 1), (0, 1, 2, 9)):
        with pytest.raises(FederationRefused):
            sites[0].unmask(1, survivors)


def test_a_site_lost_late_gives_away_no_earlier_vector():
    """Its pair key of the later round is rebuilt by the server; with one key for all rounds that would open the first."""
    session, sites, announcements, roster = ready(5, 1)
    V = vectors(np.random.default_rng(6), 5)
    round_of(session, sites, announcements, roster, 0, V)
    round_of(
        session,
        sites,
        announcements,
        roster,
        1,
        V,
        lambda stage, i: stage == "mask" and i == 4,
    )
    first, second = (
        sites[4]._secret(b"pair", r) for r in (0, 1)
    )  # what the server knows of round 1 is not round 0's
    assert first != second


def test_fewer_than_a_threshold_of_shares_say_nothing():
    """Shamir's shares below the threshold fit every secret equally well: shown by finding the polynomial for each."""
    shares = shamir.split_secret(5, (1, 2, 3, 4, 5), 3, lambda n: bytes(range(n)))
    two = {x: shares[x] for x in (2, 4)}
    for secret in (0, 5, 123456):
        third = 3
        weight = shamir.lagrange_weights((2, 4, third))
        fitting = (
            (secret - sum(weight[x] * two[x] for x in two))
            * pow(weight[third], -1, shamir.PRIME)
            % shamir.PRIME
        )
        assert shamir.join_shares({**two, third: fitting}) == secret
    assert shamir.join_shares({x: shares[x] for x in (1, 3, 5)}) == 5


def test_masked_vectors_look_uniform_whatever_they_hide():
    _, sites, _, _ = ready(4, 1)
    words = np.concatenate(
        [sites[i].mask(0, ASKED, np.zeros(4096, dtype=np.int64)) for i in range(4)]
    )
    counts = np.bincount(words.view(np.uint8), minlength=256)
    expected = counts.sum() / 256
    assert (
        (counts - expected) ** 2 / expected
    ).sum() < 360  # chi-square, 255 degrees: p > 1e-5


# ---- a site that sends garbage ----


def test_a_wrong_share_is_noticed():
    session, sites, announcements, roster = ready(5, 2)
    V = vectors(np.random.default_rng(7), 5)
    masked = {i: sites[i].mask(0, ASKED, V[i]) for i in roster}
    answers = {i: sites[i].unmask(0, masked) for i in roster}
    for spoil in ("00" * shamir.SHARE_BYTES, "ff" * shamir.SHARE_BYTES):
        wrong = copy.deepcopy(answers)
        wrong[0]["shares"]["3"][0] = spoil
        with pytest.raises(FederationRefused, match="committed"):
            unmask_sum(session, 0, ASKED, announcements, roster, masked, wrong)


def test_a_box_of_nonsense_counts_as_no_shares():
    session, sites = parties(5, 2)
    announcements = {p.index: p.announce() for p in sites}
    boxes = {p.index: p.share(announcements) for p in sites}
    boxes[4] = {**boxes[4], "0": "00", "3": "not hex"}
    for p in sites:
        p.open({j: boxes[j][str(p.index)] for j in range(5) if j != p.index})
    V = vectors(np.random.default_rng(8), 5)
    surviving_sites, total, _ = round_of(
        session, sites, announcements, list(range(5)), 0, V
    )
    assert exact(total, V, surviving_sites), (
        "three sites hold shares of site 4's seed, and three are enough"
    )


# ---- parameters ----


def test_a_state_goes_on_where_it_stopped():
    session, sites, announcements, roster = ready(4, 1)
    again = [
        Party(session, person, copy.deepcopy(p.state))
        for person, p in zip(identities(4), sites, strict=True)
    ]
    V = vectors(np.random.default_rng(9), 4)
    surviving_sites, total, _ = round_of(session, again, announcements, roster, 0, V)
    assert exact(total, V, surviving_sites)
    with pytest.raises(ParameterError, match="another session"):
        Party(
            Session(session.sites, 1, 0, 1, "other"), identities(4)[0], sites[0].state
        )


@pytest.mark.parametrize(
    ("count", "dropouts", "collusion"),
    [(2, 1, 0), (1, 0, 0), (4, 2, 0), (5, 2, 1), (3, 0, 2), (6, -1, 0), (6, 0, 1.5)],
)
def test_too_few_sites_are_refused(count, dropouts, collusion):
    with pytest.raises(ParameterError):
        Session(keys(identities(count)), dropouts, collusion, 1)


def test_duplicate_and_broken_keys_are_refused():
    good = keys(identities(4))
    for wrong in (
        (*good, good[0]),
        (*good, good[1].upper()),
        (*good, "zz"),
        (*good, "00" * 31),
        (*good, 3),
    ):
        with pytest.raises(ParameterError):
            Session(wrong, 1, 0, 1)
    with pytest.raises(ParameterError, match="not among"):
        Party(Session(good, 1, 0, 1), Ed25519PrivateKey.generate())


def test_the_chain_goes_one_way():
    seeds = hash_chain(b"s" * 32, 4)
    assert hash_chain(seeds[2], 2) == seeds[2:]
    assert len(set(seeds)) == 4
    assert hash_chain(b"s" * 32, 0) == []
