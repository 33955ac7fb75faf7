"""Notice that scikit-learn was given `groups` which never arrive at `fit`.
`cross_validate(model, X, y, groups=person)` gives the ids to the splitter alone. The
model is then fitted without them, and what it releases protects records, not people.
Only the frames of scikit-learn's own functions show this, so they are looked at here.
"""

import inspect
from typing import Any

# Functions of scikit-learn's `model_selection` that call `fit`, and that know `groups`
# by a local variable of this name or by an entry of one of these dictionaries.
_MODULE = "sklearn.model_selection"
_DICTIONARIES = ("params", "fit_params")

LOST_GROUPS_TEXT = (
    "scikit-learn has `groups`, but gave them to the splitter alone: this release "
    "protects one record, not one person. Turn on metadata routing "
    "(sklearn.set_config(enable_metadata_routing=True)) and call "
    "set_fit_request(groups=True), or pay from a Ledger with unit='person', which "
    "refuses such a release"
)


def splitter_has_groups() -> bool:
    """Return whether a caller in scikit-learn's `model_selection` has ids of people.

    This sees callers in the same process: folds that are fitted in other processes
    (`n_jobs`) are not noticed.
    """
    frame = inspect.currentframe()
    while frame is not None:  # from this function up to the outermost caller
        module_name = str(frame.f_globals.get("__name__", ""))
        if module_name.startswith(_MODULE) and _has_groups(frame.f_locals):
            return True
        frame = frame.f_back
    return False


def _has_groups(local_variables: dict[str, Any]) -> bool:
    """Return whether ids of people are among the local variables of a function.

    Parameters
    ----------
    local_variables : dict
        The local variables of a function of scikit-learn, by name.
    """
    if local_variables.get("groups") is not None:
        return True
    dictionaries = [local_variables.get(name) for name in _DICTIONARIES]
    return any(
        isinstance(dictionary, dict) and dictionary.get("groups") is not None
        for dictionary in dictionaries
    )
