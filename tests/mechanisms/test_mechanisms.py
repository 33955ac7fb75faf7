"""Mechanisms: calibrated on the private side, honest on paper, safe with any value, verifiable by anyone."""

import dataclasses
import json
import math
from importlib.metadata import PackageNotFoundError

import numpy as np
import pytest

from curvedp.core import certificate
from curvedp.core.certificate import seal
from curvedp.core.fields import Length, check_fields
from curvedp.core.mechanism import strongest_guarantee
from curvedp.core.statistic import public_ball
from curvedp.errors import (
    NotIntegrable,
    ParameterError,
    UnattainableGuarantee,
    VerificationFailed,
)
from curvedp.geometry import (
    Euclidean,
    Grassmann,
    KendallShapes,
    Lorentz,
    PoincareBall,
    Rotations,
    SPDAffineInvariant,
    SPDLogCholesky,
    SPDLogEuclidean,
    Sphere,
    Stiefel,
)
from curvedp.mechanisms import (
    Certificate,
    GaussianMechanism,
    LaplaceMechanism,
    LogGaussianMechanism,
    LogLaplaceMechanism,
)
from curvedp.privacy import GDP, ZCDP, ApproxDP, PureDP, RenyiDP
from curvedp.randomness import GeneratorSource, SecureSource
from curvedp.release.verify import verify_certificate
from curvedp.statistics.frechet_mean import FrechetMean
from support.spaces import SPACES

CURVED = [Sphere(2), Sphere(20), Lorentz(2), Euclidean(4)]
EVERYWHERE = [
    *(
        (manifold, None)
        for manifold in (
            Euclidean(3),
            Lorentz(3),
            PoincareBall(2),
            SPDAffineInvariant(3),
            SPDLogCholesky(2),
        )
    ),
    *(
        (manifold, 0.3)
        for manifold in (
            Sphere(3),
            Grassmann(4, 2),
            Rotations(3),
            KendallShapes(5),
            Stiefel(4, 2),
        )
    ),
]


@pytest.mark.parametrize("manifold", CURVED)
@pytest.mark.parametrize(
    "target", [GDP(0.5), ApproxDP(1.0, 1e-6), ZCDP(0.1), RenyiDP(4.0, 0.3)]
)
def test_gaussian_calibration_meets_the_target_and_wastes_nothing(manifold, target):
    mechanism = GaussianMechanism.calibrated(manifold, 0.1, target)
    less = dataclasses.replace(mechanism, sigma=mechanism.sigma * 0.999)

    def cost(m):
        match target:
            case GDP():
                return m.privacy_profile.mu / target.mu
            case ApproxDP():
                return m.privacy_profile.delta(target.eps) / target.delta0
            case RenyiDP():
                return m.privacy_profile.renyi(target.order) / target.eps
            case ZCDP():
                return (
                    max(
                        m.privacy_profile.renyi(a) / a
                        for a in (1.01, 1.5, 2.0, 5.0, 20.0, 80.0)
                    )
                    / target.rho
                )

    assert cost(mechanism) <= 1.0 + 1e-12
    assert cost(less) > 0.99


@pytest.mark.parametrize("manifold", [Sphere(2), Lorentz(2), Euclidean(3), Sphere(1)])
def test_laplace_is_pure(manifold):
    mechanism = LaplaceMechanism.calibrated(manifold, 0.05, PureDP(0.5))
    assert mechanism.scale == pytest.approx(0.1, rel=1e-6)
    assert mechanism.privacy_profile.pure_epsilon <= 0.5 * (1 + 1e-12)
    assert mechanism.privacy_profile.delta(0.5) <= 1e-12


def test_the_hyperbolic_floor_names_itself_and_the_way_out():
    with pytest.raises(UnattainableGuarantee, match=r"2\.86.*tangent-gaussian"):
        GaussianMechanism.calibrated(Lorentz(10), 1.0, GDP(0.5))
    assert LogGaussianMechanism.calibrated(
        Lorentz(10), 1.0, GDP(0.5)
    ).sigma == pytest.approx(2.0, rel=1e-6)


