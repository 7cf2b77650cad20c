"""Shared set-up of all tests: reproducible Hypothesis runs (or random ones on request), and helpers on the path."""

import os
import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

settings.register_profile("calibrant", deadline=None, derandomize=True, max_examples=40)
# With new random examples in every run, and more of them; those that fail are printed and kept in .hypothesis.
settings.register_profile("explore", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "calibrant"))

# They hold no examples, and are all called the same, which a search for examples takes for a mistake.
collect_ignore_glob = ["*conftest.py"]
