"""Intervals for every probability: coverage where the truth is known, edges, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit

import calibrant
from calibrant import (
    BetaCalibration,
    Chain,
    DirichletCalibration,
    EnsembleTemperatureScaling,
    GaussianProcessCalibration,
    IsotonicCalibration,
    MatrixScaling,
    OneVsRest,
    PlattScaling,
    Predictions,
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
    VennAbersCalibration,
    WithIntervals,
)
from calibrant.errors import ConvergenceWarning, MissingClassWarning, ParameterError
from calibrant.metrics import log_loss
from calibrant.synthetic import SyntheticTask, TemperatureMap, tasks
from data import load


def rows_of(n_rows, n_classes, seed=0):
    generator = np.random.default_rng([seed, n_classes])
    p = generator.dirichlet(np.full(n_classes, 0.8), n_rows)
    y = (0.6 * np.log(p) + generator.gumbel(size=p.shape)).argmax(axis=1)
    y[:n_classes] = np.arange(n_classes)
    return p, y


def coverage(task, calibrator, n_rows, n_repeats, target=None):
    """Share of pairs of row and class whose interval holds the truth, or what a given calibrator says."""
    test = task.sample(100, random_state=10**6).predictions
    truth = task.true_probabilities(test) if target is None else target.predict_proba(test)
    held = []
    for repeat in range(n_repeats):
        rows = task.sample(n_rows, random_state=repeat)
        lower, upper = calibrator.fit(rows.predictions, rows.labels).predict_interval(test)
        held.append(((lower <= truth) & (truth <= upper)).mean())
    return np.mean(held)


# Coverage. All pairs of one calibration set are right or wrong together if the map has one parameter: of m sets, each of
# 95 %, the mean has a deviation of sqrt(0.0475 / m), 2.4 % for 80, and less for more parameters.


@pytest.mark.parametrize(
    "n_rows", [100, pytest.param(500, marks=pytest.mark.slow), pytest.param(5000, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("task", "calibrator"),
    [
        ("over-confident", TemperatureScaling()),
        ("asymmetric", VectorScaling()),
        ("log-linear", DirichletCalibration(None)),
        ("two-classes", PlattScaling()),
        ("two-classes", BetaCalibration()),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_intervals_hold_the_truth_as_often_as_they_say_if_the_family_is_right(task, calibrator, n_rows):
    assert coverage(tasks()[task], WithIntervals(calibrator), n_rows, 80) == pytest.approx(0.95, abs=0.06)


def test_intervals_of_a_wrong_family_hold_its_best_map_and_not_the_truth():
    """Regions with jumps: the sandwich holds the best temperature, the model's interval is too narrow for it."""
    task = tasks()["regions"]
    many = task.sample(50_000, random_state=10**7)
    best = TemperatureScaling().fit(many.predictions, many.labels)
    robust = coverage(task, WithIntervals(TemperatureScaling()), 500, 60, best)
    model = coverage(task, WithIntervals(TemperatureScaling(), covariance="model"), 500, 60, best)
    assert robust > 0.88
    assert model < robust - 0.03
    assert coverage(task, WithIntervals(TemperatureScaling()), 500, 10) < 0.6


@pytest.mark.slow
def test_the_bootstrap_holds_the_truth_too():
    fitted = WithIntervals(TemperatureScaling(), method="bootstrap", n_draws=100)
    assert coverage(tasks()["over-confident"], fitted, 200, 60) == pytest.approx(0.94, abs=0.07)


def test_a_gaussian_process_holds_the_truth_of_a_shared_map():
    """A little less often than it says, since the parameters of its kernel count as known."""
    assert coverage(tasks()["over-confident"], GaussianProcessCalibration(), 500, 6) > 0.8


@pytest.mark.parametrize(
    "name", ["shared-map", "structured-vector", "shared-matrix", "quadratic", "piecewise-linear"]
)
def test_penalised_maps_hold_a_temperature(name):
    """Temperature scaling costs no penalty, so nothing pulls them from the truth."""
    task = (
        SyntheticTask((0.5, 0.5), TemperatureMap(1.5)) if name in ("quadratic", "piecewise-linear") else None
    )
    wrapped = WithIntervals(calibrant.registry.make(name))
    assert coverage(task or tasks()["over-confident"], wrapped, 300, 20) > 0.88


