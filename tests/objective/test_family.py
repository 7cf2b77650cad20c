"""Families of all parametric methods: derivatives by finite differences, and the defaults of maps by overrides."""

import itertools
import warnings
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant import Predictions, StructuredScaling, TemperatureScaling, registry
from calibrant.calibrators.parametric import EventScaling, Parametric, as_targets
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import (
    ArrayRows,
    BrierLoss,
    CrossEntropy,
    DiagonalMap,
    EventMap,
    Family,
    FullMap,
    LogisticLoss,
    LogitMap,
    Objective,
    QuadraticPenalty,
    ScalarMap,
    logits,
)

STEP = 1e-5
N_ROWS = 60

METHODS = {
    name: method
    for name, method in ((name, registry.make(name)) for name in registry.calibrators())
    if isinstance(method, Parametric)
} | {"temperature, Brier score": TemperatureScaling("brier")}

every_family = pytest.mark.parametrize(
    ("name", "n_classes"), list(itertools.product(METHODS, [2, 3])), ids=str
)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


def rows_of(n_classes, weighted):
    generator = np.random.default_rng(n_classes)
    p = generator.dirichlet(np.full(n_classes, 0.8), N_ROWS)
    y = (0.6 * np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)
    y[: 3 * n_classes] = np.arange(3 * n_classes) % n_classes  # all classes occur, in every fold
    return LabelledPredictions.parse(p, y, generator.uniform(0.5, 2.0, N_ROWS) if weighted else None)


@cache
def family_and_rows(name, n_classes, weighted=False):
    """The family of a fitted method, around the knots, temperatures and strengths that the fit found, and its rows.

    Methods for one event have one family for every class; of more than two classes, the last one against the rest.
    """
    data = rows_of(n_classes, weighted)
    with warnings.catch_warnings(action="ignore"):  # so few rows need not have an optimum
        fitted = METHODS[name].fit_labelled(data)
    predictions, labels = data.predictions, data.labels
    if isinstance(fitted, EventScaling):
        if n_classes > 2:
            fitted = fitted.one_vs_rest_.calibrators_[-1]
            p = predictions.probabilities
            predictions = Predictions.from_probabilities(np.column_stack([1 - p[:, -1], p[:, -1]]))
            labels = (labels == n_classes - 1).astype(np.intp)
        family = fitted.family(2)
        return family, ArrayRows(family.features(predictions), as_targets(labels), data.weights)
    family = fitted.family(n_classes)
    return family, ArrayRows(family.features(predictions), labels, data.weights)


def a_theta(family, seed=5):
    """A place next to the identity, well within the bounds, so that differences can be taken."""
    noise = np.random.default_rng(seed).normal(scale=0.1, size=family.n_parameters)
    return np.maximum(family.map.identity() + noise, family.lower() + 10 * STEP)


def differences(function, theta):
    """Central differences along every parameter, (P, ...)."""
    return np.stack(
        [(function(theta + step) - function(theta - step)) / (2 * STEP) for step in STEP * np.eye(len(theta))]
    )


# Derivatives


@every_family
@weighted_or_not
def test_gradients_and_hessians_follow_finite_differences(name, n_classes, weighted):
    family, rows = family_and_rows(name, n_classes, weighted)
    objective, theta = family.objective(rows), a_theta(family)
    at = objective.second_order(theta)
    values = differences(lambda place: objective.second_order(place).value, theta)
    assert_allclose(at.gradient, values, rtol=1e-6, atol=1e-8)
    slopes = differences(lambda place: objective.second_order(place).gradient, theta)
    assert_allclose(at.hessian, slopes, rtol=1e-6, atol=1e-8)


@every_family
@weighted_or_not
def test_an_expansion_agrees_with_the_dense_second_order(name, n_classes, weighted):
    """Value, gradient, Hessian products and mean loss come by another path, which forms no matrix."""
    family, rows = family_and_rows(name, n_classes, weighted)
    objective, theta = family.objective(rows), a_theta(family)
    dense, expansion = objective.second_order(theta), objective.expand(theta)
    assert expansion.value == pytest.approx(dense.value, rel=1e-12)
    assert expansion.data_loss == pytest.approx(objective.data_loss(theta), rel=1e-12)
    assert_allclose(expansion.gradient, dense.gradient, rtol=1e-9, atol=1e-12)
    products = np.stack([expansion.hessian_product(unit) for unit in np.eye(family.n_parameters)])
    assert_allclose(products, dense.hessian, rtol=1e-9, atol=1e-12)


