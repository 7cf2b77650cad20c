"""Every picture of a map is drawn: on new axes, on given ones, in their place, and as it was before."""

import os
from pathlib import Path

import numpy as np
import pytest

from calibrant import (
    DirichletCalibration,
    KernelCalibration,
    MatrixScaling,
    ParameterizedTemperatureScaling,
    Predictions,
    TemperatureScaling,
    registry,
)
from calibrant.calibrators.scaling.dirichlet import LinearParameters
from calibrant.errors import ParameterError
from calibrant.plots import (
    ClassProbabilityBoxDisplay,
    CriticalDifferenceDisplay,
    InterpretationPointsDisplay,
    KernelWeightsDisplay,
    LatentFunctionDisplay,
    LinearMapDisplay,
    PassRateDisplay,
    SimplexDisplay,
    SimplexMapComparisonDisplay,
    SimplexMapDisplay,
    TemperatureHistogramDisplay,
)
from calibrant.synthetic import IdentityMap, SyntheticTask, TemperatureMap
from data import load

matplotlib = pytest.importorskip("matplotlib")
from matplotlib import pyplot  # noqa: E402
from matplotlib.testing.compare import compare_images  # noqa: E402

BASELINE = Path(__file__).parent / "baseline"
DOCUMENTED = Path(__file__).parents[2] / "docs" / "_static"
SAMPLE = SyntheticTask((0.5, 0.5, 0.5), TemperatureMap(2.0)).sample(300, random_state=0)
P, Y = SAMPLE.predictions, SAMPLE.labels
MAP = DirichletCalibration.from_parameters(
    LinearParameters(
        np.array([[0.8, 0.2, 0.0], [0.1, 0.7, 0.1], [0.0, 0.1, 0.9]]), np.array([0.2, 0.0, -0.3])
    )
)
LOSSES = np.array([[0.5, 0.4, 0.3], [0.6, 0.3, 0.4], [0.7, 0.5, 0.2], [0.6, 0.4, 0.1], [0.5, 0.3, 0.2]])

DISPLAYS = {
    "simplex": lambda: SimplexDisplay.from_predictions(Y, P),
    "map": lambda: SimplexMapDisplay.from_map(TemperatureMap(2.0), n_cells=20),
    "maps": lambda: SimplexMapComparisonDisplay.from_maps({"a": IdentityMap(), "b": MAP}, n_cells=20),
    "kernel": lambda: KernelWeightsDisplay.from_kernel([0.75, 0.2, 0.05], n_cells=20),
    "fitted kernel": lambda: KernelWeightsDisplay.from_estimator(
        KernelCalibration(bandwidth=0.1, guard=False).fit(P, Y), [0.2, 0.3, 0.5], n_cells=20
    ),
    "points": lambda: InterpretationPointsDisplay.from_estimator(MAP, n_cells=20),
    "linear map": lambda: LinearMapDisplay.from_estimator(MAP, P, Y),
    "weights alone": lambda: LinearMapDisplay.from_estimator(
        MatrixScaling(reg_lambda=0.1, reg_mu=0.1).fit(P, Y)
    ),
    "boxes": lambda: ClassProbabilityBoxDisplay.from_predictions(Y, P),
    "latent": lambda: LatentFunctionDisplay.from_estimator(TemperatureScaling().fit(P, Y), P),
    "temperatures": lambda: TemperatureHistogramDisplay.from_estimator(
        ParameterizedTemperatureScaling(hidden=(), weight_decay=0.0).fit(P, Y), P, Y
    ),
    "critical difference": lambda: CriticalDifferenceDisplay.from_table(
        LOSSES, names=["none", "beta", "dirichlet"]
    ),
    "control": lambda: CriticalDifferenceDisplay.from_table(
        LOSSES, names=["none", "beta", "dirichlet"], test="bonferroni-dunn", control="beta"
    ),
    "pass rates": lambda: PassRateDisplay.from_p_values(LOSSES / 5),
}
every_display = pytest.mark.parametrize("name", DISPLAYS)


def written(figure):
    """Draw for real, so that layouts and texts are made."""
    figure.canvas.draw()


# Where


@every_display
def test_a_display_draws_on_a_figure_of_its_own(name):
    display = DISPLAYS[name]()
    assert display.plot() is display
    assert display.figure_ is display.ax_.figure
    written(display.figure_)


@every_display
def test_a_display_draws_in_the_place_of_given_axes(name):
    figure, axes = pyplot.subplots(1, 2, figsize=(14, 6), layout="constrained")
    display = DISPLAYS[name]().plot(axes[1])
    assert display.figure_ is figure
    assert not axes[0].has_data()
    written(figure)


@every_display
def test_axes_without_a_grid_will_do(name):
    figure = pyplot.figure(figsize=(12, 6))
    display = DISPLAYS[name]().plot(figure.add_axes((0.1, 0.1, 0.8, 0.8)))
    assert display.figure_ is figure
    written(figure)


@every_display
def test_the_table_has_columns_of_one_length(name):
    pd = pytest.importorskip("pandas")
    frame = DISPLAYS[name]().frame()
    assert isinstance(frame, pd.DataFrame)
    assert len(frame) > 0


@every_display
def test_drawing_twice_does_no_harm(name):
    display = DISPLAYS[name]()
    first = display.plot().figure_
    assert display.plot().figure_ is not first


def test_panels_may_be_given_one_by_one():
    figure, axes = pyplot.subplots(1, 3, layout="constrained")
    display = DISPLAYS["linear map"]().plot(axes)
    assert display.axes_ == list(axes)
    assert display.figure_ is figure


