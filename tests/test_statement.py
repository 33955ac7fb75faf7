"""`curvedp statement`: what the public is told, and whose word it is."""

import json
import re
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import (
    GDP,
    ZCDP,
    ApproxDP,
    Ledger,
    PrivateDispersion,
    PrivateFrechetMean,
    PrivateMDM,
    PureDP,
)
from curvedp.cli import app
from curvedp.errors import ParameterError
from curvedp.geometry import Euclidean, Sphere
from curvedp.mechanisms import GaussianMechanism
from curvedp.statement.pages import label, worksheet
from curvedp.statement.promise import promise_of, quoted_point
from curvedp.statement.registry_entry import registry, yaml
from curvedp.statement.study import QUESTIONS, read_study, template
from curvedp.statement.words import ledger_sentence

runner = CliRunner()
EVIL = "<script>alert(1)</script> & \"x\": 'y' # [bold]"
SAID = {
    **{name: f"{name} {EVIL}" for name in QUESTIONS},
    "slug": "a-study", "curators": ["A & B <i>", "C"], "authors": ["D"], "publication_date": "2026-11-16",
    "sector": "Healthcare", "releases": "One release", "source": "Static",
}  # fmt: skip
# The registry's schema of 2026: sections, their fields, and the fields that take one of a few words.
SECTIONS = {
    "basic": "name data_curators intended_use data_product_type data_product_region description publication_date "
    "data_product_sector",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details privacy_parameters privacy_parameters_details",
    "deployment_model": "model_name model_name_details actors release_type release_type_details data_source_type "
    "data_source_type_details access_type access_type_details",
    "accounting": "post_processing composition",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms justification",
    "administrative": "sources notes registry_authors",
}
WORDS = {
    "variant_name": {
        "Pure DP",
        "Approximate DP",
        "Zero-concentrated DP",
        "Renyi DP",
        "Custom",
    },
    "model_name": {"Local", "Central", "Shuffle", "Federated"},
    "data_product_type": {"Summary statistics"},
    "release_type": {"One release", "Many releases"},
    "data_source_type": {"Static", "Dynamic"},
    "access_type": {"Interactive", "Non-interactive"},
}


def certificate(guarantee):
    X = np.random.default_rng(0).normal(size=(40, 2)) * 0.2
    return (
        PrivateFrechetMean(
            Euclidean(2), radius=1.0, mechanism="tangent-gaussian", guarantee=guarantee
        )
        .fit(X)
        .certificate_
    )


@pytest.mark.parametrize(
    "guarantee", [GDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.1)], ids=str
)
def test_the_entry_has_the_registry_s_form(guarantee):
    entry = registry(certificate(guarantee), SAID)
    assert set(entry) == {"url_slug", "status", "tier", "deployment"}
    assert (entry["status"], entry["tier"]) == ("Draft", 3)
    assert set(entry["deployment"]) == set(SECTIONS)
    for section, fields in entry["deployment"].items():
        assert set(fields) <= set(SECTIONS[section].split()), section
        for name, value in fields.items():
            assert value in WORDS.get(name, [value]), name
            assert isinstance(value, list) == (
                name in ("data_curators", "registry_authors")
            )
            assert isinstance(value, dict) == (name == "privacy_parameters")
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert set(parameters) <= {"epsilon", "delta", "rho"}
    assert all(isinstance(value, float) for value in parameters.values())


@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove"])
def test_the_number_of_records_is_called_public_where_it_is(adjacency):
    X, guarantee = np.zeros((40, 3)), GDP(1.0, adjacency=adjacency)
    for kind in (PrivateFrechetMean, PrivateDispersion):
        made = kind(Euclidean(3), radius=1.0, guarantee=guarantee).fit(X).certificate_
        entry = registry(made, SAID)
        told = json.dumps(entry) + label(made, SAID) + worksheet(made, SAID)
        assert (
            "euclidean:3" in told
        )  # where the records are, not where sums or variances are
        assert ("n = 40 is public" in told, "The number of records and" in told) == (
            adjacency == "replace-one",
        ) * 2
        assert ("number of records is private" in told) == (adjacency == "add-remove")
        assert ("number of records is public" in told) == (adjacency == "replace-one")