# What is returned


def every_kind():
    return [
        WithIntervals(TemperatureScaling()),
        WithIntervals(VectorScaling()),
        WithIntervals(MatrixScaling("l2", reg_lambda=0.01, reg_mu=0.01)),
        WithIntervals(StructuredScaling()),
        WithIntervals(PlattScaling()),
        WithIntervals(BetaCalibration(), predictive=True),
        WithIntervals(TemperatureScaling(), predictive=True),
        WithIntervals(IsotonicCalibration(), n_draws=20),
        WithIntervals(EnsembleTemperatureScaling(), n_draws=20, predictive=True),
        WithIntervals(Chain([TemperatureScaling(), VectorScaling()]), n_draws=20),
        WithIntervals(GaussianProcessCalibration()),
        WithIntervals(GaussianProcessCalibration(monotone=True)),
        WithIntervals(GaussianProcessCalibration(covariance="diagonal")),
        WithIntervals(VennAbersCalibration()),
    ]


kinds = pytest.mark.parametrize(
    "calibrator", every_kind(), ids=lambda c: f"{type(c.calibrator).__name__}-{c.predictive}"
)


@kinds
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_intervals_surround_the_prediction_in_its_float_type(calibrator, n_classes, kind):
    p, y = rows_of(150, n_classes)
    p = p.astype(kind)
    before = p.copy()
    fitted = calibrator.fit(p, y)
    q = fitted.predict_proba(p)
    lower, upper = fitted.predict_interval(p)
    assert lower.shape == upper.shape == q.shape == (150, n_classes)
    assert lower.dtype == upper.dtype == q.dtype == kind
    if fitted.method_ != "own" or n_classes == 2:  # Venn-Abers: separate statements, see there
        assert (lower <= q).all()
        assert (q <= upper).all()
    assert (lower >= 0).all()
    assert (upper <= 1).all()
    assert (lower < upper).mean() > 0.95
    assert_allclose(q.sum(axis=1), 1, rtol=1e-5)
    assert_array_equal(p, before)


@kinds
def test_what_is_loaded_gives_the_same_intervals(calibrator, tmp_path):
    p, y = rows_of(100, 3)
    fitted = calibrator.fit(p, y)
    fitted.save(tmp_path / "fitted.npz")
    loaded = calibrant.load(tmp_path / "fitted.npz")
    assert_array_equal(loaded.predict_interval(p), fitted.predict_interval(p))
    assert_array_equal(loaded.predict_proba(p), fitted.predict_proba(p))


def test_the_prediction_is_that_of_the_calibrator_alone():
    p, y = rows_of(200, 3)
    for calibrator in (TemperatureScaling(), PlattScaling(), IsotonicCalibration()):
        wrapped = WithIntervals(calibrator, n_draws=20)
        assert wrapped.traits == calibrator.traits
        assert_array_equal(wrapped.fit(p, y).predict_proba(p), calibrator.fit(p, y).predict_proba(p))


def test_intervals_grow_with_the_level_and_shrink_with_rows():
    p, y = rows_of(400, 3)
    fitted = WithIntervals(VectorScaling(), level=0.5).fit(p, y)
    widths = [
        np.subtract(*fitted.predict_interval(p, level)[::-1]).mean() for level in (None, 0.5, 0.9, 0.99)
    ]
    assert widths[0] == widths[1] < widths[2] < widths[3]
    four = WithIntervals(VectorScaling()).fit(np.tile(p, (4, 1)), np.tile(y, 4)).predict_interval(p)
    once = WithIntervals(VectorScaling()).fit(p, y).predict_interval(p)
    reach = [logit(upper) - logit(lower) for lower, upper in (once, four)]
    assert_allclose(reach[0] / reach[1], 2, rtol=0.02)  # but for n / (n - d)


