"""A refusal comes before anything is paid: every estimator × every public mistake, and the ledger is as it was."""

import numpy as np
import pytest

import curvedp
from curvedp import GDP, Ledger, PureDP
from curvedp.errors import CurvedpError
from curvedp.geometry import SPDAffineInvariant, Sphere
from curvedp.privacy import ApproxDP
from curvedp.randomness import GeneratorSource

S2, RNG = Sphere(2), np.random.default_rng(0)
X = Sphere(2).project(RNG.normal([3.0, 0, 0], 0.5, (60, 3)))
SPD, T = (
    SPDAffineInvariant(3),
    np.asarray([np.cov(RNG.normal(size=(3, 9))) for _ in range(60)]),
)
Y, x = np.arange(60) % 2, np.linspace(0, 1, 60)


def source():
    return GeneratorSource(np.random.default_rng(1))


class Unnamed(Sphere):
    """A user's own space, which no certificate can name."""


# estimator -> (how it is made, what fit takes); mechanisms that read the records among them
ESTIMATORS = {
    "mean": (
        lambda **o: curvedp.PrivateFrechetMean(**{"manifold": S2, "radius": 0.7, **o}),
        (X,),
    ),
    "mean by newton": (
        lambda **o: curvedp.PrivateFrechetMean(
            **{"manifold": S2, "radius": 0.7, "mechanism": "newton", **o}
        ),
        (X,),
    ),
    "mean by kng": (
        lambda **o: curvedp.PrivateFrechetMean(
            **{
                "manifold": S2,
                "radius": 0.7,
                "mechanism": "kng",
                "guarantee": PureDP(1.0),
                **o,
            }
        ),
        (X,),
    ),
    "mean by a gradient": (
        lambda **o: curvedp.PrivateFrechetMean(
            **{"manifold": S2, "radius": 0.7, "mechanism": "gradient", **o}
        ),
        (X,),
    ),
    "mean in a private ball": (
        lambda **o: curvedp.PrivateFrechetMean(
            **{"manifold": S2, "radius": "private", **o}
        ),
        (X,),
    ),
    "median": (
        lambda **o: curvedp.PrivateFrechetMedian(
            **{"manifold": S2, "radius": 0.7, **o}
        ),
        (X,),
    ),
    "dispersion": (
        lambda **o: curvedp.PrivateDispersion(**{"manifold": S2, "radius": 0.7, **o}),
        (X,),
    ),
    "clusters": (
        lambda **o: curvedp.PrivateKMeans(
            **{"manifold": SPD, "n_clusters": 2, "guarantee": GDP(3.0), **o}
        ),
        (T,),
    ),
    "classes": (
        lambda **o: curvedp.PrivateMDM(**{"manifold": S2, "radius": 0.7, **o}),
        (X, Y),
    ),
    "classes in private balls": (
        lambda **o: curvedp.PrivateMDM(
            **{"manifold": S2, "radius": "private", "guarantee": GDP(3.0), **o}
        ),
        (X, Y),
    ),
    "reduced classes": (
        lambda **o: curvedp.PrivateMDM(
            **{"manifold": SPD, "reduce": 2, "guarantee": GDP(3.0), **o}
        ),
        (T, Y),
    ),
    "prototypes": (
        lambda **o: curvedp.PrivatePrototypes(**{"manifold": S2, "radius": 0.7, **o}),
        (X, Y),
    ),
    "tangent components": (
        lambda **o: curvedp.PrivateTangentPCA(
            **{"manifold": S2, "radius": 0.7, "n_components": 1, **o}
        ),
        (X,),
    ),
    "synthetic records": (
        lambda **o: curvedp.PrivateSynthesizer(
            **{"manifold": S2, "radius": 0.7, "model": "wrapped-gaussian", **o}
        ),
        (X,),
    ),
    "softmax": (
        lambda **o: curvedp.PrivateSoftmax(
            **{"manifold": SPD, "reduce": 2, "guarantee": GDP(3.0), **o}
        ),
        (T, Y),
    ),
    "domains": (
        lambda **o: curvedp.PrivateRecenter(**{"manifold": SPD, "radius": 3.0, **o}),
        (T, [f"s{k % 2}/left" for k in range(60)]),
    ),
    "tangent space": (
        lambda **o: curvedp.PrivateTangentSpace(**{"manifold": S2, "radius": 0.7, **o}),
        (X,),
    ),
    "line": (
        lambda **o: curvedp.PrivateGeodesicRegression(
            **{
                "manifold": S2,
                "radius": 0.5,
                "speed": 0.5,
                "clip": 0.2,
                "x_range": (0, 1),
                "guarantee": GDP(0.5),
                **o,
            }
        ),
        (x, X),
    ),
    "components": (lambda **o: curvedp.PrivatePCA(**{"radius": 2.0, **o}), (X,)),
}
MISTAKES = {
    "source": [np.random.default_rng(0), "urandom", 5],
    "guarantee": [
        1.0,
        None,
        "GDP(1)",
        GDP(0.5, adjacency="add-remove"),
        ApproxDP(1.0, 1e-6, adjacency="add-remove"),
    ],
    "radius": [0.0, -1.0, np.nan, np.inf, "wide", [1.0]],
    "center": [[1.0, 0.0], np.full(3, np.nan), [0.0, 0.0, 0.0]],
    "mechanism": ["magic", None, 3],
    "manifold": ["sphere", None, Unnamed(2)],
    "label": ["", 3, b"x"],
    "method": ["magic"],
    "outer_radius": [0.0, -1.0, np.nan, np.inf],
    "speed": [0.0, -1.0, np.nan, np.inf],
    "clip": [0.0, -1.0, np.nan, np.inf],
    "x_range": [(0.0, 0.0), (1.0, 0.0), (0.0, np.nan), (0.0, 1.0, 2.0), 10**400],
    "reduce": [0, 4, 2.0],
    "n_clusters": [0, 1, -2, 2.0, 61, "few"],
    "init": [[[1.0]], np.zeros((2, 3, 3)), T[:3]],
    "n_components": [0, -1, 1.5, "all", 4],
    "model": ["magic", None, 3],
    "metric": ["magic", None, 3],
    "new_domain": ["magic", None, 3],
    "final_dispersion": [0.0, -1.0, np.nan, np.inf],
}
NOTHING = [
    True,
    b"x",
    object(),
    1j,
    {},
    [],
    np.ma.masked,
    X,
    T,
]  # no parameter takes one of these


