"""ICI and its relatives: a naive local regression, closed forms, limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibrant.errors import ParameterError
from calibrant.metrics import integrated_calibration_index
from strategies import problems


def naive_curve(p, o, span):
    """Fit a weighted line around every point, with the nearest ``span`` of the rows by sorting distances."""
    fitted = []
    for at in p:
        distance = np.abs(p - at)
        width = np.sort(distance)[int(np.ceil(span * len(p) - 1e-9)) - 1]
        local = np.sqrt((1 - np.clip(distance / width, 0, 1) ** 3) ** 3)
        design = np.column_stack([np.ones(len(p)), p - at])
        fitted.append(np.linalg.lstsq(design * local[:, np.newaxis], o * local, rcond=None)[0][0])
    return np.clip(fitted, 0, 1)


@pytest.mark.parametrize("span", [0.3, 0.75])
def test_the_curve_is_a_local_line_at_every_point(span):
    """Up to 201 distinct scores nothing is interpolated."""
    generator = np.random.default_rng(0)
    p = np.sort(generator.random(150))
    o = (generator.random(150) < p**2).astype(int)
    differences = np.abs(naive_curve(p, o, span) - p)
    expected = {
        "mean": differences.mean(),
        "median": np.quantile(differences, 0.5, method="inverted_cdf"),
        "90%": np.quantile(differences, 0.9, method="inverted_cdf"),
        "max": differences.max(),
    }
    for summary, value in expected.items():
        found = integrated_calibration_index(o, p, kind="positive", summary=summary, span=span)
        assert found == pytest.approx(value, abs=1e-9)


def test_interpolation_between_quantiles_is_close():
    generator = np.random.default_rng(1)
    p = generator.random(3000)
    o = (generator.random(3000) < p**1.5).astype(int)
    expected = np.abs(naive_curve(p, o, 0.75) - p).mean()
    assert integrated_calibration_index(o, p, kind="positive") == pytest.approx(expected, rel=1e-3)


def test_many_rows_with_a_linear_error_give_its_mean():
    """The true curve is 0.2 + 0.6 p, which a local line reproduces: the mean of |0.2 - 0.4 p| is 0.1."""
    generator = np.random.default_rng(2)
    p = generator.random(200_000)
    o = (generator.random(200_000) < 0.2 + 0.6 * p).astype(int)
    assert integrated_calibration_index(o, p, kind="positive") == pytest.approx(0.1, abs=0.005)
    assert integrated_calibration_index(o, p, kind="positive", summary="max") == pytest.approx(0.2, abs=0.02)


@given(problem=problems(), summary=st.sampled_from(["mean", "median", "90%", "max"]))
def test_the_summaries_are_ordered_and_within_bounds(problem, summary):
    X, y = problem
    value = integrated_calibration_index(y, X, summary=summary)
    largest = integrated_calibration_index(y, X, summary="max")
    assert 0 <= value <= largest + 1e-12
    assert largest <= 1


def test_a_window_of_equal_scores_has_their_mean():
    """Three quarters of the rows share one score, so no window around it has a width."""
    p, o = np.array([0.5] * 8 + [0.9] * 2), np.array([1] * 6 + [0] * 2 + [1] * 2)
    found = integrated_calibration_index(o, p, kind="positive", summary="median")
    assert found == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"span": 0}, "span must be above 0 and at most 1"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        integrated_calibration_index([0, 1], [0.2, 0.8], **options)
