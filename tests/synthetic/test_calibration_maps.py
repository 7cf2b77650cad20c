"""Calibration maps send the simplex into itself and do what their formulas say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from calibrant.errors import ParameterError
from calibrant.synthetic import (
    BlendedMap,
    ClassTemperaturesMap,
    ComposedMap,
    ConfusionMap,
    IdentityMap,
    LogLinearMap,
    RegionMap,
    RotationMap,
    TemperatureMap,
    WavesMap,
    tasks,
)

ROTATED_RATES = ((0.7, 0.3, 0.0), (0.0, 0.7, 0.3), (0.3, 0.0, 0.7))
MAPS = [
    IdentityMap(),
    TemperatureMap(2.0),
    TemperatureMap(0.01),
    TemperatureMap(100.0),
    ClassTemperaturesMap((0.3, 1.0, 3.0), (1.0, 0.0, -20.0)),
    LogLinearMap(((1.0, -2.0, 0.5), (0.0, 1.0, 0.0), (-1.0, 0.0, -1.0)), (0.0, 3.0, -3.0)),
    ConfusionMap(ROTATED_RATES),
    RotationMap(1.0),
    RotationMap(-1.0),
    WavesMap(-2.0, 3.0),
    LogLinearMap(
        ((1e300, -1e300, 0.0), (-1e300, 1e300, 1e300), (1e300, 1e300, -1e300)), (1e300, 0.0, -1e300)
    ),
    ClassTemperaturesMap((1e-300, 1e300, 1.0), (1e300, -1e300, 0.0)),
    WavesMap(1e300, 1e300),
    RegionMap(5, 1.0),
    RegionMap(40, 0.3, random_state=3),
    BlendedMap(TemperatureMap(3.0), 0.25),
    ComposedMap((TemperatureMap(2.0), RotationMap(0.5), ConfusionMap(ROTATED_RATES))),
]
every_map = pytest.mark.parametrize("calibration_map", MAPS, ids=str)
CORNERS_AND_EDGES = np.array(
    [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0, 1e-320, 1], [1 / 3, 1 / 3, 1 / 3]], dtype=float
)


@every_map
@pytest.mark.parametrize("rows", [CORNERS_AND_EDGES, np.random.default_rng(0).dirichlet([0.2] * 3, 50)])
def test_rows_stay_on_the_simplex(calibration_map, rows):
    before = rows.copy()
    truth = calibration_map(rows)
    assert truth.shape == rows.shape
    assert truth.min() >= 0
    assert truth.sum(axis=1) == pytest.approx(1.0, abs=1e-12)
    assert (rows == before).all()
    assert not np.shares_memory(truth, rows)


@settings(max_examples=20)
@given(shares=arrays(float, (4, 3), elements=st.sampled_from([0.0, 1e-300, 1e-9, 0.2, 1.0, 7.0])))
def test_rows_of_any_shares_stay_on_the_simplex(shares):
    shares[shares.sum(axis=1) == 0] = 1.0
    rows = shares / shares.sum(axis=1, keepdims=True)
    for calibration_map in MAPS:
        truth = calibration_map(rows)
        assert truth.min() >= 0
        assert truth.sum(axis=1) == pytest.approx(1.0, abs=1e-12)


@every_map
def test_a_row_does_not_depend_on_the_others(calibration_map):
    rows = np.random.default_rng(1).dirichlet([0.5] * 3, 9)
    alone = np.vstack([calibration_map(row[np.newaxis]) for row in rows])
    assert calibration_map(rows) == pytest.approx(alone, abs=1e-14)


@every_map
def test_maps_are_values(calibration_map):
    again = eval(repr(calibration_map))
    assert again == calibration_map
    assert hash(again) == hash(calibration_map)


def test_temperature_of_one_is_the_identity_and_temperatures_multiply():
    rows = np.random.default_rng(2).dirichlet([0.5] * 4, 20)
    assert TemperatureMap(1.0)(rows) == pytest.approx(rows)
    assert ComposedMap((TemperatureMap(2.0), TemperatureMap(3.0)))(rows) == pytest.approx(
        TemperatureMap(6.0)(rows)
    )


def test_equal_class_temperatures_are_one_temperature_and_one_diagonal_matrix():
    rows = np.random.default_rng(3).dirichlet([0.5] * 3, 20)
    expected = TemperatureMap(1.7)(rows)
    assert ClassTemperaturesMap((1.7,) * 3)(rows) == pytest.approx(expected)
    assert LogLinearMap(tuple(map(tuple, np.eye(3) / 1.7)))(rows) == pytest.approx(expected)


def test_shifts_multiply_the_odds():
    """With b = log 3 for the first class, even odds become three to one."""
    assert ClassTemperaturesMap((1, 1), (np.log(3), 0))([[0.5, 0.5]]) == pytest.approx(
        np.array([[0.75, 0.25]])
    )


def test_rotation_by_its_formula_in_plain_loops():
    rows = np.random.default_rng(4).dirichlet([0.5] * 5, 10)
    expected = np.array(
        [[row[k] * (1 + 0.7 * (row[(k + 1) % 5] - row[(k - 1) % 5])) for k in range(5)] for row in rows]
    )
    assert RotationMap(0.7)(rows) == pytest.approx(expected)


def test_regions_by_plain_loops():
    rows = np.random.default_rng(5).dirichlet([0.5] * 3, 300)
    generator = np.random.default_rng(7)
    centres, points = generator.dirichlet(np.ones(3), 6), generator.dirichlet(np.ones(3), 6)
    nearest = [min(range(6), key=lambda r, row=row: ((row - centres[r]) ** 2).sum()) for row in rows]
    assert RegionMap(6, 0.4, random_state=7)(rows) == pytest.approx(0.6 * rows + 0.4 * points[nearest])
    assert len(set(nearest)) > 1


def test_region_map_jumps():
    """Along a line from corner to corner truth is constant at full strength, but for jumps."""
    line = np.linspace(0, 1, 2001)[:, np.newaxis] * [1, -1, 0] + [0, 1, 0]
    steps = np.abs(np.diff(RegionMap(12, 1.0)(line), axis=0)).sum(axis=1)
    assert 1 <= np.count_nonzero(steps) <= 11


def test_blend_goes_from_the_identity_to_the_map():
    rows = np.random.default_rng(6).dirichlet([0.5] * 3, 5)
    inner = WavesMap(1.0)
    assert BlendedMap(inner, 0.0)(rows) == pytest.approx(rows)
    assert BlendedMap(inner, 1.0)(rows) == pytest.approx(inner(rows))
    assert BlendedMap(inner, 0.5)(rows) == pytest.approx((rows + inner(rows)) / 2)


@pytest.mark.parametrize("n_classes", [2, 7, 1000])
@pytest.mark.parametrize(
    "calibration_map", [IdentityMap(), TemperatureMap(0.01), RotationMap(), WavesMap(), RegionMap()], ids=str
)
def test_maps_without_class_parameters_take_any_number_of_classes(calibration_map, n_classes):
    rows = np.vstack([np.random.default_rng(0).dirichlet(np.full(n_classes, 0.3), 5), np.eye(n_classes)[:2]])
    assert calibration_map.n_classes is None
    assert calibration_map(rows).sum(axis=1) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TemperatureMap(0),
        lambda: TemperatureMap("2"),
        lambda: ClassTemperaturesMap((1.0, -1.0)),
        lambda: ClassTemperaturesMap((1.0, 2.0), (0.0, 0.0, 0.0)),
        lambda: ClassTemperaturesMap((1.0,)),
        lambda: LogLinearMap(((1, 0), (0, 1), (0, 0))),
        lambda: LogLinearMap(((1, np.nan), (0, 1))),
        lambda: LogLinearMap(((1e308, -1e308), (0, 1))),
        lambda: LogLinearMap(((1, 0), (0, 1)), (0.0, -1e308)),
        lambda: ClassTemperaturesMap((1e-310, 1.0)),
        lambda: ConfusionMap(((0.9, 0.2), (0.0, 1.0))),
        lambda: ConfusionMap(((1.1, -0.1), (0.0, 1.0))),
        lambda: RotationMap(1.5),
        lambda: WavesMap(1.0, 0.0),
        lambda: WavesMap(np.inf),
        lambda: WavesMap(-1e308),
        lambda: WavesMap(1.0, 1e308),
        lambda: RegionMap(0),
        lambda: RegionMap(3, 1.1),
        lambda: BlendedMap(IdentityMap(), -0.1),
        lambda: BlendedMap(np.sqrt),
        lambda: ComposedMap(()),
        lambda: ComposedMap((ClassTemperaturesMap((1, 1)), ClassTemperaturesMap((1, 1, 1)))),
        lambda: ClassTemperaturesMap((1, 1))([[0.2, 0.3, 0.5]]),
        lambda: IdentityMap()([0.5, 0.5]),
    ],
)
def test_parameters_without_a_meaning_are_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_named_tasks_are_all_different_and_have_the_classes_they_say():
    named = tasks()
    assert len({task.calibration_map for task in named.values()}) >= len(named) - 1
    assert named["two-classes"].n_classes == 2
    assert named["ten-classes"].n_classes == 10
    assert {task.n_classes for name, task in named.items() if "-classes" not in name} == {3}
