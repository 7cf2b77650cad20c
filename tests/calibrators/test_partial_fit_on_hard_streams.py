"""Learning batch by batch where rows do not come in a random order, and where users change their minds."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from test_partial_fit import keeps_rows

import calibrant
from calibrant import (
    BayesianBinning,
    BetaCalibration,
    BiasCorrectedTemperature,
    DirichletCalibration,
    GaussianProcessCalibration,
    HistogramBinning,
    MatrixScaling,
    PiecewiseLinearCalibration,
    PlattScaling,
    Predictions,
    QuadraticScaling,
    ScalingBinning,
    StructuredScaling,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
    batches,
)
from calibrant.calibrators import quadratic_summary
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions

PARAMETRIC = [
    TemperatureScaling(),
    VectorScaling(),
    PlattScaling(),
    BetaCalibration(),
    DirichletCalibration("l2"),
    MatrixScaling(None),
    StructuredScaling(),
    StructuredScaling("vector", shared_map=False),
    StructuredScaling(None),
    BiasCorrectedTemperature(),
    QuadraticScaling(),
    PiecewiseLinearCalibration(),
    GaussianProcessCalibration(),
]
# A stream of these for twelve classes takes seconds.
LONG_STREAMS = [
    method
    for method in PARAMETRIC
    if isinstance(
        method, MatrixScaling | DirichletCalibration | StructuredScaling | GaussianProcessCalibration
    )
]
EVERY = [*PARAMETRIC, HistogramBinning(), HistogramBinning("quantile")]
every_method = pytest.mark.parametrize("method", EVERY, ids=str)


def class_rows(n_rows, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, (n_rows, n_classes))
    u = 0.6 * z + np.linspace(-0.5, 0.5, n_classes)
    return softmax(z, axis=1), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


def log_loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, marks=pytest.mark.slow if isinstance(method, GaussianProcessCalibration) else ())
        for method in EVERY
    ],
    ids=str,
)
@pytest.mark.parametrize("batch", [pytest.param(200, marks=pytest.mark.slow), 70])
def test_a_class_that_comes_last_does_less_harm_than_calibration_does_good(method, batch):
    """After every batch the map is no worse than none on the rows so far, and in the end close to one fit."""
    X, y = class_rows(8000 if batch == 200 else 4000)
    order = np.argsort(y == 3, kind="stable")
    X, y = X[order], y[order]
    part = clone(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        for start in range(0, len(y), batch):
            part.partial_fit(X[start : start + batch], y[start : start + batch])
            rows = slice(0, start + batch)
            assert log_loss(part.predict_proba(X[rows]), y[rows]) < 1.02 * log_loss(X[rows], y[rows])
    wanted = log_loss(clone(method).fit(X, y).predict_proba(X), y)
    assert log_loss(part.predict_proba(X), y) < 1.04 * wanted


def late_second_class(method, seed):
    """Return a calibrator after a stream whose first 1,400 of 3,000 rows lack the second class, and all rows."""
    generator = np.random.default_rng(seed)
    z = 1.9 * generator.normal(size=(3000, 2))
    z[np.arange(3000), generator.integers(0, 2, 3000)] += 4.3
    u = 0.6 * z + [-0.5, 0.5] + generator.gumbel(size=z.shape)
    X, y = softmax(z, axis=1), np.where(np.arange(3000) < 1400, 0, u.argmax(axis=1))
    part = clone(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        for start in range(0, 3000, 200):
            part.partial_fit(X[start : start + 200], y[start : start + 200])
    return part, X, y


def test_a_late_class_costs_no_more_than_is_stated():
    """The temperature of the first rows stays, which costs 0.018 nats per row."""
    part, X, y = late_second_class(StructuredScaling(), seed=5)
    wanted = log_loss(clone(part).fit(X, y).predict_proba(X), y)
    stated = part.batch_summary()
    assert log_loss(part.predict_proba(X), y) - wanted < max(stated.error, stated.sampling_error)


@pytest.mark.parametrize("method", [StructuredScaling(), QuadraticScaling(ridge=50.0)], ids=str)
def test_the_stated_error_compares_maps_of_equal_penalty(method):
    """The sample stands for 3,000 rows, of which the penalty of the map counts each: so does that of the comparison."""
    part, _, _ = late_second_class(method, seed=0)
    sample = batches._rows_of(part.memory_["sample"])
    assert sample.total_weight == pytest.approx(3000)
    alone = clone(method).fit_labelled(
        sample.take(np.arange(sample.n_rows), sample.weights / part.memory_["surplus"])
    )
    wanted = sample.log_loss(part.transform(sample.predictions)) - sample.log_loss(
        alone.transform(sample.predictions)
    )
    assert part.batch_summary().error == pytest.approx(wanted, abs=1e-9)


@every_method
def test_a_class_keeps_its_share_until_it_comes(method):
    X, y = class_rows(3000)
    X, y = X[y != 2], y[y != 2]
    with nullcontext() if keeps_rows(method) else pytest.warns(MissingClassWarning):
        part = clone(method).partial_fit(X, y)
    part.partial_fit(X[:100], y[:100])
    if not method.traits.shares_parameters:
        # Of methods for two classes, only up to the sum of the others.
        atol = 1e-12 if isinstance(method, VectorScaling) or keeps_rows(method) else 0.3
        assert_allclose(part.predict_proba(X)[:, 2], X[:, 2], atol=atol)


def test_the_sample_is_bounded_and_stands_for_all_rows():
    """A class of five rows in ten thousand keeps them; each class has its total weight, and means are those of all."""
    X, y = class_rows(10_000)
    y[(y == 2)] = 1
    y[:5] = 2
    data = LabelledPredictions.parse(X, y, np.random.default_rng(0).uniform(0.5, 2, 10_000))
    sample = batches._thinned(data)
    assert sample.n_rows < batches.most_rows(4) == 1000
    assert_allclose(sample.class_weights, data.class_weights)
    assert_array_equal(np.flatnonzero(sample.labels == 2), range(5))
    means = [np.average(rows.predictions.scores, axis=0, weights=rows.weights) for rows in (data, sample)]
    assert_allclose(means[1], means[0], atol=0.03)
    assert_array_equal(batches._thinned(data).labels, sample.labels)
    part = VectorScaling()
    for start in range(0, 10_000, 250):
        part.partial_fit(X[start : start + 250], y[start : start + 250])
        assert len(part.memory_.get("sample", part.memory_)["labels"]) <= 1000
    assert part.memory_["sample"]["weights"].sum() == pytest.approx(10_000)


@pytest.mark.parametrize(
    "method",
    [pytest.param(method, marks=pytest.mark.slow if method in LONG_STREAMS else ()) for method in PARAMETRIC],
    ids=str,
)
def test_rows_in_random_order_do_not_make_it_begin_again(method, monkeypatch):
    found = []
    ask = batches._is_rejected
    monkeypatch.setattr(batches, "_is_rejected", lambda *args: found.append(ask(*args)) or found[-1])
    for seed, n_classes in ((0, 2), (1, 4), (2, 12)):
        X, y = class_rows(4000, n_classes, seed)
        part = clone(method)
        for start in range(0, 4000, 200):
            part.partial_fit(X[start : start + 200], y[start : start + 200], half_life=1500)
    assert len(found) > 3000 / method.batches.rows_between_checks
    assert not any(found)


@pytest.mark.parametrize(
    ("method", "change"),
    [
        (BetaCalibration(), {"parameters": "am"}),
        (HistogramBinning(), {"n_bins": 7}),
        (PlattScaling(), {"smoothed_targets": True}),
        (TemperatureScaling(), {"bounds": (0.1, 10.0)}),
        (VectorScaling(), {"bias": False}),
        (DirichletCalibration(), {"reg_lambda": 1.0}),
        (TopLabel(PlattScaling()), {"min_rows": 7}),
        (ScalingBinning(), {"n_bins": 7}),
        (BayesianBinning(), {"prior_weight": 7.0}),
        (StructuredScaling(), {"strength": 2.0}),
        (QuadraticScaling(), {"ridge": 2.0}),
        (PiecewiseLinearCalibration(), {"n_segments": 3}),
        (GaussianProcessCalibration(), {"n_inducing": 5}),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_rows", [300, 1500])
def test_parameters_stay_the_same_over_batches(method, change, n_rows, tmp_path):
    X, y = class_rows(n_rows, 2)
    part = clone(method).partial_fit(X, y)
    before = part.predict_proba(X)
    first = part.get_params()
    part.save(tmp_path / "map.npz")
    for fitted in (part, calibrant.load(tmp_path / "map.npz")):
        fitted.set_params(**change)
        with pytest.raises(ParameterError, match=f"{next(iter(change))} changed from .* restore it"):
            fitted.partial_fit(X, y)
        fitted.set_params(**first)
        assert_array_equal(fitted.predict_proba(X), before)
        fitted.partial_fit(X, y)


def test_a_warning_is_given_when_its_cause_arises_and_not_with_every_batch():
    """Three classes that the scores tell apart: no fit exists, and each row would say so again."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, 200)
    p = softmax(
        4.0 * np.eye(3)[y] * (np.arange(200) < 150)[:, None] + generator.normal(0, 1, (200, 3)), axis=1
    )
    part = PlattScaling()
    with warnings.catch_warnings(record=True, action="always") as seen:
        for row in range(200):
            part.partial_fit(p[row : row + 1], y[row : row + 1])
    assert 1 <= sum(issubclass(warning.category, CalibrationWarning) for warning in seen) <= 6


