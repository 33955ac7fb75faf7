"""Certificates from strangers: a change in any one place is refused, or claims less."""

import copy
import functools
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from curvedp import (
    GDP,
    ApproxDP,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateFrechetMedian,
    PrivateGeodesicRegression,
    PrivateKMeans,
    PrivateMDM,
    PrivatePCA,
    PrivatePrototypes,
    PrivateSoftmax,
    PrivateSynthesizer,
    PrivateTangentPCA,
    PureDP,
)
from curvedp.core import registry
from curvedp.core.certificate import MAX_BYTES, hash_integers
from curvedp.core.codes import ChoiceRule
from curvedp.errors import CurvedpError
from curvedp.estimators.accuracy import PrivateAccuracy
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    SPDAffineInvariant,
    SpecialEuclidean,
    Sphere,
)
from curvedp.laws.exact.draw import has_exact_laplace
from curvedp.mechanisms import (
    Certificate,
    GaussianMechanism,
    LaplaceMechanism,
    LogLaplaceMechanism,
)
from curvedp.release.verify import verify_certificate
from curvedp.release.warnings import certificate_warnings
from curvedp.signing import digest
from support.spaces import EDGES, SPACES

S2, SPD, SPD3, H = Sphere(2), SPDAffineInvariant(2), SPDAffineInvariant(3), Lorentz(2)


def cloud(M, n=40):
    return np.asarray(
        M.from_normal_coordinates(
            M.origin, 0.2 * np.random.default_rng(0).normal(size=(n, M.dim))
        )
    )


def fitted(kind, *arguments, **options):
    model = kind(**options).fit(*arguments)
    return (
        model.certificates_[0]
        if hasattr(model, "certificates_")
        else model.certificate_
    )


