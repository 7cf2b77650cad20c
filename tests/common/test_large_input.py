"""Every calibrator on many rows: sums over blocks and threads."""

import numpy as np
import pytest
from methods import NAMES, REFITTED, ROUNDING, assert_on_simplex, fitted, n_classes_of, problem, settled

COPIES = 600  # of the small problem: close to 200 000 rows

# Parameters that count rows, of structured scaling.
IN_ROWS = {"strength", "slope_penalty", "difference_penalty", "mixing"}


# Searches over many rows that take seconds each; the slow tests have them.
LONG = {"gp", "gp-monotone", "iop-invariant"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in NAMES]
)
def test_two_hundred_thousand_rows(name):
    """The small problem repeated: predictions of the whole are those of its parts.

    Where an objective is minimised it is a mean plus a fixed penalty, so copies of all rows change neither
    the function nor its minimum. A penalty that counts in rows is made as many times larger.
    """
    X, y = problem(n_classes_of(name))
    many, labels = np.tile(X, (COPIES, 1)), np.tile(y, COPIES)
    calibrator = settled(name)
    in_rows = {key: COPIES * value for key, value in calibrator.get_params().items() if key in IN_ROWS}
    calibrator.set_params(**in_rows).fit(many, labels)
    if hasattr(calibrator, "solution_"):
        expected = fitted(name, n_classes_of(name)).predict_proba(X)
        np.testing.assert_allclose(calibrator.predict_proba(X), expected, rtol=0, atol=REFITTED)
    calibrated = calibrator.predict_proba(many)
    assert_on_simplex(calibrated, many.shape)
    np.testing.assert_allclose(calibrated[-len(X) :], calibrator.predict_proba(X), rtol=0, atol=ROUNDING)
