"""Gaussian process calibration: what it learns, its latent function, and what a fit does and does not depend on."""

import numpy as np
import pytest
from monotone_rows import bent_problem, fitted_to_bent

from calibrant import GaussianProcessCalibration, Predictions, TemperatureScaling
from calibrant.calibrators.latent import gaussian_process
from calibrant.calibrators.latent.gaussian_process import fit
from calibrant.calibrators.latent.gaussian_process.latent_function import squared_exponential
from calibrant.calibrators.latent.gaussian_process.variational import SpreadRows
from calibrant.errors import CalibrationWarning, ConvergenceWarning, ParameterError
from calibrant.numerics.interpolated import EvenGrid

# Two fits of one bound, each within 1e-8 nats of its optimum.
REFITTED = 1e-5


def mean_loss(fitted, logits, labels):
    p = fitted.predict_proba(Predictions.from_logits(logits))
    return -np.log(p[np.arange(len(labels)), labels]).mean()


@pytest.fixture(scope="module")
def fitted():
    return fitted_to_bent()


# What it learns


def test_a_bent_map_is_learnt_that_no_temperature_gives(fitted):
    """On fresh rows, most of what the best temperature loses against the truth is won back."""
    logits, labels = bent_problem(20_000, seed=1)
    temperature = mean_loss(TemperatureScaling().fit(Predictions.from_logits(logits), labels), logits, labels)
    honest = 0.5 * logits - 0.1 * logits**2
    honest -= np.log(np.exp(honest).sum(axis=1, keepdims=True))
    truth = -honest[np.arange(len(labels)), labels].mean()
    assert temperature - truth > 0.004
    assert mean_loss(fitted, logits, labels) - truth < 0.25 * (temperature - truth)


def test_the_latent_function_is_the_true_one_within_its_deviation(fitted):
    """Differences from the value at -1, at probabilities that the rows have something to say about: above exp(-5)."""
    z = np.linspace(-5, -0.2, 9)
    mean, deviation = fitted.latent(z, reference=-1.0)
    truth = (0.5 * z - 0.1 * z**2) - (-0.5 - 0.1)
    assert (np.abs(mean - truth) < 3 * deviation).all()
    assert deviation.max() < 0.5


def test_more_rows_leave_less_doubt():
    deviations = [
        fitted_to_bent(n_rows, seed=2).latent(-4.0, reference=-1.0).standard_deviation
        for n_rows in (300, 4800)
    ]
    assert deviations[1] < 0.5 * deviations[0]


def test_raw_logits_tell_more_where_their_level_does():
    """A temperature that belongs to the level of the row is seen in raw logits and lost in their softmax."""
    generator = np.random.default_rng(3)
    level = 6 * generator.uniform(size=(1500, 1))
    raw = level + 1.5 * generator.normal(size=(1500, 3))
    labels = (0.2 * raw**2 + generator.gumbel(size=raw.shape)).argmax(axis=1)
    predictions = Predictions.from_logits(raw)
    softmax_only = GaussianProcessCalibration().fit(predictions, labels)
    given = GaussianProcessCalibration(scores="given").fit(predictions, labels)
    assert given.elbo_ > softmax_only.elbo_ + 20
    either = GaussianProcessCalibration(scores="either").fit(predictions, labels)
    assert either.scores_ == "given"
    assert either.elbo_ == given.elbo_


def test_either_keeps_log_probabilities_where_they_serve_better():
    logits, labels = bent_problem(300, bend=0.0)
    p = Predictions.from_logits(logits).probabilities
    either = GaussianProcessCalibration(scores="either").fit(p, labels)
    assert either.scores_ == "log-probabilities"
    assert either.elbo_ > GaussianProcessCalibration(scores="given").fit(p, labels).elbo_


def test_probabilities_as_given_have_the_prior_mean_of_the_paper():
    logits, labels = bent_problem()
    p = Predictions.from_logits(logits).probabilities
    of_probabilities = GaussianProcessCalibration(scores="given").fit(p, labels)
    assert of_probabilities.kernel_variance_ <= 5 * (1 + 1e-12)
    mean, _ = of_probabilities.latent(np.array([1e3, np.exp(1)]))
    assert mean[0] == pytest.approx(np.log(1e3))  # out of reach of all scores: the prior mean alone
    calibrated = of_probabilities.predict_proba(p[:5])
    latent = of_probabilities.latent(p[:5]).mean
    expected = np.exp(latent) / np.exp(latent).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-9)


# The latent function


