"""Smoothing with reflection at 0 and 1, against sums over mirror images."""

from math import erf, exp, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from calibrant.numerics.reflected_kernel import (
    cosine_coefficients,
    linear_binning,
    reflected_convolution,
    smoothed_variation,
)

PLACES = hnp.arrays(np.float64, 12, elements=st.floats(0, 1))
MASSES = hnp.arrays(np.float64, 12, elements=st.floats(-1, 1))


def exact_coefficients(places, masses, n_cells):
    return np.cos(np.pi * np.outer(np.arange(n_cells + 1), places)) @ masses


def naive_variation(places, masses, width, n_points):
    """Add up the mirror images of every mass at every point, then the midpoint rule."""
    total = 0.0
    images = range(-int(4 * width) - 2, int(4 * width) + 3)
    for j in range(n_points):
        t = (j + 0.5) / n_points
        density = 0.0
        for place, mass in zip(places, masses, strict=True):
            for k in images:
                for image in (2 * k + place, 2 * k - place):
                    density += mass * exp(-0.5 * ((t - image) / width) ** 2) / (width * sqrt(2 * pi))
        total += abs(density) / n_points
    return total


@settings(max_examples=40)
@given(places=PLACES, masses=MASSES, n_cells=st.sampled_from([1, 3, 64]))
def test_binning_keeps_the_mass_and_its_mean_place(places, masses, n_cells):
    nodes = linear_binning(places, masses, n_cells)
    assert nodes.shape == (n_cells + 1,)
    assert nodes.sum() == pytest.approx(masses.sum(), abs=1e-12)
    assert nodes @ np.linspace(0, 1, n_cells + 1) == pytest.approx(masses @ places, abs=1e-12)


def test_masses_at_nodes_stay_there():
    nodes = linear_binning(np.array([0.0, 0.25, 1.0, 1.0]), np.array([1.0, 2.0, 3.0, -1.0]), 4)
    np.testing.assert_array_equal(nodes, [1, 2, 0, 0, 2])


def test_no_masses_means_one_each():
    places = np.random.default_rng(0).random(30)
    np.testing.assert_allclose(
        linear_binning(places, None, 7), linear_binning(places, np.ones(30), 7), atol=1e-14
    )


@pytest.mark.parametrize("n_cells", [1, 2, 5, 16])
def test_cosine_coefficients_are_sums_of_cosines(n_cells):
    nodes = np.random.default_rng(1).normal(size=n_cells + 1)
    expected = exact_coefficients(np.linspace(0, 1, n_cells + 1), nodes, n_cells)
    np.testing.assert_allclose(cosine_coefficients(nodes), expected, atol=1e-12)


@pytest.mark.parametrize("width", [0.02, 0.07, 0.3, 1.5])
def test_variation_is_a_sum_over_mirror_images(width):
    """No grid but that of the integral; at 1500 points the midpoint rule is good to 3e-5."""
    generator = np.random.default_rng(2)
    places = np.array([0.0, 1.0, *generator.random(6)])
    masses = np.array([0.3, -0.5, *generator.normal(size=6)])
    ours = smoothed_variation(exact_coefficients(places, masses, 1024), width, 1024)
    assert ours == pytest.approx(naive_variation(places, masses, width, 1500), rel=3e-5)


def test_two_opposite_masses_in_closed_form():
    """Far from the ends, N(1/2 - d, s) minus N(1/2 + d, s) has the total variation 2 erf(d / (s sqrt 2))."""
    for width, distance in [(0.02, 0.01), (0.05, 0.1), (0.06, 0.06)]:
        places, masses = np.array([0.5 - distance, 0.5 + distance]), np.array([1.0, -1.0])
        expected = 2 * erf(distance / (width * sqrt(2)))
        # One change of sign, at a node of an even grid and in the middle of a cell of an odd one.
        for n_pieces, tolerance in [(1024, 1e-9), (1023, 1e-6)]:
            ours = smoothed_variation(exact_coefficients(places, masses, 1024), width, n_pieces)
            assert ours == pytest.approx(expected, rel=tolerance)