def test_laplace_names_the_limit_of_its_existence():
    with pytest.raises(NotIntegrable, match=r"0\.25"):
        LaplaceMechanism(Lorentz(5), 0.1, 0.5).privacy_profile.delta(0.1)


@pytest.mark.parametrize(("manifold", "radius"), EVERYWHERE)
def test_the_log_map_mechanisms_work_everywhere(manifold, radius):
    for kind, target in (
        (LogGaussianMechanism, GDP(1.0)),
        (LogLaplaceMechanism, PureDP(1.0)),
    ):
        mechanism = kind.calibrated(manifold, 0.01, target, radius=radius)
        release = mechanism.release(manifold.origin)
        assert float(manifold.residual(release.value)) < 1e-9
        assert float(manifold.dist(manifold.origin, release.value)) < 1.0
        assert release.certificate.provenance.numerics["slack"] <= 2.0**-100


def test_the_chart_stretches_where_curvature_is_positive():
    flat = LogGaussianMechanism.calibrated(Euclidean(2), 0.01, GDP(1.0)).sigma
    round_ = LogGaussianMechanism.calibrated(
        Sphere(2), 0.01, GDP(1.0), radius=1.0
    ).sigma
    assert round_ / flat == pytest.approx(1 / math.sin(1.0), rel=1e-6)
    with pytest.raises(ParameterError, match="radius"):
        LogGaussianMechanism.calibrated(Sphere(2), 0.01, GDP(1.0))


@pytest.mark.parametrize(
    "manifold",
    [Sphere(2), Lorentz(2), PoincareBall(2), Euclidean(3), SPDLogEuclidean(2)],
)
def test_releases_sit_on_the_public_grid(manifold):
    mechanism = GaussianMechanism.calibrated(manifold, 0.05, GDP(1.0))
    release = mechanism.release(manifold.origin)
    assert float(manifold.residual(release.value)) < 1e-8
    assert release.certificate.provenance.entropy["cryptographic"] is True
    assert release.certificate.provenance.numerics["path"] == "exact_then_round"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_values_are_mapped_and_never_raise(bad):
    mechanism = GaussianMechanism(Sphere(2), 0.1, 0.2)
    assert np.isfinite(mechanism.release(np.full(3, bad)).value).all()
    assert np.isfinite(mechanism.release(np.zeros(3)).value).all()
    with pytest.raises(ParameterError, match="shape"):
        mechanism.release(np.zeros(4))


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "a", None, True])
def test_bad_parameters_raise(kind, bad):
    with pytest.raises(ParameterError):
        kind(Sphere(2), bad, 0.5)
    with pytest.raises(ParameterError):
        kind(Sphere(2), 0.1, bad)
    with pytest.raises(ParameterError):
        kind.calibrated(Sphere(2), 0.1, bad)
    with pytest.raises(ParameterError):
        kind.calibrated(bad, 0.1, GDP(1.0))


@pytest.mark.parametrize("kind", [GaussianMechanism, LaplaceMechanism])
def test_the_way_out_of_a_pure_target_is_a_pure_mechanism(kind):
    """A Gaussian in the chart has no pure ε: below the floor another mechanism is named, and it can."""
    with pytest.raises(
        UnattainableGuarantee, match="use the mechanism tangent-laplace"
    ):
        kind.calibrated(Lorentz(3), 0.3, PureDP(0.01))
    other = LogLaplaceMechanism.calibrated(Lorentz(3), 0.3, PureDP(0.01))
    assert strongest_guarantee(other.privacy_profile).eps <= 0.01


def test_a_manifold_without_an_exact_sampler_is_refused_at_once():
    with pytest.raises(ParameterError, match="tangent-gaussian"):
        GaussianMechanism(Stiefel(4, 2), 0.1, 0.2)


def test_a_sensitivity_beyond_the_diameter_is_refused():
    with pytest.raises(ParameterError, match="diameter"):
        GaussianMechanism.calibrated(Sphere(2), 3.2, GDP(1.0))


