"""Learning batch by batch: Bayesian binning, scaling-binning and the top-label reduction."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.base import clone
from test_partial_fit import class_rows, event_rows, in_batches

import calibrant
from calibrant import (
    BayesianBinning,
    BetaCalibration,
    HistogramBinning,
    IsotonicCalibration,
    PlattScaling,
    Predictions,
    ScalingBinning,
    TemperatureScaling,
    TopLabel,
    VectorScaling,
)
from calibrant.binning import EqualWidth
from calibrant.calibrators.binned.merged_levels import MOST_LEVELS, cell_starts, merged, with_batch
from calibrant.calibrators.binned.scaling_binning import RepresentativeRows
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.numerics.isotonic import Levels, levels

BAYESIAN = [
    BayesianBinning(),
    BayesianBinning(prior_weight_per="bin", prior_margin=0.005),
    BayesianBinning(model_averaging="best"),
]
SCALED = [
    ScalingBinning(),
    ScalingBinning(BetaCalibration(), n_bins=20),
    ScalingBinning(binning=EqualWidth(12)),
]
TOP = [
    TopLabel(HistogramBinning()),
    TopLabel(PlattScaling()),
    TopLabel(TemperatureScaling(), by_class=False),
    TopLabel(ScalingBinning(n_bins=10)),
    TopLabel(BayesianBinning(), min_rows=400),
]
EVERY = [*BAYESIAN, *SCALED, *TOP]
SOME = [BayesianBinning(), ScalingBinning(), TopLabel(HistogramBinning()), TopLabel(PlattScaling())]
every_method = pytest.mark.parametrize("method", EVERY, ids=str)
some_methods = pytest.mark.parametrize("method", SOME, ids=str)
both_problems = pytest.mark.parametrize("rows", [event_rows, class_rows])


def log_loss(p, y):
    return -np.log(p[np.arange(len(y)), y]).mean()


# One fit, and the same in batches


@every_method
@both_problems
def test_one_batch_is_an_ordinary_fit(method, rows):
    X, y = rows(3000)
    weights = np.random.default_rng(1).random(3000)
    for given in (None, weights):
        assert_array_equal(
            clone(method).partial_fit(X, y, given).predict_proba(X),
            clone(method).fit(X, y, given).predict_proba(X),
        )


@every_method
@both_problems
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")  # of the first 37 rows alone
def test_batches_of_few_rows_together_are_an_ordinary_fit(method, rows):
    X, y = rows(600)
    assert_array_equal(
        in_batches(method, X, y, 37).predict_proba(X), clone(method).fit(X, y).predict_proba(X)
    )


@pytest.mark.parametrize("method", BAYESIAN, ids=str)
@both_problems
@pytest.mark.parametrize("weighted", [False, True])
def test_bayesian_binning_of_few_levels_is_one_fit_of_all_rows(method, rows, weighted):
    X, y = rows(5000)
    weights = np.random.default_rng(1).random(5000) if weighted else None
    full, part = clone(method).fit(X, y, weights), in_batches(method, X, y, 333, weights)
    if weighted:
        # Rounding of sums may move the weight of a model, and a best one that is hardly better.
        atol = 1e-2 if method.model_averaging == "best" else 1e-7
        assert np.abs(part.predict_proba(X) - full.predict_proba(X)).mean() < atol
    else:
        assert_array_equal(part.predict_proba(X), full.predict_proba(X))


@pytest.mark.parametrize("method", BAYESIAN[:2], ids=str)
def test_bayesian_binning_of_many_levels_is_close_to_one_fit(method):
    """Merging changes the map less than leaving out one row in a hundred does, and far less than its own error."""
    fresh, events = event_rows(20_000, seed=5)
    truth = expit(0.6 * logit(fresh) - 0.4)
    distances = []
    for seed in range(3):
        X, y = event_rows(40_000, seed)
        left = np.random.default_rng(seed).random(40_000) > 0.01
        full, part = clone(method).fit(X, y), in_batches(method, X, y, 4000)
        assert len(part.memory_["score"]) <= MOST_LEVELS
        assert part.memory_["weight"].sum() == 40_000
        assert part.memory_["outcome_sum"].sum() == y.sum()
        losses = [log_loss(fitted.predict_proba(fresh), events) for fitted in (full, part)]
        assert losses[1] == pytest.approx(losses[0], abs=5e-4)
        of_all, merged_, of_most = (
            fitted.predict_proba(fresh)[:, 1] for fitted in (full, part, clone(method).fit(X[left], y[left]))
        )
        distances.append([np.mean((p - of_all) ** 2) for p in (merged_, of_most, truth)])
    of_merging, of_leaving_out, of_chance = np.sqrt(np.mean(distances, axis=0))
    assert of_merging < of_leaving_out
    assert of_merging < of_chance / 3


@pytest.mark.parametrize("method", SCALED, ids=str)
@both_problems
def test_scaling_binning_in_many_batches_is_close_to_one_fit(method, rows):
    """Rows beside an edge may fall into the next bin; all others differ as little as the maps."""
    X, y = rows(16_000)
    full, part = clone(method).fit(X, y), in_batches(method, X, y, 1000)
    difference = np.abs(part.predict_proba(X) - full.predict_proba(X))
    assert np.quantile(difference, 0.9) < 2e-3
    assert difference.mean() < 1e-3
    if rows is event_rows:
        assert_allclose(part.values_, full.values_, atol=5e-3)
        assert_allclose(part.values_ + part.complements_, 1)
        assert part.counts_.sum() == pytest.approx(16_000)
        assert len(part.memory_["weights"]) <= MOST_LEVELS


def test_a_map_of_raw_logits_keeps_their_spread():
    """Two slopes that differ: the output is no function of the log-odds, of which 40,000 rows are merged."""
    generator = np.random.default_rng(0)
    z = generator.normal(0, 2, (40_000, 2))
    y = (generator.random(40_000) < expit(1.5 * z[:, 1] - 0.3 * z[:, 0])).astype(int)
    method, data = ScalingBinning(VectorScaling()), Predictions.from_logits(z)
    full, part = clone(method).fit(data, y), clone(method)
    for start in range(0, 40_000, 2000):
        part.partial_fit(Predictions.from_logits(z[start : start + 2000]), y[start : start + 2000])
    assert len(part.memory_["weights"]) < 40_000
    assert_allclose(part.values_, full.values_, atol=0.02)
    assert np.abs(part.predict_proba(data) - full.predict_proba(data)).mean() < 5e-3


@pytest.mark.parametrize("method", TOP[:4], ids=str)
@both_problems
def test_top_label_in_many_batches_is_close_to_one_fit(method, rows):
    X, y = rows(12_000)
    full, part = clone(method).fit(X, y), in_batches(method, X, y, 700)
    assert_array_equal(part.map_of_class_, full.map_of_class_)
    difference = np.abs(part.predict_proba(X) - full.predict_proba(X))
    assert np.quantile(difference, 0.9) < 2e-3
    if isinstance(method.base, HistogramBinning):
        assert difference.max() < 1e-12


def test_each_class_learns_as_if_its_rows_came_alone():
    """The map of a predicted class is that of a base that is given the same parts of all batches."""
    X, y = class_rows(9000)
    part = in_batches(TopLabel(BetaCalibration()), X, y, 900)
    predicted = X.argmax(axis=1)
    alone = BetaCalibration()
    for start in range(0, 9000, 900):
        rows = np.arange(start, start + 900)
        rows = rows[predicted[rows] == 2]
        rest = X[rows].sum(axis=1) - X[rows, 2]
        alone.partial_fit(np.column_stack([rest, X[rows, 2]]), (y[rows] == 2).astype(int))
    of_class = part.calibrators_[part.map_of_class_[2]]
    assert_allclose(of_class.predict_proba(X[:50, 2]), alone.predict_proba(X[:50, 2]), rtol=1e-8)


@some_methods
@both_problems
def test_the_order_of_batches_hardly_matters(method, rows):
    X, y = rows(12_000)
    there = in_batches(method, X, y, 1500)
    back = in_batches(method, X[::-1], y[::-1], 1500)
    assert np.abs(there.predict_proba(X) - back.predict_proba(X)).mean() < 3e-3


# Merging


def merged_by_hand(rows, n_cells):
    """Go through the levels one by one, and begin a cell where the middle of a level is in the next part."""
    total, below, cells, parts = sum(weight for _, weight, _ in rows), 0.0, [], []
    for score, weight, events in rows:
        part = int((below + weight / 2) / total * n_cells)
        if not parts or parts[-1] != part:
            cells.append([])
            parts.append(part)
        cells[-1].append((score, weight, events))
        below += weight
    sums = [(sum(w for _, w, _ in cell), sum(e for _, _, e in cell)) for cell in cells]
    means = [sum(s * w for s, w, _ in cell) / sum(w for _, w, _ in cell) for cell in cells]
    return means, *zip(*sums, strict=True)


def test_levels_are_merged_into_cells_of_equal_mass():
    generator = np.random.default_rng(0)
    scores = np.sort(generator.random(12_000))
    weight = generator.integers(1, 5, 12_000).astype(float)
    weight[6000] = 500.0  # a tie as heavy as a hundred cells
    rows = Levels(scores, weight, np.floor(weight * generator.random(12_000)))
    few = merged(rows)
    means, weights, events = merged_by_hand(
        list(zip(rows.score, rows.weight, rows.outcome_sum, strict=True)), 5000
    )
    assert_allclose(few.score, means, rtol=1e-12)
    assert_array_equal(few.weight, weights)
    assert_array_equal(few.outcome_sum, events)
    assert 3000 < len(few.score) <= 5000
    assert scores[6000] in few.score
    assert (np.diff(few.score) > 0).all()
    assert np.sort(few.weight)[-2] < 2 * weight.sum() / 5000
    assert merged(few) is few


def test_levels_of_batches_add_up_to_those_of_all_rows():
    generator = np.random.default_rng(0)
    scores, outcomes = generator.integers(0, 50, 3000) / 50, generator.random(3000) < 0.3
    whole = levels(scores, outcomes)
    together = levels(scores[:500], outcomes[:500])
    for start in range(500, 3000, 500):
        rows = slice(start, start + 500)
        together = with_batch(together, 1.0, levels(scores[rows], outcomes[rows]))
    for name in ("score", "weight", "outcome_sum"):
        assert_array_equal(getattr(together, name), getattr(whole, name))


def test_neighbouring_floats_stay_in_order_when_they_are_merged():
    scores = 0.3 + np.arange(20_000) * np.spacing(0.3)
    few = merged(Levels(scores, np.full(20_000, 1 / 3), np.zeros(20_000)))
    assert (np.diff(few.score) > 0).all()
    assert cell_starts(np.array([1e-320, 1e-320, 1.0]), 5).tolist() == [0, 2]


def test_representative_rows_have_the_quantiles_of_all():
    """Of 30,000 rows a few thousand stay; no quantile moves by more than the mass of two cells."""
    generator = np.random.default_rng(0)
    z = generator.normal(0, 3, 30_000)
    p = np.column_stack([expit(-z), expit(z)])
    rows = RepresentativeRows.of(Predictions.from_probabilities(p[:5000]), None)
    for start in range(5000, 30_000, 5000):
        batch = RepresentativeRows.of(Predictions.from_probabilities(p[start : start + 5000]), None)
        rows = rows.with_batch(batch, 1.0)
        assert len(rows.weights) <= MOST_LEVELS
    assert rows.weights.sum() == 30_000
    assert np.isin(rows.predictions.scores[:, 1], p[:, 1]).all()
    below = np.cumsum(rows.weights) - rows.weights / 2
    wanted = np.searchsorted(np.sort(p[:, 1]), rows.predictions.scores[:, 1])
    assert np.abs(below - wanted).max() < 4 * 30_000 / 5000


# Weights


@some_methods
@both_problems
def test_a_weight_of_two_is_the_row_twice(method, rows):
    X, y = rows(2400)
    twice = clone(method).partial_fit(X[:1200], y[:1200]).partial_fit(X[1200:], y[1200:], np.full(1200, 2.0))
    repeated = clone(method).partial_fit(X[:1200], y[:1200])
    repeated.partial_fit(np.repeat(X[1200:], 2, axis=0), np.repeat(y[1200:], 2))
    assert_allclose(twice.predict_proba(X), repeated.predict_proba(X), atol=1e-6)


@some_methods
@both_problems
def test_small_weights_do_not_make_rows_fewer(method, rows):
    X, y = rows(4000)
    small, plain = in_batches(method, X, y, 800, np.full(4000, 2.0**-6)), in_batches(method, X, y, 800)
    assert_allclose(small.predict_proba(X), plain.predict_proba(X), atol=1e-6)
    if isinstance(method, ScalingBinning) and rows is event_rows:
        assert_allclose(small.counts_, plain.counts_)


# Forgetting


def test_bins_count_what_is_left_after_fading():
    """1,200 rows, of which half counts after 100 more, then a quarter of it after 200 more."""
    X, y = event_rows(1500)
    for method, count in (
        (ScalingBinning(), lambda fitted: fitted.counts_.sum()),
        (BayesianBinning(), lambda fitted: fitted.memory_["weight"].sum()),
        (TopLabel(HistogramBinning()), lambda fitted: fitted.memory_["outcome_weights"].sum()),
    ):
        fitted = clone(method).partial_fit(X[:1200], y[:1200], half_life=100)
        fitted.partial_fit(X[1200:1300], y[1200:1300], half_life=100)
        assert count(fitted) == pytest.approx(700)
        fitted.partial_fit(X[1300:], y[1300:], half_life=100)
        assert count(fitted) == pytest.approx(375)


def test_faded_rows_leave_fewer_models():
    """375 rows allow at most ceil(375 / 5) bins, or ceil(10 * 375^(1/3))."""
    X, y = event_rows(1500)
    fitted = BayesianBinning()
    for rows in (slice(0, 1200), slice(1200, 1300), slice(1300, 1500)):
        fitted.partial_fit(X[rows], y[rows], half_life=100)
    assert fitted.model_n_bins_.max() == 73


def test_rows_that_faded_while_they_were_at_hand_count_as_what_is_left():
    """900 rows, of which a quarter counts after 200 more: 425, though 1,100 were at hand."""
    X, y = event_rows(1100)
    for method in (ScalingBinning(), BayesianBinning(), TopLabel(HistogramBinning(), by_class=False)):
        fitted = clone(method).partial_fit(X[:900], y[:900], half_life=100)
        fitted.partial_fit(X[900:], y[900:], half_life=100)
        assert fitted.memory_["rows"] == pytest.approx(425)
        if isinstance(method, BayesianBinning):
            assert fitted.model_n_bins_.max() == 76  # ceil(10 * 425^(1/3))
        else:
            bins = fitted.calibrators_[0] if isinstance(method, TopLabel) else fitted
            assert bins.counts_.sum() == pytest.approx(425)


@some_methods
@both_problems
def test_what_was_learnt_fades(method, rows):
    """After ten half-lives of the opposite the old map is as good as gone."""
    X, y = rows(6000)
    generator = np.random.default_rng(1)
    if rows is event_rows:
        later = (generator.random(6000) < expit(2 * logit(X))).astype(int)
    else:
        later = (2 * np.log(X) + generator.gumbel(size=X.shape)).argmax(axis=1)
    X, y = np.concatenate([X, X]), np.concatenate([y, later])
    wanted = clone(method).fit(X[-1500:], y[-1500:]).predict_proba(X)
    faded, kept = in_batches(method, X, y, 300, half_life=600), in_batches(method, X, y, 300)
    distances = [np.abs(fitted.predict_proba(X) - wanted).mean() for fitted in (faded, kept)]
    assert distances[0] < 0.03
    assert distances[1] > 2 * distances[0]


@every_method
def test_all_that_was_learnt_may_fade_at_once(method):
    """What counts no more is gone, and what is left are the rows of the batch, if only one."""
    X, y = event_rows(4000)
    fitted = clone(method).partial_fit(X[:1500], y[:1500])
    fitted.partial_fit(X[1500:3000], y[1500:3000], half_life=1)
    wanted = clone(method).fit(X[1500:3000], y[1500:3000])
    difference = np.abs(fitted.predict_proba(X) - wanted.predict_proba(X))
    assert difference.mean() < 5e-3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", calibrant.errors.CalibrationWarning)
        for row in range(3000, 3004):
            fitted.partial_fit(X[row : row + 1], y[row : row + 1], half_life=1e-4)
    assert np.isfinite(fitted.predict_proba(X)).all()


def test_a_class_falls_back_when_its_rows_have_faded():
    """The third class is no longer predicted, and uses the map of all rows as soon as fewer than 50 of its own are left."""
    X, y = class_rows(6000, 3)
    first = np.arange(6000) < 1500
    others = np.flatnonzero(~first & (X.argmax(axis=1) != 2))
    fitted = TopLabel(HistogramBinning()).partial_fit(X[first], y[first])
    weight = fitted.memory_["outcome_weights"][2].sum()
    has_own_map = []
    for start in range(0, 2400, 100):
        rows = others[start : start + 100]
        fitted.partial_fit(X[rows], y[rows], half_life=400)
        weight /= 2**0.25
        assert fitted.memory_["outcome_weights"][2].sum() == pytest.approx(weight)
        of_all = fitted.memory_["learner_of_all"].counts_
        has_own_map.append(not np.array_equal(fitted.calibrators_[2].counts_, of_all))
        assert has_own_map[-1] == (weight >= 50)
    assert has_own_map[0]
    assert not has_own_map[-1]
    assert fitted.memory_["kept"][2] == pytest.approx(2.0**-6)
    back = np.flatnonzero(X.argmax(axis=1) == 2)[:600]
    fitted.partial_fit(X[back], y[back])
    assert fitted.calibrators_[2].counts_.sum() == pytest.approx(600 + weight)


# Constants of the top label


def test_a_class_has_a_constant_until_both_outcomes_have_come():
    """Laplace's rule: all of 700 rows right, then one wrong."""
    p = np.tile([[0.8, 0.1, 0.1], [0.1, 0.7, 0.2], [0.3, 0.1, 0.6]], (700, 1))
    y = np.tile([0, 1, 2], 700)
    y[1::6] = 2
    fitted = TopLabel(HistogramBinning(), min_rows=60)
    for start in range(0, 2100, 300):
        fitted.partial_fit(p[start : start + 300], y[start : start + 300])
    assert [calibrator is None for calibrator in fitted.calibrators_] == [True, False, True]
    assert fitted.constants_[0] == pytest.approx(701 / 702)
    assert fitted.predict_proba(p[:1])[0, 0] == pytest.approx(701 / 702)
    fitted.partial_fit(p[:1], [1])
    assert fitted.calibrators_[0] is not None
    again = TopLabel(HistogramBinning(), min_rows=60).fit(np.vstack([p, p[:1]]), [*y, 1])
    assert_allclose(fitted.predict_proba(p), again.predict_proba(p))


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