def test_the_error_of_the_integral_falls_with_the_third_power_of_the_cell():
    """Sixteen pieces to a width are good to 1e-5, also with many changes of sign."""
    generator = np.random.default_rng(3)
    places, masses = generator.random(300), generator.normal(size=300)
    coefficients = exact_coefficients(places, masses, 4096)
    width = 1 / 64
    exact = smoothed_variation(coefficients, width, 2**16)
    errors = [abs(smoothed_variation(coefficients, width, 64 * per) / exact - 1) for per in (4, 8, 16)]
    assert errors[0] < 2e-3
    assert errors[1] < 2e-4
    assert errors[2] < 2e-5


@pytest.mark.parametrize("cells_per_width", [16, 32, 64])
def test_binning_widens_by_at_most_half_a_cell(cells_per_width):
    """A mass between two nodes has the variance f (1 - f) <= 1/4 of a squared cell."""
    generator = np.random.default_rng(4)
    places, masses = generator.random(300), generator.normal(size=300)
    n_cells, width = 1024, cells_per_width / 1024
    exact = exact_coefficients(places, masses, n_cells)
    binned = cosine_coefficients(linear_binning(places, masses, n_cells))
    ours = smoothed_variation(binned, width, 4096)
    narrow = smoothed_variation(exact, width, 4096)
    wide = smoothed_variation(exact, sqrt(width**2 + 0.25 / n_cells**2), 4096)
    assert wide * (1 - 1e-4) <= ours <= narrow * (1 + 1e-4)
    assert ours == pytest.approx(narrow, rel=0.3 / cells_per_width**2)


@settings(max_examples=30)
@given(places=PLACES, masses=MASSES, widths=st.tuples(st.floats(0.02, 1), st.floats(0.02, 1)))
def test_smoothing_further_never_adds_variation(places, masses, widths):
    coefficients = exact_coefficients(places, masses, 512)
    more, less = (smoothed_variation(coefficients, width, 1024) for width in (min(widths), max(widths)))
    assert less <= more * (1 + 1e-5) + 1e-12
    assert abs(masses.sum()) <= less + 1e-9
    assert more <= np.abs(masses).sum() + 1e-9


def test_nothing_has_no_variation():
    assert smoothed_variation(np.zeros(65), 0.1, 64) == 0.0


@pytest.mark.parametrize("reach", [1, 4, 10])
def test_convolution_is_a_sum_over_nodes_and_their_mirror_images(reach):
    """Nodes 0..M and their images at -j and 2M - j; the kernel ends before it could meet more of them."""
    generator = np.random.default_rng(5)
    n_cells = 10
    masses = generator.random(n_cells + 1)
    kernel = np.where(np.arange(n_cells + 1) < reach, 1.0 + generator.random(n_cells + 1), 0.0)
    kernel[-1] = 0.0
    area = (kernel[0] + 2 * kernel[1:].sum()) / n_cells
    expected = np.zeros(n_cells + 1)
    for t in range(n_cells + 1):
        for j in range(n_cells + 1):
            for image in (j, -j, 2 * n_cells - j):
                if abs(t - image) <= n_cells:
                    expected[t] += masses[j] * kernel[abs(t - image)] / area
    np.testing.assert_allclose(reflected_convolution(masses, kernel), expected, atol=1e-12)


def test_several_rows_are_convolved_one_by_one_and_keep_their_mass():
    generator = np.random.default_rng(6)
    masses, kernel = generator.random((2, 65)), np.linspace(1, 0, 65) ** 2
    both = reflected_convolution(masses, kernel)
    np.testing.assert_allclose(both[1], reflected_convolution(masses[1], kernel), atol=1e-12)
    trapezoid = (both.sum(axis=1) - (both[:, 0] + both[:, -1]) / 2) / 64
    np.testing.assert_allclose(trapezoid, masses.sum(axis=1), rtol=1e-12)
