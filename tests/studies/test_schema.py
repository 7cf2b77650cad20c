"""Tables of a recipe are checked by the annotations of their parts, and errors name table, key, value and remedy."""

import sys
from dataclasses import fields
from typing import Annotated, Literal

import pytest

from calibrant.errors import MissingExtraError, RecipeError
from calibrant.studies.pictures.options import KINDS
from calibrant.studies.schema import Count, Names, NamesOrOne, Rule, checked, close_to, parsed
from calibrant.studies.specifications import CalibratorSpec, ClassifierSpec, SplitSpec, TrialSpec
from calibrant.studies.tables.options import TableOptions

KEYS = {
    "text": str,
    "flag": bool,
    "count": Count,
    "limit": Annotated[float, Rule(gt=0)],
    "digits": Annotated[int, Rule(ge=0, le=12)],
    "names": Names,
    "one": NamesOrOne,
    "places": list[float],
    "tables": list[dict],
    "inside": dict[str, dict],
    "choice": Literal["", "higher", "lower"],
}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"text": 3}, "text must be text, not 3."),
        ({"flag": 1}, "flag must be true or false, not 1."),
        ({"count": 0}, "count must be at least 1, not 0."),
        ({"count": True}, "count must be an integer, not True."),
        ({"count": 2.0}, "count must be an integer, not 2.0."),
        ({"limit": 0}, "limit must be above zero, not 0."),
        ({"limit": "3"}, "limit must be a number, not '3'."),
        ({"digits": 13}, "digits must be at most 12, not 13."),
        ({"names": "a"}, "names must be a list of names, not 'a'."),
        ({"names": ["a", 1]}, "names must be a list of names, but holds 1."),
        ({"one": []}, "one must be a list with at least one value, not []."),
        ({"one": 5}, "one must be a list of names, but holds 5."),
        ({"places": ["a"]}, "places must be a list of numbers, but holds 'a'."),
        ({"tables": {}}, "tables must be written as [[tables]], once for each."),
        ({"inside": {"a": 1}}, "the inside of 'a' must be a table, not 1."),
        ({"choice": "up"}, "choice must be one of higher, lower, not 'up'."),
    ],
)
def test_a_value_of_another_type_or_out_of_range_is_refused(content, said):
    with pytest.raises(RecipeError) as caught:
        checked(KEYS, "the table", content)
    assert str(caught.value) == f"the table: {said}"


def test_values_are_not_converted_except_for_lists_of_names():
    content = {"text": "5", "flag": True, "count": 5, "limit": 2.5, "names": ["a"], "one": "b", "choice": ""}
    assert checked(KEYS, "the table", content) == {**content, "names": ("a",), "one": ("b",)}


def test_only_given_keys_are_returned_in_the_order_of_the_schema():
    assert list(checked(KEYS, "the table", {"count": 2, "text": "a"})) == ["text", "count"]


@pytest.mark.parametrize(
    "kind", [ClassifierSpec, CalibratorSpec, SplitSpec, TrialSpec, TableOptions, *KINDS.values()]
)
def test_for_every_misspelt_key_the_right_one_is_suggested(kind):
    """A letter is doubled; also if the key is required, so that the right one is missing."""
    keys = [each.name.rstrip("_") for each in fields(kind)]
    for key in keys:
        wrong = f"{key}{key[-1]}"
        with pytest.raises(RecipeError) as caught:
            parsed(kind, "the table", {wrong: 1})
        assert str(caught.value).startswith(
            f"the table has an unknown key {wrong!r}; did you mean {key!r}? Known are "
        )
        assert all(known in str(caught.value) for known in keys)


def test_a_key_that_is_missing_is_named_with_the_way_to_add_it():
    with pytest.raises(RecipeError, match=r'^a trial has no function; add function = "\.\.\."\.$'):
        parsed(TrialSpec, "a trial", {"name": "a"})


@pytest.mark.parametrize("content", [3, "text", [1], None])
def test_a_table_is_a_table(content):
    with pytest.raises(RecipeError) as caught:
        checked(KEYS, "splits", content)
    assert str(caught.value) == f"splits must be a table, not {content!r}."


def test_a_part_equals_the_one_that_is_made_by_hand():
    content = {"method": "dirichlet", "grid": {"reg_lambda": [1e-3]}, "folds": 3, "select": "training"}
    by_hand = CalibratorSpec("D", "dirichlet", grid={"reg_lambda": [1e-3]}, folds=3, select="training")
    assert parsed(CalibratorSpec, "the calibrator 'D'", content, name="D") == by_hand


def test_what_is_given_is_no_key_of_the_table():
    with pytest.raises(RecipeError, match="unknown key 'name'"):
        parsed(ClassifierSpec, "the classifier 'a'", {"estimator": "knn", "name": "b"}, name="a")


def test_a_name_is_suggested_only_if_it_is_near():
    assert close_to("abc", []) == "known are none."
    assert close_to("xyz", ["abalone", "car"]) == "known are abalone, car."
    assert close_to("xyz", ["abalone", "car"], brief=True) == "known are abalone, car."


def test_without_pydantic_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(MissingExtraError, match=r"pydantic is required.*calibrant\[studies\]"):
        checked(KEYS, "the table", {})