@some_methods
def test_a_rare_event_that_comes_late_has_its_rate(method):
    generator = np.random.default_rng(0)
    waiting = clone(method)
    for _ in range(10):
        waiting.partial_fit(generator.random(1000), np.zeros(1000, int))
    waiting.partial_fit(generator.random(1000), np.arange(1000) < 50)
    assert waiting.predict_proba(generator.random(1000))[:, 1].mean() < 0.02


@every_method
def test_a_class_may_come_after_the_first_rows_are_gone(method):
    """A class is kept back for 2,000 rows; 4,000 later the map is about that of all rows, and better than none."""
    X, y = class_rows(6000)
    early = np.flatnonzero(y != 3)[:2000]
    order = np.concatenate([early, np.setdiff1d(np.arange(6000), early)])
    X, y = X[order], y[order]
    with pytest.warns(MissingClassWarning, match="no row of class 3 among the first 2000"):
        fitted = clone(method).partial_fit(X[:2000], y[:2000])
    assert np.isfinite(np.log(fitted.predict_proba(X))).all()
    for start in [*range(2000, 2010), *range(2010, 6000, 399)]:
        rows = slice(start, start + (1 if start < 2010 else 399))
        fitted.partial_fit(X[rows], y[rows])
    predicted = fitted.predict_proba(X)
    assert_allclose(predicted.sum(axis=1), 1)
    losses = [log_loss(p, y) for p in (predicted, clone(method).fit(X, y).predict_proba(X), X)]
    assert losses[0] < losses[2]
    assert losses[0] < losses[1] + 0.02


