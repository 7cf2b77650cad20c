"""Damaged and hostile files of every format: the same result or a clear error, here for a few and on the page for many."""

import subprocess
import sys
from pathlib import Path

import pytest

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
