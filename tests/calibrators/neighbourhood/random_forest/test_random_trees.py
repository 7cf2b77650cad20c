"""Random trees: a plain loop with the same random numbers, nested sizes, and equal chances for all classes that vary."""

from collections import deque
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant.calibrators.neighbourhood.random_forest import Routes
from calibrant.calibrators.neighbourhood.random_forest.trees import (
    Groups,
    LeafSums,
    Trees,
    grown_trees,
    n_draws,
    place_sums,
    random_splits,
    weighted_targets,
)


def some_points(n_points=60, n_classes=4, seed=0, n_steps=None):
    """Return different predictions, a row for each class; with few steps many classes are constant in small nodes."""
    generator = np.random.default_rng(seed)
    if n_steps is None:
        rows = generator.dirichlet(np.full(n_classes, 0.3), n_points)
    else:
        rows = generator.multinomial(n_steps, np.full(n_classes, 1 / n_classes), n_points) / n_steps
    return np.ascontiguousarray(np.unique(rows, axis=0).T)


def some_draws(points, n_trees, n_bins, growth, seed=1):
    shape = (n_trees, n_draws(n_bins, points.shape[1], growth), 2)
    return np.random.default_rng(seed).random(shape)


def naive_tree(points, draws, n_bins, growth):
    """Grow one tree node by node; return (class, threshold) of every split and the points of every leaf as sets."""
    waiting, splits, leaves, tried = deque([(list(range(points.shape[1])), 0)]), [], [], 0
    depth = n_bins.bit_length() - 1
    while waiting:
        members, level = waiting.popleft()
        stopped = tried == len(draws) if growth == "bins" else level == depth
        if stopped or len(members) == 1:
            leaves.append(frozenset(members))
            continue
        place, height = draws[tried]
        tried += 1
        column = int(place * len(points))
        if growth == "bins" and len({points[column, i] for i in members}) == 1:
            varied = [k for k in range(len(points)) if len({points[k, i] for i in members}) > 1]
            column = varied[int((place * len(points) - column) * len(varied))]
        values = [points[column, i] for i in members]
        threshold = max(values) - height * (max(values) - min(values))
        left = [i for i in members if points[column, i] < threshold]
        if not left:
            leaves.append(frozenset(members))
            continue
        splits.append((column, threshold))
        waiting.append((left, level + 1))
        waiting.append(([i for i in members if points[column, i] >= threshold], level + 1))
    return splits, set(leaves)


@pytest.mark.parametrize("growth", ["bins", "depth"])
@pytest.mark.parametrize("n_bins", [1, 2, 8, 32, 1024])
@pytest.mark.parametrize("n_steps", [None, 3])
def test_all_trees_at_once_are_those_of_a_plain_queue(growth, n_bins, n_steps):
    points = some_points(n_steps=n_steps)
    draws = some_draws(points, 7, n_bins, growth)
    trees, leaves = grown_trees(points, draws, n_bins, growth)
    ends = np.cumsum(trees.n_splits)
    for tree, end in enumerate(ends):
        splits, bins = naive_tree(points, draws[tree], n_bins, growth)
        own = slice(end - trees.n_splits[tree], end)
        assert trees.classes[own].tolist() == [column for column, _ in splits]
        np.testing.assert_array_equal(trees.thresholds[own], [threshold for _, threshold in splits])
        assert {frozenset(np.flatnonzero(leaves[tree] == leaf)) for leaf in set(leaves[tree])} == bins


@settings(max_examples=25, deadline=None)
@given(
    n_points=st.integers(1, 40), n_bins=st.integers(1, 50), n_steps=st.integers(1, 5), seed=st.integers(0, 99)
)
def test_there_are_as_many_bins_as_wanted_or_as_different_predictions(n_points, n_bins, n_steps, seed):
    points = some_points(n_points, 3, seed, n_steps)
    trees, leaves = grown_trees(points, some_draws(points, 5, n_bins, "bins", seed), n_bins, "bins")
    wanted = min(n_bins, points.shape[1])
    np.testing.assert_array_equal(trees.n_splits, wanted - 1)
    assert all(len(set(row)) == wanted for row in leaves.tolist())


@pytest.mark.parametrize("growth", ["bins", "depth"])
def test_a_smaller_tree_is_the_beginning_of_a_larger_one(growth):
    """Rows that stop early in trees of 256 bins are divided as by trees of 8 bins."""
    points = some_points(200)
    draws = some_draws(points, 6, 256, growth)
    large, _ = grown_trees(points, draws, 256, growth)
    small, leaves = grown_trees(points, draws[:, : n_draws(8, 200, growth)], 8, growth)
    assert large.n_splits.sum() > small.n_splits.sum()
    places = Routes(large, points.T).advance(8)
    for stopped, expected in zip(places.T, leaves, strict=True):
        pairs = set(zip(stopped.tolist(), expected.tolist(), strict=True))
        assert len(pairs) == len(set(stopped.tolist())) == len(set(expected.tolist()))


