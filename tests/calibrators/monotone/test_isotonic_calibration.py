"""Isotonic calibration: closed forms, shrunk ends, ties and ranking, and scikit-learn's figures."""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score

from calibrant import IsotonicCalibration, OneVsRest, Predictions, registry
from calibrant.errors import ParameterError
from calibrant.numerics.curves import KnottedCurve
from data import load
from strategies import problems

OPTIONS = [
    {},
    {"interpolation": "step"},
    {"ties": "centered"},
    {"ties": "strict"},
    {"smoothing": 0.5},
]
every_option = pytest.mark.parametrize("options", OPTIONS, ids=str)


@st.composite
def events(draw):
    """Scores in hundredths with many ties, outcomes of both kinds, and whole-number weights."""
    n_rows = draw(st.integers(2, 14))
    scores = draw(st.lists(st.integers(0, 100), min_size=n_rows, max_size=n_rows))
    outcomes = draw(st.lists(st.integers(0, 1), min_size=n_rows - 2, max_size=n_rows - 2))
    weights = draw(st.lists(st.integers(1, 4), min_size=n_rows, max_size=n_rows))
    return np.array(scores) / 100, np.array(draw(st.permutations([0, 1, *outcomes]))), np.array(weights)


def some_event(n_rows=500, seed=0):
    generator = np.random.default_rng(seed)
    scores = generator.random(n_rows)
    return scores, (generator.random(n_rows) < scores**2).astype(int)


def max_min(rows):
    """Return the isotonic fit of (score, outcome, weight) at every score by the max-min formula, exactly."""
    places = sorted({score for score, _, _ in rows})

    def mean(low, high):
        inside = [(o, w) for s, o, w in rows if low <= s <= high]
        return sum(Fraction(o) * w for o, w in inside) / sum(w for _, w in inside)

    return {v: max(min(mean(a, b) for b in places if b >= v) for a in places if a <= v) for v in places}


# The fit


@settings(max_examples=20)
@given(rows=events(), smoothing=st.sampled_from([Fraction(0), Fraction(1, 2), Fraction(1), Fraction(3)]))
def test_shrunk_ends_are_those_of_one_more_row_beyond_all_others(rows, smoothing):
    """The raw fit by the max-min formula, then the same with rows added that contradict its two ends.

    Their weight is the smoothing, less what contradicts the lowest and the highest block already.
    """
    scores, outcomes, weights = rows
    fit = IsotonicCalibration(smoothing=float(smoothing)).fit(scores, outcomes, weights)
    plain = [
        (s, int(o), Fraction(int(w))) for s, o, w in zip(scores.tolist(), outcomes, weights, strict=True)
    ]
    raw = max_min(plain)
    lowest, highest = min(raw.values()), max(raw.values())
    events_below = sum(w for s, o, w in plain if o == 1 and raw[s] == lowest)
    others_above = sum(w for s, o, w in plain if o == 0 and raw[s] == highest)
    extra = [
        (place, outcome, smoothing - contradicting)
        for place, outcome, contradicting in ((-1.0, 1, events_below), (2.0, 0, others_above))
        if smoothing > contradicting
    ]
    expected = max_min(plain + extra)
    calibrated = fit.predict_proba(scores)[:, 1]
    assert calibrated == pytest.approx([float(expected[s]) for s in scores.tolist()], abs=1e-12)


def test_an_end_of_n_rows_becomes_one_in_n_plus_one():
    """Nine rows without the event below, four with it above: 1/10 and 4/5."""
    fitted = IsotonicCalibration().fit(np.arange(13) / 13, [0] * 9 + [1] * 4)
    assert fitted.values_ == pytest.approx([0.1, 0.1, 0.8, 0.8])
    assert fitted.scores_ == pytest.approx([0, 8 / 13, 9 / 13, 12 / 13])


