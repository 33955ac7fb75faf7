"""Federated releases: values, losses and hostile sites in one process; certificates, verified like every other."""

import copy
import json

import numpy as np
import pytest

from curvedp.core.certificate import Certificate, seal
from curvedp.core.codes import TrustModel
from curvedp.core.wording import trust_sentence
from curvedp.errors import CurvedpError, FederationRefused, ParameterError
from curvedp.federated import (
    ClassMeansKernel,
    DispersionKernel,
    MeanKernel,
    MomentKernel,
    Plan,
    Site,
    coordinate,
    in_process,
)
from curvedp.federated.release import FederatedMechanism
from curvedp.geometry import (
    Euclidean,
    Lorentz,
    SPDAffineInvariant,
    Sphere,
    frechet_mean,
)
from curvedp.privacy import GDP
from curvedp.release.rebuild import rebuild_mechanism
from curvedp.release.verify import verify_certificate
from federated.runs import SPD, run, sites_of, study

STAGES = ["announce", "share", "mask", "unmask", "sign"]


@pytest.mark.parametrize(
    "M", [SPDAffineInvariant(2), Sphere(2), Lorentz(2), Euclidean(3)], ids=repr
)
def test_with_little_noise_a_run_is_the_frechet_mean(M):
    plan, people, records = study(
        3, 40, kernel=MeanKernel(M, 1.0), guarantee=GDP(1e5), dropouts=0, rounds=5
    )
    release = run(plan, people, records)
    assert M.dist(frechet_mean(M, np.concatenate(records)), release.value) < 2e-3


def test_the_noise_left_is_what_the_plan_says_whoever_is_lost():
    """Sums of many runs about their exact value, in the plan's standard deviations: none lost, and all that may be."""
    plan, people, records = study(
        4, 5, dropouts=1, rounds=1, kernel=MeanKernel(Euclidean(40), 1.0)
    )
    exact = [
        plan.rounded_sum(0, plan.kernel.initial_state_rows(), x, 0) for x in records
    ]
    for lost in (0, 1):
        gaps = []
        for _ in range(6):
            release = run(
                plan,
                people,
                records,
                lambda stage, i, lost=lost: stage == "mask" and i < lost,
            )
            gaps.append(np.array(release.rounds[0].total) - sum(exact[lost:]))
        z = np.concatenate(gaps) / float(plan.noise_variance(0)) ** 0.5
        # 240 draws: the mean square is 1 within 4.4·√(2/240); layers that were left on would make it 4/3 with none lost
        assert abs(np.mean(z**2) - 1) < 0.4
        assert abs(np.mean(z)) < 0.3


def test_colluding_sites_are_paid_for():
    plan, _, _ = study(6, dropouts=1, collusion=2)
    for lost in (0, 1):
        honest = (6 - lost - 2) * sum(plan.noise_layers(0)[: lost + 1])
        assert honest == plan.noise_variance(0)
    assert plan.noise_std(0, range(6)) > study(6, dropouts=1)[0].noise_std(0, range(6))


@pytest.mark.parametrize("stage", STAGES[:4])
def test_losses_up_to_the_public_number_are_survived(stage):
    plan, people, records = study(5, dropouts=2)
    release = run(plan, people, records, lambda s, i: s == stage and i < 2)
    assert release.value.shape == (2, 2)
    assert len(release.signatures) == 3
    with pytest.raises(FederationRefused, match="are needed"):
        run(plan, people, records, lambda s, i: s == stage and i < 3)


