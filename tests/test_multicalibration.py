"""Multicalibration: segments corrected where held-out rows confirm it, the identity elsewhere."""

import json

import numpy as np
import pandas as pd
import pytest

from calibrant import Predictions
from calibrant.errors import FileFormatError, ParameterError, PredictionError
from calibrant.hypothesis_tests import subgroup_calibration
from calibrant.metrics import log_loss
from calibrant.multicalibration import Multicalibration


def drawn(generator, n_rows, n_sites=8, bad=(3,)):
    """Two classes; at the bad sites the true log-odds are one lower than predicted."""
    side = {"site": generator.integers(0, n_sites, n_rows), "sex": generator.choice(["f", "m"], n_rows)}
    logit = generator.normal(0, 1.5, n_rows)
    shift = np.isin(side["site"], bad) * -1.0
    y = (generator.random(n_rows) < 1 / (1 + np.exp(-(logit + shift)))).astype(int)
    return 1 / (1 + np.exp(-logit)), y, side


def worst_error(y, p, side):
    return float(np.abs(subgroup_calibration(y, p, side, n_resamples=1).difference).max())


def test_the_worst_segment_improves_on_held_out_rows_and_so_does_the_log_loss():
    generator = np.random.default_rng(0)
    p, y, side = drawn(generator, 4000)
    p_test, y_test, side_test = drawn(generator, 40_000)
    corrected = Multicalibration().fit(p, y, side).predict_proba(p_test, side_test)
    assert worst_error(y_test, corrected[:, 1], side_test) < 0.5 * worst_error(y_test, p_test, side_test)
    assert log_loss(y_test, corrected) < log_loss(y_test, p_test) - 0.005


def test_calibrated_predictions_mostly_stay_as_they_are():
    """A gain above one standard error by chance: far less than half of the sets."""
    generator = np.random.default_rng(1)
    changed, costs = 0, []
    for number in range(40):
        p, y, side = drawn(generator, 600, bad=())
        p_test, y_test, side_test = drawn(generator, 4000, bad=())
        fitted = Multicalibration(max_rounds=20, random_state=number).fit(p, y, side)
        changed += fitted.n_rounds_ > 0
        if fitted.n_rounds_ == 0:
            assert (fitted.predict_proba(p_test, side_test)[:, 1] == p_test).all()
        costs.append(log_loss(y_test, fitted.predict_proba(p_test, side_test)) - log_loss(y_test, p_test))
    assert changed <= 12
    assert np.mean(costs) < 0.001


def test_an_error_that_depends_on_the_score_within_a_segment_is_seen():
    """At one site low probabilities are too low and high ones too high, so its mean error is zero."""
    generator = np.random.default_rng(2)

    def sample(n_rows):
        site, logit = generator.integers(0, 2, n_rows), generator.normal(0, 2, n_rows)
        y = (generator.random(n_rows) < 1 / (1 + np.exp(-np.where(site == 1, 0.3 * logit, logit)))).astype(
            int
        )
        return 1 / (1 + np.exp(-logit)), y, {"site": site}

    (p, y, side), (p_test, y_test, side_test) = sample(4000), sample(20_000)
    with_score = Multicalibration().fit(p, y, side).predict_proba(p_test, side_test)
    without = Multicalibration(score_bins=1).fit(p, y, side).predict_proba(p_test, side_test)
    assert log_loss(y_test, with_score) < log_loss(y_test, p_test) - 0.03
    assert log_loss(y_test, without) > log_loss(y_test, p_test) - 0.005


def test_one_segment_and_one_full_step_is_a_newton_step():
    """Sum of residuals over information plus one, at p = 1/2: (30 - 50) / (25 + 1)."""
    p, y = np.full(100, 0.5), np.repeat([1, 0], [30, 70])
    options = {"score_bins": 1, "learning_rate": 1, "max_rounds": 1, "random_state": 0}
    fitted = Multicalibration(**options).fit(p, y, {"all": np.zeros(100, int)})
    assert fitted.shifts()["shift"] == pytest.approx([-20 / 26])
    assert fitted.predict_proba([0.5], {"all": [0]})[0, 1] == pytest.approx(1 / (1 + np.exp(20 / 26)))