def test_the_latent_moments_by_the_formula_with_inverses(fitted):
    """Mean K_zu K_uu^-1 u and variance k - K_zu K_uu^-1 (K_uu - L S L') K_uu^-1 K_uz."""
    z = np.array([-7.0, -3.0, -0.5])
    kernel = fitted.kernel_variance_, fitted.length_scale_
    inducing = fitted.inducing_inputs_
    between = squared_exponential(inducing, inducing, *kernel) + 1e-8 * kernel[0] * np.eye(len(inducing))
    root = np.linalg.cholesky(between)
    weights = np.linalg.solve(between, squared_exponential(inducing, z, *kernel))
    s = fitted.inducing_factor_ @ fitted.inducing_factor_.T
    variance = kernel[0] - np.diag(weights.T @ (between - root @ s @ root.T) @ weights)
    mean, deviation = fitted.latent(z)
    np.testing.assert_allclose(mean, z + weights.T @ root @ fitted.inducing_mean_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(deviation**2, variance, rtol=1e-4)


def test_predictions_are_the_softmax_of_the_latent_mean(fitted):
    logits, _ = bent_problem(50, seed=4)
    latent = fitted.latent(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))).mean
    expected = np.exp(latent) / np.exp(latent).sum(axis=1, keepdims=True)
    calibrated = fitted.predict_proba(Predictions.from_logits(logits))
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-8)


def test_far_from_all_scores_the_process_is_its_prior(fitted):
    mean, deviation = fitted.latent([[-1e4, -1e5]])
    np.testing.assert_allclose(mean, [[-1e4, -1e5]])
    np.testing.assert_allclose(deviation, np.sqrt(fitted.kernel_variance_ + fitted.noise_variance_))
    assert mean.shape == (1, 2)


def test_a_difference_from_itself_is_certain(fitted):
    mean, deviation = fitted.latent(-2.0, reference=-2.0)
    assert mean == 0
    assert deviation == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("wrong", ["high", [np.nan], [[1.0], [2.0, 3.0]]])
def test_latent_scores_that_are_no_numbers_are_refused(fitted, wrong):
    with pytest.raises(ParameterError, match="z must be finite numbers"):
        fitted.latent(wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("high", "reference must be finite numbers"),
        (np.inf, "reference must be finite numbers"),
        ([-1.0], "reference must be one finite number"),
        (0.5, r"reference must be log-probabilities, not above zero, but 0.5 is; pass np.log\(p\)"),
    ],
)
def test_a_reference_that_is_no_score_is_refused(fitted, wrong, message):
    with pytest.raises(ParameterError, match=message):
        fitted.latent(-1.0, reference=wrong)


def test_probabilities_in_the_place_of_their_logarithms_are_refused(fitted):
    with pytest.raises(ParameterError, match=r"z must be log-probabilities.* but 0.9 is; pass np.log\(p\)"):
        fitted.latent([0.1, 0.9])


def test_logarithms_of_rows_that_nearly_sum_to_one_are_log_probabilities(fitted):
    """A row of probabilities may sum to 1.001, so a probability may be that large."""
    assert np.isfinite(fitted.latent(np.log(1.0009)).mean)


def test_logits_as_given_may_be_above_zero():
    given = fitted_to_bent(300, scores="given")
    assert np.isfinite(given.latent([-3.0, 5.0]).mean).all()


# Fits


@pytest.mark.parametrize("covariance", ["full", pytest.param("diagonal", marks=pytest.mark.slow)])
def test_a_weight_of_two_equals_a_repeated_row(covariance):
    logits, labels = bent_problem(300)
    p = Predictions.from_logits(logits).probabilities
    twice = np.arange(300) % 3 == 0
    calibrator = GaussianProcessCalibration(covariance=covariance)
    weighted = calibrator.fit(p, labels, np.where(twice, 2.0, 1.0)).predict_proba(p)
    repeated = calibrator.fit(np.vstack([p, p[twice]]), np.append(labels, labels[twice])).predict_proba(p)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=REFITTED)


@pytest.mark.parametrize("scores", ["log-probabilities", pytest.param("given", marks=pytest.mark.slow)])
def test_neither_the_order_of_rows_nor_that_of_classes_matters(scores):
    logits, labels = bent_problem(300)
    rows, columns = np.random.default_rng(0).permutation(300), np.array([2, 0, 3, 1])
    calibrator = GaussianProcessCalibration(scores=scores)
    expected = calibrator.fit(Predictions.from_logits(logits), labels).predict_proba(
        Predictions.from_logits(logits)
    )
    moved = Predictions.from_logits(logits[rows][:, columns])
    calibrated = calibrator.fit(moved, np.argsort(columns)[labels[rows]]).predict_proba(moved)
    np.testing.assert_allclose(calibrated, expected[rows][:, columns], rtol=0, atol=REFITTED)


def test_what_is_added_to_a_row_matters_to_raw_logits_only():
    logits, labels = bent_problem(300)
    plain, shifted = (Predictions.from_logits(logits + shift) for shift in (0.0, np.ones((300, 1)) * 4))
    invariant = GaussianProcessCalibration().fit(plain, labels)
    np.testing.assert_allclose(
        invariant.predict_proba(shifted), invariant.predict_proba(plain), rtol=0, atol=1e-12
    )
    raw = GaussianProcessCalibration(scores="given").fit(plain, labels)
    assert np.abs(raw.predict_proba(shifted) - raw.predict_proba(plain)).max() > 0.01
    assert raw.traits.uses_raw_logits
    assert not invariant.traits.uses_raw_logits


