"""Near-isotonic calibration against plain loops over all models, netcal, closed forms and real classifiers."""

from math import exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant import IsotonicCalibration, NearIsotonicCalibration, Predictions
from calibrant.calibrators.monotone.near_isotonic import NearIsotonicPath, near_isotonic_path
from calibrant.errors import ParameterError
from calibrant.metrics import brier_score, log_loss
from data import load


@st.composite
def weighted_rows(draw):
    """Scores with ties, outcomes of both kinds, and whole-number weights."""
    n_rows = draw(st.integers(2, 25))
    grain = draw(st.sampled_from([5, 1000]))
    scores = draw(st.lists(st.integers(0, grain), min_size=n_rows, max_size=n_rows))
    outcomes = draw(st.lists(st.integers(0, 1), min_size=n_rows, max_size=n_rows))
    outcomes[:2] = [0, 1]
    weights = draw(st.lists(st.integers(1, 3), min_size=n_rows, max_size=n_rows))
    return np.array(scores) / grain, np.array(outcomes), np.array(weights, dtype=float)


def near_isotonic_models(weight, mean):
    """Return [(penalty, value of every level), ...] for all knots, step by step in plain loops.

    Groups are found anew at each knot as runs of equal values.
    """
    value, penalty, models = list(mean), 0.0, []
    while True:
        groups = [[0]]
        for level in range(1, len(value)):
            if abs(value[level] - value[level - 1]) < 1e-11:
                groups[-1].append(level)
            else:
                groups.append([level])
        for group in groups:
            for level in group:
                value[level] = value[group[0]]
        models.append((penalty, list(value)))
        slope = []
        for number, group in enumerate(groups):
            before = number > 0 and value[groups[number - 1][0]] > value[group[0]]
            after = number + 1 < len(groups) and value[group[0]] > value[groups[number + 1][0]]
            slope.append((int(before) - int(after)) / sum(weight[level] for level in group))
        steps = []
        for number in range(len(groups) - 1):
            approach = slope[number] - slope[number + 1]
            gap = value[groups[number + 1][0]] - value[groups[number][0]]
            if abs(approach) > 1e-14 and gap / approach > 0:
                steps.append(gap / approach)
        if not steps:
            return models
        penalty += min(steps)
        for number, group in enumerate(groups):
            for level in group:
                value[level] += slope[number] * min(steps)


def plain_average(scores, outcomes, weights, smoothing):
    """Return distinct scores, averaged values, and the weights of all models: nothing left out, no bounds."""
    distinct = sorted(set(scores.tolist()))
    weight = [weights[scores == s].sum() for s in distinct]
    events = [(weights * outcomes)[scores == s].sum() for s in distinct]
    models = near_isotonic_models(weight, [e / w for e, w in zip(events, weight, strict=True)])
    criteria, maps = [], []
    for number, (_, value) in enumerate(models):
        likelihood, mapped, n_groups = 0.0, [], 0
        for level, z in enumerate(value):
            if events[level] > 0:
                likelihood += events[level] * log(z)
            if weight[level] > events[level]:
                likelihood += (weight[level] - events[level]) * log(1 - z)
            if level == 0 or z != value[level - 1]:
                n_groups += 1
                end = level
                while end < len(value) and value[end] == z:
                    end += 1
                size = sum(weight[level:end])
            mapped.append((size * z + smoothing / 2) / (size + smoothing))
        n_parameters = len(distinct) if number == 0 and len(models) > 1 else n_groups
        criteria.append(-2 * likelihood + n_parameters * log(sum(weight)))
        maps.append(mapped)
    shares = [exp((min(criteria) - criterion) / 2) for criterion in criteria]
    averaged = [
        sum(share * mapped[level] for share, mapped in zip(shares, maps, strict=True)) / sum(shares)
        for level in range(len(distinct))
    ]
    return np.array(distinct), np.array(averaged), np.array(shares) / sum(shares)


