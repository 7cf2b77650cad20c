"""Parts of structured scaling: the map and its derivatives, the penalty, features, and the objective as a whole."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from calibrant import Predictions
from calibrant.calibrators.structured.shared_segments import (
    MANY_ABOVE,
    RowScales,
    SharedSegments,
    mean_features,
)
from calibrant.calibrators.structured.structured_map import (
    WHOLE_PARAMETERS,
    StructuredCurvature,
    StructuredMap,
    structured_penalty,
)
from calibrant.calibrators.structured.structured_rows import StructuredRows, mixed_scores
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.linear_segments import LinearSegments
from calibrant.objective import ArrayRows, ArraySource, CrossEntropy, Objective

KINDS = [
    (terms, shared) for terms in (None, "vector", "matrix") for shared in (True, False) if terms or shared
]
every_kind = pytest.mark.parametrize(("terms", "shared"), KINDS)


def rows(n_rows=40, n_classes=4, seed=0, spread=2.0):
    generator = np.random.default_rng(seed)
    features = log_softmax(spread * generator.normal(size=(n_rows, n_classes)), axis=1)
    return features, generator.integers(0, n_classes, n_rows), generator.uniform(0.5, 2.0, n_rows)


def structured_map(terms, shared, n_classes=4):
    segments = SharedSegments(LinearSegments(np.array([-2.0, -1.0])), RowScales(np.array([-2.4, -1.6])))
    return StructuredMap(n_classes, segments if shared else None, terms)


def any_theta(logit_map, seed=1):
    noise = 0.2 * np.random.default_rng(seed).normal(size=logit_map.n_parameters)
    return np.maximum(logit_map.identity() + noise, logit_map.lower())


def objective_of(terms, shared, weights=True, **options):
    features, labels, row_weights = rows()
    logit_map = structured_map(terms, shared)
    penalty = structured_penalty(logit_map, 1.0, 2.0, 3.0).times(1 / 40)
    given = ArrayRows(features, labels, row_weights if weights else None)
    return Objective(CrossEntropy(), logit_map, given, penalty, **options)


def naive_scores(theta, x, terms, shared):
    """The formula, number by number."""
    theta, n_classes = list(theta), len(x)
    mean = sum(x) / n_classes
    scores = list(x)
    if shared:
        lowest, middle, highest = theta[:3]
        at_knots = [theta[3], theta[4]]
        theta = theta[5:]
        position = min(max((mean + 2.4) / 0.8, 0.0), 1.0)
        tau = at_knots[0] * (1 - position) + at_knots[1] * position
        for k, value in enumerate(x):
            below, between, above = (
                min(value, -2.0) + 2.0,
                min(max(value, -2.0), -1.0) + 2.0,
                max(value, -1.0) + 1.0,
            )
            scores[k] = lowest * below + middle * between + highest * above + tau * value
    else:
        scores = [0.0] * n_classes
    for k in range(n_classes):
        if terms == "vector":
            scores[k] += theta[k] * x[k] + theta[n_classes + k]
        if terms == "matrix":
            own = theta[k * (n_classes + 1) : (k + 1) * (n_classes + 1)]
            scores[k] += sum(own[j] * x[j] for j in range(n_classes)) + own[-1]
    return np.array(scores)


@every_kind
def test_scores_by_the_formula(terms, shared):
    features, _, _ = rows(10)
    logit_map = structured_map(terms, shared)
    theta = any_theta(logit_map)
    expected = np.array([naive_scores(theta, x, terms, shared) for x in features])
    np.testing.assert_allclose(logit_map.forward(theta, features), expected, rtol=0, atol=1e-12)


@every_kind
def test_the_identity_adds_a_constant_to_the_features(terms, shared):
    features, _, _ = rows()
    logit_map = structured_map(terms, shared)
    added = logit_map.forward(logit_map.identity(), features) - features
    np.testing.assert_allclose(added, 2.0 if shared else 0.0, rtol=0, atol=1e-12)


@every_kind
def test_the_adjoint_is_the_transpose(terms, shared):
    """<c, J d> = <J' c, d> for any c and d, since scores are linear in the parameters."""
    features, _, _ = rows()
    logit_map = structured_map(terms, shared)
    direction = np.random.default_rng(2).normal(size=logit_map.n_parameters)
    cotangent = np.random.default_rng(3).normal(size=features.shape)
    forward = (cotangent * logit_map.forward(direction, features)).sum()
    assert logit_map.adjoint(cotangent, features) @ direction == pytest.approx(forward, rel=1e-12)


