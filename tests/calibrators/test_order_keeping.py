"""The order of every row, kept to the last bit whatever rounding does."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.stats import rankdata

from calibrant import Predictions
from calibrant.calibrator import Traits
from calibrant.calibrators.monotone.order_preserving import OrderKeeping
from calibrant.graph.curves import Piecewise
from strategies import probability_matrices


class Squashing(OrderKeeping):
    """An increasing map that rounds nearly everything to the same few numbers."""

    traits = Traits(keeps_argmax=True, shares_parameters=True)

    def _fit(self, data):  # noqa: ARG002 (nothing is learnt)
        self.levels_ = 4.0

    def _increasing(self, given):
        """Steps of a quarter between -1 and 1."""
        edges = np.arctanh((np.arange(-4, 4) + 0.5) / self.levels_)
        steps = Piecewise.steps(edges, np.arange(-4, 5) / self.levels_)
        return given.logits.widened.then(steps).narrowed()


def fitted(n_classes):
    p = np.eye(n_classes) * 0.5 + 0.5 / n_classes
    return Squashing().fit(p, np.arange(n_classes))


def ranks(values):
    return np.array([rankdata(row, "dense") for row in values])


@given(probabilities=probability_matrices())
def test_probabilities_keep_order_and_ties(probabilities):
    calibrator = fitted(probabilities.shape[1])
    np.testing.assert_array_equal(ranks(calibrator.predict_proba(probabilities)), ranks(probabilities))
    np.testing.assert_array_equal(ranks(calibrator.transform(probabilities).scores), ranks(probabilities))


@given(
    logits=hnp.arrays(
        np.float32, st.tuples(st.integers(1, 4), st.integers(2, 6)), elements=st.floats(-300, 300, width=32)
    )
)
def test_logits_keep_order_and_ties_even_where_the_softmax_is_zero(logits):
    calibrated = fitted(logits.shape[1]).predict_proba(Predictions.from_logits(logits))
    assert calibrated.dtype == np.float32
    np.testing.assert_array_equal(ranks(calibrated), ranks(logits))
    np.testing.assert_allclose(calibrated.sum(axis=1), 1, atol=1e-5)
