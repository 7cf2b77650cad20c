"""Pictures of cumulative differences, bin sensitivity and learning curves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from calibrant.errors import ParameterError
from calibrant.plots import BinSensitivityDisplay, CumulativeDifferenceDisplay, LearningCurveDisplay

pyplot = pytest.importorskip("matplotlib.pyplot")


def rows(n_rows: int = 400, seed: int = 0):
    generator = np.random.default_rng(seed)
    p = generator.uniform(0.02, 0.98, n_rows)
    return (generator.random(n_rows) < 0.2 + 0.6 * p).astype(int), p


def words_of(figure) -> str:
    texts = figure.findobj(match=lambda artist: hasattr(artist, "get_text"))
    return " ".join(text.get_text().replace("\n", " ") for text in texts)


# Cumulative differences


def test_the_path_is_drawn_with_its_statistic_and_its_end_by_chance():
    y, p = rows()
    display = CumulativeDifferenceDisplay.from_predictions(y, p, name="a model").plot()
    line = max(display.ax_.get_lines(), key=lambda line: len(line.get_xdata()))
    assert_allclose(line.get_xydata(), np.column_stack([display.curve.share, display.curve.difference]))
    words = words_of(display.figure_)
    assert f"Kuiper {display.curve.kuiper:.3g}" in words
    assert "a model" in words
    low, high = display.ax_.collections[0].get_segments()[0][:, 1]
    assert (low, high) == pytest.approx((-1.96 * display.curve.sigma, 1.96 * display.curve.sigma), rel=1e-4)


def test_the_scores_stand_above_the_rows():
    display = CumulativeDifferenceDisplay.from_predictions([0, 1] * 50, [0.25] * 100).plot()
    display.figure_.canvas.draw()
    assert "0.25" in words_of(display.figure_)


def test_few_rows_and_sure_ones_can_be_drawn():
    """One row, and rows that were all sure and right, whose path is flat."""
    assert "rough" in words_of(CumulativeDifferenceDisplay.from_predictions([1], [0.7]).plot().figure_)
    CumulativeDifferenceDisplay.from_predictions([0, 1], [0.0, 1.0]).plot().figure_.canvas.draw()


# Bins


def test_lines_of_errors_and_the_range_of_noise():
    y, p = rows()
    display = BinSensitivityDisplay.from_predictions(
        y, p, metric="positive", n_bins=(5, 20), n_resamples=20
    ).plot()
    lines = {line.get_label(): line.get_ydata() for line in display.ax_.get_lines()}
    columns = display.columns()
    assert_allclose(lines["equal-width bins"], columns["equal_width"])
    assert_allclose(lines["equal-mass bins"], columns["equal_mass"])
    assert_allclose(lines["equal mass, debiased"], columns["debiased"])
    assert_allclose(lines["if calibrated, mean"], columns["noise"])
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == ["5", "20"]


def test_a_single_number_of_bins_can_be_drawn():
    y, p = rows(50)
    display = BinSensitivityDisplay.from_predictions(y, p, n_bins=[15], n_resamples=5, name="one").plot()
    display.figure_.canvas.draw()
    assert display.ax_.get_title() == "one"


# Learning curves


def test_curves_of_two_methods_and_the_loss_of_none():
    y, p = rows()
    display = LearningCurveDisplay.from_predictions(
        y, p, method=["temperature", "platt"], sizes=(50, 100, 200)
    ).plot()
    lines = {line.get_label(): line.get_ydata() for line in display.ax_.get_lines()}
    assert_allclose(lines["temperature"], display.curves["temperature"].loss)
    assert_allclose(lines["platt"], display.curves["platt"].loss)
    assert_allclose(lines["uncalibrated"], display.curves["platt"].uncalibrated)
    assert display.columns()["method"].tolist() == ["temperature"] * 3 + ["platt"] * 3
    assert "log_loss on held-out rows" in words_of(display.figure_)


def test_losses_far_above_do_not_squeeze_the_others():
    """A loss of 50 for the smallest size: an arrow stands for it."""
    y, p = rows(300)
    display = LearningCurveDisplay.from_predictions(y, p, method="temperature", sizes=(20, 240))
    curve = display.curves["temperature"]
    curve.loss[0] = 50.0
    display.plot()
    assert display.ax_.get_ylim()[1] < 5
    assert "Arrows" in words_of(display.figure_)


def test_sizes_without_a_fit_can_be_drawn():
    y, p = rows(60)
    display = LearningCurveDisplay.from_predictions(y, p, method="temperature", sizes=(1, 40)).plot()
    display.figure_.canvas.draw()
    nothing = LearningCurveDisplay.from_predictions(y, p, method="temperature", sizes=(1,)).plot()
    nothing.figure_.canvas.draw()


def test_no_method_is_refused():
    y, p = rows(60)
    with pytest.raises(ParameterError, match="at least one"):
        LearningCurveDisplay.from_predictions(y, p, method=[])