X, x = cloud(S2), np.linspace(0, 1, 40)
ADDED = GDP(1.0, adjacency="add-remove")
MAKERS = {
    "gaussian": lambda: fitted(
        PrivateFrechetMean, X, manifold=S2, radius=0.7, mechanism="gaussian"
    ),
    "laplace": lambda: fitted(
        PrivateFrechetMean,
        X,
        manifold=S2,
        radius=0.7,
        mechanism="laplace",
        guarantee=PureDP(1.0),
    ),
    "tangent-gaussian": lambda: fitted(
        PrivateFrechetMean,
        X,
        manifold=S2,
        radius=0.7,
        mechanism="tangent-gaussian",
        guarantee=ApproxDP(1.0, 1e-6),
    ),
    "tangent-laplace": lambda: fitted(
        PrivateFrechetMean,
        X,
        manifold=S2,
        radius=0.7,
        mechanism="tangent-laplace",
        guarantee=PureDP(1.0),
    ),
    "newton": lambda: fitted(
        PrivateFrechetMean, cloud(H), manifold=H, radius=1.0, mechanism="newton"
    ),
    "gradient": lambda: fitted(
        PrivateFrechetMean, cloud(SPD), manifold=SPD, radius=1.0, mechanism="gradient"
    ),
    "kng": lambda: fitted(
        PrivateFrechetMean,
        X,
        manifold=S2,
        radius=0.7,
        mechanism="kng",
        guarantee=PureDP(2.0),
    ),
    "private ball": lambda: fitted(
        PrivateFrechetMean, cloud(SPD, 60), manifold=SPD, radius="private"
    ),
    "class in a private ball": lambda: fitted(
        PrivateMDM,
        cloud(S2, 60),
        np.arange(60) % 2,
        manifold=S2,
        radius="private",
        ball="shared",
    ),
    "variance in a private ball": lambda: fitted(
        PrivateDispersion, cloud(S2, 60), manifold=S2, radius="private"
    ),
    "line in a private ball": lambda: fitted(
        PrivateGeodesicRegression,
        np.linspace(0, 1, 60),
        cloud(S2, 60),
        manifold=S2,
        radius="private",
        guarantee=GDP(1.0),
        x_range=(0.0, 1.0),
    ),
    "newton in a private ball": lambda: fitted(
        PrivateFrechetMean, cloud(H, 60), manifold=H, radius="private"
    ),
    "mean, n private": lambda: fitted(
        PrivateFrechetMean, X, manifold=S2, radius=0.7, guarantee=ADDED
    ),
    "variance, n private": lambda: fitted(
        PrivateDispersion, X, manifold=S2, radius=0.7, guarantee=ADDED
    ),
    "moment, n private": lambda: fitted(PrivatePCA, X, radius=1.0, guarantee=ADDED),
    "median": lambda: fitted(
        PrivateFrechetMedian, cloud(SPD), manifold=SPD, radius=5.0
    ),
    "variance": lambda: fitted(PrivateDispersion, X, manifold=S2, radius=0.7),
    "variance by a chart": lambda: fitted(
        PrivateDispersion, X, manifold=S2, radius=0.7, mechanism="tangent-gaussian"
    ),
    "variance by Laplace": lambda: fitted(
        PrivateDispersion,
        X,
        manifold=S2,
        radius=0.7,
        mechanism="laplace",
        guarantee=PureDP(1.0),
    ),
    "variance by Laplace in a chart": lambda: fitted(
        PrivateDispersion,
        X,
        manifold=S2,
        radius=0.7,
        mechanism="tangent-laplace",
        guarantee=PureDP(1.0),
    ),
    "classes": lambda: fitted(
        PrivateMDM, X, np.arange(40) % 2, manifold=S2, radius=0.7
    ),
    "reduced means": lambda: fitted(
        PrivateMDM,
        cloud(SPD3),
        np.arange(40) % 2,
        manifold=SPD3,
        reduce=2,
        guarantee=GDP(3.0),
    ),
    "reduced softmax": lambda: fitted(
        PrivateSoftmax,
        cloud(SPD),
        np.arange(40) % 2,
        manifold=SPD,
        reduce=1,
        guarantee=GDP(3.0),
    ),
    "moment": lambda: fitted(
        PrivatePCA, np.random.default_rng(1).normal(size=(40, 3)), radius=3.0
    ),
    "line by K-norm": lambda: fitted(
        PrivateGeodesicRegression,
        x,
        X,
        manifold=S2,
        radius=0.5,
        speed=0.5,
        clip=0.2,
        guarantee=PureDP(2.0),
        x_range=(0.0, 1.0),
    ),
    "line by descent": lambda: fitted(
        PrivateGeodesicRegression,
        x,
        X,
        manifold=S2,
        radius=0.5,
        speed=0.5,
        clip=0.2,
        guarantee=GDP(1.0),
        x_range=(0.0, 1.0),
    ),
    "gradient by Laplace": lambda: fitted(
        PrivateFrechetMean,
        cloud(SPD),
        manifold=SPD,
        radius=1.0,
        mechanism="gradient",
        guarantee=PureDP(1.0),
    ),
    "private ball by Laplace": lambda: fitted(
        PrivateFrechetMean,
        cloud(SPD, 200),
        manifold=SPD,
        radius="private",
        guarantee=PureDP(2.0),
    ),
    "newton by Laplace": lambda: fitted(
        PrivateFrechetMean,
        cloud(H),
        manifold=H,
        radius=1.0,
        mechanism="newton",
        guarantee=PureDP(1.0),
    ),
    "median by Laplace": lambda: fitted(
        PrivateFrechetMedian, cloud(S2), manifold=S2, radius=1.5, guarantee=PureDP(1.0)
    ),
    "mean by Laplace, n private": lambda: fitted(
        PrivateFrechetMean,
        X,
        manifold=S2,
        radius=0.7,
        guarantee=PureDP(1.0, adjacency="add-remove"),
    ),
    "stated": lambda: GaussianMechanism(S2, 0.1, 0.2).release(S2.origin).certificate,
    "clusters": lambda: fitted(PrivateKMeans, cloud(S2), manifold=S2, n_clusters=2),
    "clusters from public centers": lambda: fitted(
        PrivateKMeans, cloud(S2), manifold=S2, n_clusters=2, init=cloud(S2, 2)
    ),
    "prototypes": lambda: fitted(
        PrivatePrototypes, X, np.arange(40) % 2, manifold=S2, radius=0.7
    ),
    "principal geodesics in one step": lambda: fitted(
        PrivateTangentPCA, X, manifold=S2, radius=0.7, mechanism="one-shot"
    ),
    "principal geodesics in two steps": lambda: fitted(
        PrivateTangentPCA, X, manifold=S2, radius=0.7, mechanism="two-step"
    ),
    "synthetic, normal": lambda: fitted(
        PrivateSynthesizer, X, manifold=S2, radius=0.7, model="wrapped-gaussian"
    ),
    "synthetic, mixture": lambda: fitted(
        PrivateSynthesizer, X, manifold=S2, radius=0.7, model="mixture"
    ),
    "synthetic, tree": lambda: fitted(
        PrivateSynthesizer, X, manifold=S2, radius=0.7, model="tree"
    ),
    "accuracy": lambda: (
        PrivateAccuracy(PrivateMDM(S2, radius=0.7).fit(X, np.arange(40) % 2))
        .fit(X, np.arange(40) % 2)
        .certificate_
    ),
}
STRANGE: list[Any] = [
    None, True, False, 0, -1, 1, 1e-9, -1e-9, 1e300, 10**30, "", "x [/red] y", "\u001b[8m", [], {}, [1, 2], {"a": 1}, -0.0,
    "Infinity", 0.5, "exact_then_round", "<img src=x>",
]  # fmt: skip


