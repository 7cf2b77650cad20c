"""AutoCalibration: the pool, its guards, its words, and what it is promised to reach."""

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
from sklearn.datasets import load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GroupKFold
from sklearn.naive_bayes import GaussianNB

from calibrant import (
    AutoCalibration,
    CalibratedClassifier,
    Calibrator,
    Identity,
    Predictions,
    StructuredScaling,
    TemperatureScaling,
    Traits,
)
from calibrant import load as load_calibrator
from calibrant.calibrators.combinators import auto as auto_module
from calibrant.calibrators.combinators.auto import trials as trials_module
from calibrant.calibrators.combinators.auto.folds import stratified_folds
from calibrant.calibrators.combinators.auto.gain import Gain
from calibrant.calibrators.combinators.auto.pool import Pool
from calibrant.calibrators.combinators.auto.trials import default_candidates
from calibrant.errors import LabelError, MissingClassWarning, ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.metrics import log_loss
from calibrant.synthetic import tasks

CHEAP = ["temperature", "shared-map", "shared-vector"]


class Stubborn(Calibrator):
    """Cannot be fitted."""

    traits = Traits()

    def _fit(self, data):
        raise ValueError(f"{data.n_rows} rows are not to my taste.")

    def _transform(self, predictions):
        return predictions


class Turned(Calibrator):
    """Gives every class the probability of the next one."""

    traits = Traits()

    def _fit(self, data):
        pass

    def _transform(self, predictions):
        return Predictions.from_probabilities(np.roll(predictions.probabilities, 1, axis=1))


class Certain(Calibrator):
    """Gives everything to the first class, so that what happened is impossible."""

    traits = Traits()

    def _fit(self, data):
        pass

    def _transform(self, predictions):
        sure = np.zeros_like(predictions.probabilities)
        sure[:, 0] = 1
        return Predictions.from_probabilities(sure)


def sample(name="mixed", n_rows=400, seed=0):
    drawn = tasks()[name].sample(n_rows, seed)
    return drawn.predictions, drawn.labels


def test_the_interval_contains_the_variance_of_the_fit():
    """With P = 4 parameters and a rows' error of zero: chi-square quantiles below, a normal one above."""
    gain = Gain(1.0, 0.96, 0.0, 50, n_observations=200.0, optimism=4 / 200)
    low, high = gain.interval()
    assert low == pytest.approx(0.04 - (scipy.stats.chi2.ppf(0.975, 4) - 4) / 200, rel=1e-9)
    assert high == pytest.approx(0.04 + scipy.stats.norm.ppf(0.975) * 8**0.5 / 200, rel=1e-9)
    assert replace(gain, standard_error=0.1, optimism=0.0).interval() == pytest.approx(
        (0.04 - 0.196, 0.04 + 0.196), abs=1e-4
    )
    assert replace(gain, n_mistakes=9).interval() is None


def test_the_interval_in_words_is_wider_than_that_of_the_rows_alone():
    fitted = AutoCalibration(["temperature"], choice="single").fit(*sample("over-confident", 1000))
    gain, low, high = map(
        float, re.findall(r"gain (\S+), 95 % confidence interval (\S+) to (\S+),", fitted.explanation_)[0]
    )
    # The same candidate is chosen whichever fold is left out, so that the rows' error is that in the table.
    error = 1.96 * fitted.decision_["standard_error"][1]
    assert error < high - gain < 1.1 * error  # one parameter and a thousand rows
    assert error < gain - low < 1.1 * error


def test_gains_on_calibrated_rows_are_seldom_called_significant_and_their_intervals_contain_the_truth():
    """The true gain of a map q on calibrated rows is -KL(p, q); of 40 intervals at most six miss it (1 in 1,000)."""
    missed = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        p, fresh = generator.dirichlet(np.full(3, 0.6), 100), generator.dirichlet(np.full(3, 0.6), 2000)
        y = np.minimum((generator.random((100, 1)) > p.cumsum(axis=1)).sum(axis=1), 2)
        fitted = AutoCalibration(["temperature", "vector"]).fit(p, y)
        ratio = np.maximum(fitted.predict_proba(fresh), 1e-300) / np.maximum(fresh, 1e-300)
        truth = (fresh * np.log(ratio)).sum(axis=1).mean()
        low, high = map(float, re.findall(r"interval (\S+) to (\S+),", fitted.explanation_)[0])
        missed += not low - 1e-4 <= truth <= high + 1e-4
    assert missed <= 6


