"""Shared set-up of all tests: reproducible Hypothesis runs, and helpers on the path."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

settings.register_profile("calibrant", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("calibrant")

# They hold no examples, and are all called the same, which a search for examples takes for a mistake.
collect_ignore_glob = ["*conftest.py"]
