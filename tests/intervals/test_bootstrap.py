"""Bootstrap intervals against scipy, repeated rows and closed forms, and what happens where they end."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from calibrant import Predictions
from calibrant.errors import CalibrationWarning
from calibrant.intervals import bootstrap, paired_bootstrap
from calibrant.intervals.resampling import (
    acceleration,
    bca_limits,
    for_a_further_one,
    replicates,
    statistic_of,
)
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import (
    accuracy,
    brier_score,
    classwise_ece,
    confidence_ece,
    log_loss,
)
from calibrant.metrics.row_losses import row_losses
from calibrant.numerics.row_resampling import RowResampling


def problem(n_rows=150, n_classes=3, seed=0):
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.ones(n_classes), n_rows)
    labels = (p.cumsum(axis=1)[:, :-1] < generator.random((n_rows, 1))).sum(axis=1)
    return labels, p, generator.random(n_rows) + 0.1


def values_of(metric, y, p, n_resamples, seed=0):
    """The resampled values of which :func:`bootstrap` makes its interval."""
    data = LabelledPredictions.parse(p, y)
    return replicates(
        partial(statistic_of, metric, data, p),
        RowResampling(data.n_rows),
        n_resamples,
        np.random.default_rng(seed),
    )


METHODS = {"percentile": "percentile", "basic": "basic", "bca": "BCa"}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("metric", "loss"), [(log_loss, "log"), (brier_score, "brier"), (accuracy, None)])
def test_scipy_finds_the_same_ends_for_the_same_resamples(method, metric, loss):
    """Accuracy has many ties, which count half in both."""
    y, p, _ = problem()
    data = LabelledPredictions.parse(p, y)
    of_rows = (p.argmax(axis=1) == y).astype(float) if loss is None else row_losses(data, loss)
    given = SimpleNamespace(bootstrap_distribution=values_of(metric, y, p, 500))
    theirs = scipy.stats.bootstrap(
        (of_rows,), np.mean, n_resamples=0, bootstrap_result=given, method=METHODS[method]
    )
    ours = bootstrap(metric, y, p, method=method, n_resamples=500, uncorrected=True)
    assert tuple(ours) == pytest.approx(tuple(theirs.confidence_interval), rel=1e-9)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_scipy_agrees_with_resamples_of_its_own(method):
    """The end of a 95 % interval is known to about sqrt(0.025 * 0.975 / 4000) / 0.058 = 0.043 standard errors."""
    y, p, _ = problem(400)
    losses = row_losses(LabelledPredictions.parse(p, y), "brier")
    theirs = scipy.stats.bootstrap(
        (losses,), np.mean, n_resamples=4000, method=METHODS[method], rng=np.random.default_rng(1)
    )
    ours = bootstrap(brier_score, y, p, n_resamples=4000, method=method)
    tolerance = 4 * 0.043 * np.sqrt(2) * ours.standard_error
    assert tuple(ours) == pytest.approx(tuple(theirs.confidence_interval), abs=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("drawing", ["rows", "classes", "groups"])
@pytest.mark.parametrize(
    "metric", [accuracy, brier_score, log_loss, classwise_ece, partial(confidence_ece, strategy="quantile")]
)
def test_weights_give_what_repeated_rows_give(metric, drawing, weighted):
    """A function that is not known as a metric of ours is called on the resampled rows themselves."""
    y, p, weights = problem(60)
    options = {
        "sample_weight": weights if weighted else None,
        "stratify": drawing == "classes",
        "groups": np.arange(60) // 4 if drawing == "groups" else None,
        "n_resamples": 60,
    }

    def stranger(y_true, y_proba, sample_weight=None):
        return metric(y_true, y_proba, sample_weight=sample_weight)

    options["uncorrected"] = True
    ours, theirs = bootstrap(metric, y, p, **options), bootstrap(stranger, y, p, **options)
    assert ours.estimate == pytest.approx(theirs.estimate, rel=1e-12)
    assert tuple(ours) == pytest.approx(tuple(theirs), rel=1e-9)
    assert ours.standard_error == pytest.approx(theirs.standard_error, rel=1e-9)


def test_the_standard_error_of_a_mean_is_the_one_of_the_closed_form():
    """sqrt(p (1 - p) / n), known from B resamples to 1 / sqrt(2 B) of itself."""
    y, p, _ = problem(500)
    interval = bootstrap(accuracy, y, p, n_resamples=4000)
    expected = np.sqrt(interval.estimate * (1 - interval.estimate) / 500)
    assert interval.standard_error == pytest.approx(expected, rel=4 / np.sqrt(8000))


def test_the_standard_error_of_a_stratified_mean_is_the_one_within_classes():
    """sqrt(sum_k n_k p_k (1 - p_k)) / n, smaller than without strata."""
    generator = np.random.default_rng(0)
    y = np.repeat([0, 1], [300, 100])
    hits = generator.random(400) < np.where(y == 0, 0.95, 0.4)
    p = np.where(hits, y, 1 - y).astype(float)
    within = sum(len(h) * h.var() for h in (hits[y == 0], hits[y == 1]))
    stratified = bootstrap(accuracy, y, p, n_resamples=4000, stratify=True)
    assert stratified.standard_error == pytest.approx(np.sqrt(within) / 400, rel=4 / np.sqrt(8000))
    assert stratified.method == "percentile bootstrap by class"
    assert stratified.standard_error < 0.9 * bootstrap(accuracy, y, p).standard_error


def test_the_standard_error_by_groups_is_the_one_between_groups():
    """Equal groups that are right or wrong as a whole: as if there were G rows."""
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(100), 5)
    y, p = np.ones(500, dtype=int), np.repeat((generator.random(100) < 0.7) * 0.8 + 0.1, 5)
    interval = bootstrap(accuracy, y, p, groups=groups, n_resamples=4000)
    expected = np.sqrt(interval.estimate * (1 - interval.estimate) / 100)
    assert interval.standard_error == pytest.approx(expected, rel=4 / np.sqrt(8000))
    assert interval.n_groups == 100


def test_the_acceleration_of_a_mean_is_a_sixth_of_its_skewness():
    """For a mean, a = sum d^3 / (6 (sum d^2)^1.5), with d the deviations; blocks estimate the same."""
    losses = np.random.default_rng(0).exponential(size=400)
    d = losses - losses.mean()
    expected = (d**3).sum() / (6 * (d**2).sum() ** 1.5)

    def mean(counts):
        return float(np.average(losses, weights=counts))

    assert acceleration(mean, RowResampling(400), np.random.default_rng(0)) == pytest.approx(
        expected, rel=1e-9
    )
    many = np.random.default_rng(0).exponential(size=20_000)
    found = acceleration(
        lambda counts: float(np.average(many, weights=counts)),
        RowResampling(20_000),
        np.random.default_rng(0),
    )
    # True value 2 / (6 sqrt(n)); noise of the blocks 1 / (sqrt(6) 500).
    assert found == pytest.approx(2 / 6 / np.sqrt(20_000), abs=4 / np.sqrt(6) / 500)


def test_the_acceleration_with_strata_is_the_sum_within_them():
    """Davison and Hinkley, section 5.3.2, for a mean: cubes and squares of deviations within strata."""
    generator = np.random.default_rng(0)
    strata = np.repeat([0, 1, 2], [60, 30, 1])
    values = generator.exponential(size=91) + strata
    d = values - np.array([values[strata == s].mean() for s in range(3)])[strata]
    expected = (d**3).sum() / (6 * (d**2).sum() ** 1.5)
    found = acceleration(
        lambda counts: float(np.average(values, weights=counts)),
        RowResampling(91, strata=strata),
        np.random.default_rng(0),
    )
    assert found == pytest.approx(expected, rel=0.05)  # (n_s - 1) / n_s differs between strata


def test_without_bias_and_skewness_bca_is_the_percentile_interval():
    values = np.arange(-100.0, 101.0)
    assert bca_limits(0.0, values, 0.9, lambda: 0.0) == pytest.approx((-90.0, 90.0))


def test_the_same_seed_gives_the_same_interval_and_another_another():
    y, p, _ = problem()
    assert bootstrap(log_loss, y, p) == bootstrap(log_loss, y, p, random_state=0)
    assert bootstrap(log_loss, y, p) != bootstrap(log_loss, y, p, random_state=1)
    first = bootstrap(log_loss, y, p, random_state=np.random.default_rng(7))
    assert first == bootstrap(log_loss, y, p, random_state=np.random.default_rng(7))


@pytest.mark.parametrize("metric", [log_loss, confidence_ece, partial(confidence_ece, strategy="quantile")])
def test_the_number_of_threads_does_not_matter(monkeypatch, metric):
    monkeypatch.setattr("calibrant.intervals.resampling.ROWS_FOR_THREADS", 10)
    y, p, _ = problem(2000)
    found = []
    for n_threads in ("1", "2", "5"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", n_threads)
        found.append(bootstrap(metric, y, p, n_resamples=130, method="bca", uncorrected=True))
    assert found[0] == found[1] == found[2]


def test_rows_of_weight_zero_play_no_part():
    y, p, _ = problem()
    weights, groups = (np.arange(150) % 3 > 0).astype(float), np.arange(150) // 5
    keep = weights > 0
    for chosen in (None, groups):
        ours = bootstrap(brier_score, y, p, sample_weight=weights, groups=chosen, n_resamples=50)
        alone = bootstrap(
            brier_score, y[keep], p[keep], groups=None if chosen is None else chosen[keep], n_resamples=50
        )
        assert tuple(ours) == pytest.approx(tuple(alone), rel=1e-12)
        assert ours.n_rows == 100


def test_another_library_s_function_gets_labels_and_scores_as_they_were_given():
    y, p, _ = problem(80, 2)
    names = np.array(["no", "yes"])[y]

    def area(y_true, y_score):
        assert y_score.ndim == 1
        assert set(y_true) <= {"no", "yes"}
        return sklearn.metrics.roc_auc_score(y_true == "yes", y_score)

    interval = bootstrap(area, names, p[:, 1], n_resamples=100, stratify=True)
    assert interval.estimate == sklearn.metrics.roc_auc_score(y, p[:, 1])
    assert interval.low < interval.estimate < interval.high
    assert interval.definition == "area()"


def test_logits_are_taken():
    y, p, _ = problem()
    given = bootstrap(log_loss, y, Predictions.from_logits(np.log(p)), n_resamples=50)
    assert tuple(given) == pytest.approx(tuple(bootstrap(log_loss, y, p, n_resamples=50)), rel=1e-9)


class TestWhereItEnds:
    def test_resamples_without_a_value_are_left_out_and_counted(self):
        """One positive of ten is absent from a resample with probability 0.9^10 = 0.35."""
        y, p = np.array([1] + [0] * 9), np.linspace(0.1, 0.9, 10)

        def mean_of_positives(y_true, y_score):
            return y_score[y_true == 1].mean() + y_score.mean() if 1 in y_true else float("nan")

        with pytest.warns(CalibrationWarning, match=r"undefined in \d+ of 1000 resamples"):
            interval = bootstrap(mean_of_positives, y, p, n_resamples=1000)
        assert interval.n_undefined == pytest.approx(1000 * 0.9**10, abs=4 * np.sqrt(1000 * 0.35 * 0.65))
        assert np.isfinite(tuple(interval)).all()
        assert f"{interval.n_undefined} undefined" in str(interval)

    def test_a_metric_without_a_value_has_no_interval(self):
        with pytest.warns(CalibrationWarning, match="is undefined for these rows"):
            interval = bootstrap(lambda *_: float("nan"), [0, 1], [0.2, 0.7])
        assert np.isnan(tuple(interval)).all()

    def test_a_metric_without_a_value_in_any_resample_has_no_interval(self):
        """A value only where nothing is repeated, as in the rows themselves."""

        def fragile(y_true, y_score):
            return 1.0 if len(set(y_score.tolist())) == 30 else float("nan")

        with pytest.warns(CalibrationWarning, match="undefined in 50 of 50 resamples"):
            interval = bootstrap(fragile, [0, 1] * 15, np.linspace(0, 1, 30), n_resamples=50)
        assert interval.estimate == 1.0
        assert np.isnan(tuple(interval)).all()

    @pytest.mark.parametrize("method", METHODS)
    def test_equal_resamples_give_an_interval_without_width_and_a_warning(self, method):
        with pytest.warns(CalibrationWarning, match=r"all resamples gave 1.*clopper_pearson"):
            interval = bootstrap(accuracy, [0, 1, 1], [0.2, 0.9, 0.8], method=method, uncorrected=True)
        assert tuple(interval) == (1.0, 1.0)
        assert interval.standard_error == 0.0

    def test_one_row_is_enough_for_a_warning(self):
        with pytest.warns(CalibrationWarning, match="zero width"):
            assert tuple(bootstrap(brier_score, [1], [0.8])) == pytest.approx((0.04, 0.04))

    def test_bca_falls_back_where_every_resample_lies_above_the_estimate(self):
        """Nothing is repeated in the rows as they are, and 30 draws are all different in one of 10^12 cases."""

        def repeats(y_true, y_score):
            return len(y_score) - len(set(y_score.tolist()))

        y, p = [0, 1] * 15, np.linspace(0, 1, 30)
        with pytest.warns(CalibrationWarning, match="BCa interval is undefined"):
            interval = bootstrap(repeats, y, p, method="bca")
        assert interval.method == "percentile bootstrap"
        assert tuple(interval) == tuple(bootstrap(repeats, y, p))

    def test_bca_is_defined_where_ties_are_on_the_edge(self):
        """A constant score of one half has the error |share - 1/2|, zero here and never less: ties count half."""
        metric = partial(confidence_ece, n_bins=1)
        interval = bootstrap(metric, [0, 1] * 50, [0.5] * 100, method="bca", uncorrected=True)
        assert interval.method == "bca bootstrap"
        assert interval.low == 0.0

    def test_an_infinite_loss_reaches_the_upper_end_only(self):
        """The refuted row is absent from a third of the resamples, where the loss is log 2."""
        y, p = [0] * 20, [[0.5, 0.5]] * 19 + [[0.0, 1.0]]
        interval = bootstrap(log_loss, y, p)
        assert interval.estimate == interval.high == interval.standard_error == np.inf
        assert interval.low == pytest.approx(np.log(2))
        with pytest.warns(CalibrationWarning, match="needs finite values"):
            assert bootstrap(log_loss, y, p, method="bca").method == "percentile bootstrap"

    def test_a_loss_that_is_always_infinite_has_no_interval(self):
        with pytest.warns(
            CalibrationWarning, match=r"all resamples gave inf, so there is no interval; .*\(log_loss, floor="
        ):
            interval = bootstrap(log_loss, [0] * 20, [1.0] * 20)
        assert interval.estimate == np.inf
        assert not interval.excludes_estimate
        assert bootstrap(partial(log_loss, floor=0.5), [0, 0], [0.0, 1.0]).estimate == pytest.approx(
            np.log(2) / 2
        )


def test_few_events_and_few_effective_groups_have_no_interval():
    p = np.full(1400, 0.005)
    y = (np.arange(1400) < 4).astype(int)
    options = {"n_resamples": 40}
    found = bootstrap(brier_score, y, p, **options)
    assert np.isnan([found.low, found.high]).all()
    assert found.note == "no interval, since there are only 4 rows of the rarer class, fewer than 5"
    assert "no interval (percentile" in str(found)
    as_it_is = bootstrap(brier_score, y, p, uncorrected=True, **options)
    assert as_it_is.note is None
    assert as_it_is.low < as_it_is.estimate < as_it_is.high
    y[:200] = 1
    enough, as_it_is = (bootstrap(brier_score, y, p, uncorrected=one, **options) for one in (False, True))
    assert enough.note is None
    assert enough.low <= as_it_is.low < as_it_is.high <= enough.high  # the ends (B + 1) a of few resamples
    groups = np.minimum(np.arange(1400) // 50, 10)  # ten of fifty rows, one of 900
    paired = paired_bootstrap(brier_score, y, p, p / 2, groups=groups, **options)
    for one in (bootstrap(brier_score, y, p, groups=groups, **options), paired):
        assert np.isnan(one.low)
        assert "rests on effectively 1.06 groups, fewer than 5" in one.note
    assert paired.probability_second_better is None


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_few_groups_and_events_widen_the_interval_around_its_median(method):
    """By sqrt(u / (u - 1)) t / z: 15 groups but 12 events, 12 events, and 7 groups; at the level for a further value."""
    generator = np.random.default_rng(0)
    p = generator.uniform(0.005, 0.02, 1200)
    y = (np.arange(1200) % 100 == 0).astype(int)
    for groups, units in ((np.arange(1200) % 15, 12), (None, 12), (np.arange(1200) % 7, 7)):
        options = {"groups": groups, "method": method, "n_resamples": 200}
        level = for_a_further_one(0.95, 200)
        plain = bootstrap(brier_score, y, p, uncorrected=True, level=level, **options)
        wider = bootstrap(brier_score, y, p, **options)
        factor = (
            scipy.stats.t.ppf(0.975, units - 1) / scipy.stats.norm.ppf(0.975) * np.sqrt(units / (units - 1))
        )
        assert wider.width == pytest.approx(factor * plain.width, rel=1e-3)
        assert wider.low < plain.low < plain.high < wider.high


def test_unlikely_outcomes_that_did_not_occur_leave_no_interval():
    """200 rows at 99.9 %: 0.2 mistakes are expected. With 20 observed mistakes their spread is known."""
    p = np.linspace(0.9985, 0.9995, 200)
    multi = np.column_stack([p, (1 - p) / 2, (1 - p) / 2])
    y = np.zeros(200, dtype=int)
    y[::40] = 1
    found = bootstrap(brier_score, y, multi, n_resamples=40)
    assert np.isnan(found.low)
    assert "of the less probable outcomes are expected, fewer than 5" in found.note
    y[::10] = 1
    assert np.isfinite(bootstrap(brier_score, y, multi, n_resamples=40).low)
