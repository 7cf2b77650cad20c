"""Thresholds for rounded numbers, and the same for numbers as they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.numerics.rounding import rounded_to, with_bits

BITS = 12


@pytest.mark.parametrize("closed", ["left", "right"])
@given(
    threshold=st.just(0.0) | st.floats(1e-300, 1.0),
    number=st.just(0.0) | st.just(5e-324) | st.floats(0.0, 1.0),
    nudge=st.sampled_from([-1, 0, 1]),
)
def test_numbers_as_they_are_fall_on_the_side_of_their_rounded_ones(closed, threshold, number, nudge):
    """Zero is the smallest number, and is at least zero."""
    threshold = float(with_bits(np.array([threshold]), BITS)[0])
    (found,) = rounded_to(np.array([threshold]), BITS, closed)
    near = np.nextafter(found, nudge * np.inf) if nudge else found
    for each in (number, max(0.0, near)):
        rounded = float(with_bits(np.array([each]), BITS)[0])
        if closed == "left":
            assert (each >= found) == (rounded >= threshold)
        else:
            assert (each <= found) == (rounded <= threshold)
