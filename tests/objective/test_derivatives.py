"""Gradients and Hessian products against finite differences, for every loss, map and penalty."""

import itertools

import numpy as np
import pytest

from calibrant.calibrators.scaling.affine import affine_penalty
from calibrant.objective import (
    ArrayRows,
    BrierLoss,
    CrossEntropy,
    DiagonalMap,
    FullMap,
    LogisticLoss,
    Objective,
    QuadraticPenalty,
    ScalarMap,
)

LOSSES = [CrossEntropy(), BrierLoss()]
MAPS = [kind(4, bias) for kind, bias in itertools.product([ScalarMap, DiagonalMap, FullMap], [False, True])]
PENALTIES = ["none", "l2", "odir"]
STEP = 1e-5


def penalty_for(name, logit_map):
    """L2 for any map; ODIR where there is an off-diagonal (without bias: its last column dropped)."""
    n_parameters = logit_map.n_parameters
    if name == "none":
        return QuadraticPenalty.none(n_parameters)
    if name == "odir" and isinstance(logit_map, FullMap):
        full = affine_penalty("odir", logit_map.n_classes, 2.0, 3.0)
        columns = logit_map.n_classes + logit_map.bias
        strengths = full.strengths.reshape(logit_map.n_classes, -1)[:, :columns].ravel()
        return QuadraticPenalty(strengths, logit_map.identity())
    return QuadraticPenalty(np.linspace(0.1, 0.7, n_parameters), logit_map.identity())


def an_objective(loss, logit_map, penalty, weighted, dtype=np.float64, n_rows=40, seed=3):
    generator = np.random.default_rng(seed)
    features = generator.normal(scale=2, size=(n_rows, logit_map.n_classes)).astype(dtype)
    labels = generator.integers(logit_map.n_classes, size=n_rows)
    weights = generator.uniform(0.5, 2, n_rows) if weighted else None
    rows = ArrayRows(features, labels, weights)
    return Objective(loss, logit_map, rows, penalty_for(penalty, logit_map))


def a_theta(logit_map, seed=5):
    return logit_map.identity() + np.random.default_rng(seed).normal(scale=0.3, size=logit_map.n_parameters)


