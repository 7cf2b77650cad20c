"""Nearest-neighbour calibration: closed forms, a second implementation by loops, ties, the tree, the choice of k."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import NearestNeighbourCalibration, Predictions, registry
from calibrant.calibrators.neighbourhood.nearest_neighbours import (
    NearestMeans,
    NeighbourTreeMeans,
    tree_is_faster,
)
from calibrant.calibrators.neighbourhood.points import KullbackLeibler, SquaredEuclidean
from calibrant.errors import CalibrationWarning, ParameterError
from strategies import probability_matrices

METRICS = {"kl": KullbackLeibler, "euclidean": SquaredEuclidean}
TIE = 1e-12


def distance(metric, row, point):
    if metric == "euclidean":
        return sum((a - b) ** 2 for a, b in zip(row, point, strict=True))
    total = 0.0
    for a, b in zip(row, point, strict=True):
        if a > 0:
            total += a * (np.log(a) - np.log(b)) if b > 0 else np.inf
    return total


def mean_by_loops(metric, row, points, weights, targets, size):
    """Fill a neighbourhood point by point in the order of distance, then share out what is left at its edge."""
    reachable = [
        (distance(metric, row, point), number)
        for number, point in enumerate(points)
        if distance(metric, row, point) < np.inf
    ]
    if not reachable:
        return np.full(targets.shape[1], np.nan)
    total, edge = 0.0, None
    for far, number in sorted(reachable):
        total, edge = total + weights[number], far
        if total >= size * (1 - 1e-12):
            break
    shares = np.zeros(len(points))
    for far, number in reachable:
        if far < edge - TIE:
            shares[number] = weights[number]
    tied = [number for far, number in reachable if abs(far - edge) <= TIE]
    left = min(size - shares.sum(), sum(weights[number] for number in tied))
    for number in tied:
        shares[number] = left * weights[number] / sum(weights[number] for number in tied)
    return shares @ targets / shares.sum()


def some_rows(n_rows, n_classes, seed=0, concentration=0.7):
    generator = np.random.default_rng([seed, n_rows, n_classes])
    probabilities = generator.dirichlet(np.full(n_classes, concentration), n_rows)
    labels = (probabilities.cumsum(axis=1) ** 1.5 < generator.uniform(size=(n_rows, 1))).sum(axis=1)
    return probabilities, labels.clip(max=n_classes - 1)


def test_three_of_four_right_at_ninety_percent():
    """All four rows are neighbours with a mean error of 0.9 - 3/4 = 0.15, which is taken from any prediction."""
    fitted = NearestNeighbourCalibration(n_neighbours=4).fit([[0.9, 0.1]] * 4, [0, 0, 0, 1])
    np.testing.assert_allclose(
        fitted.predict_proba([[0.9, 0.1], [0.7, 0.3]]), [[0.75, 0.25], [0.55, 0.45]], atol=1e-15
    )


def test_equal_labels_give_the_mean_label_of_the_neighbours():
    fitted = NearestNeighbourCalibration(n_neighbours=4, assumption="equal-labels").fit(
        [[0.9, 0.1]] * 4, [0, 0, 0, 1]
    )
    np.testing.assert_allclose(fitted.predict_proba([[0.6, 0.4]]), [[0.75, 0.25]], atol=1e-15)


def test_ties_at_the_edge_share_what_is_left():
    """From (0.5, 0.5) two points are at the same distance; k = 1 takes half of each: targets (1 + 3) / 2."""
    near = NearestMeans(
        SquaredEuclidean(np.array([[0.4, 0.6], [0.6, 0.4], [0.9, 0.1]])),
        np.ones(3),
        np.array([[1.0], [3.0], [50.0]]),
    )
    one, two, three = near.means(np.array([[0.5, 0.5]]), [1, 2, 3])
    np.testing.assert_allclose([one[0, 0], two[0, 0], three[0, 0]], [2, 2, 18], rtol=1e-14)


def test_divergence_takes_the_row_first():
    """KL(p||a) = 0.5 ln(0.25 / 0.09) > KL(p||b) = 0.5 ln(0.25 / 0.16) for p = (0.5, 0.5), and infinite for (1, 0)."""
    points = np.array([[0.9, 0.1], [0.8, 0.2], [1.0, 0.0]])
    near = NearestMeans(KullbackLeibler(points), np.ones(3), np.array([[1.0], [2.0], [50.0]]))
    one, many = near.means(np.array([[0.5, 0.5]]), [1, 3])
    assert one[0, 0] == pytest.approx(2)
    assert many[0, 0] == pytest.approx(1.5)


def test_a_row_without_neighbours_stays_as_it_is():
    """All calibration rows rule the second class out, which makes them infinitely far from a row that does not."""
    X, y = [[1.0, 0.0, 0.0]] * 3 + [[0.0, 0.0, 1.0]] * 3, [0, 0, 2, 2, 2, 1]
    fitted = NearestNeighbourCalibration(n_neighbours=2).fit(X, y)
    np.testing.assert_allclose(fitted.predict_proba([[0.2, 0.3, 0.5]]), [[0.2, 0.3, 0.5]], atol=1e-12)
    assert (fitted.predict_proba(X) > 0).all()


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_means_are_those_of_a_loop(metric, weighted, data):
    """Small counts divided by their sum: zeros, ones and equal distances abound."""
    n_points, n_classes = data.draw(st.integers(1, 12)), data.draw(st.integers(2, 4))
    matrix = data.draw(probability_matrices(n_points + 3, n_classes, st.just(np.float64)))
    points, rows = matrix[:n_points], matrix[n_points:]
    weights = np.ones(n_points)
    if weighted:
        weights = np.array(
            data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.5, 7.0]), min_size=n_points, max_size=n_points))
        )
    targets = np.random.default_rng(0).normal(size=(n_points, n_classes))
    sizes = sorted(set(data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))))
    near = NearestMeans(METRICS[metric](points), weights, targets)
    for size, means in zip(sizes, near.means(rows, sizes), strict=True):
        expected = [mean_by_loops(metric, row, points, weights, targets, size) for row in rows]
        np.testing.assert_allclose(means, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("weighted", [False, True])
def test_few_neighbours_among_many_points_are_those_of_a_loop(metric, weighted):
    """Sizes so far below the number of points that neighbours are listed, and larger ones in the same pass."""
    points, _ = some_rows(300, 3)
    rows, _ = some_rows(12, 3, seed=1)
    weights = np.random.default_rng(2).choice([1.0, 2.0, 3.5], 300) if weighted else np.ones(300)
    targets = np.random.default_rng(3).normal(size=(300, 3))
    for sizes in ([2, 7], [3, 15, 40, 200, 5000]):
        near = NearestMeans(METRICS[metric](points), weights, targets)
        for size, means in zip(sizes, near.means(rows, sizes), strict=True):
            expected = [mean_by_loops(metric, row, points, weights, targets, size) for row in rows]
            np.testing.assert_allclose(means, expected, rtol=0, atol=1e-11)


def test_points_that_all_weigh_two_are_half_as_many_neighbours():
    points, _ = some_rows(100, 3)
    targets = np.random.default_rng(3).normal(size=(100, 3))
    (twice,) = NearestMeans(SquaredEuclidean(points), np.full(100, 2.0), targets).means(points[:9], [11])
    expected = [mean_by_loops("euclidean", row, points, np.full(100, 2.0), targets, 11) for row in points[:9]]
    np.testing.assert_allclose(twice, expected, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_the_calibrator_is_the_formula(metric):
    """The mean error by loops, taken away, cropped by Algorithm 2."""
    X, y = some_rows(60, 3)
    T, _ = some_rows(15, 3, seed=4)
    errors = X - np.eye(3)[y]
    fitted = NearestNeighbourCalibration(metric, 20, epsilon=0.01).fit(X, y)
    expected = []
    for row in T:
        moved = row - mean_by_loops(metric, row, X, np.ones(60), errors, 20)
        clipped = [min(max(entry, 0.01), 0.99) for entry in moved]
        expected.append([entry / sum(clipped) for entry in clipped])
    assert not fitted.identity_kept_
    np.testing.assert_allclose(fitted.predict_proba(T), expected, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_tree_gives_the_same_means(n_classes, weighted):
    points, _ = some_rows(3000, n_classes)
    rows, _ = some_rows(200, n_classes, seed=1)
    generator = np.random.default_rng(3)
    weights = generator.choice([1.0, 2.0], 3000) if weighted else np.ones(3000)
    targets = generator.normal(size=(3000, n_classes))
    tree = NeighbourTreeMeans(points, weights, targets, largest=50)
    near = NearestMeans(SquaredEuclidean(points), weights, targets)
    for by_tree, by_all in zip(tree.means(rows, [1, 8, 50]), near.means(rows, [1, 8, 50]), strict=True):
        np.testing.assert_allclose(by_tree, by_all, rtol=0, atol=1e-12)


def test_the_tree_does_not_overlook_points_at_the_edge():
    """On a grid of multiples of 1/24 every row has many points at equal distances, more than the tree is asked for."""
    counts = np.array([row for row in np.ndindex(25, 25, 25) if sum(row) == 24])
    points, targets = counts / 24, np.random.default_rng(0).normal(size=(len(counts), 3))
    weights = np.ones(len(counts))
    assert tree_is_faster(weights, 3, 8)
    tree = NeighbourTreeMeans(points, weights, targets, largest=8)
    near = NearestMeans(SquaredEuclidean(points), weights, targets)
    for by_tree, by_all in zip(tree.means(points, [2, 8]), near.means(points, [2, 8]), strict=True):
        np.testing.assert_allclose(by_tree, by_all, rtol=0, atol=1e-12)


def test_distances_to_all_points_are_prepared_only_where_the_tree_is_not_enough():
    points, _ = some_rows(500, 3)
    tree = NeighbourTreeMeans(points, np.ones(500), points, largest=8)
    list(tree.means(points[:50], [2, 8]))
    assert "_all" not in vars(tree)
    twice = np.repeat(
        points[:100], 5, axis=0
    )  # five points at every place: the sixth nearest is as near as the seventh
    tree = NeighbourTreeMeans(twice, np.ones(500), twice, largest=6)
    near = NearestMeans(SquaredEuclidean(twice), np.ones(500), twice)
    for by_tree, by_all in zip(tree.means(twice, [3, 6]), near.means(twice, [3, 6]), strict=True):
        np.testing.assert_allclose(by_tree, by_all, rtol=0, atol=1e-12)
    assert "_all" in vars(tree)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("lightest", [5e-324, 1e-310, 1e-300])
def test_a_weight_that_is_next_to_nothing_counts_for_nothing(metric, lightest):
    """The number of such points that make a neighbour is infinite in floating point."""
    X, y = some_rows(200, 3)
    weights = np.r_[lightest, np.ones(199)]
    light = NearestNeighbourCalibration(metric, 30).fit(X, y, weights)
    without = NearestNeighbourCalibration(metric, 30).fit(X[1:], y[1:], weights[1:] * 200 / 199)
    np.testing.assert_allclose(light.predict_proba(X), without.predict_proba(X), rtol=0, atol=1e-12)


def test_neither_the_tree_nor_equal_points_mind_a_weight_that_is_next_to_nothing():
    """All points are needed to be sure of a neighbour, which no tree finds sooner; all of them are all neighbours."""
    points, _ = some_rows(100, 3)
    points = points[np.argsort(-points[:, 0])]
    weights = np.r_[
        1e-310, np.ones(99)
    ]  # of the point in a corner, which is the farthest from some of the others
    assert not tree_is_faster(weights, 3, 2)
    tree = NeighbourTreeMeans(points, weights, points, largest=200)
    near = NearestMeans(SquaredEuclidean(points), weights, points)
    for by_tree, by_all in zip(tree.means(points, [2, 200]), near.means(points, [2, 200]), strict=True):
        np.testing.assert_allclose(by_tree, by_all, rtol=0, atol=1e-12)
    equals = NearestMeans(SquaredEuclidean(points), np.full(100, 1e-300), points)
    np.testing.assert_allclose(next(equals.means(points[:3], [2])), [points.mean(axis=0)] * 3, rtol=1e-12)


def test_the_tree_is_taken_where_classes_and_neighbours_are_few(monkeypatch):
    """And the calibrator gives the same probabilities without it."""
    X, y = some_rows(2000, 3)
    assert tree_is_faster(np.ones(2000), 3, 30)
    assert not tree_is_faster(np.ones(2000), 10, 30)
    assert not tree_is_faster(np.ones(2000), 3, 256)
    with_tree = NearestNeighbourCalibration("euclidean", 30).fit(X, y)
    assert isinstance(with_tree._fitted_means(30), NeighbourTreeMeans)
    module = "calibrant.calibrators.neighbourhood.nearest_neighbours.tree_is_faster"
    probabilities = with_tree.predict_proba(X)
    monkeypatch.setattr(module, lambda *_: False)
    without = NearestNeighbourCalibration("euclidean", 30).fit(X, y)
    assert isinstance(without._fitted_means(30), NearestMeans)
    np.testing.assert_allclose(probabilities, without.predict_proba(X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_held_out_losses_are_those_of_separate_fits(metric):
    """A fit for every fold and k, by predictions of the calibrator itself on the rows left out."""
    X, y = some_rows(400, 3)
    nothing = -np.log(X[np.arange(400), y])
    splits = [(np.flatnonzero(np.arange(400) % 4 != fold), np.arange(fold, 400, 4)) for fold in range(4)]
    fitted = NearestNeighbourCalibration(metric, [16, 64, 200], cv=splits).fit(X, y)
    for number, size in enumerate([16, 64, 200]):
        losses = np.empty(400)
        for train, test in splits:
            part = NearestNeighbourCalibration(metric, size, guard=False).fit(X[train], y[train])
            losses[test] = -np.log(part.predict_proba(X[test])[np.arange(len(test)), y[test]])
        assert fitted.search_["loss"][number] == pytest.approx(losses.mean(), rel=1e-10)
        excess = losses - nothing
        assert fitted.search_["excess"][number] == pytest.approx(excess.mean(), rel=1e-9)
        assert fitted.search_["excess_error"][number] == pytest.approx(excess.std(ddof=1) / 20, rel=1e-9)
    assert fitted.n_neighbours_ == [16, 64, 200][np.argmin(fitted.search_["loss"])]


def test_automatic_sizes_that_take_in_everything_are_tried_once():
    """Of 200 rows, nine tenths are 180: from 256 on every neighbourhood is everything."""
    X, y = some_rows(200, 3)
    fitted = NearestNeighbourCalibration().fit(X, y)
    np.testing.assert_array_equal(fitted.search_["n_neighbours"], [32, 64, 128, 256])


def test_automatic_with_twenty_rows():
    """A shift by the mean error of all rows is the only map to try."""
    first = np.linspace(0.3, 0.9, 20)
    X, y = np.column_stack([first, 1 - first]), np.tile([0, 1, 0, 1, 1, 1, 0, 1, 1, 0], 2)
    fitted = NearestNeighbourCalibration(guard=False).fit(X, y)
    np.testing.assert_array_equal(fitted.search_["n_neighbours"], [32])
    assert fitted.n_neighbours_ == 32
    shift = X.mean(axis=0) - np.bincount(y) / 20
    np.testing.assert_allclose(fitted.predict_proba(X[:1]), X[:1] - shift, atol=1e-12)


def test_rows_of_weight_two_are_two_neighbours():
    X, y = some_rows(90, 3)
    twice = np.arange(90) % 3 == 0
    for metric in METRICS:
        weighted = NearestNeighbourCalibration(metric, 25).fit(X, y, np.where(twice, 2.0, 1.0))
        repeated = NearestNeighbourCalibration(metric, 25).fit(
            np.vstack([X, X[twice]]), np.concatenate([y, y[twice]])
        )
        np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-13)


def test_saturated_rows_in_float32():
    """Rows that are exactly certain in float32, some with zeros; none may get a probability of zero."""
    logits = np.random.default_rng(0).normal(scale=60, size=(300, 5)).astype(np.float32)
    labels = np.where(np.arange(300) % 5 == 0, (logits.argmax(axis=1) + 1) % 5, logits.argmax(axis=1))
    given_rows = Predictions.from_logits(logits)
    assert (given_rows.probabilities == 0).any()
    for metric in METRICS:
        calibrated = NearestNeighbourCalibration(metric, 30).fit(given_rows, labels).predict_proba(given_rows)
        assert calibrated.dtype == np.float32
        assert (calibrated > 0).all()
        np.testing.assert_allclose(calibrated.sum(axis=1), 1, atol=1e-6)


def test_a_thousand_classes():
    X, _ = some_rows(60, 1000, concentration=0.05)
    y = X.argmax(axis=1)
    y[::3] = (y[::3] + 1) % 1000
    with pytest.warns(CalibrationWarning):
        fitted = NearestNeighbourCalibration(n_neighbours=20).fit(X, y)
    calibrated = fitted.predict_proba(X)
    assert calibrated.shape == (60, 1000)
    np.testing.assert_allclose(calibrated.sum(axis=1), 1, atol=1e-12)


def test_names_of_the_registry():
    assert registry.make("knn-kl").metric == "kl"
    assert registry.make("knn-euclidean").metric == "euclidean"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"metric": "cosine"}, "metric must be 'kl' or 'euclidean', not 'cosine'"),
        ({"n_neighbours": 0}, "n_neighbours must be an integer of at least 1, not 0"),
        ({"n_neighbours": 2.5}, "n_neighbours must be an integer of at least 1, not 2.5"),
        ({"n_neighbours": [8, -1]}, "n_neighbours must be an integer of at least 1, not -1"),
        ({"n_neighbours": []}, "n_neighbours must have at least one number"),
        ({"n_neighbours": "few"}, "n_neighbours must be a number, a list of numbers or 'auto'"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        NearestNeighbourCalibration(**parameters).fit([[0.9, 0.1], [0.2, 0.8]], [0, 1])
