"""Soft partitions: violations and their gradient, the search, starts, adjustments, and decisions of given losses."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibrators.neighbourhood.decision.repairs import (
    SearchEffort,
    Violation,
    adjustments,
    best_decisions,
    partitions_to_start_from,
    soft_parts,
    worst_loss,
    worst_partition,
)
from calibrant.numerics.row_blocks import BlockSums

STEEPNESS = 40.0


def rows(n_rows=60, n_classes=4, seed=0, spread=0.5):
    """Scores, which may lie outside the simplex, shares of the rows, and residuals times shares."""
    generator = np.random.default_rng([seed, n_rows, n_classes])
    scores = generator.dirichlet(np.full(n_classes, spread), n_rows)
    scores += 0.02 * generator.standard_normal(scores.shape)
    shares = generator.uniform(0.5, 1.5, n_rows)
    shares /= shares.sum()
    labels = np.eye(n_classes)[generator.integers(0, n_classes, n_rows)]
    return scores, shares, (labels - scores) * shares[:, np.newaxis]


def violation_of(scores, residuals, n_blocks=1):
    edges = np.linspace(0, len(scores), n_blocks + 1).astype(int)
    return Violation(scores, residuals, BlockSums([slice(*pair) for pair in pairwise(edges)], None))


def violation_by_loops(scores, residuals, partition):
    total = 0.0
    for part in range(len(partition)):
        mean = np.zeros(scores.shape[1])
        for score, residual in zip(scores, residuals, strict=True):
            exponentials = [np.exp(weights @ score) for weights in partition]
            mean += exponentials[part] / sum(exponentials) * residual
        total += np.sqrt((mean**2).sum())
    return total


def some_weights(n_decisions, n_classes, seed=0, size=5.0):
    return size * np.random.default_rng([seed, 7]).standard_normal((n_decisions - 1, n_classes))


def starts_for(scores, shares, residuals, n_decisions=2, n_searches=2):
    return partitions_to_start_from(
        scores, residuals, shares, n_decisions, STEEPNESS, n_searches, np.random.default_rng(0)
    )


@pytest.mark.parametrize("n_decisions", [2, 3, 5])
@pytest.mark.parametrize("n_blocks", [1, 4])
def test_the_violation_is_that_of_a_double_loop(n_decisions, n_blocks):
    scores, _, residuals = rows()
    weights = some_weights(n_decisions, 4)
    expected = violation_by_loops(scores, residuals, np.vstack([weights, np.zeros(4)]))
    violation = violation_of(scores, residuals, n_blocks)
    assert violation.value(weights) == pytest.approx(expected, rel=1e-12)
    assert violation.value_and_gradient(weights)[0] == pytest.approx(expected, rel=1e-12)


@settings(max_examples=15)
@given(n_decisions=st.integers(2, 4), n_classes=st.integers(2, 6), seed=st.integers(0, 1000))
def test_the_gradient_is_that_of_finite_differences(n_decisions, n_classes, seed):
    scores, _, residuals = rows(30, n_classes, seed)
    violation = violation_of(scores, residuals, 2)
    weights = some_weights(n_decisions, n_classes, seed, size=2.0)
    _, gradient = violation.value_and_gradient(weights)
    step = 1e-5
    for place in np.ndindex(*weights.shape):
        up, down = weights.copy(), weights.copy()
        up[place] += step
        down[place] -= step
        slope = (violation.value(up) - violation.value(down)) / (2 * step)
        assert gradient[place] == pytest.approx(slope, abs=1e-8)


def test_parts_of_any_steepness_are_shares():
    scores, _, residuals = rows()
    for size in (0.0, 1.0, 1e3, 1e6):
        weights = size * some_weights(2, 4)
        parts = soft_parts(scores, np.vstack([weights, np.zeros(4)]))
        assert np.isfinite(parts).all()
        np.testing.assert_allclose(parts.sum(axis=0), 1.0, rtol=0, atol=1e-12)
        value, gradient = violation_of(scores, residuals).value_and_gradient(weights)
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()


def test_no_residual_has_no_violation_and_no_gradient():
    scores, _, residuals = rows()
    value, gradient = violation_of(scores, np.zeros_like(residuals)).value_and_gradient(some_weights(3, 4))
    assert value == 0
    np.testing.assert_array_equal(gradient, 0.0)
    _, largest = worst_partition(
        violation_of(scores, 0 * residuals), [some_weights(2, 4)], STEEPNESS, SearchEffort(2)
    )
    assert largest == 0


@pytest.mark.parametrize("n_decisions", [2, 3])
def test_the_search_beats_all_of_many_random_partitions(n_decisions):
    scores, shares, residuals = rows(200, 3)
    violation = violation_of(scores, residuals)
    starts = starts_for(scores, shares, residuals, n_decisions, 3)
    partition, largest = worst_partition(violation, starts, STEEPNESS, SearchEffort(3))
    assert partition.shape == (n_decisions, 3)
    assert np.abs(partition).max() <= STEEPNESS
    assert violation_by_loops(scores, residuals, partition) == pytest.approx(largest, rel=1e-10)
    generator = np.random.default_rng(1)
    drawn = generator.uniform(-STEEPNESS, STEEPNESS, (1000, n_decisions - 1, 3))
    assert largest > max(violation.value(weights) for weights in drawn)


def test_errors_of_two_signs_are_put_into_two_parts():
    """Rows above 1/2 miss (-0.3, 0.3), those below the opposite, half of all rows each.

    Parted at 1/2, each part has a mean residual of norm 0.15 sqrt(2); every other part mixes signs. Soft boundaries
    leave a little of each sign in the other part.
    """
    first = np.concatenate([np.linspace(0.7, 0.9, 50), np.linspace(0.1, 0.3, 50)])
    scores = np.column_stack([first, 1 - first])
    residuals = np.where(first[:, np.newaxis] > 0.5, [-0.3, 0.3], [0.3, -0.3]) / 100
    starts = starts_for(scores, np.full(100, 0.01), residuals)
    partition, largest = worst_partition(violation_of(scores, residuals), starts, STEEPNESS, SearchEffort(2))
    assert largest == pytest.approx(0.3 * np.sqrt(2), rel=2e-4)
    parts = soft_parts(scores, partition)
    np.testing.assert_allclose(np.sort(parts[:, 0]), [0, 1], atol=1e-3)
    np.testing.assert_allclose(parts[:, 0], parts[::-1, 99], atol=1e-3)


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), n_decisions=st.integers(2, 4))
def test_starts_do_not_depend_on_the_order_of_rows_or_classes(seed, n_decisions):
    scores, shares, residuals = rows(80, 5, seed)
    plain = starts_for(scores, shares, residuals, n_decisions)
    generator = np.random.default_rng(seed)
    of_rows, of_classes = generator.permutation(80), generator.permutation(5)
    permuted = starts_for(
        scores[of_rows][:, of_classes], shares[of_rows], residuals[of_rows][:, of_classes], n_decisions
    )
    for start, other in zip(plain, permuted, strict=True):
        np.testing.assert_allclose(other, start[:, of_classes], rtol=0, atol=1e-6)
        assert np.abs(start).max() == pytest.approx(STEEPNESS / 2)


def test_the_ratio_is_a_weighted_mean_by_loops():
    scores, shares, residuals = rows()
    parts = soft_parts(scores, np.vstack([some_weights(3, 4), np.zeros(4)]))
    found = adjustments(parts, residuals, shares, "ratio")
    for part in range(3):
        above, below = np.zeros(4), 0.0
        for row in range(len(scores)):
            above += parts[part, row] * residuals[row]
            below += parts[part, row] * shares[row]
        np.testing.assert_allclose(found[part], above / below, rtol=1e-12)


def test_least_squares_are_those_of_numpy():
    scores, shares, residuals = rows()
    parts = soft_parts(scores, np.vstack([some_weights(3, 4), np.zeros(4)]))
    roots = np.sqrt(shares)[:, np.newaxis]
    expected = np.linalg.lstsq(parts.T * roots, residuals / roots, rcond=None)[0]
    np.testing.assert_allclose(adjustments(parts, residuals, shares, "least-squares"), expected, atol=1e-10)


def test_hard_parts_have_the_same_adjustment_both_ways_and_an_empty_one_has_none():
    _, shares, residuals = rows()
    parts = np.zeros((3, 60))
    parts[0, :20], parts[2, 20:] = 1, 1
    ratio = adjustments(parts, residuals, shares, "ratio")
    np.testing.assert_allclose(ratio[0], residuals[:20].sum(axis=0) / shares[:20].sum(), rtol=1e-12)
    np.testing.assert_array_equal(ratio[1], 0.0)
    np.testing.assert_allclose(adjustments(parts, residuals, shares, "least-squares"), ratio, atol=1e-12)


def test_memberships_that_are_proportional_are_no_obstacle_to_least_squares():
    """B'B is singular; all of the mean residual m is then added, however it is dealt out to the parts."""
    _, shares, residuals = rows()
    parts = np.vstack([np.full(60, 0.3), np.full(60, 0.7)])
    found = adjustments(parts, residuals, shares, "least-squares")
    np.testing.assert_allclose(parts.T @ found, np.tile(residuals.sum(axis=0), (60, 1)), atol=1e-12)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10_000),
    n_decisions=st.integers(2, 4),
    size=st.sampled_from([0.1, 3.0, 100.0]),
    adjustment=st.sampled_from(["ratio", "least-squares"]),
)
def test_no_adjustment_raises_the_squared_error(seed, n_decisions, size, adjustment):
    scores, shares, residuals = rows(40, 3, seed)
    parts = soft_parts(scores, np.vstack([some_weights(n_decisions, 3, seed, size), np.zeros(3)]))
    found = adjustments(parts, residuals, shares, adjustment)
    missing = residuals / shares[:, np.newaxis]
    before = shares @ (missing**2).sum(axis=1)
    after = shares @ ((missing - parts.T @ found) ** 2).sum(axis=1)
    assert after <= before * (1 + 1e-12)


