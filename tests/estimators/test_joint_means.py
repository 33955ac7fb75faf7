"""Class means of people who are in every class."""

import numpy as np
import pytest

from curvedp import GDP, Ledger, PureDP
from curvedp.core.certificate import Certificate
from curvedp.errors import ParameterError
from curvedp.estimators.joint_means import PrivateJointMeans
from curvedp.geometry import SPDAffineInvariant, Sphere, frechet_mean
from curvedp.randomness import GeneratorSource
from curvedp.release.verify import verify_certificate
from estimators.test_silence import SETTINGS, hostile_records, outcome
from support.transcript import spent

SPHERE = Sphere(2)
PEOPLE = 30


def design(space=SPHERE, people=PEOPLE, seed=0, spread=0.1):
    """Two tasks, two trials of each for every person; the second task is moved."""
    rng = np.random.default_rng(seed)
    person = np.repeat(np.arange(people), 4)
    task = np.tile(["rest", "rest", "task", "task"], people)
    coordinates = spread * rng.normal(size=(4 * people, space.dim))
    coordinates[task == "task", 0] += 0.3
    X = np.asarray(space.from_normal_coordinates(space.origin, coordinates))
    return X, task, person


def model(space=SPHERE, **options):
    return PrivateJointMeans(space, **{"radius": 0.6, "guarantee": GDP(1.0), **options})


@pytest.mark.parametrize("space", [SPHERE, SPDAffineInvariant(2)], ids=str)
@pytest.mark.parametrize("radius", [0.8, "private"])
def test_means_are_those_of_the_classes(space, radius):
    X, task, person = design(space, people=200)
    fitted = model(space, radius=radius, guarantee=GDP(4.0)).fit(X, task, person)
    assert fitted.classes_.tolist() == ["rest", "task"]
    for label, mean in zip(fitted.classes_, fitted.means_, strict=True):
        assert space.dist(mean, frechet_mean(space, X[task == label])) < 0.1
    assert fitted.score(X, task) > 0.8
    regions = fitted.confidence_region(0.95, of="population")
    for label, mean in zip(fitted.classes_, fitted.means_, strict=True):
        assert regions[label].contains(mean)
        assert regions[label].contains(frechet_mean(space, X[task == label]))


def test_one_person_costs_no_more_than_they_may():
    """All draws along one path: a person with hostile records, or more of them."""
    X, task, person = design()
    own = person == 0
    for count, record in enumerate(hostile_records(SPHERE), start=1):
        replaced = np.concatenate([X[~own], np.repeat(record[None], 2 * count, axis=0)])
        tasks = np.concatenate([task[~own], np.repeat(["rest", "task"], count)])
        persons = np.concatenate([person[~own], np.zeros(2 * count, dtype=int)])
        for radius in (0.6, "private"):
            release = model(radius=radius)
            told = spent(
                lambda data, release=release: release.fit(*data),
                (X, task, person),
                (replaced, tasks, persons),
            )
            assert told <= 1.0


@pytest.mark.parametrize("setting", SETTINGS)
def test_no_record_decides_about_a_warning(setting):
    X, task, person = design()
    hostile = X.copy()
    records = list(hostile_records(SPHERE))
    hostile[: len(records)] = records
    source = GeneratorSource(np.random.default_rng(3))

    def run(manifold, data):
        model(source=source, guarantee=GDP(8.0)).fit(data, task, person)

    clean = outcome(run, SPHERE, X, setting)
    assert clean == ("released", [])
    assert outcome(run, SPHERE, hostile, setting) == clean


def test_it_is_verified_and_charged_once(tmp_path):
    X, task, person = design()
    ledger = Ledger(tmp_path / "study.ledger", GDP(2.0), unit="person")
    fitted = model(guarantee=GDP(0.5), ledger=ledger).fit(X, task, person)
    (entry,) = ledger.entries
    assert (entry.n, entry.unit) == (PEOPLE, "person")
    assert ledger.spent.mu == pytest.approx(0.5)
    certificate = Certificate.from_json(fitted.certificate_.to_json())
    assert all(check.holds is not False for check in verify_certificate(certificate))
    titles = [release.title for release in fitted.releases]
    assert titles == ["mean of class rest", "mean of class task"]
    assert fitted.releases[0].certificate is fitted.releases[1].certificate
    model(guarantee=PureDP(4.0)).fit(X, task, person)


def test_designs_that_are_not_complete_are_refused_before_payment(tmp_path):
    X, task, person = design()
    ledger = Ledger(tmp_path / "study.ledger", GDP(2.0))
    first = np.flatnonzero((person == 3) & (task == "task"))
    incomplete = np.delete(np.arange(len(X)), first)
    wrong = {
        "record of class task": (X[incomplete], task[incomplete], person[incomplete]),
        "one class": (X, np.full(len(X), "rest"), person),
        "groups": (X, task, None),
        "one label": (X, task[:-1], person),
    }
    for message, data in wrong.items():
        with pytest.raises(ParameterError, match=message):
            model(ledger=ledger).fit(*data)
    for options in ({"radius": -1.0}, {"radius": None}, {"center": [1.0, 2.0]}):
        with pytest.raises(ParameterError):
            model(ledger=ledger, **options).fit(X, task, person)
    assert ledger.spent is None
