"""Notebooks show comparisons as tables, displays as plots and fitted calibrators with their parameters."""

import re
from base64 import b64decode

import pytest

from calibrant import TemperatureScaling, plots
from calibrant.comparison import compare
from calibrant.intervals import decision_curve
from calibrant.synthetic import tasks

ROWS = tasks()["asymmetric"].sample(200, random_state=0)


def test_a_display_is_an_image_until_it_is_plotted():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    display = plots.ReliabilityDisplay.from_predictions(ROWS.labels, ROWS.predictions)
    page = display._repr_html_()
    found = re.fullmatch(r'<img alt="ReliabilityDisplay" src="data:image/png;base64,([\w+/=]+)">', page)
    assert b64decode(found[1]).startswith(b"\x89PNG")
    assert pyplot.get_fignums() == []
    assert not hasattr(display, "figure_")
    display.plot()
    assert display._repr_html_() is None
    pyplot.close("all")


def test_a_comparison_is_a_table():
    found = compare(ROWS.labels, ROWS.predictions, ["temperature"])
    page = found._repr_html_()
    assert page.count("<tr>") == 3
    assert "temperature" in page


def test_a_fitted_calibrator_has_a_page():
    fitted = TemperatureScaling(loss="brier").fit(ROWS.predictions, ROWS.labels)
    assert "brier" in fitted._repr_html_()


def test_results_with_columns_are_tables_of_their_first_rows():
    found = decision_curve(ROWS.labels == 1, ROWS.predictions.probabilities[:, 1])
    page = found._repr_html_()
    assert page.count("<tr>") == 21
    assert "79 further rows" in page
    assert all(name in page for name in found.columns())
