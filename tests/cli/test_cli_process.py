"""The command line as a process: pipes, signals, terminals, and libraries that are not there."""

# ruff: noqa: F811 (fixtures are imported, since a second file of fixtures would confuse the doctests)

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
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
from calibrant.tables.formats import csv as csv_sink
write = csv_sink.CsvSink.write
def slow(self, batch, scores):
    write(self, batch, scores)
    print("writing", file=sys.stderr, flush=True)
    time.sleep(30)
csv_sink.CsvSink.write = slow
from calibrant.cli.main import main
main(sys.argv[1:])
"""


@contextmanager
def signal_handled(number: int):
    before = signal.signal(number, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("number", "code", "remains"),
    [(signal.SIGINT, 130, 0), (signal.SIGTERM, 143, 0), (signal.SIGHUP, 129, 0), (signal.SIGKILL, -9, 1)],
)
def test_a_signal_while_writing_leaves_the_old_file(folder, run, number, code, remains):
    """Only a process that is killed cannot remove its temporary file; the old file is whole all the same."""
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    (folder / "out.csv").write_text("old")
    command = [sys.executable, "-c", SLOW, "apply", "test.csv", "--calibrator", "cal.npz", "-o", "out.csv"]
    with signal_handled(signal.SIGHUP):  # which nohup has ignored, and a child would inherit
        process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == "writing\n"
    process.send_signal(number)
    assert process.wait(20) == code
    rest = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in rest
    assert (folder / "out.csv").read_text() == "old"
    assert len(list(folder.glob(".calibrant-*"))) == remains
    if remains:  # until somebody writes in that folder again
        ended("apply test.csv --calibrator cal.npz -o other.csv", folder)
        assert not list(folder.glob(".calibrant-*"))


def test_a_process_that_ignores_hanging_up_goes_on(folder, run):
    """As nohup starts it."""
    run(f"fit val.csv {COLUMNS} --method temperature -o cal.npz")
    ignored = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    command = [sys.executable, "-c", ignored + SLOW.replace("sleep(30)", "sleep(1)")]
    command += ["apply", "test.csv", "--calibrator", "cal.npz", "-o", "out.csv"]
    process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == "writing\n"
    process.send_signal(signal.SIGHUP)
    process.stderr.read()
    process.stderr.close()
    assert process.wait(20) == 0
    assert (folder / "out.csv").exists()


# Streams that are closed, or that nobody reads


def in_a_shell(line: str, folder) -> subprocess.CompletedProcess:
    return subprocess.run(
        line.replace("calibrant", f"{sys.executable} -m calibrant"),
        cwd=folder,
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        check=False,
    )


EVALUATE = f"calibrant evaluate val.csv {COLUMNS} --metrics log_loss --no-tests"


@pytest.mark.parametrize(
    "line",
    [
        f"{EVALUATE} >&-",
        f"{EVALUATE} 2>&-",
        f"{EVALUATE} <&- >&- 2>&-",
        "calibrant --help >&-",
        "calibrant --version >&- 2>&-",
        f"calibrant fit val.csv {COLUMNS} --method temperature -o cal.npz >&- && test -s cal.npz",
    ],
)
def test_closed_streams_are_no_error(line, folder):
    result = in_a_shell(line, folder)
    assert (result.returncode, result.stderr) == (0, "")


def test_an_error_with_closed_streams_keeps_its_code(folder):
    assert in_a_shell("calibrant evaluate none.csv --space logits >&- 2>&-", folder).returncode == 1


def test_a_file_never_takes_the_place_of_a_closed_stream(folder):
    """Otherwise what is printed would be in the middle of the file that is written."""
    line = f"{EVALUATE} --format json"
    in_a_shell(f"{line} -o expected.json", folder)
    in_a_shell(f"{line} -o found.json >&- 2>&- <&-", folder)
    assert (folder / "found.json").read_bytes() == (folder / "expected.json").read_bytes()


@pytest.mark.parametrize(
    "line", [EVALUATE, "calibrant --help", "calibrant evaluate none.csv --space logits 2>&1"]
)
def test_a_reader_that_is_gone(line, folder):
    result = in_a_shell(f"( sleep 0.1; {line}; echo $? >&2 ) 2>code | true; cat code", folder)
    said = (folder / "code").read_text()
    assert said == "141\n", said
    assert result.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
@pytest.mark.parametrize("line", [EVALUATE, "calibrant --help"])
def test_no_room_for_the_output_is_one_sentence(line, folder):
    result = in_a_shell(f"{line} >/dev/full", folder)
    assert result.returncode == 1
    assert (
        result.stderr
        == "Error: standard output: no space left on device; free some space, or choose another place.\n"
    )


# Names that would steer a terminal


HOSTILE = "\x1b[31mcat\x07\x9b2J\u202e"
SHOWN = r"\x1b[31mcat\x07\x9b2J\u202e"


@pytest.mark.parametrize(
    "line",
    [
        "fit hostile.npz --space probabilities --label y --columns p --method vector -o {name}.npz",
        "evaluate hostile.npz --space probabilities --label y --columns p --metrics log_loss --no-tests",
        "evaluate hostile.npz --space probabilities --label y --columns p --metrics log_loss --no-tests --format json",
        "evaluate hostile.npz --space probabilities --label y --columns p --metrics log_loss --format markdown",
        "evaluate hostile.npz --space probabilities --label {name} --columns p",
        "evaluate {name}.csv --space probabilities",
        "frobnicate{name}",
        "evaluate hostile.npz --space {name}",
    ],
)
def test_control_characters_of_names_never_reach_a_terminal(folder, line):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(3), 60)
    classes = np.array([HOSTILE, "dog", "owl"])
    np.savez(folder / "hostile.npz", p=p, classes=classes, y=classes[np.arange(60) % 3])
    words = [word.replace("{name}", HOSTILE) for word in line.split()]
    result = subprocess.run([*COMMAND, *words], cwd=folder, capture_output=True, text=True, check=False)
    printed = result.stdout + result.stderr
    assert not set(printed) & set("\x1b\x07\x9b\u202e")
    assert "x1b" in printed or "u001b" in printed
    assert "internal error" not in printed


def test_a_program_gets_names_as_they_are(folder):
    """In CSV on a pipe; a terminal gets them made visible."""
    (folder / "names.csv").write_text("y,p_a\x1bb,p_c\n" + "a\x1bb,0.9,0.1\nc,0.2,0.8\n" * 20)
    line = "compare names.csv --space probabilities --methods temperature --format csv"
    assert ended(line, folder).returncode == 0


# What is typed wrongly


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("evalute", "unknown command 'evalute'; did you mean evaluate?"),
        ("Report", "unknown command 'Report'; did you mean report?"),
        ("bench stauts", "unknown command 'stauts'; did you mean status?"),
        ("xyz", "unknown command 'xyz'; available: evaluate, fit, "),
    ],
)
def test_the_nearest_command_is_suggested(folder, line, said):
    result = ended(line, folder)
    assert result.returncode == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "--help",
        "evalute",
        "",
        "fit --help",
        "evaluate --spce logits",
        "bench status -h",
        "evaluate none.csv --space logits",
        "apply none.csv --calibrator none.npz -o out.csv",
        "verify none.json --against none.npz",
        "compare none.csv --space logits",
    ],
)
def test_what_needs_no_numbers_imports_no_library_of_numbers(line):
    """Each of them takes a second or more to import; a wall clock would depend on the machine."""
    program = (
        "import sys\nfrom calibrant.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n"
        "    print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *line.split()], capture_output=True, text=True, check=False
    )
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "click" in loaded
    assert not loaded & {"numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib", "joblib"}


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_a_missing_library_is_named_with_its_extra(folder, missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from calibrant.cli.main import main; main(['methods'])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert result.stderr == (
        f"Error: {missing} is required but not installed; run: pip install 'calibrant[cli]'.\n"
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
    assert "pyarrow is required but not installed; run: pip install 'calibrant[cli]'." in result.stderr


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
    seen = seen_in_a_terminal(f"evaluate long.csv {COLUMNS} --metrics brier_score --resamples 100000", folder)
    assert "brier_score" in seen
    assert "━" in seen
    assert "\x1b[1mlong.csv" in seen
