"""Reliability of every class by itself, the worst first."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from calibrant.errors import ParameterError
from calibrant.metrics import classwise_ece
from calibrant.plots import bin_sensitivity, classwise_reliability, reliability_curve


def rows(n_rows: int, n_classes: int, seed: int = 0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(n_classes, 0.4), n_rows)
    cumulative = p.cumsum(axis=1)
    y = (generator.random((n_rows, 1)) > cumulative).sum(axis=1).clip(max=n_classes - 1)
    return y, p


@pytest.mark.parametrize("weighted", [False, True])
def test_errors_are_those_of_the_metric_for_each_class(weighted):
    y, p = rows(500, 4)
    weights = np.random.default_rng(1).gamma(2, size=500) if weighted else None
    found = classwise_reliability(y, p, sample_weight=weights)
    expected = classwise_ece(y, p, sample_weight=weights, n_bins=10, reduction="none")
    assert_allclose(found.error[np.argsort(found.labels)], expected)
    assert_array_equal(found.happened[np.argsort(found.labels)], np.bincount(y, minlength=4))


def test_predicted_classes_have_the_error_of_their_rows():
    y, p = rows(500, 4)
    found = classwise_reliability(y, p, kind="top-label")
    for place, label in enumerate(found.labels):
        own = p.argmax(axis=1) == label
        gaps = np.zeros(10)
        bins = np.minimum((p[own].max(axis=1) * 10).astype(int), 9)
        np.add.at(gaps, bins, (y[own] == label) - p[own].max(axis=1))
        assert found.count[place] == own.sum()
        assert found.error[place] == pytest.approx(np.abs(gaps).sum() / own.sum())


def test_classes_come_in_the_order_of_what_exceeds_noise():
    y, p = rows(2000, 5)
    wrong = p.copy()
    wrong[:, 2] *= 3  # and hence all others too small
    wrong /= wrong.sum(axis=1, keepdims=True)
    found = classwise_reliability(y, wrong)
    excess = found.error - found.noise
    assert (np.diff(excess) <= 1e-12).all()
    assert found.labels[0] == 2
    assert found.beyond_noise[0]


def test_a_rare_class_does_not_come_first_for_its_noise():
    """Six rows predict class 2, and 40 % is right where 62 % were; 600 rows predict 0, of which 55 % are right."""
    p = np.array([[0.65, 0.25, 0.10]] * 600 + [[0.2, 0.18, 0.62]] * 5)
    y = np.array([0] * 330 + [1] * 270 + [2] * 2 + [0] * 3)
    found = classwise_reliability(y, p, kind="top-label")
    assert found.error[found.labels == 2] > found.error[found.labels == 0]
    assert found.labels.tolist() == [0, 2]
    assert found.beyond_noise.tolist() == [True, False]


def test_calibrated_classes_are_rarely_beyond_noise():
    """Of forty classes two on average; ten or more have the probability 1e-5."""
    y, p = rows(4000, 40)
    assert classwise_reliability(y, p).beyond_noise.sum() < 10


def test_the_noise_is_that_of_labels_drawn_from_the_predictions():
    y, p = rows(3000, 4)
    drawn = bin_sensitivity(y, p, metric="classwise", n_bins=(10,), n_resamples=400)
    assert classwise_reliability(y, p).noise.mean() == pytest.approx(drawn.noise[0], rel=0.08)


def test_curves_are_those_of_each_class_for_as_many_as_are_wanted():
    y, p = rows(300, 6)
    found = classwise_reliability(y, p, max_classes=2)
    assert len(found.curves) == 2
    assert len(found.labels) == 6
    expected = reliability_curve(y, p, kind="class", label=found.labels[1], n_bins=10, n_resamples=0)
    assert_allclose(found.curves[1].mean_outcome, expected.mean_outcome)
    assert len(classwise_reliability(y, p, max_classes=None).curves) == 6


def test_classes_that_no_row_predicts_are_left_out_of_the_second_kind():
    p = [[0.6, 0.3, 0.1], [0.3, 0.6, 0.1]]
    assert sorted(classwise_reliability([0, 1], p, kind="top-label").labels) == [0, 1]


def test_the_table_of_classes_has_a_row_for_each():
    y, p = rows(100, 3)
    columns = classwise_reliability(y, p, max_classes=1).columns()
    assert {len(values) for values in columns.values()} == {3}
    assert_allclose(columns["excess"], columns["error"] - columns["noise"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "confidence"}, "kind must be"),
        ({"max_classes": 0}, "max_classes"),
        ({"mode": "x"}, "mode must be"),
    ],
)
def test_options_that_mean_nothing_for_classes_are_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        classwise_reliability([0, 1], [0.2, 0.7], **options)
