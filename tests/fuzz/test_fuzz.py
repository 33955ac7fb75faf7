"""Bad public arguments over the whole public surface: each is refused by name, or gives a sound answer; never a raw error.

Hypothesis draws, derandomized, a call, one of its arguments and a bad value for it. Allowed: an exception of `curvedp.errors`
with a message, or a result whose guarantee is a guarantee (no NaN, δ in [0, 1], ε ≥ 0). Warnings are errors here.
"""

import math
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from curvedp import estimators, geometry, mechanisms, privacy
from curvedp.cli import app
from curvedp.core import registry
from curvedp.errors import CurvedpError
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.mechanisms import Mechanism
from curvedp.privacy import Guarantee, PrivacyProfile
from curvedp.privacy.guarantees.base import guarantee_of
from support.fuzz_targets import TARGETS, X

PER_GROUP = {"guarantees": 450, "accounting": 160, "laws": 250, "geometry": 400, "mechanisms": 250, "estimators": 350,
             "optim": 150}  # fmt: skip

# What passes for a number, a name, an array or a manifold until it is looked at. Huge counts are left to `integer`'s tests.
JUNK: list[Any] = [
    math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0, -1, 0, 1e308, -1e308, 5e-324, 1e-300, 2**5000, -(2**70), True, False,
    None, "", "1", "nan", "abc", b"1", 1j, [], [1.0], {}, (), object(), np.array(math.nan), np.array([]),
    np.array([math.nan, 1.0]), np.zeros((2, 2, 2)), np.array(["a"]), np.array([None]), np.float32("nan"),
    np.int64(-3), Fraction(-1, 3),
    Decimal("nan"), lambda *a: 0, int, "x" * 1000, "sphere:0", "sphere:99999999999999999999", "a\nb\x00",
    np.full(3, math.nan), np.zeros(3), np.ones((12, 3)) * math.inf, np.ma.masked, range(3), np.datetime64("NaT", "s"),
    [[1, 2], [3]],
]  # fmt: skip
BAD = st.one_of(
    st.sampled_from(JUNK),
    st.floats(max_value=0),
    st.floats(min_value=1e150),
    st.floats(min_value=0, max_value=1e-150),
    st.integers(max_value=0),
    st.text(max_size=8),
)


@contextmanager
def limit(seconds: int):
    """A hang is a failure with a name, not a suite that never ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: Any) -> None:
        raise AssertionError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def sound(result: Any) -> None:
    """What came back claims nothing that is not a number."""
    if isinstance(result, PrivacyProfile):
        return  # checked by its own methods, which are targets too; a curve of each would take minutes
    if isinstance(result, Guarantee):
        assert 0 <= result.delta(1.0) <= 1
        assert result.epsilon(1e-5) >= 0
    elif isinstance(result, Mechanism):
        assert all(
            not math.isnan(v)
            for v in guarantee_of(result.privacy_profile).to_dict().values()
            if isinstance(v, float)
        )
    elif isinstance(result, float):
        assert not math.isnan(result)
    elif hasattr(result, "guarantee") and hasattr(result, "point"):
        sound(result.guarantee)
    elif hasattr(result, "certificate_"):
        sound(result.certificate_.guarantee)


# Reached through the calls that make them: `dp_rgd` and its like, the tests of `inference`, `Plan` of `federated`.
ELSEWHERE = {"DescentMechanism", "BatchDescentMechanism", "AddRemoveDescentMechanism", "VarianceReducedMechanism",
             "AddRemoveVarianceReducedMechanism",
             "PermutationMechanism", "FederatedMechanism"}  # fmt: skip


def test_everything_registered_is_a_target():
    """A manifold, mechanism, estimator or definition of privacy that is added and not fuzzed fails here."""
    named = {name.split(".")[0] for group in TARGETS.values() for name in group}
    manifolds = {
        name for name in geometry.__all__ if _is(geometry, name, geometry.Manifold)
    } - {"Manifold"}
    mechanisms_ = {
        kind.__name__ for kind in registry.mechanisms if _ours(kind)
    } - ELSEWHERE
    definitions = {
        kind.__name__
        for kind in Guarantee._registry.values()
        if issubclass(kind, Guarantee) and kind.additive_fields and _ours(kind)
    }  # no public list has them all
    assert manifolds | mechanisms_ | set(estimators.__all__) | definitions <= named


def _is(package: Any, name: str, kind: type) -> bool:
    found = getattr(package, name)
    return isinstance(found, type) and issubclass(found, kind)


def _ours(kind: type) -> bool:
    return kind.__module__.startswith("curvedp.")


@pytest.mark.parametrize("group", TARGETS)
def test_good_arguments_are_accepted(group):
    """The fuzzer's starting points are valid: otherwise every refusal below would prove nothing."""
    for function, good in TARGETS[group].values():
        sound(function(**good))


