"""`check_statistic` and `check_mechanism` accept what is right and catch a stranger's mistakes."""

import json
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from curvedp.core.certificate import Certificate
from curvedp.core.mechanism import MechanismInfo
from curvedp.core.registry import mechanisms, statistics
from curvedp.core.statistic import Ball, ClippedToBall
from curvedp.errors import ParameterError
from curvedp.geometry import (
    Euclidean,
    KendallShapes,
    Lorentz,
    Rotations,
    SPDAffineInvariant,
    Sphere,
)
from curvedp.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
)
from curvedp.mechanisms.gradient_step import GradientMechanism
from curvedp.mechanisms.isotropic.base import IsotropicMechanism
from curvedp.privacy import GDP
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean
from curvedp.statistics.frechet_variance import FrechetVariance
from curvedp.statistics.second_moment import SecondMoment
from curvedp.testing import check_mechanism, check_statistic

BALLS = [
    (Sphere(2), 0.7),
    (Lorentz(2), 1.0),
    (SPDAffineInvariant(2), 1.0),
    (KendallShapes(4), 0.3),
    (Rotations(3), 0.8),
    (Euclidean(2), 2.0),
]


# A variance reads the records as the mean does: one space of each sign of curvature.
CASES = [(FrechetMean, *ball) for ball in BALLS]
CASES += [(FrechetVariance, *BALLS[place]) for place in (0, 2, 5)]


@pytest.mark.parametrize(("kind", "manifold", "radius"), CASES, ids=str)
def test_statistics_of_the_library_pass(kind, manifold, radius):
    check_statistic(kind(manifold, None, radius, 12))


def test_statistic_without_ball_needs_a_sampler():
    moment = SecondMoment(3, 1.0, 10)
    check_statistic(moment, sample_records=lambda rng, n: rng.normal(size=(n, 3)))
    with pytest.raises(AssertionError, match="sample_records"):
        check_statistic(moment)


@dataclass(frozen=True, eq=False)
class CoordinateMean(ClippedToBall):
    """A stranger's statistic: the mean of the first coordinate at the center."""

    name: ClassVar[str] = "mean of the first coordinate, test"

    @property
    def value_space(self):
        return Euclidean(1)

    @property
    def sensitivity(self):
        return 2 * self.radius * (1 + 1e-9) / self.n

    @property
    def value_ball(self):
        return Ball(np.zeros(1), self.radius * (1 + 1e-9))

    def compute(self, records):
        clipped = self.clip_records(records.array())
        center = self.ball.center
        coordinates = self.manifold.normal_coordinates(center, clipped)
        return np.asarray(coordinates)[:, 0].mean()[None]


def test_stranger_s_right_statistic_passes():
    check_statistic(CoordinateMean(Sphere(2), None, 0.7, 10))


class HalfSensitivity(CoordinateMean):
    name = "test: half the sensitivity"

    @property
    def sensitivity(self):
        return super().sensitivity / 2


class NotTotal(CoordinateMean):
    name = "test: a NaN record spoils the value"

    def compute(self, records):
        center = np.asarray(self.center)
        coordinates = self.manifold.normal_coordinates(center, records.array())
        return np.asarray(coordinates)[:, 0].mean()[None]


class RaisesOnData(CoordinateMean):
    name = "test: an exception depends on the data"

    def compute(self, records):
        if not np.all(np.isfinite(records.array())):
            raise ValueError("a record is not finite")
        return super().compute(records)


class WarnsOnData(CoordinateMean):
    name = "test: a warning depends on the data"

    def compute(self, records):
        _ = records.array() * 1e300
        return super().compute(records)


@dataclass(frozen=True, eq=False)
class WithFlag(CoordinateMean):
    """A certificate holds no booleans, so this one could never be verified."""

    name: ClassVar[str] = "test: a field that no certificate may hold"
    is_weighted: bool = True


@dataclass(frozen=True, eq=False)
class WithTuple(CoordinateMean):
    """A right statistic with parameters of its own, of several types."""

    name: ClassVar[str] = "test: fields of its own"
    axis: tuple[float, ...] = (1.0, 0.0)
    weight: float = np.float64(0.5)
    order: int = np.int64(2)
    matrix: tuple[tuple[int, ...], ...] = ((1, 2), (3, 4))


def test_fields_of_its_own_are_json_values_and_verified():
    """Also before the certificate was written to a file, where tuples become lists."""
    statistic = WithTuple(Sphere(2), None, 0.7, 10)
    check_statistic(statistic)
    record = statistic.to_dict()
    assert record == json.loads(json.dumps(record))

    mechanism = GaussianMechanism.calibrate(statistic, GDP(1.0))
    certificate = mechanism.release(np.zeros(1)).certificate
    for each in (certificate, Certificate.from_json(certificate.to_json())):
        assert all(check.holds is not False for check in verify_certificate(each))


class OutsideItsBall(CoordinateMean):
    name = "test: the value leaves its ball"

    @property
    def value_ball(self):
        return Ball(np.zeros(1), self.radius / 4)


class DropsRecords(CoordinateMean):
    name = "test: records outside the ball are dropped"

    def compute(self, records):
        X = records.array()
        distances = np.asarray(self.manifold.dist(np.asarray(self.center), X))
        with np.errstate(all="ignore"):
            inside = X[distances <= self.radius]
        if len(inside) == 0:
            return np.zeros(1)
        center = np.asarray(self.center)
        coordinates = self.manifold.normal_coordinates(center, inside)
        return np.asarray(coordinates)[:, 0].mean()[None]


