"""Latent functions: they must give back what calibrators predict, for every kind that has one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri, softmax

from calibrant import (
    DirichletCalibration,
    GaussianProcessCalibration,
    Identity,
    IntraOrderPreserving,
    Predictions,
    StructuredScaling,
    TemperatureScaling,
    registry,
)
from calibrant.errors import ParameterError
from calibrant.plots import LatentFunctionDisplay
from calibrant.plots.latent_functions import latent_function
from calibrant.synthetic import SyntheticTask, TemperatureMap

PARTS = {
    "identity": Identity(),
    "temperature": TemperatureScaling(),
    "pts": registry.make("pts", weight_decay=1e-4),
    "gp": GaussianProcessCalibration(),
    "gp-monotone": GaussianProcessCalibration(monotone=True),
    "gp of probabilities": GaussianProcessCalibration(scores="given"),
    "iop": IntraOrderPreserving(),
    "iop network": IntraOrderPreserving(form="network", restarts=1, weight_decay=1e-4),
    "shared-map": StructuredScaling(class_terms=None),
    "shared-map without rows": StructuredScaling(class_terms=None, row_knots=0, mixing=0.0),
}
OF_LOGITS = {
    "gp": GaussianProcessCalibration(scores="given"),
    "iop": IntraOrderPreserving(inputs="logits"),
    "temperature": TemperatureScaling(),
}


@pytest.fixture(scope="module")
def rows():
    return SyntheticTask((0.4, 0.4, 0.4), TemperatureMap(1.8)).sample(600, random_state=1)


@pytest.fixture(scope="module")
def logits(rows):
    """Logits of the same rows, each with a constant of its own."""
    shifts = np.random.default_rng(0).normal(size=(600, 1))
    return Predictions.from_logits(rows.predictions.log_probabilities + shifts)


@pytest.mark.parametrize("name", PARTS)
def test_the_softmax_of_latent_values_is_what_is_predicted(rows, name):
    """With a single row as company, g of its own scores is exact: softmax(g) = q."""
    fitted = PARTS[name].fit(rows.predictions, rows.labels)
    for number in range(5):
        one = rows.predictions.take([number])
        scores = one.log_probabilities[0].astype(np.float64)
        function = latent_function(name, fitted, scores, -1.0, one)
        assert_allclose(softmax(function.values), fitted.predict_proba(one)[0], atol=1e-6)


@pytest.mark.parametrize("name", OF_LOGITS)
def test_functions_of_raw_logits_give_back_predictions_too(rows, logits, name):
    fitted = OF_LOGITS[name].fit(logits, rows.labels)
    one = logits.take([7])
    function = latent_function(name, fitted, one.logits[0].astype(float), 0.0, one, axis="logits")
    assert_allclose(softmax(function.values), fitted.predict_proba(one)[0], atol=1e-6)


def test_a_temperature_is_a_straight_line_through_the_reference(rows):
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    display = LatentFunctionDisplay.from_estimator(fitted, rows.predictions, reference=-2.0)
    expected = (display.scores + 2) * fitted.inverse_temperature_ - 2
    assert_allclose(display.functions[0].values, expected)
    assert display.functions[0].band == ""
    assert_allclose(display.functions[0].low, expected)


def test_a_gaussian_process_comes_with_its_posterior(rows):
    fitted = GaussianProcessCalibration().fit(rows.predictions, rows.labels)
    display = LatentFunctionDisplay.from_estimator(fitted, rows.predictions, level=0.9, n_points=20)
    mean, deviation = fitted.latent(display.scores, reference=display.reference)
    function = display.functions[0]
    assert_allclose(function.values, mean + display.reference)
    assert_allclose(function.high - function.values, ndtri(0.95) * deviation)
    assert function.band == "90 % of the posterior"


def test_functions_agree_at_the_reference(rows):
    chosen = {
        name: PARTS[name].fit(rows.predictions, rows.labels) for name in ("gp", "iop", "shared-map", "pts")
    }
    scores = np.array([-1.5])
    for name, fitted in chosen.items():
        function = latent_function(name, fitted, scores, -1.5, rows.predictions)
        assert_allclose(function.values, -1.5)
        assert_allclose(function.high - function.low, 0, atol=1e-5)


def test_the_company_of_a_score_makes_a_band(rows):
    fitted = StructuredScaling(class_terms=None).fit(rows.predictions, rows.labels)
    function = LatentFunctionDisplay.from_estimator(fitted, rows.predictions).functions[0]
    assert function.band == "95 % of rows"
    assert (function.low <= function.values + 1e-9).all()
    assert (function.values <= function.high + 1e-9).all()


def test_the_histogram_counts_the_scores_drawn(rows):
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    display = LatentFunctionDisplay.from_estimator(fitted, rows.predictions)
    assert display.largest.sum() == 600
    left_out = (rows.predictions.log_probabilities < display.edges[0]).sum()
    assert display.others.sum() == 1200 - left_out
    assert left_out == pytest.approx(0.005 * 1800, abs=1)
    assert display.reference == pytest.approx(np.median(rows.predictions.log_probabilities.max(axis=1)))


def test_several_calibrators_share_a_table(rows):
    fitted = {name: PARTS[name].fit(rows.predictions, rows.labels) for name in ("temperature", "gp")}
    columns = LatentFunctionDisplay.from_estimator(fitted, rows.predictions, n_points=11).columns()
    assert columns["name"].tolist() == ["temperature"] * 11 + ["gp"] * 11
    assert {len(values) for values in columns.values()} == {22}


def test_one_row_is_enough(rows):
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    display = LatentFunctionDisplay.from_estimator(fitted, [[0.5, 0.5, 0.0]])
    assert np.isfinite(display.functions[0].values).all()


def test_equal_scores_make_a_picture_all_the_same(rows):
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    display = LatentFunctionDisplay.from_estimator(fitted, [[1 / 3, 1 / 3, 1 / 3]] * 4)
    assert (np.diff(display.edges) > 0).all()
    assert display.largest.sum() + display.others.sum() == 12


def test_terms_of_single_classes_are_left_out(rows):
    fitted = StructuredScaling("vector", shared_map=False, mixing=0.0).fit(rows.predictions, rows.labels)
    function = LatentFunctionDisplay.from_estimator(fitted, rows.predictions).functions[0]
    slopes = np.diff(function.values) / np.diff(
        LatentFunctionDisplay.from_estimator(fitted, rows.predictions).scores
    )
    assert_allclose(slopes, fitted.inverse_temperature_)


def test_what_has_no_latent_function_is_refused(rows):
    fitted = DirichletCalibration(reg_lambda=0.1, reg_mu=0.1).fit(rows.predictions, rows.labels)
    with pytest.raises(
        ParameterError, match=r"'DirichletCalibration' \(DirichletCalibration\) does not apply"
    ):
        LatentFunctionDisplay.from_estimator(fitted, rows.predictions)
    full = IntraOrderPreserving("invariant", weight_decay=1.0).fit(rows.predictions, rows.labels)
    with pytest.raises(ParameterError, match="does not apply one function"):
        LatentFunctionDisplay.from_estimator({"full": full}, rows.predictions)


def test_scores_of_the_wrong_kind_are_refused(rows, logits):
    fitted = GaussianProcessCalibration().fit(logits, rows.labels)
    with pytest.raises(
        ParameterError, match=r"'gp' is a function of log-probabilities, not of logits; pass scores="
    ):
        LatentFunctionDisplay.from_estimator({"gp": fitted}, logits, scores="logits")


def test_options_without_meaning_are_refused(rows):
    fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
    for options, reason in (
        ({"scores": "odds"}, "scores must be"),
        ({"level": 1.0}, "level"),
        ({"n_points": 1}, "n_points"),
        ({"reference": np.nan}, "reference must be one finite number"),
    ):
        with pytest.raises(ParameterError, match=reason):
            LatentFunctionDisplay.from_estimator(fitted, rows.predictions, **options)
    with pytest.raises(ParameterError, match="with at least one"):
        LatentFunctionDisplay.from_estimator({}, rows.predictions)
