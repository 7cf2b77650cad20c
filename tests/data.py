"""Real classifier outputs for tests, from one configurable folder."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

DATA_FOLDER = Path(os.environ.get("CALIBRANT_DATA", Path(__file__).parents[2] / "shared" / "data"))


def load(name: str) -> dict[str, NDArray]:
    """Return the arrays of ``name`` (for example ``kull_nn/c10_resnet110``), or skip the test."""
    path = DATA_FOLDER / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"data file {name}.npz is not in {DATA_FOLDER}; set CALIBRANT_DATA to its folder")
    with np.load(path, allow_pickle=False) as file:
        return {key: file[key] for key in file.files}
