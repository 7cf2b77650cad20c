"""Spline calibration: closed forms, a second implementation in plain loops, and properties of every map."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline
from sklearn.isotonic import IsotonicRegression
from spline_rows import FORMS, drawn, event, events, log_loss

from calibrant import Chain, OneVsRest, Predictions, SplineCalibration, TemperatureScaling, TopLabel
from calibrant.calibrators.latent import spline as axis_cells
from calibrant.calibrators.latent.spline import NaturalSpline

every_form = pytest.mark.parametrize("form", FORMS)


# The formula


def by_loops(scores, outcomes, weights, n_knots, estimate, monotone):
    """Return the distinct scores and what becomes of them, one score at a time."""
    rows = list(zip(scores.tolist(), outcomes.tolist(), weights.tolist(), strict=True))
    places = sorted({score for score, _, _ in rows})
    smallest = 1 / (sum(weight for _, _, weight in rows) + 2)
    masses, differences, variances = [], [], []
    for place in places:
        masses.append(sum(w for s, _, w in rows if s == place))
        differences.append(sum(w * (o - s) for s, o, w in rows if s == place))
        variances.append(1.0 if estimate == "plain" else max(place * (1 - place), smallest))
    total = sum(m * v for m, v in zip(masses, variances, strict=True))
    ends, sums, position, height = [], [], 0.0, 0.0
    for mass, variance, difference in zip(masses, variances, differences, strict=True):
        position += mass * variance / total
        height += difference / total
        ends.append(position)
        sums.append(height)
    knots = np.linspace(0, 1, n_knots)
    basis = [CubicSpline(knots, row, bc_type="natural") for row in np.eye(n_knots)]
    stretches = list(zip([0.0, *ends[:-1]], ends, strict=True))
    slopes = np.array([[(spline(b) - spline(a)) / (b - a) for spline in basis] for a, b in stretches])
    if estimate == "plain":
        matrix, targets, roots = np.array([[s(t) for s in basis] for t in ends]), sums, np.sqrt(masses)
    else:
        steps = zip(differences, masses, variances, strict=True)
        matrix, targets = slopes, [d / (m * v) for d, m, v in steps]
        roots = np.sqrt([m * v for m, v in zip(masses, variances, strict=True)])
    values, _, rank, _ = np.linalg.lstsq(matrix * roots[:, None], np.array(targets) * roots, rcond=1e-8)
    slope = slopes @ values
    shrinkage = 1.0
    if estimate == "weighted":
        chi_squared = sum((root * g) ** 2 for root, g in zip(roots, slope, strict=True))
        shrinkage = max(0.0, 1 - rank / chi_squared) if chi_squared > 0 else 0.0
    mapped = [
        min(max(s + shrinkage * v * g, min(s, smallest)), max(s, 1 - smallest))
        for s, v, g in zip(places, variances, slope, strict=True)
    ]
    if monotone:
        mapped = IsotonicRegression().fit(places, mapped, masses).predict(places)
    return np.array(places), np.array(mapped)


@settings(max_examples=25)
@given(
    rows=events(),
    n_knots=st.integers(3, 8),
    estimate=st.sampled_from(["weighted", "plain"]),
    monotone=st.booleans(),
)
def test_the_map_is_that_of_plain_loops(rows, n_knots, estimate, monotone):
    places, expected = by_loops(*rows, n_knots, estimate, monotone)
    fitted = event(n_knots=n_knots, estimate=estimate, monotone=monotone).fit(*rows)
    np.testing.assert_allclose(fitted.predict_proba(places)[:, 1], expected, rtol=0, atol=1e-7)


@settings(max_examples=15)
@given(rows=events(), x=st.lists(st.floats(0.025, 0.975), min_size=1, max_size=10))
def test_between_two_scores_the_correction_is_linear(rows, x):
    fitted = event().fit(*rows)
    x = np.array(x)
    correction = np.interp(x, fitted.scores_, fitted.corrections_)
    low, high = np.minimum(x, fitted.smallest_), np.maximum(x, 1 - fitted.smallest_)
    np.testing.assert_allclose(
        fitted.predict_proba(x)[:, 1], np.clip(x + correction, low, high), rtol=0, atol=1e-12
    )


def test_one_score_becomes_its_frequency_but_for_the_shrinkage():
    """75 of 100 at p = 1/2: a difference of 1/4, chi-squared 100 (1/4)^2 / (1/4) = 25, of which 24/25 remain."""
    fitted = event().fit(np.full(100, 0.5), [1] * 75 + [0] * 25)
    assert fitted.shrinkage_ == pytest.approx(24 / 25, rel=1e-9)
    assert fitted.predict_proba([0.5])[0, 1] == pytest.approx(1 / 2 + 24 / 25 / 4, rel=1e-9)
    plain = event(estimate="plain").fit(np.full(100, 0.5), [1] * 75 + [0] * 25)
    assert plain.smallest_ == pytest.approx(1 / 102)


def test_two_knots_shift_all_log_odds_alike():
    """A straight line has one slope: the sum of differences over that of variances; times p (1 - p) it is added."""
    scores = np.repeat([0.2, 0.5, 0.8], 50)
    outcomes = np.concatenate([np.arange(50) < 50 * share for share in (0.4, 0.7, 0.9)]).astype(int)
    fitted = event(n_knots=2).fit(scores, outcomes)
    variances = np.array([0.16, 0.25, 0.16])
    slope = sum([0.2, 0.2, 0.1]) / variances.sum()
    shrinkage = 1 - 1 / (50 * variances.sum() * slope**2)
    assert fitted.shrinkage_ == pytest.approx(shrinkage, rel=1e-9)
    np.testing.assert_allclose(fitted.corrections_[1:-1], shrinkage * slope * variances, rtol=1e-9)


def test_frequencies_that_are_the_scores_are_left_alone():
    scores = np.repeat(np.arange(1, 10) / 10, 10)
    outcomes = np.concatenate([np.arange(10) < 10 * share for share in np.arange(1, 10) / 10 - 1e-9]).astype(
        int
    )
    fitted = event().fit(scores, outcomes)
    assert fitted.shrinkage_ == 0
    np.testing.assert_allclose(fitted.predict_proba(scores)[:, 1], scores, rtol=1e-14)


def test_an_honest_classifier_is_nearly_left_alone():
    """The correction of 50,000 rows is of the order of sqrt(5 p (1 - p) / 50,000) at most, 0.005."""
    generator = np.random.default_rng(0)
    scores = generator.random(50_000)
    fitted = event().fit(scores, (generator.random(50_000) < scores).astype(int))
    assert np.abs(fitted.corrections_).max() < 0.01
    assert fitted.shrinkage_ < 0.7


@pytest.mark.parametrize(("estimate", "accuracy"), [("weighted", 0.005), ("plain", 0.012)])
def test_a_smooth_distortion_is_found(estimate, accuracy):
    generator = np.random.default_rng(1)
    scores = generator.random(200_000)
    honest = scores + 0.3 * scores * (1 - scores)
    fitted = event(estimate=estimate).fit(scores, (generator.random(200_000) < honest).astype(int))
    x = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(fitted.predict_proba(x)[:, 1], x + 0.3 * x * (1 - x), rtol=0, atol=accuracy)


def test_the_spline_of_the_plain_estimate_runs_along_the_cumulative_differences():
    generator = np.random.default_rng(2)
    scores = np.sort(generator.random(900))
    outcomes = (generator.random(900) < scores**2).astype(int)
    fitted = event(estimate="plain").fit(scores, outcomes)
    curve = np.cumsum(outcomes - scores) / 900
    spline = NaturalSpline(fitted.knots_, fitted.knot_values_)
    assert np.abs(spline(np.arange(1, 901) / 900) - curve).max() < 0.02
    assert np.abs(curve).max() > 0.1


# Properties


@settings(max_examples=25)
@given(rows=events(), x=st.lists(st.floats(0, 1), min_size=2, max_size=12))
def test_a_higher_score_never_becomes_the_lower_probability(rows, x):
    calibrated = event().fit(*rows).predict_proba(np.sort(x))[:, 1]
    assert (np.diff(calibrated) >= -1e-15).all()


def test_without_it_a_map_may_fall():
    scores = np.repeat(np.linspace(0.1, 0.9, 9), 50)
    outcomes = np.tile(np.arange(50) < 25, 9)
    outcomes[200:250] = np.arange(50) < 45
    assert (
        np.diff(event(monotone=False).fit(scores, outcomes.astype(int)).predict_proba(scores)[:, 1]) < 0
    ).any()
    assert (np.diff(event().fit(scores, outcomes.astype(int)).predict_proba(scores)[:, 1]) > -1e-12).all()


@settings(max_examples=25)
@given(rows=events())
def test_no_fit_is_worse_than_nothing_on_its_own_rows(rows):
    scores, outcomes, weights = rows
    calibrated = event().fit(scores, outcomes, weights).predict_proba(scores)
    nothing = np.column_stack([1 - scores, scores])
    own = np.arange(len(scores)), outcomes
    assert weights @ np.log(calibrated[own]) >= weights @ np.log(nothing[own]) - 1e-9


@pytest.mark.parametrize(("factor", "left"), [(-1.0, 0.0), (16.0, 2.0**-4)])
def test_a_correction_that_does_harm_is_halved_until_it_does_none(monkeypatch, factor, left):
    """One in the wrong direction ends at zero; one sixteen times too large is harmless at 1/8 or 1/16 of itself."""
    scores = np.repeat(np.linspace(0.2, 0.8, 7), 40)
    outcomes = np.concatenate([np.arange(40) < 40 * s for s in np.linspace(0.35, 0.65, 7)]).astype(int)
    found = NaturalSpline.fit

    def distorted(*arguments):
        spline, rank = found(*arguments)
        return NaturalSpline(spline.knots, factor * spline.values), rank

    monkeypatch.setattr(NaturalSpline, "fit", distorted)
    fitted = event(monotone=False).fit(scores, outcomes)
    assert left <= fitted.shrinkage_ <= 2 * left
    assert (
        log_loss(fitted.predict_proba(scores), outcomes)
        <= log_loss(np.column_stack([1 - scores, scores]), outcomes) + 1e-12
    )


@every_form
def test_the_temperature_comes_first(form):
    """The same as temperature scaling followed by the spline alone."""
    logits, labels = drawn(800, 4)
    given = Predictions.from_logits(logits)
    both = SplineCalibration(form).fit(given, labels)
    chain = Chain([TemperatureScaling(), event(form=form)]).fit(given, labels)
    assert both.inverse_temperature_ == pytest.approx(chain.calibrators_[0].inverse_temperature_, rel=1e-6)
    np.testing.assert_allclose(both.predict_proba(given), chain.predict_proba(given), rtol=0, atol=1e-6)


def test_classes_one_against_the_rest_share_one_shrinkage():
    """The sums of d and chi-squared of classes that are fitted apart, whose own shrinkage is 1 - d / chi-squared."""
    logits, labels = drawn(600, 3)
    given = Predictions.from_logits(logits)
    fitted = event().fit(given, labels)
    apart = OneVsRest(event()).fit(given, labels)
    chi_squared = [5 / (1 - calibrator.shrinkage_) for calibrator in apart.calibrators_]
    assert min(calibrator.shrinkage_ for calibrator in apart.calibrators_) > 0
    assert fitted.shrinkage_ == pytest.approx(1 - 15 / sum(chi_squared), rel=1e-9)
    same = OneVsRest(event(shrinkage=fitted.shrinkage_)).fit(given, labels)
    np.testing.assert_array_equal(fitted.predict_proba(given), same.predict_proba(given))


def test_the_largest_probability_by_its_reduction():
    logits, labels = drawn(600, 3)
    given = Predictions.from_logits(logits)
    expected = TopLabel(event(), by_class=False).fit(given, labels).predict_proba(given)
    fitted = event(form="top-label").fit(given, labels)
    np.testing.assert_allclose(fitted.predict_proba(given), expected, rtol=1e-12)


def test_no_correction_at_all_leaves_the_temperature():
    logits, labels = drawn(600, 3)
    given = Predictions.from_logits(logits)
    expected = TemperatureScaling().fit(given, labels).predict_proba(given)
    for form in FORMS:
        fitted = SplineCalibration(form, shrinkage=0).fit(given, labels)
        np.testing.assert_allclose(fitted.predict_proba(given), expected, rtol=0, atol=1e-6)


def test_of_the_largest_probability_the_others_keep_their_shares():
    logits, labels = drawn(600, 4)
    given = Predictions.from_logits(logits)
    fitted = SplineCalibration("top-label").fit(given, labels)
    calibrated = fitted.predict_proba(given)
    tempered = np.exp(fitted.inverse_temperature_ * logits)
    others = np.arange(4) != logits.argmax(axis=1)[:, np.newaxis]

    def shares(rows):
        rest = np.where(others, rows, 0.0)
        return rest / rest.sum(axis=1, keepdims=True)

    np.testing.assert_allclose(shares(calibrated), shares(tempered), rtol=0, atol=1e-12)


def test_many_scores_are_pooled_without_a_visible_difference(monkeypatch):
    generator = np.random.default_rng(3)
    scores = generator.beta(0.4, 0.6, 6000)
    outcomes = (generator.random(6000) < scores**1.5).astype(int)
    x = generator.random(200)
    for estimate in ("weighted", "plain"):
        pooled = event(estimate=estimate).fit(scores, outcomes)
        assert len(pooled.scores_) <= axis_cells.MOST_CELLS + 2 * axis_cells.FARTHEST
        monkeypatch.setattr(axis_cells, "MOST_CELLS", 10_000)
        apart = event(estimate=estimate).fit(scores, outcomes)
        assert len(apart.scores_) == 6002
        np.testing.assert_allclose(pooled.predict_proba(x), apart.predict_proba(x), rtol=0, atol=2e-3)
        monkeypatch.undo()


def test_rare_events_are_not_pooled_with_common_ones(monkeypatch):
    """Most rows lie on the first thousandth of the axis; their odds still change by the same factor as without cells."""
    generator = np.random.default_rng(4)
    scores = np.exp(generator.uniform(np.log(1e-6), np.log(0.5), 20_000))
    outcomes = (generator.random(20_000) < 2 * scores / (1 + scores)).astype(int)
    x = np.geomspace(1e-4, 0.4, 50)
    pooled = event().fit(scores, outcomes).predict_proba(x)[:, 1]
    monkeypatch.setattr(axis_cells, "MOST_CELLS", 30_000)
    apart = event().fit(scores, outcomes).predict_proba(x)[:, 1]
    np.testing.assert_allclose(pooled, apart, rtol=0.03)
    assert (pooled[x > 0.001] / x[x > 0.001]).min() > 1.3