def test_parameters_are_never_smaller_than_what_was_proved():
    """The slack is added; pure ε up to a slack is not called pure; the quoted point is on the curve."""
    for guarantee, name in (
        (ApproxDP(1.0, 1e-6), "Approximate DP"),
        (ZCDP(0.1), "Zero-concentrated DP"),
        (GDP(1.0), "Custom"),
    ):
        held = certificate(guarantee)
        told = registry(held, SAID)["deployment"]
        assert told["dp_variant"]["variant_name"] == name
        parameters = told["privacy_loss"]["privacy_parameters"]
        if name == "Custom":
            eps, delta = parameters["epsilon"], parameters["delta"]
            assert delta == 1e-6
            assert GDP(1.0).delta(eps) <= delta < GDP(1.0).delta(0.99 * eps)
        if name == "Approximate DP":
            assert parameters["delta"] >= 1e-6 + (1 + np.e) * held.claims.slack * (
                1 - 1e-12
            )
    X = np.zeros((40, 2))
    pure = (
        PrivateFrechetMean(
            Euclidean(2), radius=1.0, mechanism="tangent-laplace", guarantee=PureDP(1.0)
        )
        .fit(X)
        .certificate_
    )
    told = registry(pure, SAID)["deployment"]
    assert pure.claims.slack > 0
    assert told["dp_variant"]["variant_name"] == "Approximate DP"
    assert told["privacy_loss"]["privacy_parameters"]["delta"] > 0


def test_the_yaml_reads_back():
    reader = pytest.importorskip("yaml")
    entry = registry(certificate(GDP(1.0)), SAID)
    assert reader.safe_load(yaml(entry)) == json.loads(json.dumps(entry))


def test_pages_say_whose_word_it_is_and_run_nothing():
    held = certificate(GDP(1.0))
    for page in (label(held, SAID, ("sampler: <b>",)), worksheet(held, SAID)):
        assert "<script" not in page
        assert "<b>" not in page
        assert "http" not in page.replace("http-equiv", "")
        rows = re.findall(
            r'<th>[^<]+<small class="(recomputed|recorded|curator)">([^<]+)</small></th><td>(.*?)</td>',
            page,
        )
        assert len(rows) == page.count("<tr>")
        for voice, _, words in rows:
            assert ("alert(1)" in words) == (voice == "curator"), words
        assert held.provenance.sha256 in page


def test_the_worksheet_has_every_component_of_the_pyramid_in_its_order():
    """Figure 1 of NIST SP 800-226 (public draft, December 2023), from top to base."""
    line = Euclidean(1)
    page = worksheet(
        GaussianMechanism(line, 1.0, 1.0).release(line.origin).certificate, SAID
    )
    parts = ("ε and", "Unit of privacy", "Algorithms", "correctness", "Utility", "bias", "Query model", "Threat model",
             "Side channels", "Security and", "access control", "Data collection exposure")  # fmt: skip
    places = [page.index(part) for part in parts]
    assert places == sorted(places)
    assert "within 1.96 of" in page  # 95% of N(0, 1)


def test_the_attacker_s_chance_is_the_total_variation():
    """One Gaussian draw, Δ/σ = 1 on the line: the best guess is right with probability Φ(1/2) = 0.69146, rounded up."""
    line = Euclidean(1)
    page = label(
        GaussianMechanism(line, 1.0, 1.0).release(line.origin).certificate, SAID
    )
    assert "69.2%" in page


def test_the_form_asks_everything_and_takes_no_empty_answer(tmp_path):
    form = tomllib.loads(template())
    assert set(form) == set(QUESTIONS)
    path = tmp_path / "study.toml"

    def write(said):
        path.write_text(
            "\n".join(f"{k} = {json.dumps(v)}" for k, v in said.items()),
            encoding="utf-8",
        )

    write(SAID)
    assert read_study(path) == SAID
    wrong = [
        {"curators": []},
        {"curators": [1]},
        {"sector": "Magic"},
        {"publication_date": "1/1/2026"},
        {"extra": "x"},
    ]
    wrong += (
        [{name: ""} for name in QUESTIONS]
        + [{name: 3} for name in QUESTIONS]
        + [{name: None} for name in QUESTIONS]
    )
    for change in wrong:
        write({k: v for k, v in {**SAID, **change}.items() if v is not None})
        with pytest.raises(ParameterError) as caught:
            read_study(path)
        assert "\n" not in str(caught.value)
    for content in (b"\xff", b"= = =", b"[" * 100):
        path.write_bytes(content)
        with pytest.raises(ParameterError):
            read_study(path)


