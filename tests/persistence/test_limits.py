"""The limit on processor time leaves no trace in the thread that it watched."""

import subprocess
import sys
from pathlib import Path

import pytest

from calibrant.persistence import limits
from calibrant.persistence.limits import TimeIsUpError, watched

# The module alone, since the package takes a second to import.
PROGRAM = """
import runpy, sys
watched = runpy.run_path(sys.argv[1])["watched"]
with watched(60):
    pass
print(sum(range(10)))
"""


def test_code_under_a_profiler_goes_on():
    """An error that is cancelled without having been sent makes Python 3.11 look for it at every call, for ever."""
    command = [sys.executable, "-c", f"import cProfile; cProfile.run({PROGRAM!r})", limits.__file__]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.startswith("45\n")
    assert Path(limits.__file__).name in result.stdout


def run_for_ever():
    while True:
        pass


def test_code_that_takes_too_long_is_interrupted():
    with pytest.raises(TimeIsUpError), watched(0.05):
        run_for_ever()