@every_family
def test_hessian_products_follow_differences_of_the_gradient(name, n_classes):
    family, rows = family_and_rows(name, n_classes, weighted=True)
    objective, theta = family.objective(rows), a_theta(family)
    direction = np.random.default_rng(9).normal(size=family.n_parameters)
    ahead, behind = (objective.expand(theta + step * direction).gradient for step in (STEP, -STEP))
    product = objective.expand(theta).hessian_product(direction)
    assert_allclose(product, (ahead - behind) / (2 * STEP), rtol=1e-6, atol=1e-8)


@every_family
@weighted_or_not
def test_the_information_is_the_hessian_of_the_sum_of_losses(name, n_classes, weighted):
    """For likelihoods; of the Brier score it is the Fisher matrix of the same map."""
    family, rows = family_and_rows(name, n_classes, weighted)
    theta = a_theta(family)
    weights = np.ones(N_ROWS) if rows.weights is None else rows.weights
    _, state, _ = family.loss.expand(family.map.forward(theta, rows.features), rows.labels)
    found = family.map.information(state, weights, rows.features)
    loss = family.loss if family.loss.fisher_is_hessian else CrossEntropy()
    objective = Objective(loss, family.map, rows)
    slopes = differences(lambda place: objective.data_expansion(place).gradient, theta)
    assert_allclose(found, slopes * rows.total_weight, rtol=1e-6, atol=1e-6)


@every_family
@weighted_or_not
def test_the_curvature_of_so_few_parameters_is_the_hessian(name, n_classes, weighted):
    """That of a likelihood, without the penalty; of the Brier score it only preconditions."""
    family, rows = family_and_rows(name, n_classes, weighted)
    objective, theta = family.objective(rows), a_theta(family)
    found = objective.expand(theta).curvature()
    dense = found.dense if family.map.curvature_type is not None else found.sums[0]
    if family.loss.fisher_is_hessian:
        assert_allclose(dense, objective.data_expansion(theta).hessian, rtol=1e-9, atol=1e-12)


# Penalties


@every_family
def test_the_penalty_on_the_mean_is_that_on_the_sum_over_the_rows(name, n_classes):
    """What counts in rows does not grow with them; what counts per row does."""
    family, _ = family_and_rows(name, n_classes)
    theta = a_theta(family)
    for total_weight in (7.0, 700.0):
        of_sum, of_mean = family.summed_penalty(total_weight), family.mean_penalty(total_weight)
        assert of_mean.value(theta) * total_weight == pytest.approx(of_sum.value(theta), rel=1e-12)
        twice = family.summed_penalty(total_weight, 2.0).value(theta)
        in_rows = 0.0 if family.penalty_in_rows is None else family.penalty_in_rows.value(theta)
        assert twice == pytest.approx(of_sum.value(theta) + in_rows, rel=1e-12)
    assert family.without_penalty().summed_penalty(7.0).value(theta) == 0


def test_penalties_add_up_and_multiply():
    """By hand: d = (1, 1, 2); 1 + 2 + 3 * 4 = 15 and a coupling of (1 - 1)^2 = 0, or of 2 (1 + 1)^2 = 8."""
    center, theta = np.array([0.0, 1.0, 0.0]), np.array([1.0, 2.0, 2.0])
    differing = QuadraticPenalty(np.array([1.0, 2.0, 3.0]), center, np.array([[1.0, -1.0], [-1.0, 1.0]]))
    summing = QuadraticPenalty(np.zeros(3), center, np.array([[2.0, 2.0], [2.0, 2.0]]))
    plain = QuadraticPenalty(np.ones(3), center)
    assert differing.value(theta) == 15
    assert summing.value(theta) == 8
    assert (differing + summing).value(theta) == 23
    assert (plain + differing).value(theta) == (differing + plain).value(theta) == 21
    assert differing.times(3).value(theta) == 45
    together = differing + plain.times(2) + summing.times(0.5)
    assert_allclose(together.product(theta - center), together.gradient(theta))
    assert_allclose(together.hessian() @ (theta - center), together.gradient(theta))
    assert_array_equal(together.curvature, np.diag(together.hessian()))


