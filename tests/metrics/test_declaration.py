"""Metrics of fixed predictions as functions of labels, whatever the labels are called."""

from functools import partial

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import (
    accuracy,
    class_ece,
    classwise_ece,
    confidence_ece,
    cost_gap,
    debiased_ece,
    describe,
    log_loss,
    miscalibration,
)
from calibrant.metrics.declaration import evaluator, is_declared, is_two_sided, options_of, traits_of


def rows():
    generator = np.random.default_rng(0)
    return generator.integers(0, 3, 100), generator.dirichlet(np.ones(3), 100)


@pytest.mark.parametrize("names", [["ant", "bee", "cat"], [1, 2, 3], [7, 5, 9]])
@pytest.mark.parametrize("metric", [log_loss, confidence_ece, miscalibration])
def test_labels_that_lack_a_class_are_still_understood(metric, names):
    """Columns in sorted order; resampled labels without the second class, and names that look like numbers."""
    y, p = rows()
    data = LabelledPredictions.parse(p, np.sort(names)[y])
    without = np.where(y == 1, 2, y)
    assert evaluator(metric, data)(without, None) == pytest.approx(metric(without, p))


def test_a_class_is_found_by_its_name():
    y, p = rows()
    data = LabelledPredictions.parse(p, np.array(["ant", "bee", "cat"])[y])
    without = np.where(y == 1, 2, y)
    prepared = evaluator(partial(class_ece, label="cat"), data)
    assert prepared(without, None) == pytest.approx(class_ece(without, p, label=2))


def test_other_functions_get_arrays_and_the_users_labels():
    y, p = rows()
    seen = []

    def own(y_true, y_proba, sample_weight=None):
        seen.append((set(y_true), type(y_proba), sample_weight))
        return 1.0

    data = LabelledPredictions.parse(p, np.array(["ant", "bee", "cat"])[y])
    evaluator(own, data)(np.zeros(100, dtype=np.intp), None)
    evaluator(own, data)(y, np.ones(100))
    assert seen[0] == ({"ant"}, np.ndarray, None)
    assert seen[1][0] == {"ant", "bee", "cat"}


def test_partials_of_partials_keep_the_last_word():
    inner = partial(confidence_ece, n_bins=3, norm=2)
    assert describe(partial(inner, n_bins=7)) == "confidence_ece(n_bins=7, strategy='uniform', norm=2)"
    assert is_declared(partial(inner, n_bins=7))
    assert not traits_of(inner).higher_is_better
    assert not is_declared(print)


def test_bins_of_ones_own_take_the_place_of_their_number():
    from calibrant.binning import EqualMass

    assert describe(partial(confidence_ece, binning=EqualMass(5))) == (
        "confidence_ece(norm=1, binning=EqualMass(n_bins=5, closed='left'))"
    )


def test_several_numbers_cannot_be_evaluated_as_one():
    y, p = rows()
    with pytest.raises(ParameterError, match="reduction='none' gives several numbers"):
        evaluator(partial(classwise_ece, reduction="none"), LabelledPredictions.parse(p, y))


def test_options_that_do_not_exist_are_named():
    with pytest.raises(ParameterError, match=r"log_loss has no option 'clip'; it has \['floor'\]"):
        options_of(partial(log_loss, clip=1e-15))


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        (log_loss, True),
        (accuracy, True),
        (confidence_ece, False),
        (cost_gap, False),
        (partial(cost_gap, signed=True), True),
        (partial(debiased_ece, signed=True), False),
    ],
)
def test_values_that_are_too_good_count_where_they_can(metric, expected):
    assert is_two_sided(metric) is expected