@every_kind
def test_the_fisher_matrix_by_its_definition(terms, shared):
    features, _, weights = rows(12)
    logit_map = structured_map(terms, shared)
    size = logit_map.n_parameters
    jacobian = np.stack([logit_map.forward(unit, features) for unit in np.eye(size)], axis=2)
    p = np.exp(log_softmax(np.random.default_rng(4).normal(size=features.shape), axis=1))
    expected = sum(
        weight * J.T @ (np.diag(row) - np.outer(row, row)) @ J
        for weight, J, row in zip(weights, jacobian, p, strict=True)
    )
    fisher = logit_map.fisher(p, p * weights[:, np.newaxis], features)
    np.testing.assert_allclose(fisher, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("shift", [-8.0, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_picked_out_and_all_alike_give_the_same(shift, dtype):
    """Few scores above the first knot are looked up; the places of a block change nothing but the time."""
    x = rows(30, 6)[0].astype(dtype)
    shared = SharedSegments(
        LinearSegments(np.array([-1.0, -0.5]) + shift / 8), RowScales(np.array([-2.5, -1.5]))
    )
    x[:, :5] += dtype(shift)
    assert (shared.places(x).above is None) == ((x > shared.scores.knots[0]).mean() >= MANY_ABOVE)
    slopes, cotangent = np.array([0.5, 2.0, 1.5, 0.1, 0.4]), np.ones_like(x)
    all_alike = shared.places(x)._replace(above=None)
    accuracy = 100 * np.finfo(dtype).eps
    by_columns = np.asfortranarray(x)
    for places in (shared.places(x), all_alike):
        values = shared.values(slopes, x, places)
        assert values.dtype == dtype
        np.testing.assert_array_equal(shared.values(slopes, by_columns, places), values)
        np.testing.assert_allclose(
            shared.adjoint(x, by_columns, places), shared.adjoint(x, x, places), rtol=1e-5, atol=1e-3
        )
        expected = np.tensordot(slopes, shared.features(x), axes=1)
        np.testing.assert_allclose(values, expected, rtol=accuracy, atol=10 * accuracy)
        expected = np.einsum("mik,ik->m", shared.features(x), cotangent)
        np.testing.assert_allclose(
            shared.adjoint(cotangent, x, places), expected, rtol=accuracy, atol=accuracy * np.abs(x).sum()
        )


@every_kind
@pytest.mark.parametrize("weights", [True, False])
def test_gradient_against_finite_differences(terms, shared, weights):
    objective = objective_of(terms, shared, weights)
    theta = any_theta(objective.map)
    numeric = approx_fprime(theta, lambda theta: objective.expand(theta).value, 1e-7)
    np.testing.assert_allclose(objective.expand(theta).gradient, numeric, rtol=0, atol=2e-6)


@every_kind
@pytest.mark.parametrize("weights", [True, False])
def test_hessian_products_against_differences_of_gradients(terms, shared, weights):
    objective = objective_of(terms, shared, weights)
    theta = any_theta(objective.map)
    direction = np.random.default_rng(5).normal(size=len(theta))
    ahead, behind = (objective.expand(theta + step * direction).gradient for step in (1e-5, -1e-5))
    product = objective.expand(theta).hessian_product(direction)
    np.testing.assert_allclose(product, (ahead - behind) / 2e-5, rtol=0, atol=1e-8)


@every_kind
def test_the_whole_curvature_is_the_hessian(terms, shared):
    """Solving with it undoes a Hessian product, up to the ridge of one part in 10^9."""
    objective = objective_of(terms, shared)
    expansion = objective.expand(any_theta(objective.map))
    direction = np.random.default_rng(6).normal(size=objective.map.n_parameters)
    solve = expansion.curvature().solver(objective.penalty)
    np.testing.assert_allclose(solve(expansion.hessian_product(direction)), direction, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("terms", "n_classes"), [("vector", 320), ("matrix", 26)])
def test_a_parted_curvature_is_positive_definite_and_exact_for_the_slopes(terms, n_classes):
    features, labels, weights = rows(60, n_classes)
    logit_map = structured_map(terms, True, n_classes)
    assert logit_map.n_parameters > WHOLE_PARAMETERS
    penalty = structured_penalty(logit_map, 1.0, 1.0, 1.0).times(1 / 60)
    objective = Objective(CrossEntropy(), logit_map, ArrayRows(features, labels, weights), penalty)
    expansion = objective.expand(any_theta(logit_map))
    solve = expansion.curvature().solver(objective.penalty)
    units = np.eye(logit_map.n_parameters)[[0, 1, 3, 7, 90, 500]]
    inverse = np.array([solve(unit) for unit in units])[:, [0, 1, 3, 7, 90, 500]]
    np.testing.assert_allclose(inverse, inverse.T, rtol=0, atol=1e-12)
    assert np.linalg.eigvalsh(inverse).min() > 0
    size = logit_map.n_slopes
    slopes = np.zeros(logit_map.n_parameters)
    slopes[:size] = np.arange(1, size + 1)
    back = solve(expansion.hessian_product(slopes))[:size]
    np.testing.assert_allclose(back, slopes[:size], rtol=1e-6)


def test_two_parts_of_the_rows_add_up_to_the_curvature_of_all():
    objective = objective_of("matrix", True)
    p = objective.expand(objective.map.identity()).states
    parts = [
        StructuredCurvature.of_block(objective.map, p[rows], p[rows], objective.rows.features[rows])
        for rows in (slice(0, 15), slice(15, 40), slice(0, 40))
    ]
    np.testing.assert_allclose((parts[0] + parts[1]).dense, parts[2].dense, rtol=1e-12)


@every_kind
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), share=st.floats(0.05, 0.95))
def test_the_objective_is_convex(terms, shared, seed, share):
    objective = objective_of(terms, shared)
    generator = np.random.default_rng(seed)
    first, second = generator.normal(size=(2, objective.map.n_parameters))
    between = objective.expand(share * first + (1 - share) * second).value
    ends = share * objective.expand(first).value + (1 - share) * objective.expand(second).value
    assert between <= ends + 1e-12


def test_the_penalty_by_its_formula():
    """Three slopes and two of rows, of four times the price; K = 4 classes; on the sum of losses, or on their mean."""
    logit_map = structured_map("matrix", True)
    theta = any_theta(logit_map)
    of_sum = structured_penalty(logit_map, 0.7, 2.0, 3.0)
    penalty = of_sum.times(1 / 50)
    s, t, own = theta[:3], theta[3:5], theta[5:].reshape(4, 5)
    v, off = np.diag(own), own[:, :4] - np.diag(np.diag(own))
    expected = 2 * ((s - 1) ** 2).sum() + 3 * ((s[1] - s[0]) ** 2 + (s[2] - s[1]) ** 2)
    expected += 4 * (2 * (t**2).sum() + 3 * (t[1] - t[0]) ** 2)
    expected += 0.7 * (4 * (v**2).sum() + 4 * (own[:, 4] ** 2).sum() + 12 * (off**2).sum())
    assert of_sum.value(theta) == pytest.approx(expected, rel=1e-12)
    assert penalty.value(theta) == pytest.approx(expected / 50, rel=1e-12)
    numeric = approx_fprime(theta, penalty.value, 1e-7)
    np.testing.assert_allclose(penalty.gradient(theta), numeric, rtol=0, atol=1e-6)
    hessian = penalty.hessian()
    np.testing.assert_allclose(
        hessian @ (theta - penalty.center), penalty.gradient(theta), rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(penalty.product(theta), hessian @ theta, atol=1e-12)
    np.testing.assert_allclose(penalty.curvature, np.diag(hessian), atol=1e-15)
    np.testing.assert_array_equal(penalty.hessian(7), hessian[:7, :7])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("share", [0.0, 1e-3, 1e-200])
def test_mixed_scores_of_logits_and_of_their_softmax(dtype, share):
    """Of logits that are hundreds apart the softmax is zero, and the logarithm of the mixture is not."""
    logits = np.array([[0.0, -1.0, 2.0], [500.0, 0.0, -500.0]], dtype)
    x = mixed_scores(0.5, share)(Predictions.from_logits(logits))
    assert x.dtype == dtype
    q = np.exp(log_softmax(0.5 * logits.astype(np.float64), axis=1))
    mixed = (1 - share) * q + share / 3
    # The smallest number of float64 is exp(-745); the logarithms of the second row are above that.
    np.testing.assert_allclose(x, np.log(mixed), rtol=0, atol=3e-4 if dtype is np.float32 else 1e-12)


def test_mixed_scores_stay_finite_at_the_ends_of_float32():
    largest = np.finfo(np.float32).max
    logits = Predictions.from_logits(np.array([[largest / 4, -largest / 4]], np.float32))
    for share in (0.0, 1e-3):
        assert np.isfinite(mixed_scores(1000.0, share)(logits)).all()


def test_means_by_their_formula():
    x = rows(20)[0]
    np.testing.assert_allclose(mean_features(x), x.mean(axis=1), rtol=1e-12)


def test_knots_part_information_and_rows_evenly():
    """A third of q (1 - q) lies in each of three segments; two knots of means are the middles of two halves."""
    features, labels, _ = rows(4000, 5)
    data = LabelledPredictions.parse(np.exp(features), labels)
    found = StructuredRows.of(ArraySource(data), 1.0, True, n_segments=3, row_knots=2)
    segments, x = found.segments, found.rows.features
    q = np.exp(x)
    information = np.histogram(x, [-np.inf, *segments.scores.knots, np.inf], weights=q * (1 - q))[0]
    np.testing.assert_allclose(information / information.sum(), 1 / 3, atol=2e-3)
    expected = np.quantile(mean_features(x), [0.25, 0.75])
    np.testing.assert_allclose(segments.rows.knots, expected, atol=5e-3)


def test_rows_of_one_mean_have_no_knots():
    data = LabelledPredictions.parse([[0.7, 0.2, 0.1], [0.1, 0.7, 0.2], [0.2, 0.1, 0.7]] * 5, [0, 1, 0] * 5)
    assert StructuredRows.of(ArraySource(data), 1.0, True, n_segments=4, row_knots=3).segments.rows is None