def test_a_shrunk_end_that_overtakes_its_neighbour_is_pooled_with_it():
    """One row of 0 becomes 1/2 and meets 1/4 of four rows: together 2 of 6."""
    fitted = IsotonicCalibration().fit([0.1, 0.2, 0.3, 0.4, 0.5, 0.9], [0, 1, 0, 0, 0, 1])
    # The last row, alone at 1, becomes 1/2.
    assert fitted.values_ == pytest.approx([1 / 3, 1 / 3, 1 / 2])


@given(rows=events())
def test_smoothing_changes_nothing_where_the_raw_map_has_no_zeros_and_ones(rows):
    scores, outcomes, weights = rows
    scores = np.concatenate([[-0.0, 1.0], scores / 2 + 0.2])
    outcomes = np.concatenate([[1, 0], outcomes])
    weights = np.concatenate([[1, 1], weights])
    default = IsotonicCalibration().fit(scores, outcomes, weights)
    raw = IsotonicCalibration(smoothing=0).fit(scores, outcomes, weights)
    np.testing.assert_array_equal(default.values_, raw.values_)


@every_option
@settings(max_examples=8)
@given(rows=events())
def test_no_event_is_ever_certain_and_the_map_does_not_fall(rows, options):
    scores, outcomes, weights = rows
    fitted = IsotonicCalibration(**options).fit(scores, outcomes, weights)
    grid = np.concatenate([[0.0, 5e-324, 1e-300], np.linspace(0, 1, 101), scores])
    calibrated = fitted.predict_proba(grid)
    assert calibrated.min() > 0
    assert (np.diff(calibrated[np.argsort(grid, kind="stable"), 1]) >= 0).all()
    assert (np.diff(fitted.scores_) > 0).all()


@every_option
@settings(max_examples=8)
@given(rows=events())
def test_the_mirror_image_has_the_mirrored_map(rows, options):
    scores, outcomes, weights = rows
    scores = np.round(scores * 128) / 128  # so that 1 - p is exact
    grid = np.linspace(0, 1, 129) + 1 / 512  # away from the middle of two scores, where a step may be
    grid = grid[grid < 1]
    fitted = IsotonicCalibration(**options).fit(scores, outcomes, weights)
    mirrored = IsotonicCalibration(**options).fit(1 - scores, 1 - outcomes, weights)
    assert mirrored.predict_proba(1 - grid)[:, 0] == pytest.approx(
        fitted.predict_proba(grid)[:, 1], abs=1e-12
    )


@every_option
@settings(max_examples=8)
@given(rows=events())
def test_a_weight_is_a_number_of_rows(rows, options):
    scores, outcomes, weights = rows
    weighted = IsotonicCalibration(**options).fit(scores, outcomes, weights)
    repeated = IsotonicCalibration(**options).fit(np.repeat(scores, weights), np.repeat(outcomes, weights))
    assert weighted.scores_ == pytest.approx(repeated.scores_, abs=1e-15)
    assert weighted.values_ == pytest.approx(repeated.values_, abs=1e-15)


# Between and beyond blocks


@pytest.mark.parametrize("weighted", [False, True])
def test_the_raw_linear_map_is_that_of_scikit_learn(weighted):
    scores, outcomes = some_event()
    scores = scores.round(2)
    weights = np.random.default_rng(1).uniform(0.1, 2, len(scores)) if weighted else None
    peer = IsotonicRegression(out_of_bounds="clip").fit(scores, outcomes.astype(float), weights)
    fitted = IsotonicCalibration(smoothing=0).fit(scores, outcomes, weights)
    grid = np.linspace(0, 1, 999)
    assert fitted.predict_proba(grid)[:, 1] == pytest.approx(peer.predict(grid), abs=1e-12)


def test_steps_are_half_way_between_blocks():
    """Blocks {0.1, 0.2} at 1/3 and {0.4, 0.6} at 2/3: the step is at 0.3."""
    fitted = IsotonicCalibration("step").fit([0.1, 0.2, 0.4, 0.6], [0, 0, 1, 1])
    np.testing.assert_allclose(fitted.scores_, [0.1, 0.3])
    grid = [0.0, 0.2, 0.29, 0.31, 0.4, 1.0]
    assert fitted.predict_proba(grid)[:, 1] == pytest.approx([1 / 3] * 3 + [2 / 3] * 3)


