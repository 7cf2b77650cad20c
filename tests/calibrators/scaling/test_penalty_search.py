"""The walk over penalty strengths, on surfaces whose lowest point is known, and what a search keeps."""

from math import log10

import numpy as np
import pytest

from calibrant import DirichletCalibration, MatrixScaling
from calibrant.calibrators.scaling.affine import (
    Fixed,
    Grid,
    Walk,
    affine_penalty,
    natural_strengths,
    parse_strengths,
)
from calibrant.calibrators.scaling.penalty_search import FoldFits, best_of_grid, climb
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import folds_by_content
from calibrant.objective import ArrayRows, FullMap
from calibrant.solvers import Status

ALL_MOVES = [(1, 0), (-1, 0), (0, 1), (0, -1)]


class Surface:
    """Stands in for fits of folds: a loss that is a known function of the strengths."""

    def __init__(self, function):
        self.function = function
        self.losses = {}

    def loss(self, strengths):
        return self.losses.setdefault(strengths, self.function(*(log10(strength) for strength in strengths)))

    def best(self):
        return min(self.losses, key=self.losses.get)


@pytest.mark.parametrize("minimum", [(0, 0), (3, -2), (-4, 5), (1, 0)])
def test_the_bottom_of_a_bowl_is_found_without_trying_everything(minimum):
    surface = Surface(lambda a, b: (a - minimum[0]) ** 2 + (b - minimum[1]) ** 2)
    found = climb(surface, (1.0, 1.0), ALL_MOVES)
    assert found == pytest.approx((10.0 ** minimum[0], 10.0 ** minimum[1]))
    assert len(surface.losses) <= 5 + 2 * (abs(minimum[0] - 1) + abs(minimum[1]))


def test_a_narrow_slanted_valley_is_followed():
    """Neither coordinate alone leads to the bottom; the walk turns at every step."""
    surface = Surface(lambda a, b: (a + b) ** 2 + 0.1 * (a - 2) ** 2)
    found = climb(surface, (1.0, 1.0), ALL_MOVES)
    assert surface.loss(found) <= min(surface.losses.values()) + 1e-12


def test_a_plateau_is_not_crossed():
    """Gains of a millionth of a nat are noise: the walk stays where it begins and looks at its neighbours only."""
    surface = Surface(lambda a, b: -1e-6 * (a + b))
    assert climb(surface, (1.0, 1.0), ALL_MOVES) == (10.0, 1.0)
    assert len(surface.losses) == 5


def test_the_walk_ends_after_so_many_decades():
    surface = Surface(lambda a, b: -a + 0 * b)
    assert climb(surface, (1.0, 1.0), ALL_MOVES, decades=3) == pytest.approx((1000.0, 1.0))


@pytest.mark.parametrize("level", [1e20, np.nan, np.inf])
def test_losses_beyond_measure_end_the_walk(level):
    """Gains drown in a loss of 1e20, and NaN compares with nothing; neither may send the walk in circles."""
    surface = Surface(lambda a, b: level + 0 * a * b)
    climb(surface, (1.0, 1.0), ALL_MOVES)
    assert len(surface.losses) <= 5


def test_a_grid_is_tried_in_full_from_strong_to_weak():
    surface = Surface(lambda a, b: (a - 1) ** 2 + (b + 1) ** 2)
    assert best_of_grid(surface, [1.0, 10.0], [0.1, 1.0]) == (10.0, 0.1)
    assert list(surface.losses) == [(10.0, 1.0), (10.0, 0.1), (1.0, 1.0), (1.0, 0.1)]
    tied = Surface(lambda a, b: a + b)
    assert best_of_grid(tied, [1.0, 10.0], None) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((1.0, 2.0), Fixed(1.0, 2.0)),
        ((np.float64(1), 2), Fixed(1.0, 2.0)),
        ((3.0, None), Fixed(3.0, 3.0)),
        (([1.0], None), Grid([1.0], None)),
        ((1.0, [1.0, 2.0]), Grid([1.0], [1.0, 2.0])),
        ((np.array([1.0, 2.0]), [3.0]), Grid([1.0, 2.0], [3.0])),
        (("auto", "auto"), Walk(None, None, tied=False)),
        (("auto", 0.5), Walk(None, 0.5, tied=False)),
        ((0.5, "auto"), Walk(0.5, None, tied=False)),
        (("auto", None), Walk(None, None, tied=True)),
    ],
)
def test_what_the_two_parameters_ask_for(given, expected):
    assert parse_strengths(*given) == expected


def test_a_grid_in_two_dimensions_is_refused():
    with pytest.raises(ParameterError, match="reg_lambda must be"):
        parse_strengths([[1.0, 2.0]], 1.0)


