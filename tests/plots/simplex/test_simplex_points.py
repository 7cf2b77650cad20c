"""Points of the triangle: corners, distances, and grids that cover it once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from calibrant import LabelledPredictions
from calibrant.errors import LabelError, ParameterError, PredictionError
from calibrant.plots import SimplexDisplay
from calibrant.plots.simplex.triangle import (
    CORNERS,
    ThreeClasses,
    arrow_points,
    class_columns,
    planar,
    triangle_cells,
)
from strategies import probability_matrices

THREE = np.array([[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
TEN = np.full((4, 10), 0.1)


def area(corners):
    """Half of the cross product of two sides."""
    first, second = corners[..., 1, :] - corners[..., 0, :], corners[..., 2, :] - corners[..., 0, :]
    return np.abs(first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]) / 2


# The plane


def test_certainty_lies_in_the_corners():
    assert_allclose(planar(np.eye(3)), CORNERS)


def test_the_triangle_has_equal_sides():
    sides = np.linalg.norm(CORNERS - np.roll(CORNERS, 1, axis=0), axis=1)
    assert_allclose(sides, 1.0)


def test_even_odds_lie_in_the_middle():
    assert_allclose(planar([[1 / 3, 1 / 3, 1 / 3]])[0], CORNERS.mean(axis=0))


@given(p=probability_matrices(2, 3))
def test_distances_are_those_of_the_simplex_over_the_root_of_two(p):
    """Two corners are 1 apart in the plane and sqrt(2) in the simplex, and the map is linear and symmetric."""
    first, second = planar(p)
    own = np.linalg.norm(p[0].astype(float) - p[1].astype(float)) / np.sqrt(2)
    assert np.linalg.norm(first - second) == pytest.approx(own, abs=1e-6)


# Grids


@given(steps=st.integers(1, 12))
def test_cells_cover_the_triangle_without_overlap(steps):
    """There are s^2 cells of equal area, each 1 / s^2 of the whole, inside of it and with different middles."""
    cells = triangle_cells(steps)
    assert cells.shape == (steps**2, 3, 3)
    assert cells.min() >= -1e-12
    assert_allclose(cells.sum(axis=2), 1.0)
    assert_allclose(area(planar(cells)), area(CORNERS) / steps**2)
    assert len(np.unique(cells.mean(axis=1).round(9), axis=0)) == steps**2


@given(steps=st.integers(1, 12))
def test_arrows_start_strictly_inside_and_treat_all_classes_alike(steps):
    points = arrow_points(steps)
    assert len(points) == steps * (steps + 1) // 2
    assert points.min() > 0
    assert_allclose(points.sum(axis=1), 1.0)
    turned = {tuple(row) for row in np.roll(points, 1, axis=1).round(9)}
    assert turned == {tuple(row) for row in points.round(9)}


# Three classes of many


def test_two_classes_are_refused_with_advice():
    with pytest.raises(
        PredictionError, match=r"three classes, .* 2 columns; for two classes draw a reliability"
    ):
        SimplexDisplay.from_predictions([0, 1], [[0.3, 0.7], [0.6, 0.4]])


def test_many_classes_ask_for_a_choice():
    with pytest.raises(
        PredictionError, match=r"have 10; choose three by classes=, such as classes=\[0, 1, 2\]"
    ):
        SimplexDisplay.from_predictions([0, 1, 2, 3], TEN)


@pytest.mark.parametrize(
    ("chosen", "reason"),
    [([0, 1, 77], "77 is not one of"), ([0, 1, 1], "duplicates"), ([0, 1], "but are 2"), (3, "but are 1")],
)
def test_a_choice_that_is_not_three_classes_is_refused(chosen, reason):
    with pytest.raises(ParameterError, match=reason):
        SimplexDisplay.from_predictions([0, 1, 2, 3], TEN, classes=chosen)


def test_class_columns_are_found_by_their_labels():
    assert class_columns(np.array([30, 10, 20]), [20, 30]).tolist() == [2, 0]


@given(p=probability_matrices(n_classes=5))
def test_rows_are_given_one_of_the_three(p):
    """p_k over the sum of the three; even odds if the three have nothing."""
    three = ThreeClasses.of(np.arange(5), [4, 0, 2])
    found = three.restricted(p)
    for row, given_three in zip(p.astype(float), found, strict=True):
        total = row[4] + row[0] + row[2]
        expected = [row[4] / total, row[0] / total, row[2] / total] if total > 0 else [1 / 3] * 3
        assert_allclose(given_three, expected)


@given(p=probability_matrices(n_classes=3), share=st.floats(0.01, 0.9))
def test_points_put_among_many_classes_come_back(p, share):
    three = ThreeClasses.of(np.arange(6), [5, 1, 2])
    points = p.astype(float) / p.astype(float).sum(axis=1, keepdims=True)
    rows = three.embedded(points, share)
    assert_allclose(rows.sum(axis=1), 1.0)
    assert_allclose(rows[:, [0, 3, 4]], share / 3)
    assert_allclose(three.restricted(rows), points, atol=1e-9)


def test_other_classes_may_keep_their_own_shares():
    three = ThreeClasses.of(np.arange(4), [0, 1, 3])
    rows = three.embedded(np.eye(3), np.array([0.2, 0.1, 0.6, 0.1]))
    assert_allclose(rows, [[0.4, 0, 0.6, 0], [0, 0.4, 0.6, 0], [0, 0, 0.6, 0.4]])


# Predictions by label


def test_points_and_labels_are_those_of_the_rows():
    display = SimplexDisplay.from_predictions(["a", "c", "b"], THREE)
    assert_allclose(display.points, THREE)
    assert display.columns()["label"].tolist() == ["a", "c", "b"]
    assert display.counts.tolist() == [1, 1, 1]


def test_the_order_of_the_chosen_classes_is_that_of_the_corners():
    display = SimplexDisplay.from_predictions(["a", "c", "b"], THREE, classes=["c", "a", "b"])
    assert display.names == ("c", "a", "b")
    assert_allclose(display.points, THREE[:, [2, 0, 1]])
    assert display.labels.tolist() == [1, 0, 2]


def test_rows_of_other_classes_are_left_out():
    p = np.array([[0.4, 0.2, 0.2, 0.2], [0.1, 0.1, 0.1, 0.7], [0.0, 0.3, 0.3, 0.4]])
    display = SimplexDisplay.from_predictions([0, 3, 1], p, classes=[0, 1, 2])
    assert_allclose(display.points, [[0.5, 0.25, 0.25], [0, 0.5, 0.5]])


def test_classes_that_never_occur_are_refused():
    with pytest.raises(LabelError, match="no row has one of the classes 0, 1, 2"):
        SimplexDisplay.from_predictions([3, 3, 3, 3], TEN, classes=[0, 1, 2])


def test_of_many_rows_some_are_drawn_and_all_are_counted():
    labels = np.arange(300) % 3
    display = SimplexDisplay.from_predictions(labels, np.tile(THREE, (100, 1)), max_rows=50)
    assert len(display.points) == 50
    assert display.counts.tolist() == [100, 100, 100]
    assert_allclose(display.points, THREE[display.labels])


def test_one_row_is_enough():
    display = SimplexDisplay.from_predictions([2], THREE[:1])
    assert display.points.shape == (1, 3)


@given(p=probability_matrices(6, 3, dtype=st.just(np.float64)))
def test_the_table_has_one_line_per_row(p):
    data = LabelledPredictions.parse(p, [0, 1, 2, 0, 1, 2])
    columns = SimplexDisplay.from_predictions(data.labels, data.predictions).columns()
    assert {len(values) for values in columns.values()} == {6}
    assert set(columns) == {"p_0", "p_1", "p_2", "label"}
