"""A `ParameterError` keeps parameter, value and rule apart; each front end renders them."""

import ast
import copy
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import typer.main

import curvedp
from curvedp import _validate
from curvedp.cli import app
from curvedp.errors import NO_VALUE, ParameterError

SHELL = {"delta0": "--delta", "sep": "--sep", "header": "--header or --no-header"}


@pytest.mark.parametrize(
    ("error", "python", "shell"),
    [
        (
            ParameterError("must lie in (0, 1)", parameter="delta0", value=2.0),
            "delta0=2.0 must lie in (0, 1)",
            "--delta 2.0 must lie in (0, 1)",
        ),
        (
            ParameterError("must be one character", parameter="sep", value=";;"),
            "sep=';;' must be one character",
            "--sep ';;' must be one character",
        ),
        (
            ParameterError("is missing: say which", parameter="header"),
            "header is missing: say which",
            "--header or --no-header is missing: say which",
        ),
        (
            ParameterError(": infinite mass", parameter="scale", value=3),
            "scale=3: infinite mass",
            "scale=3: infinite mass",
        ),
        (ParameterError("no parameter=x"), "no parameter=x", "no parameter=x"),
    ],
)
def test_each_front_end_names_the_parameter(error, python, shell):
    assert str(error) == python
    assert error.render(SHELL) == shell
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(again) == python
        assert again.parameter == error.parameter
        assert (again.value is NO_VALUE) == (error.value is NO_VALUE)


def test_what_may_be_records_is_not_quoted():
    for value in (np.arange(3.0), [1.0, 2.0, 3.0, 4.0, 5.0]):
        error = ParameterError("must be a number", parameter="radius", value=value)
        assert re.fullmatch(r"radius=<\w+> must be a number", str(error))
        assert re.fullmatch(
            r"-r <\w+> must be a number", error.render({"radius": "-r"})
        )
    assert len(str(ParameterError("is long", parameter="form", value="x" * 10**6))) < 99


CHECKS = {
    "positive": (-1.0,),
    "nonnegative": (-1.0,),
    "within": (3.0, 0.0, 1.0),
    "integer": (0.5, 1),
    "length": (1e300,),
    "choice": ("z", ("a", "b")),
}


@pytest.mark.parametrize("check", CHECKS)
def test_every_check_keeps_parameter_value_and_rule(check):
    value, *rest = CHECKS[check]
    with pytest.raises(ParameterError) as caught:
        getattr(_validate, check)("radius", value, *rest)
    assert caught.value.parameter == "radius"
    assert caught.value.value == value
    assert caught.value.rule.startswith("must ")
    assert "radius" not in caught.value.rule


def option_names():
    """Python's names of every option of every command."""

    def walk(command):
        if isinstance(command, typer.core.TyperGroup):
            for name in command.commands:
                yield from walk(command.commands[name])
        else:
            yield from (parameter.name for parameter in command.params)

    return sorted({*walk(typer.main.get_command(app))} - {"json", "path"})


# Messages that speak of Python's own calls, to those who call them.
FOR_PYTHON = {
    "one_run.py",
    "rule.py",
    "definitions.py",
    "pictures.py",
    "study.py",
    "rsvrg.py",  # of the papers
}


def test_no_message_spells_a_parameter_as_python_does():
    """`radius=2` in a message's text is for nobody who typed `--radius` or moved a slider."""
    spelled = re.compile(rf"(?<![\w.(-])({'|'.join(option_names())})=(?!=)")
    found = []
    for path in Path(curvedp.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text())
        raised = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id.endswith(("Error", "Guarantee", "Failed"))
        ]
        for call in raised:
            for text in ast.walk(ast.Module(call.args, [])):
                is_text = isinstance(text, ast.Constant) and isinstance(text.value, str)
                if (
                    is_text
                    and spelled.search(text.value)
                    and path.name not in FOR_PYTHON
                ):
                    found.append(f"{path.name}:{text.lineno}: {text.value}")
    assert found == []


def test_the_page_has_every_word_that_its_refusals_use():
    studio = pytest.importorskip("curvedp.studio", reason="the studio is an extra")
    from curvedp.studio.desk import page_offer
    from curvedp.studio.offers import page_offers
    from curvedp.studio.wording import error_text, page_names

    page = Path(studio.__file__).with_name("page.html").read_text(encoding="utf-8")
    options_sent_to_the_page = json.dumps(
        [page_offer(offer) for offer in page_offers().values()], ensure_ascii=False
    )
    for name, quoted_words in page_names().items():
        words = quoted_words.strip("“”")
        pattern = rf'>[^<]*{re.escape(words)}|"[^"]*{re.escape(words)}'
        assert re.search(pattern, page + options_sent_to_the_page), name
    error = ParameterError("must be one\ncharacter", parameter="sep", value=";;")
    assert error_text(error) == "“separator” ';;' must be one character"