@some_methods
def test_a_class_that_comes_last_does_less_harm_than_calibration_does_good(method):
    """After every batch the map is no worse than none on the rows so far, and in the end close to one fit."""
    X, y = class_rows(6000)
    order = np.argsort(y == 3, kind="stable")
    X, y = X[order], y[order]
    part = clone(method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MissingClassWarning)
        for start in range(0, 6000, 300):
            part.partial_fit(X[start : start + 300], y[start : start + 300])
            rows = slice(0, start + 300)
            assert log_loss(part.predict_proba(X[rows]), y[rows]) < 1.02 * log_loss(X[rows], y[rows])
    assert log_loss(part.predict_proba(X), y) < 1.04 * log_loss(clone(method).fit(X, y).predict_proba(X), y)


# State


@every_method
@pytest.mark.parametrize("n_rows", [400, 1500])
def test_saving_between_batches_makes_no_difference(method, n_rows, tmp_path):
    for rows in (event_rows, class_rows):
        X, y = rows(2000)
        whole = clone(method).partial_fit(X[:n_rows], y[:n_rows])
        whole.partial_fit(X[n_rows : n_rows + 1], y[n_rows : n_rows + 1], half_life=300)
        whole.save(tmp_path / "map.npz")
        loaded = calibrant.load(tmp_path / "map.npz")
        for fitted in (whole, loaded):
            fitted.partial_fit(X[n_rows:], y[n_rows:], half_life=300)
        assert_array_equal(whole.predict_proba(X), loaded.predict_proba(X))


