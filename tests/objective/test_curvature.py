"""Curvatures: exact where they claim to be, positive definite everywhere."""

import numpy as np
import pytest

from calibrant.objective import (
    ArrayRows,
    CrossEntropy,
    DiagonalMap,
    FullMap,
    Objective,
    QuadraticPenalty,
    ScalarMap,
)
from calibrant.objective.curvature import ByClassCurvature, DenseCurvature, KroneckerCurvature, curvature_type

KINDS = {
    DenseCurvature: [ScalarMap, DiagonalMap, FullMap],
    ByClassCurvature: [ScalarMap, DiagonalMap],
    KroneckerCurvature: [FullMap],
}
PAIRS = [(kind, logit_map) for kind, maps in KINDS.items() for logit_map in maps]


def an_expansion(logit_map, penalised=True, seed=0):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(60, logit_map.n_classes))
    labels = generator.integers(logit_map.n_classes, size=60)
    weights = generator.uniform(0.5, 2, 60)
    strengths = np.full(logit_map.n_parameters, 0.2 if penalised else 0.0)
    penalty = QuadraticPenalty(strengths, logit_map.identity())
    objective = Objective(CrossEntropy(), logit_map, ArrayRows(features, labels, weights), penalty)
    return objective.expand(0.7 * logit_map.identity())


def curvature_of(kind, expansion):
    objective = expansion.objective
    probabilities, features = expansion.states, objective.rows.features
    weighted = probabilities * objective.rows.weights[:, np.newaxis]
    parts = [
        kind.of_block(objective.map, probabilities[rows], weighted[rows], features[rows])
        for rows in (slice(0, 25), slice(25, 60))
    ]
    return (parts[0] + parts[1]).averaged(objective.total_weight)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [ScalarMap, DiagonalMap, FullMap])
def test_dense_curvature_is_the_hessian(kind, bias):
    expansion = an_expansion(kind(4, bias))
    n_parameters = expansion.objective.map.n_parameters
    hessian = np.array([expansion.hessian_product(unit) for unit in np.eye(n_parameters)])
    dense = curvature_of(DenseCurvature, expansion).sums[0] + np.diag(expansion.objective.penalty.curvature)
    np.testing.assert_allclose(dense, hessian, atol=1e-14)


def test_the_curvature_of_an_expansion_counts_weights():
    """The same as the sums over blocks with weighted rows, and not as those without."""
    expansion = an_expansion(FullMap(4, True))
    np.testing.assert_allclose(
        expansion.curvature().sums[0], curvature_of(DenseCurvature, expansion).sums[0], rtol=1e-12
    )


def test_kronecker_curvature_is_exact_on_the_diagonal_of_w():
    expansion = an_expansion(FullMap(4, True), penalised=False)
    diagonal = np.flatnonzero(np.eye(4, 5).ravel())
    hessian = np.array([expansion.hessian_product(unit) for unit in np.eye(20)])
    block = curvature_of(KroneckerCurvature, expansion).sums[2]
    np.testing.assert_allclose(block, hessian[np.ix_(diagonal, diagonal)], atol=1e-14)


@pytest.mark.parametrize("penalised", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("kind", "logit_map"), PAIRS)
def test_the_approximate_inverse_is_symmetric_and_positive(kind, logit_map, bias, penalised):
    """Conjugate gradients need both; without a penalty the softmax leaves flat directions."""
    expansion = an_expansion(logit_map(4, bias), penalised)
    solve = curvature_of(kind, expansion).solver(expansion.objective.penalty)
    inverse = np.array([solve(unit) for unit in np.eye(expansion.objective.map.n_parameters)])
    np.testing.assert_allclose(inverse, inverse.T, rtol=1e-5, atol=1e-6 * abs(inverse).max())
    assert np.linalg.eigvalsh((inverse + inverse.T) / 2).min() > 0


def test_a_singular_dense_curvature_is_lifted():
    """All rows alike: rank one, and rounding may make it indefinite; the factorisation still succeeds."""
    matrix = -1e-12 * np.eye(3) + np.ones((3, 3))
    solve = DenseCurvature([matrix]).solver(QuadraticPenalty.none(3))
    assert np.isfinite(solve(np.ones(3))).all()


def test_kronecker_curvature_is_exact_for_equal_rows():
    """If all rows are alike the average of products is the product of averages, off the diagonal of W."""
    logit_map = FullMap(3, True)
    features = np.tile([0.3, -1.0, 0.5], (8, 1))
    penalty = QuadraticPenalty(np.full(12, 0.5), logit_map.identity())
    rows = ArrayRows(features, np.zeros(8, dtype=np.intp))
    objective = Objective(CrossEntropy(), logit_map, rows, penalty)
    expansion = objective.expand(logit_map.identity())
    full = KroneckerCurvature.of_block(logit_map, expansion.states, expansion.states, features).averaged(8)
    off_diagonal = np.flatnonzero(np.eye(3, 4).ravel() == 0)
    residual = np.zeros(12)
    residual[off_diagonal] = np.random.default_rng(0).normal(size=len(off_diagonal))
    classes, between_features = full.sums[0], full.sums[1] / full.sums[3][0]
    exact = np.kron(classes, between_features) + np.diag(penalty.curvature)
    step = full.solver(penalty)(residual)
    np.testing.assert_allclose(step[off_diagonal], np.linalg.solve(exact, residual)[off_diagonal], rtol=1e-6)


def test_the_kind_follows_the_size_of_the_problem():
    assert curvature_type(FullMap(10, True)) is DenseCurvature
    assert curvature_type(FullMap(100, True)) is KroneckerCurvature
    assert curvature_type(DiagonalMap(1000, True)) is ByClassCurvature
