"""No private label decides which class the labels beside it are in."""

import numpy as np
import pandas as pd
import pytest

from curvedp.errors import ParameterError
from curvedp.records.labels import Labels

DATES = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-01-01")]


@pytest.mark.parametrize(
    "classes",
    [
        [2**53, 2**53 + 1],
        [1, 2**53],
        [-(2**60), 0],
        DATES,
        [np.datetime64("2020-01-01"), np.datetime64("2021-01-01")],
        [1 + 0j, 2.0],
    ],
    ids=repr,
)
def test_classes_that_a_type_of_column_could_change_are_refused(classes):
    with pytest.raises(ParameterError, match="classes"):
        Labels([1, 1], 2, classes)


@pytest.mark.parametrize("odd", [None, 0.5, "x", 2**53 + 1, True], ids=repr)
@pytest.mark.parametrize(
    "classes", [[3, 7], [3.0, 7.5], [2**53 - 1, 2], ["a", "b"]], ids=repr
)
def test_one_odd_label_changes_its_own_class_only(classes, odd):
    labels = [classes[0], classes[1]] * 3
    usual = Labels(pd.Series(labels), 6, classes).codes
    changed = Labels(pd.Series([*labels[:-1], odd]), 6, classes).codes
    assert np.array_equal(usual[:-1], changed[:-1])
