"""Gaussian process calibration: what it learns, its draws, its latent function, increasing ones, and bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant
from calibrant import GaussianProcessCalibration, Predictions, TemperatureScaling
from calibrant.calibrators.latent import gaussian_process, process_fit
from calibrant.calibrators.latent.process_kernel import squared_exponential
from calibrant.errors import CalibrationWarning, ConvergenceWarning, LabelError, ParameterError

# Two fits of one bound, each within 1e-8 nats of its optimum.
REFITTED = 1e-5


def bent_problem(n_rows=1500, n_classes=4, seed=0, bend=0.1):
    """Logits z whose honest version is z / 2 + bend z |z|: no temperature will do."""
    generator = np.random.default_rng(seed)
    logits = 2.5 * generator.normal(size=(n_rows, n_classes))
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    honest = 0.5 * logits - bend * logits**2
    labels = (honest + generator.gumbel(size=honest.shape)).argmax(axis=1)
    return logits, labels


def mean_loss(fitted, logits, labels):
    p = fitted.predict_proba(Predictions.from_logits(logits))
    return -np.log(p[np.arange(len(labels)), labels]).mean()


@pytest.fixture(scope="module")
def fitted():
    logits, labels = bent_problem()
    return GaussianProcessCalibration().fit(Predictions.from_logits(logits), labels)


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
    deviations = []
    for n_rows in (300, 4800):
        logits, labels = bent_problem(n_rows, seed=2)
        few = GaussianProcessCalibration().fit(Predictions.from_logits(logits), labels)
        deviations.append(few.latent(-4.0, reference=-1.0).standard_deviation)
    assert deviations[1] < 0.5 * deviations[0]


def test_raw_logits_tell_more_where_their_level_does():
    """A temperature that belongs to the level of the row is seen in raw logits and lost in their softmax."""
    generator = np.random.default_rng(3)
    level = 6 * generator.uniform(size=(3000, 1))
    raw = level + 1.5 * generator.normal(size=(3000, 3))
    labels = (0.2 * raw**2 + generator.gumbel(size=raw.shape)).argmax(axis=1)
    predictions = Predictions.from_logits(raw)
    softmax_only = GaussianProcessCalibration().fit(predictions, labels)
    given = GaussianProcessCalibration(scores="given").fit(predictions, labels)
    assert given.elbo_ > softmax_only.elbo_ + 20
    either = GaussianProcessCalibration(scores="either").fit(predictions, labels)
    assert either.scores_ == "given"
    assert either.elbo_ == given.elbo_


def test_either_keeps_log_probabilities_where_they_serve_better():
    logits, labels = bent_problem(bend=0.0)
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
    mean, deviation = fitted.latent([[1e4, -1e5]])
    np.testing.assert_allclose(mean, [[1e4, -1e5]])
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


@pytest.mark.parametrize("wrong", ["high", np.inf, [1.0]])
def test_a_reference_that_is_no_number_is_refused(fitted, wrong):
    with pytest.raises(ParameterError, match="reference must be one finite number"):
        fitted.latent(-1.0, reference=wrong)


# Fits


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_a_weight_of_two_equals_a_repeated_row(covariance):
    logits, labels = bent_problem(300)
    p = Predictions.from_logits(logits).probabilities
    twice = np.arange(300) % 3 == 0
    calibrator = GaussianProcessCalibration(covariance=covariance)
    weighted = calibrator.fit(p, labels, np.where(twice, 2.0, 1.0)).predict_proba(p)
    repeated = calibrator.fit(np.vstack([p, p[twice]]), np.append(labels, labels[twice])).predict_proba(p)
    np.testing.assert_allclose(weighted, repeated, rtol=0, atol=REFITTED)


@pytest.mark.parametrize("scores", ["log-probabilities", "given"])
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
    logits, labels = bent_problem(3000)
    predictions = Predictions.from_logits(logits)
    plain = GaussianProcessCalibration().fit(predictions, labels)
    monkeypatch.setattr(process_fit, "SAMPLE_ROWS", 750)
    monkeypatch.setattr(process_fit, "SAMPLE_SCORES", 3000)
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
    logits, labels = bent_problem(400)
    predictions = Predictions.from_logits(logits)
    bounds = [GaussianProcessCalibration(n_inducing=m).fit(predictions, labels).elbo_ for m in (1, 3, 10)]
    assert bounds[0] < bounds[1] < bounds[2] + 1e-3


def test_too_few_steps_are_warned_of():
    logits, labels = bent_problem(300)
    with pytest.warns(ConvergenceWarning, match="stopped before its end"):
        GaussianProcessCalibration(max_iterations=2).fit(Predictions.from_logits(logits), labels)


def test_where_the_identity_is_better_it_is_kept_with_a_warning(monkeypatch):
    monkeypatch.setattr(gaussian_process, "is_worse_than_nothing", lambda *_: True)
    logits, labels = bent_problem(100)
    p = Predictions.from_logits(logits).probabilities
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        kept = GaussianProcessCalibration().fit(p, labels)
    np.testing.assert_array_equal(kept.predict_proba(p), p)
    assert kept.inference_.loss == kept.inference_.identity_loss


# Monte Carlo


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_monte_carlo_against_loops(covariance):
    """The same numbers, drawn in the same order, one row, draw and class at a time."""
    logits, labels = bent_problem(200)
    predictions = Predictions.from_logits(logits)
    drawing = GaussianProcessCalibration(
        covariance=covariance, prediction="monte-carlo", n_samples=7, random_state=5
    ).fit(predictions, labels)
    generator = np.random.default_rng(5)
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


def test_monte_carlo_approaches_the_mean_as_rows_leave_no_doubt(fitted):
    logits, labels = bent_problem(6000, seed=6)
    sure = GaussianProcessCalibration().fit(Predictions.from_logits(logits), labels)
    gaps = []
    for calibrator in (fitted, sure):
        mean = calibrator.predict_proba(Predictions.from_logits(logits))
        drawn = GaussianProcessCalibration(prediction="monte-carlo")
        vars(drawn).update({name: value for name, value in vars(calibrator).items() if name.endswith("_")})
        gaps.append(np.abs(drawn.predict_proba(Predictions.from_logits(logits)) - mean).mean())
    assert gaps[1] < 0.7 * gaps[0]


def test_equal_seeds_give_equal_draws_and_others_do_not():
    logits, labels = bent_problem(200)
    predictions = Predictions.from_logits(logits)
    first, again, other = (
        GaussianProcessCalibration(prediction="monte-carlo", random_state=seed)
        .fit(predictions, labels)
        .predict_proba(predictions)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert 1e-5 < np.abs(first - other).max() < 0.1


def test_a_row_is_drawn_alike_wherever_it_stands():
    logits, labels = bent_problem(200)
    drawing = GaussianProcessCalibration(prediction="monte-carlo").fit(
        Predictions.from_logits(logits), labels
    )
    together = drawing.predict_proba(Predictions.from_logits(logits[:9]))
    alone = drawing.predict_proba(Predictions.from_logits(logits[8:9]))
    np.testing.assert_allclose(alone[0], together[8], rtol=0, atol=1e-12)


def test_no_drawn_probability_is_zero():
    logits, labels = bent_problem(200)
    drawing = GaussianProcessCalibration(prediction="monte-carlo").fit(
        Predictions.from_logits(logits), labels
    )
    extreme = drawing.transform(Predictions.from_logits([[0.0, -2000.0, -5000.0, -1.0]]))
    assert np.isfinite(extreme.log_probabilities).all()


# Increasing functions


@pytest.fixture(scope="module", params=["mean", "monte-carlo"])
def increasing(request):
    """Fitted to rows whose honest map falls at low scores."""
    logits, labels = bent_problem(800, bend=-0.1)
    calibrator = GaussianProcessCalibration(monotone=True, prediction=request.param, n_samples=20)
    return calibrator.fit(Predictions.from_logits(logits), labels)


@settings(max_examples=6)
@given(data=st.data())
def test_the_order_of_every_row_is_kept_exactly(increasing, data):
    """Random rows, some with ties and scores a rounding error apart, in float32 and float64, also far outside."""
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    seed = data.draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    rows = (generator.normal(size=(99, 4)) * generator.choice([0.01, 1, 10, 100], (99, 1))).astype(dtype)
    rows[::3, 1] = rows[::3, 0]
    rows[1::3, 2] = np.nextafter(rows[1::3, 3], dtype(np.inf))
    given = Predictions.from_logits(rows)
    for calibrated in (increasing.predict_proba(given), increasing.transform(given).scores):
        assert calibrated.dtype == dtype
        before = np.sign(rows[:, :, np.newaxis] - rows[:, np.newaxis])
        after = np.sign(calibrated[:, :, np.newaxis] - calibrated[:, np.newaxis])
        np.testing.assert_array_equal(after, before)


def test_the_increasing_latent_function_increases_where_the_free_one_falls():
    logits, labels = bent_problem(800, bend=-0.1)
    predictions = Predictions.from_logits(logits)
    z = np.linspace(-9, 0, 200)
    free = GaussianProcessCalibration().fit(predictions, labels).latent(z).mean
    bound = GaussianProcessCalibration(monotone=True).fit(predictions, labels)
    assert (np.diff(free) < 0).any()
    assert (np.diff(bound.latent(z).mean) > 0).all()
    assert bound.traits.keeps_argmax
    difference = bound.latent(z, reference=-1.0)
    assert difference.mean[-1] == pytest.approx(bound.latent(0.0).mean - bound.latent(-1.0).mean)
    assert (difference.standard_deviation < bound.latent(z).standard_deviation + 1e-9).all()


def test_where_the_free_function_increases_both_agree():
    """Other knots and another approximation of the posterior: by some thousandths of a probability."""
    logits, labels = bent_problem(1500, bend=0.05, seed=7)
    predictions = Predictions.from_logits(logits)
    free, bound = (
        GaussianProcessCalibration(monotone=monotone).fit(predictions, labels).predict_proba(predictions)
        for monotone in (False, True)
    )
    assert np.abs(free - bound).max() < 0.03
    assert np.abs(free - bound).mean() < 0.003


def test_probabilities_as_given_become_log_probabilities_when_increasing():
    logits, labels = bent_problem(300)
    p = Predictions.from_logits(logits).probabilities
    as_given = GaussianProcessCalibration(monotone=True, scores="given").fit(p, labels)
    assert as_given.scores_ == "log-probabilities"


@pytest.mark.parametrize("prediction", ["mean", "monte-carlo"])
def test_an_increasing_function_survives_a_file(prediction, tmp_path):
    logits, labels = bent_problem(200)
    predictions = Predictions.from_logits(logits)
    calibrator = GaussianProcessCalibration(monotone=True, prediction=prediction).fit(predictions, labels)
    calibrator.save(tmp_path / "gp.npz")
    loaded = calibrant.load(tmp_path / "gp.npz")
    np.testing.assert_array_equal(loaded.predict_proba(predictions), calibrator.predict_proba(predictions))
    np.testing.assert_array_equal(loaded.latent(-1.0), calibrator.latent(-1.0))


# Bad input


def test_one_row_is_refused():
    with pytest.raises(LabelError, match="at least two classes"):
        GaussianProcessCalibration().fit([[0.6, 0.4]], [0])


def test_labels_of_one_class_are_refused():
    with pytest.raises(LabelError, match="at least two classes"):
        GaussianProcessCalibration().fit([[0.6, 0.4], [0.7, 0.3]], [0, 0])


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("scores", ["log-probabilities", "given"])
def test_constant_logits_stay_uniform(monotone, scores):
    """Every class has the same latent value, whatever the function."""
    predictions = Predictions.from_logits(np.full((30, 3), 2.0))
    calibrator = GaussianProcessCalibration(monotone=monotone, scores=scores)
    calibrated = calibrator.fit(predictions, np.arange(30) % 3).predict_proba(predictions)
    np.testing.assert_allclose(calibrated, 1 / 3, rtol=1e-12)


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_two_classes_in_the_proportions_of_their_labels(covariance):
    """All rows say 90 %, three of four are right: nothing but 75 % fits; the prior holds on to some per cent."""
    fitted = GaussianProcessCalibration(covariance=covariance).fit([[0.9, 0.1]] * 400, [0, 0, 0, 1] * 100)
    assert fitted.predict_proba([[0.9, 0.1]])[0, 0] == pytest.approx(0.75, abs=0.01)


@pytest.mark.parametrize("scores", ["log-probabilities", "given"])
def test_rows_that_are_all_right_do_not_run_away(scores):
    logits = 3 * np.random.default_rng(0).normal(size=(200, 3))
    predictions = Predictions.from_logits(logits)
    fitted = GaussianProcessCalibration(scores=scores).fit(predictions, logits.argmax(axis=1))
    assert fitted.inference_.loss < 0.05
    assert np.abs(np.diff(fitted.latent(np.linspace(-5, 0, 50)).mean)).max() < 3
    assert np.isfinite(fitted.transform(Predictions.from_logits(1e4 * np.eye(3))).scores).all()


def test_two_rows_are_enough():
    for labels in ([0, 1], [1, 0]):
        fitted = GaussianProcessCalibration().fit([[0.7, 0.3], [0.3, 0.7]], labels)
        assert fitted.inference_.loss <= fitted.inference_.identity_loss


def test_logits_beyond_all_bounds_are_left_as_they_are_with_a_warning():
    logits, labels = bent_problem(50)
    with pytest.warns(CalibrationWarning, match="the identity is at least as good"):
        kept = GaussianProcessCalibration(scores="given").fit(Predictions.from_logits(1e13 * logits), labels)
    assert kept.identity_kept_
    assert kept.elbo_ == -np.inf


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_inducing": 0}, "n_inducing must be a whole number of at least 1"),
        ({"covariance": "low rank"}, "covariance must be 'full' or 'diagonal'"),
        ({"prediction": "median"}, "prediction must be 'mean' or 'monte-carlo'"),
        ({"monotone": "yes"}, "monotone must be True or False"),
        ({"scores": "logits"}, "scores must be 'log-probabilities', 'given' or 'either'"),
        ({"n_samples": 0.5}, "n_samples must be a whole number"),
        ({"max_iterations": 0}, "max_iterations must be a whole number"),
        ({"random_state": "clock"}, "random_state must be"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        GaussianProcessCalibration(**parameters).fit([[0.6, 0.4], [0.4, 0.6]], [0, 1])
