"""Spline calibration: closed forms, a second implementation in plain loops, and rows that are hard to calibrate."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from calibrant import Chain, OneVsRest, Predictions, SplineCalibration, TemperatureScaling, TopLabel
from calibrant.calibrators.latent import axis_cells
from calibrant.errors import CalibrationWarning, LabelError, ParameterError
from calibrant.numerics.natural_spline import NaturalSpline

FORMS = ["one-vs-rest", "top-label"]
every_form = pytest.mark.parametrize("form", FORMS)


@st.composite
def events(draw):
    """Scores in fortieths with many ties, outcomes of both kinds, and whole-number weights."""
    n_rows = draw(st.integers(2, 60))
    scores = draw(st.lists(st.integers(1, 39), min_size=n_rows, max_size=n_rows))
    seed = draw(st.integers(0, 10_000))
    generator = np.random.default_rng(seed)
    outcomes = generator.random(n_rows) < draw(st.sampled_from([0.1, 0.5, 0.9]))
    outcomes[:2] = [True, False]
    return np.array(scores) / 40, outcomes.astype(int), generator.integers(1, 4, n_rows)


def event(**options):
    """Return the method for one event, as it is, without a temperature."""
    return SplineCalibration(temperature=False, **options)


def log_loss(probabilities, labels):
    return -np.log(probabilities[np.arange(len(labels)), labels]).mean()


def drawn(n_rows, n_classes, seed=0, scale=2.0, honest=0.6):
    """Return over-confident logits and labels."""
    generator = np.random.default_rng(seed)
    logits = scale * generator.normal(size=(n_rows, n_classes))
    labels = (honest * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    labels[:n_classes] = np.arange(n_classes)
    return logits, labels


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


# Hard rows


def test_one_row_and_rows_of_one_class_are_refused():
    for form in FORMS:
        with pytest.raises(LabelError, match="at least two classes"):
            SplineCalibration(form).fit([[0.7, 0.2, 0.1]], [0])
        with pytest.raises(LabelError, match="at least two classes"):
            SplineCalibration(form).fit([[0.7, 0.3], [0.4, 0.6]], [0, 0])


@every_form
@pytest.mark.parametrize("labels", [[0, 1], [1, 0]])
def test_two_rows(form, labels):
    fitted = SplineCalibration(form).fit([[0.6, 0.4], [0.4, 0.6]], labels)
    calibrated = fitted.predict_proba([[0.6, 0.4], [1.0, 0.0]])
    assert np.isfinite(np.log(calibrated)).all()


@every_form
def test_constant_logits_become_frequencies_or_stay(form):
    """Frequencies 1/2, 1/4, 1/4: each class is repaired; the first, which counts as predicted, in both forms.

    Chi-squared of class 0 is 300 (1/6)^2 / (2/9) = 37.5, of each other 300 (1/12)^2 / (2/9) = 9.375, all three 56.25.
    Of the correction of the predicted class alone 1 - 1/37.5 remains, of those of three classes 1 - 3/56.25.
    """
    labels = np.array([0, 1, 0, 2] * 75)
    fitted = SplineCalibration(form).fit(Predictions.from_logits(np.full((300, 3), 7.0)), labels)
    calibrated = fitted.predict_proba(Predictions.from_logits(np.full((1, 3), -2.0)))[0]
    if form == "top-label":
        first = 1 / 3 + (1 - 1 / 37.5) / 6
        np.testing.assert_allclose(calibrated, [first, (1 - first) / 2, (1 - first) / 2], rtol=1e-9)
    else:
        assert fitted.shrinkage_ == pytest.approx(1 - 3 / 56.25, rel=1e-9)
        np.testing.assert_allclose(
            calibrated, 1 / 3 + fitted.shrinkage_ * np.array([1 / 6, -1 / 12, -1 / 12]), rtol=1e-9
        )


@every_form
def test_rows_that_are_all_right_make_nobody_certain(form):
    """30 rows: Laplace's rule allows 31/32 at most."""
    rows = np.array([[0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]] * 10)
    fitted = SplineCalibration(form).fit(rows, np.arange(30) % 3)
    assert fitted.inverse_temperature_ == 1
    calibrated = fitted.predict_proba(rows)
    assert calibrated.max() <= 31 / 32 + 1e-9
    assert log_loss(calibrated, np.arange(30) % 3) < log_loss(rows, np.arange(30) % 3)


