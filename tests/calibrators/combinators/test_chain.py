"""Compositions: each stage sees what the one before gives out, and nothing else can be a stage."""

import numpy as np
import pytest

from calibrant import (
    Chain,
    IsotonicCalibration,
    MatrixScaling,
    Predictions,
    TemperatureScaling,
    VectorScaling,
    registry,
)
from calibrant.errors import ParameterError

P = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]]
Y = [0, 1, 0, 1]


def test_stages_are_fitted_one_after_the_other():
    chain = Chain([TemperatureScaling(), IsotonicCalibration()]).fit(P, Y)
    first = TemperatureScaling().fit(P, Y)
    second = IsotonicCalibration().fit(first.transform(P), Y)
    np.testing.assert_allclose(chain.predict_proba(P), second.predict_proba(first.transform(P)), rtol=1e-12)


@pytest.mark.parametrize(
    "calibrators",
    [[], ["temperature", "vector"], [TemperatureScaling], "temperature", None, TemperatureScaling(), 3],
)
def test_what_is_no_list_of_calibrators_is_refused(calibrators):
    with pytest.raises(ParameterError, match=r"calibrators must be a list of calibrators .*registry.make"):
        Chain(calibrators).fit(P, Y)


def test_traits_are_those_that_all_stages_have():
    traits = Chain([TemperatureScaling(), VectorScaling()]).traits
    assert traits.contains_identity
    assert not traits.keeps_argmax
    assert traits.uses_raw_logits


def test_irova_ts_is_a_temperature_and_then_isotonic_maps():
    stages = registry.make("irova-ts").calibrators
    assert [type(stage) for stage in stages] == [TemperatureScaling, IsotonicCalibration]
    assert stages[1].ties == "strict"


def overlapping_rows(n_rows: int = 120, seed: int = 0):
    """Return rows of three classes whose labels agree with their prediction about as often as it says."""
    random = np.random.default_rng(seed)
    p = random.dirichlet([1.0, 1.0, 1.0], n_rows)
    return p, np.array([random.choice(3, p=row) for row in p])


def test_a_later_stage_is_fitted_on_what_clones_say_about_rows_they_have_not_seen():
    """By hand: isotonic maps of each half applied to the other half, then a temperature for all of them."""
    p, y = overlapping_rows()
    halves = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
    chain = Chain([IsotonicCalibration(), TemperatureScaling()], cross_fit=halves).fit(p, y)
    said = np.empty_like(p)
    for train, test in halves:
        said[test] = IsotonicCalibration().fit(p[train], y[train]).predict_proba(p[test])
    expected = TemperatureScaling().fit(said, y)
    assert chain.calibrators_[1].temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    kept = IsotonicCalibration().fit(p, y)
    np.testing.assert_array_equal(chain.calibrators_[0].predict_proba(p), kept.predict_proba(p))


def test_cross_fitting_sees_that_a_first_stage_fits_its_own_rows_too_closely():
    p, y = overlapping_rows()
    stages = [IsotonicCalibration(), TemperatureScaling()]
    same = Chain(stages).fit(p, y).calibrators_[1].temperature_
    crossed = Chain(stages, cross_fit=5).fit(p, y).calibrators_[1].temperature_
    assert same < 1 < crossed  # on rows it knows, the first stage is too timid; on others, too bold


def test_cross_fitting_takes_a_weight_of_two_for_a_row_given_twice():
    p, y = overlapping_rows()
    weights = np.where(np.arange(120) % 3 == 0, 2.0, 1.0)
    repeated = np.repeat(np.arange(120), weights.astype(int))
    stages = [TemperatureScaling(), VectorScaling()]
    weighted = Chain(stages, cross_fit=4).fit(p, y, weights).predict_proba(p)
    twice = Chain(stages, cross_fit=4).fit(p[repeated], y[repeated]).predict_proba(p)
    np.testing.assert_allclose(weighted, twice, atol=1e-6)


def test_cross_fitting_keeps_logits_where_a_fold_lacks_a_class():
    """Row 0 is the only one of its class: the clone that does not know it gives probabilities, the kept stage logits."""
    p, y = overlapping_rows()
    p, y = p[y != 2], y[y != 2]
    p, y = np.vstack([[[0.1, 0.1, 0.8]], p]), np.append(2, y)
    stage = MatrixScaling("l2", reg_lambda=0.1, reg_mu=0.1)
    chain = Chain([stage, stage], cross_fit=3).fit(Predictions.from_logits(np.log(p)), y)
    assert np.isfinite(np.log(chain.predict_proba(Predictions.from_logits(np.log(p))))).all()


def test_cross_fitting_that_leaves_one_class_is_refused():
    with pytest.raises(
        ParameterError, match="cross_fit leaves a single class in the training rows when fold 0 is held out"
    ):
        Chain([TemperatureScaling(), VectorScaling()], cross_fit=[([0, 2], [1, 3])]).fit(P, Y)


def test_cross_fitting_can_be_asked_for_by_name():
    chain = registry.make("temperature+vector", cross_fit=5)
    assert chain.cross_fit == 5
    assert not chain.traits.contains_identity
    with pytest.raises(ParameterError, match="cannot be shared"):
        registry.make("temperature+vector", cross_fit=5, loss="log")


@pytest.mark.parametrize("folds", [1, True, "a", 2.5])
def test_folds_that_have_no_meaning_are_refused_by_their_name(folds):
    with pytest.raises(ParameterError, match="cross_fit must be a whole number of at least 2, a splitter"):
        Chain([TemperatureScaling(), VectorScaling()], cross_fit=folds).fit(P, Y)


def test_cross_fitting_is_for_several_stages():
    with pytest.raises(ParameterError, match=r"cross_fit is for names joined by \+"):
        registry.make("temperature", cross_fit=3)
