"""Which columns are scores, of which class and of which kind, and what the command line says of its guesses."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import json

import numpy as np
import pytest
from animal_files import CLASSES, COLUMNS, folder, probabilities, run  # noqa: F401
from numpy.testing import assert_allclose

from calibrant import load


def write_scores(path, names, scores, labels, first=None):
    """Write labels and scores as a CSV file, with one more column before them, and return its name."""
    extra = [] if first is None else [first[0]]
    lines = [",".join([*extra, "y", *names])]
    for number, (label, row) in enumerate(zip(labels, scores.tolist(), strict=True)):
        cells = [] if first is None else [str(first[1][number])]
        lines.append(",".join([*cells, str(label), *map(repr, row)]))
    path.write_text("\n".join(lines) + "\n")
    return path.name


@pytest.fixture
def logits():
    p, y = probabilities(120, 0)
    return np.log(p) + 1, np.array(CLASSES)[y]


# Columns that nobody chose


@pytest.mark.parametrize(
    "command", ["evaluate --metrics accuracy --stream", "evaluate --metrics accuracy", "fit"]
)
def test_row_numbers_are_left_out_with_a_note(run, folder, logits, command):
    z, y = logits
    write_scores(folder / "a.csv", CLASSES, z, y, ("case", range(120)))
    output = "-o cal.npz --method temperature" if command == "fit" else ""
    result = run(f"{command} a.csv --space logits --format json {output}")
    assert json.loads(result.stdout)["classes"] == CLASSES
    found, ignored = result.stderr.splitlines()[:2]
    assert found == "Note: labels are from column 'y', logits from columns 'cat', 'dog' and 'owl'."
    assert ignored.startswith(
        "Note: column 'case' is ignored, since it looks like a row number; choose the columns with --columns if it has scores."
    )


@pytest.mark.parametrize("command", ["evaluate --stream", "evaluate", "fit", "compare", "report"])
def test_a_column_that_is_no_class_is_refused(run, folder, logits, command):
    z, y = logits
    write_scores(folder / "a.csv", CLASSES, z, y, ("age", np.arange(120) % 30))
    output = "-o out.html" if command in ("fit", "report") else ""
    result = run(f"{command} a.csv --space logits {output}", expected=1)
    assert result.stderr.splitlines()[-1] == (
        "Error: a.csv: column 'age' matches no label; choose the columns with --columns, with it only if "
        "it is a class that never occurs."
    )


# Probabilities taken for logits


def test_an_array_that_is_called_probabilities_is_not_taken_for_logits(run, folder, logits):
    z, y = logits
    p, _ = probabilities(90, 1)
    np.savez(folder / "val.npz", logits=z, y=y, classes=np.array(CLASSES))
    run("fit val.npz --space logits --method temperature -o cal.npz")
    for name in ("probabilities", "probs"):
        np.savez(folder / "test.npz", **{name: p, "classes": np.array(CLASSES)})
        result = run("apply test.npz --calibrator cal.npz -o out.npz", expected=1)
        assert (
            f"test.npz: the name '{name}' suggests probabilities, but the calibrator was fitted to logits"
            in result.stderr
        )
        assert not (folder / "out.npz").exists()
        run("apply test.npz --calibrator cal.npz -o out.npz --space probabilities")
        (folder / "out.npz").unlink()


def test_columns_that_are_called_probabilities_are_not_taken_for_logits(run, folder, logits):
    z, y = logits
    p, _ = probabilities(120, 0)
    write_scores(folder / "a.csv", [f"logit_{name}" for name in CLASSES], z, y)
    write_scores(folder / "b.csv", [f"prob_{name}" for name in CLASSES], p, y)
    run("fit a.csv --space logits --method temperature -o cal.npz")
    result = run("apply b.csv --calibrator cal.npz -o out.csv", expected=1)
    assert "the name 'prob_cat' suggests probabilities" in result.stderr
    run("fit b.csv --space probabilities --method temperature -o cal.npz")
    result = run("apply a.csv --calibrator cal.npz -o out.csv", expected=1)
    assert "the name 'logit_cat' suggests logits" in result.stderr


def test_numbers_that_look_like_probabilities_are_noted_and_the_other_way_round_refused(run, folder, logits):
    z, y = logits
    p, _ = probabilities(120, 0)
    write_scores(folder / "a.csv", CLASSES, z, y)
    write_scores(folder / "b.csv", CLASSES, p, y)
    run("fit a.csv --space logits --method temperature -o cal.npz")
    said = "Note: these look like probabilities, but the calibrator was fitted to logits; say --space probabilities"
    assert said in run("apply b.csv --calibrator cal.npz -o out.csv").stderr
    assert "Note" not in run("apply b.csv --calibrator cal.npz -o out.csv --space probabilities").stderr
    assert "Note" not in run("apply a.csv --calibrator cal.npz -o out.csv").stderr
    run("fit b.csv --space probabilities --method temperature -o cal.npz")
    run("apply a.csv --calibrator cal.npz -o out.csv", expected=1)


# Columns of the fit


def test_columns_matched_by_sorted_order_are_found_again_by_their_names(run, folder):
    """Labels 1 to 3 go with c0 to c2; by the names of the classes, c1 would be the first."""
    p, y = probabilities(120, 0)
    names = ["c0", "c1", "c2"]
    write_scores(folder / "a.csv", names, p, y + 1)
    run("fit a.csv --space probabilities --method vector -o cal.npz")
    assert load(folder / "cal.npz").column_names_.tolist() == names
    write_scores(folder / "b.csv", [*names[::-1], "c3"], np.column_stack([p[:, ::-1], p[:, 0]]), y + 1)
    run("apply b.csv --calibrator cal.npz -o out.csv")
    found = np.loadtxt(folder / "out.csv", delimiter=",", skiprows=1)
    assert_allclose(found[:, [3, 2, 1]], load(folder / "cal.npz").predict_proba(p), rtol=1e-12)
    assert_allclose(found[:, 4], p[:, 0])


def test_only_the_classes_without_a_column_are_named(run, folder):
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    text = (folder / "test.csv").read_text().replace("p_dog", "q_dog", 1)
    (folder / "b.csv").write_text(text)
    result = run("apply b.csv --calibrator cal.npz -o out.csv", expected=1)
    assert result.stderr == (
        "Error: b.csv has no column for the class 'dog' of cal.npz; choose the columns with --columns, or a "
        "calibrator fitted for these classes.\n"
    )


def test_the_only_column_of_the_other_class_is_not_taken(run, folder):
    p, y = probabilities(120, 0)
    two = np.array(["cat", "dog"])[(y > 0).astype(int)]
    scores = np.column_stack([p[:, 0], 1 - p[:, 0]])
    write_scores(folder / "a.csv", ["p_cat", "p_dog"], scores, two)
    run("fit a.csv --space probabilities --method platt -o cal.npz")
    write_scores(folder / "b.csv", ["p_cat"], scores[:, :1], two)
    assert (
        "no column for the class 'dog'" in run("apply b.csv --calibrator cal.npz -o c.csv", expected=1).stderr
    )
    write_scores(folder / "b.csv", ["p_dog"], scores[:, 1:], two)
    run("apply b.csv --calibrator cal.npz -o c.csv")


# Rounded probabilities


@pytest.mark.parametrize("command", ["evaluate", "evaluate --stream", "fit", "compare", "report", "apply"])
def test_rounded_probabilities_need_to_be_normalised(run, folder, command):
    p, y = probabilities(120, 0)
    write_scores(folder / "a.csv", CLASSES, p.round(2), np.array(CLASSES)[y])
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    options = {
        "evaluate": "--metrics brier_score --no-tests",
        "fit": "--method temperature -o out.npz",
        "compare": "--methods temperature",
        "report": "--methods temperature -o out.html",
        "apply": "--calibrator cal.npz -o out.csv",
    }[command.split()[0]]
    line = f"{command} a.csv --space probabilities {options}"
    assert "if they were rounded, add --normalise." in run(line, expected=1).stderr
    n_changed = int((np.abs(p.round(2).sum(axis=1) - 1) > 1e-6).sum())
    result = run(f"{line} --normalise")
    said = f"Note: {n_changed} rows were divided by their sums, which differed from one by at most 0.01."
    assert result.stderr.count(said) == 1


def test_percentages_are_recognised(run, folder):
    p, y = probabilities(120, 0)
    write_scores(folder / "a.csv", [f"p_{name}" for name in CLASSES], 100 * p, np.array(CLASSES)[y])
    result = run("evaluate a.csv --space probabilities", expected=1)
    assert "column 'p_cat' is" in result.stderr
    assert result.stderr.endswith("; if they are in percent, divide them by 100.\n")


def test_logits_cannot_be_normalised(run, folder, logits):
    write_scores(folder / "a.csv", CLASSES, *logits)
    result = run("evaluate a.csv --space logits --normalise", expected=1)
    assert result.stderr == "Error: rows of logits do not sum to one; --normalise is for probabilities.\n"


# The positive class


def test_the_positive_class_can_be_named(run, folder):
    """The score is that of 'bad', the first in sorted order: named so, the accuracy is the other way round."""
    p, y = probabilities(120, 0)
    labels = np.array(["good", "bad"])[(y == 0).astype(int)]
    write_scores(folder / "a.csv", ["score"], p[:, :1], labels)
    line = "a.csv --space probabilities --label y --columns score"
    found = run(f"evaluate {line} --metrics accuracy --no-tests --format json")
    assert "Note: column 'score' is read as the score of 'good'" in found.stderr
    assert "give --positive if it is the other one" in found.stderr
    assert "the positive class may be the other one, see --positive." in found.stderr
    wrong = json.loads(found.stdout)["metrics"][0]["value"]
    found = run(f"evaluate {line} --metrics accuracy --no-tests --format json --positive bad")
    assert found.stderr == ""
    assert json.loads(found.stdout)["metrics"][0]["value"] == pytest.approx(1 - wrong)
    run(f"fit {line} --positive bad --method platt -o cal.npz")
    run("apply a.csv --calibrator cal.npz -o out.csv")
    calibrator = load(folder / "cal.npz")
    assert calibrator.classes_.tolist() == ["good", "bad"]
    new = np.array([float(row.split(",")[1]) for row in (folder / "out.csv").read_text().splitlines()[1:]])
    assert_allclose(new, calibrator.predict_proba(p[:, 0])[:, 1], rtol=1e-12)
    assert run(f"compare {line} --positive bad --methods platt").stderr == ""
    run(f"report {line} --positive bad --methods platt -o out.html")


def test_a_positive_class_needs_a_single_column(run):
    result = run(f"evaluate val.csv {COLUMNS} --positive cat", expected=1)
    assert (
        "--positive is for one score column, but val.csv has 3, 'p_cat', 'p_dog' and 'p_owl'" in result.stderr
    )


@pytest.mark.parametrize(
    "command",
    [
        "evaluate",
        "evaluate --stream",
        "fit -o out.npz",
        "report -o out.html",
        "compare --methods temperature",
    ],
)
def test_probabilities_declared_as_logits_are_refused_unless_the_user_insists(run, command):
    name, *rest = command.split()
    line = f"{name} val.csv --label animal --space logits --columns p_* {' '.join(rest)}"
    if name in ("fit", "report"):
        line += " --method temperature" if name == "fit" else " --methods temperature"
    result = run(line, expected=1)
    assert result.stderr == (
        "Error: val.csv: these look like probabilities, all between 0 and 1 with rows that sum to 1; say --space "
        "probabilities, or add --as-declared if they are logits.\n"
    )
    run(f"{line} --as-declared")


def test_log_odds_between_zero_and_one_are_noted(run, folder):
    p, y = probabilities(120, 0)
    write_scores(folder / "a.csv", ["score"], p[:, :1], (y == 0).astype(int))
    found = run("evaluate a.csv --space logits --metrics log_loss --no-tests")
    assert (
        "Note: all log-odds are between 0 and 1, like probabilities; say --space probabilities"
        in found.stderr
    )
    line = "evaluate a.csv --label y --columns score --space probabilities --metrics log_loss --no-tests"
    assert run(line).stderr == ""


def test_labels_one_column_further_are_noted(run, folder):
    """Labels 1, 2, 3 without 3, for columns p0, p1, p2."""
    p, y = probabilities(120, 0)
    write_scores(folder / "a.csv", ["p0", "p1", "p2"], p[y < 2], y[y < 2] + 1)
    found = run("evaluate a.csv --label y --columns p* --space probabilities --metrics accuracy --no-tests")
    assert found.stderr == (
        "Note: labels are taken as column numbers 0..2, but agree with the predicted classes far better as 1..3; if they "
        "are, name the columns [1, ..., 3].\n"
    )