@pytest.mark.parametrize("group", TARGETS)
def test_one_bad_argument(group):
    calls = [
        (name, field) for name, (_, good) in TARGETS[group].items() for field in good
    ]

    @settings(
        max_examples=PER_GROUP[group], derandomize=True, deadline=None, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.sampled_from(calls), BAD)
    def check(call: tuple[str, str], bad: Any) -> None:
        name, field = call
        function, good = TARGETS[group][name]
        with limit(60):
            try:
                sound(function(**{**good, field: bad}))
            except CurvedpError as error:
                message = str(error)
            except (TypeError, ValueError):
                if (name, field) != (
                    "PrivatePCA",
                    "X",
                ):  # scikit-learn's own checks of shape and type
                    raise
                message = "scikit-learn's"
            else:
                return
            assert message

    check()


# ---- several extreme arguments at once, each of them valid by itself

EXTREME = st.one_of(
    st.sampled_from([1e-300, 1e-100, 1e-30, 1e-12, 1e-3, 0.1, 1.0, math.pi, 10.0, 700.0, 1e3, 1e6, 1e12, 1e30, 1e150, 1e300]),
    st.floats(1e-4, 1e4),
)  # fmt: skip
CURVATURES = st.one_of(
    st.sampled_from([0.0, 1.0, -1.0]), EXTREME, EXTREME.map(lambda x: -x)
)
KINDS, DIMS = (
    st.sampled_from(["gaussian", "laplace"]),
    st.sampled_from([1, 1, 2, 3, 10]),
)
SPACES = st.sampled_from(
    [
        Euclidean(2),
        Sphere(2),
        Lorentz(2),
        SPDAffineInvariant(3),
        KendallShapes(4),
        Rotations(3),
    ]
)
EXTREMES = {
    "floor": (privacy.gaussian_floor, CURVATURES, st.sampled_from([2, 3, 10, 10_000]), EXTREME),
    "certified_delta": (privacy.certified_delta, KINDS, CURVATURES, DIMS, EXTREME, EXTREME, EXTREME),
    "laplace renyi": (
        lambda curvature, dim, scale, moved, order: privacy.laplace_profile(curvature, dim, scale, moved).renyi(1 + order),
        CURVATURES, DIMS, EXTREME, EXTREME, EXTREME,
    ),
    "sensitivity": (mechanisms.frechet_mean_sensitivity, SPACES, EXTREME, st.sampled_from([1, 2, 10**9])),
    "mean error": (geometry.mean_error_bound, SPACES, EXTREME),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_together(name):
    """Numbers come back as numbers, bounds in order; nothing hangs, and what cannot be had is refused by name."""
    function, *strategies = EXTREMES[name]

    @settings(
        max_examples=40,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*strategies))
    def check(arguments: tuple[Any, ...]) -> None:
        with limit(60):
            try:
                found = function(*arguments)
            except CurvedpError:
                return
        low, high = found if isinstance(found, tuple) else (found, found)
        assert 0 <= low <= high

    check()


# ---- data: any value, never an exception

VALUES = st.one_of(
    st.floats(), st.sampled_from([math.nan, math.inf, -math.inf, 1e308, 5e-324, 0.0])
)