def test_the_command_line_verifies_first(tmp_path):
    path, study, out = tmp_path / "c.json", tmp_path / "study.toml", tmp_path / "out"
    held = certificate(GDP(1.0))
    held.save(path)

    def run():
        return runner.invoke(
            app, ["statement", str(path), "--study", str(study), "--out", str(out)]
        )

    first = run()
    assert first.exit_code == 0, "the form was created, which is a success"
    assert "Created" in first.output
    assert "error" not in first.output + first.stderr
    assert study.exists()
    assert run().exit_code == 2, "an empty form is no answer"
    study.write_text(
        "\n".join(f"{k} = {json.dumps(v)}" for k, v in SAID.items()), encoding="utf-8"
    )
    assert run().exit_code == 0, run().output
    assert sorted(each.name for each in out.iterdir()) == [
        "label.html",
        "registry.yaml",
        "worksheet.html",
    ]
    alone = runner.invoke(
        app, ["statement", str(path), "--study", str(study), "--registry"]
    )
    assert alone.exit_code == 0
    assert alone.stdout == (out / "registry.yaml").read_text(encoding="utf-8")
    nothing = runner.invoke(app, ["statement", str(path), "--study", str(study)])
    assert nothing.exit_code == 2
    assert "--out is missing" in nothing.output + nothing.stderr
    before = {each: each.read_bytes() for each in out.iterdir()}
    path.write_text(path.read_text().replace('"gdp": ', '"gdp": 0', 1))
    assert run().exit_code in (1, 2)
    assert {each: each.read_bytes() for each in out.iterdir()} == before


