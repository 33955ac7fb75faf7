"""Federation: error against a curator and against local noise, what the masked sum costs, faults, and the server's view.

    OMP_NUM_THREADS=1 python -m benchmarks.federated             costs, errors
    OMP_NUM_THREADS=1 python -m benchmarks.federated --faults    10⁴ random patterns of losses: exact or refused
    OMP_NUM_THREADS=1 python -m benchmarks.federated --view      10⁵ transcripts, audited
    OMP_NUM_THREADS=1 python -m benchmarks.federated --private   errors where no radius is known
    OMP_NUM_THREADS=1 python -m benchmarks.federated --topics    k-means of sentence embeddings; needs CURVEDP_DATA

Errors are root mean squares about the mean of all records, over runs whose noise is drawn in floats with the plan's
variance (at a grid of 2^-40 nobody can tell the difference). The curator uses what `PrivateFrechetMean` chooses for him. The
transcripts are of the real protocol, a coordinate each: one record differs, and the attacker sees all that the server sees.
Times are processor times, which a busy machine changes less.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn.metrics import normalized_mutual_info_score

from benchmarks.studies.topics import messages
from curvedp import GDP, ApproxDP, PrivateFrechetMean, PrivateKMeans
from curvedp.audit import audit_scores
from curvedp.federated import (
    ClustersKernel,
    MeanKernel,
    Plan,
    Site,
    coordinate,
    in_process,
    key_of,
    new_identity,
)
from curvedp.federated.masking import Party
from curvedp.federated.noise import (
    layer_variances,
    site_noise,
    surplus_noise,
    total_variance_for,
)
from curvedp.federated.schedule import Round
from curvedp.federated.session import Session, mask_words
from curvedp.federated.unmasking import unmask_sum
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.geometry.manifold import Manifold
from curvedp.mechanisms.isotropic.base import ValueMechanism
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.release.verify import verify_certificate
from curvedp.statistics.clusters import Clustering, nearest_center_of_records

EQUAL = [200] * 10
UNEQUAL = [20, 40, 60, 80, 100, 150, 250, 300, 400, 600]
RUNS = 600


def data(
    manifold: Manifold, counts: list[int], offset: float, spread: float
) -> list[np.ndarray]:
    rng, center = np.random.default_rng(1), np.asarray(manifold.origin)
    z = spread * rng.standard_normal((sum(counts), manifold.dim))
    z[:, 0] += offset
    points = np.asarray(manifold.exp(center, manifold.from_coordinates(center, z)))
    return list(np.split(points, np.cumsum(counts)[:-1]))


def simulated(
    plan: Plan, records: list[np.ndarray], rng: np.random.Generator, lost: int
) -> np.ndarray:
    """A run with float noise of the plan's variance."""
    surviving_sites, rounds = list(range(lost, len(records))), []
    together = np.concatenate([records[i] for i in surviving_sites])
    for r in range(plan.rounds or 0):
        exact = plan.rounded_sum(r, plan.replay(rounds)[-1], together, 0)
        scale = (
            float(plan.noise_variance(r)) ** 0.5
            * (len(surviving_sites) / (len(surviving_sites) - plan.collusion)) ** 0.5
        )
        rounds.append(
            Round(
                (
                    exact
                    + np.round(scale * rng.standard_normal(len(exact))).astype(np.int64)
                ).tolist(),
                surviving_sites,
            )
        )
    return np.asarray(plan.value(rounds))


def rms(manifold: Manifold, truth: np.ndarray, points: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(manifold.dist(truth, points)))))


def alone(
    manifold: Manifold,
    radius: float,
    records: np.ndarray,
    runs: int,
    rng: np.random.Generator,
    at_once: int = 1,
) -> np.ndarray:
    """Releases of one holder of records, by the mechanism that is chosen for him; `at_once` times as many where it can draw
    many at once."""
    model = PrivateFrechetMean(manifold, radius=radius, guarantee=GDP(1.0)).fit(records)
    mechanism = rebuild_mechanism(model.certificate_)
    if not isinstance(mechanism, ValueMechanism):  # nothing draws many at once
        return np.array([model.fit(records).location_ for _ in range(runs)])
    mean = np.asarray(frechet_mean(manifold, records))
    return mechanism.simulate(rng, mean, at_once * runs)


