"""AutoCalibration: the pool, its guards, its words, and what it is promised to reach."""

import numpy as np
import pytest

from calibrant import (
    AutoCalibration,
    Calibrator,
    Identity,
    Predictions,
    TemperatureScaling,
    Traits,
)
from calibrant import (
    load as load_calibrator,
)
from calibrant.calibrators.automatic import stratified_folds as folds_module
from calibrant.calibrators.automatic.candidates import Candidate
from calibrant.calibrators.automatic.pooling import PRIOR_ROWS, PRIOR_ROWS_OF_IDENTITY, pooled, single
from calibrant.calibrators.automatic.stratified_folds import stratified_folds, trial_rows
from calibrant.calibrators.automatic.trials import Trial, Trials
from calibrant.errors import LabelError, ParameterError
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


def trials_of(losses, fold_numbers=None, weights=None):
    """Return trials whose losses are the columns of a matrix; the first is the identity's."""
    n_rows = len(losses)
    candidates = [Candidate(f"candidate {number}", Identity()) for number in range(losses.shape[1])]
    return Trials(
        [Trial(candidate, column, 0.0) for candidate, column in zip(candidates, losses.T, strict=True)],
        np.ones(n_rows) if weights is None else weights,
        np.arange(n_rows) % 5 if fold_numbers is None else fold_numbers,
    )


def test_weights_are_those_that_expectation_maximisation_finds():
    """A naive second way: every row is shared out among candidates by their likelihood, the prior added in."""
    generator = np.random.default_rng(0)
    losses = generator.exponential(1.0, (200, 4))
    weights = generator.integers(1, 4, 200).astype(float)
    prior = np.array([PRIOR_ROWS_OF_IDENTITY, *[PRIOR_ROWS] * 3])
    mixture = np.full(4, 0.25)
    for _ in range(5000):
        shares = mixture * np.exp(-losses)
        shares /= shares.sum(axis=1, keepdims=True)
        mixture = weights @ shares + prior
        mixture /= mixture.sum()
    found = pooled(trials_of(losses, weights=weights), negligible=0.0)
    np.testing.assert_allclose(found.weights, mixture, atol=1e-5)


def test_losses_of_the_pool_are_those_of_weights_that_have_not_seen_the_row():
    losses = np.random.default_rng(1).exponential(1.0, (60, 3))
    numbers = np.arange(60) % 3
    found = pooled(trials_of(losses, numbers), negligible=0.0)
    for fold in range(3):
        own = numbers == fold
        without = pooled(trials_of(losses[~own], numbers[~own]), negligible=0.0).weights
        np.testing.assert_allclose(found.losses[own], -np.log(np.exp(-losses[own]) @ without), atol=1e-9)


def test_negligible_components_are_dropped_and_the_others_share_their_weight():
    losses = np.random.default_rng(2).exponential(1.0, (300, 12))
    all_of_them = pooled(trials_of(losses), negligible=0.0).weights
    assert all_of_them.min() > 0
    some = pooled(trials_of(losses), negligible=0.1).weights
    assert (some[some > 0] >= 0.1).all()
    assert some.sum() == pytest.approx(1)
    assert (some == 0).any()


def test_a_single_choice_is_the_simplest_within_a_standard_error_of_the_best():
    """The third candidate is best by 0.01 with a standard error of 0.05 over the second, and far ahead of the first."""
    noise = np.tile([0.5, -0.5], 50)
    base = np.ones(100)
    losses = np.stack([base + 1.0, base + 0.01 + noise, base], axis=1)
    np.testing.assert_array_equal(single(trials_of(losses)).weights, [0, 1, 0])
    sharper = np.stack([base + 1.0, base + 0.01 + noise / 100, base], axis=1)
    np.testing.assert_array_equal(single(trials_of(sharper)).weights, [0, 0, 1])


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
    assert words.startswith("Chosen is a pool: ")
    assert "better beyond chance (gain 0.0" in words
    assert "1000 rows in 5 folds" in words
    unsure = AutoCalibration().fit(*sample("calibrated", 100)).explanation_
    assert "no difference that these rows can tell from chance" in unsure


def test_a_single_choice_is_one_calibrator():
    fitted = AutoCalibration(choice="single").fit(*sample("over-confident", 1000))
    assert [type(part) for part in fitted.calibrators_] == [TemperatureScaling]
    assert fitted.explanation_.startswith("Chosen is temperature.")


def test_the_predicted_class_is_kept_if_asked_for():
    X, y = sample("asymmetric", 500)
    fresh, _ = sample("asymmetric", 5000, 1)
    changed = AutoCalibration().fit(X, y).predict(fresh) != fresh.predicted
    assert changed.any()
    kept = AutoCalibration(preserve_accuracy=True).fit(X, y)
    np.testing.assert_array_equal(kept.predict(fresh), fresh.predicted)
    assert kept.traits.keeps_argmax
    assert set(kept.decision_["candidate"]) == {"uncalibrated", "temperature", "shared-map"}