def test_a_class_that_was_never_predicted_can_be_saved(tmp_path):
    X, y = class_rows(1500, 3)
    X[:, 1] = 0.1 * X[:, [0, 2]].max(axis=1)
    X /= X.sum(axis=1, keepdims=True)
    fitted = TopLabel(PlattScaling()).partial_fit(X, y)
    fitted.save(tmp_path / "map.npz")
    fresh, labels = class_rows(300, 3, seed=1)
    for part in (fitted, loaded := calibrant.load(tmp_path / "map.npz")):
        part.partial_fit(fresh, labels)
    assert fitted.map_of_class_.tolist() == [0, 1, 2]
    assert_array_equal(fitted.predict_proba(X), loaded.predict_proba(X))


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
    with pytest.raises(PredictionError, match="4 classes"):
        fitted.partial_fit(X[:5, :3] / X[:5, :3].sum(axis=1, keepdims=True), y[:5] % 3)
    with pytest.raises(LabelError, match="column numbers"):
        fitted.partial_fit(X[:5], [0, 1, 2, 3, 9])
    with pytest.raises(ParameterError, match="half_life"):
        fitted.partial_fit(X[:5], y[:5], half_life=0)
    assert_array_equal(fitted.predict_proba(X), before)
    fitted.partial_fit(X[1200:], y[1200:])


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        (BayesianBinning(), (BayesianBinning, "_average")),
        (ScalingBinning(), (ScalingBinning, "_set_bins")),
        (TopLabel(PlattScaling()), (TopLabel, "_set_maps")),
    ],
    ids=str,
)
@both_problems
def test_an_update_that_fails_half_way_changes_nothing(method, broken, rows, monkeypatch):
    X, y = rows(3000)
    fitted, other = (clone(method).partial_fit(X[:1500], y[:1500]) for _ in range(2))

    def fail(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(*broken, fail)
        with pytest.raises(MemoryError):
            fitted.partial_fit(X[1500:], y[1500:])
    for each in (fitted, other):
        each.partial_fit(X[1500:], y[1500:])
    assert_array_equal(fitted.predict_proba(X), other.predict_proba(X))


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            TopLabel(IsotonicCalibration()),
            r"^base is IsotonicCalibration\(\), which cannot learn batch by batch",
        ),
        (ScalingBinning(IsotonicCalibration()), r"^scaling is .* such as PlattScaling\(\)\.$"),
        (TopLabel(ScalingBinning(IsotonicCalibration())), "^base__scaling is IsotonicCalibration"),
        (TopLabel("platt"), "^base must be a calibrator"),
        (ScalingBinning("platt"), "^scaling must be a calibrator"),
    ],
    ids=str,
)
@both_problems
def test_a_part_that_cannot_learn_in_batches_is_refused(method, message, rows):
    X, y = rows(300)
    method = clone(method)
    with pytest.raises(ParameterError, match=message):
        method.partial_fit(X, y)
    assert not hasattr(method, "classes_")
    if "must" not in message:
        method.fit(X, y)