def cases():
    for name, (make, _) in ESTIMATORS.items():
        for parameter, values in MISTAKES.items():
            if parameter in make().get_params():
                for k in range(len(values)):
                    yield pytest.param(name, parameter, k, id=f"{name}-{parameter}-{k}")


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_what_is_no_value_of_any_parameter_is_refused_in_one_line_without_a_record(
    name, tmp_path
):
    make, data = ESTIMATORS[name]
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    for parameter in set(make().get_params()) - {"ledger"}:
        for value in NOTHING:
            with pytest.raises(CurvedpError) as refusal:
                make(**{"ledger": ledger, parameter: value}).fit(*data)
            assert "\n" not in str(refusal.value), parameter
            assert not any(
                f"{number:.6f}"[:7] in str(refusal.value) for number in X.ravel()
            ), parameter
            assert not ledger.entries, parameter


# parameter -> another value that it takes
OTHERS = {
    "radius": 0.6, "guarantee": GDP(0.7), "mechanism": "tangent-gaussian", "outer_radius": 1.0, "reduce": 3,
    "features": "log", "ball": "shared", "method": "dp-rgd", "speed": 0.4, "clip": 0.1, "x_range": (0.0, 2.0),
    "n_components": 2, "classes": [0, 1, 2, 3],
    "target_domain": "nobody", "final_dispersion": 2.0,
    "n_clusters": 3, "init": T[:2], "metric": "median", "model": "tree",
}  # fmt: skip
# What the data are, who pays, and what only `transform` reads.
UNHEARD = {"manifold", "ledger", "label", "source", "new_domain"}


def told(model):
    """All that was released, and why."""
    certificates = getattr(model, "certificates_", None) or [model.certificate_]
    released = [
        (
            each.statistic,
            each.parameters,
            each.release["integers"],
            each.release["choice"],
        )
        for each in certificates
    ]
    return released, np.shape(getattr(model, "components_", ()))