def test_logits_that_come_in_batches_with_a_late_class():
    generator = np.random.default_rng(0)
    z = generator.normal(0, 3, (4000, 3))
    y = (0.5 * z + generator.gumbel(size=z.shape)).argmax(axis=1)
    order = np.argsort(y == 0, kind="stable")
    z, y = z[order], y[order]
    part = VectorScaling()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        for start in range(0, 4000, 400):
            part.partial_fit(Predictions.from_logits(z[start : start + 400]), y[start : start + 400])
    full = VectorScaling().fit(Predictions.from_logits(z), y)
    assert_allclose(part.weights_, full.weights_, atol=0.15)


def many_rows(n_classes, n_rows, seed=0):
    """Rows of many classes, of which those with high numbers are announced too often."""
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 1.5, (n_rows, n_classes))
    u = 0.5 * z - np.linspace(0, 1, n_classes)
    return softmax(z, axis=1), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", [StructuredScaling(), MatrixScaling("l2", 1e-3, 1e-3)], ids=str)
def test_with_very_many_parameters_a_sample_of_rows_is_remembered(method, monkeypatch):
    """Memory is bounded, and the map is no worse than that of as many rows as are kept."""
    monkeypatch.setattr(quadratic_summary, "MOST_PARAMETERS", 100)
    monkeypatch.setattr(quadratic_summary, "MOST_ROWS", 2000)
    X, y = many_rows(12, 6000)
    part = clone(method)
    for start in range(0, 6000, 500):
        part.partial_fit(X[start : start + 500], y[start : start + 500])
        assert "hessian" not in part.memory_
        assert len(part.memory_["labels"]) <= 2000
    assert part.memory_["rows"] == 6000
    assert part.memory_["sampled"]
    assert part.memory_["weights"].sum() == pytest.approx(6000)
    fresh = many_rows(12, 6000, seed=1)
    few = clone(method).fit(X[:1000], y[:1000])
    losses = [log_loss(p, fresh[1]) for p in (part.predict_proba(fresh[0]), few.predict_proba(fresh[0]))]
    assert losses[0] < losses[1] < log_loss(*fresh)


