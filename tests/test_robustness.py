"""Damaged files and bad input: the same result or a clear error, here for a few and on the page for many."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from calibrant import registry
from calibrant.errors import PredictionError

pytest.importorskip("pyarrow")
pytest.importorskip("click")

ROOT = Path(__file__).parents[1]
HARMLESS = ["same result", "clear error", "other numbers"]
HARM = ["wrong", "internal error", "crashed", "hung"]


def rows(text):
    """The cells of the lines of the table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    start = next(number for number, line in enumerate(lines) if line.startswith("| format | files |"))
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:]]
    header, body = cells[0], cells[2:]
    assert header == ["format", "files", *HARMLESS, *HARM]
    return [
        dict(zip(header, line, strict=False)) for line in body[: 1 + [line[0] for line in body].index("all")]
    ]


def test_the_page_reports_no_harm():
    found = rows((ROOT / "docs" / "robustness.md").read_text(encoding="utf-8"))
    assert len(found) == 19
    for row in found:
        numbers = {name: int(row[name]) for name in (*HARMLESS, *HARM)}
        assert sum(numbers.values()) == int(row["files"].split()[0])
        assert not any(numbers[name] for name in HARM)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of processes differ")
def test_a_few_damaged_files_and_all_hostile_ones_do_no_harm():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "damaged_files.py"), "4"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-500:]
    for row in rows(done.stdout):
        assert not any(int(row[name]) for name in HARM), row


def input_rows(text):
    """The cells of the table of bad input: argument, kind, and the four counts."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    start = next(number for number, line in enumerate(lines) if line.startswith("| argument | kind |"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 1 :]]


def test_the_page_counts_no_wrong_result_of_bad_input():
    found = input_rows((ROOT / "docs" / "robustness.md").read_text(encoding="utf-8"))
    found = found[: 1 + [row[0] for row in found].index("all")]
    assert len(found) > 100
    n_methods = len(registry.calibrators())
    for row in found[:-1]:
        right, refused, wrong, internal = map(int, row[2:])
        assert right + refused == n_methods, row
        assert wrong == internal == 0
    assert found[-1][1] == f"{len(found) - 1} kinds"


def bad_input(*names):
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "bad_input.py"), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr[-500:]
    for row in input_rows(done.stdout):
        assert row[4:] == ["0", "0"], (row, done.stderr[-500:])


def test_bad_input_to_a_few_methods():
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    bad_input("temperature", "dirichlet-odir", "isotonic", "spline-top-label")


def explore(*arguments):
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "explore.py"), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stderr == ""
    return done


def test_exploring_finds_nothing_in_a_few_trials_and_writes_no_file(tmp_path):
    path = tmp_path / "found.jsonl"
    done = explore("--methods", "temperature,vector,isotonic", "--seed", 1, "--trials", 25, "--file", path)
    assert done.stdout.startswith("seed 1: 25 trials, 0 broken promises, 0 refusals of valid rows"), (
        done.stdout
    )
    assert done.returncode == 0
    assert not path.exists()


def test_what_exploring_found_is_run_again(tmp_path):
    """The loss of a temperature on huge logits is compared without the floor, which would hide what was gained."""
    path = tmp_path / "found.jsonl"
    trial = {
        "method": "temperature",
        "promise": "loss not above the identity",
        "seed": 2631749887,
        "found": "?",
    }
    path.write_text(json.dumps(trial) + "\n", encoding="utf-8")
    done = explore("--replay", path)
    assert done.stdout == "temperature, loss not above the identity, seed 2631749887: holds\n"
    assert done.returncode == 0


def test_a_broken_promise_and_a_refusal_are_found(monkeypatch):
    """Stand-ins for a method whose refit differs, and for one that refuses valid rows."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import explore as module

    def counted(*_):
        return module.difference(np.array([0.5]), np.array([0.6]))

    def refused(*_):
        raise PredictionError("these rows are refused; there is nothing wrong with them.")

    for promise, kind in ((counted, module.BROKEN), (refused, module.REFUSED)):
        monkeypatch.setitem(module.PROMISES, "gives probabilities", promise)
        wrong = module.found("temperature", "gives probabilities", 3)
        assert module.kind_of(wrong) == kind, wrong


@pytest.mark.slow
def test_bad_input_to_all_methods():
    bad_input()