def test_draws_have_the_spread_of_the_intervals():
    p, y = rows_of(400, 3)
    fitted = WithIntervals(VectorScaling(), n_draws=2000).fit(p, y)
    draws = fitted.draws(p[:20])
    assert draws.shape == (2000, 20, 3)
    assert_allclose(draws.sum(axis=2), 1)
    lower, upper = fitted.predict_interval(p[:20])
    found = np.quantile(logit(draws), [0.025, 0.975], axis=0)
    assert_allclose(found, logit([lower, upper]), atol=0.12 * (logit(upper) - logit(lower)).max())
    assert_array_equal(fitted.draws(p[:20], 3), draws[:3])
    one_vs_rest = WithIntervals(PlattScaling(), n_draws=2000).fit(p, y)
    lower, upper = one_vs_rest.predict_interval(p[:20])
    found = np.quantile(logit(one_vs_rest.draws(p[:20])), [0.025, 0.975], axis=0)
    assert_allclose(found, logit([lower, upper]), atol=0.12 * (logit(upper) - logit(lower)).max())


def test_predictive_means_are_those_of_the_draws():
    p, y = rows_of(60, 3)
    for calibrator in (TemperatureScaling(), BetaCalibration(), IsotonicCalibration()):
        fitted = WithIntervals(calibrator, predictive=True, n_draws=50).fit(p, y)
        assert_allclose(fitted.predict_proba(p), fitted.draws(p).mean(axis=0), atol=1e-12)


def test_predictive_means_protect_from_few_rows():
    """Vector scaling of 30 rows of three classes: the mean over plausible maps costs little and at times saves much."""
    task, gains = tasks()["asymmetric"], []
    test = task.sample(2000, random_state=10**6)
    for seed in range(12):
        rows = task.sample(30, random_state=seed)
        if len(np.unique(rows.labels)) < 3:
            continue
        losses = [
            log_loss(
                test.labels,
                WithIntervals(VectorScaling(), predictive=predictive)
                .fit(rows.predictions, rows.labels)
                .predict_proba(test.predictions),
            )
            for predictive in (False, True)
        ]
        gains.append(losses[0] - losses[1])
    assert np.mean(gains) > 0.02
    assert max(gains) > 0.1
    assert min(gains) > -0.05


def test_predictive_means_of_a_temperature_keep_the_predicted_class():
    p, y = rows_of(12, 3)
    fitted = WithIntervals(TemperatureScaling(), predictive=True).fit(p, y)
    assert fitted.traits.keeps_argmax
    assert not fitted.traits.contains_identity
    test = rows_of(500, 3, seed=3)[0]
    assert_array_equal(fitted.predict_proba(test).argmax(axis=1), test.argmax(axis=1))


def test_the_same_seed_gives_the_same_refits_whatever_the_threads(monkeypatch):
    p, y = rows_of(60, 3)
    first = WithIntervals(IsotonicCalibration(), n_draws=20).fit(p, y).predict_interval(p)
    monkeypatch.setattr("calibrant.numerics.threads.NUMBERS_PER_PIECE", 1)
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "3")
    assert_array_equal(WithIntervals(IsotonicCalibration(), n_draws=20).fit(p, y).predict_interval(p), first)
    other = WithIntervals(IsotonicCalibration(), n_draws=20, random_state=1).fit(p, y).predict_interval(p)
    assert np.abs(np.subtract(other, first)).max() > 1e-3


def test_laplace_and_bootstrap_agree_with_many_rows():
    p, y = rows_of(800, 3)
    for calibrator in (TemperatureScaling(), PlattScaling()):
        widths = [
            np.subtract(
                *WithIntervals(calibrator, method=method, n_draws=100).fit(p, y).predict_interval(p)[::-1]
            )
            for method in ("laplace", "bootstrap")
        ]
        assert widths[0].mean() == pytest.approx(widths[1].mean(), rel=0.2)


def test_the_order_of_rows_and_of_classes_does_not_matter():
    p, y = rows_of(120, 3)
    rows, columns = np.random.default_rng(0).permutation(120), np.array([2, 0, 1])
    for calibrator in (
        VectorScaling(),
        DirichletCalibration("odir", reg_lambda=0.01, reg_mu=0.01),
        PlattScaling(),
    ):
        ends = WithIntervals(calibrator).fit(p, y).predict_interval(p)
        shuffled = WithIntervals(calibrator).fit(p[rows], y[rows]).predict_interval(p)
        renamed = (
            WithIntervals(calibrator)
            .fit(p[:, columns], np.argsort(columns)[y])
            .predict_interval(p[:, columns])
        )
        assert_allclose(shuffled, ends, atol=1e-6)
        assert_allclose(renamed, np.asarray(ends)[:, :, columns], atol=1e-6)


