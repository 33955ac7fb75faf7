"""A device: permanent reports, a budget for each day, and costs said before they are paid."""

import json
import math
import os
import pickle
import shutil
import stat
from copy import deepcopy
from datetime import UTC, date, datetime

import numpy as np
import pytest

from curvedp.errors import BudgetExceeded, LedgerCorrupted, ParameterError
from curvedp.geometry import Sphere
from curvedp.local import DeviceLedger, Earth, EarthCells, MetricLaplace

EARTH = Earth()
HOME, WORK, CLUB = [51.5007, -0.1246], [51.5153, -0.0922], [51.55, -0.2]
MONDAY, TUESDAY = date(2026, 3, 2), date(2026, 3, 3)


@pytest.fixture
def device(tmp_path):
    return DeviceLedger(
        tmp_path / "device.json", MetricLaplace(EARTH, 1.0), per_day=2.0
    )


def test_averaging_reports_of_one_place_gains_nothing(device):
    reports = np.array([device.report(HOME) for _ in range(200)])
    assert np.all(reports == reports[0])
    assert device.spent() == 1.0
    # Fresh reports of the same place would give it away: 2 km become 140 m and less.
    fresh = device.mechanism.randomize(np.tile(HOME, (2000, 1)))
    points = EARTH.read(fresh).mean(axis=0)
    averaged = EARTH.write(points[None])[0]
    assert float(EARTH.dist(averaged, HOME)) < 0.25


def test_reports_depend_on_the_cell_alone(device):
    nearby = np.array(HOME) + 1e-5  # about a meter
    assert device.cells.index(HOME) == device.cells.index(nearby)
    assert np.array_equal(device.report(HOME), device.report(nearby))
    assert device.spent() == 1.0


def test_every_new_cell_is_charged_and_a_day_has_a_budget(device):
    device.report(HOME, day=MONDAY)
    device.report(WORK, day=MONDAY)
    assert device.spent(MONDAY) == 2.0
    assert device.left(MONDAY) == 0.0
    with pytest.raises(BudgetExceeded):
        device.report(CLUB, day=MONDAY)
    assert device.spent(MONDAY) == 2.0
    device.report(HOME, day=MONDAY)  # known cells cost nothing
    device.report(CLUB, day=TUESDAY)
    assert device.spent(TUESDAY) == 1.0
    assert device.total == 3.0


def test_the_cost_of_a_trace_is_said_before_it_is_spent(device):
    trace = [HOME, WORK, HOME, CLUB, HOME]
    cost = device.cost(trace, day=MONDAY)
    assert (cost.visits, cost.new_cells, cost.epsilon) == (5, 3, 3.0)
    assert cost.fits is False
    assert device.spent(MONDAY) == 0.0
    assert not device.path.exists()
    device.report(HOME, day=MONDAY)
    cost = device.cost(trace, day=MONDAY)
    assert (cost.new_cells, cost.left, cost.fits) == (2, 1.0, False)
    assert device.cost([HOME, WORK], day=MONDAY).fits is True


def test_a_crash_before_the_draw_costs_the_budget_and_not_the_privacy(
    device, monkeypatch
):
    def crash(X):
        raise RuntimeError("no power")

    monkeypatch.setattr(device.mechanism, "randomize", crash)
    with pytest.raises(RuntimeError):
        device.report(HOME)
    assert device.spent() == 1.0
    monkeypatch.undo()
    device.report(HOME)
    assert device.spent() == 2.0


def test_a_second_object_sees_the_same_reports_and_the_same_charges(device):
    report = device.report(HOME)
    other = DeviceLedger(device.path, MetricLaplace(EARTH, 1.0), per_day=2.0)
    assert np.array_equal(other.report(HOME), report)
    assert other.spent() == 1.0
    for terms in (
        {"per_day": 3.0},
        {"per_day": 2.0, "cell": 0.5},
    ):
        with pytest.raises(ParameterError):
            DeviceLedger(device.path, MetricLaplace(EARTH, 1.0), **terms)
    with pytest.raises(ParameterError):
        DeviceLedger(device.path, MetricLaplace(EARTH, 0.5), per_day=2.0)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_can_read_the_file(device):
    umask = os.umask(0)
    try:
        device.report(HOME)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(device.path.stat().st_mode) == 0o600
    left_over = [path.name for path in device.path.parent.iterdir()]
    assert set(left_over) == {"device.json", "device.json.lock"}


@pytest.mark.parametrize(
    "change",
    [
        lambda content: "nonsense",
        lambda content: json.dumps([]),
        lambda content: json.dumps({**content, "entries": {}}),
        lambda content: json.dumps({**content, "entries": [{"day": "x"}]}),
        lambda content: json.dumps(
            {**content, "entries": [{**content["entries"][0], "epsilon": -5.0}]}
        ),
        lambda content: json.dumps(
            {**content, "entries": [{**content["entries"][0], "cell": [[], []]}]}
        ),
        lambda content: json.dumps(
            {**content, "entries": [{**content["entries"][0], "report": ["x", "y"]}]}
        ),
        lambda content: "[" * 100_000,
    ],
)
def test_a_broken_file_is_refused(device, change):
    device.report(HOME)
    content = json.loads(device.path.read_text())
    device.path.write_text(change(content))
    with pytest.raises(LedgerCorrupted):
        device.report(WORK)


NO_DAYS = [
    datetime(2026, 3, 2, 12, 0),
    datetime(2026, 3, 2, 12, 0, tzinfo=UTC),
    "2026-03-02",
    20260302,
]