def test_a_hard_part_lowers_the_squared_error_by_its_share_times_its_mean_squared():
    """Var(X) = E X^2 - (E X)^2, in every part."""
    scores, shares, residuals = rows()
    parts = best_decisions(scores, np.array([[0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0]]))
    found = adjustments(parts, residuals, shares, "ratio")
    missing = residuals / shares[:, np.newaxis]
    gain = shares @ (missing**2).sum(axis=1) - shares @ ((missing - parts.T @ found) ** 2).sum(axis=1)
    assert gain == pytest.approx(((parts @ shares) * (found**2).sum(axis=1)).sum(), rel=1e-10)


def test_best_decisions_are_those_of_a_loop_and_the_first_of_equals():
    scores, _, _ = rows()
    losses = np.random.default_rng(3).standard_normal((3, 4))
    parts = best_decisions(scores, losses)
    for row, score in enumerate(scores):
        expected = [decision @ score for decision in losses]
        assert parts[:, row].tolist() == [float(d == int(np.argmin(expected))) for d in range(3)]
    tied = best_decisions(scores, np.vstack([losses[0], losses[0] + 1e-14, losses[0]]))
    np.testing.assert_array_equal(tied, np.tile([[1.0], [0.0], [0.0]], 60))


def test_the_worst_loss_has_the_largest_violation():
    scores, _, residuals = rows()
    matrices = np.random.default_rng(4).standard_normal((20, 2, 4))
    worst, violation = worst_loss(scores, residuals, matrices)
    all_of_them = [
        sum(np.linalg.norm(residuals[part > 0].sum(axis=0)) for part in best_decisions(scores, losses))
        for losses in matrices
    ]
    assert violation == pytest.approx(max(all_of_them), rel=1e-12)
    np.testing.assert_array_equal(worst, matrices[int(np.argmax(all_of_them))])