@pytest.mark.parametrize("factor", [1e-4, 1e4])
def test_logits_of_an_unusual_size_are_calibrated_like_those_of_a_usual_one(factor):
    """Divided by their temperature first; the prior mean is then temperature scaling, which is right here."""
    logits, labels = bent_problem(600, bend=0.0)
    predictions = Predictions.from_logits(factor * logits)
    sized = GaussianProcessCalibration().fit(predictions, labels)
    assert sized.score_factor_ == pytest.approx(0.5 / factor, rel=0.2)
    temperature = TemperatureScaling(bounds=(1e-6, 1e6)).fit(predictions, labels)
    assert sized.inference_.loss == pytest.approx(temperature.solution_.loss, abs=2e-3)


def test_a_sample_of_rows_only_helps_to_start(monkeypatch):
    logits, labels = bent_problem()
    predictions = Predictions.from_logits(logits)
    plain = fitted_to_bent()
    monkeypatch.setattr(fit, "SAMPLE_ROWS", 375)
    monkeypatch.setattr(fit, "SAMPLE_SCORES", 1500)
    sampled = GaussianProcessCalibration().fit(predictions, labels)
    assert not np.array_equal(sampled.inducing_mean_, plain.inducing_mean_)
    assert sampled.elbo_ == pytest.approx(plain.elbo_, abs=1e-3)
    np.testing.assert_allclose(
        sampled.predict_proba(predictions), plain.predict_proba(predictions), rtol=0, atol=1e-4
    )


def test_noise_is_where_more_of_it_lowers_the_bound(fitted):
    """At zero, unless it helps, which it did for no data so far."""
    assert fitted.noise_variance_ == 0
    assert fitted.inference_.converged


def test_one_inducing_point_is_enough_to_run_and_more_are_better():
    bounds = [fitted_to_bent(400, n_inducing=m).elbo_ for m in (1, 3, 10)]
    assert bounds[0] < bounds[1] < bounds[2] + 1e-3


def test_no_more_inducing_points_are_used_than_the_grid_can_tell_apart():
    """A thousand million of them would need as many nodes, and a matrix with the square of that."""
    assert len(fitted_to_bent(300, n_inducing=10**9).inducing_inputs_) <= 64
    logits, labels = bent_problem(300)
    rows = Predictions.from_logits(logits).log_probabilities
    search = fit._Search(fit.LatentScores(rows, rows), labels, np.ones(300), 1.0, 10**9, True)
    assert search.n_inducing == 64
    assert search.bound.rows.grid.n_nodes == 1024


def test_too_few_steps_are_warned_of():
    logits, labels = bent_problem(300)
    with pytest.warns(
        ConvergenceWarning, match="stopped before its end, after 2 steps; raise max_iterations"
    ):
        GaussianProcessCalibration(max_iterations=2).fit(Predictions.from_logits(logits), labels)


def test_where_the_identity_is_better_it_is_kept_with_a_warning(monkeypatch):
    monkeypatch.setattr(gaussian_process, "is_worse_than_identity", lambda *_: True)
    logits, labels = bent_problem(100)
    p = Predictions.from_logits(logits).probabilities
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        kept = GaussianProcessCalibration().fit(p, labels)
    np.testing.assert_array_equal(kept.predict_proba(p), p)
    assert kept.inference_.loss == kept.inference_.identity_loss
    z = np.log(p[0])
    np.testing.assert_array_equal(kept.latent(z).mean, z)
    np.testing.assert_array_equal(kept.latent(z, reference=-2.0).mean, z + 2.0)
    np.testing.assert_array_equal(kept.latent(z).standard_deviation, 0)


def test_an_identity_of_probabilities_is_the_softmax_of_its_latent_function(monkeypatch):
    monkeypatch.setattr(gaussian_process, "is_worse_than_identity", lambda *_: True)
    logits, labels = bent_problem(100)
    p = Predictions.from_logits(logits).probabilities
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        kept = GaussianProcessCalibration(scores="given").fit(p, labels)
    np.testing.assert_allclose(np.exp(kept.latent(p).mean), kept.predict_proba(p), rtol=1e-12)


def test_an_identity_of_large_logits_is_not_divided_by_their_temperature(monkeypatch):
    monkeypatch.setattr(gaussian_process, "is_worse_than_identity", lambda *_: True)
    logits, labels = bent_problem(100)
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        kept = GaussianProcessCalibration().fit(Predictions.from_logits(1e4 * logits), labels)
    assert kept.score_factor_ < 1e-3
    assert kept.latent(-7.0).mean == -7.0


def test_rows_that_fail_in_a_pass_close_their_threads():
    """The next pass opens new ones instead of asking those that are gone."""
    logits, labels = bent_problem(50)
    grid = EvenGrid.around(logits.min(), logits.max(), 64)
    rows = SpreadRows(logits, logits, 1.0, labels, np.ones(50), grid)

    def failing():
        with rows.open():
            raise RuntimeError("in the middle of a fit")

    with pytest.raises(RuntimeError, match="in the middle"):
        failing()
    total = rows.total(lambda block: np.array([float(block.once.sum())]))
    shares = np.exp(logits - logits.max(axis=1, keepdims=True)).sum()
    assert total[0] == pytest.approx(shares, rel=1e-9)
