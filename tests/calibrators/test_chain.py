"""Compositions: each stage sees what the one before gives out, and nothing else can be a stage."""

import numpy as np
import pytest

from calibrant import Chain, IsotonicCalibration, TemperatureScaling, VectorScaling, registry
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
