"""Every fitted calibrator goes through skops and comes back the same, with the documented list of trusted types."""

import numpy as np
import pytest
from methods import NAMES, TOYS, fitted, n_classes_of, problem

from calibrant.persistence import trusted_types
from calibrant.persistence.writing import Encoder


@pytest.fixture(scope="module")
def skops():
    """Imported by the tests alone: skops loads all of scikit-learn, which every collection would pay for."""
    return pytest.importorskip("skops.io", reason="skops is not installed; pip install 'calibrant[skops]'")


@pytest.mark.parametrize("name", [name for name in NAMES if name not in TOYS])
def test_a_calibrator_that_skops_stored_is_the_same(name, skops):
    """Parameters and state are equal to the type and bit, as the files of calibrant see them."""
    calibrator = fitted(name, n_classes_of(name))
    loaded = skops.loads(skops.dumps(calibrator), trusted=trusted_types())
    before, after = Encoder(), Encoder()
    assert before.calibrator(calibrator) == after.calibrator(loaded)
    for old, new in zip(before.arrays, after.arrays, strict=True):
        assert old.dtype == new.dtype
        np.testing.assert_array_equal(old, new)
    X, _ = problem(n_classes_of(name))
    np.testing.assert_array_equal(loaded.predict_proba(X), calibrator.predict_proba(X))


def test_without_the_list_nothing_is_loaded(skops):
    with pytest.raises(Exception, match=r"Untrusted types.*TemperatureScaling"):
        skops.loads(skops.dumps(fitted("temperature", 3)), trusted=[])
