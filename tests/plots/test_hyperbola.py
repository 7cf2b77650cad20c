"""The curve a + b / n through the points of a learning curve."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.plots.learning_curve import Hyperbola

SIZES = np.array([100, 200, 400, 800])


@given(a=st.floats(0, 2), b=st.floats(0, 50))
def test_points_of_such_a_curve_give_it_back(a, b):
    fitted = Hyperbola.through(SIZES, a + b / SIZES)
    loss, error = fitted(3000)
    assert loss == pytest.approx(a + b / 3000, abs=1e-9)
    assert error == pytest.approx(0, abs=1e-7)


def test_weights_grow_with_the_rows():
    """With weights n, the residuals r satisfy sum n r = 0 and sum r = 0."""
    losses = np.array([0.9, 0.55, 0.5, 0.48])
    fitted = Hyperbola.through(SIZES, losses)
    assert fitted.is_supported
    residuals = losses - [fitted(size)[0] for size in SIZES]
    assert SIZES @ residuals == pytest.approx(0, abs=1e-9)
    assert residuals.sum() == pytest.approx(0, abs=1e-12)


def test_the_error_of_a_flat_curve_is_that_of_a_weighted_mean():
    """Losses that rise leave b = 0 and a their mean with weights n."""
    losses = np.array([0.1, 0.2, 0.3, 0.4])
    fitted = Hyperbola.through(SIZES, losses)
    mean = np.average(losses, weights=SIZES)
    assert fitted.slope == 0
    assert fitted.asymptote == pytest.approx(mean)
    spread = SIZES @ (losses - mean) ** 2 / 2
    assert fitted(10.0) == pytest.approx((mean, np.sqrt(spread / SIZES.sum())))


def test_sizes_far_below_the_largest_and_unknown_losses_say_nothing():
    sizes = np.array([10, *SIZES, 1600])
    fitted = Hyperbola.through(sizes, np.array([99.0, 99.0, 0.5, 0.4, np.inf, np.nan]))
    assert fitted(400)[0] < 99
    few = Hyperbola.through(np.array([10, 100, 200, 400]), np.array([99.0, 0.6, 0.55, 0.525]))
    assert few(400)[0] == pytest.approx(0.525)


@pytest.mark.parametrize("n_points", [0, 1, 2])
def test_fewer_than_three_points_have_no_error(n_points):
    fitted = Hyperbola.through(SIZES[:n_points], np.array([0.5, 0.4])[:n_points])
    assert fitted(1000)[1] == np.inf


@given(losses=st.lists(st.floats(0, 1e6) | st.just(np.inf), min_size=4, max_size=4))
def test_no_loss_is_ever_below_zero(losses):
    fitted = Hyperbola.through(SIZES, np.array(losses))
    assert not any(fitted(size)[0] < 0 for size in (100, 800, 10_000, 1e9))


def test_an_outlier_among_few_rows_does_not_bend_the_curve():
    """From 100 to 200 rows the law allows at most a half: the first point is not one of it."""
    fitted = Hyperbola.through(SIZES, np.array([40.0, 0.55, 0.525, 0.5125]))
    assert (fitted.asymptote, fitted.slope) == pytest.approx((0.5, 10.0))
    assert fitted.is_supported


@pytest.mark.parametrize(
    "losses",
    [[9.2, 0.3, 0.29, np.inf], [0.5, 0.4, 0.45, 0.41], [9.0, 3.0, 1.0, 0.3], [np.nan, np.nan, 0.5, 0.4]],
)
def test_points_that_follow_no_law_bear_no_extrapolation(losses):
    assert not Hyperbola.through(SIZES, np.array(losses)).is_supported