def test_neighbouring_floats_stay_on_their_sides_of_a_step():
    low, high = 0.5, np.nextafter(0.5, 1)
    for scores in ([low, high], [1e-323, 1.5e-323], [0.0, 5e-324]):
        fitted = IsotonicCalibration("step").fit(scores, [0, 1])
        assert fitted.predict_proba(scores)[:, 1] == pytest.approx([0.5, 0.5])  # 1/2 and 1/2 are one block
        fitted = IsotonicCalibration("step", smoothing=0).fit(scores, [0, 1])
        assert fitted.predict_proba(scores)[:, 1].tolist() == [0, 1]


def test_the_knots_are_a_look_up_table():
    scores, outcomes = some_event()
    grid = np.linspace(0, 1, 1001)
    for ties in ("keep", "centered", "strict"):
        fitted = IsotonicCalibration(ties=ties).fit(scores, outcomes)
        by_table = np.interp(grid, fitted.scores_, fitted.values_)
        assert fitted.predict_proba(grid)[:, 1] == pytest.approx(by_table, abs=1e-15)
    fitted = IsotonicCalibration("step").fit(scores, outcomes)
    place = np.searchsorted(fitted.scores_, grid, side="right") - 1
    np.testing.assert_array_equal(fitted.predict_proba(grid)[:, 1], fitted.values_[place.clip(0)])


@given(
    knots=hnp.arrays(np.float64, 8, elements=st.floats(0, 1), unique=True),
    values=hnp.arrays(np.float64, 8, elements=st.floats(0, 1)),
    points=hnp.arrays(np.float64, 30, elements=st.floats(0, 1)),
    steps=st.integers(-2, 2),
)
def test_rounding_never_reverses_an_order(knots, values, points, steps):
    """Any floats, the smallest ones and neighbours of the knots among them."""
    curve = KnottedCurve(np.sort(knots), np.sort(values))
    near = np.abs(knots + steps * np.spacing(knots))
    at = np.sort(np.concatenate([knots, near, points]))
    mapped = curve(at)
    assert (np.diff(mapped) >= 0).all()
    np.testing.assert_array_equal(curve(curve.knots), curve.values)
    assert (
        mapped == pytest.approx(np.interp(at, curve.knots, curve.values), abs=1e-12) or knots.min() < 1e-290
    )


# Ties


def test_a_block_has_its_value_at_the_weighted_centre_of_its_scores():
    """The scores 0.2, three times, and 0.4 have the mean 0.25, and the event happened for three in four.

    Below, 0.1 three times without the event becomes 1/4; above, 0.9 seven times with it becomes 7/8. At 0 and 1
    the map is at 1/8 and 15/16.
    """
    scores, outcomes, weights = [0.1, 0.2, 0.4, 0.9], [0, 1, 0, 1], [3, 3, 1, 7]
    fitted = IsotonicCalibration(ties="centered").fit(scores, outcomes, weights)
    assert fitted.scores_ == pytest.approx([0, 0.1, 0.25, 0.9, 1])
    assert fitted.values_ == pytest.approx([1 / 8, 1 / 4, 3 / 4, 7 / 8, 15 / 16])
    assert fitted.predict_proba([0.175])[0, 1] == pytest.approx(1 / 2)


def test_scores_of_exactly_zero_and_one_are_their_own_centres():
    fitted = IsotonicCalibration(ties="centered").fit([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1])
    assert fitted.scores_.tolist() == [0, 1]
    assert fitted.values_ == pytest.approx([1 / 3, 2 / 3])


