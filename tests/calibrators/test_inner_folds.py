"""Choices by the loss of rows that were held out."""

import numpy as np
import pytest

from calibrant.calibrators.inner_folds import ROUNDING, choose_by_folds, inner_folds
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions


def rows(n_rows=60, seed=0, weights=None):
    generator = np.random.default_rng(seed)
    probabilities = generator.dirichlet(np.ones(3), n_rows)
    labels = (np.log(probabilities) + generator.gumbel(size=probabilities.shape)).argmax(axis=1)
    labels[:3] = 0, 1, 2
    return LabelledPredictions.parse(probabilities, labels, weights)


def power(data, exponent):
    """A map that ignores the rows it is given: p to some power."""
    return lambda predictions: Predictions.from_logits(exponent * predictions.log_probabilities)


def class_shares(data, strength):
    """A map that is made of the rows it is given: the share of each class, the same for every row."""
    shares = data.class_weights + strength
    return lambda predictions: Predictions.parse(np.tile(shares / shares.sum(), (predictions.n_rows, 1)))


@pytest.mark.parametrize("loss", ["log", "brier"])
def test_losses_are_those_of_a_loop_over_folds(loss):
    data = rows()
    choice = choose_by_folds(data, [1.0, 10.0], class_shares, n_folds=4, loss=loss)
    per_row = []
    for fold in inner_folds(data, 4):
        train, test = data.take(fold.train_rows), data.take(fold.test_rows)
        for row in range(test.n_rows):
            losses = []
            for strength in (1.0, 10.0):
                p = class_shares(train, strength)(test.predictions).probabilities[row]
                own = p[test.labels[row]]
                losses.append(-np.log(own) if loss == "log" else sum(p**2) - 2 * own + 1)
            per_row.append(losses)
    per_row = np.array(per_row)
    mean = per_row.mean(axis=0)
    np.testing.assert_allclose(choice.losses, mean, rtol=1e-12)
    lowest = mean.argmin()
    for candidate in range(2):
        error = np.std(per_row[:, candidate] - per_row[:, lowest]) / np.sqrt(len(per_row))
        assert choice.standard_errors[candidate] == pytest.approx(error, rel=1e-9)


def test_the_candidate_with_the_lowest_loss_is_taken():
    choice = choose_by_folds(rows(600), [0.2, 1.0, 3.0], power, n_folds=5)
    assert choice.best == 1.0
    assert choice.candidates == [0.2, 1.0, 3.0]


def test_a_candidate_that_is_clearly_worse_is_the_last_one():
    choice = choose_by_folds(rows(600), [1.0, 8.0, 1.0], power, n_folds=5)
    assert choice.candidates == [1.0, 8.0]
    assert len(choice.losses) == len(choice.standard_errors) == 2
    assert choice.best == 1.0


def test_among_candidates_that_are_as_good_the_first_is_taken():
    tiny = 1 + 1e-3 * ROUNDING
    assert choose_by_folds(rows(), [tiny, 1.0], power, n_folds=3).best == tiny


def test_a_row_of_weight_two_is_two_rows_and_the_order_of_rows_does_not_matter():
    data = rows(40)
    weights = np.where(np.arange(40) % 3 == 0, 2.0, 1.0)
    weighted = LabelledPredictions.parse(data.predictions.scores, data.labels, weights)
    places = np.random.default_rng(1).permutation(np.repeat(np.arange(40), weights.astype(int)))
    repeated = choose_by_folds(data.take(places), [1.0, 5.0], class_shares, n_folds=4)
    once = choose_by_folds(weighted, [1.0, 5.0], class_shares, n_folds=4)
    np.testing.assert_allclose(once.losses, repeated.losses, rtol=1e-12)


def test_there_are_no_more_folds_than_rows():
    assert len(inner_folds(rows(3), 10)) == 3


def test_a_larger_model_must_be_better_by_more_than_a_standard_error():
    """Of two maps that differ by chance only, the first; with more and more rows, the one that is better."""
    taken = [choose_by_folds(rows(30, seed), [0.9, 1.0], power, n_folds=5).best for seed in range(20)]
    assert taken.count(0.9) > 14
    assert choose_by_folds(rows(20_000), [0.9, 1.0], power, n_folds=5).best == 1.0
