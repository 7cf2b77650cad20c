"""Bad input from the command line: one sentence, an exit code, nothing written."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import os
from importlib import import_module

import numpy as np
import pytest
from animal_files import COLUMNS, csv_text, folder, run  # noqa: F401

GOOD = csv_text(30, 2)


def with_line(number: int, old: str, new: str) -> bytes:
    """Return the good file with a change on one line, counted from one."""
    lines = GOOD.splitlines()
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new)
    return ("\n".join(lines) + "\n").encode()


def first_score(number: int) -> str:
    return GOOD.splitlines()[number - 1].split(",")[2]


BROKEN = {
    "wrong label column": (GOOD.encode(), "--label animl --columns p_*", "did you mean 'animal'?"),
    "wrong pattern": (GOOD.encode(), "--label animal --columns q_*", "no column matches the pattern 'q_*'"),
    "wrong score column": (
        GOOD.encode(),
        "--label animal --columns p_cat,p_dgo,p_owl",
        "did you mean 'p_dog'?",
    ),
    "wrong weight column": (GOOD.encode(), "--label animal --columns p_* --weight v", "no weight column 'v'"),
    "mixed types": (with_line(8, first_score(8), "high"), "", "row 7 (line 8), column 'p_cat' is 'high'"),
    "missing score": (
        with_line(18, first_score(18), ""),
        "",
        "row 17 (line 18), column 'p_cat' has no value",
    ),
    "missing label": (with_line(4, ",owl,", ",,"), "", "row 3 (line 4), column 'animal' is empty"),
    "a label not among the columns": (
        GOOD.replace("cat", "emu", 3).replace("p_emu", "p_cat").encode(),
        "",
        "the label 'emu' in row",
    ),
    "probabilities that are none": (
        with_line(3, first_score(3), "7.5"),
        "",
        "row 2 (line 3), column 'p_cat' is 7.5",
    ),
    "a sum that is not one": (
        with_line(3, first_score(3), "1"),
        "",
        "the probabilities in row 2 (line 3) sum to",
    ),
    "empty": (b"", "", "is empty"),
    "a header only": (GOOD.splitlines()[0].encode(), "", "has a header but no rows"),
    "a row that is too short": (
        with_line(4, ",", ";"),
        "",
        "row 3 (line 4) has 1 cell, but the header has 8",
    ),
    "a name twice": (with_line(1, "p_dog", "p_cat"), "", "the header has 'p_cat' twice"),
    "not UTF-8": (GOOD.replace("cat", "c\xe4t").encode("latin-1"), "", "is not UTF-8"),
}


@pytest.mark.parametrize("command", ["evaluate", "fit", "compare", "report"])
@pytest.mark.parametrize("case", list(BROKEN))
def test_a_broken_csv_file_gives_one_sentence_and_nothing_else(run, folder, command, case):
    content, options, sentence = BROKEN[case]
    (folder / "bad.csv").write_bytes(content)
    before = sorted(path.name for path in folder.iterdir())
    options = options or "--label animal --columns p_*"
    output = "out.html" if command == "report" else "out.npz"
    result = run(f"{command} bad.csv --space probabilities {options} -o {output}", expected=1)
    assert result.stdout == ""
    assert result.stderr.startswith("Error: bad.csv")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in folder.iterdir()) == before


@pytest.mark.parametrize("option", ["", "--stream"])
@pytest.mark.parametrize("case", list(BROKEN))
def test_a_stream_finds_the_same_faults(run, folder, case, option):
    content, options, sentence = BROKEN[case]
    (folder / "bad.csv").write_bytes(content)
    options = options or "--label animal --columns p_*"
    result = run(f"evaluate bad.csv --space probabilities {options} --metrics log_loss {option}", expected=1)
    assert sentence in result.stderr


@pytest.mark.parametrize("ending", ["parquet", "feather", "npz", "csv.gz"])
def test_a_truncated_file_gives_one_sentence(run, folder, ending):
    path = folder / f"a.{ending}"
    if ending == "npz":
        np.savez(path, probs=np.full((50, 2), 0.5), y=np.arange(50) % 2)
    elif ending == "csv.gz":
        import gzip

        path.write_bytes(gzip.compress(GOOD.encode()))
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"y": [0, 1] * 25, "a": [0.5] * 50, "b": [0.5] * 50})
        writer = {"parquet": "pyarrow.parquet", "feather": "pyarrow.feather"}[ending]
        module = pytest.importorskip(writer)
        (module.write_table if ending == "parquet" else module.write_feather)(table, path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    options = COLUMNS if ending == "csv.gz" else "--space probabilities"
    result = run(f"evaluate a.{ending} {options}", expected=1)
    assert "not a complete" in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_not_there(run):
    result = run("evaluate nothing.csv --space probabilities", expected=1)
    assert result.stderr == "Error: nothing.csv: no such file.\n"
    result = run("apply val.csv --calibrator nothing.npz -o out.csv", expected=1)
    assert result.stderr == "Error: nothing.npz: no such file.\n"


@pytest.mark.parametrize("command", ["fit", "report", "evaluate"])
def test_an_output_that_cannot_be_written_is_refused_before_any_work(run, folder, command):
    (folder / "there.html").mkdir()
    result = run(f"{command} val.csv {COLUMNS} -o there.html", expected=1)
    assert "there.html is a folder" in result.stderr
    result = run(f"{command} val.csv {COLUMNS} -o no/such/folder.html", expected=1)
    assert "the folder 'such' does not exist" in result.stderr


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder in which nobody can write")
def test_a_folder_in_which_nobody_can_write(run):
    result = run(f"fit val.csv {COLUMNS} --method temperature -o /proc/cal.npz", expected=1)
    assert result.stderr.startswith("Error: cannot write in /proc: ")
    assert result.stderr.count("\n") == 1


def test_a_full_disk_leaves_the_old_file(run, folder, monkeypatch):
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    (folder / "out.csv").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")  # as writing to an open file says it

    monkeypatch.setattr(import_module("calibrant.tables.formats.csv").CsvSink, "write", full)
    result = run("apply test.csv --calibrator cal.npz -o out.csv", expected=1)
    assert (
        result.stderr
        == "Error: out.csv: no space left on device; free some space, or choose another place.\n"
    )
    assert (folder / "out.csv").read_text() == "old"
    assert not list(folder.glob(".calibrant-*"))


def test_a_file_that_is_no_calibrator(run, folder):
    result = run("apply test.csv --calibrator val.csv -o out.csv", expected=1)
    assert result.stderr.count("\n") == 1
    assert not (folder / "out.csv").exists()


def test_another_format_for_the_output_is_refused(run, folder):
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    result = run("apply test.csv --calibrator cal.npz -o out.parquet", expected=1)
    assert "the output must have the format of test.csv" in result.stderr


def test_a_wrong_method_metric_or_parameter_is_named_with_one_that_comes_close(run):
    line = f"val.csv {COLUMNS}"
    assert "did you mean 'temperature'?" in run(f"fit {line} --method temprature -o a.npz", expected=1).stderr
    assert "did you mean 'platt'?" in run(f"compare {line} --methods sigmoid", expected=1).stderr
    assert "did you mean 'log_loss'?" in run(f"evaluate {line} --metrics logloss", expected=1).stderr
    assert (
        "has no option 'bins'" in run(f"evaluate {line} --metrics confidence_ece:bins=3", expected=1).stderr
    )
    result = run(f"fit {line} --method temperature --set penalty=1 -o a.npz", expected=1)
    assert "temperature has no parameter penalty; it has bounds, loss" in result.stderr


def test_wrong_usage_has_a_code_of_its_own(run):
    result = run("evaluate val.csv --label animal --columns w", expected=2)
    assert result.stderr.endswith(
        "Error: say --space probabilities or --space logits; nothing in val.csv tells what its scores are, which are "
        "between 1 and 3.\n"
    )
    assert "No such option" in run(f"evaluate val.csv {COLUMNS} --nope", expected=2).stderr
    assert "unknown command 'frobnicate'; available: evaluate, fit" in run("frobnicate", expected=2).stderr
    run("", expected=2)
    assert "--space" in run("evaluate --help").stdout


def test_an_error_of_the_program_itself_has_a_code_of_its_own_and_a_traceback_only_if_asked(run, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("the impossible")

    monkeypatch.setattr("calibrant.cli.commands.evaluate.measured", broken)
    result = run(f"evaluate val.csv {COLUMNS}", expected=3)
    assert "Traceback" not in result.stderr
    assert "RuntimeError: the impossible; run again with --debug" in result.stderr
    assert "Traceback" in run(f"evaluate val.csv {COLUMNS} --debug", expected=3).stderr
    assert "Traceback" in run(f"--debug evaluate val.csv {COLUMNS}", expected=3).stderr


def test_warnings_of_the_library_are_notes_of_one_line(run, folder):
    lines = [line for line in csv_text(60, 0).splitlines() if ",owl," not in line]
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    result = run(f"fit a.csv {COLUMNS} --method temperature -o cal.npz")
    assert result.stderr.startswith("Note: no calibration row has class 'owl'; ")
    assert result.stderr.count("\n") == 1


def test_an_order_that_was_guessed_is_told(run, folder):
    (folder / "a.csv").write_text("y,score\nno,0.2\nyes,0.7\nno,0.6\nyes,0.9\n")
    result = run("evaluate a.csv --space probabilities --metrics brier_score --resamples 100")
    assert "Note: column 'score' is read as the score of 'yes'" in result.stderr
