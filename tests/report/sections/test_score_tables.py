"""Cells of estimates and differences, which the tables of all sections share."""

from math import inf

import pytest

from calibrant.presentation import TYPOGRAPHIC
from calibrant.report.contents import Estimate
from calibrant.report.sections.scores import INFINITE, difference_cell, estimate_cell, notes_of


@pytest.mark.parametrize(
    ("low", "high", "higher_is_better", "tag"),
    [
        (-2, -1, False, "better"),
        (1, 2, False, "worse"),
        (1, 2, True, "better"),
        (-1, 1, False, "open"),
        (0, 0, True, "same"),
    ],
)
def test_a_difference_is_judged_by_its_interval(low, high, higher_is_better, tag):
    estimate = Estimate("loss", (low + high) / 2, low, high, higher_is_better=higher_is_better)
    assert difference_cell(estimate).tag.name == tag


def test_a_difference_without_an_interval_is_not_judged():
    assert difference_cell(Estimate("loss", -1.0)).tag is None


def test_a_missing_estimate_has_a_dash():
    assert estimate_cell(None).line() == difference_cell(None).line() == "-"
    assert estimate_cell(None).line(TYPOGRAPHIC) == "–"


def test_an_end_that_is_tiny_beside_the_other_is_shown_as_zero():
    assert Estimate("", 0.1, 1e-7, 0.4).interval().text() == "0.0000 to 0.4000"
    assert Estimate("", 2e-7, 1e-7, 4e-7).interval().text() == "1.0e-07 to 4.0e-07"


def test_infinity_is_explained_once():
    notes = notes_of(
        [Estimate("log_loss", inf, note="by a zero"), Estimate("log_loss", inf, note="by a zero")]
    )
    assert notes == ("Log-loss: By a zero.", INFINITE)
