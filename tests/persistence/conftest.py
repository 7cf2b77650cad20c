"""A saved calibrator for every test to spoil."""

import pytest
from crafted_archives import three_of_four


@pytest.fixture
def path(tmp_path):
    """A saved calibrator, ready to be spoilt."""
    path = tmp_path / "calibrator.npz"
    three_of_four().save(path)
    return path
