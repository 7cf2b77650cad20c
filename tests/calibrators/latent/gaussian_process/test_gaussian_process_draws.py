"""Monte Carlo predictions of Gaussian process calibration: against loops, and that they are a fixed map."""

from contextlib import nullcontext

import numpy as np
import pytest
from monotone_rows import bent_problem, fitted_to_bent

import calibrant
from calibrant import GaussianProcessCalibration, Predictions
from calibrant.calibrators.latent.gaussian_process.latent_function import squared_exponential
from calibrant.errors import CalibrationWarning


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_monte_carlo_against_loops(covariance):
    """The same numbers, drawn in the same order, one row, draw and class at a time."""
    predictions = Predictions.from_logits(bent_problem(200)[0])
    drawing = fitted_to_bent(
        200, covariance=covariance, prediction="monte-carlo", n_samples=7, random_state=5
    )
    generator = np.random.default_rng(drawing.seed_)
    own, shared = (
        generator.standard_normal((4, 4)),
        generator.standard_normal((4, len(drawing.inducing_mean_))),
    )
    kernel = drawing.kernel_variance_, drawing.length_scale_
    inducing = drawing.inducing_inputs_
    root = np.linalg.cholesky(
        squared_exponential(inducing, inducing, *kernel) + 1e-8 * kernel[0] * np.eye(len(inducing))
    )
    for row, found in zip(
        predictions.log_probabilities[:5], drawing.predict_proba(predictions)[:5], strict=True
    ):
        total = np.zeros(4)
        for draw in range(7):
            sign = 1 - 2 * (draw % 2)
            g = np.empty(4)
            for column, z in enumerate(row):
                a = np.linalg.solve(root, squared_exponential(inducing, np.array([z]), *kernel))[:, 0]
                rest = max(kernel[0] - a @ a, 0)
                explained = drawing.inducing_factor_.T @ a
                if covariance == "full":
                    doubt = (
                        sign * explained @ shared[draw // 2] + np.sqrt(rest) * sign * own[draw // 2, column]
                    )
                else:
                    doubt = np.sqrt(rest + explained @ explained) * sign * own[draw // 2, column]
                g[column] = z + a @ drawing.inducing_mean_ + doubt
            total += np.exp(g) / np.exp(g).sum()
        np.testing.assert_allclose(found, total / 7, rtol=0, atol=1e-6)


def test_monte_carlo_approaches_the_mean_as_rows_leave_no_doubt():
    logits, _ = bent_problem(500, seed=6)
    gaps = []
    for calibrator in (fitted_to_bent(), fitted_to_bent(6000, seed=6)):
        mean = calibrator.predict_proba(Predictions.from_logits(logits))
        drawn = GaussianProcessCalibration(prediction="monte-carlo")
        vars(drawn).update({name: value for name, value in vars(calibrator).items() if name.endswith("_")})
        gaps.append(np.abs(drawn.predict_proba(Predictions.from_logits(logits)) - mean).mean())
    assert gaps[1] < 0.7 * gaps[0]


def test_equal_seeds_give_equal_draws_and_others_do_not():
    logits, labels = bent_problem(200)
    predictions = Predictions.from_logits(logits)
    first, other = (
        fitted_to_bent(200, prediction="monte-carlo", random_state=seed).predict_proba(predictions)
        for seed in (1, 2)
    )
    refitted = GaussianProcessCalibration(prediction="monte-carlo", random_state=1).fit(predictions, labels)
    again = refitted.predict_proba(predictions)
    np.testing.assert_array_equal(first, again)
    assert 1e-5 < np.abs(first - other).max() < 0.1


def test_a_row_is_drawn_alike_wherever_it_stands():
    logits, _ = bent_problem(200)
    drawing = fitted_to_bent(200, prediction="monte-carlo", random_state=1)
    together = drawing.predict_proba(Predictions.from_logits(logits[:9]))
    alone = drawing.predict_proba(Predictions.from_logits(logits[8:9]))
    np.testing.assert_allclose(alone[0], together[8], rtol=0, atol=1e-12)


def test_no_drawn_probability_is_zero():
    drawing = fitted_to_bent(200, prediction="monte-carlo", random_state=1)
    extreme = drawing.transform(Predictions.from_logits([[0.0, -2000.0, -5000.0, -1.0]]))
    assert np.isfinite(extreme.log_probabilities).all()


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize(
    "source", [lambda: np.random.default_rng(3), lambda: None], ids=["generator", "none"]
)
def test_a_fit_settles_its_draws_once_and_for_all(source, monotone, tmp_path):
    """Whatever the source, every prediction and the loss that the fit reports are of the same draws; files keep them."""
    logits, labels = bent_problem(150)
    predictions = Predictions.from_logits(logits)
    calibrator = GaussianProcessCalibration(
        prediction="monte-carlo", monotone=monotone, n_samples=10, random_state=source()
    ).fit(predictions, labels)
    first = calibrator.predict_proba(predictions)
    np.testing.assert_array_equal(calibrator.predict_proba(predictions), first)
    losses = -np.log(first[np.arange(150), labels])
    assert calibrator.inference_.loss == pytest.approx(losses.mean(), rel=1e-12)
    cannot_be_stored = pytest.warns(CalibrationWarning, match="the parameter random_state")
    with nullcontext() if calibrator.random_state is None else cannot_be_stored:
        calibrator.save(tmp_path / "gp.npz")
    np.testing.assert_array_equal(calibrant.load(tmp_path / "gp.npz").predict_proba(predictions), first)


def test_a_generator_gives_every_fit_other_draws():
    logits, labels = bent_problem(150)
    predictions = Predictions.from_logits(logits)
    calibrator = GaussianProcessCalibration(prediction="monte-carlo", random_state=np.random.default_rng(0))
    first = calibrator.fit(predictions, labels).seed_
    assert calibrator.fit(predictions, labels).seed_ != first
