"""A statistic that is added to the table appears everywhere: one declaration, and no other file changes."""

import numpy as np
import pytest
from typer.testing import CliRunner

from curvedp import GDP, PrivateFrechetMean
from curvedp.cli.release import build_release_app
from curvedp.errors import ParameterError
from curvedp.releasing import OFFERS, RADIUS, Offer, Option
from curvedp.studio.desk import Desk
from curvedp.studio.rehearsal import predict_release
from curvedp.studio.study import Study


class ToyMean(PrivateFrechetMean):
    """A mean with one more public parameter."""

    def __init__(self, manifold, radius, trim=0.0, **others):
        super().__init__(manifold, radius, **others)
        self.trim = trim


TOY = Offer(
    estimator=f"{__name__}:ToyMean",
    title="trimmed mean",
    description="A toy.",
    options=(
        RADIUS,
        Option(
            name="trim",
            flags=("--trim",),
            kind=float,
            help="how much is cut off",
            label="trimmed share",
            note="a public number",
        ),
    ),
)


@pytest.fixture(autouse=True)
def toy_in_table(monkeypatch):
    monkeypatch.setitem(OFFERS, "toy", TOY)


def test_its_option_is_on_the_command_line(tmp_path):
    app = build_release_app()
    wide = {"COLUMNS": "200", "TERM": "dumb"}
    help_text = CliRunner().invoke(app, ["toy", "--help"], env=wide).output
    assert "--trim" in help_text
    assert "how much is cut off" in help_text
    assert "--trim" not in CliRunner().invoke(app, ["mean", "--help"], env=wide).output

    np.save(tmp_path / "x.npy", np.eye(3)[np.arange(40) % 3])
    arguments = ["toy", str(tmp_path / "x.npy"), "-m", "sphere:2", "-r", "0.7"]
    result = CliRunner().invoke(app, [*arguments, "--mu", "1", "--trim", "0.25"])
    assert result.exit_code == 0, result.output
    result = CliRunner().invoke(app, [*arguments, "--mu", "1", "--trim", "much"])
    assert result.exit_code == 2


def test_its_option_is_on_the_page_and_in_the_script(tmp_path):
    desk = Desk(tmp_path)
    fields = desk.state()["offers"]["toy"]["options"]
    desk.close()
    assert [field["name"] for field in fields] == ["radius", "trim"]
    assert fields[1]["label"] == "trimmed share: a public number"
    assert fields[1]["keyboard"] == "decimal"

    chosen = {"manifold": "sphere:2", "statistic": "toy", "radius": 0.7, "trim": 0.25}
    script = Study.from_page(chosen).script("x.npy", "study.ledger", "toy")
    assert f"from {__name__} import ToyMean" in script
    assert "radius=0.7, trim=0.25, guarantee=GDP(1.0)" in script
    with pytest.raises(ParameterError, match="trim is not of the kind"):
        Study.from_page({**chosen, "trim": "much"})


def test_a_statistic_without_a_prediction_is_not_predicted_as_a_mean():
    options = Study.from_page(
        {"manifold": "sphere:2", "statistic": "toy", "radius": 0.7}
    ).options()
    with pytest.raises(ParameterError, match="no prediction of the error of the trim"):
        predict_release(TOY, options, GDP(1.0), [300])
