"""What Platt scaling and beta calibration share: never worse than doing nothing, and separated outcomes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logit

from calibrant import BetaCalibration, PlattScaling, Predictions
from calibrant.errors import ConvergenceWarning
from calibrant.metrics import log_loss
from strategies import labels_with_all_classes, logit_matrices

MAPS = [PlattScaling(), *(BetaCalibration(parameters) for parameters in ("abm", "am", "ab", "a"))]
every_map = pytest.mark.parametrize("calibrator", MAPS, ids=["platt", "abm", "am", "ab", "a"])


@every_map
@settings(max_examples=30)
@pytest.mark.filterwarnings("ignore::calibrant.errors.ConvergenceWarning")
@given(data=st.data())
def test_never_worse_than_the_identity_on_its_own_rows(calibrator, data):
    """Log-odds up to 1e4, ties and separated outcomes among them."""
    n_rows = data.draw(st.integers(3, 12))
    logits = Predictions.from_logits(data.draw(logit_matrices(n_rows, 2)))
    labels = data.draw(labels_with_all_classes(n_rows, 2))
    fitted = calibrator.fit(logits, labels)
    before, after = log_loss(labels, logits), log_loss(labels, fitted.transform(logits))
    assert after <= before * (1 + 1e-6) + 1e-9
    assert np.isfinite(np.log(fitted.predict_proba(logits))).all()


@every_map
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_separated_rows_and_wrong_fresh_ones_give_a_finite_loss(calibrator, dtype):
    """A handful of clean rows, then some that are certain and wrong, as sharp as their float type can be.

    Platt's targets are 4/5 and 1/5. The rows are symmetric, so that each family has its optimum among the multiples
    of the log-odds: there the products of residuals and log-odds sum to zero.
    """
    p = np.array([0.2, 0.3, 0.45, 0.55, 0.7, 0.8], dtype)
    with pytest.warns(ConvergenceWarning, match="separate the outcomes") as record:
        fitted = calibrator.fit(p, [0, 0, 0, 1, 1, 1])
    assert len(record) == 1
    residuals = fitted.predict_proba(p)[:, 1] - np.repeat([0.2, 0.8], 3)
    assert residuals @ logit(p) == pytest.approx(0.0, abs=1e-6)
    sharpest = np.finfo(dtype).tiny
    fresh = np.array([[1 - sharpest, sharpest], [sharpest, 1 - sharpest]], dtype)
    calibrated = fitted.predict_proba(fresh)
    assert calibrated.dtype == dtype
    assert calibrated.min() > 0
    assert np.isfinite(log_loss([1, 0], calibrated))


@every_map
def test_clean_confident_rows_stay_as_they_are_without_a_warning(calibrator):
    """All right at 99.9 %: smoothed targets would doubt that, the identity has the lower loss and is kept."""
    fitted = calibrator.fit([0.999] * 5 + [0.001] * 5, [1] * 5 + [0] * 5)
    assert fitted.solution_.status.name == "IDENTITY"
    np.testing.assert_allclose(fitted.predict_proba([0.9, 0.3])[:, 1], [0.9, 0.3], rtol=1e-14)
