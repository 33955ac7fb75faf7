"""Ids of persons: two records are one person's if and only if their ids are equal, whatever the ids are."""

from datetime import date
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from curvedp.errors import ParameterError
from curvedp.records.labels import Labels
from curvedp.records.persons import encode_persons

WHO = np.random.default_rng(0).permutation(np.arange(60) // 3)


def kind(make):
    """One object a record, none of which is another's, in an array of objects."""
    ids = np.empty(len(WHO), dtype=object)
    ids[:] = [make(int(who)) for who in WHO]
    return ids


KINDS = {
    "whole": WHO,
    "float": WHO * 0.1,
    "text": [f"p{who}" for who in WHO],
    "bytes": [b"%d" % who for who in WHO],
    "beyond doubles": [10**30 + int(who) for who in WHO],
    "series in another order": pd.Series(WHO, index=np.arange(60)[::-1]),
    "categories": pd.Series([f"p{who}" for who in WHO]).astype("category"),
    "strings of pandas": pd.array([f"p{who}" for who in WHO], dtype="string"),
    "dates": pd.Series(pd.Timestamp("2020-01-01") + pd.to_timedelta(WHO, unit="D")),
    "objects": kind(str),
    "a list of several kinds": [int(who) if who % 2 else f"p{who}" for who in WHO],
    "a list of numbers that are equal, and texts": [
        f"p{who}" if who % 2 else (float(who) if i % 3 else int(who))
        for i, who in enumerate(WHO)
    ],
    "of several kinds": kind(lambda who: who if who % 2 else f"p{who}"),
    "sets, which are ordered in part": kind(lambda who: frozenset([who])),
    "pairs": kind(lambda who: (who, "a")),
    "fractions": kind(lambda who: Fraction(who, 7)),
    "decimals": kind(Decimal),
    "days": kind(lambda who: date(2020, 1, 1 + who)),
}


@pytest.mark.parametrize("ids", list(KINDS.values()), ids=list(KINDS))
def test_equal_ids_are_one_person_and_others_are_not(ids):
    codes = encode_persons(ids, 60)
    assert np.array_equal(codes[:, None] == codes, WHO[:, None] == WHO)
    assert sorted(set(codes.tolist())) == list(range(20))


@pytest.mark.parametrize(
    "bad",
    [
        lambda who: [who],
        lambda who: {who: 1},
        lambda who: {who},
        lambda who: object(),
        lambda who: np.array([who]),
    ],
)
def test_ids_that_cannot_be_compared_are_refused(bad):
    with pytest.raises(ParameterError):
        encode_persons(kind(bad), 60)


ONE_PERSON = {
    "a number and a text": (7, "7"),
    "a float and a text": (7.0, "7"),
    "a number and a longer text": (7, " 07.0"),
    "a large number and a text": (10**30, str(10**30)),
    "a decimal and a text": (Decimal("7.5"), "7.5"),
    "a truth value and a text": (True, "True"),
    "a day and a text": (date(2020, 1, 1), "2020-01-01"),
    "blanks around a text": ("anna", "anna "),
    "a text and bytes": ("anna", b"anna"),
    "a number and bytes": (7, b"7"),
}


@pytest.mark.parametrize(("first", "second"), ONE_PERSON.values(), ids=ONE_PERSON)
@pytest.mark.parametrize(
    "form",
    [list, tuple, pd.Series, lambda ids: np.array(ids, dtype=object), pd.Categorical],
)
def test_two_ids_that_may_be_one_person_are_refused(form, first, second):
    """The person would be counted twice, and the guarantee is for one of the two."""
    ids: list[object] = ["somebody", "somebody else", first, second]
    with pytest.raises(ParameterError, match="one person"):
        encode_persons(form(ids), 4)


def test_texts_of_fixed_width_that_differ_in_blanks_are_refused():
    for ids in (np.array(["a", "a ", "b"]), np.array([b"a", b" a", b"b"])):
        with pytest.raises(ParameterError, match="one person"):
            encode_persons(ids, 3)


MISSING = {
    "NaN in a list of texts": float("nan"),
    "None": None,
    "NaT": pd.NaT,
    "pandas' NA": pd.NA,
    "blank": "",
    "spaces": "  ",
}


@pytest.mark.parametrize("none", list(MISSING.values()), ids=list(MISSING))
@pytest.mark.parametrize(
    "form", [list, tuple, pd.Series, lambda ids: np.array(ids, dtype=object)]
)
def test_missing_ids_and_labels_are_refused(none, form):
    ids = [f"p{who}" for who in WHO]
    ids[7] = none
    for read in (lambda: encode_persons(form(ids), 60), lambda: Labels(form(ids), 60)):
        with pytest.raises(ParameterError, match="missing"):
            read()


def test_what_is_no_list_of_ids_is_refused_in_words():
    for bad in ([[1, 2], [3]], [[1]] * 60, "p" * 60, 3, None, {}):
        with pytest.raises(ParameterError, match="groups"):
            encode_persons(bad, 60)


def test_masked_ids_and_labels_are_missing():
    hidden = np.ma.array(WHO, mask=np.arange(60) == 7)
    for read in (lambda: encode_persons(hidden, 60), lambda: Labels(hidden, 60)):
        with pytest.raises(ParameterError, match="missing"):
            read()


def test_labels_of_several_kinds_have_no_order():
    with pytest.raises(ParameterError, match="order"):
        Labels([1, "1"] * 30, 60)
