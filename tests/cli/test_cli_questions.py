"""calibrant subgroups, decisions, multilabel, and files with confidences and correctness."""

import json

import numpy as np
import pytest

from calibrant import MultilabelCalibration
from calibrant.hypothesis_tests import subgroup_calibration
from calibrant.metrics import log_loss, multilabel_score, net_benefit, realised_cost

pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    confidence = generator.beta(4, 2, 300).round(6)
    site = generator.choice(["a", "b"], 300)
    age = generator.normal(50, 9, 300).round(1)
    correct = (generator.random(300) < confidence**2).astype(int)
    z = generator.normal(-1, 2, (300, 3)).round(6)
    tags = (generator.random(z.shape) < 1 / (1 + np.exp(-0.5 * z))).astype(float)
    tags[generator.random(z.shape) < 0.1] = np.nan
    return {"confidence": confidence, "correct": correct, "site": site, "age": age, "z": z, "tags": tags}


@pytest.fixture
def run(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    names = ["confidence", "correct", "site", "age"]
    rows = zip(*(data[name].tolist() for name in names), strict=True)
    text = "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)])
    (tmp_path / "qa.csv").write_text(text + "\n")
    lines = ["z_a,z_b,z_c,y_a,y_b,y_c"]
    for scores, outcomes in zip(data["z"].tolist(), data["tags"].tolist(), strict=True):
        cells = ["?" if value != value else str(int(value)) for value in outcomes]
        lines.append(",".join([*map(repr, scores), *cells]))
    (tmp_path / "tags.csv").write_text("\n".join(lines) + "\n")

    from calibrant.cli.program import calibrant

    def run(line, expected=0):
        result = testing.CliRunner().invoke(calibrant, line.split(), prog_name="calibrant")
        assert result.exit_code == expected, result.output
        return result

    return run


QA = "qa.csv --confidence confidence --correct correct"
TAGS = "tags.csv --space logits --columns z_* --labels y_* --missing ?"


def test_confidence_and_correct_are_one_score_column_and_its_label(run):
    short = json.loads(run(f"evaluate {QA} --no-tests --format json").stdout)
    long = json.loads(
        run(
            "evaluate qa.csv --columns confidence --label correct --space probabilities --no-tests --format json"
        ).stdout
    )
    assert short == long
    assert "go together" in run("evaluate qa.csv --confidence confidence", 2).output
    assert "--label has no effect" in run(f"evaluate {QA} --label site", 2).output


def test_fitted_maps_of_confidences_speak_of_wrong_and_correct(run):
    printed = run(f"fit {QA} --method platt -o platt.npz --format json").stdout
    learnt = " ".join(json.loads(printed)["learnt"])
    assert "correct" in learnt
    assert "0" not in learnt.split()
    run("apply qa.csv --columns confidence --calibrator platt.npz -o new.csv")


def test_subgroups(run, data):
    content = json.loads(run(f"subgroups {QA} --by site,age --depth 2 --format json").stdout)
    found = subgroup_calibration(
        data["correct"], data["confidence"], {"site": data["site"], "age": data["age"]}, depth=2
    )
    assert [one["segment"] for one in content["segments"]] == list(found.segment)
    assert [one["p_value"] for one in content["segments"]] == pytest.approx(found.p_value)
    assert "segments" in run(f"subgroups {QA} --by site").stdout
    assert "no side column 'nobody'" in run(f"subgroups {QA} --by nobody", 1).output


def test_missing_cells_of_side_columns_are_segments_and_dropped_rows_have_none(run, tmp_path):
    text = (tmp_path / "qa.csv").read_text().splitlines()
    for line, column in ((3, 2), (4, 3)):  # no site, no age
        cells = text[line].split(",")
        cells[column] = ""
        text[line] = ",".join(cells)
    text[5] = "," + text[5].split(",", 1)[1]  # no confidence
    (tmp_path / "qa.csv").write_text("\n".join(text) + "\n")
    line = f"subgroups {QA} --by site,age --min-rows 1 --drop-missing --format json"
    content = json.loads(run(line).stdout)
    sizes = {one["segment"]: one["n_rows"] for one in content["segments"]}
    assert sizes["site is missing"] == sizes["age is missing"] == 1
    assert sizes["site = a"] + sizes["site = b"] == 298


def test_decisions(run, data):
    content = json.loads(run(f"decisions {QA} --costs 0,9;1,0 --format json").stdout)
    costs = [[0, 9], [1, 0]]
    expected = realised_cost(data["correct"], data["confidence"], costs=costs)
    assert content["costs"][0]["value"] == pytest.approx(expected)
    assert content["threshold"] == pytest.approx(0.1)
    for one in content["net_benefit"]:
        benefit = net_benefit(data["correct"], data["confidence"], threshold=one["threshold"])
        assert one["net_benefit"] == pytest.approx(benefit)
    assert "a row per decision" in run(f"decisions {QA} --costs 0;1,0", 1).output
    assert "one per class" in run(f"decisions {QA} --costs 0,1,2;1,0,3", 1).output
    run(f"fit {QA} --method platt -o platt.npz")
    text = run(f"decisions {QA} --costs 0,3;1,0 --calibrator platt.npz").stdout
    assert "difference" in text
    assert "calibrated" in text


def test_multilabel_evaluate_and_report(run, data, tmp_path):
    content = json.loads(run(f"multilabel evaluate {TAGS} --method platt --format json").stdout)
    first = content["averages"][0]
    expected = multilabel_score(log_loss, data["tags"], data["z"], space="logits")
    assert first["before"] == pytest.approx(expected)
    assert first["after"] < first["before"]
    assert {one["label"] for one in content["labels"]} == {"y_a", "y_b", "y_c"}
    for name in ("labels.html", "labels.md", "labels.json"):
        run(f"multilabel report {TAGS} --method platt -o {name}")
        assert (tmp_path / name).stat().st_size > 500
    assert "y_a" in (tmp_path / "labels.html").read_text()


def test_multilabel_fit_and_apply(run, data, tmp_path):
    run(f"multilabel fit {TAGS} --method platt -o labels.npz")
    run("multilabel apply tags.csv --space logits --columns z_* --calibrator labels.npz -o out.csv")
    fitted = MultilabelCalibration("platt", space="logits").fit(data["z"], data["tags"])
    rows = [line.split(",") for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert np.array([row[:3] for row in rows], dtype=float) == pytest.approx(fitted.predict_proba(data["z"]))
    assert [row[3] for row in rows].count("?") == np.isnan(data["tags"][:, 0]).sum()
    wrong_space = (
        "multilabel apply tags.csv --space probabilities --columns z_* --calibrator labels.npz -o out.csv"
    )
    assert "--space logits" in run(wrong_space, 1).output
    fewer = "multilabel apply tags.csv --space logits --columns z_a,z_b --calibrator labels.npz -o out.csv"
    assert "3 labels" in run(fewer, 1).output


def test_empty_cells_are_missing_outcomes(run, data, tmp_path):
    text = (tmp_path / "tags.csv").read_text().replace("?", "")
    (tmp_path / "tags.csv").write_text(text)
    line = TAGS.removesuffix(" --missing ?")
    content = json.loads(run(f"multilabel evaluate {line} --method platt --format json").stdout)
    expected = multilabel_score(log_loss, data["tags"], data["z"], space="logits")
    assert content["averages"][0]["before"] == pytest.approx(expected)


def test_invalid_label_columns(run):
    assert "one of each per label" in run(
        "multilabel fit tags.csv --space logits --columns z_* --labels y_a -o l.npz", 1
    ).output.replace("\n", " ")
    assert (
        "--missing"
        in run("multilabel fit tags.csv --space logits --columns z_* --labels y_* -o l.npz", 1).output
    )


def test_report_with_subgroups_and_costs(run, tmp_path):
    run(f"report {QA} --by site --costs 0,9;1,0 --methods platt -o report.md")
    text = (tmp_path / "report.md").read_text()
    assert "## Subgroups" in text
    assert "## Decisions" in text
    assert "class 'correct' occurs" in text
    assert "--by is for --engine local" in run(f"report {QA} --by site --engine dask -o report.md", 2).output