def test_rows_that_stand_for_many_do_not_weaken_a_penalty(monkeypatch):
    """A sample of a thousand rows for a hundred thousand must not be fitted as if it were all of them."""
    monkeypatch.setattr(quadratic_summary, "MOST_PARAMETERS", 10)
    monkeypatch.setattr(quadratic_summary, "MOST_ROWS", 1200)
    X, y = many_rows(8, 100_000)
    part = StructuredScaling().partial_fit(X, y).partial_fit(X[:10], y[:10])
    rows = len(part.memory_["labels"]) - 10
    assert rows < 1200
    assert part.uniform_share_ == pytest.approx(1 / (rows + 11), rel=0.02)


@pytest.mark.parametrize(
    "method", [StructuredScaling(), DirichletCalibration("l2"), MatrixScaling("l2", 0.01, 0.01)], ids=str
)
def test_a_penalty_outlasts_what_fades(method):
    """After many half-lives the map is about that of the rows that count, penalty included."""
    X, y = class_rows(12_000)
    part = clone(method)
    for start in range(0, 12_000, 300):
        part.partial_fit(X[start : start + 300], y[start : start + 300], half_life=700)
    counting = 0.5 ** (np.arange(12_000)[::-1] // 300 * 300 / 700)
    rows = counting > 1e-3
    # Weights below one do not make rows fewer, so that what counts is given as rows that come more often.
    often = np.repeat(np.flatnonzero(rows), np.random.default_rng(0).poisson(counting[rows]))
    wanted = clone(method).fit(X[often], y[often])
    assert np.abs(part.predict_proba(X) - wanted.predict_proba(X)).mean() < 0.03
    assert part.memory_["surplus"] == 1
    assert part.memory_["total_weight"] == pytest.approx(counting.sum(), rel=1e-6)


def test_small_weights_do_not_make_the_rows_fewer_in_batches():
    X, y = class_rows(4000)
    parts = []
    for scale in (1.0, 1e-3):
        part = StructuredScaling()
        for start in range(0, 4000, 500):
            rows = slice(start, start + 500)
            part.partial_fit(X[rows], y[rows], np.full(500, scale))
        parts.append(part.predict_proba(X))
    assert_allclose(parts[0], parts[1], atol=1e-6)


@pytest.mark.filterwarnings("ignore::calibrant.errors.MissingClassWarning")
def test_the_last_digit_of_a_score_does_not_choose_the_sample_of_a_late_class():
    """Rows of one class are thinned until another comes; probabilities one rounding apart give the same rows."""
    generator = np.random.default_rng(4)
    X = generator.dirichlet(np.ones(3), 3000)
    y = (X.cumsum(axis=1) < generator.random((3000, 1))).sum(axis=1)
    y[:2000][y[:2000] == 2] = 0

    def streamed(X):
        calibrator = PlattScaling()
        for rows in np.split(np.arange(3000), 10):
            calibrator.partial_fit(X[rows], y[rows])
        return calibrator.predict_proba(X[:100])

    assert_allclose(streamed(np.nextafter(X, 1)), streamed(X), rtol=0, atol=1e-9)


def test_strengths_found_on_the_first_rows_are_worth_as_many_rows_later():
    X, y = class_rows(6000)
    part = DirichletCalibration().partial_fit(X[:1500], y[:1500])
    first = part.reg_lambda_
    for start in range(1500, 6000, 500):
        part.partial_fit(X[start : start + 500], y[start : start + 500])
    assert part.reg_lambda_ == pytest.approx(first / 4)
    fixed = DirichletCalibration(reg_lambda=0.5, reg_mu=0.1)
    for start in range(0, 6000, 1500):
        fixed.partial_fit(X[start : start + 1500], y[start : start + 1500])
    assert (fixed.reg_lambda_, fixed.reg_mu_) == (0.5, 0.1)
    wanted = DirichletCalibration(reg_lambda=0.5, reg_mu=0.1).fit(X, y)
    assert_allclose(fixed.weights_, wanted.weights_, atol=1e-2)


def test_a_penalised_update_minimises_all_of_its_parts():
    """Second implementation: the new loss by hand, derivatives of the past by differences, a general minimiser."""
    X, y = class_rows(2000, n_classes=3)
    first, later = slice(0, 1500), slice(1500, None)
    old = MatrixScaling("l2", 0.02, 0.05, center="identity").fit(X[first], y[first])
    features = np.hstack([np.log(X), np.ones((2000, 1))])

    def loss(theta, rows):
        scores = features[rows] @ theta.reshape(3, 4).T
        return np.sum(logsumexp(scores, axis=1) - scores[np.arange(len(scores)), y[rows]])

    def penalty(theta):
        matrix = theta.reshape(3, 4)
        return 2000 * (0.02 * np.sum((matrix[:, :3] - np.eye(3)) ** 2) + 0.05 * np.sum(matrix[:, 3] ** 2))

    start = np.hstack([old.weights_, old.intercept_[:, None]]).ravel()
    each, step = np.eye(12), 1e-4

    def slopes(theta):
        return np.array([loss(theta + step * e, first) - loss(theta - step * e, first) for e in each]) / (
            2 * step
        )

    gradient = slopes(start)
    hessian = np.array([slopes(start + step * e) - slopes(start - step * e) for e in each]) / (2 * step)

    def total(theta):
        moved = theta - start
        return loss(theta, later) + gradient @ moved + moved @ hessian @ moved / 2 + penalty(theta)

    wanted = minimize(total, start, method="BFGS", options={"gtol": 1e-4}).x.reshape(3, 4)
    part = clone(old).partial_fit(X[first], y[first]).partial_fit(X[later], y[later])
    assert_allclose(part.weights_, wanted[:, :3], atol=2e-4)
    assert_allclose(part.intercept_, wanted[:, 3], atol=2e-4)


PARTS = [*EVERY, BayesianBinning(), ScalingBinning(), TopLabel(PlattScaling())]


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@pytest.mark.parametrize("method", PARTS, ids=str)
def test_a_class_may_fade_away_altogether(method):
    """Rows of one class alone, for so many half-lives that no float is left of the other."""
    X, y = class_rows(1500, 2)
    part = clone(method).partial_fit(X, y)
    for _ in range(2):
        part.partial_fit(X[:200], np.zeros(200, int), half_life=0.1)
    assert np.isfinite(part.predict_proba(X)).all()
    part.partial_fit(X[:300], y[:300])
    assert np.isfinite(part.predict_proba(X)).all()


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
@pytest.mark.parametrize("scale", [40.0, 745.0])
@pytest.mark.parametrize(
    "method",
    [
        VectorScaling(),
        BiasCorrectedTemperature(),
        MatrixScaling(None),
        DirichletCalibration(None),
        StructuredScaling(),
        StructuredScaling(strength=0.0, slope_penalty=0.0, difference_penalty=0.0),
    ],
    ids=str,
)
def test_rows_so_sure_that_nothing_bends_can_come_in_batches(method, scale):
    y = np.random.default_rng(0).integers(0, 3, 3000)
    logits = np.eye(3)[y] * scale
    part = clone(method)
    for start in range(0, 3000, 250):
        part.partial_fit(Predictions.from_logits(logits[start : start + 250]), y[start : start + 250])
    assert (part.predict(Predictions.from_logits(logits)) == y).all()


@pytest.mark.parametrize("given", ["reg_lambda", "reg_mu"])
def test_a_strength_that_is_given_stays_while_the_other_is_worth_its_rows(given):
    X, y = class_rows(4000)
    part = MatrixScaling(**{given: 0.7}).partial_fit(X[:2000], y[:2000])
    before = part.reg_lambda_, part.reg_mu_
    part.partial_fit(X[2000:], y[2000:])
    after = part.reg_lambda_, part.reg_mu_
    wanted = (before[0], before[1] / 2) if given == "reg_lambda" else (before[0] / 2, before[1])
    assert_allclose(after, wanted)


@pytest.mark.parametrize(
    "method",
    [
        StructuredScaling("diagonal"),
        StructuredScaling(n_segments="many"),
        DirichletCalibration("l1"),
        MatrixScaling(reg_lambda=-1.0),
        TemperatureScaling("hinge"),
        QuadraticScaling(ridge=-1.0),
        PiecewiseLinearCalibration(mixing="much"),
        BayesianBinning("mode"),
        TopLabel(PlattScaling("odds")),
        ScalingBinning(PlattScaling("odds")),
    ],
    ids=str,
)
def test_parameters_are_looked_at_before_there_is_a_fit(method):
    """While rows of one class only have come; a wrong value could not be put right later."""
    with pytest.raises(ParameterError):
        method.partial_fit([[0.6, 0.4]], [0])


@pytest.mark.parametrize("weight", [1e-200, 1e200])
def test_weights_of_any_size(weight):
    X, y = class_rows(3000)
    parts = []
    for size in (1.0, weight):
        part = DirichletCalibration("l2", 0.1, 0.1)
        for start in range(0, 3000, 500):
            part.partial_fit(X[start : start + 500], y[start : start + 500], np.full(500, size))
        parts.append(part.predict_proba(X))
    assert_allclose(parts[0], parts[1], atol=1e-6)


def test_constant_rows_leave_no_freedom():
    part = StructuredScaling(None)
    for seed in range(8):
        part.partial_fit(np.full((250, 12), 1 / 12), np.random.default_rng(seed).integers(0, 12, 250))
    assert_allclose(part.predict_proba([[1 / 12] * 12]), 1 / 12)


@pytest.mark.parametrize(
    "method", [QuadraticScaling(ridge=50.0), PiecewiseLinearCalibration(6, 50.0, 50.0, 50.0)], ids=str
)
def test_a_sample_that_stands_for_many_rows_does_not_weaken_the_penalty_of_an_event(method):
    """Five hundred rows that stand for twenty thousand are fitted as five hundred."""
    X, y = class_rows(20_000, 2)
    data = LabelledPredictions.parse(X, y)
    sample = batches._thinned(data)
    assert sample.total_weight == pytest.approx(20_000)
    found = method.batches.refitted(clone(method), sample)
    weights = sample.weights / sample.weights.mean()
    wanted = clone(method).fit(sample.predictions, sample.labels, weights)
    assert_allclose(found.predict_proba(X), wanted.predict_proba(X), rtol=1e-12)
    weak = clone(method).fit_labelled(sample)
    assert np.abs(weak.predict_proba(X) - wanted.predict_proba(X)).max() > 1e-3
