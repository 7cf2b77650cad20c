"""Learning batch by batch: exact while rows are few, close to one fit of all rows after that."""

from contextlib import nullcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.base import clone

import calibrant
from calibrant import (
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
    StructuredScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.batches import ROWS_AT_HAND
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from data import load

LOGISTIC = [
    TemperatureScaling(),
    TemperatureScaling("brier"),
    PlattScaling(),
    PlattScaling("probability", smoothed_targets=True),
    PlattScaling(smoothed_targets=True),
    BetaCalibration(),
    BetaCalibration("am"),
    BetaCalibration("ab"),
    VectorScaling(),
    VectorScaling(bias=False),
]
# Maps of all scores at once, with more parameters: what is remembered of them is rougher.
AFFINE = [
    MatrixScaling(None),
    MatrixScaling("l2", 1e-3, 1e-3),
    DirichletCalibration(reg_lambda=0.1, reg_mu=0.1),
    BiasCorrectedTemperature(),
]
STRUCTURED = [StructuredScaling(), StructuredScaling("vector", shared_map=False), StructuredScaling(None)]
# Curves around a temperature; that, ranges and knots are those of the first rows.
CURVED = [QuadraticScaling(), QuadraticScaling(monotone=False), PiecewiseLinearCalibration()]
# Kernel, inducing points and knots are those of the first rows.
LATENT = [GaussianProcessCalibration(), GaussianProcessCalibration(monotone=True)]
LOGISTIC += AFFINE + STRUCTURED + CURVED + LATENT
EVERY = [*LOGISTIC, HistogramBinning(), HistogramBinning("quantile"), HistogramBinning(n_bins="auto")]


def each(methods, slow):
    marked = [pytest.param(method, marks=pytest.mark.slow if method in slow else ()) for method in methods]
    return pytest.mark.parametrize("method", marked, ids=str)


every_method = each(EVERY, slow=LATENT[1:])
every_logistic_method = each(LOGISTIC, slow=LATENT[1:])
# Fits of a Gaussian process to a dozen batches take seconds.
every_method_in_many_batches = each(EVERY, slow=LATENT)
every_logistic_method_in_many_batches = each(LOGISTIC, slow=LATENT)


def event_rows(n_rows, seed=0):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, n_rows)
    return expit(z), (generator.random(n_rows) < expit(0.6 * z - 0.4)).astype(int)


def class_rows(n_rows, n_classes=4, seed=0):
    generator = np.random.default_rng(seed)
    z = generator.normal(0, 2, (n_rows, n_classes))
    u = 0.6 * z + np.linspace(-0.5, 0.5, n_classes)
    return softmax(z, axis=1), (u + generator.gumbel(size=u.shape)).argmax(axis=1)


def keeps_rows(method):
    """Tell whether rows are kept as they are until all classes have come."""
    return getattr(method.batches, "needs_all_classes", False)


def in_batches(method, X, y, size, weights=None, **options):
    fitted = clone(method)
    for start in range(0, len(y), size):
        rows = slice(start, start + size)
        fitted.partial_fit(X[rows], y[rows], None if weights is None else weights[rows], **options)
    return fitted


# One fit, and the same in batches


@every_method
@pytest.mark.parametrize("rows", [event_rows, class_rows])
def test_one_batch_is_an_ordinary_fit(method, rows):
    X, y = rows(3000)
    assert_array_equal(
        clone(method).partial_fit(X, y).predict_proba(X), clone(method).fit(X, y).predict_proba(X)
    )


@every_method_in_many_batches
@pytest.mark.parametrize("rows", [event_rows, class_rows])
def test_batches_of_few_rows_together_are_an_ordinary_fit(method, rows):
    X, y = rows(600)
    assert_array_equal(
        in_batches(method, X, y, 37).predict_proba(X), clone(method).fit(X, y).predict_proba(X)
    )


@every_logistic_method_in_many_batches
@pytest.mark.parametrize("rows", [event_rows, class_rows])
def test_many_batches_are_close_to_one_fit(method, rows):
    """The standard error of a probability is about several times this bound."""
    X, y = rows(8000)
    full = clone(method).fit(X, y)
    atol = 8e-3 if method in AFFINE + STRUCTURED + CURVED else 1.5e-2 if method in LATENT else 3e-3
    assert_allclose(in_batches(method, X, y, 400).predict_proba(X), full.predict_proba(X), atol=atol)


@pytest.mark.parametrize("seed", range(2))
def test_the_difference_from_one_fit_falls_with_the_number_of_rows(seed):
    """Up to a logarithm as 1 / n, where the standard error falls as its root: here to a fiftieth of it."""
    for n_rows in (4000, 64000):
        X, y = event_rows(n_rows, seed)
        full, part = PlattScaling().fit(X, y), in_batches(PlattScaling(), X, y, 1000)
        assert abs(full.slope_ - part.slope_) < 30 / n_rows
        assert abs(full.intercept_ - part.intercept_) < 30 / n_rows


