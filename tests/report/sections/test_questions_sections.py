"""Sections on subgroups and decisions, and the reports on several labels, against the functions of the library."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from calibrant import MultilabelCalibration, Predictions, assess
from calibrant.errors import LabelError, ParameterError
from calibrant.hypothesis_tests import subgroup_calibration
from calibrant.metrics import cost_gap, log_loss, multilabel_score, net_benefit, realised_cost
from calibrant.report import Assessment, assess_labels, assess_outputs

COSTS = [[0, 9], [1, 0]]


@pytest.fixture(scope="module")
def made():
    generator = np.random.default_rng(0)
    p, site = generator.beta(1, 3, 600), generator.choice(["a", "b", "c"], 600)
    y = (generator.random(600) < np.where(site == "b", 0.4 * p, p)).astype(int)
    weights = np.where(np.arange(600) % 50, 1.0, 0.0)
    side = {"site": site, "age": generator.integers(18, 90, 600)}
    found = assess(
        y, p, sample_weight=weights, side_columns=side, costs=COSTS, methods=["temperature"], title="t"
    )
    return found, y, p, side, weights


def test_subgroups_are_those_of_the_test(made):
    found, y, p, side, weights = made
    expected = subgroup_calibration(y, p, side, sample_weight=weights, depth=2)
    numbers = found.subgroups
    assert numbers.columns == ("site", "age")
    assert [row.segment for row in numbers.rows] == list(expected.segment[: len(numbers.rows)])
    assert [row.p_value for row in numbers.rows] == pytest.approx(expected.p_value[: len(numbers.rows)])
    assert numbers.n_rejected == len(expected.rejected) > 0


def test_decisions_are_those_of_the_metrics(made):
    found, y, p, _, weights = made
    numbers = found.decisions
    assert numbers.before.value == pytest.approx(realised_cost(y, p, costs=COSTS, sample_weight=weights))
    gap = numbers.before.value - numbers.predicted
    assert abs(gap) == pytest.approx(abs(cost_gap(y, p, costs=COSTS, sample_weight=weights)))
    assert numbers.threshold == pytest.approx(0.1)
    for row in numbers.thresholds:
        expected = net_benefit(y, p, threshold=row.threshold, sample_weight=weights)
        assert row.before.value == pytest.approx(expected)


def test_forms(made):
    found = made[0]
    assert Assessment.from_json(found.to_json()).to_markdown() == found.to_markdown()
    text = found.to_markdown()
    assert text.index("## Decisions") < text.index("## Subgroups")
    assert 'id="subgroups"' in found.to_html()


def test_reports_without_them_have_no_such_sections(made):
    _, y, p, _, _ = made
    plain = assess(y, p, methods=[])
    assert plain.subgroups is plain.decisions is None
    assert "Subgroups" not in plain.to_markdown()


def test_invalid_costs_and_columns(made):
    _, y, p, side, _ = made
    with pytest.raises(ParameterError, match="one per decision"):
        assess(y, p, costs=[[0, 1, 2]], methods=[])
    with pytest.raises(ParameterError, match="'site' must have one value per row"):
        assess(y, p, side_columns={"site": side["site"][:5]}, methods=[])


def labels(n_rows=200, n_labels=4, slope=0.4):
    generator = np.random.default_rng(1)
    z = generator.normal(-1, 2, (n_rows, n_labels))
    y = (generator.random(z.shape) < 1 / (1 + np.exp(-slope * z))).astype(float)
    y[:20, 0] = np.nan
    return z, y


def test_report_on_labels():
    z, y = labels()
    found = assess_labels(y, z, space="logits", method="platt", title="tags")
    assert found.averages[0].before == pytest.approx(multilabel_score(log_loss, y, z, space="logits"))
    assert found.difference.value == pytest.approx(found.averages[0].after - found.averages[0].before)
    assert found.difference.direction == "better"
    assert found.headline.startswith("Calibrate: platt")
    by_name = {row.label: row for row in found.labels}
    assert by_name["0"].n_known == 180
    assert [row.after for row in found.labels] == sorted((row.after for row in found.labels), reverse=True)
    assert "tags" in found.to_html()
    assert "Log-loss before" in found.to_markdown()
    assert '"headline"' not in found.to_json()


def test_held_out_rows_of_calibrated_labels_do_not_improve():
    z, y = labels(slope=1.0)
    found = assess_labels(y, z, space="logits", method=MultilabelCalibration("platt").method)
    assert found.difference.direction in ("open", "worse")
    assert "do not show" in found.headline or found.headline.startswith("Do not")


def test_labels_without_outcomes_and_too_few_rows():
    z, y = labels()
    y[:, 3] = np.nan
    found = assess_labels(y, z, space="logits")
    assert found.labels[-1].n_known == 0
    with pytest.raises(ParameterError, match="cv=5"):
        assess_labels(y[:3], z[:3], space="logits")


def outputs(n_rows=200, slope=0.4):
    generator = np.random.default_rng(2)
    logits = [2 * generator.normal(size=(n_rows, k)) for k in (2, 4)]
    y = np.column_stack([(slope * z + generator.gumbel(size=z.shape)).argmax(axis=1) for z in logits])
    return y.astype(float), [Predictions.from_logits(z) for z in logits]


def test_report_on_several_outputs():
    """Scores before calibration are those of the metrics; the mean difference is the mean of the differences."""
    y, parts = outputs()
    y[:30, 1] = np.nan
    weights = np.where(np.arange(200) % 10, 1.0, 0.0)
    found = assess_outputs(y, parts, method="temperature", sample_weight=weights, names=["colour", "size"])
    assert [row.n_known for row in found.outputs] == [180, 153]
    for row, labels, p in zip(found.outputs, y.T, parts, strict=True):
        known = np.flatnonzero(~np.isnan(labels))
        loss = log_loss(labels[known].astype(int), p.take(known), sample_weight=weights[known])
        assert row.scores[0].before == pytest.approx(loss)
        assert row.difference.value == pytest.approx(row.scores[0].after - row.scores[0].before)
    mean = np.mean([row.difference.value for row in found.outputs])
    assert found.difference.value == pytest.approx(mean)
    assert found.difference.low < mean < found.difference.high
    assert found.headline.startswith("Calibrate: temperature lowers the mean log-loss")
    for text in (found.to_html(), found.to_markdown(), found.to_json(), str(found)):
        assert "colour" in text


def test_held_out_rows_of_calibrated_outputs_do_not_improve():
    y, parts = outputs(slope=1.0)
    assert assess_outputs(y, parts, method="temperature").difference.direction in ("open", "worse")


def test_invalid_outputs():
    y, parts = outputs(20)
    with pytest.raises(ParameterError, match="cv=30"):
        assess_outputs(y, parts, cv=30)
    with pytest.raises(ParameterError, match="one name per output"):
        assess_outputs(y, parts, names=["colour"])
    fold = next(KFold(5, shuffle=True, random_state=0).split(y))[1]
    y[np.setdiff1d(np.arange(20), fold), 1] = np.nan
    with pytest.raises(LabelError, match="in one fold"):
        assess_outputs(y, parts, method="temperature")
    y[:, 1] = np.nan
    with pytest.raises(LabelError, match="output 1 are missing"):
        assess_outputs(y, parts)
