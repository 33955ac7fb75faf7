"""Files that estimators load: a stranger's file is refused in words, or is sound.

Every leaf of a saved file is replaced by values that no file has. Loading then raises a
`ParameterError`, or the loaded estimator gives finite numbers.
"""

import copy
import json

import numpy as np
import pytest

from curvedp import GDP, PrivateRecenter
from curvedp.errors import CurvedpError, ParameterError
from curvedp.geometry import SPDAffineInvariant
from curvedp.neuro.starter_kit import PrivateStarterKit

SPD = SPDAffineInvariant(2)
DOMAINS = np.repeat(["a", "b"], 30)
SUBJECTS = np.repeat(np.arange(20), 3)
DEEP = json.loads("[" * 500 + "0" + "]" * 500)
STRANGE = [
    None,
    True,
    -1,
    10**400,
    1e308,
    float("nan"),
    "",
    "\u202e<b>",
    "9" * 5000,
    [],
    {},
    [[None]],
    {"a": 1},
    ["a", "a"],
    "sphere:2",
    DEEP,
]


def records():
    rng = np.random.default_rng(0)
    vectors = 0.1 * rng.normal(size=(60, SPD.dim))
    return np.asarray(SPD.from_normal_coordinates(SPD.origin, vectors))


def save_references(path):
    model = PrivateRecenter(SPD, radius=0.5, final_dispersion=1.0, guarantee=GDP(5.0))
    model.fit(records(), domains=DOMAINS).save(path)


def save_kit(path):
    kit = PrivateStarterKit(guarantee=GDP(5.0))
    kit.fit(records(), np.arange(60) % 3 % 2, SUBJECTS).save(path)


def use_references(path):
    return PrivateRecenter.load(path).transform(records(), domains=DOMAINS)


def use_kit(path):
    return PrivateStarterKit.load(path).means_


FILES = {
    "references": (save_references, use_references),
    "starter kit": (save_kit, use_kit),
}


def leaves(value, place=()):
    """Yield the place of every part of a JSON value; of a list, its first two entries."""
    yield place
    if isinstance(value, dict):
        for name, part in value.items():
            yield from leaves(part, (*place, name))
    if isinstance(value, list):
        for index, part in enumerate(value[:2]):
            yield from leaves(part, (*place, index))


def with_leaf(content, place, value):
    if not place:
        return value
    changed = copy.deepcopy(content)
    part = changed
    for step in place[:-1]:
        part = part[step]
    part[place[-1]] = value
    return changed


@pytest.mark.filterwarnings("ignore")  # of releases from so few records
@pytest.mark.parametrize("kind", FILES)
def test_no_leaf_of_a_strangers_file_raises_anything_else(kind, tmp_path):
    save, use = FILES[kind]
    path = tmp_path / "published.json"
    save(path)
    content = json.loads(path.read_text())
    assert np.isfinite(use(path)).all()
    refused = 0
    for place in leaves(content):
        if place[:1] == ("releases",) and place[1:2] not in ((), (0,)):
            continue  # the other releases are read as the first
        for strange in STRANGE:
            path.write_text(json.dumps(with_leaf(content, place, strange)))
            try:
                assert np.isfinite(use(path)).all(), (place, strange)
            except CurvedpError:
                refused += 1
    assert refused > 500


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", FILES)
def test_a_changed_certificate_is_refused(kind, tmp_path):
    """Its SHA-256 is compared, so that the stated guarantee is the released one."""
    save, use = FILES[kind]
    path = tmp_path / "published.json"
    save(path)
    content = json.loads(path.read_text())
    for field, value in (("created", "2020-01-01T00:00:00+00:00"), ("ledger", None)):
        changed = copy.deepcopy(content)
        certificate = changed["releases"][0]["certificate"]
        if certificate[field] == value:
            continue
        certificate[field] = value
        path.write_text(json.dumps(changed))
        with pytest.raises(ParameterError, match="was changed"):
            use(path)