def test_an_update_minimises_the_new_loss_and_the_expansion_of_the_old():
    """Second implementation: derivatives of the past loss by hand, and a minimiser that knows no derivatives."""
    X, y = event_rows(2000)
    z, first = np.log(X / (1 - X)), slice(0, 1500)

    def loss(theta, rows):
        u = theta[0] * z[rows] + theta[1]
        return np.sum(np.logaddexp(0, u) - y[rows] * u)

    old = PlattScaling().fit(X[first], y[first])
    start = np.array([old.slope_, old.intercept_])
    curved = expit(start[0] * z[first] + start[1])
    features = np.stack([z[first], np.ones(1500)])
    hessian = (features * curved * (1 - curved)) @ features.T
    gradient = features @ (curved - y[first])

    def total(theta):
        step = theta - start
        return loss(theta, slice(1500, None)) + gradient @ step + step @ hessian @ step / 2

    wanted = minimize(total, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).x
    fitted = in_batches(PlattScaling(), X, y, 1500)
    assert_allclose([fitted.slope_, fitted.intercept_], wanted, atol=1e-6)


@pytest.mark.parametrize("rows", [event_rows, class_rows])
@pytest.mark.parametrize("weighted", [False, True])
def test_bins_of_equal_width_are_those_of_one_fit_of_all_rows(rows, weighted):
    X, y = rows(5000)
    weights = np.random.default_rng(1).random(5000) if weighted else None
    method = HistogramBinning(n_bins=12)
    full, part = clone(method).fit(X, y, weights), in_batches(method, X, y, 333, weights)
    assert_allclose(part.predict_proba(X), full.predict_proba(X), rtol=1e-12)
    if rows is event_rows:
        assert_allclose(part.counts_, full.counts_, rtol=1e-12)


def test_edges_of_equal_mass_are_those_of_the_first_rows():
    X, y = event_rows(5000)
    part = in_batches(HistogramBinning("quantile"), X, y, 1500)
    assert_array_equal(part.edges_, HistogramBinning("quantile").fit(X[:1500], y[:1500]).edges_)
    assert part.counts_.sum() == 5000
    index = np.clip(np.searchsorted(part.edges_, X, "right") - 1, 0, 14)
    counts, events = np.bincount(index, minlength=15), np.bincount(index, y, minlength=15)
    assert_allclose(part.values_, (events + 2 * y.mean()) / (counts + 2), rtol=1e-12)


