"""The numbers of a reliability diagram, against loops, closed forms and other libraries."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from calibrant import Predictions
from calibrant.binning import EqualWidth, FixedEdges
from calibrant.errors import LabelError, ParameterError
from calibrant.intervals import clopper_pearson
from calibrant.metrics import class_ece, confidence_ece, decompose
from calibrant.plots import reliability_curve
from calibrant.plots.reliability.consistency_limits import poisson_binomial

SCORES = st.one_of(st.integers(0, 10).map(lambda tenth: tenth / 10), st.floats(0, 1))
ROWS = st.lists(st.tuples(SCORES, st.booleans(), st.integers(1, 3)), min_size=1, max_size=30)


def parts(rows: list[tuple[float, bool, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    scores, happened, weights = zip(*rows, strict=True)
    return np.array(scores), np.array(happened, dtype=int), np.array(weights, dtype=float)


def calibrated_rows(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    scores = generator.beta(0.6, 0.8, n_rows)
    return (generator.random(n_rows) < scores).astype(int), scores


def curve_of(y, p, **options):
    return reliability_curve(y, p, **{"n_resamples": 0, **options})


# Bins


@given(rows=ROWS)
def test_bins_agree_with_a_loop_over_rows(rows):
    scores, happened, weights = parts(rows)
    curve = curve_of(happened, scores, sample_weight=weights, n_bins=5)
    for number in range(5):
        low, high = number / 5, (number + 1) / 5
        own = [i for i, s in enumerate(scores) if low <= s < high or (number == 4 and s == 1)]
        assert curve.count[number] == len(own)
        assert curve.filled[number] == (len(own) > 0)
        if not own:
            assert np.isnan([curve.mean_score[number], curve.mean_outcome[number], curve.low[number]]).all()
            continue
        total = sum(weights[own])
        assert curve.weight[number] == total
        assert_allclose(curve.mean_score[number], sum(weights[own] * scores[own]) / total)
        assert_allclose(curve.mean_outcome[number], sum(weights[own] * happened[own]) / total)
        effective = total**2 / sum(weights[own] ** 2)
        interval = clopper_pearson(curve.mean_outcome[number] * effective, effective)
        assert_allclose([curve.low[number], curve.high[number]], interval)


def test_intervals_are_those_of_clopper_and_pearson():
    """Nine of ten: as scipy has it."""
    curve = curve_of([1] * 9 + [0], [0.8] * 10, level=0.9)
    expected = stats.binomtest(9, 10).proportion_ci(0.9, method="exact")
    assert_allclose([curve.low[12], curve.high[12]], [expected.low, expected.high])


@given(rows=ROWS)
def test_a_weight_of_two_is_a_repeated_row_for_all_but_intervals(rows):
    scores, happened, weights = parts(rows)
    times = weights.astype(int)
    weighted = curve_of(happened, scores, sample_weight=weights, n_bins=7)
    repeated = curve_of(np.repeat(happened, times), np.repeat(scores, times), n_bins=7)
    for name in ("weight", "mean_score", "mean_outcome", "isotonic_score", "isotonic_outcome"):
        assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-12)


@given(rows=ROWS, factor=st.sampled_from([0.25, 8.0]))
def test_only_ratios_of_weights_matter(rows, factor):
    scores, happened, weights = parts(rows)
    once = curve_of(happened, scores, sample_weight=weights, random_state=3)
    scaled = curve_of(happened, scores, sample_weight=factor * weights, random_state=3)
    for name in ("mean_outcome", "low", "high", "consistency_low", "consistency_high", "isotonic_outcome"):
        assert_allclose(getattr(once, name), getattr(scaled, name), atol=1e-12)


def test_the_gaps_add_up_to_the_calibration_error():
    """The sum of weight share times |outcome - score| is the ECE that the metric gives."""
    y, p = calibrated_rows(500)
    curve = curve_of(y, p, kind="class", label=1)
    error = np.nansum(curve.weight / curve.weight.sum() * np.abs(curve.mean_outcome - curve.mean_score))
    assert error == pytest.approx(class_ece(y, p, label=1), rel=1e-12)
    by_confidence = curve_of(y, p, kind="confidence", binning=EqualWidth(9, closed="right"))
    gaps = np.abs(by_confidence.mean_outcome - by_confidence.mean_score)
    error = np.nansum(by_confidence.weight / 500 * gaps)
    assert error == pytest.approx(confidence_ece(y, p, binning=EqualWidth(9, closed="right")), rel=1e-12)


def test_bins_of_fewer_than_ten_rows_are_small_and_empty_ones_are_not():
    curve = curve_of([0] * 19, [0.1] * 9 + [0.9] * 10, n_bins=3)
    assert curve.small.tolist() == [True, False, False]
    assert curve.filled.tolist() == [True, False, True]


# Consistency


@given(probabilities=st.lists(SCORES, min_size=1, max_size=12), level=st.sampled_from([0.5, 0.9, 0.95]))
def test_consistency_limits_are_quantiles_of_the_number_of_events(probabilities, level):
    """The distribution of the number by adding one row after another."""
    mass = np.array([1.0])
    for p in probabilities:
        mass = np.append(mass * (1 - p), 0.0) + np.append(0.0, mass * p)
    curve = curve_of([0] * len(probabilities), probabilities, n_bins=1, level=level)
    low, high = np.rint([curve.consistency_low[0], curve.consistency_high[0]] * np.array(len(probabilities)))
    below = np.concatenate([[0.0], np.cumsum(mass)])
    tail = (1 - level) / 2
    # No more than a tail on either side, and not one event further out than that takes.
    assert below[int(low)] <= tail + 1e-9
    assert below[int(low) + 1] >= tail - 1e-9
    assert 1 - below[int(high) + 1] <= tail + 1e-9
    assert 1 - below[int(high)] >= tail - 1e-9


@pytest.mark.parametrize("n_trials", [3, 50, 4000])
@pytest.mark.parametrize("p", [0.0, 0.001, 0.3, 0.5, 1.0])
def test_equal_probabilities_give_the_binomial_distribution(n_trials, p):
    first, mass = poisson_binomial(np.array([p]), np.array([n_trials]))
    numbers = np.arange(first, first + len(mass))
    assert_allclose(mass, stats.binom.pmf(numbers, n_trials, p), atol=1e-10)
    assert mass.sum() == pytest.approx(1)


@pytest.mark.parametrize("p", [0.01, 0.2, 0.9])
def test_limits_of_many_rows_are_nearly_those_of_the_binomial_distribution(p):
    """20,000 rows have a variance of at least 198, so that the normal limit takes over."""
    curve = curve_of([0, 1] * 10_000, np.full(20_000, p), n_bins=1)
    expected = stats.binom.ppf([0.025, 0.975], 20_000, p) / 20_000
    assert_allclose([curve.consistency_low[0], curve.consistency_high[0]], expected, atol=1.5 / 20_000)


def test_draws_for_unequal_weights_agree_with_the_exact_limits_for_equal_ones():
    """Weights that differ by a millionth change nothing but the way of computing."""
    y, p = calibrated_rows(80)
    weights = 1 + 1e-6 * np.arange(80)
    equal = curve_of(y, p, n_bins=2, sample_weight=np.ones(80))
    drawn = curve_of(y, p, n_bins=2, sample_weight=weights)
    assert_allclose(drawn.consistency_low, equal.consistency_low, atol=1.1 / 30)
    assert_allclose(drawn.consistency_high, equal.consistency_high, atol=1.1 / 30)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_consistency_limits_hold_as_often_as_they_promise(weighted):
    """Of calibrated bins at least 95 % lie within, less three standard errors of 3,000 of them."""
    within = []
    for seed in range(300):
        y, p = calibrated_rows(400, seed)
        weights = np.random.default_rng(seed).gamma(2, size=400) if weighted else None
        curve = curve_of(y, p, n_bins=10, sample_weight=weights)
        inside = (curve.mean_outcome >= curve.consistency_low - 1e-12) & (
            curve.mean_outcome <= curve.consistency_high + 1e-12
        )
        within.extend(inside[curve.filled])
    assert np.mean(within) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / len(within)) - (0.01 if weighted else 0)


# Isotonic curve


@given(rows=ROWS)
def test_the_isotonic_curve_is_that_of_scikit_learn(rows):
    """It takes scores for equal that differ by rounding, so these here do not."""
    scores, happened, weights = parts(rows)
    scores = scores.round(3)
    curve = curve_of(happened, scores, sample_weight=weights)
    expected = IsotonicRegression(out_of_bounds="clip").fit(scores, happened, weights).predict(scores)
    assert_allclose(np.interp(scores, curve.isotonic_score, curve.isotonic_outcome), expected, atol=1e-9)
    assert (np.diff(curve.isotonic_score) >= 0).all()
    assert (np.diff(curve.isotonic_outcome) >= 0).all()


def test_the_isotonic_curve_is_the_one_of_the_decomposition():
    """What the Brier score gains from s to the curve is the miscalibration of the CORP decomposition."""
    y, p = calibrated_rows(300, seed=5)
    curve = curve_of(y, p)
    after = np.interp(p, curve.isotonic_score, curve.isotonic_outcome)
    gain = np.mean((y - p) ** 2) - np.mean((y - after) ** 2)
    assert gain == pytest.approx(decompose(y, p, method="isotonic").calibration, rel=1e-9)


def test_plateaus_are_two_vertices_and_single_scores_one():
    """Outcomes 0, 1, 0, 1 at 0.1 to 0.4 make the blocks {0.1}, {0.2, 0.3}, {0.4}."""
    curve = curve_of([0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4])
    assert curve.isotonic_score.tolist() == [0.1, 0.2, 0.3, 0.4]
    assert curve.isotonic_outcome.tolist() == [0.0, 0.5, 0.5, 1.0]


@pytest.mark.parametrize("mode", ["confidence", "consistency"])
def test_most_of_a_band_is_where_it_should_be(mode):
    """Around the diagonal for consistency; around the curve itself for confidence. Few rows leave exceptions."""
    y, p = calibrated_rows(2000, seed=2)
    curve = reliability_curve(y, p, mode=mode, n_resamples=300)
    assert len(curve.band_score) <= 100
    assert (curve.band_low <= curve.band_high).all()
    middle = curve.band_score
    if mode == "confidence":
        middle = np.interp(curve.band_score, curve.isotonic_score, curve.isotonic_outcome)
    inside = (curve.band_low - 1e-9 <= middle) & (middle <= curve.band_high + 1e-9)
    assert inside.mean() > 0.9


def test_a_wrong_model_leaves_the_consistency_band():
    y, p = calibrated_rows(3000, seed=1)
    curve = reliability_curve(y, p**3, mode="consistency", n_resamples=200)
    at = np.interp(curve.band_score, curve.isotonic_score, curve.isotonic_outcome)
    assert np.mean(at > curve.band_high) > 0.5


def test_the_consistency_band_of_one_score_has_binomial_quantiles():
    """Fifty rows at 0.4: one block, whose mean is binomial, up to the noise of 4,000 draws."""
    curve = reliability_curve([0, 1] * 25, [0.4] * 50, mode="consistency", n_resamples=4000)
    expected = stats.binom.ppf([0.025, 0.975], 50, 0.4) / 50
    assert_allclose([curve.band_low[0], curve.band_high[0]], expected, atol=0.021)


def test_the_band_with_weights_of_one_is_the_band_without():
    y, p = calibrated_rows(200)
    for mode in ("confidence", "consistency"):
        without = reliability_curve(y, p, mode=mode, n_resamples=50)
        with_ones = reliability_curve(y, p, mode=mode, n_resamples=50, sample_weight=np.ones(200))
        assert_allclose(without.band_low, with_ones.band_low)
        assert_allclose(without.band_high, with_ones.band_high)


def test_the_same_seed_gives_the_same_band_and_no_resamples_none():
    y, p = calibrated_rows(100)
    first, second = (reliability_curve(y, p, n_resamples=20, random_state=4) for _ in range(2))
    assert_array_equal(first.band_low, second.band_low)
    assert len(curve_of(y, p).band_score) == 0


# Corners


def test_one_row():
    curve = reliability_curve([1], [0.7], n_resamples=10)
    assert curve.count.sum() == 1
    assert curve.isotonic_score.tolist() == [0.7]
    assert (curve.consistency_low[10], curve.consistency_high[10]) == (0.0, 1.0)


def test_all_right_and_sure():
    """At a probability of one nothing can vary: both limits are one."""
    curve = reliability_curve([0, 1, 2] * 5, np.tile(np.eye(3), (5, 1)), n_resamples=10)
    assert curve.mean_outcome[-1] == curve.consistency_low[-1] == curve.consistency_high[-1] == 1.0
    assert curve.low[-1] == pytest.approx(0.025 ** (1 / 15))


def test_equal_scores_are_one_bin_of_equal_mass():
    curve = curve_of([0, 1] * 10, [0.5] * 20, strategy="quantile")
    assert curve.count.tolist() == [20]


def test_a_float32_probability_above_one_counts_in_the_last_bin():
    above = np.nextafter(np.float32(1), np.float32(2))
    p = np.array([[above, 0], [above, 0]], dtype=np.float32)
    curve = reliability_curve([0, 1], p, kind="confidence", n_resamples=5)
    assert curve.count[-1] == curve.histogram_count[-1] == 2
    assert curve.consistency_high[-1] == 1


def test_rows_without_weight_are_left_out():
    y, p = calibrated_rows(50)
    weights = np.arange(50) % 2
    curve = curve_of(y, p, sample_weight=weights)
    assert curve.n_rows == curve.count.sum() == curve.histogram_count.sum() == 25


def test_edges_may_be_any():
    curve = curve_of([0, 1, 1], [0.2, 0.6, 1.0], binning=FixedEdges((0, 0.5, 1, 1)))
    assert curve.count.tolist() == [1, 1, 1]


# Events


def test_two_classes_mean_the_second_and_more_the_predicted_one():
    y, p = calibrated_rows(60)
    assert curve_of(y, p).kind == "positive"
    assert curve_of(y, p).event == "class 1"
    three = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    assert curve_of(np.arange(60) % 3, three).event == "predicted class"


def test_a_class_is_chosen_by_its_label():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.array(["ant", "bee", "cat"])[np.arange(60) % 3]
    curve = curve_of(y, p, kind="class", label="bee", n_bins=1)
    assert curve.event == "class 'bee'"
    assert curve.mean_score[0] == pytest.approx(p[:, 1].mean())
    assert curve.mean_outcome[0] == pytest.approx(1 / 3)


def test_predicted_classes_share_the_rows_among_them():
    p = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    y = np.arange(60) % 3
    curves = [curve_of(y, p, kind="top-label", label=label) for label in range(3)]
    together = curve_of(y, p, kind="confidence")
    assert_array_equal(sum(curve.count for curve in curves), together.count)
    assert [curve.event for curve in curves] == [f"predicted class {label}" for label in range(3)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "class"}, "needs label="),
        ({"kind": "class", "label": 7}, "one of the classes"),
        ({"kind": "top-label", "label": 2}, "no row predicts class 2"),
        ({"kind": "confidence", "label": 1}, "omit it"),
        ({"kind": "positive"}, "two classes"),
        ({"kind": "classwise"}, "kind must be"),
        ({"mode": "bootstrap"}, "mode must be"),
        ({"level": 95}, "level must lie"),
        ({"n_resamples": -1}, "n_resamples"),
        ({"strategy": "cube"}, "strategy must be"),
    ],
)
def test_options_without_meaning_are_refused(options, words):
    with pytest.raises(ParameterError, match=words):
        reliability_curve([0, 1, 2], [[0.5, 0.3, 0.2]] * 2 + [[0.2, 0.5, 0.3]], **options)


def test_labels_of_another_length_are_refused():
    with pytest.raises(LabelError):
        reliability_curve([0, 1], [0.5])


def test_the_definition_says_event_bins_level_and_mode():
    text = curve_of([0, 1], [0.2, 0.7], n_bins=4, mode="consistency").definition
    for words in ("class 1", "4 bins of equal width", "95 %", "'consistency'", "on the diagonal"):
        assert words in text


def test_the_table_has_a_row_per_bin():
    curve = curve_of([0, 1], [0.2, 0.7], n_bins=4)
    assert {len(values) for values in curve.columns().values()} == {4}
    pytest.importorskip("pandas")
    assert list(curve.frame().columns) == list(curve.columns())


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["confidence", "consistency"])
def test_a_million_rows_are_thinned(mode):
    y, p = calibrated_rows(1_000_000)
    logits = Predictions.from_logits(np.log(p / (1 - p)).astype(np.float32))
    curve = reliability_curve(y, logits, mode=mode)
    assert curve.n_rows == 1_000_000
    assert len(curve.isotonic_score) <= 400
    assert len(curve.band_score) <= 100
    # The thinned curve stays with the full one, which for calibrated rows is close to the diagonal.
    assert np.abs(curve.isotonic_outcome - curve.isotonic_score)[5:-5].max() < 0.05
