"""calibrant evaluate: the numbers of the library, in several formats, from files of several kinds."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import csv
import json
from functools import partial
from io import StringIO

import numpy as np
import pytest
from animal_files import CLASSES, COLUMNS, folder, probabilities, run  # noqa: F401

from calibrant import metrics
from calibrant.hypothesis_tests import calibration_slope_intercept, cumulative_test, spiegelhalter_test
from calibrant.intervals import bootstrap


def found(run, line: str) -> dict:
    return json.loads(run(f"evaluate {line} --format json").stdout)


def by_name(records: list[dict], key: str) -> dict[str, dict]:
    return {record[key]: record for record in records}


def test_numbers_are_those_of_the_library(run):
    p, y = probabilities(90, 1)
    content = found(run, f"test.csv {COLUMNS}")
    for name, record in by_name(content["metrics"], "metric").items():
        assert record["value"] == pytest.approx(getattr(metrics, name)(y, p))
        assert record["n_rows"] == 90
        assert record["definition"].startswith(f"{name}(")
    interval = bootstrap(metrics.log_loss, y, p, n_resamples=1000)
    record = by_name(content["metrics"], "metric")["log_loss"]
    assert [record["low"], record["high"]] == pytest.approx([interval.low, interval.high])
    tests = by_name(content["tests"], "test")
    assert tests["Kuiper, predicted class"]["p_value"] == pytest.approx(cumulative_test(y, p).p_value)
    assert tests["Spiegelhalter's z"]["value"] == pytest.approx(spiegelhalter_test(y, p).statistic)
    line = calibration_slope_intercept(y, p)
    assert tests["calibration slope"]["low"] == pytest.approx(line.slope.low)
    assert content["classes"] == CLASSES
    assert content["n_rows"] == 90


def test_the_interval_of_the_debiased_error_is_that_of_its_square(run):
    p, y = probabilities(90, 1)
    (record,) = found(run, f"test.csv {COLUMNS} --metrics debiased_ece")["metrics"]
    squared = bootstrap(partial(metrics.debiased_ece, signed=True), y, p, n_resamples=1000)
    assert record["low"] == pytest.approx(np.sqrt(max(squared.low, 0)))
    assert record["high"] == pytest.approx(np.sqrt(squared.high))


def test_metrics_and_their_options_are_chosen(run):
    p, y = probabilities(90, 1)
    line = (
        "--metrics confidence_ece:strategy=quantile,log_loss:floor=1e-6 --bins 5 --level 0.9 --resamples 50"
    )
    content = found(run, f"test.csv {COLUMNS} {line}")
    binned, loss = content["metrics"]
    assert binned["value"] == pytest.approx(metrics.confidence_ece(y, p, n_bins=5, strategy="quantile"))
    assert binned["definition"] == "confidence_ece(n_bins=5, strategy='quantile', norm=1)"
    assert loss["definition"] == "log_loss(floor=1e-06)"
    assert "50 resamples" in loss["method"]
    assert content["level"] == 0.9


def test_weights_and_groups_are_used(run):
    p, y = probabilities(90, 1)
    weights, groups = 1 + np.arange(90) % 3, np.arange(90) // 4
    content = found(run, f"test.csv {COLUMNS} --weight w --group who --metrics log_loss")
    interval = bootstrap(metrics.log_loss, y, p, sample_weight=weights, groups=groups, n_resamples=1000)
    assert content["metrics"][0]["value"] == pytest.approx(metrics.log_loss(y, p, sample_weight=weights))
    assert content["metrics"][0]["low"] == pytest.approx(interval.low)
    assert any("groups" in note for note in content["notes"])


def test_noise_is_what_calibrated_predictions_give(run, folder):
    """Labels drawn with the predicted probabilities: the error is about what noise gives."""
    generator = np.random.default_rng(3)
    p = generator.dirichlet(np.ones(3), 400)
    labels = (p.cumsum(axis=1) > generator.random((400, 1))).argmax(axis=1)
    np.savez(folder / "a.npz", probs=p, y=labels)
    (record,) = found(run, "a.npz --space probabilities --metrics confidence_ece")["metrics"]
    assert record["noise"] == pytest.approx(record["value"], rel=0.5)
    assert record["p_value"] > 0.01


@pytest.mark.parametrize("option", ["", "--stream"])
def test_two_classes_are_tested_by_the_second(run, folder, option):
    p, y = probabilities(90, 1)
    lines = [f"{int(label == 1)},{score!r}" for label, score in zip(y, p[:, 1].tolist(), strict=True)]
    (folder / "two.csv").write_text("\n".join(["y,score", *lines]))
    content = found(run, f"two.csv --space probabilities --metrics log_loss {option}")
    assert content["metrics"][0]["value"] == pytest.approx(metrics.log_loss(y == 1, p[:, 1]))
    assert content["classes"] == [0, 1]
    if not option:
        assert "Kuiper, class 1" in by_name(content["tests"], "test")


def test_logits_are_taken_as_logits(run, folder):
    p, y = probabilities(90, 1)
    np.savez(folder / "a.npz", logits=np.log(p), labels=y)
    (record,) = found(run, "a.npz --space logits --metrics log_loss")["metrics"]
    assert record["value"] == pytest.approx(metrics.log_loss(y, p))


def test_an_infinite_loss_is_said_and_is_valid_json(run, folder):
    (folder / "a.csv").write_text("y,p\n1,0.0\n0,0.5\n1,0.9\n0,0.2\n")
    result = run("evaluate a.csv --space probabilities --metrics log_loss --format json")
    content = json.loads(result.stdout, parse_constant=pytest.fail)
    assert content["metrics"][0]["value"] == "Infinity"
    assert any(note.startswith("inf: a true class had probability zero") for note in content["notes"])


def test_all_probabilities_at_the_ends_leave_out_the_slope(run, folder):
    (folder / "a.csv").write_text("y,p\n1,1\n0,0\n1,0\n0,1\n1,1\n0,0\n1,1\n0,0\n1,1\n0,0\n")
    assert "Slope and intercept were not computed" in run("evaluate a.csv --space probabilities").stdout


def test_the_table_fits_eighty_columns_and_has_no_escape_codes(run):
    text = run(f"evaluate test.csv {COLUMNS}").stdout
    assert "\x1b" not in text
    assert all(len(line) <= 80 and line == line.rstrip() for line in text.splitlines())
    assert text.startswith("test.csv: 90 rows, 3 classes ('cat', 'dog' and 'owl'), probabilities\n")


def test_csv_has_all_digits(run):
    p, y = probabilities(90, 1)
    text = run(f"evaluate test.csv {COLUMNS} --metrics log_loss --format csv").stdout
    first, *tests = list(csv.DictReader(StringIO(text)))
    assert float(first["value"]) == metrics.log_loss(y, p)
    assert first["kind"] == "metrics"
    assert {row["kind"] for row in tests} == {"tests"}


def test_tests_can_be_left_out(run):
    assert "tests" not in found(run, f"test.csv {COLUMNS} --metrics log_loss --no-tests")


def test_markdown_is_a_table(run):
    lines = run(f"evaluate test.csv {COLUMNS} --metrics log_loss --format markdown").stdout.splitlines()
    assert lines[2:4] == ["| metric | value | 95 % interval |", "| --- | ---: | ---: |"]
    assert lines[4].startswith("| log_loss | ")


def test_output_goes_to_a_file(run, folder):
    result = run(f"evaluate test.csv {COLUMNS} --metrics log_loss --format json -o found.json")
    assert result.stdout == ""
    assert json.loads((folder / "found.json").read_text())["n_rows"] == 90


def test_limits_are_for_scripts(run):
    line = f"evaluate test.csv {COLUMNS} --metrics log_loss,accuracy"
    run(f"{line} --fail-above log_loss=5 --fail-above accuracy=0.1")
    result = run(f"{line} --fail-above log_loss=0.1 --fail-above accuracy=0.99", expected=4)
    assert "log_loss is" in result.stderr
    assert "below 0.99" in result.stderr
    assert "log_loss" in result.stdout
    run(f"{line} --fail-above log_loss", expected=2)
    run(f"{line} --fail-above brier_score=1", expected=2)


# In batches


@pytest.mark.parametrize("ending", ["csv", "parquet", "feather", "npz"])
def test_a_stream_gives_the_same_values(run, folder, ending, monkeypatch):
    monkeypatch.setattr("calibrant.tables.prediction_file.LARGEST_BATCH", 11)
    _as(folder, ending)
    options = "--space probabilities" if ending == "npz" else COLUMNS
    line = f"test.{ending} {options} --metrics log_loss,brier_score,accuracy,confidence_ece,classwise_ece"
    whole, stream = found(run, line), found(run, f"{line} --stream")
    for one, other in zip(whole["metrics"], stream["metrics"], strict=True):
        assert other["value"] == pytest.approx(one["value"], rel=1e-12)
        assert other["definition"] == one["definition"]
        if one["metric"].endswith("_ece"):  # positive by noise alone
            assert other["low"] is other["high"] is None
            assert other["method"].startswith("no interval: the metric is positive by noise")
        else:
            assert other["high"] - other["low"] == pytest.approx(one["high"] - one["low"], rel=0.5)
    assert stream["n_rows"] == whole["n_rows"]
    assert stream["classes"] == whole["classes"]


def _as(folder, ending):
    p, y = probabilities(90, 1)
    if ending == "npz":
        np.savez(folder / "test.npz", probs=p, y=np.array(CLASSES)[y], classes=np.array(CLASSES))
    elif ending != "csv":
        pa = pytest.importorskip("pyarrow")
        table = pa.table(
            {"animal": np.array(CLASSES)[y], **{f"p_{c}": p[:, k] for k, c in enumerate(CLASSES)}}
        )
        if ending == "parquet":
            pytest.importorskip("pyarrow.parquet").write_table(
                table, folder / "test.parquet", row_group_size=20
            )
        else:
            pytest.importorskip("pyarrow.feather").write_feather(table, folder / "test.feather", chunksize=20)


def test_a_stream_says_what_it_leaves_out(run):
    content = found(run, f"test.csv {COLUMNS} --stream")
    assert content["notes"][-3:-1] == [
        "Not computed, since they need all rows in memory: equal-mass bins of debiased_ece (equal-width bins instead), "
        "smooth_ece, expected values under calibration.",
        "Classwise tests were skipped: they would take longer than all metrics.",
    ]
    assert "tests" not in found(run, f"test.csv {COLUMNS} --stream --no-tests")


def test_the_tests_of_a_stream_are_those_of_all_rows(run):
    """Ninety rows are so few that cells of log-odds hold hardly more than one each."""
    whole, stream = (
        by_name(found(run, f"test.csv {COLUMNS} {o}")["tests"], "test") for o in ("", "--stream")
    )
    assert set(whole) - set(stream) == {name for name in whole if name.startswith("Kuiper by class")}
    for name, record in stream.items():
        assert record["value"] == pytest.approx(whole[name]["value"], rel=1e-3)
        assert record["p_value"] == pytest.approx(whole[name]["p_value"], rel=1e-2)
        assert record["n_rows"] == 90


def test_the_jackknife_of_a_mean_is_its_standard_error(run, folder):
    """For a mean the spread of what is left without each part is the usual standard error, up to chance."""
    generator = np.random.default_rng(0)
    y = generator.random(20_000) < 0.3
    np.savez(folder / "a.npz", probs=np.full((20_000, 2), [0.6, 0.4]), y=y.astype(int))
    (record,) = found(run, "a.npz --space probabilities --metrics accuracy --stream")["metrics"]
    error = np.sqrt(0.3 * 0.7 / 20_000)
    assert (record["high"] - record["low"]) / 2 == pytest.approx(1.984 * error, rel=0.25)


def test_groups_of_a_stream_widen_its_intervals(run, folder):
    """Every row ten times in a group of its own: the error is that of a tenth of the rows."""
    generator = np.random.default_rng(0)
    y = np.repeat(generator.random(2_000) < 0.3, 10).astype(int)
    p, who = np.full((20_000, 2), [0.6, 0.4]), np.repeat(np.arange(2_000), 10)
    np.savez(folder / "a.npz", probs=p, y=y, who=who)
    (alone,) = found(run, "a.npz --space probabilities --metrics accuracy --stream")["metrics"]
    (grouped,) = found(run, "a.npz --space probabilities --metrics accuracy --stream --group who")["metrics"]
    ratio = (grouped["high"] - grouped["low"]) / (alone["high"] - alone["low"])
    assert ratio == pytest.approx(np.sqrt(10), rel=0.3)


def test_weights_of_zero_count_for_nothing_in_a_stream(run, folder):
    (folder / "a.csv").write_text("y,p,w\n1,0.9,1\n0,0.8,0\n0,0.2,2\n1,0.6,1\n")
    line = "a.csv --space probabilities --columns p --weight w --metrics brier_score --resamples 50"
    whole, stream = found(run, line), found(run, f"{line} --stream")
    assert stream["metrics"][0]["value"] == pytest.approx(whole["metrics"][0]["value"])


def test_a_batch_whose_weights_are_zero_is_passed_over(run, folder, monkeypatch):
    monkeypatch.setattr("calibrant.tables.prediction_file.LARGEST_BATCH", 2)
    (folder / "a.csv").write_text("y,p,w\n1,0.9,1\n0,0.8,1\n0,0.2,0\n1,0.6,0\n0,0.3,1\n")
    line = "a.csv --space probabilities --columns p --weight w --metrics brier_score --resamples 50"
    whole, stream = found(run, line), found(run, f"{line} --stream")
    assert stream["metrics"][0]["value"] == pytest.approx(whole["metrics"][0]["value"])
    (folder / "b.csv").write_text("y,p,w\n1,0.9,0\n0,0.8,0\n0,0.8,0\n")
    result = run("evaluate b.csv --space probabilities --columns p --weight w --stream", expected=1)
    assert "all weights are zero" in result.stderr


def test_large_files_are_streamed_by_themselves(run, monkeypatch):
    monkeypatch.setattr("calibrant.cli.commands.evaluate.os.sysconf", lambda _: 64)
    assert any(
        "Not computed" in note for note in found(run, f"test.csv {COLUMNS} --metrics log_loss")["notes"]
    )


def test_an_interval_that_would_not_keep_its_level_is_left_out_with_its_reason(run, folder):
    p = np.full(400, 0.99)
    y = np.where(np.arange(400) < 2, 0, 1)
    lines = ["y,p_0,p_1", *(f"{label},{1 - one:.2f},{one:.2f}" for label, one in zip(y, p, strict=True))]
    (folder / "rare.csv").write_text("\n".join(lines) + "\n")
    text = " ".join(run("evaluate rare.csv --label y --columns p_* --space probabilities").stdout.split())
    reason = "no interval, since there are only 2 rows of the rarer class, fewer than 5."
    assert f"log_loss, brier_score, accuracy, debiased_ece: {reason}" in text
    assert "Noise alone makes it positive, so there is no interval." in text