def test_few_mistakes_are_too_few_to_be_sure():
    X, y = all_right()
    words = AutoCalibration().fit(X, y).explanation_
    assert "0 misclassified rows among 60 rows in 5 folds are too few" in words


def test_the_identity_is_kept_and_explained_where_rows_held_out_speak_clearly_against_the_rest():
    """A map that turns everything round; calibration rows cannot tell, since it gets them right."""
    X, y = sample("calibrated", 300)
    fitted = AutoCalibration([Turned()], choice="single").fit(X, y)
    assert [type(part) for part in fitted.calibrators_] == [Identity]
    assert fitted.explanation_.startswith("The identity map is kept")
    np.testing.assert_array_equal(fitted.predict_proba(X), X.probabilities)


def test_a_pool_that_does_harm_to_the_calibration_rows_is_rejected(monkeypatch):
    X, y = sample("calibrated", 300)
    monkeypatch.setattr(
        auto_module, "pooled", lambda trials, *_: Pool(np.array([0.0, 1.0]), trials.evaluated[0].losses - 1)
    )
    fitted = AutoCalibration([Turned()]).fit(X, y)
    assert "worse on the complete calibration set" in fitted.explanation_
    assert [type(part) for part in fitted.calibrators_] == [Identity]


@pytest.mark.parametrize("factors", [(2, 1, 1), (2, 2, 2), (3, 1, 2)])
def test_a_weight_of_two_is_the_row_given_twice(factors):
    X, y = sample("mixed", 300)
    weights = np.array(factors)[y]
    weighted = AutoCalibration(CHEAP).fit(X, y, weights)
    rows = np.repeat(np.arange(300), weights)
    repeated = AutoCalibration(CHEAP).fit(X.take(rows), y[rows])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(
        weighted.decision_["standard_error"], repeated.decision_["standard_error"], rtol=1e-6
    )


def test_candidates_become_richer_so_that_a_single_choice_is_the_simplest():
    names = AutoCalibration().fit(*sample()).decision_["candidate"]
    assert names[-3:] == [f"shared-matrix (strength={strength})" for strength in ("10", "1", "0.1")]
    data = LabelledPredictions.parse(*sample(n_rows=1000))
    assert [one.name for one in default_candidates(data)][-2:] == [
        "shared-matrix (strength=0.01)",
        "isotonic-centered",
    ]


def test_a_small_weight_of_a_tiny_probability_is_not_zero():
    X, y = sample("mixed", 50)
    fitted = AutoCalibration(["temperature"]).fit(X, y)
    fitted.calibrators_, fitted.weights_ = [fitted.calibrators_[0]] * 2, np.array([0.5, 0.5])
    tiny = np.array([[1e-45, 1e-40, 1]], np.float32)
    assert (fitted.predict_proba(tiny) > 0).all()


def test_groups_reach_the_folds_inside_a_calibrated_classifier(monkeypatch):
    seen = []
    monkeypatch.setattr(
        auto_module,
        "stratified_folds",
        lambda cv, data: seen.append(data.groups) or stratified_folds(cv, data),
    )
    X, y = load_iris(return_X_y=True)
    groups = np.arange(150) // 3
    CalibratedClassifier(GaussianNB(), AutoCalibration(CHEAP), cv=GroupKFold(3)).fit(X, y, groups=groups)
    assert [len(np.unique(part)) for part in seen] == [17, 17, 16]
    CalibratedClassifier(FrozenEstimator(GaussianNB().fit(X, y)), AutoCalibration(CHEAP)).fit(
        X, y, groups=groups
    )
    np.testing.assert_array_equal(seen[-1], groups)


def test_the_default_of_a_calibrated_classifier_is_automatic():
    X, y = load_iris(return_X_y=True)
    calibrated = CalibratedClassifier(GaussianNB(), cv=3, ensemble=False).fit(X, y)
    assert type(calibrated.calibrator_) is AutoCalibration


