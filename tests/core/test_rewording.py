"""Rewording every sentence about a release voids no certificate.

Certificates hold codes. What a person reads is made of them in `curvedp.core.wording`, and
nothing that is written there is compared, parsed or stored.
"""

import json
from dataclasses import replace

import numpy as np
import pytest

from curvedp import (
    GDP,
    PrivateFrechetMean,
    PrivateGeodesicRegression,
    PrivateMDM,
    PrivateSoftmax,
    PureDP,
)
from curvedp.core import wording
from curvedp.core.certificate import Certificate, compute_sha256, seal
from curvedp.core.codes import ProtectedUnit
from curvedp.errors import CurvedpError
from curvedp.federated import MeanKernel
from curvedp.geometry import Euclidean, SPDAffineInvariant, Sphere
from curvedp.mechanisms import GaussianMechanism
from curvedp.release.verify import remarks_on, verify_certificate
from federated.runs import run as federated_run
from federated.runs import study

SPHERE = Sphere(2)
SPD = SPDAffineInvariant(2)
N = 60
PEOPLE = np.arange(N) // 3
LABELS = np.arange(N) % 2

SENTENCES = [
    wording.neighbor_words,
    wording.protected_unit_sentence,
    wording.trust_sentence,
    wording.post_processing_sentence,
    wording.sampling_sentence,
    wording.profile_sentence,
    wording.choice_sentence,
]


def cloud(manifold):
    rng = np.random.default_rng(0)
    coordinates = 0.2 * rng.normal(size=(N, manifold.dim))
    return np.asarray(manifold.from_normal_coordinates(manifold.origin, coordinates))


def mean_of_people():
    model = PrivateFrechetMean(SPHERE, radius=0.7)
    return model.fit(cloud(SPHERE), groups=PEOPLE).certificate_


def mean_with_private_count():
    guarantee = GDP(1.0, adjacency="add-remove")
    model = PrivateFrechetMean(SPHERE, radius=0.7, guarantee=guarantee)
    return model.fit(cloud(SPHERE)).certificate_


def mean_drawn_in_floats():
    options = {"mechanism": "kng", "guarantee": PureDP(2.0)}
    model = PrivateFrechetMean(SPHERE, radius=0.7, **options)
    return model.fit(cloud(SPHERE)).certificate_


def mean_in_private_ball():
    return PrivateFrechetMean(SPHERE, radius="private").fit(cloud(SPHERE)).certificate_


def mean_of_a_class():
    model = PrivateMDM(SPHERE, radius=0.7)
    return model.fit(cloud(SPHERE), LABELS).certificates_[0]


def classifier():
    model = PrivateSoftmax(SPD, reduce=1, guarantee=GDP(3.0))
    return model.fit(cloud(SPD), LABELS).certificate_


def line():
    options = {"radius": 0.5, "speed": 0.5, "clip": 0.2, "x_range": (0.0, 1.0)}
    model = PrivateGeodesicRegression(SPHERE, guarantee=GDP(1.0), **options)
    return model.fit(np.linspace(0, 1, N), cloud(SPHERE)).certificate_


def stated_value():
    return GaussianMechanism(SPHERE, 0.1, 0.2).release(SPHERE.origin).certificate


def federated_mean():
    plan, people, records = study(3, kernel=MeanKernel(Euclidean(2), 1.0), dropouts=0)
    return federated_run(plan, people, records).certificate


MAKERS = [
    mean_of_people,
    mean_with_private_count,
    mean_drawn_in_floats,
    mean_in_private_ball,
    mean_of_a_class,
    classifier,
    line,
    stated_value,
    federated_mean,
]


def tables():
    """Return every dictionary of the module, by name."""
    return {
        name: value
        for name, value in vars(wording).items()
        if isinstance(value, dict) and not name.startswith("__")
    }


def reworded(value):
    """Return other words of the same form."""
    if isinstance(value, str):
        return f"§{value[::-1]}§"
    if isinstance(value, tuple):
        parts = [reworded(part) for part in value]
        is_named = type(value) is not tuple
        return type(value)(*parts) if is_named else tuple(parts)
    raise AssertionError(f"a table of words holds a {type(value).__name__}")


def reword_everything(monkeypatch):
    for table in tables().values():
        for code, words in list(table.items()):
            monkeypatch.setitem(table, code, reworded(words))


def outcomes(certificate):
    return [check.holds for check in verify_certificate(certificate)]


@pytest.fixture(scope="module", params=MAKERS, ids=lambda maker: maker.__name__)
def text(request):
    """Return a certificate as it was written before anything was reworded."""
    return request.param().to_json()


def test_every_table_of_words_is_reworded(monkeypatch):
    """The list of tables is read off the module: one that is added is covered."""
    before = {name: dict(table) for name, table in tables().items()}
    assert len(before) >= 6
    reword_everything(monkeypatch)
    for name, table in tables().items():
        assert table.keys() == before[name].keys()
        assert all(table[code] != words for code, words in before[name].items())


def test_certificates_verify_after_everything_is_reworded(text, monkeypatch):
    certificate = Certificate.from_json(text)
    expected = outcomes(certificate)
    assert False not in expected
    sentences = [sentence(certificate) for sentence in SENTENCES]

    reword_everything(monkeypatch)
    again = Certificate.from_json(text)
    assert outcomes(again) == expected
    assert again.to_json() == text
    assert compute_sha256(again) == certificate.provenance.sha256
    assert remarks_on(again) == remarks_on(certificate)
    # The words have changed: nothing above was read from a copy of the old ones.
    changed = [sentence(again) for sentence in SENTENCES]
    assert sum(a != b for a, b in zip(sentences, changed, strict=True)) >= 5


def test_a_release_made_in_other_words_verifies_in_these(monkeypatch):
    with monkeypatch.context() as patch:
        reword_everything(patch)
        texts = [maker().to_json() for maker in (mean_of_people, classifier, line)]
    for text in texts:
        assert "§" not in text
        assert False not in outcomes(Certificate.from_json(text))


def test_a_lie_is_refuted_in_any_words(text, monkeypatch):
    """Verification under other words is no formality: a forged unit is found there too."""
    reword_everything(monkeypatch)
    certificate = Certificate.from_json(text)
    other_units = [unit for unit in ProtectedUnit if unit != certificate.privacy_unit]
    for unit in other_units:
        forged = seal(replace(certificate, privacy_unit=unit))
        try:
            assert False in outcomes(forged), unit
        except CurvedpError:
            continue


def test_no_certificate_holds_a_sentence(text):
    """Codes are short names; whatever has spaces and is in the tables is a sentence."""
    stored = json.dumps(json.loads(text), ensure_ascii=False)
    for name, table in tables().items():
        for words in table.values():
            parts = [words] if isinstance(words, str) else _texts(words)
            found = [part for part in parts if " " in part and part in stored]
            assert not found, name


def _texts(value):
    """Return every text inside nested tuples."""
    if isinstance(value, str):
        return [value]
    return [text for part in value for text in _texts(part)]
