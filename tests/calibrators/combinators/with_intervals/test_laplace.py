"""The normal distribution around a fit: closed forms, and a naive second implementation."""

import interval_rows
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit, logit, softmax

from calibrant import (
    BetaCalibration,
    BiasCorrectedTemperature,
    DirichletCalibration,
    MatrixScaling,
    OneVsRest,
    PiecewiseLinearCalibration,
    PlattScaling,
    Predictions,
    QuadraticScaling,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    WithIntervals,
)
from calibrant.calibrators.combinators.with_intervals.posterior import fitted_family, laplace, n_parameters_of
from calibrant.calibrators.log_odds import LogOdds, normal_quantile
from calibrant.labelled_predictions import LabelledPredictions

Z = normal_quantile(0.95)


def rows_of(n_rows, n_classes, seed=0):
    return interval_rows.rows_of(n_rows, n_classes, seed, shift=0.3)


LOGISTIC = {
    "temperature": TemperatureScaling(),
    "bias": BiasCorrectedTemperature(),
    "vector": VectorScaling(),
    "slopes": VectorScaling(bias=False),
    "dirichlet": DirichletCalibration(None),
    "odir": DirichletCalibration("odir", reg_lambda=0.05, reg_mu=0.02),
    "matrix-l2": MatrixScaling("l2", reg_lambda=0.01, reg_mu=0.02, center="identity"),
    "structured-vector": StructuredScaling("vector", shared_map=False),
    "shared-matrix": StructuredScaling("matrix", n_segments=3),
}
BINARY = {
    "platt": PlattScaling(),
    "platt-probability": PlattScaling("probability"),
    "beta": BetaCalibration(),
    "beta-ab": BetaCalibration("ab"),
    "beta-am": BetaCalibration("am"),
    "beta-a": BetaCalibration("a"),
    "quadratic": QuadraticScaling(),
    "parabola": QuadraticScaling(monotone=False, temperature=False),
    "piecewise-linear": PiecewiseLinearCalibration(n_segments=3),
}
ALL = LOGISTIC | BINARY


def a_fit(name, n_classes, n_rows=150):
    p, y = rows_of(n_rows, n_classes)
    fitted = ALL[name].fit(p, y)
    return fitted, fitted_family(fitted), LabelledPredictions.parse(p, y)


# Closed forms


def test_the_log_odds_of_temperature_scaling_vary_as_the_score_times_beta():
    """Two classes, u = beta s: Var(logit) = s^2 / sum(q (1 - q) s^2) by the model, whatever the row."""
    p, y = rows_of(400, 2)
    fitted = WithIntervals(TemperatureScaling(), covariance="model").fit(p, y)
    beta = fitted.calibrator_.inverse_temperature_
    s = logit(p[:, 1])
    deviation = np.abs(s) / np.sqrt((expit(beta * s) * expit(-beta * s) * s**2).sum())
    lower, upper = fitted.predict_interval(p)
    assert_allclose(lower[:, 1], expit(beta * s - Z * deviation), rtol=1e-6)
    assert_allclose(upper[:, 1], expit(beta * s + Z * deviation), rtol=1e-6)
    assert_allclose(lower[:, 0], 1 - upper[:, 1], atol=1e-12)


def test_platt_scaling_has_the_covariance_of_logistic_regression():
    """(X^T W X)^-1 by the model; with sum of squared gradients in the middle and n / (n - 2) by the sandwich."""
    p, y = rows_of(300, 2)
    columns = np.column_stack([logit(p[:, 1]), np.ones(len(p))])
    for covariance in ("model", "sandwich"):
        fitted = WithIntervals(PlattScaling(), covariance=covariance).fit(p, y)
        inner = fitted.calibrator_
        q = expit(columns @ [inner.slope_, inner.intercept_])
        inverse = np.linalg.inv(sum(w * np.outer(x, x) for w, x in zip(q * (1 - q), columns, strict=True)))
        expected = inverse
        if covariance == "sandwich":
            squares = sum(r**2 * np.outer(x, x) for r, x in zip(q - y, columns, strict=True))
            expected = inverse @ squares @ inverse * 300 / 298
        assert_allclose(fitted.factor_ @ fitted.factor_.T, expected, rtol=1e-6)


