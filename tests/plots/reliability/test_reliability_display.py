"""Reliability diagrams: what is drawn where, and what is said about it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from calibrant.binning import FixedEdges
from calibrant.errors import ParameterError
from calibrant.plots import ClasswiseReliabilityDisplay, ReliabilityDisplay, reliability_curve

EVERY_STYLE = pytest.mark.parametrize("style", ["bars", "points", "isotonic"])
EVERY_MODE = pytest.mark.parametrize("mode", ["confidence", "consistency"])


@pytest.fixture
def pyplot():
    return pytest.importorskip("matplotlib.pyplot")


def rows(n_rows: int = 300, seed: int = 0):
    generator = np.random.default_rng(seed)
    p = generator.beta(0.7, 0.7, n_rows)
    return (generator.random(n_rows) < 0.2 + 0.6 * p).astype(int), p


def words_of(figure) -> str:
    return " ".join(text.get_text().replace("\n", " ") for text in figure.findobj(match=_is_text))


def _is_text(artist) -> bool:
    return hasattr(artist, "get_text")


# Numbers


def test_the_table_is_that_of_the_curve():
    y, p = rows()
    columns = ReliabilityDisplay.from_predictions(y, p, n_bins=7).columns()
    expected = reliability_curve(y, p, n_bins=7, n_resamples=0).columns()
    assert list(columns) == list(expected)
    for name, values in columns.items():
        assert_allclose(values, expected[name])


def test_several_models_are_told_apart_in_the_table():
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, {"one": p, "two": p**2}, n_bins=5)
    assert display.columns()["model"].tolist() == ["one"] * 5 + ["two"] * 5
    pytest.importorskip("pandas")
    assert display.frame().groupby("model")["count"].sum().tolist() == [300, 300]


# Bars


def test_bars_reach_to_the_share_and_gaps_to_the_mean_score(pyplot):
    """Two bins of equal width: 12 rows at 0.2, of which 6 happened, and 20 at 0.9, of which 15 did."""
    y = [1] * 6 + [0] * 6 + [1] * 15 + [0] * 5
    axes = ReliabilityDisplay.from_predictions(y, [0.2] * 12 + [0.9] * 20, n_bins=2).plot().ax_
    boxes = {
        (round(bar.get_x(), 6), round(bar.get_y(), 6), round(bar.get_height(), 6)) for bar in axes.patches
    }
    assert boxes == {(0.0, 0.0, 0.5), (0.5, 0.0, 0.75), (0.0, 0.5, -0.3), (0.5, 0.75, 0.15)}
    too_much = next(bar for bar in axes.patches if round(bar.get_height(), 6) == 0.15)
    too_little = next(bar for bar in axes.patches if round(bar.get_height(), 6) == -0.3)
    assert (too_much.get_hatch(), too_little.get_hatch()) == ("//", "\\\\")
    assert too_much.get_facecolor() != too_little.get_facecolor()


def test_empty_bins_stay_blank(pyplot):
    """Fifteen bins, of which two hold rows: two bars, two gaps, two points."""
    axes = ReliabilityDisplay.from_predictions([0, 1] * 20, [0.05, 0.9] * 20).plot().ax_
    assert len(axes.patches) == 4


def test_small_bins_are_grey(pyplot):
    y, p = [1] * 5 + [1] * 15 + [0] * 5, [0.2] * 5 + [0.9] * 20
    axes = ReliabilityDisplay.from_predictions(y, p, n_bins=2).plot().ax_
    for bar in axes.patches:
        red, green, blue, _ = bar.get_facecolor()
        assert (red == green == blue) == (bar.get_x() < 0.5)


def test_a_bin_of_one_value_is_drawn_with_some_width(pyplot):
    edges = FixedEdges((-np.inf, 0.5, 1, 1))
    axes = ReliabilityDisplay.from_predictions([0, 1] * 20, [0.3, 1.0] * 20, binning=edges).plot().ax_
    assert all(bar.get_width() > 0 and 0 <= bar.get_x() < 1 for bar in axes.patches)


# Words


@EVERY_STYLE
@EVERY_MODE
def test_one_sentence_says_which_intervals_are_drawn(pyplot, style, mode):
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, p, style=style, mode=mode, n_resamples=20, level=0.9)
    words = words_of(display.plot().figure_)
    assert f'Mode "{mode}"' in words
    assert "90 %" in words
    assert ("band" in words) == (style == "isotonic")
    if style != "isotonic":
        assert ("on the diagonal" in words) == (mode == "consistency")


def test_axes_say_which_event_is_looked_at(pyplot):
    y, p = rows()
    words = words_of(ReliabilityDisplay.from_predictions(y, p, kind="confidence").plot().figure_)
    assert "confidence in the predicted class" in words
    names = np.array(["no", "yes"])[y]
    words = words_of(ReliabilityDisplay.from_predictions(names, p).plot().figure_)
    assert "probability of class 'yes'" in words
    words = words_of(
        ReliabilityDisplay.from_predictions(names, p, kind="top-label", label="no").plot().figure_
    )
    assert "confidence in predicted class 'no'" in words


def test_words_can_be_left_out(pyplot):
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, p).plot(legend=False, caption=False)
    assert "Mode" not in words_of(display.figure_)
    assert "gap" not in words_of(display.figure_)


# Intervals


@EVERY_MODE
def test_intervals_are_those_of_the_table(pyplot, mode):
    y, p = rows(2000)
    display = ReliabilityDisplay.from_predictions(y, p, mode=mode, n_bins=10)
    axes = display.plot().ax_
    columns = display.columns()
    drawn = np.array(
        sorted(tuple(segment.ravel()) for part in axes.collections for segment in part.get_segments())
    )
    names = ("low", "high") if mode == "confidence" else ("consistency_low", "consistency_high")
    assert_allclose(drawn[:, 0], columns["mean_score"])
    assert_allclose(drawn[:, [1, 3]], np.column_stack([columns[name] for name in names]))


@EVERY_MODE
def test_the_isotonic_curve_is_drawn_as_it_is(pyplot, mode):
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, p, style="isotonic", mode=mode, n_resamples=30)
    lines = display.plot().ax_.get_lines()
    curve = display.curves[""]
    drawn = next(line for line in lines if line.get_label() == "isotonic curve")
    assert_allclose(drawn.get_xydata(), np.column_stack([curve.isotonic_score, curve.isotonic_outcome]))


# Several models


@pytest.mark.parametrize("style", ["auto", "points", "isotonic"])
@EVERY_MODE
def test_models_have_colours_and_names_of_their_own(pyplot, style, mode):
    y, p = rows()
    models = {f"model {number}": p ** (1 + number / 4) for number in range(9)}
    display = ReliabilityDisplay.from_predictions(y, models, style=style, mode=mode, n_resamples=10).plot()
    lines = [line for line in display.ax_.get_lines() if str(line.get_label()).startswith("model")]
    assert [line.get_label() for line in lines] == list(models)
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == (9 if style != "isotonic" else 7)


def test_bars_of_several_models_would_hide_each_other():
    y, p = rows()
    pytest.importorskip("matplotlib")
    with pytest.raises(ParameterError, match="style='points'"):
        ReliabilityDisplay.from_predictions(y, {"one": p, "two": p}).plot(style="bars")


def test_no_model_is_refused():
    with pytest.raises(ParameterError, match="at least one"):
        ReliabilityDisplay.from_predictions([0], {})


def test_lines_do_not_cross_empty_bins(pyplot):
    """Points at 0.05 and 0.95 with nothing between: the line has NaN there."""
    axes = ReliabilityDisplay.from_predictions([0, 1] * 20, [0.05, 0.95] * 20, style="points").plot().ax_
    line = next(line for line in axes.get_lines() if len(line.get_xdata()) == 15)
    assert np.isnan(line.get_ydata()[1:-1]).all()


# Axes


def test_a_new_figure_has_the_diagram_and_the_counts(pyplot):
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, p).plot()
    assert display.figure_.axes == [display.ax_, display.counts_ax_]
    heights = [bar.get_height() + bar.get_y() for bar in display.counts_ax_.patches]
    counts = display.columns()["count"]
    assert_allclose(sorted(heights), sorted(counts[counts > 0]))


def test_given_axes_are_drawn_on(pyplot):
    y, p = rows()
    display = ReliabilityDisplay.from_predictions(y, p)
    _, pair = pyplot.subplots(2, 1)
    assert display.plot(pair).ax_ is pair[0]
    assert display.counts_ax_ is pair[1]
    figure, axes = pyplot.subplots()
    assert display.plot(axes, counts=False).ax_ is axes
    assert display.counts_ax_ is None
    assert figure.axes == [axes]
    figure, (left, _) = pyplot.subplots(1, 2)
    display.plot(left)
    assert len(figure.axes) == 4
    with pytest.raises(ParameterError, match="2 panels"):
        display.plot([left, left, left])


def test_what_an_estimator_says(pyplot):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(200, 2))
    y = np.array(["no", "yes"])[(X[:, 0] + generator.normal(size=200) > 0).astype(int)]
    classifier = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(classifier, X, y, name="logistic regression").plot()
    assert display.ax_.get_title() == "logistic regression"
    both = {"before": classifier, "again": classifier}
    assert list(ReliabilityDisplay.from_estimator(both, X, y).curves) == ["before", "again"]


@EVERY_STYLE
@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([1], [0.7]),
        ([0, 1, 2] * 4, np.tile(np.eye(3), (4, 1))),
        ([0, 1] * 30, [0.5] * 60),
        ([0] * 40, np.zeros(40)),
    ],
    ids=["one row", "all right", "one score", "never"],
)
def test_corners_can_be_drawn(pyplot, style, y, p):
    p = p if np.ndim(p) > 1 else np.column_stack([1 - np.array(p), p])
    display = ReliabilityDisplay.from_predictions(y, p, style=style, n_resamples=5).plot()
    display.figure_.canvas.draw()


def test_weights_are_drawn_too(pyplot):
    y, p = rows()
    weights = np.random.default_rng(1).gamma(1, size=300)
    display = ReliabilityDisplay.from_predictions(y, p, sample_weight=weights, mode="consistency").plot()
    expected = reliability_curve(y, p, sample_weight=weights, n_resamples=0)
    assert_allclose(display.columns()["mean_outcome"], expected.mean_outcome)


# Classes


def test_panels_come_with_class_error_and_star(pyplot):
    y, p = [0] * 60 + [1] * 30 + [2] * 10, np.tile([0.8, 0.1, 0.1], (100, 1))
    display = ClasswiseReliabilityDisplay.from_predictions(y, p).plot()
    assert [panel.get_title() for panel in display.axes_] == ["1: 0.200 *", "0: 0.200 *", "2: 0.000"]
    assert "all 3 classes" in words_of(display.figure_)


@pytest.mark.parametrize("kind", ["classwise", "top-label"])
@EVERY_MODE
def test_the_worst_of_a_hundred_classes(pyplot, kind, mode):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(100, 0.05), 2000)
    y = (generator.random((2000, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=99)
    display = ClasswiseReliabilityDisplay.from_predictions(y, p, kind=kind, mode=mode).plot()
    assert len(display.axes_) == 12
    assert "the worst 12 of 100 classes" in words_of(display.figure_)


@pytest.mark.slow
def test_all_of_a_hundred_classes(pyplot):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(100, 0.05), 2000)
    y = (generator.random((2000, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=99)
    everything = ClasswiseReliabilityDisplay.from_predictions(y, p, max_classes=None).plot()
    assert len(everything.axes_) == 100
    assert "all 100 classes" in words_of(everything.figure_)


def test_unused_panels_are_taken_away(pyplot):
    """Ten classes take four columns and three lines, of which two places stay empty."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(10), 200)
    display = ClasswiseReliabilityDisplay.from_predictions(generator.integers(0, 10, 200), p).plot()
    assert len(display.figure_.axes) == 10
    display.figure_.canvas.draw()


def test_classes_in_place_of_given_axes(pyplot):
    figure, axes = pyplot.subplots(figsize=(8, 6), layout="constrained")
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(3), 50)
    display = ClasswiseReliabilityDisplay.from_predictions(generator.integers(0, 3, 50), p).plot(axes)
    assert display.figure_ is figure
    assert "all 3 classes" in words_of(figure)