class ForgetsAField(CoordinateMean):
    name = "test: the dictionary lacks a field"

    def to_dict(self):
        record = super().to_dict()
        del record["radius"]
        return record


class MedianAsMean(CoordinateMean):
    name = "test: a median with the sensitivity of a mean"

    def compute(self, records):
        clipped = self.clip_records(records.array())
        coordinates = self.manifold.normal_coordinates(self.ball.center, clipped)
        # Between equal numbers of records a median may be anywhere.
        return np.median(np.round(np.asarray(coordinates)[:, 0], 1))[None]


class FirstRecordLeads(CoordinateMean):
    name = "test: the first record weighs more than the others"

    def compute(self, records):
        clipped = self.clip_records(records.array())
        coordinates = self.manifold.normal_coordinates(self.ball.center, clipped)
        weights = np.ones(self.n)
        weights[0] = 3.0
        return np.average(np.asarray(coordinates)[:, 0], weights=weights)[None]


class Remembers(CoordinateMean):
    name = "test: what was computed first is the answer to everything"

    def compute(self, records):
        if "answer" not in vars(self):
            object.__setattr__(self, "answer", super().compute(records))
        return vars(self)["answer"]


class DrawsNumbers(CoordinateMean):
    name = "test: a little noise that hides nothing"

    def compute(self, records):
        small = np.random.default_rng().uniform(0.99, 1.0)
        return small * super().compute(records)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (MedianAsMean, "moves the value by"),
        (FirstRecordLeads, "moves the value by"),
        (Remembers, "same records"),
        (DrawsNumbers, "same records"),
        (HalfSensitivity, "moves the value by"),
        (NotTotal, "total|not finite"),
        (RaisesOnData, "total"),
        (WarnsOnData, "total"),
        (OutsideItsBall, "value_ball"),
        (DropsRecords, "moves the value by|total"),
        (ForgetsAField, "from_dict"),
        (WithFlag, "is_weighted=True, which a certificate may not hold"),
    ],
)
def test_mistakes_of_statistics_are_caught(kind, message):
    wrong = kind(Sphere(2), None, 0.7, 10)
    with pytest.raises(AssertionError, match=message):
        check_statistic(wrong)


# ---- mechanisms ----


@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism(Sphere(2), 0.1, 0.2),
        LaplaceMechanism(SPDAffineInvariant(2), 0.1, 0.2),
        LogGaussianMechanism(Lorentz(2), 0.1, 0.3),
    ],
    ids=lambda mechanism: mechanism.info.name,
)
def test_mechanisms_of_the_library_pass(mechanism):
    check_mechanism(mechanism, np.asarray(mechanism.manifold.origin))


def test_mechanism_of_records_passes():
    mean = FrechetMean(Sphere(2), None, 0.7, 40)
    rng = np.random.default_rng(0)
    records = np.asarray(Sphere(2).project(rng.normal([3.0, 0, 0], 0.5, (40, 3))))
    check_mechanism(GradientMechanism.calibrate(mean, GDP(1.0)), records)


class LessNoise(LogGaussianMechanism):
    info = MechanismInfo("test-less-noise")

    def draw(self, data, source):
        honest = IsotropicMechanism.draw
        return honest(self.with_scaled_noise(0.7), data, source)


class OtherValue(LogGaussianMechanism):
    info = MechanismInfo("test-other-value")

    def reconstruct_value(self, certificate):
        return super().reconstruct_value(certificate) + 1e-9


class RefusesData(LogGaussianMechanism):
    info = MechanismInfo("test-refuses-data")

    def prepare_data(self, data):
        if not np.all(np.isfinite(data)):
            raise ParameterError("a record is not finite")
        return super().prepare_data(data)


class ForgetsParameters(LogGaussianMechanism):
    info = MechanismInfo("test-forgets-parameters")

    @property
    def parameters(self):
        return {"scale": 2 * self.scale}


class WritesFlag(LogGaussianMechanism):
    info = MechanismInfo("test-writes-a-flag")

    @property
    def parameters(self):
        return {**super().parameters, "is_good": True}


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (LessNoise, "noise law"),
        (OtherValue, "reconstruct_value"),
        (RefusesData, "prepare_data"),
        (ForgetsParameters, "from_parameters|parameters|δ"),
        (WritesFlag, "is_good=True, which a certificate may not hold"),
    ],
)
def test_mistakes_of_mechanisms_are_caught(kind, message):
    with pytest.raises(AssertionError, match=message):
        check_mechanism(kind(Euclidean(2), 0.1, 0.2), np.zeros(2))


# Tests elsewhere enumerate the registries: the classes above are in them only while the
# tests of this file run.
STATISTICS = [
    CoordinateMean,
    HalfSensitivity,
    NotTotal,
    RaisesOnData,
    WarnsOnData,
    OutsideItsBall,
    DropsRecords,
    ForgetsAField,
    MedianAsMean,
    FirstRecordLeads,
    Remembers,
    DrawsNumbers,
    WithFlag,
    WithTuple,
]
MECHANISMS = [LessNoise, OtherValue, RefusesData, ForgetsParameters, WritesFlag]


def forget_strangers():
    for kind in STATISTICS:
        statistics.remove(kind.name)
    for kind in MECHANISMS:
        mechanisms.remove(kind.info.name)


forget_strangers()


@pytest.fixture(autouse=True)
def known_strangers():
    for kind in STATISTICS:
        statistics.add(kind.name, kind)
    for kind in MECHANISMS:
        mechanisms.add(kind.info.name, kind)
    yield
    forget_strangers()