def test_three_of_four_right_at_ninety_per_cent():
    """logit(3/4) = ln 3 with variance 1 / (n q (1 - q)) = 16 / 3n, and both covariances agree but for n / (n - 1)."""
    X, y = [[0.9, 0.1]] * 400, [0, 0, 0, 1] * 100
    for covariance, factor in (("model", 1.0), ("sandwich", 400 / 399)):
        fitted = WithIntervals(TemperatureScaling(), covariance=covariance).fit(X, y)
        lower, upper = fitted.predict_interval(X[:1], level=0.9)
        reach = normal_quantile(0.9) * np.sqrt(factor * 16 / 1200)
        assert_allclose([lower[0, 0], upper[0, 0]], expit(np.log(3) + reach * np.array([-1, 1])), rtol=1e-6)


def test_the_delta_method_for_three_classes_follows_finite_differences():
    generator = np.random.default_rng(1)
    u, directions = generator.normal(size=(5, 3)), generator.normal(size=(5, 3, 4))
    found = LogOdds.of(Predictions.from_logits(u)).deviations(directions)
    step = 1e-6
    changes = np.stack(
        [
            (logit(softmax(u + step * directions[:, :, r], axis=1)) - logit(softmax(u, axis=1))) / step
            for r in range(4)
        ]
    )
    assert_allclose(found, np.sqrt((changes**2).sum(axis=0)), rtol=1e-4)
    own = np.abs(generator.normal(size=(5, 3)))
    each = np.stack([np.diag(np.sqrt(row)) for row in own])
    log_odds = LogOdds.of(Predictions.from_logits(u))
    assert_allclose(log_odds.independent_deviations(own), log_odds.deviations(each), rtol=1e-12)


def test_a_nearly_certain_class_keeps_its_digits():
    """With all but 1e-18 on one of two classes, both have the same deviation: that of the difference of scores."""
    rows = LogOdds.of(Predictions.from_logits([[0.0, 42.0], [0.0, -700.0]]))
    directions = np.array([[[1.0, 0.0], [0.0, 2.0]]] * 2)
    assert_allclose(rows.deviations(directions), np.sqrt(5.0), rtol=1e-9)


# Against a naive second implementation


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_family_of_a_calibrator_is_its_map(name, n_classes):
    """The scores at the fitted parameters give its probabilities, for rows that were not calibration rows too."""
    fitted, family, _ = a_fit(name, n_classes)
    others = Predictions.parse(rows_of(20, n_classes, seed=5)[0])
    features = family.features(others)
    if isinstance(features, list):
        columns = [c @ event.theta for c, event in zip(features, family.events, strict=True)]
        separate = expit(np.column_stack(columns))
        expected = separate / separate.sum(axis=1, keepdims=True)
    elif n_classes == 2 and name in BINARY:
        expected = np.column_stack([expit(-features @ family.theta), expit(features @ family.theta)])
    else:
        expected = softmax(family.family.map.forward(family.theta, features), axis=1)
    assert_allclose(fitted.predict_proba(others), expected, rtol=1e-6, atol=1e-12)
    assert n_parameters_of(ALL[name], n_classes) == family.n_parameters


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gradients_and_hessians_follow_finite_differences(name, n_classes):
    """Of -ln of each row's own probability, computed from the calibrated rows and the exact changes of the scores."""
    fitted, family, data = a_fit(name, n_classes, n_rows=30)
    features = family.features(data.predictions)
    base = np.log(fitted.predict_proba(data.predictions))
    rows = np.arange(data.n_rows)
    one_vs_rest = isinstance(features, list)

    def losses(change):
        if one_vs_rest:  # K binary losses, as they were minimised
            moved = [
                columns @ (event.theta + change[part])
                for columns, event, part in zip(features, family.events, family._parts, strict=True)
            ]
            happened = data.labels[:, np.newaxis] == np.arange(n_classes)
            return np.logaddexp(0, np.where(happened, -1, 1) * np.column_stack(moved)).sum(axis=1)
        u = base + family.moved(features, change[:, np.newaxis])[:, :, 0]
        return np.log(np.exp(u).sum(axis=1)) - u[rows, data.labels]

    size, step = family.n_parameters, 1e-5
    gradients = np.stack([(losses(step * e) - losses(-step * e)) / (2 * step) for e in np.eye(size)], axis=1)
    assert_allclose(family.gradients(features, data.labels), gradients, atol=1e-6)
    weights = np.linspace(0.5, 2, data.n_rows)
    whole, step = family.information(features, weights), 1e-3
    for first, second in np.random.default_rng(0).normal(size=(4, 2, size)):
        mixed = sum(
            sign * other * losses(step * (sign * first + other * second))
            for sign in (1, -1)
            for other in (1, -1)
        )
        expected = weights @ mixed / (4 * step**2)
        assert first @ whole @ second == pytest.approx(expected, abs=2e-4 * np.abs(whole).max() * size)