def test_the_other_kernels():
    M = Sphere(2)
    kernel, nobody = ClassMeansKernel(M, 0.7, count=2), [np.zeros((0, 3))] * 3
    plan, people, _ = study(
        3,
        kernel=kernel,
        counts=[[20, 10]] * 3,
        guarantee=GDP(1e4),
        dropouts=0,
        records=nobody,
    )
    centers = np.asarray(
        M.exp(
            M.origin, M.from_coordinates(M.origin, np.array([[0.3, 0.0], [-0.2, 0.2]]))
        )
    )
    labels = np.repeat([0, 1], [20, 10])
    sites = {
        i: Site(plan, person, centers[labels], labels)
        for i, person in enumerate(people)
    }
    assert np.abs(coordinate(plan, in_process(sites)).value - centers).max() < 1e-2

    plan, people, records = study(
        3, 50, kernel=DispersionKernel(SPD, 1.0), guarantee=GDP(1e4), dropouts=0
    )
    X = np.concatenate(records)
    variance = np.mean(SPD.dist(frechet_mean(SPD, X), X) ** 2)
    assert abs(run(plan, people, records).value - variance) < 2e-3

    rng = np.random.default_rng(0)
    rows = [rng.normal(size=(80, 3)) * [2.0, 1.0, 0.3] for _ in range(3)]
    plan, people, _ = study(
        3,
        kernel=MomentKernel(Euclidean(3), 4.0),
        guarantee=GDP(1e4),
        dropouts=0,
        records=rows,
    )
    value = run(plan, people, rows).value
    assert np.allclose(value @ value.T, np.eye(3))
    X = (
        np.concatenate(rows)
        * np.minimum(1, 4 / np.linalg.norm(np.concatenate(rows), axis=1))[:, None]
    )
    assert abs(value[0] @ np.linalg.eigh(X.T @ X)[1][:, -1]) > 0.999


def test_bad_records_are_data():
    plan, people, records = study(3, 30, dropouts=0)
    for bad in (np.nan, np.inf, -1e300, 0.0):
        spoiled = [x.copy() for x in records]
        spoiled[0][:3] = bad
        assert np.isfinite(run(plan, people, spoiled).value).all()


def test_garbage_from_a_site_spoils_at_most_the_answer():
    plan, people, records = study(4, dropouts=1)
    good = in_process(sites_of(plan, people, records))

    def garbage(requests):
        answers = good(requests)
        stage = next(iter(requests.values()))["stage"]
        if stage == "mask" and 3 in answers:
            answers[3] = {"masked": "00" * (len(answers[3]["masked"]) // 2)}
        return answers

    release = coordinate(plan, garbage)
    assert (
        plan.kernel.manifold.dist(plan.kernel.center, release.value)
        <= plan.kernel.radius + 1e-9
    )

    def short(requests):
        answers = good(requests)
        return {
            i: {"masked": "00"} if i == 3 and "masked" in a else a
            for i, a in answers.items()
        }

    good = in_process(sites_of(plan, people, records))
    assert all(3 not in r.surviving_sites for r in coordinate(plan, short).rounds)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "nonsense",
    [None, 3, {}, {"boxes": 3}, {"boxes": {"0": 1}}, {"masked": "zz"}, {"masked": 7}, {"site": 3, "keys": 1, "signature": 2},
     {"shares": {"0": [1]}, "asked": "", "survivors": []}, {"shares": {"0": 1}, "asked": 1, "survivors": 2}],
    ids=str,
)  # fmt: skip
def test_nonsense_from_a_site_makes_it_a_lost_one(stage, nonsense):
    plan, people, records = study(4, 5, dropouts=1, rounds=1)
    good = in_process(sites_of(plan, people, records))

    def spoiled(requests):
        here = next(iter(requests.values()))["stage"] == stage
        return {
            i: nonsense if here and i == 3 else answer
            for i, answer in good(requests).items()
        }

    release = coordinate(plan, spoiled)
    assert len(release.signatures) == (4 if stage == "unmask" else 3)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("other", [-1, 4, 99, "0", None, 2.0, np.int64(1)], ids=repr)
def test_answers_under_other_numbers_are_not_heard(stage, other):
    plan, people, records = study(4, 5, dropouts=1, rounds=1)
    good = in_process(sites_of(plan, people, records))

    def ask(requests):
        here = next(iter(requests.values()))["stage"] == stage
        return {**({other: "late"} if here else {}), **good(requests)}

    assert len(coordinate(plan, ask).signatures) == 4


@pytest.mark.parametrize("lost", STAGES[:4])
def test_a_site_that_was_lost_is_not_heard_again(lost):
    """A vector that comes a round late would be in the sum, with masks that nobody takes off."""
    plan, people, records = study(4, 5, dropouts=1, rounds=2)
    sites, late = sites_of(plan, people, records), []

    def ask(requests):
        stage = next(iter(requests.values()))["stage"]
        answers = in_process(sites)(requests)
        late.extend([answers.pop(3)] if stage == lost and 3 in answers else [])
        return {**answers, **({3: late[0]} if late and 3 not in requests else {})}

    rounds = coordinate(plan, ask).rounds
    assert [r.surviving_sites for r in rounds] == [
        [0, 1, 2, 3] if lost == "unmask" and r == 0 else [0, 1, 2] for r in range(2)
    ]


# ---- certificates ----


@pytest.fixture(scope="module")
def released():
    plan, people, records = study(4, 30, dropouts=1)
    return plan, coordinate(
        plan,
        in_process(
            sites_of(plan, people, records), lambda stage, i: stage == "mask" and i == 2
        ),
    )


def test_a_certificate_verifies_and_gives_its_value_back(released):
    plan, release = released
    certificate = Certificate.from_json(release.certificate.to_json())
    checks = verify_certificate(certificate)
    assert [check for check in checks if check.holds is False] == []
    assert np.allclose(
        rebuild_mechanism(certificate).reconstruct_value(certificate), release.value
    )
    assert certificate.claims.gdp <= 1.0 + 1e-9
    assert certificate.release["stages"][0]["lost"] == [plan.sites[2]]
    assert certificate.provenance.trust is TrustModel.FEDERATED
    assert "no curator" in trust_sentence(certificate)


@pytest.mark.parametrize(
    "kernel",
    [DispersionKernel(SPD, 1.0), MomentKernel(Euclidean(3), 1.0)],
    ids=lambda k: k.name,
)
def test_other_kernels_verify(kernel):
    plan, people, records = study(3, 30, kernel=kernel, dropouts=0)
    certificate = coordinate(
        plan, in_process(sites_of(plan, people, records))
    ).certificate
    assert all(check.holds is not False for check in verify_certificate(certificate))


def leaves(value, path=()):
    if isinstance(value, dict):
        return [
            leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))
        ]
    if isinstance(value, list):
        return [
            leaf for i, inner in enumerate(value) for leaf in leaves(inner, (*path, i))
        ]
    return [(path, value)]