# What chooses the way


@pytest.mark.parametrize(
    ("calibrator", "method"),
    [
        (TemperatureScaling(), "laplace"),
        (TemperatureScaling(loss="brier"), "bootstrap"),
        (OneVsRest(PlattScaling()), "laplace"),
        (OneVsRest(PlattScaling(), "shift"), "bootstrap"),
        (OneVsRest(TemperatureScaling()), "bootstrap"),
        (EnsembleTemperatureScaling(), "bootstrap"),
        (Chain([TemperatureScaling()]), "bootstrap"),
        (GaussianProcessCalibration(), "own"),
        (VennAbersCalibration(), "own"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_calibrator_gets_the_best_way_there_is(calibrator, method):
    p, y = rows_of(60, 3)
    assert WithIntervals(calibrator, n_draws=20).fit(p, y).method_ == method


def test_intervals_of_its_own_are_those_of_the_calibrator():
    p, y = rows_of(100, 3)
    gaussian = GaussianProcessCalibration().fit(p, y)
    wrapped = WithIntervals(GaussianProcessCalibration()).fit(p, y)
    assert_array_equal(wrapped.predict_interval(p, 0.8), gaussian.predict_interval(p, 0.8))
    p, y = rows_of(100, 2)
    venn = VennAbersCalibration().fit(p, y)
    assert_array_equal(
        WithIntervals(VennAbersCalibration()).fit(p, y).predict_interval(p), venn.predict_interval(p)
    )


def test_a_gaussian_process_of_two_classes_has_the_interval_of_its_latent_function():
    """logit q = g(ln p) - g(ln (1 - p)), whose deviation ``latent`` gives with a reference."""
    p, y = rows_of(300, 2)
    for monotone in (False, True):
        fitted = GaussianProcessCalibration(monotone=monotone).fit(p, y)
        row = np.array([[0.3, 0.7]])
        mean, deviation = fitted.latent(np.log(0.7), reference=np.log(0.3))
        lower, upper = fitted.predict_interval(row)
        expected = expit(float(mean) + 1.959964 * float(deviation) * np.array([-1, 1]))
        assert_allclose([lower[0, 1], upper[0, 1]], expected, rtol=2e-3)


@pytest.mark.parametrize(
    ("calibrator", "words"),
    [
        (WithIntervals("temperature"), "calibrator must be a calibrator"),
        (WithIntervals(TemperatureScaling(), method="mcmc"), "method must be"),
        (WithIntervals(TemperatureScaling(), covariance="robust"), "covariance must be"),
        (WithIntervals(TemperatureScaling(), level=95), "level must lie"),
        (WithIntervals(TemperatureScaling(), predictive="yes"), "predictive must be"),
        (WithIntervals(TemperatureScaling(), n_draws=5), "n_draws must be"),
        (WithIntervals(TemperatureScaling(), random_state="seed"), "random_state must be"),
        (WithIntervals(IsotonicCalibration(), method="laplace"), "has no Laplace approximation"),
        (WithIntervals(Chain([VectorScaling()]), method="laplace"), "has no Laplace approximation"),
        (WithIntervals(GaussianProcessCalibration(), predictive=True), "predictive must be False"),
    ],
)
def test_parameters_without_meaning_are_refused(calibrator, words):
    p, y = rows_of(30, 3)
    with pytest.raises(ParameterError, match=words):
        calibrator.fit(p, y)


def test_too_many_parameters_are_refused_before_the_fit():
    p, y = rows_of(200, 60)
    with pytest.raises(ParameterError, match="3660 parameters for 60 classes"):
        WithIntervals(DirichletCalibration(None)).fit(p, y)


def test_draws_that_are_not_there_are_refused():
    p, y = rows_of(60, 3)
    with pytest.raises(ParameterError, match="at most n_draws = 20"):
        WithIntervals(TemperatureScaling(), n_draws=20).fit(p, y).draws(p, 21)
    with pytest.raises(ParameterError, match="no draws"):
        WithIntervals(VennAbersCalibration()).fit(p, y).draws(p)
    with pytest.raises(ParameterError, match="level must lie"):
        WithIntervals(TemperatureScaling()).fit(p, y).predict_interval(p, 1.0)


# Edges


def test_a_class_without_rows_keeps_its_probability_as_a_point():
    p, y = rows_of(90, 4)
    y[y == 2] = 0
    fitted = WithIntervals(VectorScaling(), n_draws=20)
    with pytest.warns(MissingClassWarning):
        fitted.fit(p, y)
    lower, upper = fitted.predict_interval(p)
    q = fitted.predict_proba(p)
    assert_array_equal(lower[:, 2], upper[:, 2])
    assert (lower <= q).all()
    assert (q <= upper).all()
    assert (upper[:, [0, 1, 3]] <= 1 - p[:, [2]] + 1e-12).all()
    assert_allclose(fitted.draws(p).sum(axis=2), 1)


def test_rows_that_are_all_right_leave_the_temperature_open():
    p = np.tile([[0.9, 0.1], [0.2, 0.8]], (20, 1))
    with pytest.warns(ConvergenceWarning):
        fitted = WithIntervals(TemperatureScaling()).fit(p, np.tile([0, 1], 20))
    lower, upper = fitted.predict_interval(p[:1])
    assert np.isfinite([lower, upper]).all()
    assert upper[0, 0] - lower[0, 0] > 0.4


@pytest.mark.parametrize(
    "name", ["temperature", "vector", "platt", "beta", "shared-matrix", "dirichlet", "gp"]
)
@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_hard_rows_have_finite_intervals(name):
    """Exact zeros and ones, constant rows, two rows, rows far beyond the calibration rows."""
    certain = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.2, 0.8]] * 5)
    sets = [
        (certain, np.array([0, 1, 1, 2, 1, 1, 0, 2, 0, 1] * 2)),
        (np.full((12, 3), 1 / 3), np.arange(12) % 3),
        (np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1]]), np.array([0, 1])),
        (rows_of(30, 3)[0].astype(np.float32), rows_of(30, 3)[1]),
    ]
    far = np.array([[1.0, 0.0, 0.0], [1e-30, 1 - 2e-30, 1e-30], [1 / 3, 1 / 3, 1 / 3]])
    for p, y in sets:
        fitted = WithIntervals(calibrant.registry.make(name)).fit(p, y)
        lower, upper = fitted.predict_interval(far)
        assert np.isfinite([lower, upper]).all()
        assert (lower <= upper).all()


