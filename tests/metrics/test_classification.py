"""Over- and underconfidence, and the theorem that ties them to the calibration error."""

from math import isnan, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant import Predictions
from calibrant.binning import EqualMass, EqualWidth, FixedEdges
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import accuracy, confidence_ece
from calibrant.metrics.classification import overconfidence, underconfidence
from calibrant.metrics.declaration import evaluator, traits_of
from data import load
from strategies import problems

NORMS = [1, 1.5, 2, 7, "max"]
BINNINGS = st.one_of(
    st.integers(1, 20).map(EqualWidth),
    st.integers(1, 20).map(lambda n: EqualWidth(n, closed="right")),
    st.integers(1, 8).map(EqualMass),
    st.lists(st.floats(0.01, 0.99), max_size=4).map(lambda inner: FixedEdges((0.0, *sorted(inner), 1.0))),
)


def loop(probabilities, labels, weights):
    """Return both means by going through the rows."""
    sure, wrong, unsure, right = 0.0, 0.0, 0.0, 0.0
    for row, label, weight in zip(probabilities.tolist(), labels, weights, strict=True):
        confidence = max(row)
        if row.index(confidence) == label:
            unsure, right = unsure + weight * (1 - confidence), right + weight
        else:
            sure, wrong = sure + weight * confidence, wrong + weight
    return sure / wrong if wrong else nan, unsure / right if right else nan


@given(problem=problems(), data=st.data())
def test_both_are_means_over_wrong_and_right_rows(problem, data):
    size = len(problem.labels)
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=size, max_size=size)), dtype=float)
    over, under = loop(*problem, weights)
    call = {"y_true": problem.labels, "y_proba": problem.probabilities, "sample_weight": weights}
    assert overconfidence(**call) == pytest.approx(over, abs=1e-6, nan_ok=True)
    assert underconfidence(**call) == pytest.approx(under, abs=1e-6, nan_ok=True)


@given(problem=problems(), binning=BINNINGS, data=st.data())
def test_theorem_1_of_wenger_holds_for_any_bins(problem, binning, data):
    """|o err - u acc| = |mean confidence - accuracy| <= ECE_1 <= ECE_p <= ... <= ECE_max.

    The first step is the triangle inequality over the bins, whose gaps add up to the difference of the means;
    the others are Jensen's inequality for the shares of the bins.
    """
    size = len(problem.labels)
    weights = np.array(data.draw(st.lists(st.integers(1, 4), min_size=size, max_size=size)), dtype=float)
    call = {"y_true": problem.labels, "y_proba": problem.probabilities, "sample_weight": weights}
    right = accuracy(**call)
    over, under = overconfidence(**call), underconfidence(**call)
    difference = abs((0 if isnan(over) else over * (1 - right)) - (0 if isnan(under) else under * right))
    errors = [confidence_ece(**call, binning=binning, norm=norm) for norm in NORMS]
    for smaller, larger in zip([difference, *errors], errors, strict=False):
        assert (
            smaller <= larger + 1e-6
            if problem.probabilities.dtype == np.float32
            else smaller <= larger + 1e-12
        )


def test_one_bin_makes_the_bound_an_equality():
    y, p = [0, 1, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.6, 0.4]]
    difference = abs(overconfidence(y, p) * 0.25 - underconfidence(y, p) * 0.75)
    assert confidence_ece(y, p, n_bins=1) == pytest.approx(difference, abs=1e-15)


def test_the_example_of_wengers_supplement():
    """90 % on a class that is right in 75 %: o = 0.9, u = 0.1; the truth itself would have 0.75 and 0.25."""
    y = [0, 0, 0, 1]
    for confidence in (0.9, 0.75):
        p = [[confidence, 1 - confidence]] * 4
        assert overconfidence(y, p) == pytest.approx(confidence)
        assert underconfidence(y, p) == pytest.approx(1 - confidence)


def test_no_wrong_row_or_no_right_one_gives_nan():
    p = [[0.9, 0.1], [0.2, 0.8]]
    assert isnan(overconfidence([0, 1], p))
    assert isnan(underconfidence([1, 0], p))
    assert underconfidence([0, 1], p) == pytest.approx(0.15)
    assert isnan(overconfidence([0, 0], p, sample_weight=[1, 0]))
    assert not traits_of(overconfidence).always_defined
    assert not traits_of(underconfidence).always_defined


def test_certainty_is_never_exceeded():
    """Rows may sum to a little more than one; doubt is never negative."""
    p = [[1.0004, 0.0]]
    assert underconfidence([0], p) == 0.0
    assert overconfidence([1], p) == 1.0


def test_prepared_for_other_labels_they_are_the_same():
    generator = np.random.default_rng(0)
    p, y = generator.dirichlet([1, 1, 1], 50), generator.integers(0, 3, 50)
    weights = generator.integers(0, 3, 50).astype(float)
    for function in (overconfidence, underconfidence):
        prepared = evaluator(function, LabelledPredictions.parse(p, y))
        other = generator.integers(0, 3, 50)
        assert prepared(other, None) == function(other, p)
        assert prepared(other, weights) == pytest.approx(function(other, p, sample_weight=weights), rel=1e-14)


def test_a_network_that_is_sure_of_its_errors():
    """It is too sure in every bin, so that the bound of the theorem is reached: 0.0475, as printed by Kull et al."""
    arrays = load("kull_nn/c10_resnet110")
    test = arrays["test_y"], Predictions.from_logits(arrays["test_logits"])
    right = accuracy(*test)
    gap = overconfidence(*test) * (1 - right) - underconfidence(*test) * right
    assert gap == pytest.approx(test[1].probabilities.max(axis=1).mean(dtype=float) - right, abs=1e-9)
    assert gap == pytest.approx(confidence_ece(*test), abs=1e-12)
    assert f"{gap:.5f}" == "0.04750"