def test_natural_strengths_price_m_parameters_at_m_over_n():
    """K(K-1) off-diagonal weights at K(K-1)/n each unit square: lambda / (K(K-1)) = K(K-1) / n."""
    reg_lambda, reg_mu = natural_strengths("odir", 10, 5000)
    penalty = affine_penalty("odir", 10, reg_lambda, reg_mu)
    assert penalty.strengths.reshape(10, 11)[0, 1] == pytest.approx(90 / 5000)
    assert penalty.strengths.reshape(10, 11)[0, 10] == pytest.approx(10 / 5000)
    assert natural_strengths("l2", 10, 5000) == pytest.approx((90 / 5000, 10 / 5000))


def some_fits(n_rows=120, dtype=np.float64, *, complementary=False):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(3), size=n_rows).astype(dtype)
    labels = (np.log(p) * 0.6 + generator.gumbel(size=p.shape)).argmax(axis=1)
    data = LabelledPredictions.parse(p, labels)
    rows = ArrayRows(data.predictions.log_probabilities, data.labels)
    folds = folds_by_content((p[:, 0].astype(np.float64),), None, 3)
    logit_map = FullMap(3, True)
    return FoldFits(
        rows,
        [(rows.take(fold.train_rows), rows.take(fold.test_rows)) for fold in folds],
        logit_map,
        lambda a, b: affine_penalty("odir", 3, a, b),
        logit_map.identity(),
        complementary=complementary,
    )


def test_many_rows_are_compared_by_steps_from_a_common_place():
    """The twelve parameters of 70,000 rows are less than 1e-4 nats from the fit to all rows; a weak penalty moves no row.

    A strong one does: its folds are fitted.
    """
    quick, slow = some_fits(70_000, complementary=True), some_fits(70_000)
    weak, strong = (0.01, 0.01), (1e3, 1e3)
    for strengths in (weak, strong):
        assert quick.loss(strengths) == pytest.approx(slow.loss(strengths), abs=1e-7)
    assert list(quick._ends) == [strong]
    for strengths in (weak, strong):
        for one, other in zip(quick.solutions(strengths, 1e-8), slow.solutions(strengths, 1e-8), strict=True):
            assert one.status is other.status is Status.CONVERGED
            np.testing.assert_allclose(one.theta, other.theta, atol=1e-5)


def test_of_equally_near_strengths_the_first_are_gone_on_from():
    """The last digit of a lattice of powers of ten must not change what a search finds."""
    fits = some_fits()
    for strengths in [(10.0, 1.0), (0.1, 1.0), (1.0, 10.0), (1.0, 0.1)]:
        fits.loss(strengths)
    for towards in [(0.0, 0.0), (0.0, 2.0), (2.0, 0.0), (2.0, 2.0)]:
        centre = (float(np.nextafter(1.0, towards[0])), float(np.nextafter(1.0, towards[1])))
        for start, theta in zip(fits._nearest(centre), fits._thetas[10.0, 1.0], strict=True):
            np.testing.assert_array_equal(start.theta, theta)


def test_a_search_keeps_the_softmax_of_two_places_only():
    """Each is as large as all rows, so a long search must not pile them up."""
    fits = some_fits()
    for reg_lambda in (100.0, 10.0, 1.0, 0.1):
        fits.loss((reg_lambda, 1.0))
        assert len(fits._ends) <= 2
    assert len(fits.losses) == 4


def test_the_way_does_not_change_the_answer():
    """Reached from strong or from weak penalties, the exact fits at one place are the same."""
    down, up = some_fits(), some_fits()
    for reg_lambda in (100.0, 1.0):
        down.loss((reg_lambda, 1.0))
    for reg_lambda in (0.01, 1.0):
        up.loss((reg_lambda, 1.0))
    for one, other in zip(down.solutions((1.0, 1.0), 1e-12), up.solutions((1.0, 1.0), 1e-12), strict=True):
        np.testing.assert_allclose(one.theta, other.theta, atol=1e-5)


@pytest.mark.parametrize("kind", [DirichletCalibration, MatrixScaling])
def test_float32_and_float64_rows_choose_the_same(kind):
    """Labels of a matrix map: the losses held out differ by 1e-3 between strengths.

    Where a temperature would do, they differ by less than the fits of the search are exact, and rounding may decide.
    """
    generator = np.random.default_rng(1)
    p = generator.dirichlet(np.ones(4), size=300).astype(np.float32)
    weights = 0.6 * np.eye(4) + 0.25 * generator.normal(size=(4, 4))
    scores = np.log(p) @ weights.T + generator.normal(size=4)
    labels = (scores + generator.gumbel(size=p.shape)).argmax(axis=1)
    single, double = kind(cv=3).fit(p, labels), kind(cv=3).fit(p.astype(np.float64), labels)
    assert single.reg_lambda_ == double.reg_lambda_
    assert single.reg_mu_ == double.reg_mu_
    np.testing.assert_allclose(single.weights_, double.weights_, atol=1e-4)
