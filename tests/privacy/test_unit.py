"""The privacy unit: four names, and nothing else passes for one."""

import json
import pickle

import pytest

from curvedp.errors import ParameterError
from curvedp.privacy import PrivacyUnit
from curvedp.privacy.unit import check_unit


def test_a_unit_is_its_name():
    assert [str(unit) for unit in PrivacyUnit] == [
        "record",
        "person",
        "record_in_class",
        "person_in_class",
    ]
    assert json.dumps({"unit": PrivacyUnit.PERSON}) == '{"unit": "person"}'
    assert pickle.loads(pickle.dumps(PrivacyUnit.RECORD)) is PrivacyUnit.RECORD


def test_units_are_read():
    assert check_unit("unit", None) is None
    for unit in PrivacyUnit:
        assert check_unit("unit", unit) is unit
        assert check_unit("unit", unit.value) is unit


@pytest.mark.parametrize(
    "value", ["", "Record", "persons", "one person", 1, True, [], b"record"]
)
def test_anything_else_is_refused(value):
    with pytest.raises(ParameterError, match="unit="):
        check_unit("unit", value)