def test_parameters_of_parts_stay_the_same_over_batches():
    X, y = event_rows(1500)
    fitted = TopLabel(HistogramBinning()).partial_fit(X, y)
    fitted.set_params(base__n_bins=7)
    with pytest.raises(ParameterError, match=r"base changed from .* restore it"):
        fitted.partial_fit(X, y)


# Hard rows


@every_method
@both_problems
def test_zeros_ties_float32_and_single_rows_do_no_harm(method, rows):
    X, y = rows(1300)
    X = X.astype(np.float32)
    if rows is event_rows:
        X[:20], X[20:40], X[40:300] = 0.0, 1.0, 0.25
    else:
        X[:40], X[40:300] = [0, 0, 1, 0], [0.25, 0.25, 0.125, 0.375]
    fitted = clone(method).partial_fit(X[:1250], y[:1250])
    for row in range(1250, 1300):
        fitted.partial_fit(X[row : row + 1], y[row : row + 1])
    predicted = fitted.predict_proba(X)
    assert np.isfinite(np.log(predicted)).all()
    assert predicted.dtype == np.float32
    full = clone(method).fit(X, y).predict_proba(X)
    assert np.abs(predicted - full).mean() < 5e-3


@pytest.mark.parametrize("method", [BayesianBinning(), ScalingBinning(binning=EqualWidth(12))], ids=str)
def test_scores_with_few_values_are_never_merged(method):
    """40,000 rows of 101 scores, as of a forest: their sums are those of one fit."""
    generator = np.random.default_rng(0)
    X = generator.integers(0, 101, 40_000) / 100
    y = (generator.random(40_000) < 0.2 + 0.5 * X).astype(int)
    full, part = clone(method).fit(X, y), in_batches(method, X, y, 4000)
    if isinstance(method, BayesianBinning):
        assert_array_equal(part.predict_proba(X), full.predict_proba(X))
    else:
        assert len(part.memory_["weights"]) == 101
        assert_array_equal(part.edges_, full.edges_)
        assert_allclose(part.values_, full.values_, atol=1e-4)


def test_maps_that_are_not_used_do_not_warn():
    """The third class is hardly ever predicted, and its few rows are told apart by their scores."""
    generator = np.random.default_rng(0)
    X, y = class_rows(3000, 3)
    X[:, 2] /= 200
    X /= X.sum(axis=1, keepdims=True)
    predicted = X.argmax(axis=1)
    y = np.where(generator.random(3000) < X.max(axis=1), predicted, (predicted + 1) % 3)
    part = in_batches(TopLabel(PlattScaling()), X, y, 500)
    assert 0 < (predicted == 2).sum() < 50
    assert part.map_of_class_.tolist() == [0, 1, 2]  # the last of them is the map of all rows
    learner = part.memory_["learners"][2]
    assert learner.memory_["rows"] == (predicted == 2).sum()
