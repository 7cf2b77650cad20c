"""Newton's method with dense Hessians, against derivatives and fits of the general objective."""

import numpy as np
import pytest

from calibrant.calibrators.scaling.affine import affine_penalty
from calibrant.calibrators.scaling.dense_affine import DenseFits
from calibrant.objective import ArrayRows, CrossEntropy, FullMap, Objective
from calibrant.solvers import newton_cg


def some_rows(n_rows, n_classes, *, weighted=False):
    generator = np.random.default_rng(n_classes)
    features = 3.0 * generator.normal(size=(n_rows, n_classes))
    labels = (features / 2 + generator.gumbel(size=features.shape)).argmax(axis=1)
    return ArrayRows(features, labels, generator.uniform(0, 3, n_rows) if weighted else None)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n_rows", "n_classes"), [(1, 2), (40, 3), (1100, 7)])
def test_loss_gradient_and_hessian_are_those_of_the_objective(n_rows, n_classes, weighted):
    rows = some_rows(n_rows, n_classes, weighted=weighted)
    logit_map = FullMap(n_classes, bias=True)
    theta = logit_map.identity() + 0.1 * np.random.default_rng(0).normal(size=logit_map.n_parameters)
    fits = DenseFits(rows)
    at, expected = fits.expand(theta), Objective(CrossEntropy(), logit_map, rows).data_expansion(theta)
    assert at.loss == pytest.approx(fits.data_loss(theta), rel=1e-14)
    assert at.loss == pytest.approx(expected.value, rel=1e-12)
    np.testing.assert_allclose(at.gradient, expected.gradient, atol=1e-13)
    np.testing.assert_allclose(fits._hessian_of(at), expected.hessian, atol=1e-13)
    direction = np.linspace(-1, 1, len(theta))
    np.testing.assert_allclose(fits._hessian_product(at, direction), expected.hessian @ direction, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 5, 12])
@pytest.mark.parametrize("name", ["odir", "l2"])
def test_a_path_of_strengths_ends_where_separate_fits_do(n_classes, name):
    """The last step gains less than 1e-6 nats, so the end is far closer than that to the optimum."""
    rows, logit_map = some_rows(300, n_classes, weighted=True), FullMap(n_classes, bias=True)
    fits = DenseFits(rows)
    place = fits.expand(logit_map.identity())
    for strength in (100.0, 1.0, 0.01):
        penalty = affine_penalty(name, n_classes, strength, strength)
        place = fits.fitted(place, penalty)
        exact = newton_cg(Objective(CrossEntropy(), logit_map, rows, penalty), logit_map.identity())
        assert place.loss + penalty.value(place.theta) == pytest.approx(exact.value, abs=1e-8)


def test_impossible_rows_leave_a_finite_loss():
    """Both classes of a row 1e6 nats apart: the true one is impossible, and Newton steps overflow."""
    rows = ArrayRows(np.array([[1e6, -1e6], [-1.0, 1.0], [1.0, -1.0]]), np.array([1, 1, 0]))
    fits = DenseFits(rows)
    start = fits.expand(FullMap(2, bias=True).identity())
    penalty = affine_penalty("l2", 2, 0.1, 0.1)
    end = fits.fitted(start, penalty)
    assert np.isfinite(end.theta).all()
    assert end.loss + penalty.value(end.theta) < 1.0 < start.loss