def changed(body, path, value):
    body = copy.deepcopy(body)
    inner = body
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return body


def weaker(path, old, new):
    """What a change may do without being a lie: claim less, or say other words about people and times."""
    if path[0] in ("created", "software", "ledger", "sha256") or path[:2] == (
        "release",
        "choice",
    ):
        return True
    numbers = isinstance(old, float) and isinstance(new, float)
    return numbers and new > old and path[0] in ("claims", "sensitivity", "guarantee")


def test_no_leaf_can_be_changed_to_claim_more(released):
    _, release = released
    body = release.certificate.to_dict()
    for path, old in leaves(body):
        for new in variants(old):
            if new == old or weaker(path, old, new):
                continue
            try:
                checks = verify_certificate(
                    seal(Certificate.from_json(json.dumps(changed(body, path, new))))
                )
            except CurvedpError:
                continue
            # a plan with other terms is another plan, which may verify as such; its id differs, and no site has signed it
            refuted = any(check.holds is False for check in checks)
            assert refuted or path[0] == "statistic", (path, old, new)


def variants(old):
    if isinstance(old, bool):
        return [not old]
    if isinstance(old, int):
        return [old + 1]
    if isinstance(old, float):
        return [old * 0.9, -old, old * 2]
    return [f"{old}x"] if isinstance(old, str) else [1.0]


def test_less_slack_than_the_plan_has_is_refuted(released):
    body = released[1].certificate.to_dict()
    for path in (("numerics", "slack"), ("claims", "slack")):
        body = changed(body, path, body[path[0]][path[1]] / 2)
    forged = seal(Certificate.from_json(json.dumps(body)))
    assert any(check.holds is False for check in verify_certificate(forged))


def test_the_command_line_verifies_it(released, tmp_path):
    from typer.testing import CliRunner

    from curvedp.cli import app

    released[1].certificate.save(tmp_path / "c.json")
    done = CliRunner().invoke(app, ["verify", str(tmp_path / "c.json")])
    assert done.exit_code == 0, done.output


def test_the_mechanism_is_only_for_sums_over_sites():
    plan, _, _ = study(3, dropouts=0)
    assert FederatedMechanism.calibrate(plan, GDP(1.0)).statistic.id == plan.id
    with pytest.raises(ParameterError, match="the plan is for"):
        FederatedMechanism.calibrate(plan, GDP(2.0))
    with pytest.raises(ParameterError, match="drawn by the sites"):
        FederatedMechanism(statistic=plan).release(np.zeros(3))
    with pytest.raises(ParameterError):
        Plan.from_dict({})
