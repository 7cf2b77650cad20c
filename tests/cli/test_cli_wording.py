"""What the command line says: in its own words, with numbers and names that can be read."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import json
from pathlib import Path

import numpy as np
import pytest
from animal_files import COLUMNS, folder, probabilities, run  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

import calibrant
from calibrant import remedies
from calibrant.cli.commands.evaluate import sections_of
from calibrant.cli.exit_codes import explained
from calibrant.cli.measurement import TestRow
from calibrant.remedies import REMEDIES, Remedy, for_command_line

SOURCES = Path(calibrant.__file__).parent


def test_every_remedy_is_part_of_a_message():
    names = [name for name, value in vars(remedies).items() if isinstance(value, Remedy)]
    texts = [path.read_text(encoding="utf-8") for path in SOURCES.rglob("*.py") if path.name != "remedies.py"]
    assert [
        name for name in names if not any(f"{{{name}}}" in text or f"({name})" in text for text in texts)
    ] == []
    assert len(names) == len(REMEDIES)


def test_words_are_replaced_once_and_across_lines():
    assert for_command_line("choose the columns, or choose the\n columns") == (
        "choose the columns with --columns, or choose the columns with --columns"
    )
    assert for_command_line("rough; use consistency_test.") == "rough."


def test_errors_and_cautions_have_no_names_of_python(run, folder):
    (folder / "one.csv").write_text("animal,p_cat,p_dog\ncat,0.9,0.1\n")
    result = run(f"compare one.csv {COLUMNS}", expected=1)
    assert (
        result.stderr
        == "Error: cross-validation needs at least 2 rows; give more rows, or a test set with --test.\n"
    )
    (folder / "few.csv").write_text("animal,p_cat,p_dog\ncat,1,0\ndog,0,1\ncat,0,1\n")
    result = run(f"evaluate few.csv {COLUMNS}")
    for name in ("_test", "Predictions", "floor="):
        assert name not in result.output.replace("log_loss:floor=1e-6", "")
    result = run("apply val.csv --calibrator val.csv -o out.csv", expected=1)
    assert "'calibrant fit' saved" in result.stderr


def test_one_row_has_no_interval(run, folder):
    (folder / "one.csv").write_text("animal,p_cat,p_dog\ncat,0.9,0.1\n")
    content = json.loads(run(f"evaluate one.csv {COLUMNS} --format json").stdout)
    assert [(one["low"], one["high"]) for one in content["metrics"]] == [(None, None)] * 7
    assert content["metrics"][0]["value"] == pytest.approx(-np.log(0.9))
    assert " to " not in run(f"evaluate one.csv {COLUMNS} --no-tests").stdout


def test_all_rows_are_a_hundred_per_cent(run, folder):
    """All scores are for dog, and four in five of any score are cats: every predicted class changes."""
    scores = [0.1, 0.2, 0.15, 0.3, 0.05] * 10
    rows = [f"{'cat' if number // 5 % 5 else 'dog'},{p},{1 - p}" for number, p in enumerate(scores)]
    (folder / "a.csv").write_text("\n".join(["animal,p_cat,p_dog", *rows]) + "\n")
    text = " ".join(run(f"fit a.csv {COLUMNS} --method vector -o cal.npz").stdout.split())
    assert "The predicted class changes in 100.0 % of the rows." in text


def test_long_names_are_shortened_in_the_terminal_only(run, folder):
    p, y = probabilities(120, 0)
    names = [letter * 300 for letter in "abc"]
    rows = [f"{names[label]},{','.join(map(repr, row))}" for label, row in zip(y, p.tolist(), strict=True)]
    (folder / "a.csv").write_text("\n".join([",".join(["y", *names]), *rows]) + "\n")
    for line in (
        "evaluate a.csv --space probabilities --metrics accuracy",
        "fit a.csv --space probabilities --method vector -o cal.npz",
    ):
        result = run(line)
        assert "aaaa" in result.stdout
        assert "a" * 60 not in result.output
        assert "…" in result.output
        assert json.loads(run(f"{line} --format json").stdout)["classes"] == names
    (folder / "b.csv").write_text(
        (folder / "a.csv").read_text().replace(f"\n{'a' * 300}", f"\n{'z' * 300}", 1)
    )
    assert "z" * 60 not in run("evaluate b.csv --space probabilities", expected=1).stderr


def test_definitions_are_told_if_asked_for_and_the_verdict_comes_last(run):
    text = run(f"evaluate val.csv {COLUMNS} --metrics log_loss").stdout
    assert "Definitions" not in text
    assert text.splitlines()[-1].endswith("calibration at the 5 % level.")
    text = run(f"evaluate val.csv {COLUMNS} --metrics log_loss --definitions").stdout
    assert "Definitions: log_loss(floor=0.0)." in text
    assert text.splitlines()[-1].endswith("calibration at the 5 % level.")
    content = json.loads(run(f"evaluate val.csv {COLUMNS} --metrics log_loss --format json").stdout)
    assert content["metrics"][0]["definition"] == "log_loss(floor=0.0)"


@given(st.floats(1e-200, 1.0) | st.floats(0.0499, 0.0501))
def test_a_p_value_is_shown_on_its_side_of_the_level(p_value):
    shown = float(sections_of([], [TestRow("t", 0.0, None, None, p_value, "", "", 1)], 0.95)[0].rows[0][-1])
    assert (shown <= 0.05) == (p_value <= 0.05)


def test_a_folder_that_takes_no_new_files_is_said_to_be_one(tmp_path):
    error = FileNotFoundError(2, "No such file or directory", str(tmp_path / "out.csv"))
    assert explained(error)[1] == f"cannot write in {tmp_path}: this folder is not writable."


def test_formats_on_offer_are_those_that_can_be_written():
    from calibrant.cli.options import FORMAT_NAMES
    from calibrant.cli.rendering import FORMATS

    assert set(FORMAT_NAMES) == set(FORMATS)
