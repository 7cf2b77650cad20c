"""Newton-CG: every map on every problem, against closed forms and a general optimiser."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from calibrant.objective import (
    ArrayRows,
    BrierLoss,
    CrossEntropy,
    DiagonalMap,
    FullMap,
    Objective,
    QuadraticPenalty,
    ScalarMap,
)
from calibrant.objective import curvature as curvature_module
from calibrant.solvers import Status, newton_cg

MAPS = [kind(3, bias) for kind, bias in itertools.product([ScalarMap, DiagonalMap, FullMap], [False, True])]


def a_problem(logit_map, loss=None, strength=0.05, n_rows=200, dtype=np.float64):
    generator = np.random.default_rng(11)
    features = generator.normal(scale=1.5, size=(n_rows, logit_map.n_classes)).astype(dtype)
    shares = np.exp(0.6 * features + 0.3 * generator.normal(size=features.shape))
    shares /= shares.sum(axis=1, keepdims=True)
    labels = (shares.cumsum(axis=1) < generator.uniform(size=(n_rows, 1))).sum(axis=1)
    labels = np.minimum(labels, logit_map.n_classes - 1)
    penalty = QuadraticPenalty(np.full(logit_map.n_parameters, strength), logit_map.identity())
    return Objective(loss or CrossEntropy(), logit_map, ArrayRows(features, labels), penalty)


@pytest.mark.parametrize("loss", [CrossEntropy(), BrierLoss()], ids=["log", "brier"])
@pytest.mark.parametrize("logit_map", MAPS, ids=lambda m: f"{type(m).__name__}{m.bias}")
def test_the_optimum_is_that_of_a_general_optimiser(logit_map, loss):
    """BFGS of scipy from the same start; the penalised Brier problem has one minimum near it too."""
    objective = a_problem(logit_map, loss)
    found = newton_cg(objective, logit_map.identity())
    peer = minimize(
        lambda theta: (objective.expand(theta).value, objective.expand(theta).gradient),
        logit_map.identity(),
        jac=True,
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert found.status is Status.CONVERGED
    assert found.value <= peer.fun + 1e-9
    np.testing.assert_allclose(found.theta, peer.x, atol=2e-4)


@pytest.mark.parametrize("strength", [1e-4, 1e-2, 1.0])
def test_the_full_map_is_multinomial_logistic_regression(strength):
    """scikit-learn minimises C sum(loss) + |W|^2 / 2, that is our mean loss + s |W|^2 with C = 1 / (2 n s)."""
    logit_map = FullMap(3, True)
    objective = a_problem(logit_map)
    strengths = np.full((3, 4), strength)
    strengths[:, 3] = 0
    objective = objective.with_penalty(QuadraticPenalty(strengths.ravel(), np.zeros(12)))
    found = newton_cg(objective, logit_map.identity())
    rows = objective.rows
    peer = LogisticRegression(C=1 / (2 * rows.n_rows * strength), tol=1e-10, max_iter=10_000)
    peer.fit(rows.features, rows.labels)
    matrix = logit_map.matrix(found.theta)
    np.testing.assert_allclose(matrix[:, :3], peer.coef_, atol=1e-5)
    np.testing.assert_allclose(
        matrix[:, 3] - matrix[:, 3].mean(), peer.intercept_ - peer.intercept_.mean(), atol=1e-5
    )


@pytest.mark.parametrize("dense", [True, False])
def test_the_preconditioner_changes_the_way_and_not_the_end(dense, monkeypatch):
    monkeypatch.setattr(curvature_module, "DENSE_PARAMETERS", 600 if dense else 0)
    for logit_map in MAPS:
        objective = a_problem(logit_map, strength=1e-3)
        found = newton_cg(objective, logit_map.identity())
        assert found.status is Status.CONVERGED
        assert np.abs(objective.expand(found.theta).gradient).max() < 1e-5


def test_a_curvature_from_next_door_serves_as_well():
    logit_map = FullMap(3, True)
    objective = a_problem(logit_map)
    nearby = objective.expand(0.9 * logit_map.identity()).curvature()
    fresh, borrowed = (
        newton_cg(objective, logit_map.identity()),
        newton_cg(objective, logit_map.identity(), curvature=nearby),
    )
    assert borrowed.value == pytest.approx(fresh.value, abs=1e-9)


def test_without_a_penalty_flat_directions_do_no_harm():
    """Adding a constant to a column of W changes nothing, so the Hessian is singular; the value still converges."""
    objective = a_problem(FullMap(3, True), strength=0.0)
    found = newton_cg(objective, objective.map.identity())
    assert found.status is Status.CONVERGED
    assert np.isfinite(found.theta).all()


def test_separable_rows_end_with_a_loss_of_nothing():
    logit_map = DiagonalMap(2, True)
    features = np.array([[1.0, 0.0], [0.0, 1.0]] * 5)
    objective = Objective(CrossEntropy(), logit_map, ArrayRows(features, np.array([0, 1] * 5)))
    found = newton_cg(objective, logit_map.identity())
    assert found.loss < 1e-7
    assert np.isfinite(found.theta).all()
    assert found.status is Status.RUNNING_AWAY
    assert not found.converged


def test_float32_rows_reach_the_float64_optimum():
    single, double = (a_problem(FullMap(3, True), dtype=dtype) for dtype in (np.float32, np.float64))
    found, wanted = newton_cg(single, single.map.identity()), newton_cg(double, double.map.identity())
    assert found.value == pytest.approx(wanted.value, rel=1e-6)


def test_the_identity_is_kept_where_a_penalty_would_do_harm():
    """Shrinking to zero makes honest predictions uniform: worse than doing nothing, so nothing is done."""
    logit_map = FullMap(2, True)
    generator = np.random.default_rng(2)
    features = generator.normal(scale=2, size=(500, 2))
    shares = 1 / (1 + np.exp(features[:, 0] - features[:, 1]))
    labels = (generator.uniform(size=500) < shares).astype(np.intp)
    penalty = QuadraticPenalty(np.full(6, 1e3), np.zeros(6))
    rows = ArrayRows(features, labels)
    found = newton_cg(Objective(CrossEntropy(), logit_map, rows, penalty), logit_map.identity())
    assert found.status is Status.IDENTITY
    np.testing.assert_array_equal(found.theta, logit_map.identity())
    assert found.loss == found.identity_loss


def test_running_out_of_iterations_is_said():
    objective = a_problem(FullMap(3, True), strength=1e-4)
    found = newton_cg(objective, objective.map.identity(), max_iterations=1)
    assert found.status is Status.OUT_OF_ITERATIONS
    assert not found.converged


def test_scores_of_an_absurd_size_are_not_called_converged():
    """At 1e12 rounding hides every gain; the status must say so unless nothing is left to gain."""
    objective = a_problem(DiagonalMap(3, True), strength=0.0)
    rows = objective.rows.mapped(features=lambda features: 1e12 * features)
    huge = Objective(CrossEntropy(), objective.map, rows)
    found = newton_cg(huge, huge.map.identity())
    assert found.loss <= found.identity_loss
    assert not found.converged or found.decrement <= 1e-6


@pytest.mark.parametrize("logit_map", [DiagonalMap(3, True), FullMap(3, True)], ids=["diagonal", "full"])
@pytest.mark.parametrize("scale", [1e5, 1e7, 1e9, 1e11])
def test_rows_without_curvature_at_the_start_do_not_end_there(logit_map, scale):
    """Probabilities of huge scores are 0 and 1 to rounding; the scale of features does not change the optimum.

    Rounding hides the small gain of the intercepts, but not that of the weights.
    """
    objective = a_problem(logit_map, strength=0.0)
    huge = Objective(
        CrossEntropy(), logit_map, objective.rows.mapped(features=lambda features: scale * features)
    )
    optimum = newton_cg(objective, logit_map.identity())
    without_bias = newton_cg(
        a_problem(type(logit_map)(3, False), strength=0.0), type(logit_map)(3, False).identity()
    )
    found = newton_cg(huge, logit_map.identity())
    assert optimum.loss - 1e-9 <= found.loss <= without_bias.loss + 1e-6