def test_the_table_has_every_candidate_and_the_weights_of_what_is_kept():
    fitted = AutoCalibration().fit(*sample("asymmetric"))
    table = fitted.decision_
    assert table["candidate"][:3] == ["uncalibrated", "temperature", "shared-map"]
    assert len({len(column) for column in table.values()}) == 1
    assert table["weight"].sum() == pytest.approx(1)
    np.testing.assert_allclose(table["gain"], table["loss"][0] - table["loss"], atol=1e-12)
    np.testing.assert_allclose(np.sort(fitted.weights_), np.sort(table["weight"][table["weight"] > 0]))
    assert len(fitted.calibrators_) == len(fitted.weights_)


def test_the_pool_is_the_mixture_of_its_parts():
    X, y = sample()
    fitted = AutoCalibration(CHEAP).fit(X, y)
    parts = [calibrator.predict_proba(X) for calibrator in fitted.calibrators_]
    expected = sum(weight * part for weight, part in zip(fitted.weights_, parts, strict=True))
    np.testing.assert_allclose(fitted.predict_proba(X), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["over-confident", "asymmetric", "log-linear", "two-classes", "mixed"])
def test_it_repairs_what_its_candidates_can_repair(name):
    """At least three quarters of what can be gained on average over fresh rows, from a thousand."""
    X, y = sample(name, 1000)
    fresh = tasks()[name].sample(20_000, 1)
    before, after = log_loss(fresh.labels, fresh.predictions), None
    after = log_loss(fresh.labels, AutoCalibration().fit(X, y).transform(fresh.predictions))
    truth = log_loss(fresh.labels, Predictions.from_probabilities(fresh.true_probabilities))
    assert before - after > 0.75 * (before - truth)


@pytest.mark.parametrize("n_rows", [30, 100, 1000])
def test_it_does_little_harm_to_what_is_calibrated(n_rows):
    """Mean over ten draws of the rows; a full matrix without a penalty adds several times as much."""
    fresh = tasks()["calibrated"].sample(20_000, 100)
    before = log_loss(fresh.labels, fresh.predictions)
    after = [
        log_loss(
            fresh.labels,
            AutoCalibration().fit(*sample("calibrated", n_rows, seed)).transform(fresh.predictions),
        )
        for seed in range(10)
    ]
    assert np.mean(after) - before < {30: 0.03, 100: 0.015, 1000: 0.003}[n_rows]


def test_it_says_what_it_chose_and_how_sure_it_is():
    words = AutoCalibration().fit(*sample("asymmetric", 1000)).explanation_
    assert words.startswith("Selected: a pool of ")
    assert "significantly better (gain 0.0" in words
    assert "1000 rows in 5 folds" in words
    unsure = AutoCalibration().fit(*sample("calibrated", 100)).explanation_
    assert "no significant difference" in unsure


def test_a_single_choice_is_one_calibrator():
    fitted = AutoCalibration(choice="single").fit(*sample("over-confident", 1000))
    assert [type(part) for part in fitted.calibrators_] == [TemperatureScaling]
    assert fitted.explanation_.startswith("Selected: temperature.")


def test_the_predicted_class_is_kept_if_asked_for():
    X, y = sample("asymmetric", 500)
    fresh, _ = sample("asymmetric", 5000, 1)
    changed = AutoCalibration().fit(X, y).predict(fresh) != fresh.predicted
    assert changed.any()
    kept = AutoCalibration(preserve_accuracy=True).fit(X, y)
    np.testing.assert_array_equal(kept.predict(fresh), fresh.predicted)
    assert kept.traits.keeps_argmax
    assert set(kept.decision_["candidate"]) == {"uncalibrated", "temperature", "shared-map"}


@pytest.mark.slow
def test_thorough_tries_other_shapes_too():
    fitted = AutoCalibration("thorough").fit(*sample("mixed", 200))
    assert {"spline", "gp-monotone", "ets (loss=log)", "pts (loss=log)"} < set(fitted.decision_["candidate"])
    assert fitted.decision_["note"] == [""] * len(fitted.decision_["note"])