def test_epsilon_is_quoted_at_the_delta_that_officers_ask_for():
    """Against an independent inversion of the Gaussian profile; never below it."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    mean = PrivateFrechetMean(Sphere(2), radius=0.5, guarantee=GDP(1.0))
    certificate = mean.fit(np.tile([0.0, 0.0, 1.0], (200, 1))).certificate_
    eps, delta = quoted_point(certificate)

    def profile(eps):
        return norm.cdf(0.5 - eps) - np.exp(eps) * norm.cdf(-0.5 - eps)

    exact = brentq(lambda eps: profile(eps) - 1e-6, 1, 10)
    assert delta == 1e-6
    assert exact <= eps <= exact + 0.02


# ---- a whole study: several certificates, one statement


RNG_RECORDS = np.asarray(
    Sphere(2).from_normal_coordinates(
        Sphere(2).origin, 0.2 * np.random.default_rng(1).normal(size=(80, 2))
    )
)


@pytest.fixture
def study_of_three(tmp_path):
    """A mean and the means of two classes, paid from one ledger: μ² = 0.36 + 0.64."""
    ledger = Ledger(tmp_path / "study.ledger", GDP(2.0), unit="record_in_class")
    everyone = {"radius": 0.7, "mechanism": "gradient", "ledger": ledger}
    mean = PrivateFrechetMean(Sphere(2), guarantee=GDP(0.6), **everyone)
    classes = PrivateMDM(Sphere(2), guarantee=GDP(0.8), **everyone)
    mean.fit(RNG_RECORDS)
    classes.fit(RNG_RECORDS, np.arange(80) % 2)
    return ledger, [mean.certificate_, *classes.certificates_]


def test_several_releases_are_stated_together(study_of_three):
    """Two class means were charged together, so that μ is 1, not √(0.36 + 2·0.64)."""
    ledger, certificates = study_of_three
    page = label(certificates, SAID, ledger_note=ledger_sentence(ledger, certificates))
    assert "all 3 releases together, for one record within its public class" in page
    (mu,) = re.findall(r"GDP\((1\.0000?\d*|1\.0)\)", page.split("How well")[1])[:1]
    assert 1.0 <= float(mu) <= 1.0 + 1e-9
    assert "(ε, δ) = (4.8" in page
    assert "Charged to entries 1, 2 of a ledger" in page
    assert "2 entries, which spent GDP(" in page
    assert "Not stated here" not in page
    for certificate in certificates:
        assert certificate.provenance.sha256 in page
        assert certificate.provenance.sha256 in worksheet(certificates, SAID)
    entry = registry(certificates, SAID)
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    one_release = GDP(1.0).epsilon(parameters["delta"])
    assert one_release <= parameters["epsilon"] <= 1.01 * one_release


def test_a_statement_is_never_stronger_than_its_parts(study_of_three):
    _, certificates = study_of_three
    for number in range(1, 4):
        together = promise_of(certificates[:number])
        for each in certificates[:number]:
            assert together.claims.gdp >= each.claims.gdp
            assert together.claims.slack >= each.claims.slack
            for (_, delta), (_, part) in zip(
                together.claims.curve, each.claims.curve, strict=True
            ):
                assert delta >= part * (1 - 1e-9)


def test_without_a_ledger_nothing_is_disjoint():
    """Nobody knows then whether the classes are of one data set."""
    model = PrivateMDM(Sphere(2), radius=0.7, guarantee=GDP(0.8), mechanism="gradient")
    certificates = model.fit(RNG_RECORDS, np.arange(80) % 2).certificates_
    assert promise_of(certificates).claims.gdp >= 0.8 * 2**0.5


def pure_certificate(epsilon):
    """The certificate of a mean by Laplace noise."""
    model = PrivateFrechetMean(Sphere(2), radius=0.7, guarantee=PureDP(epsilon))
    return model.fit(RNG_RECORDS).certificate_


def test_parts_of_other_definitions_are_added_up():
    """Pure ε and Gaussian noise have no common ε; they have a common μ."""
    line = Euclidean(1)
    laplace = pure_certificate(0.5)
    gaussian = GaussianMechanism(line, 1.0, 2.0).release(line.origin).certificate
    together = promise_of([laplace, gaussian])
    assert isinstance(together.guarantee, GDP)
    expected = (laplace.claims.gdp**2 + gaussian.claims.gdp**2) ** 0.5
    assert together.claims.gdp == pytest.approx(expected, rel=1e-9)
    both = promise_of([laplace, pure_certificate(0.5)])
    assert both.claims.gdp >= 2**0.5 * laplace.claims.gdp * (1 - 1e-9)


def test_what_does_not_add_up_is_refused(study_of_three, tmp_path):
    ledger, certificates = study_of_three
    persons = PrivateFrechetMean(Sphere(2), radius=0.7, mechanism="gradient")
    of_people = persons.fit(RNG_RECORDS, groups=np.arange(80) // 2).certificate_
    added = PrivateFrechetMean(
        Sphere(2), radius=0.7, guarantee=GDP(1.0, adjacency="add-remove")
    )
    other_neighbors = added.fit(RNG_RECORDS).certificate_
    for wrong in (
        [],
        [certificates[0], certificates[0]],
        [certificates[0], of_people],
        [certificates[0], other_neighbors],
    ):
        for page in (registry, label, worksheet):
            with pytest.raises(ParameterError):
                page(wrong, SAID)
    other = Ledger(tmp_path / "other.ledger", GDP(1.0))
    with pytest.raises(ParameterError, match="not in this ledger"):
        ledger_sentence(other, certificates)
    assert "Not stated here: Fréchet mean" in ledger_sentence(ledger, certificates[1:])


def test_the_command_line_states_a_study(study_of_three, tmp_path):
    ledger, certificates = study_of_three
    paths = []
    for number, each in enumerate(certificates):
        paths.append(str(tmp_path / f"{number}.json"))
        each.save(paths[-1])
    study = tmp_path / "study.toml"
    answers = "\n".join(f"{k} = {json.dumps(v)}" for k, v in SAID.items())
    study.write_text(answers, encoding="utf-8")
    command = ["statement", *paths, "--study", str(study)]
    command += ["--out", str(tmp_path / "out"), "--ledger", str(ledger.path)]
    result = runner.invoke(app, command)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "label.html").read_text(encoding="utf-8")
    assert "all 3 releases together" in page
    assert "2 entries" in page
