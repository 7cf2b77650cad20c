"""calibrant multioutput: several class labels per row, against the functions of the library."""

import json

import numpy as np
import pytest

from calibrant import MultioutputCalibration, Predictions
from calibrant.report import assess_outputs

pytest.importorskip("rich")
testing = pytest.importorskip("click.testing")

CLASSES = {"colour": ["blue", "red"], "size": ["large", "medium", "small"]}


@pytest.fixture(scope="module")
def data():
    generator = np.random.default_rng(0)
    scores, labels = {}, {}
    for name, classes in CLASSES.items():
        z = 2 * generator.normal(size=(120, len(classes)))
        scores[name] = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)).round(9)
        drawn = (0.5 * z + generator.gumbel(size=z.shape)).argmax(axis=1)
        labels[name] = np.array(classes, dtype=object)[drawn]
    labels["size"][:10] = None
    return scores, labels


@pytest.fixture
def run(tmp_path, monkeypatch, data):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "items.csv", data, "p_{label}_{name}")

    from calibrant.cli.program import calibrant

    def run(line, expected=0):
        result = testing.CliRunner().invoke(calibrant, line.split(), prog_name="calibrant")
        assert result.exit_code == expected, result.output
        return result

    return run


def write(path, data, form, missing=""):
    scores, labels = data
    header = [form.format(label=label, name=name) for label, names in CLASSES.items() for name in names]
    lines = [",".join([*labels, *header])]
    for row in range(120):
        cells = [missing if labels[label][row] is None else labels[label][row] for label in labels]
        lines.append(",".join([*cells, *(repr(float(p)) for part in scores.values() for p in part[row])]))
    path.write_text("\n".join(lines) + "\n")


def parts_of(data):
    scores, labels = data
    parsed = [Predictions.from_probabilities(scores[name], classes=CLASSES[name]) for name in CLASSES]
    return parsed, np.column_stack(list(labels.values()))


LABELS = "--labels colour,size --space probabilities --method temperature"


def test_evaluate_and_report_agree_with_the_library(run, data, tmp_path):
    parsed, labels = parts_of(data)
    expected = assess_outputs(labels, parsed, method="temperature", names=list(CLASSES))
    content = json.loads(run(f"multioutput evaluate items.csv {LABELS} --format json").stdout)
    for one, mean in zip(content["means"], expected.means, strict=True):
        assert one == {"metric": mean.metric, "before": mean.before, "after": mean.after}
    assert [one["label"] for one in content["labels"]] == ["colour"] * 4 + ["size"] * 4
    assert content["labels"][-1]["n_known"] == 110
    for name in ("items.html", "items.md", "items.json"):
        run(f"multioutput report items.csv {LABELS} -o {name}")
    assert expected.headline in (tmp_path / "items.md").read_text()
    assert "size" in (tmp_path / "items.html").read_text()
    assert json.loads((tmp_path / "items.json").read_text())["n_labels"] == 2


def test_fit_and_apply_agree_with_the_library(run, data, tmp_path):
    parsed, labels = parts_of(data)
    expected = MultioutputCalibration("temperature").fit(parsed, labels).predict_proba(parsed)
    found = run(f"multioutput fit items.csv {LABELS} -o items.npz")
    assert "scores of 'size' are from 'p_size_large', 'p_size_medium' and 'p_size_small'" in found.output
    run("multioutput apply items.csv --calibrator items.npz -o new.csv")
    header, *lines = (line.split(",") for line in (tmp_path / "new.csv").read_text().splitlines())
    assert header[2:] == [f"p_{label}_{name}" for label, names in CLASSES.items() for name in names]
    assert [line[:2] for line in lines] == [["" if cell is None else cell for cell in row] for row in labels]
    assert np.array([line[2:] for line in lines], float) == pytest.approx(np.hstack(expected), abs=1e-15)


def test_columns_in_any_order_single_columns_and_logits(run, data, tmp_path):
    """Columns are matched by the class names; a single column is the score of the second of two classes."""
    scores, _ = data
    run(f"multioutput fit items.csv {LABELS} -o items.npz")
    run("multioutput apply items.csv --calibrator items.npz -o new.csv")
    expected = np.loadtxt(
        tmp_path / "new.csv", delimiter=",", skiprows=1, usecols=[3, 4, 5, 6], dtype=np.float64
    )
    lines = ["size_small,colour_red,size_large,size_medium"]
    lines += [
        f"{s[2]!r},{c[1]!r},{s[0]!r},{s[1]!r}"
        for c, s in zip(scores["colour"].tolist(), scores["size"].tolist(), strict=True)
    ]
    (tmp_path / "moved.csv").write_text("\n".join(lines) + "\n")
    run("multioutput apply moved.csv --calibrator items.npz -o moved_new.csv")
    moved = np.loadtxt(tmp_path / "moved_new.csv", delimiter=",", skiprows=1)
    assert moved[:, [1, 2, 3, 0]] == pytest.approx(expected, abs=1e-9)
    assert (
        "logits"
        in run(f"multioutput evaluate items.csv {LABELS.replace('probabilities', 'logits')}", 1).output
    )


def test_patterns_and_the_sign_of_missing_labels(run, data, tmp_path):
    write(tmp_path / "short.csv", data, "{label[0]}.{name}", missing="?")
    expected = json.loads(run(f"multioutput evaluate items.csv {LABELS} --format json").stdout)
    for pattern in ("c.*;s.*",):
        line = f"multioutput evaluate short.csv {LABELS} --missing ? --columns {pattern} --format json"
        assert json.loads(run(line).stdout)["means"] == expected["means"]
    by_name = f"multioutput evaluate items.csv {LABELS} --columns p_{{label}}_* --format json"
    assert json.loads(run(by_name).stdout)["means"] == expected["means"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (f"evaluate items.csv {LABELS} --columns p_*", "2 labels, but the pattern 'p_*' is for 1"),
        (f"evaluate items.csv {LABELS} --columns p_*;p_size_*", "a score of 'colour' and of 'size'"),
        (f"evaluate items.csv {LABELS.replace('colour', 'weight')}", "no label column 'weight'"),
        (f"evaluate items.csv {LABELS.replace('colour,', '')}", "two or more columns"),
        (f"evaluate items.csv {LABELS} --columns colour,p_size_small;p_size_*", "both a label and a score"),
        (f"evaluate renamed.csv {LABELS}", "no score column is named after the label 'colour'"),
        ("apply items.csv --calibrator other.npz -o new.csv", "fitted for the classes 'blue' and 'green'"),
    ],
)
def test_columns_that_cannot_be_told_are_named(run, data, tmp_path, line, words):
    write(tmp_path / "renamed.csv", data, "{name}")
    other = MultioutputCalibration("temperature").fit(
        [Predictions.from_probabilities([[0.4, 0.6], [0.7, 0.3]] * 4, classes=["blue", "green"])] * 2,
        [["green", "green"], ["blue", "blue"]] * 3 + [["blue", "blue"], ["green", "green"]],
    )
    other.names_ = list(CLASSES)
    other.save(tmp_path / "other.npz")
    output = run(f"multioutput {line}", 1).output
    assert words in output
    assert output.splitlines()[-1].count("Error:") == 1


def test_arrays_are_refused(run, tmp_path):
    np.savez(tmp_path / "items.npz", colour=np.zeros(3))
    assert "need columns" in run(f"multioutput evaluate items.npz {LABELS}", 1).output