def test_without_time_only_the_first_two_are_tried():
    fitted = AutoCalibration(time_budget=1e-9).fit(*sample())
    notes = fitted.decision_["note"]
    assert notes[:2] == ["", ""]
    assert all(note.startswith("left out") for note in notes[2:])
    assert np.isnan(fitted.decision_["loss"][2:]).all()
    assert (fitted.decision_["weight"][2:] == 0).all()
    assert fitted.explanation_.endswith("6 candidates could not be evaluated, see decision_.")
    plenty = AutoCalibration(time_budget=1e9).fit(*sample())
    np.testing.assert_array_equal(
        plenty.predict_proba(sample()[0]), AutoCalibration().fit(*sample()).predict_proba(sample()[0])
    )


def test_a_candidate_that_fails_does_not_stop_the_others():
    fitted = AutoCalibration(["temperature", Stubborn(), Certain()]).fit(*sample("over-confident"))
    table = dict(zip(fitted.decision_["candidate"], fitted.decision_["note"], strict=True))
    assert table["Stubborn()"] == "failed: 320 rows are not to my taste."
    assert table["Certain()"] == "left out: it gave probability 0 to an observed class"
    assert fitted.decision_["weight"][1] > 0.5


def test_groups_change_what_is_learnt_from_copies():
    """Every row twenty times, a little different: without groups its copies are on both sides, and overfitting pays."""
    X, y = sample("calibrated", 40)
    noise = np.random.default_rng(0).uniform(1, 1 + 1e-6, (800, 3))
    copies = np.repeat(X.probabilities, 20, axis=0) * noise
    copies /= copies.sum(axis=1, keepdims=True)
    labels, groups = np.repeat(y, 20), np.repeat(np.arange(40), 20)
    apart = AutoCalibration().fit(copies, labels).decision_
    together = AutoCalibration().fit(copies, labels, groups=groups).decision_
    weakest = apart["candidate"].index("shared-matrix (strength=0.1)")
    assert apart["gain"][weakest] > 0 > together["gain"][weakest]


@pytest.mark.parametrize(
    "splits", [3, [(np.arange(0, 200), np.arange(200, 400)), (np.arange(200, 400), np.arange(0, 200))]]
)
def test_folds_can_be_given(splits):
    fitted = AutoCalibration(CHEAP, cv=splits).fit(*sample())
    assert f"{3 if splits == 3 else 2} folds" in fitted.explanation_


def all_right(n_rows=60):
    scores = np.random.default_rng(0).dirichlet([0.3, 0.3, 0.3], n_rows)
    return scores, scores.argmax(axis=1)


HARD_CASES = {
    "thirty rows": lambda: sample("mixed", 30),
    "all predictions right": all_right,
    "constant scores": lambda: (np.full((50, 3), [0.5, 0.3, 0.2]), np.arange(50) % 3),
    "one-hot rows": lambda: (np.eye(3)[np.arange(60) % 3], np.r_[np.arange(57) % 3, 0, 0, 0]),
    "float32": lambda: (sample("mixed", 200)[0].probabilities.astype(np.float32), sample("mixed", 200)[1]),
    "two classes, thirty rows": lambda: sample("two-classes", 30),
    "two rows": lambda: ([[0.9, 0.1], [0.3, 0.7]], [0, 1]),
    "saturated logits": lambda: (
        Predictions.from_logits(np.float32(1e4) * np.eye(3, dtype=np.float32)[np.arange(60) % 3]),
        np.r_[np.arange(57) % 3, 0, 0, 0],
    ),
}