def describe(part):
    return f"{type(part).__name__}{getattr(part, 'bias', '')}"


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("logit_map", MAPS, ids=describe)
@pytest.mark.parametrize("loss", LOSSES, ids=describe)
class TestDerivatives:
    def test_gradient_is_the_slope_of_the_value(self, loss, logit_map, penalty, weighted):
        objective = an_objective(loss, logit_map, penalty, weighted)
        theta = a_theta(logit_map)
        numeric = [
            (objective.expand(theta + step).value - objective.expand(theta - step).value) / (2 * STEP)
            for step in STEP * np.eye(logit_map.n_parameters)
        ]
        np.testing.assert_allclose(objective.expand(theta).gradient, numeric, rtol=1e-6, atol=1e-9)

    def test_hessian_product_is_the_slope_of_the_gradient(self, loss, logit_map, penalty, weighted):
        objective = an_objective(loss, logit_map, penalty, weighted)
        theta = a_theta(logit_map)
        direction = np.random.default_rng(9).normal(size=logit_map.n_parameters)
        forward, backward = (objective.expand(theta + sign * STEP * direction).gradient for sign in (1, -1))
        product = objective.expand(theta).hessian_product(direction)
        np.testing.assert_allclose(product, (forward - backward) / (2 * STEP), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("logit_map", MAPS, ids=describe)
@pytest.mark.parametrize("loss", LOSSES, ids=describe)
def test_value_agrees_with_a_naive_loop(loss, logit_map):
    """Row by row with Python's own arithmetic: forward map, softmax, loss, weighted mean."""
    objective = an_objective(loss, logit_map, "l2", weighted=True, n_rows=7)
    theta = a_theta(logit_map)
    n_classes, total, rows = logit_map.n_classes, 0.0, objective.rows
    for features, label, weight in zip(rows.features, rows.labels, rows.weights, strict=True):
        scores = []
        for k in range(n_classes):
            if isinstance(logit_map, ScalarMap):
                score = theta[0] * features[k] + (theta[1 + k] if logit_map.bias else 0)
            elif isinstance(logit_map, DiagonalMap):
                score = theta[k] * features[k] + (theta[n_classes + k] if logit_map.bias else 0)
            else:
                row = theta.reshape(n_classes, -1)[k]
                score = sum(row[j] * features[j] for j in range(n_classes)) + (
                    row[-1] if logit_map.bias else 0
                )
            scores.append(np.exp(score))
        share = [score / sum(scores) for score in scores]
        if isinstance(loss, CrossEntropy):
            total -= weight * np.log(share[label])
        else:
            total += weight * sum((share[k] - (k == label)) ** 2 for k in range(n_classes))
    expected = total / sum(rows.weights) + sum(
        s * (t - c) ** 2
        for s, t, c in zip(objective.penalty.strengths, theta, objective.penalty.center, strict=True)
    )
    assert objective.expand(theta).value == pytest.approx(expected, rel=1e-12)
    assert objective.data_loss(theta) == pytest.approx(objective.expand(theta).data_loss, rel=1e-13)


@pytest.mark.parametrize("logit_map", MAPS, ids=describe)
def test_identity_parameters_leave_the_scores_alone(logit_map):
    features = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_array_equal(logit_map.forward(logit_map.identity(), features), features)


@pytest.mark.parametrize("logit_map", MAPS, ids=describe)
def test_adjoint_is_the_transpose_of_forward(logit_map):
    """<forward(theta), c> = <theta, adjoint(c)>, since forward is linear in theta."""
    generator = np.random.default_rng(1)
    features, cotangent = generator.normal(size=(2, 6, 4))
    theta = generator.normal(size=logit_map.n_parameters)
    left = (logit_map.forward(theta, features) * cotangent).sum()
    assert left == pytest.approx(theta @ logit_map.adjoint(cotangent, features), rel=1e-12)


def test_blocks_add_up_to_the_whole():
    """The contribution of two halves, added, is that of all rows: what a cluster would do."""
    objective = an_objective(CrossEntropy(), FullMap(4, True), "none", weighted=True)
    theta = a_theta(objective.map)
    first, second = (objective.rows.block(rows) for rows in (slice(0, 13), slice(13, 40)))
    halves = objective.block_expansion(theta, first) + objective.block_expansion(theta, second)
    whole = objective.expand(theta)
    assert halves.value / objective.total_weight == pytest.approx(whole.data_loss, rel=1e-14)
    np.testing.assert_allclose(halves.gradient / objective.total_weight, whole.gradient, rtol=1e-12)


def test_float32_features_give_a_float64_gradient():
    """Value and gradient of float32 features equal those of the same numbers in float64, to the bit of float64."""
    single = an_objective(CrossEntropy(), FullMap(4, True), "odir", weighted=False, dtype=np.float32)
    in_double = single.rows.mapped(features=lambda features: features.astype(np.float64))
    double = Objective(single.loss, single.map, in_double, single.penalty)
    theta = a_theta(single.map)
    np.testing.assert_array_equal(single.expand(theta).gradient, double.expand(theta).gradient)
    np.testing.assert_allclose(
        single.expand(theta).hessian_product(theta), double.expand(theta).hessian_product(theta), rtol=1e-4
    )


def test_threads_do_not_change_the_sum(monkeypatch):
    """Any pool gives the same bits; without one BLAS may use threads of its own and round otherwise."""
    objective = an_objective(CrossEntropy(), DiagonalMap(4, True), "none", weighted=False, n_rows=200_000)
    theta = a_theta(objective.map)
    expansions = []
    for n_threads in ("1", "2", "3"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
        expansions.append(objective.expand(theta))
    alone, two, three = expansions
    assert two.value == three.value
    np.testing.assert_array_equal(two.gradient, three.gradient)
    np.testing.assert_allclose(alone.gradient, two.gradient, rtol=1e-12)


@pytest.mark.parametrize("targets", [np.array([0, 1, 0, 1]), np.array([0.0, 1.0, 0.25, 0.75])], ids=str)
def test_the_logistic_loss_row_by_row(targets):
    """At scores of both zeros, of usual size, and so large that all but one digit of p would be lost."""
    for score in (0.0, -0.0, 1.5, -1.5, 40.0, -40.0, 1e300, -1e300):
        losses, bends, gradients = LogisticLoss().expand(np.full(4, score), targets)
        p, rest = (np.exp(-np.logaddexp(0, sign * score)) for sign in (-1, 1))
        expected = np.logaddexp(0, score) * (1 - targets) + np.logaddexp(0, -score) * targets
        np.testing.assert_allclose(losses, expected, rtol=1e-12, atol=1e-17)
        np.testing.assert_allclose(bends, p * rest, rtol=1e-12)
        # p - t = p (1 - t) - (1 - p) t, in which nothing cancels for outcomes.
        np.testing.assert_allclose(gradients, p * (1 - targets) - rest * targets, rtol=1e-12)
        values = LogisticLoss().values(np.full(4, score), targets)
        np.testing.assert_array_equal(values, losses)
        weights = np.array([1.0, 2.0, 0.5, 3.0])
        for given in (None, weights):
            row_weights = np.ones(4) if given is None else given
            total, pulls, curved = LogisticLoss().sums(np.full(4, score), targets, given)
            assert total == pytest.approx(row_weights @ expected, rel=1e-12, abs=1e-15)
            np.testing.assert_allclose(pulls, gradients * row_weights, rtol=1e-15)
            np.testing.assert_allclose(curved, bends * row_weights, rtol=1e-15)