@pytest.mark.parametrize(
    ("group", "name", "field"),
    [
        ("estimators", "PrivateFrechetMean", "X"),
        ("estimators", "PrivateDispersion", "X"),
        ("estimators", "PrivateMDM", "X"),
        ("estimators", "PrivatePCA", "X"),
        ("estimators", "PrivateGeodesicRegression", "Y"),
        ("estimators", "PrivateGeodesicRegression", "x"),
        ("mechanisms", "release", "data"),
        ("mechanisms", "kng.release", "data"),
        ("optim", "dp_rgd", "data"),
        ("geometry", "project_to_ball", "X"),
    ],
)
def test_bad_data_never_raises(group, name, field):
    function, good = TARGETS[group][name]
    shape = np.shape(good[field])

    @settings(
        max_examples=12,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(VALUES, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
    def check(values: list[float]) -> None:
        sound(function(**{**good, field: np.array(values).reshape(shape)}))

    check()


# ---- the command line: one line and exit code 1 or 2, never a traceback

ARGUMENT = st.one_of(
    st.sampled_from(
        ["nan", "inf", "-1", "0", "", "x", "1e999", "sphere:2", "sphere", "sphere:-1", "spd-affine:x", "--", "-m", "/", ".",
         "/nonexistent/x.npy", "product", "lorentz:2", "\u0000", "🦉", "1,2", "--mu", "--radius", "--json", "gaussian"]
    ),
    st.text(max_size=6),
    st.floats().map(str),
)  # fmt: skip
COMMANDS = st.one_of(
    st.tuples(
        st.just("release"),
        ARGUMENT,
        st.just("-m"),
        ARGUMENT,
        st.just("-r"),
        ARGUMENT,
        st.just("--mu"),
        ARGUMENT,
    ),
    st.tuples(
        st.just("calibrate"),
        st.just("-m"),
        ARGUMENT,
        st.just("--mu"),
        ARGUMENT,
        st.just("--sensitivity"),
        ARGUMENT,
    ),
    st.tuples(st.just("verify"), ARGUMENT),
    st.tuples(st.just("ledger"), st.just("show"), ARGUMENT),
    st.tuples(st.just("reproduce"), ARGUMENT),
    st.tuples(
        st.just("audit"),
        st.just("--samples"),
        ARGUMENT,
        st.just("--only"),
        st.just("no such mechanism"),
    ),
    st.tuples(ARGUMENT, ARGUMENT),
)


@settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(COMMANDS)
def test_the_command_line_answers_in_one_line(arguments):
    with limit(60):
        result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code in (0, 1, 2), (arguments, result.output)
    assert result.exception is None or isinstance(result.exception, SystemExit), (
        arguments,
        result.exception,
    )
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        b"1,0,0\n",
        b"\xff\xfe",
        b"a,b\n",
        b"1;0;0\n",
        b"1,2\n3\n",
        b"PK\x03\x04",
        b'{"schema": 3}',
    ],
)
@pytest.mark.parametrize(
    "name", ["x.npy", "x.npz", "x.csv", "x.parquet", "x.json", "x"]
)
def test_broken_files(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    path = str(tmp_path / name)
    for arguments in (
        ["release", path, "-m", "sphere:2", "-r", "0.5", "--mu", "1"],
        ["verify", path],
        ["ledger", "show", path],
        ["ledger", "verify", path],
        ["ledger", "create", path, "--mu", "1"],
        ["ledger", "spend", path, "mean", "--mu", "0.1"],
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code in (1, 2), (arguments, result.output)
        assert isinstance(result.exception, SystemExit), (arguments, result.exception)


def test_a_mistake_in_a_shell(tmp_path):
    np.save(tmp_path / "x.npy", X)
    release = ["release", "x.npy", "-m", "sphere:2", "-r", "nan", "--mu", "1"]
    run = subprocess.run(
        [sys.executable, "-m", "curvedp", *release],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    for arguments in (["verify", str(tmp_path / "x.npy")], ["nonsense"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 2
        assert isinstance(result.exception, SystemExit)