def leaves(record: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(record, dict):
        for name, value in record.items():
            yield from leaves(value, (*path, name))
    elif isinstance(record, list) and record and len(path) < 4:
        yield from leaves(record[0], (*path, 0))
        yield from leaves(record[-1], (*path, len(record) - 1))
    else:
        yield path


def changes(value: Any, turn: int) -> list[Any]:
    """Numbers a little or a lot better and worse, and some of what is no such thing at all.

    What is strange is strange in any place: leaves take turns, and each certificate begins with another, so that a leaf that
    all of them have is given everything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return STRANGE[turn % 11 :: 11]
    near = [value * factor for factor in (0.999, 1.001)]
    return [
        *near,
        [0.5 * value, 2 * value, value + 1, value - 1, int(value), *STRANGE][
            turn % (5 + len(STRANGE))
        ],
    ]


def turns(name: str, record: dict[str, Any]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    return enumerate(leaves(record), 5 * list(MAKERS).index(name))


def accepted(record: dict[str, Any]) -> bool:
    try:
        checks = verify_certificate(Certificate.from_json(json.dumps(record)))
    except CurvedpError:
        return False
    return all(check.holds is not False for check in checks)


def changed(genuine: dict[str, Any], path: tuple[Any, ...], new: Any) -> dict[str, Any]:
    forged = copy.deepcopy(genuine)
    place: Any = forged
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = new
    return forged


def resealed(record: dict[str, Any]) -> dict[str, Any]:
    """What a forger writes, who takes the SHA-256 anew."""
    body = {name: value for name, value in record.items() if name != "sha256"}
    try:
        return {**body, "sha256": digest(body).hex()}
    except CurvedpError:  # no JSON
        return record


def at(record: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        record = record[step]
    return record


def same(old: Any, new: Any) -> bool:
    """1.0 for 1, −0.0 for 0: the same number."""
    kinds = {type(old), type(new)}
    return old == new and (len(kinds) == 1 or kinds == {int, float})


def weaker(path: tuple[Any, ...], old: Any, new: Any) -> bool:
    """Whether a change that was accepted claims less, or the same."""
    if same(old, new):
        return True
    number = isinstance(new, int | float) and not isinstance(new, bool)
    if path[:3] == ("release", "choice", "predicted_errors"):
        # A simulated prediction, which is computed again up to its standard error.
        return number and old is not None and abs(new / old - 1) <= 0.05
    if path == ("release", "choice", "rule"):
        return new in list(ChoiceRule)
    if path[0] == "claims":
        return new is None or (
            number and new >= old * (1 - 1e-5) if old is not None else False
        )
    if path[0] == "guarantee":  # a weaker one was met, too
        return number and new >= old
    if path[0] == "sensitivity":
        return number and abs(new / old - 1) <= 1e-5
    if path[0] in (
        "parameters",
        "release",
    ):  # the same number, or more noise than it takes
        return number and old is not None and new >= old * (1 - 1e-5)
    return False


def another_release(path: tuple[Any, ...], new: Any) -> bool:
    """Whether the certificate is now that of a release in another public ball, of which all it claims is true.

    Nothing but a signature can tell which of the two was made."""
    number = isinstance(new, int | float) and not isinstance(new, bool)
    if path == ("statistic", "outer_radius"):
        return number or new is None  # the default ball
    return (
        path[0] == "statistic"
        and path[1]
        in ("center", "radius", "ball_radius", "speed", "x_range", "reach", "starts")
        and number
    )


def test_every_mechanism_is_mutated():
    made = {genuine(name)["mechanism"] for name in MAKERS}
    elsewhere = {
        "dp-rgd",
        "dp-rsgd",
        "dp-rsgd-sum",
        "dp-rsvrg-sum",
        "dp-rsvrg",
        "private-selection",
    }  # tests/optim, test_selection.py
    missing = set(registry.mechanisms.names()) - made - elsewhere
    assert not {
        name
        for name in missing
        if registry.mechanisms.find(name).__module__.startswith("curvedp.mechanisms")
    }


@functools.cache
def genuine(name: str) -> dict[str, Any]:
    return json.loads(MAKERS[name]().to_json())


@pytest.mark.parametrize("name", MAKERS)
def test_every_certificate_repeats_its_warnings(name):
    """As `curvedp verify`, notebooks and pages ask for them."""
    certificate = Certificate.from_json(json.dumps(genuine(name)))
    assert all(
        isinstance(alarm, str)
        for alarm in [warning.text for warning in certificate_warnings(certificate)]
    )
    assert "<table" in certificate._repr_html_()


@pytest.mark.parametrize("name", MAKERS)
def test_a_changed_leaf_is_refused(name):
    """Every leaf, whether a claim rests on it or not: the center, the reason, the time."""
    record = genuine(name)
    assert accepted(record)
    for turn, path in turns(name, record):
        old = at(record, path)
        for new in changes(old, turn)[:2]:
            assert same(old, new) or not accepted(changed(record, path, new)), (
                path,
                old,
                new,
            )


@pytest.mark.parametrize("name", MAKERS)
def test_a_forged_leaf_is_refused_or_claims_less(name):
    """The same with the SHA-256 taken anew, so that the claims themselves must be recomputed."""
    record, wrong = genuine(name), []
    for turn, path in turns(name, record):
        if path[0] in ("schema", "sha256"):
            continue
        old = at(record, path)
        for new in changes(old, turn):
            if accepted(resealed(changed(record, path, new))) and not (
                weaker(path, old, new) or another_release(path, new)
            ):
                wrong.append((path, old, new))
    assert not wrong, wrong[:5]


@pytest.mark.parametrize("name", MAKERS)
def test_integers_that_the_value_does_not_need_are_refused(name):
    """A list too many, whatever is in it, one too few, and what is no list: with their SHA-256 and the whole's taken anew."""
    record = genuine(name)
    whole = record["release"]["integers"]
    for other in (
        [*whole, []],
        [*whole, whole[-1]],
        [*whole, [1]],
        whole[:-1],
        [],
        {},
        "",
    ):
        release = {
            **record["release"],
            "integers": other,
            "sha256": hash_integers(list(other)),
        }
        assert not accepted(resealed({**record, "release": release})), other


@pytest.mark.parametrize("name", MAKERS)
def test_a_forged_slack_is_refused(name):
    """No exact draw is nearer to its ideal law than 2^-100, and δ is claimed with that: both changed, and in agreement."""
    record = copy.deepcopy(genuine(name))
    if record["numerics"]["slack"] is not None:
        record["numerics"]["slack"] = record["claims"]["slack"] = 2.0**-101
        assert not accepted(resealed(record))


def test_a_public_ball_is_tied_to_the_release():
    """Where no claim rests on the ball, as in a regression or a median, a change of it alone is refused all the same."""
    for name, path in (
        ("median", ("statistic", "outer_radius")),
        ("line by descent", ("statistic", "center", 0)),
        ("line by K-norm", ("statistic", "speed")),
    ):
        forged = changed(genuine(name), path, at(genuine(name), path) * 1.5 + 0.1)
        assert not accepted(forged)


def test_forms_that_are_no_certificate():
    genuine = MAKERS["stated"]()
    text = genuine.to_json()
    for bad in (
        text.replace('"privacy_unit"', '"privacy_units"'),
        text.replace('"mechanism": ', '"mechanism": "a", "mechanism": ', 1),
        "[" * 5000,
        "{}",
        "null",
        text.replace('"sensitivity": ', '"sensitivity": NaN, "x": ', 1),
        text + " " * MAX_BYTES,
    ):
        with pytest.raises(CurvedpError):
            verify_certificate(Certificate.from_json(bad))


def test_a_text_of_digits_is_refused_as_a_number():
    """In any place, of any script: a signed file must not be readable in two ways."""
    record, arabic = (
        genuine("tangent-gaussian"),
        {48 + digit: 0x660 + digit for digit in range(10)},
    )
    numbers = [
        path for path in leaves(record) if type(at(record, path)) in (int, float)
    ]
    assert ("claims", "gdp") in numbers
    for path in numbers:
        text = repr(at(record, path))
        assert not any(
            accepted(changed(record, path, new))
            for new in (text, text.translate(arabic))
        ), path


def test_the_value_belongs_to_the_certificate():
    """The released value is a function of the integers that the certificate lists."""
    model = PrivateFrechetMean(SPD, radius=1.0, mechanism="tangent-gaussian").fit(
        cloud(SPD)
    )
    from curvedp.release.rebuild import rebuild_mechanism

    again = rebuild_mechanism(model.certificate_).reconstruct_value(model.certificate_)
    np.testing.assert_allclose(again, model.location_, rtol=1e-12)


def test_the_digest_is_that_of_the_integers():
    drawn = [np.array([[3, -5], [0, 10**30]], dtype=object), np.array([7])]
    assert (
        hash_integers(drawn)
        == hashlib.sha256(b"3,-5,0,1000000000000000000000000000000;7").hexdigest()
    )


@pytest.mark.parametrize(
    ("estimator", "space"),
    [
        (PrivateFrechetMedian(None, radius=50.0), Euclidean(2100)),
        (PrivateFrechetMean(None, radius="private"), Euclidean(9000)),
        (PrivateFrechetMean(None, radius=0.7, mechanism="newton"), Sphere(8400)),
    ],
    ids=["median", "private ball", "newton"],
)
def test_stages_of_many_numbers_are_listed(estimator, space, tmp_path):
    """More than 16,384 integers: of one draw the hash alone is kept, but stages are read back from theirs, after paying."""
    X = np.random.default_rng(0).normal(size=(60, *space.point_shape))
    model = clone(estimator).set_params(manifold=space, guarantee=GDP(30.0)).fit(X)
    assert sum(map(len, model.certificate_.release["integers"])) > 1 << 14
    model.certificate_.save(tmp_path / "c.json")
    assert all(
        check.holds
        for check in verify_certificate(Certificate.load(tmp_path / "c.json"))
    )
    one = PrivateFrechetMean(
        Euclidean(20_000), radius=1.0, mechanism="tangent-gaussian"
    ).fit(np.zeros((3, 20_000)))
    assert one.certificate_.release["integers"] is None
    assert [warning.text for warning in certificate_warnings(one.certificate_)] == []


ROUND = [Grassmann(4, 1), KendallShapes(4)]


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize(
    "space",
    [
        M
        for M in (*SPACES, *EDGES, *ROUND)
        if M.constant_curvature is not None and has_exact_laplace(M)
    ],
    ids=repr,
)
def test_releases_by_a_law_of_the_manifold_verify(space, kind):
    """Circles, lines through 0, rotations and shapes too, which are no whole spheres: the certified μ of those is another."""
    for moved, scale in (
        (0.3, 0.3),
        (0.7, 0.45 if space.curvature_bounds[0] < 0 else 0.9),
    ):
        certificate = kind(space, moved, scale).release(space.origin).certificate
        refuted = [
            check for check in verify_certificate(certificate) if check.holds is False
        ]
        assert not refuted
        if space.dim <= 3 and certificate.claims.gdp is not None:
            smaller = {
                **certificate.to_dict()["claims"],
                "gdp": 0.999 * certificate.claims.gdp,
            }
            assert not accepted(resealed({**certificate.to_dict(), "claims": smaller}))


EXTREME_INTEGERS = [
    0, -1, 1, 2**53 + 1, -(2**53) - 1, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1,
    2**64, 2**64 + 1, -(2**63), -(2**63) - 1, -(2**64), 2**200 + 1, 10**300 + 7,
]  # fmt: skip


@pytest.mark.parametrize("beside", EXTREME_INTEGERS)
@pytest.mark.parametrize("made_of", ["list", "object array"])
def test_different_integers_never_share_a_digest(made_of, beside):
    """Every pair of sizes: NumPy's common type of some of them is float64."""

    def part(*integers):
        return list(integers) if made_of == "list" else np.array(integers, object)

    digests = {}
    for integer in EXTREME_INTEGERS:
        for near in (integer - 1, integer, integer + 1):
            digests[near] = hash_integers([part(near, beside)])
            text = f"{near},{beside}".encode()
            assert digests[near] == hashlib.sha256(text).hexdigest()
    assert len(set(digests.values())) == len(digests)


@pytest.mark.parametrize("entry", [1.0, "1", None, True, [1]])
def test_only_integers_have_a_digest(entry):
    with pytest.raises(CurvedpError):
        hash_integers([[0, entry]])


@pytest.mark.parametrize("sign", [1, -1])
def test_a_release_with_integers_beyond_64_bits_verifies(sign):
    """Noise near 2^33 makes grid integers near 2^63 with other signs beside them."""
    mechanism = LogLaplaceMechanism(Euclidean(2), 1.0, 2.0**33)
    release = mechanism.release(np.zeros(2))
    record = json.loads(release.certificate.to_json())
    integers = [sign * (2**63 + 12345), -sign * 777]
    record["release"]["integers"] = [integers]
    text = ",".join(map(str, integers)).encode()
    record["release"]["sha256"] = hashlib.sha256(text).hexdigest()
    assert accepted(resealed(record))
    record["release"]["integers"] = [[integers[0] + 1, integers[1]]]
    assert not accepted(resealed(record))


@pytest.mark.parametrize("length", [1 / 3, 1e-6, 0.1 + 0.2, 1e6 + 1 / 7, 123456789.0])
def test_a_length_may_have_any_number_of_digits(length):
    """The numbers of a space are read by the parser of names, not by counting digits."""
    M = SpecialEuclidean(2, length)
    certificate = fitted(
        PrivateFrechetMean,
        cloud(M),
        manifold=M,
        radius=1.0,
        mechanism="tangent-gaussian",
    )
    assert accepted(json.loads(certificate.to_json()))


@pytest.mark.parametrize(
    "name",
    [
        "sphere:" + "9" * 300, "sphere:99999999", "sphere:999999", "torus:20001",
        "euclidean:1000000", "product(euclidean:999999,sphere:2)", "spd-affine:400",
        "special-euclidean:3,1e400", "special-euclidean:3,nan", "sphere:٢",
        "special-euclidean:3,1_0", "special-euclidean:3,٣.5",
    ],
)  # fmt: skip
def test_large_and_unreadable_spaces_are_refused_at_once(name):
    record = copy.deepcopy(genuine("tangent-gaussian"))
    record["manifold"] = record["statistic"]["manifold"] = name
    assert not accepted(resealed(record))
