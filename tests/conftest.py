"""Shared set-up of all tests: reproducible Hypothesis runs (or random ones on request), and helpers on the path."""

import atexit
import gc
import os
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

settings.register_profile("calibrant", deadline=None, derandomize=True, max_examples=40)
# With new random examples in every run, and more of them; those that fail are printed and kept in .hypothesis.
settings.register_profile("explore", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "calibrant"))

# They hold no examples, and are all called the same, which a search for examples takes for a mistake.
collect_ignore_glob = ["*conftest.py"]


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """Look for examples in docstrings in the package only; test files have none."""
    found = yield
    return [each for each in found if type(each).__name__ != "DoctestModule"]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collections: tests stay until the end, and each search through them takes time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
        atexit.register(gc.unfreeze)  # so that the interpreter can free them at its end