def errors() -> None:
    print(
        "| space, ball | sites | lost, colluding | curator | federated | ratio | local noise | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    spd = SPDAffineInvariant(3)
    for manifold, radius, offset, spread, counts, lost, colluding in (
        (spd, 1.5, 0.4, 0.25, EQUAL, 0, 0),
        (spd, 1.5, 0.4, 0.25, EQUAL, 3, 0),
        (spd, 1.5, 0.4, 0.25, EQUAL, 0, 1),
        (spd, 1.5, 0.4, 0.25, UNEQUAL, 0, 0),
        (Sphere(2), 0.7, 0.2, 0.15, EQUAL, 0, 0),
        (Lorentz(2), 1.0, 0.3, 0.2, EQUAL, 0, 0),
        (Lorentz(2), 2.0, 0.8, 0.4, EQUAL, 0, 0),
    ):
        error_line(manifold, radius, offset, spread, counts, lost, colluding)


def private_errors(runs: int = 50) -> None:
    """No radius: the sites' rounds against a curator's stages."""
    print(
        "| space | records | a curator's error | federated | ratio |\n|---|---|---|---|---|"
    )
    for manifold, point, spread, count in (
        (SPDAffineInvariant(3), 1e-6 * np.diag([1.0, 2.0, 0.5]), 0.3, 200),
        (Sphere(2), np.array([0.0, 1.0, 0.0]), 0.2, 200),
        (Lorentz(2), np.array([np.cosh(4.0), np.sinh(4.0), 0.0]), 0.3, 200),
        (Euclidean(3), np.full(3, 1000.0), 1.0, 200),
        (SPDAffineInvariant(3), np.eye(3), 0.3, 10),
    ):
        rng = np.random.default_rng(3)
        together = np.asarray(
            manifold.from_normal_coordinates(
                point, spread * rng.standard_normal((10 * count, manifold.dim))
            )
        )
        plan = Plan(
            MeanKernel(manifold, "private"),
            [key_of(new_identity()) for _ in range(10)],
            [count] * 10,
            GDP(1.0),
            3,
        )
        truth, model = (
            np.asarray(frechet_mean(manifold, together)),
            PrivateFrechetMean(manifold, radius="private", guarantee=GDP(1.0)),
        )
        records = np.split(together, 10)
        federated = rms(
            manifold,
            truth,
            np.array([simulated(plan, records, rng, 0) for _ in range(runs)]),
        )
        curator = rms(
            manifold,
            truth,
            np.array([model.fit(together).location_ for _ in range(runs)]),
        )
        print(
            f"| {manifold!r} | 10 × {count} | {curator:.5f} | {federated:.5f} | {federated / curator:.2f} |",
            flush=True,
        )


def error_line(
    manifold: Manifold,
    radius: float,
    offset: float,
    spread: float,
    counts: list[int],
    lost: int,
    colluding: int,
) -> None:
    records, rng = data(manifold, counts, offset, spread), np.random.default_rng(2)
    keys = [key_of(new_identity()) for _ in counts]
    plan = Plan(MeanKernel(manifold, radius), keys, counts, GDP(1.0), 3, colluding)
    kept = np.concatenate(records[lost:])
    truth = np.asarray(frechet_mean(manifold, kept))
    curator = rms(manifold, truth, alone(manifold, radius, kept, RUNS, rng, 20))
    federated = rms(
        manifold,
        truth,
        np.array([simulated(plan, records, rng, lost) for _ in range(RUNS)]),
    )
    weights = np.array(counts[lost:]) / sum(counts[lost:])
    each = np.array(
        [alone(manifold, radius, x, RUNS // 6, rng) for x in records[lost:]]
    )
    local = rms(manifold, truth, weighted(manifold, each, weights))
    cells = f"{manifold!r}, {radius} | {len(counts)}{'' if counts == EQUAL else ', unequal'} | {lost}, {colluding}"
    ratios = f"{curator:.5f} | {federated:.5f} | {federated / curator:.3f} | {local:.5f} | {local / federated:.2f}"
    print(f"| {cells} | {ratios} |", flush=True)


def weighted(manifold: Manifold, points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted Fréchet means over the first axis, by fixed steps."""
    w = points[0]
    for _ in range(20):
        move = np.tensordot(
            weights, np.asarray(manifold.to_coordinates(w, manifold.log(w, points))), 1
        )
        w = np.asarray(manifold.exp(w, manifold.from_coordinates(w, move)))
    return w


# ---- topics ----


def topics(runs: int = 5, n_sites: int = 10) -> None:
    """k-means of the messages to a bank over ten sites, against a curator and against each site alone.

    The agreement with the true intents is the normalized mutual information (NMI) of the nearest centers of all messages.
    """
    warnings.simplefilter("ignore")
    X, intents = messages(Path(os.environ["CURVEDP_DATA"]))
    order = np.random.default_rng(4).permutation(len(X))
    X, intents = X[order], intents[order]
    parts = np.array_split(X, n_sites)
    sphere = Sphere(X.shape[1] - 1)

    def agreement(centers: np.ndarray) -> float:
        labels, _ = nearest_center_of_records(sphere, centers, X)
        return float(normalized_mutual_info_score(intents, labels))

    print(f"{len(X):,} messages, {n_sites} sites, S³⁸³\n")
    print("| k | ε | curator | federated | a site alone |\n|---|---|---|---|---|")
    for k, epsilon in ((20, 1.0), (20, 4.0), (77, 4.0)):
        guarantee = ApproxDP(epsilon, 1e-6)
        plan = topic_plan(sphere, k, guarantee, [len(part) for part in parts])
        rng, central, federated, alone_scores = np.random.default_rng(5), [], [], []
        for run in range(runs):
            model = PrivateKMeans(sphere, n_clusters=k, guarantee=guarantee)
            central.append(agreement(model.fit(X).cluster_centers_))
            federated.append(agreement(simulated_clusters(plan, X, rng).centers))
            model.fit(parts[run])
            alone_scores.append(agreement(model.cluster_centers_))
        cells = [
            f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"
            for scores in (central, federated, alone_scores)
        ]
        print(f"| {k} | {epsilon:g} | {' | '.join(cells)} |", flush=True)

    for lost in (0, 1):
        topic_run(sphere, parts, lost, agreement)


def topic_plan(
    sphere: Sphere, k: int, guarantee: Any, counts: list[int], **options: Any
) -> Plan:
    """A plan of k-means for sites with so many messages."""
    keys = [key_of(new_identity()) for _ in counts]
    keys = options.pop("keys", keys)
    return Plan(ClustersKernel(sphere, k), keys, counts, guarantee, **options)


def simulated_clusters(
    plan: Plan, records: np.ndarray, rng: np.random.Generator
) -> Clustering:
    """A run with float noise of the plan's variance: the sums of all sites are those of all records."""
    rounds: list[Round] = []
    surviving_sites = list(range(len(plan.sites)))
    while (asked := plan.schedule.next_sum(rounds)) is not None:
        exact = plan.schedule.site_sum(asked, [records])
        noise = np.round(
            float(asked.variance) ** 0.5 * rng.standard_normal(asked.length)
        )
        total = (exact + noise.astype(np.int64)).tolist()
        rounds.append(
            Round(plan.schedule.released_integers(asked, total), surviving_sites)
        )
    clustering: Clustering = plan.value(rounds)
    return clustering


def topic_run(
    sphere: Sphere, parts: list[np.ndarray], lost: int, agreement: Any
) -> None:
    """One run of the whole protocol in one process, with a site lost in the third round."""
    people = [new_identity() for _ in parts]
    plan = topic_plan(
        sphere,
        20,
        ApproxDP(4.0, 1e-6),
        [len(part) for part in parts],
        keys=[key_of(person) for person in people],
        dropouts=1,
    )
    begin = time.process_time()
    sites = {
        index: Site(plan, person, part)
        for index, (person, part) in enumerate(zip(people, parts, strict=True))
    }
    asked: list[str] = []

    def is_lost(stage: str, site: int) -> bool:
        asked.append(stage)
        return site < lost and asked.count("unmask") >= 2 * len(parts)

    release = coordinate(plan, in_process(sites, is_lost))
    seconds = time.process_time() - begin
    holds = all(
        check.holds is not False for check in verify_certificate(release.certificate)
    )
    size = len(release.certificate.to_json())
    print(
        f"\nthe whole protocol, k = 20, ε = 4, {lost} lost: NMI {agreement(release.value.centers):.3f}, "
        f"{len(release.rounds)} rounds, {len(release.signatures)} signatures, verifies: {holds}, "
        f"{seconds:.0f} s of processor time for all parties, certificate of {size / 1e6:.2f} MB",
        flush=True,
    )


# ---- what it costs ----


def costs() -> None:
    people = [new_identity() for _ in range(10)]
    session = Session(tuple(key_of(p) for p in people), 3, 0, 6)
    parties = [Party(session, p) for p in people]
    begin = time.process_time()
    announcements, roster = set_up(parties)
    once = time.process_time() - begin
    vectors = np.random.default_rng(0).integers(-(2**40), 2**40, (10, 100))
    took = []
    for r in range(6):
        gone = (0, 1, 2) if r % 2 else ()
        begin = time.process_time()
        masked = {
            i: parties[i].mask(r, b"cost", vectors[i]) for i in roster if i not in gone
        }
        answers = {i: parties[i].unmask(r, masked) for i in masked}
        total, _ = unmask_sum(
            session, r, b"cost", announcements, roster, masked, answers
        )
        took.append(time.process_time() - begin)
        assert (total == vectors[sorted(masked)].sum(axis=0)).all()
    print(f"\nmasked sum, 10 sites × 100 numbers: {1e3 * min(took[::2]):.0f} ms a round, {1e3 * min(took[1::2]):.0f} ms with "
          f"three lost; keys and shares once {1e3 * once:.0f} ms")  # fmt: skip
    said, bundle = (
        len(json.dumps(parties[0].announce())),
        len(parties[0].state["bundles"]["1"]) + 32,
    )
    answer = len(json.dumps(answers[5]))
    print(
        f"bytes a site sends: {said} keys, {9 * bundle} shares, then {8 * 100 * 2} + {answer} a round"
    )
    begin = time.process_time()
    site_noise(
        layer_variances(total_variance_for(2.0**42, 0.5), 10, 3, 0), b"s" * 32, 100
    )
    print(
        f"a site's noise for 100 numbers in four layers: {1e3 * (time.process_time() - begin):.0f} ms"
    )


def set_up(parties: list[Party]) -> tuple[dict[int, dict[str, Any]], list[int]]:
    announcements = {p.index: p.announce() for p in parties}
    boxes = {p.index: p.share(announcements) for p in parties}
    for p in parties:
        p.open({j: box[str(p.index)] for j, box in boxes.items() if j != p.index})
    return announcements, sorted(boxes)


def faults(count: int = 10_000) -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    from federated.test_masking import fault_pattern

    rng = np.random.default_rng(2026)
    outcomes = [outcome for _ in range(count) for outcome in fault_pattern(rng)]
    print(f"{count} patterns, {len(outcomes)} rounds: {outcomes.count(True)} exact, {outcomes.count(None)} refused, "
          f"{outcomes.count(False)} wrong")  # fmt: skip


# ---- the server's view ----


def view(transcripts: int = 100_000, mu: float = 1.0, at_once: int = 1000) -> None:
    """Three sites, one of which may be lost; each coordinate of a vector is a transcript of its own. In half of them one
    record of the first site is at one end of its range, in the others at the other."""
    term, begin = 1 << 20, time.process_time()
    v = layer_variances(total_variance_for(2.0 * term, mu), 3, 1, 0)
    record = np.where(np.arange(at_once) % 2, term, -term)
    seen = [one_view(v, record, block % 2) for block in range(transcripts // at_once)]
    print("| what the server looks at | μ proved | of |\n|---|---|---|")
    for name in seen[0]:
        scores = np.array([block[name] for block in seen])
        low, high = scores[:, record < 0].ravel(), scores[:, record > 0].ravel()
        found = audit_scores(GDP(mu), [low], [high])
        print(f"| {name} | {found.audited_mu:.3f} | {mu} |", flush=True)
        if "word" in name:
            both = stats.kstest(np.concatenate([low, high]) / 2.0**64, "uniform").pvalue
            print(
                f"| (uniform: p = {both:.4f}; the same at both ends: p = {stats.ks_2samp(low, high).pvalue:.4f}) | | |"
            )
    print(f"\n{len(low) + len(high)} transcripts, {time.process_time() - begin:.0f} s")


def one_view(v: list[Any], record: np.ndarray, lost: int) -> dict[str, np.ndarray]:
    people, size = [new_identity() for _ in range(3)], len(record)
    session = Session([key_of(p) for p in people], 1, 0, 1)
    parties = [Party(session, p) for p in people]
    announcements, roster = set_up(parties)
    noise = [site_noise(v, p.seed(0), size) for p in parties]
    vectors = [noise[0] + record, *noise[1:]]
    masked = {i: parties[i].mask(0, b"view", vectors[i]) for i in range(3 - lost)}
    answers = {i: parties[i].unmask(0, masked) for i in masked}
    total, seeds = unmask_sum(
        session, 0, b"view", announcements, roster, masked, answers
    )
    off = sum(
        (surplus_noise(v, lost, seed, size) for seed in seeds.values()),
        np.zeros(size, dtype=np.int64),
    )
    bare = {
        i: masked[i] - mask_words(parties[i]._secrets_of_round(0)[1], size)
        for i in masked
    }  # own masks are known by now
    return {
        "the total, surplus noise taken off": (total - off).astype(float),
        "the total as it was unmasked": total.astype(float),
        "the first site's masked word": masked[0].astype(float),
        "the same word without its own mask": bare[0].astype(float),
        "the second site's word without its own mask": bare[1].astype(float),
        "control: the first site's vector, if no pair mask hid it": vectors[0].astype(
            float
        ),
    }


if __name__ == "__main__":
    if "--faults" in sys.argv:
        faults()
    elif "--view" in sys.argv:
        view()
    elif "--private" in sys.argv:
        private_errors()
    elif "--topics" in sys.argv:
        topics()
    else:
        costs()
        errors()
