"""Whatever predictions come, there is a report: few rows, one class, zeros, weights, groups, strings, logits."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from report_rows import drawn, powered

from calibrant import Predictions
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.metrics import log_loss
from calibrant.report import Assessment, assess
from data import load
from strategies import probability_matrices

Y, P = drawn(300, 3)
P = powered(P, 1.8)
METHODS = ["temperature"]


def is_whole(found):
    """Every form can be made, and JSON gives the same report back."""
    assert Assessment.from_json(found.to_json()) == found
    assert "## Verdict" in found.to_markdown()
    assert max(len(line) for line in str(found).splitlines()) <= 80
    return True


@pytest.mark.parametrize("n_rows", [1, 2, 9])
def test_very_few_rows_give_a_report_that_is_unclear(n_rows):
    found = assess(Y[:n_rows], P[:n_rows])
    assert is_whole(found)
    assert (found.verdict.status, found.recommendation.action) == ("unclear", "keep")
    assert found.recommendation.methods == ()


def test_one_class_alone_cannot_be_calibrated_but_is_reported():
    found = assess(np.zeros(100, dtype=int), P[:100])
    assert is_whole(found)
    assert "same true class" in found.recommendation.headline
    assert [row.before.name for row in found.scores] == ["log-loss", "Brier score", "accuracy"]
    assert found.data.absent_classes == ("1", "2")


def test_a_class_that_never_occurs_is_named():
    found = assess(np.where(Y == 2, 0, Y), P, methods=METHODS)
    assert is_whole(found)
    assert found.data.absent_classes == ("2",)
    assert any(
        "never occurs: 2. The tests can only detect that its" in pitfall.text for pitfall in found.pitfalls
    )


def test_refuted_zeros_are_counted_and_what_stands_for_them_is_said():
    p = P.copy()
    p[:40] = np.eye(3)[P[:40].argmax(axis=1)]
    refuted = int((p[np.arange(300), Y] == 0).sum())
    found = assess(Y, p, methods=METHODS)
    assert is_whole(found)
    assert found.data.n_refuted == refuted > 0
    first, floored = found.scores[:2]
    assert first.before.value == np.inf
    assert np.isfinite(floored.before.value)
    assert floored.before.name == "log-loss, zeros raised to the floor"
    assert any("probability exactly zero" in pitfall.text for pitfall in found.pitfalls)
    assert '"Infinity"' in found.to_json()
    assert found.recommendation.action == "calibrate"
    assert "infinite" in found.recommendation.headline


def test_predictions_that_are_always_certain():
    found = assess(Y, np.eye(3)[P.argmax(axis=1)], methods=METHODS)
    assert is_whole(found)
    assert found.verdict.direction == "over-confident"


def test_the_same_probability_for_every_row():
    found = assess(np.arange(100) % 2, np.full(100, 0.5), methods=METHODS)
    assert is_whole(found)
    assert found.data.largest_tie == 1.0
    assert found.recommendation.action == "keep"


def test_float32_gives_nearly_the_same_report():
    wide, narrow = assess(Y, P, methods=METHODS), assess(Y, P.astype(np.float32), methods=METHODS)
    assert is_whole(narrow)
    assert narrow.data.float_type == "float32"
    assert narrow.verdict.status == wide.verdict.status
    for one, other in zip(narrow.scores, wide.scores, strict=True):
        assert one.before.value == pytest.approx(other.before.value, rel=1e-5)


def test_logits_give_the_report_of_their_softmax():
    logits = Predictions.from_logits(np.log(P) + 3)
    one, other = assess(Y, logits, methods=METHODS), assess(Y, P, methods=METHODS)
    assert is_whole(one)
    assert one.data.space == "logits"
    assert one.verdict.headline == other.verdict.headline
    assert one.scores[0].before.value == pytest.approx(other.scores[0].before.value)


def test_labels_are_shown_as_the_user_knows_them():
    names = np.array(["cat", "dog", "eel"])
    found = assess(names[Y], Predictions.from_probabilities(P, classes=names), methods=METHODS)
    assert is_whole(found)
    assert set(found.data.classes) == {"cat", "dog", "eel"} == {row.label for row in found.classes}


def test_the_positive_class_of_two_may_come_alone():
    y, p = drawn(200, 2)
    assert assess(y, p[:, 1], methods=[]).verdict == assess(y, p, methods=[]).verdict


def test_weights_count_and_rows_of_weight_zero_do_not():
    weights = np.random.default_rng(0).integers(0, 3, 300).astype(float)
    found = assess(Y, P, sample_weight=weights, methods=METHODS)
    assert is_whole(found)
    assert found.data.weighted
    assert found.data.n_rows == np.count_nonzero(weights)
    assert found.data.n_left_out == 300 - found.data.n_rows
    assert f"{found.data.n_left_out} rows of weight zero dropped" in found.to_markdown()
    assert found.scores[0].before.value == pytest.approx(log_loss(Y, P, sample_weight=weights))
    kept = weights > 0
    alone = assess(Y[kept], P[kept], sample_weight=weights[kept], methods=METHODS)
    assert alone.verdict == found.verdict


def test_equal_weights_change_nothing_but_their_mention():
    plain, weighted = (
        assess(Y, P, methods=METHODS),
        assess(Y, P, sample_weight=np.full(300, 2.0), methods=METHODS),
    )
    assert weighted.verdict.p_value == pytest.approx(plain.verdict.p_value)
    assert weighted.data.effective_rows == pytest.approx(300)


def test_groups_make_intervals_wider_where_rows_repeat():
    times = np.repeat(np.arange(300), 3)
    alone = assess(Y, P, methods=METHODS)
    grouped = assess(Y[times], P[times], groups=times, methods=METHODS)
    assert is_whole(grouped)
    assert grouped.data.n_groups == 300
    before, again = alone.scores[0].before, grouped.scores[0].before
    assert again.high - again.low == pytest.approx(before.high - before.low, rel=1e-9)
    assert "groups" in grouped.recommendation.how


def test_repeated_rows_without_groups_are_noticed():
    times = np.concatenate([np.arange(300), np.arange(60)])
    found = assess(Y[times], P[times], methods=[])
    assert any("pass groups=" in pitfall.text for pitfall in found.pitfalls)
    assert not any("pass groups=" in pitfall.text for pitfall in assess(Y, P, methods=[]).pitfalls)


def test_all_rows_in_one_group_show_nothing():
    found = assess(Y, P, groups=np.zeros(300))
    assert is_whole(found)
    assert (found.verdict.status, found.recommendation.action) == ("unclear", "keep")


def test_more_classes_than_rows():
    y, p = drawn(30, 40)
    assert is_whole(assess(y, p, methods=METHODS))


@settings(max_examples=8)
@given(probability_matrices())
def test_any_probabilities_have_a_report(probabilities):
    found = assess(np.arange(len(probabilities)) % probabilities.shape[1], probabilities, methods=[])
    assert is_whole(found)


def test_splits_that_are_listed_name_rows_among_all(monkeypatch):
    """With fewer rows in a sample, row numbers of a list of splits would mean others."""
    monkeypatch.setattr(import_module("calibrant.report.method_selection"), "QUICK_NUMBERS", 100)
    halves = [(np.arange(150), np.arange(150, 300)), (np.arange(150, 300), np.arange(150))]
    found = assess(Y, P, methods=METHODS, cv=halves)
    assert found.repeatability.settings["rows for the comparison of methods"] == "300"
    assert found.learning is None
    assert "cv is a splitter or a list of splits" in found.recommendation.more_rows


def test_progress_goes_from_nothing_to_all():
    told = []
    assess(Y, P, methods=METHODS, progress=lambda *step: told.append(step))
    assert told[0][0] == 0
    assert told[-1] == (100, 100, "")
    assert [done for done, _, _ in told] == sorted(done for done, _, _ in told)
    assert any("temperature" in what for _, _, what in told)


@pytest.mark.parametrize("wrong", [{"level": 95}, {"random_state": None}, {"random_state": -1}, {"title": 3}])
def test_options_without_meaning_are_refused(wrong):
    with pytest.raises(ParameterError):
        assess(Y, P, **wrong)


def test_a_network_of_cifar_is_over_confident_and_temperature_repairs_it():
    """A ResNet-110 on CIFAR-10: Guo et al. found such networks over-confident, and one temperature nearly enough."""
    data = load("kull_nn/c10_resnet110")
    logits, labels = data["test_logits"][:2000], data["test_y"][:2000]
    found = assess(labels, Predictions.from_logits(logits), methods=["temperature"])
    assert is_whole(found)
    assert (found.verdict.status, found.verdict.direction) == ("miscalibrated", "over-confident")
    assert found.recommendation.method == "temperature"
    assert found.recommendation.gain.low > 0


@pytest.mark.slow
def test_a_thousand_classes_make_a_page_of_a_few_megabytes():
    """Beyond twenty million numbers a part of the rows is measured; pictures are of twenty classes."""
    y, p = drawn(25_000, 1000)
    found = assess(y, p.astype(np.float32))
    assert found.data.n_rows == 25_000
    assert found.curves[0].n_rows == 20_000
    assert len(found.classes) == 1000
    assert len({curve.label for curve in found.curves if curve.label is not None}) == 20
    assert len(found.to_html()) < 10_000_000


def test_grouped_rows_have_a_learning_curve():
    """Its folds are those of the comparison, which keep groups together."""
    _, p = drawn(600, 3)
    y = drawn(600, 3, seed=1)[0]
    found = assess(y, p, groups=np.repeat(np.arange(120), 5), methods=["temperature"])
    assert found.recommendation.more_rows == found.learning.sentence
    assert found.learning.loss[-1] == pytest.approx(found.recommendation.methods[-1].log_loss, rel=1e-9)


def test_a_method_that_chooses_for_itself_has_no_learning_curve():
    found = assess(Y[:100], P[:100], methods=["auto"], cv=2)
    assert found.learning is None
    assert "learning_curve" in found.recommendation.more_rows


def test_labels_one_column_further_are_a_pitfall():
    """Labels 1..3 without 3, taken as column numbers 0..2."""
    y, p = drawn(400, 3)
    with pytest.warns(CalibrationWarning, match="far better as 1..3"):
        found = assess(y[y < 2] + 1, p[y < 2], methods=[])
    assert any(
        pitfall.severity == "warning" and "pass Predictions with classes=[1, ..., 3]" in pitfall.text
        for pitfall in found.pitfalls
    )


def test_log_odds_between_zero_and_one_are_a_pitfall():
    y, p = drawn(100, 2)
    found = assess(y, Predictions.from_logits(p[:, 1]), methods=[])
    assert any("All log-odds are between 0 and 1" in pitfall.text for pitfall in found.pitfalls)