def test_rows_all_right_that_are_surer_than_laplace_stay_as_they_are():
    rows = np.array([[0.98, 0.02], [0.02, 0.98]] * 5)
    with pytest.warns(CalibrationWarning, match="top label: the identity"):
        fitted = SplineCalibration("top-label").fit(rows, np.arange(10) % 2)
    assert fitted.identity_kept_
    np.testing.assert_allclose(fitted.predict_proba(rows), rows, rtol=1e-12)


@every_form
def test_scores_without_information_are_forgotten(form):
    generator = np.random.default_rng(5)
    given = Predictions.from_logits(2 * generator.normal(size=(3000, 3)))
    labels = generator.integers(0, 3, 3000)
    calibrated = SplineCalibration(form).fit(given, labels).predict_proba(given)
    assert log_loss(calibrated, labels) <= np.log(3) + 1e-9


@every_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1e-3, 1e3])
def test_the_size_of_logits_does_not_matter(form, scale, dtype):
    logits, labels = drawn(500, 3)
    logits = logits.astype(dtype)
    usual, other = Predictions.from_logits(logits), Predictions.from_logits(dtype(scale) * logits)
    expected = SplineCalibration(form).fit(usual, labels).predict_proba(usual)
    calibrated = SplineCalibration(form).fit(other, labels).predict_proba(other)
    np.testing.assert_allclose(calibrated, expected, rtol=0, atol=1e-5 if dtype is np.float32 else 1e-8)


@every_form
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_saturated_rows_and_rows_far_outside_have_finite_losses(form, dtype):
    logits, labels = drawn(400, 3, scale=20.0, honest=0.2)
    exponentials = np.exp((logits - logits.max(axis=1, keepdims=True)).astype(dtype))
    rows = exponentials / exponentials.sum(axis=1, keepdims=True)
    rows[:20] = np.eye(3, dtype=dtype)[rows[:20].argmax(axis=1)]
    fitted = SplineCalibration(form).fit(rows, labels)
    far = np.vstack([np.eye(3), np.full((1, 3), 1 / 3), [[1 - 1e-6, 1e-6, 0]]]).astype(dtype)
    calibrated = fitted.predict_proba(far)
    assert np.isfinite(np.log(calibrated)).all()
    assert np.isfinite(np.log(fitted.predict_proba(rows))).all()


@settings(max_examples=10)
@given(rows=events(), x=st.floats(-800, 800))
def test_no_correction_makes_an_event_less_likely_than_laplace_allows(rows, x):
    fitted = event().fit(*rows)
    probability = expit(x)
    calibrated = fitted.predict_proba(Predictions.from_logits([[0.0, x]]))[0, 1]
    smallest = 1 / (rows[2].sum() + 2)
    assert calibrated >= min(probability, smallest) * (1 - 1e-12)
    assert calibrated <= max(probability, 1 - smallest)


def test_many_classes():
    logits, labels = drawn(2000, 1000, scale=3.0)
    labels[:1000] = np.arange(1000)
    given = Predictions.from_logits(logits.astype(np.float32))
    before = log_loss(given.probabilities, labels)
    calibrated = SplineCalibration("top-label").fit(given, labels).predict_proba(given)
    assert log_loss(calibrated, labels) < before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "all"}, "form must be 'one-vs-rest' or 'top-label', not 'all'"),
        ({"n_knots": 1}, "n_knots must be a whole number of at least 2, not 1"),
        ({"temperature": "yes"}, "temperature must be True or False, not 'yes'"),
        ({"estimate": "exact"}, "estimate must be 'weighted' or 'plain', not 'exact'"),
        ({"shrinkage": 1.5}, "shrinkage must be a number from 0 to 1, or None to estimate it, not 1.5"),
        ({"monotone": None}, "monotone must be True or False, not None"),
    ],
)
def test_parameters_without_meaning_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        SplineCalibration(**options).fit([0.2, 0.7], [0, 1])