# What a family says about itself


@every_family
def test_parameters_bounds_and_identity_fit_together(name, n_classes):
    family, rows = family_and_rows(name, n_classes)
    assert family.lower().shape == family.map.identity().shape == (family.n_parameters,)
    assert (family.map.identity() >= family.lower()).all()
    assert family.is_event == (rows.labels.dtype.kind == "f")
    if family.free_direction is not None:
        assert family.free_direction.shape == (family.n_parameters,)


@every_family
def test_scores_at_the_identity_are_the_features_or_the_log_odds(name, n_classes):
    """Up to a constant of the row, where the map of a score is zero at a knot.

    Events around a temperature have the identity of tempered scores: a line through zero of slope one.
    """
    family, rows = family_and_rows(name, n_classes)
    if not family.contains_identity:
        return
    scores = family.map.forward(family.map.identity(), rows.features)
    if not family.is_event:
        added = scores - rows.features
        assert_allclose(added, added[:, :1] * np.ones(n_classes), atol=1e-9)
        return
    p = rows_of(n_classes, False).predictions.probabilities[:, -1]
    log_odds = np.log(p) - np.log1p(-p)
    ranks = np.argsort(np.argsort(scores))
    assert_array_equal(ranks, np.argsort(np.argsort(log_odds)))
    if family.penalty_in_rows is None:
        assert_allclose(scores, log_odds, rtol=1e-9, atol=1e-9)


def test_an_event_family_is_the_softmax_of_two_scores():
    """log(1 + e^u) - t u is the cross-entropy of (0, u): values, gradients and Hessians are the same."""
    generator = np.random.default_rng(0)
    x, labels, weights = (
        generator.normal(size=30),
        generator.integers(0, 2, 30),
        generator.uniform(0.5, 2, 30),
    )
    design = np.column_stack([x, np.ones(30)])
    event = Family.of_event(lambda _: design, np.array([1.0, 0.0]), np.full(2, -np.inf), bias=True)
    pair = Family(logits, DiagonalMap(2, bias=True))
    theta = np.array([0.7, -0.4])
    mine = event.objective(ArrayRows(design, labels.astype(float), weights)).second_order(theta)
    scores = np.column_stack([np.zeros(30), x])
    theirs = pair.objective(ArrayRows(scores, labels, weights)).second_order(np.array([1.0, 0.7, 0.0, -0.4]))
    own = [1, 3]
    assert mine.value == pytest.approx(theirs.value, rel=1e-13)
    assert_allclose(mine.gradient, theirs.gradient[own], rtol=1e-11)
    assert_allclose(mine.hessian, theirs.hessian[np.ix_(own, own)], rtol=1e-11)


# Defaults of a map against what maps know better


class PlainMap(LogitMap):
    """A map that knows nothing but forward and adjoint of another one."""

    def __init__(self, inner):
        super().__init__(inner.n_classes, inner.bias)
        self.inner = inner

    @property
    def n_parameters(self):
        return self.inner.n_parameters

    def identity(self):
        return self.inner.identity()

    def traced(self, theta, x):
        return self.inner.traced(theta, x)

    def forward(self, theta, features, *prepared):
        return self.inner.forward(theta, features, *prepared)

    def adjoint(self, cotangent, features, *prepared):
        return self.inner.adjoint(cotangent, features, *prepared)


def every_map():
    data = rows_of(3, False)
    simple = [kind(3, bias) for kind in (ScalarMap, DiagonalMap, FullMap) for bias in (True, False)]
    kinds = [(terms, shared) for terms in (None, "vector", "matrix") for shared in (True, False)]
    structured = [
        StructuredScaling(terms, shared, n_segments=3).fit_labelled(data).logit_map()
        for terms, shared in kinds
        if terms or shared
    ]
    return [*simple, *structured]


MAPS = every_map()
every_kind = pytest.mark.parametrize(
    "logit_map", MAPS, ids=lambda m: f"{type(m).__name__}-{m.bias}-{m.n_parameters}"
)