@given(rows=events())
def test_centred_ties_keep_every_difference_of_scores(rows):
    scores, outcomes, weights = rows
    fitted = IsotonicCalibration(ties="centered").fit(scores, outcomes, weights)
    calibrated = fitted.predict_proba(np.linspace(0, 1, 1001))[:, 1]
    assert (np.diff(calibrated) > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_centred_ties_keep_the_auc_of_random_rows_exactly(seed):
    scores, outcomes = some_event(5000, seed)
    new_scores, new_outcomes = some_event(5000, seed + 100)
    fitted = IsotonicCalibration(ties="centered").fit(scores, outcomes)
    calibrated = fitted.predict_proba(new_scores)[:, 1]
    np.testing.assert_array_equal(np.argsort(calibrated), np.argsort(new_scores))
    assert roc_auc_score(new_outcomes, calibrated) == roc_auc_score(new_outcomes, new_scores)
    kept = IsotonicCalibration().fit(scores, outcomes).predict_proba(new_scores)[:, 1]
    assert roc_auc_score(new_outcomes, kept) != roc_auc_score(new_outcomes, new_scores)


@pytest.mark.parametrize("name", ["c10_wideresnet_16_4", "c10_lenet_5"])
@pytest.mark.parametrize("column", [0, 3, 9])
def test_centred_ties_keep_the_auc_of_real_rows_exactly(name, column):
    """The scores reach down to 1e-20, and all that are different stay different; in float32 nearly all."""
    arrays = load(f"cifar_netcal/{name}")
    scores, outcomes = arrays["probs"][:, column].astype(np.float64), arrays["y"] == column
    fitted = IsotonicCalibration(ties="centered").fit(scores[:5000], outcomes[:5000])
    calibrated = fitted.predict_proba(scores)[:, 1]
    assert len(np.unique(calibrated)) == len(np.unique(scores))
    assert roc_auc_score(outcomes, calibrated) == roc_auc_score(outcomes, scores)
    single = fitted.predict_proba(scores.astype(np.float32))[:, 1]
    assert roc_auc_score(outcomes, single) == pytest.approx(roc_auc_score(outcomes, scores), abs=2e-5)


def test_strict_ties_add_a_billionth_of_the_score():
    scores, outcomes = some_event()
    kept = IsotonicCalibration().fit(scores, outcomes).predict_proba(scores)[:, 1]
    strict = IsotonicCalibration(ties="strict").fit(scores, outcomes).predict_proba(scores)[:, 1]
    assert strict == pytest.approx((kept + 1e-9 * scores) / (1 + 1e-9), abs=1e-15)
    assert len(np.unique(strict)) == len(np.unique(scores))


# Several classes, spaces and corners


def test_three_classes_have_the_binary_maps_of_their_columns():
    generator = np.random.default_rng(0)
    probabilities = generator.dirichlet(np.ones(3), 300)
    labels = (generator.random((300, 1)) > probabilities.cumsum(axis=1)).sum(axis=1).clip(max=2)
    fitted = IsotonicCalibration().fit(probabilities, labels)
    separate = OneVsRest(IsotonicCalibration()).fit(probabilities, labels).class_probabilities(probabilities)
    for column in range(3):
        alone = IsotonicCalibration().fit(probabilities[:, column], labels == column)
        ours = fitted.one_vs_rest_.calibrators_[column]
        np.testing.assert_array_equal(ours.scores_, alone.scores_)
        np.testing.assert_array_equal(ours.values_, alone.values_)
        expected = alone.predict_proba(probabilities[:, column])[:, 1]
        np.testing.assert_array_equal(separate[:, column], expected)


def test_log_odds_are_taken_as_the_probabilities_they_mean():
    scores, outcomes = some_event()
    fitted = IsotonicCalibration().fit(scores, outcomes)
    log_odds = Predictions.from_logits([-1000.0, log(0.25 / 0.75), 0.0, 1000.0])
    expected = fitted.predict_proba([0.0, 0.25, 0.5, 1.0])
    assert fitted.predict_proba(log_odds) == pytest.approx(expected, abs=1e-12)


@every_option
def test_constant_scores_give_the_share_of_events(options):
    """Nothing is certain, so nothing is shrunk; centred lines lead to half of the way to 0 and 1."""
    fitted = IsotonicCalibration(**options).fit([0.5] * 10, [1] * 3 + [0] * 7)
    assert fitted.predict_proba([0.5])[0, 1] == pytest.approx(0.3)


@every_option
def test_two_rows(options):
    """A half each with one more row at either end, a third and two thirds with half a row."""
    calibrated = IsotonicCalibration(**options).fit([0.2, 0.7], [0, 1]).predict_proba([0.2, 0.7])[:, 1]
    if options == {"ties": "centered"}:  # one block, centred between the two
        # From 1/4 at 0 by way of 1/2 at 0.45 to 3/4 at 1.
        assert calibrated == pytest.approx([1 / 4 + 1 / 4 * 0.2 / 0.45, 1 / 2 + 1 / 4 * 0.25 / 0.55])
    else:
        assert calibrated == pytest.approx(
            [1 / 3, 2 / 3] if "smoothing" in options else [1 / 2, 1 / 2], abs=1e-9
        )


@every_option
@settings(max_examples=8)
@given(problem=problems())
def test_rows_sum_to_one_whatever_the_ties_zeros_and_ones(problem, options):
    calibrated = IsotonicCalibration(**options).fit(*problem).predict_proba(problem.probabilities)
    assert calibrated.sum(axis=1, dtype=np.float64) == pytest.approx(1, abs=1e-6)
    assert calibrated.min() > 0
    assert calibrated.dtype == problem.probabilities.dtype


@pytest.mark.parametrize("name", ["isotonic", "irova"])
@pytest.mark.parametrize("data", ["cifar_netcal/c100_densenet_bc_100", "other/labelerrors_20news"])
def test_the_log_loss_of_real_rows_is_finite(data, name):
    """The raw maps give the true class exactly zero in some of these rows."""
    arrays = load(data)
    half = len(arrays["y"]) // 2
    fitted = registry.make(name).fit(arrays["probs"][:half], arrays["y"][:half])
    calibrated = fitted.predict_proba(arrays["probs"][half:])
    own = calibrated[np.arange(len(calibrated)), arrays["y"][half:]]
    assert own.min() > 1e-6
    assert -np.log(own).mean() < 2


def test_a_hundred_thousand_rows_with_ends_of_float32():
    """Half of the rows saturate at exactly 0 or 1, as float32 outputs of networks do."""
    generator = np.random.default_rng(0)
    scores = generator.normal(0.5, 0.7, 100_000).clip(0, 1).astype(np.float32)
    outcomes = generator.random(100_000) < 0.1 + 0.8 * scores
    fitted = IsotonicCalibration().fit(scores, outcomes)
    calibrated = fitted.predict_proba(np.array([0, 0.5, 1], dtype=np.float32))[:, 1]
    assert calibrated.dtype == np.float32
    assert calibrated == pytest.approx([0.1, 0.5, 0.9], abs=0.03)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"interpolation": "cubic"}, "interpolation must be 'linear' or 'step', not 'cubic'"),
        ({"ties": "break"}, "ties must be 'keep', 'centered' or 'strict', not 'break'"),
        ({"interpolation": "step", "ties": "centered"}, "steps cannot break ties"),
        ({"smoothing": -1}, "smoothing must be a number of at least 0"),
        ({"smoothing": float("nan")}, "smoothing must be a number"),
        ({"smoothing": float("inf")}, "smoothing must be a number"),
        ({"smoothing": "auto"}, "smoothing must be a number"),
    ],
)
def test_parameters_without_meaning_are_refused(parameters, message):
    for labels, probabilities in (([0, 1], [0.2, 0.7]), ([0, 1, 2], np.full((3, 3), 1 / 3))):
        with pytest.raises(ParameterError, match=message):
            IsotonicCalibration(**parameters).fit(probabilities, labels)


def test_a_little_contradiction_makes_an_end_no_surer():
    """With 49 rows below and no event the end is 1/50; an event of weight w adds w and takes as much from the other."""
    scores, outcomes = [0.1] * 49 + [0.9, 0.9, 0.1], [0] * 49 + [1, 0, 1]
    for weight in (1e-12, 0.5, 1.0):
        weights = [1.0] * 49 + [100.0, 100.0, weight]
        assert IsotonicCalibration().fit(scores, outcomes, weights).values_[0] == pytest.approx(
            1 / 50, rel=1e-9
        )
