"""Shared set-up of all tests: reproducible Hypothesis runs, and helpers on the path."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

sys.path.insert(0, str(Path(__file__).parent))

# How fast examples are made says something of the machine, and nothing of the library.
settings.register_profile(
    "calibrant",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("calibrant")