@every_logistic_method
def test_a_weight_of_two_is_the_row_twice(method):
    X, y = event_rows(2000)
    twice = clone(method).partial_fit(X[:1200], y[:1200]).partial_fit(X[1200:], y[1200:], np.full(800, 2.0))
    repeated = clone(method).partial_fit(X[:1200], y[:1200])
    repeated.partial_fit(np.repeat(X[1200:], 2), np.repeat(y[1200:], 2))
    assert_allclose(twice.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


def test_raw_logits_can_come_in_batches():
    generator = np.random.default_rng(0)
    logits = generator.normal(0, 3, (4000, 3))
    y = (0.5 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    part = VectorScaling()
    for start in range(0, 4000, 500):
        part.partial_fit(Predictions.from_logits(logits[start : start + 500]), y[start : start + 500])
    full = VectorScaling().fit(Predictions.from_logits(logits), y)
    assert_allclose(part.weights_, full.weights_, atol=5e-3)


@pytest.mark.filterwarnings("ignore::calibrant.errors.CalibrationWarning")
def test_a_network_in_batches_of_a_hundred():
    """Some fits of the first few hundred rows have no end, since of a class all are right; later rows cure it."""
    data = load("cifar_netcal/c10_wideresnet_16_4")
    p, y = data["probs"].astype(np.float64), data["y"]
    for method in (TemperatureScaling(), VectorScaling(), BetaCalibration()):
        full, part = clone(method).fit(p[:5000], y[:5000]), in_batches(method, p[:5000], y[:5000], 100)
        own = np.arange(5000), y[5000:]
        losses = [-np.log(fitted.predict_proba(p[5000:])[own]).mean() for fitted in (full, part)]
        assert losses[1] == pytest.approx(losses[0], rel=5e-3)


@pytest.mark.parametrize(
    "method", [StructuredScaling(), StructuredScaling(None), DirichletCalibration("l2")], ids=str
)
def test_a_network_in_batches_of_many_parameters(method):
    data = load("cifar_netcal/c10_wideresnet_16_4")
    p, y = data["probs"].astype(np.float64), data["y"]
    full, part = clone(method).fit(p[:5000], y[:5000]), in_batches(method, p[:5000], y[:5000], 500)
    own = np.arange(5000), y[5000:]
    losses = [-np.log(fitted.predict_proba(p[5000:])[own]).mean() for fitted in (full, part)]
    assert losses[1] == pytest.approx(losses[0], rel=5e-3)


# Forgetting


@pytest.mark.parametrize(
    "method", [TemperatureScaling(), PlattScaling(), BetaCalibration(), VectorScaling()], ids=str
)
def test_what_was_learnt_fades(method):
    """After ten half-lives of the opposite the old slope is as good as gone."""
    X, y = event_rows(8000)
    generator = np.random.default_rng(1)
    later = (generator.random(8000) < expit(2 * np.log(X / (1 - X)))).astype(int)
    faded = in_batches(method, np.concatenate([X, X]), np.concatenate([y, later]), 200, half_life=800)
    wanted = clone(method).fit(X[-2000:], later[-2000:])
    kept = in_batches(method, np.concatenate([X, X]), np.concatenate([y, later]), 200)
    distances = [np.abs(fitted.predict_proba(X) - wanted.predict_proba(X)).mean() for fitted in (faded, kept)]
    assert distances[0] < 0.03
    assert distances[1] > 2 * distances[0]


def test_bins_count_what_is_left_after_fading():
    """1,200 rows, of which half counts after 100 more, then a quarter of it after 200 more."""
    X, y = event_rows(1500)
    fitted = HistogramBinning().partial_fit(X[:1200], y[:1200], half_life=100)
    fitted.partial_fit(X[1200:1300], y[1200:1300], half_life=100)
    assert fitted.counts_.sum() == pytest.approx(700)
    fitted.partial_fit(X[1300:], y[1300:], half_life=100)
    assert fitted.counts_.sum() == pytest.approx(375)


# Classes that come late


@every_method
def test_nothing_is_changed_until_two_classes_have_come(method):
    X, y = event_rows(500)
    waiting = clone(method).partial_fit(X[y == 0], y[y == 0])
    assert_allclose(waiting.predict_proba(X)[:, 1], X)
    X, y = np.concatenate([X[y == 0], X[y == 1]]), np.sort(y)
    assert_array_equal(
        waiting.partial_fit(X[y == 1], y[y == 1]).predict_proba(X),
        clone(method).fit(X, y).predict_proba(X),
    )


def test_waiting_for_a_rare_event_takes_no_more_memory_and_keeps_its_rate():
    """The rows are a sample, so the rate is a mean over four of them."""
    rates = []
    for seed in range(4):
        generator = np.random.default_rng(seed)
        waiting = PlattScaling()
        for _ in range(20):
            waiting.partial_fit(generator.random(1000), np.zeros(1000, int))
        assert len(waiting.memory_["labels"]) <= ROWS_AT_HAND
        waiting.partial_fit(generator.random(1000), np.arange(1000) < 5)
        rates.append(waiting.predict_proba(generator.random(1000))[:, 1].mean())
    assert np.mean(rates) == pytest.approx(5 / 21000, rel=0.1)


@every_method_in_many_batches
def test_a_class_may_come_after_the_first_rows_are_gone(method):
    """A class is kept back for 2,000 rows; 4,000 later the map is about that of all rows, and better than none."""
    X, y = class_rows(6000)
    order = np.concatenate(
        [np.flatnonzero(y != 3)[:2000], np.setdiff1d(np.arange(6000), np.flatnonzero(y != 3)[:2000])]
    )
    X, y = X[order], y[order]
    # Those that keep rows until all classes have come lose nothing, and do not warn.
    loses = not keeps_rows(method)
    warns = pytest.warns(MissingClassWarning, match="no row of class 3 among the first 2000")
    with warns if loses else nullcontext():
        fitted = clone(method).partial_fit(X[:2000], y[:2000])
    assert np.isfinite(np.log(fitted.predict_proba(X))).all()
    for start in [*range(2000, 2050), *range(2050, 6000, 395)]:
        rows = slice(start, start + (1 if start < 2050 else 395))
        fitted.partial_fit(X[rows], y[rows])
    predicted, wanted = fitted.predict_proba(X), clone(method).fit(X, y).predict_proba(X)
    assert_allclose(predicted.sum(axis=1), 1)
    own = np.arange(6000), y
    losses = [-np.log(p[own]).mean() for p in (predicted, wanted, X)]
    assert losses[0] < losses[2]
    assert losses[0] < losses[1] + 0.02


def test_names_of_classes_are_given_once():
    X, y = event_rows(900)
    names = np.array(["no", "yes"])
    named = PlattScaling().partial_fit(X[y == 1], names[y[y == 1]], classes=["no", "yes"])
    named.partial_fit(X[y == 0], names[y[y == 0]])
    X, y = np.concatenate([X[y == 1], X[y == 0]]), np.sort(y)[::-1]
    assert_array_equal(named.predict_proba(X), PlattScaling().fit(X, y).predict_proba(X))
    assert named.classes_.tolist() == ["no", "yes"]


# State


@every_method
@pytest.mark.parametrize("n_rows", [400, 1500])
def test_saving_between_batches_makes_no_difference(method, n_rows, tmp_path):
    for rows in (event_rows, class_rows):
        X, y = rows(2000)
        whole = clone(method).partial_fit(X[:n_rows], y[:n_rows])
        whole.save(tmp_path / "map.npz")
        loaded = calibrant.load(tmp_path / "map.npz")
        for fitted in (whole, loaded):
            fitted.partial_fit(X[n_rows:], y[n_rows:])
        assert_array_equal(whole.predict_proba(X), loaded.predict_proba(X))


def test_what_waits_can_be_saved(tmp_path):
    X, y = event_rows(300)
    PlattScaling().partial_fit(X[y == 0], y[y == 0]).save(tmp_path / "map.npz")
    loaded = calibrant.load(tmp_path / "map.npz").partial_fit(X[y == 1], y[y == 1])
    assert loaded.slope_ == pytest.approx(PlattScaling().fit(X, y).slope_, rel=1e-6)


@every_method
def test_a_fit_forgets_all_batches_and_a_clone_has_none(method):
    X, y = event_rows(2000)
    fitted = in_batches(method, *event_rows(2000, seed=1), 500)
    assert not hasattr(clone(fitted), "memory_")
    assert_array_equal(fitted.fit(X, y).predict_proba(X), clone(method).fit(X, y).predict_proba(X))
    assert "memory_" not in vars(fitted)
    with pytest.raises(ParameterError, match="start with partial_fit"):
        fitted.partial_fit(X, y)


@every_method
def test_a_batch_that_is_refused_changes_nothing(method):
    X, y = class_rows(1500)
    fitted = clone(method).partial_fit(X[:1200], y[:1200])
    before = fitted.predict_proba(X)
    assert_array_equal(fitted.partial_fit([], []).predict_proba(X), before)
    for wrong, message in (
        ((X[:5, :3] / X[:5, :3].sum(axis=1, keepdims=True), y[:5] % 3), "4 classes"),
        ((Predictions.from_logits(np.log(X[:5])), y[:5]), "first batch|were|was fitted on probabilities"),
        ((X[:5], [0, 1, 2, 3, 9]), "column numbers"),
    ):
        with pytest.raises((PredictionError, LabelError), match=message):
            fitted.partial_fit(*wrong)
    with pytest.raises(LabelError, match="first batch"):
        fitted.partial_fit(X[:5], y[:5], classes=[3, 2, 1, 0])
    with pytest.raises(ParameterError, match="half_life"):
        fitted.partial_fit(X[:5], y[:5], half_life=0)
    assert_array_equal(fitted.predict_proba(X), before)
    fitted.partial_fit(X[1200:], y[1200:])


@pytest.mark.parametrize("method", [TemperatureScaling(), BetaCalibration(), HistogramBinning()], ids=repr)
def test_a_batch_in_which_no_row_counts_changes_nothing(method):
    """Weights that are all zero, or labels that are all to be ignored, before the first batch and after it."""
    X, y = class_rows(300)
    nothing = np.zeros(5)
    ignored = Predictions.from_probabilities(X[:5], ignore_label=-1)
    calibrator, expected = clone(method), clone(method).partial_fit(X, y, half_life=100)
    for begins in (True, False):
        calibrator.partial_fit(X[:5], y[:5], nothing, half_life=100)
        calibrator.partial_fit(ignored, np.full(5, -1), half_life=100)
        if begins:
            assert not hasattr(calibrator, "memory_")
            calibrator.partial_fit(X, y, half_life=100)
    assert_array_equal(calibrator.predict_proba(X), expected.predict_proba(X))


def test_a_parameter_without_meaning_is_refused_and_leaves_nothing_behind():
    X, y = event_rows(50)
    method = PlattScaling("odds")
    with pytest.raises(ParameterError):
        method.partial_fit(X, y)
    assert not hasattr(method, "memory_")


@every_logistic_method
def test_zeros_float32_and_single_rows_do_no_harm(method):
    X, y = event_rows(1300)
    X = X.astype(np.float32)
    X[:20], X[20:40] = 0.0, 1.0
    fitted = clone(method).partial_fit(X[:1250], y[:1250])
    for row in range(1250, 1300):
        fitted.partial_fit(X[row : row + 1], y[row : row + 1])
    predicted = fitted.predict_proba(X)
    assert np.isfinite(np.log(predicted)).all()
    assert predicted.dtype == np.float32