@pytest.mark.filterwarnings("ignore::curvedp.errors.ReleaseWarning")  # of few records
@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_an_option_changes_the_release_or_is_refused(name, tmp_path):
    """None is ignored without a word: where it has no effect, it is refused before anything is paid."""
    make, data = ESTIMATORS[name]
    before = told(make(source=source()).fit(*data))
    shape = (
        np.shape(make().manifold.origin) if "manifold" in make().get_params() else None
    )
    for parameter in sorted(set(make().get_params()) - UNHEARD):
        value = (
            (np.diag([2.0, 1, 1]) if shape == (3, 3) else [0.8, 0.6, 0.0])
            if parameter == "center"
            else OTHERS[parameter]
        )
        ledger, refusal, after = (
            Ledger(tmp_path / f"{parameter}.ledger", GDP(5.0)),
            "",
            None,
        )
        try:
            after = told(
                make(**{"source": source(), "ledger": ledger, parameter: value}).fit(
                    *data
                )
            )
        except CurvedpError as error:
            refusal = str(error)
        assert "\n" not in refusal, parameter
        assert bool(ledger.entries) == (not refusal), parameter
        assert str(after) != str(before), parameter


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"features": "log"}, "features"),
        ({"ball": "each"}, "ball"),
        ({"ball": "shared", "reduce": 2, "radius": None, "manifold": SPD}, "ball"),
        ({"outer_radius": 1.0}, "outer_radius"),
    ],
)
def test_a_refusal_names_what_would_be_ignored(options, named, tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    with pytest.raises(CurvedpError, match=rf"{named}=\S+ is for"):
        curvedp.PrivateMDM(
            **{"manifold": S2, "radius": 0.7, "ledger": ledger, **options}
        ).fit(X, Y)
    assert not ledger.entries


def test_a_private_line_has_one_method(tmp_path):
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    options = {
        "radius": "private",
        "speed": None,
        "clip": None,
        "method": "kng",
        "ledger": ledger,
    }
    with pytest.raises(CurvedpError, match="method"):
        ESTIMATORS["line"][0](**options).fit(x, X)
    assert not ledger.entries


@pytest.mark.parametrize(("name", "parameter", "k"), list(cases()))
def test_a_mistake_spends_nothing(name, parameter, k, tmp_path):
    make, data = ESTIMATORS[name]
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    head = ledger.head
    with pytest.raises(CurvedpError):
        make(ledger=ledger, **{parameter: MISTAKES[parameter][k]}).fit(*data)
    assert ledger.head == head
    assert not ledger.entries


@pytest.mark.parametrize("name", list(ESTIMATORS))
@pytest.mark.parametrize(
    "bad",
    [lambda a: a[:1], lambda a: a[..., :0], lambda a: a[0], lambda a: a + 1j],
    ids=["one", "narrow", "flat", "complex"],
)
def test_records_of_another_form_spend_nothing(name, bad, tmp_path):
    make, data = ESTIMATORS[name]
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    with pytest.raises((CurvedpError, ValueError)) as refusal:
        make(ledger=ledger).fit(
            *(bad(part) if part is X or part is T else part for part in data)
        )
    assert not ledger.entries
    assert not any(f"{value:.6f}"[:7] in str(refusal.value) for value in X.ravel())


@pytest.mark.parametrize("name", list(ESTIMATORS))
def test_without_a_mistake_it_is_paid_once(name, tmp_path):
    make, data = ESTIMATORS[name]
    ledger = Ledger(tmp_path / "a.ledger", GDP(5.0))
    model = make(ledger=ledger).fit(*data)
    assert len(ledger.entries) == 1
    certificate = getattr(model, "certificate_", None) or model.certificates_[0]
    assert certificate.provenance.ledger == {"entry": 1, "head": ledger.head}


def test_every_estimator_is_here():
    import curvedp.estimators

    made = {type(make()).__name__ for make, _ in ESTIMATORS.values()}
    assert made == set(curvedp.estimators.__all__)