@pytest.mark.parametrize("name", LOGISTIC)
def test_the_covariance_is_the_inverse_of_hessian_and_penalty(name):
    """With plain loops over rows, and the pseudo-inverse where the softmax leaves a direction flat.

    What the rows pull a penalised fit by is what the penalty pulls the other way.
    """
    _, family, data = a_fit(name, 3)
    logit_map, features = family.family.map, family.features(data.predictions)
    jacobians = logit_map.row_directions(features, np.eye(family.n_parameters))
    p = softmax(logit_map.forward(family.theta, features), axis=1)
    hessian = family.penalty_hessian(data.total_weight)
    squares, pull = hessian.copy(), np.zeros(family.n_parameters)
    for jacobian, row, label in zip(jacobians, p, data.labels, strict=True):
        hessian = hessian + jacobian.T @ (np.diag(row) - np.outer(row, row)) @ jacobian
        gradient = jacobian.T @ (row - np.eye(3)[label])
        squares = squares + np.outer(gradient, gradient)
        pull = pull + gradient
    inverse = np.linalg.pinv(hessian, rcond=1e-9, hermitian=True)
    rest = np.eye(3) - 1 / 3  # what the softmax sees of the scores
    jacobian = rest @ jacobians[7]
    found = laplace(family, data, "model").factor
    assert_allclose(
        jacobian @ found @ found.T @ jacobian.T, jacobian @ inverse @ jacobian.T, rtol=1e-4, atol=1e-9
    )
    n_determined = np.trace(inverse @ (hessian - family.penalty_hessian(data.total_weight)))
    prior = family.penalty_hessian(data.total_weight)
    middle = (squares - prior) * data.n_rows / (data.n_rows - n_determined) + prior
    if prior.any():  # the bias of the penalty, estimated
        pull[family.theta <= family.lower] = 0
        middle = middle + np.outer(pull, pull)
    found = laplace(family, data, "sandwich").factor
    expected = jacobian @ inverse @ middle @ inverse @ jacobian.T
    assert_allclose(jacobian @ found @ found.T @ jacobian.T, expected, rtol=1e-4, atol=1e-9)


def test_one_against_the_rest_has_covariances_between_classes():
    """The stacked equations in plain loops: blocks of inverse Hessians around the sum of all squared gradients."""
    p, y = rows_of(200, 3)
    fitted = WithIntervals(OneVsRest(PlattScaling())).fit(p, y)
    columns = [np.column_stack([logit(p[:, k]), np.ones(200)]) for k in range(3)]
    maps = [(c.slope_, c.intercept_) for c in fitted.calibrator_.calibrators_]
    q = [expit(x @ m) for x, m in zip(columns, maps, strict=True)]
    inverse = np.zeros((6, 6))
    for k in range(3):
        inverse[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = np.linalg.inv(
            columns[k].T @ np.diag(q[k] * (1 - q[k])) @ columns[k]
        )
    squares = np.zeros((6, 6))
    for row in range(200):
        gradient = np.concatenate([(q[k][row] - (y[row] == k)) * columns[k][row] for k in range(3)])
        squares += np.outer(gradient, gradient)
    expected = inverse @ squares @ inverse * 200 / 194
    covariance = fitted.factor_ @ fitted.factor_.T
    assert_allclose(covariance, expected, rtol=1e-6, atol=1e-12)
    assert np.abs(covariance[:2, 2:]).max() > 0.1 * np.abs(covariance).max()
