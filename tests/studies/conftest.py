"""Puts the helpers of this folder on the path of the tests in its subfolders."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
