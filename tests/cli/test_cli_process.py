"""The command line as a process: pipes, signals, terminals, and libraries that are not there."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import os
import signal
import subprocess
import sys
import time

import pytest
from animal_files import COLUMNS, csv_text, folder, run  # noqa: F401

pty = pytest.importorskip("pty")  # not on every system

COMMAND = [sys.executable, "-m", "calibrant"]


def started(line: str, folder, **options) -> subprocess.Popen:
    return subprocess.Popen([*COMMAND, *line.split()], cwd=folder, **options)


def ended(line: str, folder) -> subprocess.CompletedProcess:
    return subprocess.run([*COMMAND, *line.split()], cwd=folder, capture_output=True, text=True, check=False)


def test_a_pipe_gets_the_result_alone(folder):
    result = ended(f"evaluate val.csv {COLUMNS} --metrics log_loss --format json", folder)
    assert result.returncode == 0
    assert result.stderr == ""
    assert result.stdout.startswith("{\n")
    assert "\x1b" not in result.stdout


def test_a_user_error_is_one_line_and_a_code(folder):
    result = ended("evaluate none.csv --space logits", folder)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", "Error: none.csv: no such file.\n")


def test_a_reader_that_stops_reading_ends_it_quietly(folder):
    process = started("methods", folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


SLOW = """
import sys, time
from calibrant.tables import csv_sink
write = csv_sink.CsvSink.write
def slow(self, batch, scores):
    write(self, batch, scores)
    print("writing", file=sys.stderr, flush=True)
    time.sleep(30)
csv_sink.CsvSink.write = slow
from calibrant.cli.main import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("number", "code", "remains"),
    [(signal.SIGINT, 130, 0), (signal.SIGTERM, 143, 0), (signal.SIGKILL, -9, 1)],
)
def test_a_signal_while_writing_leaves_the_old_file(folder, run, number, code, remains):
    """Only a process that is killed cannot remove its temporary file; the old file is whole all the same."""
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    (folder / "out.csv").write_text("old")
    command = [sys.executable, "-c", SLOW, "apply", "test.csv", "--calibrator", "cal.npz", "-o", "out.csv"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == "writing\n"
    process.send_signal(number)
    assert process.wait(20) == code
    rest = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in rest
    assert (folder / "out.csv").read_text() == "old"
    assert len(list(folder.glob(".calibrant-*"))) == remains


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_missing_library_is_named_with_its_extra(folder, missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from calibrant.cli.main import main; main(['methods'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == (
        f"Error: {missing} is needed here and not installed; run: pip install 'calibrant[cli]'.\n"
    )


def test_csv_needs_no_pyarrow_and_parquet_says_so(folder):
    code = (
        "import sys; sys.modules['pyarrow'] = None; from calibrant.cli.main import main; main(sys.argv[1:])"
    )
    line = ["evaluate", "val.csv", *COLUMNS.split(), "--metrics", "log_loss"]
    result = subprocess.run(
        [sys.executable, "-c", code, *line], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    (folder / "a.parquet").write_bytes(b"PAR1")
    line = ["evaluate", "a.parquet", "--space", "logits"]
    result = subprocess.run(
        [sys.executable, "-c", code, *line], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2
    assert "pyarrow is needed here and not installed; run: pip install 'calibrant[cli]'." in result.stderr


def seen_in_a_terminal(line: str, folder, seconds: float = 120) -> str:
    """Return all that a terminal of 80 columns would get."""
    main, other = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [*COMMAND, *line.split()], cwd=folder, stdin=other, stdout=other, stderr=other, env=environment
    )
    os.close(other)
    seen, until = b"", time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            piece = os.read(main, 4096)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    assert process.wait(10) == 0
    return seen.decode()


def test_a_terminal_gets_a_bar_for_what_takes_long(folder):
    (folder / "long.csv").write_text(csv_text(3000, 0))
    seen = seen_in_a_terminal(f"evaluate long.csv {COLUMNS} --metrics smooth_ece --resamples 4000", folder)
    assert "smooth_ece" in seen
    assert "━" in seen
    assert "\x1b[1mlong.csv" in seen
