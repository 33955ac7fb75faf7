"""The questions that only a *curator*, who publishes private releases, can answer: what
they are for, who sees the records, what else is published. The answers are in a file
`study.toml`, which is written as a form and read back here.
"""

import json
import tomllib
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from curvedp.errors import ParameterError

__all__ = ["QUESTIONS", "Question", "read_study", "template"]


class Question(NamedTuple):
    """A question to the curator.

    Attributes
    ----------
    description : str
        What is asked.
    example : str or list of str
        An example answer; a list if the answer may be a list of texts.
    """

    description: str
    example: str | list[str]


# The questions of `study.toml`, by the name of the answer.
QUESTIONS: dict[str, Question] = {
    "slug": Question("a short name for a web address", "my-study-2026"),
    "name": Question("name of what is published", ""),
    "curators": Question("who publishes it", [""]),
    "description": Question("what it is, in a sentence or two", ""),
    "intended_use": Question("what it is for", ""),
    "region": Question("where the data are from, and whose law applies", ""),
    "publication_date": Question("YYYY-MM-DD", ""),
    "sector": Question(
        "Technology, Healthcare, Education, Government, Energy or Finance",
        "Healthcare",
    ),
    "data": Question(
        "which records could have been in the data set, and how they were collected",
        "",
    ),
    "preprocessing": Question(
        "what was done to the data before, and on which data each such step was fitted "
        "(a filter or a template that is fitted on all trials puts every person into "
        "every record, and voids the guarantee); how radius, center and guarantee were "
        "chosen",
        "",
    ),
    "unprotected": Question(
        "what else of these data is or will be published without privacy", ""
    ),
    "actors": Question("who sees the records, and why they are trusted", ""),
    "security": Question("how the records are stored, and who has access", ""),
    "releases": Question("'One release' or 'Many releases'", "One release"),
    "plans": Question(
        "further releases from the same data, and the budget for all of them", ""
    ),
    "source": Question("'Static' or 'Dynamic' data", "Static"),
    "bias": Question(
        "whom the data leave out, and what the noise does to small groups", ""
    ),
    "justification": Question("why this guarantee is good enough", ""),
    "links": Question("where to read more", ""),
    "authors": Question("who filled in this form", [""]),
}
# The answers that the registry's schema allows, where it does not allow any text.
_ALLOWED_ANSWERS = {
    "sector": (
        "Technology",
        "Healthcare",
        "Education",
        "Government",
        "Energy",
        "Finance",
    ),
    "releases": ("One release", "Many releases"),
    "source": ("Static", "Dynamic"),
}
# The most bytes of a `study.toml` that are read.
_MAX_STUDY_BYTES = 1 << 20


def template() -> str:
    """Return the text of a `study.toml` with all questions, for the curator to answer.

    It has an example answer for each question, or an empty one.
    """
    heading = (
        "# Questions that no certificate can answer. The pages show your answers as "
        "stated by you."
    )
    entries = [
        f"# {question.description}\n{name} = {json.dumps(question.example)}"
        for name, question in QUESTIONS.items()
    ]
    return "\n\n".join([heading, *entries]) + "\n"


def read_study(path: str | Path) -> dict[str, Any]:
    """Read the curator's answers from a `study.toml`, by the name of the question.

    Parameters
    ----------
    path : str or Path
        The file, which `template` made and the curator has filled in.

    Returns
    -------
    dict
        The answers: texts, or lists of texts.

    Raises
    ------
    ParameterError
        If the file is not TOML, or if a question is missing, unanswered, unknown, or
        answered by something other than text.
    """
    try:
        with Path(path).open("rb") as file:
            answers = tomllib.loads(file.read(_MAX_STUDY_BYTES).decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        raise ParameterError(f"{path} is not a TOML file") from None

    missing_or_unknown = sorted(set(answers) ^ set(QUESTIONS))
    if missing_or_unknown:
        raise ParameterError(
            f"{path} must answer exactly the questions of the template; "
            f"see {', '.join(missing_or_unknown)[:200]}"
        )
    for name in QUESTIONS:
        _check_answer(name, answers[name])
    try:
        date.fromisoformat(answers["publication_date"])
    except ValueError:
        raise ParameterError("publication_date must be a date, YYYY-MM-DD") from None
    return answers


def _check_answer(name: str, answer: Any) -> None:
    """Refuse an answer of the curator that is empty, not text, or not allowed.

    Parameters
    ----------
    name : str
        The name of the question.
    answer : object
        The answer in the file: a text, or a list of texts if the question's example is
        a list.

    Raises
    ------
    ParameterError
        If the answer is not usable. The message names the question.
    """
    question = QUESTIONS[name]
    texts = [answer]
    if isinstance(question.example, list) and isinstance(answer, list):
        texts = answer
    is_answered = bool(texts) and all(
        isinstance(text, str) and text.strip() for text in texts
    )
    if not is_answered:
        raise ParameterError(f"{name} is not answered: {question.description}")
    allowed = _ALLOWED_ANSWERS.get(name)
    if allowed is not None and answer not in allowed:
        raise ParameterError(f"{name} must be one of {', '.join(allowed)}")