@every_kind
def test_products_with_jacobians_are_those_of_the_defaults(logit_map):
    generator = np.random.default_rng(0)
    features, changes = generator.normal(size=(7, 3)), generator.normal(size=(logit_map.n_parameters, 4))
    cotangent, plain = generator.normal(size=(7, 3)), PlainMap(logit_map)
    assert_allclose(logit_map.jacobian(features), plain.jacobian(features), atol=1e-12)
    moved = logit_map.row_directions(features, changes)
    assert_allclose(moved, plain.row_directions(features, changes), atol=1e-12)
    assert_allclose(moved, np.einsum("ikp,pr->ikr", plain.jacobian(features), changes), atol=1e-12)
    adjoints = logit_map.row_adjoints(cotangent, features)
    assert_allclose(adjoints, plain.row_adjoints(cotangent, features), atol=1e-12)
    assert_allclose(adjoints.sum(axis=0), logit_map.adjoint(cotangent, features), atol=1e-12)


@every_kind
def test_the_fisher_matrix_is_that_of_the_defaults(logit_map):
    """And, of both, the definition in plain loops."""
    generator = np.random.default_rng(0)
    features, p = generator.normal(size=(7, 3)), generator.dirichlet(np.ones(3), 7)
    plain, weights = PlainMap(logit_map), np.linspace(1, 2, 7)
    expected = sum(
        weight * jacobian.T @ (np.diag(row) - np.outer(row, row)) @ jacobian
        for weight, jacobian, row in zip(weights, plain.jacobian(features), p, strict=True)
    )
    weighted = p * weights[:, np.newaxis]
    assert_allclose(logit_map.fisher(p, weighted, features), expected, atol=1e-12)
    assert_allclose(plain.fisher(p, weighted, features), expected, atol=1e-12)
    assert_allclose(logit_map.information(p, weights, features), expected, atol=1e-12)
    assert_allclose(plain.information(p, weights, features), expected, atol=1e-12)


@every_kind
@pytest.mark.parametrize("loss", [CrossEntropy(), BrierLoss()], ids=["log", "brier"])
@weighted_or_not
def test_the_second_order_is_that_of_the_defaults(logit_map, loss, weighted):
    generator = np.random.default_rng(1)
    weights = generator.uniform(0.5, 2, 20) if weighted else None
    features, labels = generator.normal(size=(20, 3)), generator.integers(0, 3, 20)
    theta = logit_map.identity() + generator.normal(scale=0.2, size=logit_map.n_parameters)
    own, plain = (
        Objective(loss, each, ArrayRows(features, labels, weights)).second_order(theta)
        for each in (logit_map, PlainMap(logit_map))
    )
    assert own.value == pytest.approx(plain.value, rel=1e-12)
    assert_allclose(own.gradient, plain.gradient, atol=1e-12)
    assert_allclose(own.hessian, plain.hessian, atol=1e-12)


@weighted_or_not
def test_the_second_order_of_an_event_is_that_of_the_defaults(weighted):
    """Sums of logarithms as logarithms of products, and products row by row."""
    generator = np.random.default_rng(2)
    design, targets = generator.normal(scale=3, size=(2500, 3)), generator.uniform(size=2500)
    weights = generator.uniform(0.5, 2, 2500) if weighted else None
    event = EventMap(np.ones(3), np.zeros(3))
    theta = np.array([0.5, -1.0, 2.0])
    block = ArrayRows(design, targets, weights).block(slice(0, 2500))
    own = event.second_order(theta, LogisticLoss(), block)
    plain = LogitMap.second_order(event, theta, LogisticLoss(), block)
    assert_allclose(own, plain, rtol=1e-10)


def test_the_information_of_a_nearly_certain_row_keeps_its_digits():
    """Of p = (1 - e, e), e = 1e-20, in class 2 the information is e; a difference of 1 and 1 - e would be zero."""
    for logit_map in (ScalarMap(2, True), DiagonalMap(2, True), FullMap(2, True)):
        found = logit_map.information(np.array([[1.0, 1e-20]]), np.ones(1), np.array([[2.0, 1.0]]))
        jacobian = logit_map.jacobian(np.array([[2.0, 1.0]]))[0]
        expected = 1e-20 * np.outer(jacobian[0] - jacobian[1], jacobian[0] - jacobian[1])
        assert_allclose(np.diag(found), np.diag(expected), rtol=1e-9, atol=1e-40)
