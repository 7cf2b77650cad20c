"""Every plot of predictions through one body of tests; a new one takes part as soon as it is exported."""

import inspect
import sys

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.linear_model import LogisticRegression

from calibrant import Predictions, TemperatureScaling, plots
from calibrant.errors import MissingExtraError
from calibrant.plots.display import Display, PredictionDisplay

EVERY = [found for name in plots.__all__ if inspect.isclass(found := getattr(plots, name))]
DISPLAYS = [found for found in EVERY if issubclass(found, Display) and found is not Display]
OF_PREDICTIONS = [found for found in DISPLAYS if issubclass(found, PredictionDisplay)]

# Small settings where the default takes long, and two classes where a plot has no more.
OPTIONS = {
    "BinSensitivityDisplay": {"n_bins": (5,), "n_resamples": 5},
    "LearningCurveDisplay": {"method": "temperature", "sizes": [40]},
}
TWO_CLASSES = {"DecisionCurveDisplay"}

every_display = pytest.mark.parametrize("display", DISPLAYS, ids=lambda display: display.__name__)
every_display_of_predictions = pytest.mark.parametrize(
    "display", OF_PREDICTIONS, ids=lambda display: display.__name__
)


def rows(display, n_rows=150):
    """Return features, classes as words and a classifier."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n_rows, 2))
    noisy = np.digitize(X[:, 0] + generator.normal(size=n_rows), [-0.5, 0.5])
    names = np.array(["ant", "bee", "cat"])
    y = names[np.minimum(noisy, 1) if display.__name__ in TWO_CLASSES else noisy]
    return X, y, LogisticRegression().fit(X, y)


def made(display, **options):
    X, y, classifier = rows(display)
    predictions = Predictions.from_probabilities(classifier.predict_proba(X), classes=classifier.classes_)
    return display.from_predictions(y, predictions, **OPTIONS.get(display.__name__, {}), **options)


def assert_same_columns(found, expected):
    assert list(found) == list(expected)
    for name, values in found.items():
        assert_array_equal(values, expected[name])


@every_display
def test_it_describes_its_data_and_its_axes(display):
    text = inspect.getdoc(display)
    assert text.index("Attributes\n-----") < text.index("Examples\n-----")
    assert "figure_" in text.partition("Attributes\n")[2]


@every_display_of_predictions
def test_columns_have_one_length_and_are_a_frame(display):
    pytest.importorskip("pandas")
    found = made(display)
    columns, frame = found.columns(), found.frame()
    assert list(frame.columns) == list(columns)
    assert {len(values) for values in columns.values()} == {len(frame)}


@every_display_of_predictions
def test_an_estimator_gives_what_its_predictions_give(display):
    X, y, classifier = rows(display)
    options = OPTIONS.get(display.__name__, {})
    by_estimator = display.from_estimator(classifier, X, y, **options)
    assert_same_columns(by_estimator.columns(), made(display).columns())
    p = classifier.predict_proba(X)
    calibrator = TemperatureScaling().fit(p, y)
    by_calibrator = display.from_estimator(calibrator, p, y, **options)
    expected = display.from_predictions(y, calibrator.transform(p), **options)
    assert_same_columns(by_calibrator.columns(), expected.columns())


@every_display_of_predictions
def test_it_is_drawn_on_given_axes_and_on_a_figure_of_its_own(display):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    figure, axes = pyplot.subplots(layout="constrained")
    found = made(display)
    assert found.plot(axes) is found
    assert found.figure_ is figure
    again = made(display).plot()
    assert again.figure_ is not figure
    assert again.ax_ in again.figure_.axes
    again.figure_.canvas.draw()
    labels = [axes.get_xlabel() or axes.get_title() for axes in again.figure_.axes]
    assert any([again.figure_.get_supxlabel(), *labels])
    pyplot.close("all")


@every_display_of_predictions
def test_its_data_need_no_matplotlib(display, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    found = made(display)
    assert found.columns()
    with pytest.raises(MissingExtraError, match="matplotlib is required"):
        found.plot()