@pytest.mark.parametrize("day", NO_DAYS, ids=str)
def test_a_time_is_no_day(device, day):
    """Else every second of a day would have a budget of its own."""
    for use in (lambda: device.report(HOME, day=day), lambda: device.left(day)):
        with pytest.raises(ParameterError, match="day"):
            use()
    assert not device.path.exists()


USES = {
    "report": lambda device: device.report(HOME),
    "cost": lambda device: device.cost([HOME]),
    "spent": lambda device: device.spent(),
    "total": lambda device: device.total,
}
COPIES = {
    "itself": lambda device: device,
    "copy": deepcopy,
    "pickle": lambda device: pickle.loads(pickle.dumps(device)),
}


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["deleted", "set back", "first report only"])
def test_a_memory_that_is_set_back_is_refused(device, tmp_path, kind, use, copied):
    """Fresh reports of a known cell could be averaged, and its day be paid twice."""
    if kind == "first report only":
        device.report(WORK)
        shutil.copy(device.path, tmp_path / "old")
    elif kind == "set back":
        device.report(WORK)
        content = json.loads(device.path.read_text())
        content["entries"] = []
        (tmp_path / "old").write_text(json.dumps(content))
    device.report(HOME)
    held = COPIES[copied](device)
    device.path.unlink()
    if kind != "deleted":
        shutil.copy(tmp_path / "old", device.path)
    with pytest.raises(LedgerCorrupted, match="set back"):
        USES[use](held)


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_second_name_is_no_second_budget(device, tmp_path):
    device.report(HOME)
    link = tmp_path / "link.json"
    link.symlink_to(device.path)
    other = DeviceLedger(link, device.mechanism, per_day=2.0)
    assert np.array_equal(other.report(HOME), device.report(HOME))
    other.report(WORK)
    with pytest.raises(BudgetExceeded):
        device.report(CLUB)

    os.link(device.path, tmp_path / "hard.json")
    with pytest.raises(LedgerCorrupted, match="hard links"):
        device.report(HOME)


def test_what_is_no_place_is_the_public_one(device):
    report = device.report([np.nan, 500.0])
    assert np.array_equal(report, device.report([0.0, 0.0]))
    assert device.cost([[np.nan, 1.0], [0.0, 0.0]]).new_cells == 0


NO_PLACES = [
    ["Frau Mueller", 1.0],
    [None, None],
    [1.0],
    [1.0, 2.0, 3.0],
    [10**400, 1.0],
    [1e308, 1e308],
    [[1.0, 2.0]],
    None,
    1 + 0j,
    10**400,
    "x",
    {},
]


@pytest.mark.parametrize("place", NO_PLACES, ids=lambda place: str(place)[:20])
def test_whatever_a_place_is_it_raises_nothing(device, place):
    """The next place of a trace is data: an error would tell which one it was."""
    public = device.report(EARTH.public_record)
    assert device.report(place).shape == public.shape
    assert device.cost([HOME, place, WORK]).visits == 3


def test_only_places_on_the_earth(tmp_path):
    with pytest.raises(ParameterError):
        DeviceLedger(tmp_path / "x", MetricLaplace(Sphere(2), 1.0), per_day=1.0)
    for per_day in (0.0, -1.0, np.nan):
        with pytest.raises(ParameterError):
            DeviceLedger(tmp_path / "x", MetricLaplace(EARTH, 1.0), per_day=per_day)


@pytest.mark.parametrize("size", [0.25, 30.0, 900.0, 4000.0, 9000.0])
def test_cells_cover_the_earth_and_are_no_larger_than_they_say(size):
    cells = EarthCells(size)
    rng = np.random.default_rng(0)
    latitudes = np.degrees(np.arcsin(rng.uniform(-1, 1, 600)))
    places = np.stack([latitudes, rng.uniform(-180, 180, 600)], axis=1)
    places[:100, 0] = np.maximum(90 - rng.random(100) * size / 100, -90)
    places[100:110] = [[90.0, 5.0], [-90.0, 5.0]] * 5
    places[110:120, 1] = 180.0
    centers = np.array([cells.center(cells.index(place)) for place in places])
    assert EARTH.dist(places, centers).max() <= cells.largest_shift
    # A center lies in its own cell, and both names of the date line are one place.
    for place, center in zip(places[:50], centers[:50], strict=True):
        assert cells.index(place) == cells.index(center)
    assert cells.index([12.0, 180.0]) == cells.index([12.0, -180.0])


def test_traces_with_one_pattern_are_private_by_distance(device):
    """The log-ratio of two traces of the same pattern is at most ε times their distance.

    Theorem N6: a trace costs ε for every new cell, for the distance of the two cells.
    """
    first = [HOME, WORK, HOME]
    second = [CLUB, [51.6, 0.1], CLUB]
    cells = device.cells
    pairs = {
        (cells.index(a), cells.index(b)) for a, b in zip(first, second, strict=True)
    }
    assert len(pairs) == 2
    centers = np.array([[cells.center(a), cells.center(b)] for a, b in sorted(pairs)])
    bound = EARTH.dist(centers[:, 0], centers[:, 1]).sum()
    rng = np.random.default_rng(0)
    reports = np.stack([rng.uniform(51, 52, 400), rng.uniform(-1, 1, 400)], axis=1)
    loss = 0.0
    for a, b in centers:
        ratio = device.mechanism.log_density(
            reports, np.tile(a, (400, 1))
        ) - device.mechanism.log_density(reports, np.tile(b, (400, 1)))
        loss += float(np.abs(ratio).max())
    assert loss <= bound * (1 + 1e-12)
    assert math.isfinite(loss)
