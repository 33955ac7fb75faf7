"""The server's part of a secure sum: it removes the masks from the sum of all vectors.
The sites (hospitals, say) have sent masked vectors. From the shares of secrets that the
surviving sites reveal, the server reconstructs the masks that do not cancel, and
subtracts them. It learns the sum and no single vector (`curvedp.federated.masking`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curvedp.errors import FederationRefused
from curvedp.federated.masks import (
    KEY_BYTES,
    NOISE_CHAIN,
    OWN_MASK,
    PAIR_KEY,
    Announcements,
    announced_commitment,
    commitment_to,
    is_hex,
    mask_context,
    pair_mask,
)
from curvedp.federated.session import (
    PRIME,
    SHARE_BYTES,
    Session,
    join_shares,
    mask_words,
)


class UnmaskedSum(NamedTuple):
    """What the server learns in a round.

    Attributes
    ----------
    total : array of int64
        The sum over the surviving sites, modulo 2^64.
    seeds : dict
        By surviving site, the seed of its chain for this number of lost sites, from
        which the server computes the surplus noise; empty if there is no surplus.
    """

    total: np.ndarray
    seeds: dict[int, bytes]


class _SharedSecrets(NamedTuple):
    """The shares of secrets that the server has collected in a round.

    Attributes
    ----------
    session : Session
        The public terms.
    round : int
        The number of the round.
    announcements : mapping
        The announcement of each site, with commitments to its secrets.
    shares : mapping
        The shares that each site sent, by the site whose secrets the shares are of.
    """

    session: Session
    round: int
    announcements: Announcements
    # By site that answered, the shares by the site whose secret they are of.
    shares: Mapping[int, Mapping[str, Any]]

    def reconstruct(self, site: int, secret_place: int, share_place: int) -> bytes:
        """Reconstruct a site's secret from the shares that other sites sent.

        Parameters
        ----------
        site : int
            The index of the site whose secret it is.
        secret_place : int
            Which secret it is: its place in the list of the site's secrets.
        share_place : int
            The place of its share in the lists that the sites sent for `site`.

        Returns
        -------
        bytes
            The secret, 32 bytes.

        Raises
        ------
        FederationRefused
            If there are too few shares, or the result is not the secret to which the
            site committed. Then a share or the commitment is wrong.
        """
        refusal = FederationRefused(
            "the shares of a site's secret do not give what it committed to"
        )
        share_at_point = self._shares_at_points(site, share_place)
        if len(share_at_point) != self.session.threshold:
            raise refusal
        number = join_shares(share_at_point)
        if number >= 2 ** (8 * KEY_BYTES):
            raise refusal

        secret = number.to_bytes(KEY_BYTES, "little")
        announced = announced_commitment(
            self.session, self.announcements[site], self.round, secret_place
        )
        if commitment_to(secret_place, secret) != announced:
            raise refusal
        return secret

    def _shares_at_points(self, site: int, share_place: int) -> dict[int, int]:
        """Return the first `threshold` usable shares of a site's secret.

        Parameters
        ----------
        site : int
            The index of the site whose secret is shared.
        share_place : int
            The position of the share among those that each sender sent for the site.

        Returns
        -------
        dict
            The shares, by the point at which each is a value of Shamir's polynomial.
            Site j holds the value at the point j + 1.
        """
        share_at_point: dict[int, int] = {}
        for sender in sorted(self.shares):
            share = _read_share(self.shares[sender].get(str(site)), share_place)
            if share is not None and len(share_at_point) < self.session.threshold:
                share_at_point[sender + 1] = share
        return share_at_point


def unmask_sum(
    session: Session,
    round: int,
    question_hash: bytes,
    announcements: Announcements,
    roster: Sequence[int],
    masked: Mapping[int, np.ndarray],
    answers: Mapping[int, Any],
) -> UnmaskedSum:
    """Remove the masks, and return the sum of the vectors of all surviving sites.

    The server calls this at the end of a round (end of step 4).
    Survivors S are the sites whose masked vectors yᵢ arrived. With the vectors xᵢ, the
    own seeds bᵢ and the common secrets kᵢⱼ of `Party.mask`,

        Σ_{i∈S} yᵢ = Σ_{i∈S} xᵢ + Σ_{i∈S} PRG(bᵢ) + Σ_{i∈S, j lost} ±PRG(kᵢⱼ),

    because pair masks within S cancel. The server reconstructs bᵢ of the survivors and
    the pair keys of the lost sites, recomputes these masks, and subtracts them. It
    learns the sum and nothing else about single vectors.

    Parameters
    ----------
    session : Session
        The public terms.
    round : int
        The number of the round.
    question_hash : bytes
        A hash of the question that the sites were asked.
    announcements : mapping
        The announcement of each site.
    roster : sequence of int
        The sites that shared their secrets.
    masked : mapping
        The masked vector of each survivor.
    answers : mapping
        The answer of each site to stage "unmask".

    Returns
    -------
    UnmaskedSum
        The exact sum, and the seeds of surplus noise.

    Raises
    ------
    FederationRefused
        If too few shares came, or a secret is not the one committed to: the sum is
        exact or there is none.
    """
    survivors = sorted(masked)
    shares = {
        site: answer["shares"]
        for site, answer in answers.items()
        if _is_answer_for(answer, survivors, question_hash.hex())
    }
    if len(shares) < session.threshold:
        raise FederationRefused(
            f"{len(shares)} sites answered to the end; {session.threshold} are needed"
        )
    if len({len(vector) for vector in masked.values()}) != 1:
        raise FederationRefused("the masked vectors differ in length")

    # Remove the survivors' own masks, then those that they share with lost sites.
    collected = _SharedSecrets(session, round, announcements, shares)
    total = _sum_without_own_masks(collected, masked)
    context = mask_context(session, round, roster, question_hash)
    for lost_site in set(roster) - set(survivors):
        masks = _masks_toward(collected, lost_site, survivors, context, len(total))
        total = total - masks

    # Fewer sites were lost than allowed: the seeds of the surplus noise are revealed.
    lost_count = len(session.sites) - len(survivors)
    seeds = {}
    if lost_count < session.dropouts:
        seeds = {
            site: collected.reconstruct(site, NOISE_CHAIN + lost_count, 1)
            for site in survivors
        }
    return UnmaskedSum(np.asarray(total).view(np.int64), seeds)


def _masks_toward(
    collected: _SharedSecrets,
    lost_site: int,
    survivors: Sequence[int],
    context: bytes,
    length: int,
) -> np.ndarray:
    """Return the sum of the masks that survivors added on account of a lost site.

    The lost site would have subtracted them, but its vector has not arrived.

    Parameters
    ----------
    collected : _SharedSecrets
        The shares from which the lost site's pair key is reconstructed.
    lost_site : int
        The index of the lost site.
    survivors : sequence of int
        The indices of the sites whose vectors are in the sum.
    context : bytes
        The `mask_context` of the round.
    length : int
        The length of a vector.

    Returns
    -------
    array of uint64
        The sum of the masks, modulo 2^64.
    """
    session = collected.session
    pair_key = collected.reconstruct(lost_site, PAIR_KEY, 0)
    total = np.zeros(length, dtype=np.uint64)
    for survivor in survivors:
        survivor_key = announced_commitment(
            session, collected.announcements[survivor], collected.round, PAIR_KEY
        )
        mask = pair_mask(pair_key, survivor_key, context, survivor, lost_site, length)
        total = total + mask
    return total


def _sum_without_own_masks(
    collected: _SharedSecrets, masked: Mapping[int, np.ndarray]
) -> np.ndarray:
    """Remove the mask that each site made for itself, and add up the vectors.

    Parameters
    ----------
    collected : _SharedSecrets
        The shares from which the seeds of these masks are reconstructed.
    masked : mapping
        The masked vector of each survivor.

    Returns
    -------
    array of uint64
        The sum modulo 2^64. It still contains the masks that survivors have in common
        with lost sites.
    """
    vectors = []
    for site in sorted(masked):
        seed = collected.reconstruct(site, OWN_MASK, 0)
        vectors.append(masked[site] - mask_words(seed, len(masked[site])))
    return np.asarray(np.sum(vectors, axis=0, dtype=np.uint64))


def _is_answer_for(answer: Any, survivors: list[int], question_hash: str) -> bool:
    """Return whether a site's shares are meant for these survivors and this question.

    The server calls this for each answer to its request to unmask a sum.

    Parameters
    ----------
    answer : object
        The site's answer, which may be anything.
    survivors : list of int
        The surviving sites, in ascending order.
    question_hash : str
        The hash of the round's question, in hexadecimal.

    Returns
    -------
    bool
        False for anything that is not such an answer.
    """
    return (
        isinstance(answer, Mapping)
        and answer.get("survivors") == survivors
        and answer.get("asked") == question_hash
        and isinstance(answer.get("shares"), Mapping)
    )


def _read_share(shares: Any, place: int) -> int | None:
    """Return one share of a site's answer as a number, or None if it is unusable.

    Parameters
    ----------
    shares : object
        The site's list of shares in hexadecimal digits; it may be anything.
    place : int
        The share's place in the list.

    Returns
    -------
    int or None
        An element of the field of the secret sharing.
    """
    if not isinstance(shares, list) or len(shares) <= place:
        return None
    if not is_hex(shares[place], SHARE_BYTES):
        return None
    return int.from_bytes(bytes.fromhex(shares[place]), "little") % PRIME