def test_logits_and_many_classes():
    generator = np.random.default_rng(0)
    logits = generator.normal(size=(300, 200)) * 2
    y = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    y[:200] = np.arange(200)
    X = Predictions.from_logits(logits)
    for calibrator in (TemperatureScaling(), StructuredScaling("vector", shared_map=False)):
        lower, upper = WithIntervals(calibrator).fit(X, y).predict_interval(X)
        assert (lower < upper).all()
        assert (upper - lower).max() < 0.6


def test_real_predictions_have_narrow_intervals_that_agree_between_ways():
    """CIFAR-10: the temperature of 5,000 rows is known to a few per cent, and both ways say so."""
    rows = load("cifar_netcal/c10_wideresnet_16_4")
    p, y = rows["probs"].astype(float), rows["y"]
    order = np.random.default_rng(0).permutation(10_000)
    calibration, test = order[:5000], order[5000:]
    laplace = WithIntervals(TemperatureScaling()).fit(p[calibration], y[calibration])
    refitted = WithIntervals(TemperatureScaling(), method="bootstrap", n_draws=60).fit(
        p[calibration], y[calibration]
    )
    widths = [np.subtract(*fitted.predict_interval(p[test])[::-1]).mean() for fitted in (laplace, refitted)]
    assert widths[0] < 0.01
    assert widths[0] == pytest.approx(widths[1], rel=0.3)
    other = TemperatureScaling().fit(p[test], y[test]).predict_proba(p[test])
    lower, upper = (
        WithIntervals(TemperatureScaling(), level=0.999)
        .fit(p[calibration], y[calibration])
        .predict_interval(p[test])
    )
    assert ((lower <= other) & (other <= upper)).mean() > 0.99
