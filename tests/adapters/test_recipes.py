"""Every recipe of docs/howto/integrations.md against the real package; `make matrix LANES=adapters-3.12` has them all."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "integrations.md"
RECIPES = re.findall(
    r"^```py\n# needs: ([^\n]*)\n(.*?)^```",
    PAGE.read_text(encoding="utf-8"),
    flags=re.S | re.M,
)


def test_there_are_recipes_for_all():
    named = {name for needs, _ in RECIPES for name in needs.split(", ")}
    assert named == {
        "sklearn",
        "pyriemann",
        "mne",
        "moabb",
        "dipy",
        "nibabel",
        "nilearn",
        "geoopt",
        "torch",
        "dp_accounting",
        "opendp",
    }


@pytest.mark.filterwarnings("default")  # other libraries' own deprecations
@pytest.mark.parametrize(
    ("needs", "recipe"), RECIPES, ids=[needs for needs, _ in RECIPES]
)
def test_the_recipe_runs(needs, recipe, tmp_path, monkeypatch):
    for name in needs.split(", "):
        pytest.importorskip(
            name, reason=f"{name} is not installed; the lane `adapters` has it"
        )
    monkeypatch.chdir(tmp_path)
    exec(compile(recipe, str(PAGE), "exec"), {"__name__": "__main__"})