@pytest.mark.parametrize(
    "mechanism",
    [
        # Certifying a curved profile takes seconds a point, so one of each sign; the flat ones are closed forms.
        GaussianMechanism(Sphere(2), 0.1, 0.4),
        LaplaceMechanism(Lorentz(2), 0.05, 0.2),
        GaussianMechanism.calibrated(Euclidean(3), 0.05, ApproxDP(1.0, 1e-6)),
        LogLaplaceMechanism.calibrated(Rotations(3), 0.05, PureDP(1.0), radius=0.4),
    ],
    ids=lambda m: f"{m.info.name}-{m.manifold}",
)
def test_certificates_verify(mechanism):
    certificate = mechanism.release(mechanism.manifold.origin).certificate
    again = Certificate.from_json(certificate.to_json())
    assert again == certificate
    checks = verify_certificate(again)
    unconfirmed = [check for check in checks if check.holds is not True]
    # Nobody can confirm a number that the caller has stated.
    assert [check.holds for check in unconfirmed] == [None]
    assert "sensitivity" in unconfirmed[0].claim


def test_forged_certificates_do_not_verify():
    statistic = FrechetMean(SPDAffineInvariant(3), None, 1.0, 20)
    mechanism = LogGaussianMechanism.calibrate(statistic, GDP(1.0))
    certificate = mechanism.release(mechanism.manifold.origin).certificate
    assert all(check.holds for check in verify_certificate(certificate))

    def forged(**change):
        return seal(
            Certificate.from_json(json.dumps({**certificate.to_dict(), **change}))
        )

    claims = certificate.to_dict()["claims"]
    lies = [
        forged(claims={**claims, "gdp": claims["gdp"] * 0.99}),
        forged(claims={**claims, "zcdp": claims["zcdp"] * 0.99}),
        forged(claims={**claims, "rao": claims["rao"] * 0.99}),
        forged(claims={**claims, "pure": 5.0}),
        forged(
            claims={
                **claims,
                "curve": [[eps, delta * 0.99] for eps, delta in claims["curve"]],
            }
        ),
        forged(parameters={"scale": mechanism.scale * 0.99}),
        forged(numerics={**certificate.provenance.numerics, "slack": 1e-9}),
        forged(entropy={"source": "seeded", "cryptographic": False}),
        forged(entropy={"source": "seeded", "cryptographic": True}),
        forged(guarantee={"type": "GDP", "mu": 1e-3, "adjacency": "replace-one"}),
        forged(statistic={**certificate.statistic, "n": 19}),
        forged(statistic={**certificate.statistic, "radius": 1.1}),
    ]
    for lie in lies:
        assert not all(check.holds for check in verify_certificate(lie)), lie
    nonsense = (
        {"mechanism": "magic"},
        {"manifold": "sphere:0"},
        {"parameters": {"scale": -1.0}},
        {"parameters": {"scale": mechanism.scale, "chart_sensitivity": 1e-9}},
        {"statistic": {"name": "something else"}},
        {"statistic": {}},
        {"statistic": {**certificate.statistic, "bound": "tight"}},
    )
    for change in nonsense:
        with pytest.raises(VerificationFailed):
            verify_certificate(forged(**change))


def test_a_simulated_source_is_recorded():
    mechanism = GaussianMechanism(Sphere(2), 0.1, 0.2)
    release = mechanism.release(
        Sphere(2).origin, source=GeneratorSource(np.random.default_rng(0))
    )
    assert release.certificate.provenance.entropy["cryptographic"] is False


def test_certificates_hold_no_data():
    mechanism = GaussianMechanism(Sphere(2), 0.1, 0.2)
    secret = Sphere(2).project(np.array([0.123456789, 0.3, 0.7]))
    text = mechanism.release(secret).certificate.to_json()
    assert not any(f"{x:.6f}"[:8] in text for x in secret)


