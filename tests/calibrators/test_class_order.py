"""The canonical order of the classes follows every permutation of the columns, and nothing else matters to it."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrant.calibrators.inner_folds import canonical_class_order
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import ArraySource, RowSource
from calibrant.predictions import Predictions


def order_of(X, y, weights=None):
    data = LabelledPredictions.parse(X, y, weights)
    return canonical_class_order(ArraySource(data))


def one_hot(seed, n_rows=30, n_classes=4):
    generator = np.random.default_rng(seed)
    predicted = generator.integers(0, n_classes, n_rows)
    labels = np.where(generator.random(n_rows) < 0.6, predicted, generator.integers(0, n_classes, n_rows))
    labels[:n_classes] = range(n_classes)
    return np.eye(n_classes)[predicted], labels


@given(seed=st.integers(0, 2**32 - 1))
def test_it_follows_a_permutation_of_the_columns(seed):
    """The confusion matrix in canonical order is the same for both; classes may tie only where it cannot tell them apart."""
    X, y = one_hot(seed)
    columns = np.random.default_rng(seed + 1).permutation(4)
    confusions = []
    for scores, labels in ((X, y), (X[:, columns], np.argsort(columns)[y])):
        order = order_of(scores, labels)
        confusion = np.zeros((4, 4))
        np.add.at(confusion, (scores.argmax(axis=1), labels), 1)
        confusions.append(confusion[np.ix_(order, order)])
    np.testing.assert_array_equal(*confusions)


@given(seed=st.integers(0, 2**32 - 1))
def test_rows_weights_and_batches_may_be_arranged_in_any_way(seed):
    X, y = one_hot(seed)
    generator = np.random.default_rng(seed)
    rows, twice = generator.permutation(len(y)), generator.random(len(y)) < 0.4
    copies = np.concatenate([np.arange(len(y)), np.flatnonzero(twice)])
    expected = order_of(X, y)
    np.testing.assert_array_equal(order_of(X[rows], y[rows]), expected)
    np.testing.assert_array_equal(order_of(X, y, np.full(len(y), 0.3)), expected)
    source = RowSource.from_batches([(X[:7], y[:7]), (X[7:8], y[7:8]), (X[8:], y[8:])])
    np.testing.assert_array_equal(canonical_class_order(source), expected)
    np.testing.assert_array_equal(order_of(X, y, np.where(twice, 2.0, 1.0)), order_of(X[copies], y[copies]))


def test_classes_that_differ_only_through_other_classes_are_told_apart():
    """0 and 1 have the same counts, but 1 is taken for the class that has more rows: it takes a second pass to see that."""
    predicted = [0, 0, 1, 1, 2, 2, 3, 3, 3, 3]
    labels = [0, 2, 1, 3, 2, 2, 3, 3, 3, 3]
    swapped = [1, 0, 2, 3]
    X = np.eye(4)[predicted]
    first = order_of(X, labels)
    second = order_of(X[:, swapped], np.argsort(swapped)[labels])
    np.testing.assert_array_equal(np.array(swapped)[second], first)


def test_huge_and_masked_logits_have_an_order():
    least = np.finfo(np.float64).min
    logits = np.array([[3e30, 0.0, least], [1e308, least, 1.0], [0.0, 1.0, 2.0]])
    order = order_of(Predictions.from_logits(logits), [0, 1, 2])
    assert sorted(order) == [0, 1, 2]