@pytest.mark.parametrize("growth", ["bins", "depth"])
def test_points_find_the_leaf_they_were_put_in(growth):
    points = some_points(150)
    trees, leaves = grown_trees(points, some_draws(points, 9, 64, growth), 64, growth)
    routes = Routes(trees.compact(len(points)), np.ascontiguousarray(points.T))
    for n_bins in (2, 4, 16):  # stops on the way change nothing
        routes.advance(n_bins)
    np.testing.assert_array_equal(routes.advance() - len(trees.classes) - trees.first_leaves, leaves.T)


def test_classes_that_vary_have_equal_chances():
    """Of four classes the first is constant: 1/4 + 1/4 * 1/3 = 1/3 for each of the others."""
    points = np.array([[0.1, 0.1, 0.1], [0.2, 0.5, 0.3], [0.3, 0.1, 0.4], [0.4, 0.3, 0.2]])
    n_groups = 30_000
    groups = Groups(np.tile(np.arange(3), n_groups), np.full(n_groups, 3), np.zeros(n_groups, dtype=np.intp))
    draws = np.random.default_rng(0).random((n_groups, 2))
    splits = random_splits(points, groups, draws, always=True)
    counts = np.bincount(splits.classes, minlength=4)
    assert counts[0] == 0
    np.testing.assert_allclose(counts[1:] / n_groups, 1 / 3, atol=4 * np.sqrt(2 / 9 / n_groups))
    assert ((splits.n_left > 0) & (splits.n_left < 3)).all()


def test_thresholds_are_uniform_between_the_least_and_the_largest_value():
    """Values 0.2, 0.4 and 0.8: the one in the middle goes left with probability (0.8 - 0.4) / (0.8 - 0.2)."""
    points = np.array([[0.2, 0.4, 0.8], [0.8, 0.6, 0.2]])
    n_groups = 30_000
    draws = np.random.default_rng(0).random((n_groups, 2))
    draws[:, 0] = 0
    groups = Groups(np.tile(np.arange(3), n_groups), np.full(n_groups, 3), np.zeros(n_groups, dtype=np.intp))
    n_left = random_splits(points, groups, draws, always=True).n_left
    assert (n_left == 2).mean() == pytest.approx(2 / 3, abs=4 * np.sqrt(2 / 9 / n_groups))


def test_a_threshold_that_rounds_to_the_least_value_still_parts_the_points():
    """One and the next float below it: almost all of the range rounds to the lower one."""
    below = np.nextafter(1.0, 0.0)
    points = np.array([[below, 1.0], [1 - below, 0.0]])
    groups = Groups(np.array([0, 1]), np.array([2]), np.array([0]))
    splits = random_splits(points, groups, np.array([[0.0, 0.99]]), always=True)
    assert splits.n_left.tolist() == [1]


@pytest.mark.parametrize("room", [1, 10**6])
def test_sums_in_leaves_and_above_them_are_those_of_their_points(room):
    """Both forms, kept as sums or as the leaf of every point, against a loop over the points below a place."""
    points = some_points(80)
    trees, leaves = grown_trees(points, some_draws(points, 5, 16, "bins"), 16, "bins")
    generator = np.random.default_rng(3)
    targets, weights = generator.normal(size=(80, 4)), generator.uniform(0.5, 2, 80)
    sums = LeafSums.of(trees, leaves, weighted_targets(targets, weights), room)
    assert (sums.sums is None) == (room > 1)
    everywhere = place_sums(trees, sums.between(0, 5))
    routes = Routes(trees, np.ascontiguousarray(points.T))
    for n_bins in (1, 2, 5, 16):
        places = routes.advance(n_bins)
        for place in np.unique(places):
            (tree,) = set(np.nonzero(places == place)[1].tolist())
            below = places[:, tree] == place
            expected = np.append(weights[below] @ targets[below], weights[below].sum())
            np.testing.assert_allclose(everywhere[place], expected, rtol=1e-12, atol=1e-12)


def test_the_mean_around_one_row_needs_no_sums():
    points = some_points(80)
    trees, leaves = grown_trees(points, some_draws(points, 5, 16, "bins"), 16, "bins")
    generator = np.random.default_rng(3)
    targets, weights = generator.normal(size=(80, 4)), generator.uniform(0.5, 2, 80)
    sums = LeafSums.of(trees, leaves, weighted_targets(targets, weights), 10**6)
    own = leaves[:, 17]
    below = leaves == own[:, np.newaxis]
    expected = np.mean([np.average(targets[row], axis=0, weights=weights[row]) for row in below], axis=0)
    np.testing.assert_allclose(sums.mean_around(own), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("without", [(), (0,), (0, 1)])
def test_blocks_of_trees_are_joined_with_stages_if_all_have_them(without):
    points = some_points(30)
    trees, _ = grown_trees(points, some_draws(points, 5, 8, "bins"), 8, "bins")
    parts = [trees.between(0, 2), trees.between(2, 5)]
    parts = [replace(part, stages=None) if i in without else part for i, part in enumerate(parts)]
    joined = Trees.joined(parts)
    np.testing.assert_array_equal(joined.thresholds, trees.thresholds)
    if without:
        assert joined.stages is None
    else:
        np.testing.assert_array_equal(joined.stages.n_bins, trees.stages.n_bins)