def test_release_and_simulation_follow_the_same_law():
    # Two implementations, one law: distances of exact releases against float draws (two-sample KS).
    from scipy.stats import ks_2samp

    mechanism, source = (
        GaussianMechanism(Sphere(2), 0.1, 0.6),
        GeneratorSource(np.random.default_rng(5)),
    )
    center = Sphere(2).project(np.array([1.0, 2.0, -0.5]))
    exact = np.array(
        [mechanism.release(center, source=source).value for _ in range(1500)]
    )
    loose = mechanism.simulate(np.random.default_rng(6), center, 20000)
    wrong = GaussianMechanism(Sphere(2), 0.1, 0.75).simulate(
        np.random.default_rng(6), center, 20000
    )
    distance = Sphere(2).dist(center, exact)
    assert ks_2samp(distance, Sphere(2).dist(center, loose)).pvalue > 1e-4
    assert ks_2samp(distance, Sphere(2).dist(center, wrong)).pvalue < 1e-6


def test_every_release_takes_fresh_bytes_into_a_source_that_is_kept():
    """Two clones of a machine wake with the same source; what they release next must not share its noise."""

    class Counted(SecureSource):
        refreshed = 0

        def refresh(self) -> None:
            self.refreshed += 1
            super().refresh()

    source, mechanism = Counted(), GaussianMechanism(Sphere(2), 0.01, 0.1)
    for count in (1, 2, 3):
        mechanism.release(Sphere(2).origin, source=source)
        assert source.refreshed == count


@pytest.mark.parametrize(
    "kind",
    [GaussianMechanism, LaplaceMechanism, LogGaussianMechanism, LogLaplaceMechanism],
)
def test_scale_and_sigma_are_one_number(kind):
    mechanism = kind.calibrated(
        Euclidean(2), 0.1, PureDP(1.0) if kind.noise_kind == "laplace" else GDP(1.0)
    )
    assert mechanism.scale == mechanism.sigma > 0


@pytest.mark.parametrize("kind", [LogGaussianMechanism, LogLaplaceMechanism])
def test_a_chart_under_positive_curvature_needs_a_ball_even_where_injectivity_has_no_end(
    kind,
):
    class Bulged(Euclidean):
        curvature_bounds = (0.0, 0.25)
        injectivity_radius = math.inf

    for space in (Bulged(2), Sphere(2)):
        with pytest.raises(
            ParameterError, match="radius is missing: noise in the chart"
        ):
            kind.calibrated(space, 0.1, ApproxDP(1.0, 1e-6))
        assert kind.calibrated(space, 0.1, ApproxDP(1.0, 1e-6), radius=1.0).scale > 0


@pytest.mark.parametrize("M", SPACES, ids=repr)
def test_a_center_near_the_largest_double_is_a_point_or_refused(M):
    """Without a warning, which is an error here; a center that is not finite would be every record's place."""
    for entry in (1.7e308, -1e308, 1e160, 5e-324):
        for place in range(M.origin.size):
            center = np.array(M.origin)
            center.flat[place] = entry
            try:
                found = public_ball(M, center, 0.1).center
            except ParameterError:
                continue
            assert np.isfinite(found).all()


def test_a_release_from_sources_that_are_not_installed_is_not_lost(monkeypatch):
    """What is paid for is not refused over the name of a package; it verifies like any other."""

    def nowhere(package):
        raise PackageNotFoundError(package)

    certificate.installed_software.cache_clear()  # the versions are read once in a process
    monkeypatch.setattr(certificate, "version", nowhere)
    mechanism = LogGaussianMechanism.calibrate(
        FrechetMean(Euclidean(2), None, 1.0, 20), GDP(1.0)
    )
    made = mechanism.release(np.zeros(2)).certificate
    certificate.installed_software.cache_clear()
    assert (
        made.provenance.software["curvedp"]
        == made.provenance.software["numpy"]
        == "not installed"
    )
    assert all(check.holds for check in verify_certificate(made))


def test_fields_are_checked_where_types_are_text_too():
    """As under `from __future__ import annotations`: a check that is not found must not be left out."""

    @dataclasses.dataclass(frozen=True)
    class Made:
        scale: "Length"

    Made.__module__ = "curvedp.core.fields"  # where the name means something
    check_fields(Made(2.0))
    for bad in (math.nan, -1.0, 0.0, math.inf, "x"):
        with pytest.raises(ParameterError, match="scale"):
            check_fields(Made(bad))