def test_a_wrong_number_of_axes_is_refused():
    _, axes = pyplot.subplots(1, 2)
    with pytest.raises(ParameterError, match="has 3 panels, but 2 axes were given"):
        DISPLAYS["linear map"]().plot(axes)


# What


def test_arrows_have_their_true_length():
    """A quiver in units of the axes: of the 55 arrows of a temperature, the one of the centre does not move."""
    display = SimplexMapDisplay.from_map(TemperatureMap(2.0), n_arrows=10, n_cells=5).plot()
    arrows = next(one for one in display.ax_.collections if type(one).__name__ == "Quiver")
    assert arrows.N == 54
    assert arrows.scale == 1


def test_colours_and_arrows_can_be_left_out():
    display = SimplexMapDisplay.from_map(TemperatureMap(2.0), n_cells=5).plot(colours=False)
    assert [type(one).__name__ for one in display.ax_.collections] == ["Quiver"]
    display = SimplexMapDisplay.from_map(TemperatureMap(2.0), n_cells=5).plot(arrows=False, palette="safe")
    assert [type(one).__name__ for one in display.ax_.collections] == ["PolyCollection"]


@pytest.mark.parametrize(("n_classes", "is_written"), [(3, True), (10, True), (100, False)])
def test_numbers_are_written_where_they_fit(n_classes, is_written):
    weights = np.eye(n_classes) + 0.25 * np.tri(n_classes, k=-1)
    calibrator = DirichletCalibration.from_parameters(LinearParameters(weights, np.zeros(n_classes)))
    display = LinearMapDisplay.from_estimator(calibrator, form="linear").plot()
    texts = {text.get_text() for text in display.ax_.texts}
    assert (".25" in texts) is is_written
    sizes = {text.get_fontsize() for text in display.ax_.texts}
    assert min(sizes, default=9) >= 6.5


def test_no_text_is_tiny():
    for make in DISPLAYS.values():
        figure = make().plot().figure_
        for text in figure.findobj(matplotlib.text.Text):
            if text.get_text() and text.get_visible():
                assert text.get_fontsize() >= 6.5, text.get_text()


def test_a_hundred_classes_of_a_real_network_are_drawn():
    data = load("kull_nn/c100_convnet")
    predictions = Predictions.from_logits(data["test_logits"])
    calibrator = DirichletCalibration.from_parameters(LinearParameters(np.eye(100), np.zeros(100)))
    written(LinearMapDisplay.from_estimator(calibrator, predictions, data["test_y"]).plot().figure_)
    written(ClassProbabilityBoxDisplay.from_predictions(data["test_y"], predictions).plot().figure_)


@pytest.mark.parametrize("constant", [1.0, 0.0])
def test_constant_ranks_and_shares_are_drawn(constant):
    written(CriticalDifferenceDisplay.from_table(np.full((4, 5), constant)).plot().figure_)
    written(PassRateDisplay.from_p_values(np.full((4, 5), constant)).plot().figure_)


def test_one_row_is_drawn():
    written(SimplexDisplay.from_predictions([1], [[0.2, 0.5, 0.3]]).plot().figure_)
    written(ClassProbabilityBoxDisplay.from_predictions([1], [[0.2, 0.5, 0.3]]).plot().figure_)


def test_names_with_a_meaning_for_the_writer_of_formulas_are_written_as_they_are():
    display = SimplexDisplay.from_predictions(["a", "b_1", "$c"], np.eye(3) * 0.7 + 0.1)
    written(display.plot().figure_)


# As it was


def compared(display, expected, folder, dpi):
    """Compare a picture with the one that is kept; CALIBRANT_NEW_BASELINE writes it anew, to be looked at."""
    drawn = folder / expected.name
    display.plot().figure_.savefig(drawn, dpi=dpi, metadata={"Software": None})
    if os.environ.get("CALIBRANT_NEW_BASELINE"):
        expected.write_bytes(drawn.read_bytes())
    difference = compare_images(str(expected), str(drawn), tol=12)
    assert difference is None, difference


@pytest.mark.skipif(
    matplotlib.__version_info__ < (3, 11), reason="the images show the text of matplotlib 3.11 or later"
)
@pytest.mark.parametrize("name", ["map", "critical difference"])
def test_pictures_look_as_before(name, tmp_path):
    compared(DISPLAYS[name](), BASELINE / f"maps_{name.replace(' ', '_')}.png", tmp_path, 45)


@pytest.mark.slow
def test_the_pictures_of_the_documentation_are_those_of_its_examples(tmp_path):
    task = SyntheticTask()
    rows = task.sample(5000, random_state=0)
    names = ("dirichlet", "kernel-dirichlet", "temperature", "gp", "iop-diagonal", "shared-map")
    fitted = {name: registry.make(name).fit(rows.predictions, rows.labels) for name in names}
    maps = {
        "truth": task,
        "Dirichlet calibration": fitted.pop("dirichlet"),
        "kernel calibration": fitted.pop("kernel-dirichlet"),
    }
    side_by_side = SimplexMapComparisonDisplay.from_maps(maps)
    compared(side_by_side, DOCUMENTED / "maps_side_by_side.png", tmp_path, 72)
    functions = LatentFunctionDisplay.from_estimator(fitted, rows.predictions)
    compared(functions, DOCUMENTED / "maps_latent_functions.png", tmp_path, 72)