def test_thorough_tries_other_shapes_too():
    fitted = AutoCalibration("thorough").fit(*sample("mixed", 200))
    assert {"spline", "gp-monotone", "ets (loss=log)", "pts (loss=log)"} < set(fitted.decision_["candidate"])
    assert fitted.decision_["note"] == [""] * len(fitted.decision_["note"])


def test_without_time_only_the_first_three_are_tried():
    fitted = AutoCalibration(time_budget=1e-9).fit(*sample())
    notes = fitted.decision_["note"]
    assert notes[:3] == ["", "", ""]
    assert all(note.startswith("left out") for note in notes[3:])
    assert np.isnan(fitted.decision_["loss"][3:]).all()
    assert (fitted.decision_["weight"][3:] == 0).all()
    plenty = AutoCalibration(time_budget=1e9).fit(*sample())
    np.testing.assert_array_equal(
        plenty.predict_proba(sample()[0]), AutoCalibration().fit(*sample()).predict_proba(sample()[0])
    )


def test_a_candidate_that_fails_does_not_stop_the_others():
    fitted = AutoCalibration(["temperature", Stubborn(), Certain()]).fit(*sample("over-confident"))
    table = dict(zip(fitted.decision_["candidate"], fitted.decision_["note"], strict=True))
    assert table["Stubborn()"] == "failed: 320 rows are not to my taste."
    assert table["Certain()"] == "left out: it calls impossible what happened"
    assert fitted.decision_["weight"][1] > 0.5


def test_rows_of_one_group_are_on_one_side_of_every_fold():
    X, y = sample("mixed", 300)
    data = LabelledPredictions.parse(X, y)
    groups = np.random.default_rng(0).integers(0, 40, 300)
    folds = stratified_folds(5, data, groups)
    assert sorted(np.concatenate([fold.test_rows for fold in folds])) == list(range(300))
    for fold in folds:
        assert not set(groups[fold.train_rows]) & set(groups[fold.test_rows])


def test_groups_change_what_is_learnt_from_copies():
    """Every row twenty times: without groups its copies are on both sides, and the weakest penalty looks best."""
    X, y = sample("calibrated", 40)
    copies, labels, groups = (
        X.take(np.repeat(np.arange(40), 20)),
        np.repeat(y, 20),
        np.repeat(np.arange(40), 20),
    )
    apart = AutoCalibration().fit(copies, labels).decision_
    together = AutoCalibration().fit(copies, labels, groups=groups).decision_
    weakest = apart["candidate"].index("shared-matrix (strength=0.1)")
    assert apart["gain"][weakest] > 0 > together["gain"][weakest]


def test_folds_hold_out_every_class_in_its_share():
    labels = np.repeat([0, 1, 2], [50, 20, 5])
    scores = np.random.default_rng(0).dirichlet([1, 1, 1], 75)
    folds = stratified_folds(5, LabelledPredictions.parse(scores, labels))
    for fold in folds:
        np.testing.assert_array_equal(np.bincount(labels[fold.test_rows]), [10, 4, 1])


def test_folds_of_rare_classes_are_of_one_size():
    """One row of each of ten classes: every fold holds out two."""
    data = LabelledPredictions.parse(np.random.default_rng(0).dirichlet(np.ones(10), 10), np.arange(10))
    assert [len(fold.test_rows) for fold in stratified_folds(5, data)] == [2] * 5


def test_many_rows_are_tried_on_a_sample_and_fitted_as_a_whole(monkeypatch):
    monkeypatch.setattr(folds_module, "TRIAL_ROWS", 100)
    monkeypatch.setattr(folds_module, "TRIAL_ENTRIES", 300)
    X, y = sample("over-confident", 1000)
    data = LabelledPredictions.parse(X, y)
    tried_on, _ = trial_rows(data, None)
    assert 90 <= tried_on.n_rows <= 110
    fitted = AutoCalibration(["temperature"]).fit(X, y)
    assert f"{tried_on.n_rows} rows in 5 folds" in fitted.explanation_
    whole = TemperatureScaling().fit(X, y)
    assert fitted.calibrators_[-1].temperature_ == whole.temperature_
    groups = np.arange(1000) // 2
    _, of_sample = trial_rows(data, groups)
    assert len(of_sample) == 100


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
def test_a_class_without_rows_keeps_its_share():
    X, y = sample("mixed", 200)
    rows = y != 2
    fitted = AutoCalibration().fit(X.take(rows), y[rows])
    np.testing.assert_allclose(fitted.predict_proba(X)[:, 2], X.probabilities[:, 2], rtol=1e-6)


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
        ({"candidates": ["vector"], "preserve_accuracy": True}, "keeps the predicted class"),
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
    with pytest.raises(ParameterError, match="all rows are of one group"):
        AutoCalibration().fit(X, y, groups=np.zeros(20))
