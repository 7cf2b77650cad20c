"""Results: the units of a plan joined with records."""

from types import SimpleNamespace

import numpy as np
import pytest
from study_samples import crossed, sample

from calibrant.studies.results import Record, Results

LABELS = [
    {"data": "iris", "calibrator": "none", "repeat": 0},
    {"data": "iris", "calibrator": "beta", "repeat": 0},
    {"trial": "learning", "noise": 0.5, "seed": 0},
]


def test_labels_come_from_the_plan_and_old_records_do_not_count():
    units = [
        SimpleNamespace(key="a", labels={"data": "new name"}),
        SimpleNamespace(key="b", labels={"data": "x"}),
    ]
    records = [
        Record("a", {"data": "old name"}, "done", {"log_loss": 1.0}, seconds=2.0),
        Record("gone", {"data": "x"}, "done", {"log_loss": 3.0}, seconds=5.0),
    ]
    results = Results(SimpleNamespace(recipe=None, units=units, absent=()), records)
    columns = results.columns()
    assert columns["data"].tolist() == ["new name", "x"]
    assert columns["status"].tolist() == ["done", "open"]
    np.testing.assert_array_equal(columns["log_loss"], [1.0, np.nan])
    assert results.seconds == 2.0


def test_the_long_table_has_all_labels_and_measures():
    results = sample(LABELS, [{"log_loss": 1.0, "other": 5.0}, None, {"final": 2.0}])
    columns = results.columns()
    assert list(columns) == [
        "data", "calibrator", "trial", "noise", "repeat", "seed", "status",
        "log_loss", "accuracy", "p", "other", "final", "seconds", "message",
    ]  # fmt: skip
    assert columns["message"].tolist() == ["", "ValueError: no way.", ""]
    assert results.counts() == {"done": 2, "failed": 1, "too slow": 0, "open": 0}


def test_units_are_chosen_by_their_labels_however_these_are_written():
    results = crossed(lambda **_: 1.0, data=["a", "b"], rows=[50, 100.0], calibrated=[True, False])
    assert len(list(results.where({"data": "a"}))) == 4
    assert len(list(results.where({"data": ["a", "b"], "rows": 100}))) == 4
    assert len(list(results.where({"rows": "50", "calibrated": True}))) == 2
    assert len(list(results.where({"calibrated": "no"}))) == 4
    assert not list(results.where({"nothing": 1}))


def test_failures_of_one_kind_come_together():
    units = [SimpleNamespace(key=str(k), labels={"data": f"d{k}", "calibrator": "B"}) for k in range(4)]
    records = [
        Record(
            str(k), {}, "failed", message=f"the calibrator 'B' on 'd{k}' failed: ValueError: too\nfew rows."
        )
        for k in range(3)
    ]
    records.append(
        Record("3", {}, "too slow", message="the calibrator 'B' on 'd3' took more than 5 seconds.")
    )
    results = Results(SimpleNamespace(recipe=None, units=units, absent=()), records)
    found = {key: len(lines) for key, lines in results.failures().items()}
    assert found == {
        ("failed", "the calibrator failed: ValueError: too few rows."): 3,
        ("too slow", "the calibrator took more than 5 seconds."): 1,
    }


@pytest.mark.parametrize(
    ("values", "expected"),
    [([{"final": 1.0}, None], True), ([{"other": 1.0}, None], False), ([None, None], True)],
)
def test_a_trial_that_failed_counts_for_the_values_that_its_kind_has(values, expected):
    results = sample([{"trial": "t", "seed": seed} for seed in range(2)], values)
    assert results.may_have(results.lines[1], "final") is expected


def test_a_frame_of_the_results_can_be_had():
    pandas = pytest.importorskip("pandas")
    frame = crossed(lambda **_: 1.0, data=["a", "b"]).frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["data"].tolist() == ["a", "b"]
