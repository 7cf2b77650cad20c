"""The sentence of a result: p-values, counts and noise in words."""

from math import inf

import numpy as np
import pytest

from calibrant.errors import ParameterError
from calibrant.hypothesis_tests import (
    TestResult,
    calibration_slope_intercept,
    cumulative_test,
    hosmer_lemeshow_test,
    spiegelhalter_test,
)
from calibrant.options import random_source
from calibrant.presentation.sentences import class_text, counted, p_text


def result(**changes):
    return TestResult(
        **{
            "statistic": 0.1,
            "p_value": 0.2,
            "test": "a test",
            "null_hypothesis": "all is well",
            "n_rows": 7,
            **changes,
        }
    )


def test_a_result_without_anything_known_about_noise():
    assert str(result()) == (
        "a test: statistic 0.1, p = 0.2 (7 rows); null hypothesis not rejected at the 5 % level: all is well."
    )


@pytest.mark.parametrize(
    ("p_value", "n_resamples", "text"),
    [
        (0.0, None, "p < 1e-300"),
        (1e-310, None, "p < 1e-300"),
        (2e-300, None, "p = 2e-300"),
        (1.0, None, "p = 1"),
        (0.0, 500, "p < 0.002"),
        (0.04, 500, "p = 0.04"),
    ],
)
def test_no_p_value_is_said_to_be_zero(p_value, n_resamples, text):
    assert p_text(p_value, n_resamples) == text
    assert f", {text} (" in str(result(p_value=p_value, n_resamples=n_resamples))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"n_rows": 1}, "(1 row);"),
        ({"n_resamples": 1}, "(7 rows, 1 resample);"),
        ({"n_resamples": 9, "n_undefined": 2}, "(7 rows, 9 resamples less 2 undefined);"),
        ({"null_mean": 0.05}, "rows); under calibration mean 0.05;"),
        ({"null_quantile": 0.3}, "rows); under calibration below 0.3 in 95 % of samples;"),
        (
            {"null_mean": 0.05, "null_quantile": 0.3},
            "rows); under calibration mean 0.05, below 0.3 in 95 % of samples;",
        ),
        (
            {"null_quantile": 0.3, "null_range": (0.3, inf)},
            "rows); under calibration above 0.3 in 95 % of samples;",
        ),
        (
            {"null_quantile": 0.3, "null_range": (0.1, 0.4)},
            "rows); under calibration between 0.1 and 0.4 in 95 % of samples;",
        ),
    ],
)
def test_counts_and_noise(changes, text):
    assert text in str(result(**changes))


def test_a_caution_follows_the_sentence():
    assert str(result(caution="do not trust it")).endswith("level: all is well. Caution: do not trust it.")


@pytest.mark.parametrize(
    "test",
    [
        spiegelhalter_test,
        cumulative_test,
        hosmer_lemeshow_test,
        lambda *rows: calibration_slope_intercept(*rows).joint_test,
    ],
)
def test_asymptotic_p_values_from_fewer_than_ten_rows_are_said_to_be_rough(test):
    labels, scores = [0, 1, 0, 1, 1, 0, 1, 0, 1], [0.2, 0.6, 0.3, 0.7, 0.4, 0.6, 0.7, 0.4, 0.8]
    few = test(labels, scores)
    assert few.caution == "a p-value from 9 rows is rough; use consistency_test"
    assert str(few).endswith(". Caution: a p-value from 9 rows is rough; use consistency_test.")
    assert "from 1 row is rough" in test(labels[:1], scores[:1]).caution
    assert test(labels * 20, scores * 20).caution is None


@pytest.mark.parametrize("test", [spiegelhalter_test, cumulative_test, hosmer_lemeshow_test])
@pytest.mark.parametrize("labels", [[0, 1], [0, 0]])
def test_certain_predictions_have_exact_p_values_from_any_number_of_rows(test, labels):
    assert test(labels, [0.0, 1.0]).caution is None


def test_counts_and_classes_in_words():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    labels = [np.array(["yes"])[0], "yes", np.array([3])[0], 3, np.array(["yes"], dtype=object)[0]]
    assert [class_text(label) for label in labels] == ["class 'yes'"] * 2 + ["class 3"] * 2 + ["class 'yes'"]


class TestTheSourceOfRandomNumbers:
    def test_is_the_generator_that_was_given(self):
        generator = np.random.default_rng(0)
        assert random_source(generator) is generator

    def test_follows_the_seed_and_the_algorithm(self):
        assert random_source(np.uint8(3)).random() == np.random.default_rng(3).random()
        expected = np.random.Generator(np.random.SFC64(3)).random()
        assert random_source(3, np.random.SFC64).random() == expected

    def test_is_new_every_time_for_none(self):
        assert random_source(None).random() != random_source(None).random()

    @pytest.mark.parametrize("seed", ["a", -1, 1.5, [1, 2]])
    def test_refuses_what_is_no_seed(self, seed):
        with pytest.raises(ParameterError, match="random_state must be an integer of at least 0"):
            random_source(seed)