def test_several_classes_and_logits():
    generator = np.random.default_rng(3)
    site = generator.integers(0, 3, 6000)
    logits = generator.normal(0, 1, (6000, 4))
    true = logits + np.where((site == 2)[:, np.newaxis], [0, 0, 0, 1.5], 0)
    y = (true + generator.gumbel(size=true.shape)).argmax(axis=1)
    fitted = Multicalibration().fit(Predictions.from_logits(logits), y, {"site": site})
    largest = fitted.shifts()
    assert largest["segment"][0] == "site = 2"
    assert largest["class"][0] == 3
    p = fitted.predict_proba(Predictions.from_logits(logits), {"site": site})
    assert p.sum(axis=1) == pytest.approx(1)
    assert log_loss(y, p) < log_loss(y, Predictions.from_logits(logits)) - 0.02


def test_unknown_categories_are_left_alone_and_frames_are_accepted():
    generator = np.random.default_rng(4)
    p, y, side = drawn(generator, 3000)
    fitted = Multicalibration(score_bins=1).fit(p, y, pd.DataFrame(side))
    new = fitted.predict_proba([0.4, 0.4], {"site": [99, 3], "sex": ["other", "other"]})
    assert new[0, 1] == pytest.approx(0.4)
    assert new[1, 1] < 0.35


def test_float32_and_weights():
    generator = np.random.default_rng(5)
    p, y, side = drawn(generator, 1200)
    weights = generator.integers(0, 3, 1200).astype(float)
    kept = weights > 0
    weighted = Multicalibration().fit(p, y, side, sample_weight=weights)
    reduced = Multicalibration().fit(
        p[kept], y[kept], {name: v[kept] for name, v in side.items()}, sample_weight=weights[kept]
    )
    np.testing.assert_array_equal(weighted.shifts_, reduced.shifts_)
    assert weighted.predict_proba(p.astype(np.float32), side).dtype == np.float32


def test_a_saved_file_gives_the_same_probabilities(tmp_path):
    generator = np.random.default_rng(6)
    p, y, side = drawn(generator, 2000)
    side["age"] = generator.normal(50, 10, 2000)
    fitted = Multicalibration(depth=2).fit(p, y, side)
    fitted.save(tmp_path / "segments.json")
    loaded = Multicalibration.load(tmp_path / "segments.json")
    np.testing.assert_array_equal(loaded.predict_proba(p, side), fitted.predict_proba(p, side))
    assert loaded.get_params()["depth"] == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace("calibrant multicalibration", "other"),
        lambda text: json.dumps({**json.loads(text), "shifts": [[1.0]]}),
        lambda text: json.dumps({**json.loads(text), "segments": 3}),
        lambda _: "[]",
    ],
)
def test_a_damaged_file_is_refused(tmp_path, damage):
    p, y, side = drawn(np.random.default_rng(7), 500)
    path = tmp_path / "segments.json"
    Multicalibration().fit(p, y, side).save(path)
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"segments\.json"):
        Multicalibration.load(path)


def test_bad_input_is_refused():
    p, y, side = drawn(np.random.default_rng(8), 300)
    with pytest.raises(ParameterError, match="learning_rate must lie strictly between 0 and 1"):
        Multicalibration(learning_rate=2).fit(p, y, side)
    with pytest.raises(ParameterError, match="one value per row"):
        Multicalibration().fit(p, y, {"site": [1]})
    fitted = Multicalibration().fit(p, y, side)
    with pytest.raises(PredictionError, match="side column 'sex' is missing"):
        fitted.predict_proba(p, {"site": side["site"]})
    with pytest.raises(PredictionError, match="there are 3 classes, but 2 in fit"):
        fitted.predict_proba(np.full((1, 3), 1 / 3), {"site": [1], "sex": ["f"]})
