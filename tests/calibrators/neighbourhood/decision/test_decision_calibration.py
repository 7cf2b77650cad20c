"""Decision calibration: a second implementation by loops, closed forms, given losses, and what must not matter."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from over_confident_rows import over_confident

import calibrant
from calibrant import DecisionCalibration, Predictions
from calibrant.errors import CalibrationWarning, MissingClassWarning, ParameterError
from calibrant.metrics import average_loss_gap, brier_score, cost_gap

# Fig. 6 of Valk (2022): treatment and no treatment, for a benign lesion and three kinds of cancer.
HOSPITAL = [[3.3, 1.0, 2.0, 3.0], [0.0, 8.0, 10.0, 7.0]]


def by_loops(fitted, rows):
    """Return the predictions of a fit, one row, repair and part after the other."""
    results = []
    for row in rows:
        f = [float(p) for p in row]
        for partition, adjustment in zip(fitted.partitions_, fitted.adjustments_, strict=True):
            seen = list(f)
            if fitted.violation_of == "clipped":
                least = fitted.epsilon_ if fitted.is_hard_ else 0.0
                seen = [min(max(p, least), 1 - least) for p in f]
                if fitted.is_hard_:
                    seen = [p / sum(seen) for p in seen]
            scores = [sum(w * p for w, p in zip(weights, seen, strict=True)) for weights in partition]
            if fitted.is_hard_:
                shares = [float(part == int(np.argmin(scores))) for part in range(len(scores))]
            else:
                exponentials = [np.exp(score) for score in scores]
                shares = [e / sum(exponentials) for e in exponentials]
            for share, moves in zip(shares, adjustment, strict=True):
                f = [p + share * move for p, move in zip(f, moves, strict=True)]
        cropped = [min(max(p, fitted.epsilon_), 1 - fitted.epsilon_) for p in f]
        results.append([p / sum(cropped) for p in cropped])
    return np.array(results)


@pytest.mark.parametrize("violation_of", ["clipped", "scores"])
@pytest.mark.parametrize("losses", [None, HOSPITAL])
def test_predictions_are_those_of_loops(violation_of, losses):
    X, y = over_confident()
    fitted = DecisionCalibration(n_iterations=4, violation_of=violation_of, loss_matrices=losses).fit(X, y)
    assert fitted.n_iterations_ >= 2
    np.testing.assert_allclose(fitted.predict_proba(X[:50]), by_loops(fitted, X[:50]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("violation_of", ["clipped", "scores"])
@pytest.mark.parametrize("n_decisions", [2, 3])
def test_every_repair_is_that_of_loops_over_the_rows(violation_of, n_decisions):
    """From the fitted partitions alone: violations and adjustments of Algorithm 1, lines 4 to 6."""
    X, y = over_confident(150)
    fitted = DecisionCalibration(n_decisions, n_iterations=3, violation_of=violation_of).fit(X, y)
    f = [list(map(float, row)) for row in X]
    for number in range(3):
        sums, sizes = np.zeros((n_decisions, 4)), np.zeros(n_decisions)
        memberships = []
        for row, label in zip(f, y, strict=True):
            seen = np.clip(row, 0, 1) if violation_of == "clipped" else np.array(row)
            exponentials = np.exp(fitted.partitions_[number] @ seen)
            memberships.append(exponentials / exponentials.sum())
            for part in range(n_decisions):
                sums[part] += memberships[-1][part] * (np.eye(4)[label] - seen) / len(f)
                sizes[part] += memberships[-1][part] / len(f)
        violation = sum(np.sqrt((sums[part] ** 2).sum()) for part in range(n_decisions))
        assert fitted.violations_[number] == pytest.approx(violation, rel=1e-9)
        np.testing.assert_allclose(fitted.adjustments_[number], sums / sizes[:, None], atol=1e-9)
        f = [list(row + own @ fitted.adjustments_[number]) for row, own in zip(f, memberships, strict=True)]


@pytest.mark.parametrize("adjustment", ["ratio", "least-squares"])
def test_rows_that_are_all_the_same_become_the_frequencies(adjustment):
    """No partition can part them; the first repair adds the mean residual and leaves nothing to do."""
    X = np.tile([0.6, 0.3, 0.1], (20, 1))
    fitted = DecisionCalibration(n_iterations=5, adjustment=adjustment).fit(X, [0] * 8 + [1] * 8 + [2] * 4)
    assert fitted.n_iterations_ == 1
    np.testing.assert_allclose(fitted.predict_proba(X[:1]), [[0.4, 0.4, 0.2]], rtol=0, atol=1e-9)
    # || (-0.2, 0.1, 0.1) ||, shared by the parts
    assert fitted.violations_[0] == pytest.approx(np.sqrt(0.06), rel=1e-9)


def test_two_groups_with_errors_of_two_signs_are_both_repaired():
    """Half of the rows promise 0.9 and keep 0.6, half promise 0.2 and keep 0.5: one split mends both.

    Boundaries are soft, hence the tolerance: a part holds some millionths of the other group.
    """
    X = [[0.9, 0.1]] * 10 + [[0.2, 0.8]] * 10
    y = [0] * 6 + [1] * 4 + [0] * 5 + [1] * 5
    fitted = DecisionCalibration(n_iterations=1).fit(X, y)
    calibrated = fitted.predict_proba([[0.9, 0.1], [0.2, 0.8]])
    np.testing.assert_allclose(calibrated, [[0.6, 0.4], [0.5, 0.5]], atol=1e-5)
    assert fitted.violations_[0] == pytest.approx(0.3 * np.sqrt(2), rel=1e-4)


@settings(max_examples=10)
@given(
    seed=st.integers(0, 1000),
    n_classes=st.integers(2, 5),
    losses=st.booleans(),
    adjustment=st.sampled_from(["ratio", "least-squares"]),
)
def test_no_repair_raises_the_squared_error_of_the_scores(seed, n_classes, losses, adjustment):
    """The algorithm as it is printed, before rows are cropped, for soft and for hard parts."""
    X, y = over_confident(60, n_classes, seed)
    matrices = np.random.default_rng(seed).standard_normal((5, 2, n_classes)) if losses else None
    calibrator = DecisionCalibration(
        n_iterations=6, violation_of="scores", loss_matrices=matrices, adjustment=adjustment
    )
    fitted = calibrator.fit(X, y)
    f, outcomes = X.copy(), np.eye(n_classes)[y]
    before = ((outcomes - f) ** 2).sum()
    for partition, adjusted in zip(fitted.partitions_, fitted.adjustments_, strict=True):
        if fitted.is_hard_:
            parts = np.eye(2)[(f @ partition.T).argmin(axis=1)]
        else:
            exponentials = np.exp(f @ partition.T)
            parts = exponentials / exponentials.sum(axis=1, keepdims=True)
        f = f + parts @ adjusted
        after = ((outcomes - f) ** 2).sum()
        assert after <= before * (1 + 1e-12)
        before = after
        np.testing.assert_allclose(f.sum(axis=1), 1.0, atol=1e-9)


# Losses of a user


def test_the_gap_of_the_hospital_closes():
    """Expected and real cost of the decisions of Fig. 6, on the rows of the fit and on fresh ones."""
    X, y = over_confident(3000, sharpness=3.0)
    fresh, labels = over_confident(20_000, seed=1, sharpness=3.0)
    fitted = DecisionCalibration(n_iterations=10, loss_matrices=HOSPITAL).fit(X, y)
    assert fitted.partitions_.shape[1:] == (2, 4)
    before, after = cost_gap(y, X, costs=HOSPITAL), cost_gap(y, fitted.predict_proba(X), costs=HOSPITAL)
    assert before > 0.3
    assert after < 0.1 * before
    before = cost_gap(labels, fresh, costs=HOSPITAL)
    after = cost_gap(labels, fitted.predict_proba(fresh), costs=HOSPITAL)
    assert before > 0.3
    assert after < 0.1 * before


def test_the_largest_gap_of_several_losses_falls():
    X, y = over_confident(2000)
    losses = np.random.default_rng(0).standard_normal((30, 3, 4))
    fitted = DecisionCalibration(n_iterations=40, loss_matrices=losses).fit(X, y)
    calibrated = fitted.predict_proba(X)
    before = [average_loss_gap(y, X, losses=[matrix]) for matrix in losses]
    after = [average_loss_gap(y, calibrated, losses=[matrix]) for matrix in losses]
    assert max(after) < 0.25 * max(before)
    assert np.mean(after) < 0.25 * np.mean(before)


def test_one_loss_and_a_list_of_one_are_the_same():
    X, y = over_confident()
    one = DecisionCalibration(n_iterations=3, loss_matrices=HOSPITAL).fit(X, y)
    several = DecisionCalibration(n_iterations=3, loss_matrices=[HOSPITAL]).fit(X, y)
    np.testing.assert_array_equal(one.predict_proba(X), several.predict_proba(X))


def test_losses_of_classes_without_rows_are_left_out():
    X, y = over_confident()
    kept = y != 2
    with pytest.warns(MissingClassWarning):
        fitted = DecisionCalibration(n_iterations=3, loss_matrices=HOSPITAL).fit(X[kept], y[kept])
    np.testing.assert_array_equal(fitted.partitions_[0], np.array(HOSPITAL)[:, [0, 1, 3]])
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 2], X[:, 2], rtol=1e-9)


def test_losses_survive_a_file(tmp_path):
    X, y = over_confident()
    fitted = DecisionCalibration(n_iterations=3, loss_matrices=np.array(HOSPITAL)).fit(X, y)
    fitted.save(tmp_path / "decision.npz")
    loaded = calibrant.load(tmp_path / "decision.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


# What must not matter


@pytest.mark.parametrize("options", [{"n_iterations": 3}, {}, {"n_decisions": 3, "n_iterations": 2}])
def test_a_weight_of_two_is_a_repeated_row_and_order_does_not_matter(options):
    X, y = over_confident(200, 3)
    twice = np.arange(200) % 3 == 0
    weighted = DecisionCalibration(**options).fit(X, y, np.where(twice, 2.0, 1.0))
    order = np.random.default_rng(0).permutation(200 + twice.sum())
    many, labels = np.vstack([X, X[twice]])[order], np.concatenate([y, y[twice]])[order]
    repeated = DecisionCalibration(**options).fit(many, labels)
    assert weighted.n_iterations_ == repeated.n_iterations_
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=0, atol=1e-5)


@pytest.mark.parametrize("violation_of", ["clipped", "scores"])
def test_float32_rows_are_the_same_numbers_after_many_repairs(violation_of):
    X, y = over_confident(150, 5)
    short = X.astype(np.float32)
    options = {"n_iterations": 20, "violation_of": violation_of, "guard": False}
    first = DecisionCalibration(**options).fit(short, y)
    second = DecisionCalibration(**options).fit(short.astype(np.float64), y)
    assert first.n_iterations_ == second.n_iterations_ == 20
    np.testing.assert_allclose(first.predict_proba(X), second.predict_proba(X), rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", [{"n_iterations": 3}, {}])
def test_the_order_of_classes_does_not_matter(options):
    X, y = over_confident(200, 4)
    order = np.array([2, 0, 3, 1])
    plain = DecisionCalibration(**options).fit(X, y).predict_proba(X)
    permuted = DecisionCalibration(**options).fit(X[:, order], np.argsort(order)[y])
    np.testing.assert_allclose(permuted.predict_proba(X[:, order]), plain[:, order], rtol=0, atol=1e-5)


def test_a_generator_and_seeds_choose_the_random_starts():
    X, y = over_confident(150, 6)
    fits = [
        DecisionCalibration(n_iterations=3, restarts=5, random_state=source).fit(X, y).violations_
        for source in (0, 0, np.random.default_rng(0), 1)
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])
    assert not np.array_equal(fits[0], fits[3])


def test_more_searches_find_no_less():
    X, y = over_confident(300, 6)
    found = [
        DecisionCalibration(n_iterations=1, restarts=number).fit(X, y).violations_[0] for number in (0, 2)
    ]
    assert found[1] >= found[0]


def test_steeper_partitions_violate_more():
    X, y = over_confident(300)
    found = [
        DecisionCalibration(n_iterations=1, steepness=steepness, restarts=3).fit(X, y).violations_[0]
        for steepness in (2.0, 10.0, 50.0)
    ]
    assert found == sorted(found)
    assert found[2] > 1.05 * found[0]


# Hard rows


def test_a_thousand_classes():
    generator = np.random.default_rng(0)
    logits = 3 * generator.standard_normal((600, 1000)).astype(np.float32)
    X = Predictions.from_logits(logits).take(slice(None)).probabilities
    y = np.where(generator.random(600) < 0.6, X.argmax(axis=1), generator.integers(0, 1000, 600))
    y[:2] = 0, 1
    with pytest.warns(CalibrationWarning):
        calibrated = DecisionCalibration(n_iterations=2).fit(X, y).predict_proba(X)
    assert calibrated.dtype == np.float32
    assert (calibrated > 0).all()
    np.testing.assert_allclose(calibrated.sum(axis=1), 1.0, atol=1e-4)


@pytest.mark.parametrize("adjustment", ["ratio", "least-squares"])
@pytest.mark.parametrize("n_decisions", [2, 5])
def test_two_rows(adjustment, n_decisions):
    for labels in ([0, 1], [1, 0]):
        for n_iterations in ("auto", 3):
            calibrator = DecisionCalibration(n_decisions, n_iterations, adjustment=adjustment)
            calibrated = calibrator.fit([[0.6, 0.4], [0.3, 0.7]], labels).predict_proba(
                [[0.5, 0.5], [1.0, 0.0]]
            )
            assert (calibrated >= 0).all()
            np.testing.assert_allclose(calibrated.sum(axis=1), 1.0)


@pytest.mark.parametrize("adjustment", ["ratio", "least-squares"])
def test_rows_unlike_all_of_the_fit_stay_sensible(adjustment):
    """Calibration rows in a corner; at the other corners nothing known contradicts the prediction."""
    generator = np.random.default_rng(0)
    X = generator.dirichlet([50.0, 3.0, 2.0], 500)
    y = (np.log(X) * 0.7 + generator.gumbel(size=X.shape)).argmax(axis=1)
    fitted = DecisionCalibration(n_iterations=10, adjustment=adjustment).fit(X, y)
    calibrated = fitted.predict_proba(np.eye(3))
    assert (calibrated > 0).all()
    assert np.abs(fitted.adjustments_).max() < 2
    assert calibrated.argmax(axis=1).tolist() == [0, 1, 2]


def test_no_probability_is_below_epsilon_times_the_share_of_a_row():
    X, y = over_confident(400, 12)
    fitted = DecisionCalibration(n_iterations=20).fit(X, y)
    assert fitted.epsilon_ == pytest.approx(0.01 / 144)
    calibrated = fitted.predict_proba(np.vstack([X, np.eye(12)]))
    assert calibrated.min() > fitted.epsilon_ / 2
    assert brier_score(y, fitted.predict_proba(X)) < brier_score(y, X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_decisions": 1}, "n_decisions must be an integer of at least 2"),
        ({"n_iterations": 0}, "n_iterations must be 'auto' or a whole number of at least 1"),
        ({"n_iterations": "many"}, "n_iterations must be 'auto' or a whole number of at least 1"),
        ({"n_iterations": 2.5}, "n_iterations must be 'auto' or a whole number of at least 1"),
        ({"tolerance": -1.0}, "tolerance must be a number of at least 0"),
        ({"adjustment": "mean"}, "adjustment must be 'ratio' or 'least-squares'"),
        ({"violation_of": "all"}, "violation_of must be 'clipped' or 'scores'"),
        ({"steepness": 0}, "steepness must be a positive number"),
        ({"steepness": "auto"}, "steepness must be a positive number"),
        ({"restarts": -1}, "restarts must be an integer of at least 0"),
        ({"loss": "hinge"}, "loss must be 'brier' or 'log'"),
        ({"crop": "none"}, "crop must be 'clip' or 'outside'"),
        ({"epsilon": 0.5}, "epsilon must be 'auto' or lie strictly between 0 and 0.5"),
        ({"random_state": "0"}, "random_state must be an integer"),
        ({"cv": 1}, "cv must be a"),
        ({"loss_matrices": [[0, 1, 2], [1, 0, 0]]}, "loss_matrices are for 3 classes, but there are 2"),
        ({"loss_matrices": [0, 1]}, "loss_matrices must be finite numbers of shape"),
        ({"loss_matrices": [[0, np.inf], [1, 0]]}, "loss_matrices must be finite numbers of shape"),
        ({"loss_matrices": [[0, 1]]}, "loss_matrices must have at least two different decisions"),
        ({"loss_matrices": [[[0, 1], [1, 0]], [[0, 1], [0, 1]]]}, "at least two different decisions"),
        ({"loss_matrices": pd.DataFrame([[0, 1], [1, 0]])}, "an array or lists, not a DataFrame"),
        ({"guard": "no"}, "guard must be True or False"),
        ({"loss_matrices": "zero-one"}, "loss_matrices must be finite numbers of shape"),
    ],
)
def test_parameters_without_meaning_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        DecisionCalibration(**options).fit([[0.6, 0.4], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1])
