"""One masked session in one process, with sites lost where a pattern says: the driver of the tests."""

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from curvedp.errors import FederationRefused
from curvedp.federated.masking import Party
from curvedp.federated.session import Session
from curvedp.federated.unmasking import unmask_sum

ASKED = b"what was asked"


def identities(count):
    return [
        Ed25519PrivateKey.from_private_bytes(bytes([i % 256, i // 256]) + bytes(30))
        for i in range(1, count + 1)
    ]


def keys(people):
    return tuple(person.public_key().public_bytes_raw().hex() for person in people)


def parties(sites, dropouts=0, collusion=0, rounds=1):
    people = identities(sites)
    session = Session(keys(people), dropouts, collusion, rounds, "test")
    return session, [Party(session, person) for person in people]


def set_up(sites, lost=lambda stage, i: False):
    """(announcements, roster) after the two stages that come once; `lost(stage, i)` says who is silent."""
    announcements = {
        p.index: p.announce() for p in sites if not lost("announce", p.index)
    }
    boxes = {}
    for p in sites:
        if p.index in announcements and not lost("share", p.index):
            boxes[p.index] = p.share(announcements)
    for p in sites:
        if p.index in boxes and not lost("open", p.index):
            p.open({j: box[str(p.index)] for j, box in boxes.items() if j != p.index})
    return announcements, sorted(boxes)


def round_of(
    session,
    sites,
    announcements,
    roster,
    number,
    vectors,
    lost=lambda stage, i: False,
    asked=ASKED,
):
    """(who is in the sum, the sum, seeds) of one round."""
    masked = {}
    for i in roster:
        if not lost("mask", i):
            try:
                masked[i] = sites[i].mask(number, asked, vectors[i])
            except FederationRefused:
                continue
    answers = {}
    for i in masked:
        if not lost("unmask", i):
            try:
                answers[i] = sites[i].unmask(number, masked)
            except FederationRefused:
                continue
    return sorted(masked), *unmask_sum(
        session, number, asked, announcements, roster, masked, answers
    )