@settings(max_examples=60, deadline=None)
@given(rows=weighted_rows(), smoothing=st.sampled_from([0.0, 0.5, 1.0]))
def test_it_is_the_average_over_all_models_in_plain_loops(rows, smoothing):
    fitted = NearIsotonicCalibration(smoothing=smoothing).fit(*rows)
    distinct, averaged, shares = plain_average(*rows, smoothing)
    assert fitted.predict_proba(distinct)[:, 1] == pytest.approx(averaged, abs=1e-9)
    new = np.linspace(0, 1, 41)
    assert fitted.predict_proba(new)[:, 1] == pytest.approx(np.interp(new, distinct, averaged), abs=1e-9)
    assert fitted.model_weights_ == pytest.approx(shares[shares > 1e-14], abs=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_leaving_out_models_changes_nothing(seed):
    """Three hundred distinct scores: most models are never evaluated, yet the average is that over all."""
    generator = np.random.default_rng(seed)
    scores, weights = generator.permutation(300) / 300, np.ones(300)
    outcomes = (generator.random(300) < 0.5 + 0.4 * np.sin(9 * scores)).astype(int)
    fitted = NearIsotonicCalibration().fit(scores, outcomes)
    distinct, averaged, shares = plain_average(scores, outcomes, weights, 1.0)
    assert len(fitted.model_weights_) < len(shares)
    assert fitted.predict_proba(distinct)[:, 1] == pytest.approx(averaged, abs=1e-11)


def test_few_models_are_evaluated(monkeypatch):
    """Of scores that say nothing, where a model of any number of groups has some likelihood to offer."""
    generator = np.random.default_rng(9)
    scores, outcomes = generator.random(5000), generator.random(5000) < 0.5
    evaluated = []
    groups = NearIsotonicPath.groups
    monkeypatch.setattr(
        NearIsotonicPath, "groups", lambda path, knot: (evaluated.append(knot), groups(path, knot))[1]
    )
    NearIsotonicCalibration().fit(scores, outcomes)
    levels = np.ones(5000), outcomes[np.argsort(scores)].astype(float)
    assert len(evaluated) < 0.1 * len(near_isotonic_path(*levels).penalty)


def test_models_and_their_average_are_those_of_netcal():
    """Runs of equal outcomes, 0 first; figures printed by netcal 1.4.0, whose likelihoods are float32.

    Its models were copied before the next one is made, which otherwise changes them, and all of them but the one
    at penalty 0 were weighted by its own BIC and AIC. No three groups meet at once here, where it loses rows.
    """
    runs = [9, 1, 4, 2, 7, 3, 5, 11, 2, 13, 1, 8]
    outcomes, scores = np.repeat(np.arange(12) % 2, runs), (np.arange(66) + 0.5) / 66
    fitted = NearIsotonicCalibration(smoothing=0).fit(scores, outcomes)
    expected = [0.51594026, 0.44488738, 0.00361552, 0.00726620, 0.02829065]
    assert fitted.model_weights_ == pytest.approx(expected, abs=2e-7)
    averaged = [0, 0.2, 0.2, 0.5566016, 0.1266852, 0.7010574, 0.1793655, 0.9189401, 0.4458296, 0.9336741]
    begins = np.cumsum([0, *runs[:-1]])
    found = fitted.predict_proba(scores[begins])[:, 1]
    assert found == pytest.approx([*averaged, 0.8622363, 1.0], abs=1e-6)
    by_aic = NearIsotonicCalibration(criterion="aic", smoothing=0).fit(scores, outcomes).model_weights_
    assert by_aic == pytest.approx([0.77488290, 0.22356781, 0.00060793, 0.00040880, 0.00053256], abs=2e-7)


def test_two_levels_that_fall():
    """Of eight rows three of four at 0.2 and one of four at 0.7: two models, whose BIC differ by

    2 * 8 * (entropy of 1/2 - entropy of 1/4) - log 8; values are (3 + 1/2) / 5 and the like.
    """
    p, y = [0.2] * 4 + [0.7] * 4, [1, 1, 1, 0, 1, 0, 0, 0]
    fitted = NearIsotonicCalibration().fit(p, y)
    entropy = -0.25 * log(0.25) - 0.75 * log(0.75)
    odds = exp(8 * (log(2) - entropy) - log(8) / 2)
    share = odds / (1 + odds)
    assert fitted.n_groups_.tolist() == [2, 1]
    assert fitted.penalties_ == pytest.approx([0, 1])
    assert fitted.model_weights_ == pytest.approx([share, 1 - share])
    assert fitted.scores_.tolist() == [0.2, 0.7]
    assert fitted.values_ == pytest.approx([0.5 + 0.2 * share, 0.5 - 0.2 * share])


def test_rows_in_perfect_order_have_one_model_with_ends_that_are_not_certain():
    """Four rows without the event give (0 + 1/2) / (4 + 1), two with it (2 + 1/2) / (2 + 1)."""
    fitted = NearIsotonicCalibration().fit([0.1, 0.2, 0.3, 0.4, 0.6, 0.8], [0, 0, 0, 0, 1, 1])
    assert fitted.model_weights_.tolist() == [1]
    assert fitted.scores_.tolist() == [0.1, 0.4, 0.6, 0.8]
    assert fitted.values_ == pytest.approx([0.1, 0.1, 5 / 6, 5 / 6])
    raw = NearIsotonicCalibration(smoothing=0).fit([0.1, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    assert raw.values_.tolist() == [0, 0, 1, 1]


def test_a_constant_score_has_the_smoothed_rate():
    fitted = NearIsotonicCalibration().fit([0.4] * 4, [1, 0, 0, 0])
    assert fitted.predict_proba([0.0, 0.4, 1.0])[:, 1] == pytest.approx([0.3, 0.3, 0.3])


def test_the_beginning_of_the_path_has_no_weight_where_scores_are_distinct():
    generator = np.random.default_rng(0)
    scores = generator.random(200)
    fitted = NearIsotonicCalibration().fit(scores, generator.random(200) < scores)
    assert fitted.penalties_[0] > 0


def test_a_true_fall_is_followed_where_scores_are_tied():
    """At 0.4 the event is truly rarer than at 0.2, with a thousand rows each: monotone maps cannot say so."""
    generator = np.random.default_rng(1)
    scores = np.repeat([0.2, 0.4, 0.6, 0.8], 1000)
    rate = np.repeat([0.5, 0.1, 0.6, 0.9], 1000)
    fitted = NearIsotonicCalibration().fit(scores, generator.random(4000) < rate)
    assert fitted.values_ == pytest.approx([0.5, 0.1, 0.6, 0.9], abs=0.05)
    assert fitted.model_weights_[0] == pytest.approx(1, abs=1e-9)


def test_models_are_in_the_order_of_the_path_and_their_weights_sum_to_one():
    generator = np.random.default_rng(2)
    scores = generator.random(500)
    fitted = NearIsotonicCalibration().fit(scores, generator.random(500) < scores)
    assert len(fitted.penalties_) == len(fitted.n_groups_) == len(fitted.model_weights_) > 2
    assert (np.diff(fitted.penalties_) > 0).all()
    assert (np.diff(fitted.n_groups_) < 0).all()
    assert fitted.model_weights_.sum() == pytest.approx(1)
    assert (np.diff(fitted.scores_) > 0).all()


@settings(max_examples=30, deadline=None)
@given(rows=weighted_rows())
def test_a_weight_is_a_number_of_rows(rows):
    scores, outcomes, weights = rows
    weighted = NearIsotonicCalibration().fit(scores, outcomes, weights)
    counts = weights.astype(int)
    repeated = NearIsotonicCalibration().fit(np.repeat(scores, counts), np.repeat(outcomes, counts))
    np.testing.assert_array_equal(weighted.scores_, repeated.scores_)
    assert weighted.values_ == pytest.approx(repeated.values_, abs=1e-12)
    assert weighted.model_weights_ == pytest.approx(repeated.model_weights_, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(rows=weighted_rows())
def test_the_complement_has_the_complementary_map(rows):
    """Scores are multiples of 1/1024, so that 1 - p is exact."""
    scores, outcomes, weights = rows
    scores = np.round(scores * 1024) / 1024
    fitted = NearIsotonicCalibration().fit(scores, outcomes, weights)
    mirrored = NearIsotonicCalibration().fit(1 - scores, 1 - outcomes, weights)
    new = np.arange(65) / 64
    expected = fitted.predict_proba(new)[:, 1]
    assert 1 - mirrored.predict_proba(1 - new)[:, 1] == pytest.approx(expected, abs=1e-11)


def test_too_many_distinct_scores_are_pooled_into_levels_of_equal_weight():
    """A thousand scores in fifty levels of twenty rows: the map of the numbers of those levels."""
    generator = np.random.default_rng(3)
    scores = np.sort(generator.random(1000))
    outcomes = generator.random(1000) < 0.5 + 0.4 * np.sin(8 * scores)
    pooled = NearIsotonicCalibration(max_levels=50).fit(scores, outcomes)
    number = np.repeat(np.arange(50) / 49, 20)
    by_number = NearIsotonicCalibration().fit(number, outcomes)
    assert pooled.model_weights_ == pytest.approx(by_number.model_weights_)
    expected = by_number.predict_proba(number)
    np.testing.assert_allclose(pooled.predict_proba(scores), expected, rtol=0, atol=1e-12)
    assert set(pooled.scores_.tolist()) <= set(np.concatenate([scores[::20], scores[19::20]]).tolist())


def test_pooled_levels_count_weights():
    generator = np.random.default_rng(4)
    scores, counts = generator.permutation(200) / 200, generator.integers(1, 5, 200)
    outcomes = generator.random(200) < scores
    weighted = NearIsotonicCalibration(max_levels=20).fit(scores, outcomes, counts)
    repeated = NearIsotonicCalibration(max_levels=20).fit(
        np.repeat(scores, counts), np.repeat(outcomes, counts)
    )
    assert weighted.values_ == pytest.approx(repeated.values_, abs=1e-12)


def test_fewer_levels_than_allowed_are_left_alone():
    generator = np.random.default_rng(5)
    scores = generator.random(300)
    outcomes = generator.random(300) < scores
    without = NearIsotonicCalibration(max_levels=None).fit(scores, outcomes)
    np.testing.assert_array_equal(
        NearIsotonicCalibration(max_levels=300).fit(scores, outcomes).values_, without.values_
    )


def test_pooling_a_hundred_thousand_scores_moves_the_map_by_less_than_its_own_error():
    """In the mean, since a step that is moved by a fraction of a level makes a large difference at one place."""
    generator = np.random.default_rng(6)
    scores = generator.random(100_000)
    outcomes = generator.random(100_000) < scores**1.3
    new = np.linspace(0, 1, 1001)
    exact = NearIsotonicCalibration(max_levels=None).fit(scores, outcomes).predict_proba(new)[:, 1]
    pooled = NearIsotonicCalibration(max_levels=5000).fit(scores, outcomes).predict_proba(new)[:, 1]
    assert np.abs(pooled - exact).mean() < 0.5 * np.abs(exact - new**1.3).mean()


def test_aic_keeps_more_groups():
    generator = np.random.default_rng(7)
    scores = generator.random(1000)
    outcomes = generator.random(1000) < scores
    by_bic, by_aic = (
        NearIsotonicCalibration(criterion=criterion).fit(scores, outcomes) for criterion in ("bic", "aic")
    )
    assert by_aic.model_weights_ @ by_aic.n_groups_ > 2 * (by_bic.model_weights_ @ by_bic.n_groups_)


def test_weights_that_sum_to_less_than_a_row_do_not_make_rows_fewer():
    """Weights that average below one are divided by their mean."""
    scores = np.arange(10) / 10
    outcomes = np.array([0, 0, 1, 0, 1, 0, 1, 1, 0, 1])
    fitted = NearIsotonicCalibration().fit(scores, outcomes, np.full(10, 1e-6))
    plain = NearIsotonicCalibration().fit(scores, outcomes)
    assert fitted.values_ == pytest.approx(plain.values_, rel=1e-9)


def test_three_classes_have_three_maps():
    generator = np.random.default_rng(8)
    probabilities = generator.dirichlet(np.ones(3), 300)
    labels = np.array([generator.choice(3, p=row) for row in probabilities])
    fitted = NearIsotonicCalibration(smoothing=2.0).fit(probabilities, labels)
    maps = fitted.one_vs_rest_.calibrators_
    separate = [np.interp(probabilities[:, j], maps[j].scores_, maps[j].values_) for j in range(3)]
    separate = np.column_stack(separate)
    np.testing.assert_allclose(
        fitted.predict_proba(probabilities), separate / separate.sum(axis=1, keepdims=True), atol=1e-12
    )
    assert maps[0].smoothing == 2.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"criterion": "BIC"}, "criterion must be 'bic' or 'aic'"),
        ({"smoothing": -1.0}, "smoothing"),
        ({"smoothing": None}, "smoothing"),
        ({"max_levels": 1}, "max_levels must be a whole number of at least 2, or None"),
        ({"max_levels": 2.5}, "max_levels"),
        ({"max_levels": "all"}, "max_levels"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    with pytest.raises(ParameterError, match=message):
        NearIsotonicCalibration(**parameters).fit([0.2, 0.8], [0, 1])


# Real classifiers


def wide_resnet():
    """Return calibration and test halves of the split by which reference results are computed."""
    data = load("cifar_netcal/c10_wideresnet_16_4")
    order = np.random.default_rng(0).permutation(10_000)
    probabilities, labels = data["probs"].astype(np.float64)[order], data["y"][order]
    return probabilities[:5000], labels[:5000], probabilities[5000:], labels[5000:]


def resnet():
    data = load("kull_nn/c10_resnet110")
    calibration, test = (Predictions.from_logits(data[f"{part}_logits"]) for part in ("val", "test"))
    return calibration, data["val_y"].ravel(), test, data["test_y"].ravel()


@pytest.mark.parametrize("rows", [wide_resnet, resnet])
def test_real_networks_are_calibrated_as_well_as_by_isotonic_regression(rows):
    """With distinct scores and a sound order the two are nearly one; infinite without smoothing."""
    X, y, X_test, y_test = rows()
    averaged = NearIsotonicCalibration().fit(X, y).predict_proba(X_test)
    isotonic = IsotonicCalibration().fit(X, y).predict_proba(X_test)
    assert log_loss(y_test, averaged) < log_loss(y_test, isotonic) < 0.8 * log_loss(y_test, X_test)
    assert brier_score(y_test, averaged) < brier_score(y_test, X_test)
    raw = NearIsotonicCalibration(smoothing=0).fit(X, y).predict_proba(X_test)
    assert raw[np.arange(len(y_test)), y_test].min() == 0


@pytest.mark.parametrize("rows", [wide_resnet, resnet])
def test_one_row_of_smoothing_is_close_to_the_best(rows):
    X, y, X_test, y_test = rows()
    losses = {
        smoothing: log_loss(
            y_test, NearIsotonicCalibration(smoothing=smoothing).fit(X, y).predict_proba(X_test)
        )
        for smoothing in (0.1, 0.5, 1.0, 2.0, 10.0)
    }
    assert losses[1.0] < 1.003 * min(losses.values())
    assert losses[1.0] < min(losses[0.1], losses[10.0])