@pytest.mark.parametrize("case", HARD_CASES)
def test_hard_cases_give_finite_probabilities(case):
    X, y = HARD_CASES[case]()
    p = AutoCalibration().fit(X, y).predict_proba(X)
    assert np.isfinite(np.log(p)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:no calibration row has class 2")
def test_a_class_without_rows_has_the_mean_of_what_the_components_give_it_times_its_factor():
    X, y = sample("mixed", 200)
    rows = y != 2
    fitted = AutoCalibration().fit(X.take(rows), y[rows])
    components = [calibrator.predict_proba(X) for calibrator in fitted.calibrators_]
    scaled = np.tensordot(fitted.weights_, components, 1) * fitted.absent_factors_
    assert fitted.absent_factors_[2] < 1
    np.testing.assert_allclose(fitted.predict_proba(X), scaled / scaled.sum(axis=1, keepdims=True), rtol=1e-6)


def test_weights_of_zero_leave_rows_and_their_groups_out():
    X, y = sample("mixed", 300)
    weights = np.r_[np.ones(200), np.zeros(100)]
    groups = np.arange(300) // 3
    weighted = AutoCalibration(CHEAP).fit(X, y, weights, groups)
    alone = AutoCalibration(CHEAP).fit(X.take(slice(0, 200)), y[:200], groups=groups[:200])
    np.testing.assert_allclose(weighted.predict_proba(X), alone.predict_proba(X), atol=1e-12)


def test_it_can_be_saved_with_its_words(tmp_path):
    X, y = sample()
    fitted = AutoCalibration().fit(X, y)
    fitted.save(tmp_path / "auto.npz")
    again = load_calibrator(tmp_path / "auto.npz")
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.explanation_ == fitted.explanation_
    assert again.decision_["candidate"] == fitted.decision_["candidate"]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"choice": "best"}, "choice must be 'pool' or 'single', not 'best'."),
        ({"candidates": "temperature"}, "candidates must be 'default', 'thorough' or a list"),
        ({"candidates": []}, "candidates must be 'default', 'thorough' or a list"),
        ({"candidates": [3]}, "candidates must be registry names or calibrators, but one is 3."),
        ({"candidates": ["temprature"]}, "did you mean 'temperature'"),
        ({"candidates": ["vector"], "preserve_accuracy": True}, "preserves the predicted class"),
        ({"negligible": 1.0}, "negligible must be a number from 0 to below 1"),
        ({"time_budget": 0}, "time_budget must be a positive number of seconds, or None, not 0."),
        ({"cv": 1}, "cv must be a whole number of at least 2"),
        ({"preserve_accuracy": "yes"}, "preserve_accuracy must be True or False, not 'yes'."),
    ],
)
def test_bad_parameters_are_named(parameters, sentence):
    with pytest.raises(ParameterError, match=sentence):
        AutoCalibration(**parameters).fit(*sample())


def test_groups_must_fit_the_rows():
    X, y = sample("mixed", 20)
    with pytest.raises(LabelError, match="groups must name one group per row"):
        AutoCalibration().fit(X, y, groups=[1, 2])
    with pytest.raises(LabelError, match="groups must name a group in every row, but row 0 has None"):
        AutoCalibration().fit(X, y, groups=[None] * 20)
    with pytest.raises(ParameterError, match="all rows are of one group"):
        AutoCalibration().fit(X, y, groups=np.zeros(20))


def test_the_explanation_says_where_losses_are_not_those_of_the_scores_as_given():
    p = np.array([[1.0, 0.0, 0.0], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.0, 0.9, 0.1]] * 30)
    y = np.array([0, 0, 1, 1] * 25 + [1, 1, 0, 0] * 5)
    with pytest.warns(MissingClassWarning):
        fitted = AutoCalibration(["temperature"]).fit(p, y)
    assert "Losses are measured with zeros raised to 0.05." in fitted.explanation_
    plain = AutoCalibration(["temperature"]).fit(p[1::4].repeat(9, axis=0), [0, 1, 2] * 90)
    assert "Losses are measured" not in plain.explanation_


def test_a_strength_that_is_hopeless_on_the_first_fold_is_given_up_without_alarm(monkeypatch):
    """With limits of zero, every strength but the best one is hopeless."""
    monkeypatch.setattr(trials_module, "HOPELESS_EXCESS", 0.0)
    monkeypatch.setattr(trials_module, "HOPELESS_ERRORS", 0.0)
    X, y = sample("asymmetric", 1200)
    fitted = AutoCalibration([StructuredScaling(strength=10.0), StructuredScaling(strength=0.1)]).fit(X, y)
    notes = [note.partition(":")[0] for note in fitted.decision_["note"]]
    assert sorted(notes) == ["", "", "given up"]
    assert notes[0] == ""
    assert "could not be evaluated" not in fitted.explanation_
