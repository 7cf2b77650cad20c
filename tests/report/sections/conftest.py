"""The helpers of all tests of the report, for those of its sections."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
