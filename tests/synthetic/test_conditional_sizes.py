"""Mean size of a conditional expectation given a scalar: naive loops, atoms, and noise that does not count."""

import numpy as np
import pytest

from calibrant.synthetic.level_sets import conditional_sizes


def naive(scalar, difference, n_cells):
    """Return absolute and squared size for different scalars of equal weight, by plain loops over cells."""
    order = sorted(range(len(scalar)), key=lambda i: scalar[i])
    cells = [[] for _ in range(n_cells)]
    for place, i in enumerate(order):
        cells[int((place + 0.5) / len(order) * n_cells)].append(difference[i])
    means = [(len(cell) / len(order), sum(cell) / len(cell)) for cell in cells if cell]
    return sum(w * abs(m) for w, m in means), sum(w * m * m for w, m in means)


@pytest.mark.parametrize("n_cells", [1, 4, 10])
def test_one_replicate_against_plain_loops(n_cells):
    generator = np.random.default_rng(0)
    scalar, difference = generator.random(200), generator.normal(0.1, 1, 200)
    sizes = conditional_sizes(scalar, difference, np.full(200, 1 / 200), 1, n_cells)
    assert (sizes.absolute, sizes.squared) == pytest.approx(naive(scalar, difference, n_cells))


def test_few_values_are_pooled_exactly():
    """S is 0.2, 0.5 or 0.9 with mass 1/2, 1/4, 1/4 and D has the means 0.1, -0.2 and 0.4 there."""
    scalar = np.tile([0.2, 0.2, 0.5, 0.9], 50)
    difference = np.tile([0.5, -0.3, -0.2, 0.4], 50)
    sizes = conditional_sizes(scalar, difference, np.full(200, 1 / 100), 2, 128)
    assert sizes.absolute == pytest.approx(0.5 * 0.1 + 0.25 * 0.2 + 0.25 * 0.4)
    assert sizes.squared == pytest.approx(0.5 * 0.01 + 0.25 * 0.04 + 0.25 * 0.16)
    assert sizes.absolute_error == pytest.approx(0.0, abs=1e-12)


def test_rounding_does_not_cut_equal_values_apart():
    """One value but for its last digit; D is +1 and -1 in halves, so its conditional mean is zero."""
    scalar = np.where(np.arange(1000) < 500, 0.3, np.nextafter(0.3, 1))
    difference = np.where(np.arange(1000) < 500, 1.0, -1.0)
    sizes = conditional_sizes(scalar, difference, np.full(1000, 1e-3), 1, 10)
    assert sizes.absolute == pytest.approx(0.0, abs=1e-12)


def test_weights_are_masses():
    """A node of weight 2 is two nodes of the same scalar and difference."""
    generator = np.random.default_rng(1)
    scalar, difference = generator.random(64), generator.normal(size=64)
    weights = generator.integers(1, 3, 64).astype(float)
    twice = np.repeat(np.arange(64), weights.astype(int))
    one = conditional_sizes(scalar, difference, weights, 1, 5)
    two = conditional_sizes(scalar[twice], difference[twice], np.ones(len(twice)), 1, 5)
    assert (one.absolute, one.squared) == pytest.approx((two.absolute, two.squared))


def test_noise_around_zero_is_taken_away_and_its_rest_is_inside_the_error():
    """D is pure noise of variance 1: plain squares would be n_cells / n, and absolute values its root times 0.8."""
    generator = np.random.default_rng(2)
    n, n_cells = 8 * 1024, 64
    plain = np.sqrt(2 / np.pi * n_cells / n)
    results = [
        conditional_sizes(generator.random(n), generator.normal(size=n), np.full(n, 8 / n), 8, n_cells)
        for _ in range(40)
    ]
    squared = np.array([sizes.squared for sizes in results])
    absolute = np.array([sizes.absolute for sizes in results])
    assert squared.mean() < 0.3 * n_cells / n  # zero, but for the cut at zero
    assert absolute.mean() < 0.65 * plain
    assert np.mean(absolute <= 2 * np.array([sizes.absolute_error for sizes in results])) > 0.95


@pytest.mark.parametrize("signal", [0.0, 1.0])
def test_errors_of_a_single_cell_are_those_of_its_noise(signal):
    """One value: nothing depends on cells, and the mean of D, of standard error 0.05, is all there is to find."""
    generator, n = np.random.default_rng(4), 8 * 50
    results = [
        conditional_sizes(np.zeros(n), generator.normal(signal, 1, n), np.full(n, 8 / n), 8, 16)
        for _ in range(200)
    ]
    absolute, absolute_error, squared, squared_error = np.array(results).T
    assert np.mean(np.abs(absolute - signal) <= 2 * absolute_error) > 0.9
    assert np.mean(np.abs(squared - signal**2) <= 2 * squared_error) > 0.9
    if signal:
        assert absolute_error.mean() == pytest.approx(0.05, rel=0.1)
        assert squared_error.mean() == pytest.approx(2 * 0.05, rel=0.1)


def test_noise_in_cells_that_mix_nothing_is_inside_the_error():
    """Forty values of equal mass, with a mean of zero each: what noise is left must be covered without any sign changes."""
    generator, n = np.random.default_rng(5), 8 * 400
    results = [
        conditional_sizes(
            np.tile(np.arange(40.0), n // 40), generator.normal(size=n), np.full(n, 8 / n), 8, 64
        )
        for _ in range(50)
    ]
    assert np.mean([sizes.absolute <= 2 * sizes.absolute_error for sizes in results]) > 0.95


def test_a_signal_larger_than_the_noise_is_found_without_bias():
    """r(s) = sin(2 pi s) has the mean absolute value 2 / pi and the mean square 1/2."""
    generator = np.random.default_rng(3)
    n = 8 * 4096
    results = []
    for _ in range(20):
        scalar = generator.random(n)
        difference = np.sin(2 * np.pi * scalar) + generator.normal(0, 2, n)
        results.append(conditional_sizes(scalar, difference, np.full(n, 8 / n), 8, 64))
    absolute, squared = (
        np.mean([getattr(sizes, name) for sizes in results]) for name in ("absolute", "squared")
    )
    assert absolute == pytest.approx(2 / np.pi, abs=0.006)
    assert squared == pytest.approx(0.5, abs=0.01)


def test_the_bias_of_cells_vanishes_with_their_width():
    """Without noise, cells of mass 1/m lose a share of the order m^-2 of sin: a quarter when m doubles."""
    scalar = (np.arange(2**16) + 0.5) / 2**16
    difference = np.sin(6 * np.pi * scalar)
    weights = np.full(2**16, 2.0**-16)
    lost = [0.5 - conditional_sizes(scalar, difference, weights, 1, m).squared for m in (32, 64, 128)]
    assert lost[0] / lost[1] == pytest.approx(4, rel=0.05)
    assert lost[1] / lost[2] == pytest.approx(4, rel=0.05)
    sizes = conditional_sizes(scalar, difference, weights, 1, 128)
    assert 0.5 - sizes.squared < sizes.squared_error


GRID = (np.arange(2**13) + 0.5) / 2**13
EVEN = np.full(2**13, 2.0**-13)
ZEROS = np.linspace(0.3, 0.7, 101)


@pytest.mark.parametrize("n_cells", [16, 21, 64])
def test_what_cancels_where_a_line_changes_its_sign_is_inside_the_error(n_cells):
    """r(s) = s - z has the mean size (z^2 + (1 - z)^2) / 2; wherever z is, even if half of the cells lose as much."""
    for zero in ZEROS:
        sizes = conditional_sizes(GRID, GRID - zero, EVEN, 1, n_cells)
        assert abs(sizes.absolute - (zero**2 + (1 - zero) ** 2) / 2) <= sizes.absolute_error + 1e-7
        assert sizes.absolute_error < 1.5 / n_cells**2


@pytest.mark.parametrize("low", [-1.0, -0.2, 0.5])
def test_what_a_jump_loses_is_inside_a_few_errors(low):
    """r is low before z and 1 after it: sizes z |low| + 1 - z and z low^2 + 1 - z."""
    for zero in ZEROS:
        first = np.less(GRID, zero)
        sizes, before = conditional_sizes(GRID, np.where(first, low, 1.0), EVEN, 1, 32), first.mean()
        off = abs(sizes.absolute - (before * abs(low) + 1 - before))
        assert off <= 3 * sizes.absolute_error + 1e-12
        assert abs(sizes.squared - (before * low**2 + 1 - before)) <= 2.5 * sizes.squared_error + 1e-12


def test_waves_that_wider_cells_do_not_see_count_as_uncertain():
    """cos in cells of a quarter of its period: exact, 2 / pi and 8 / pi^2; halves of it from the top on have no mean."""
    sizes = conditional_sizes(GRID, np.cos(2 * np.pi * 8 * GRID), EVEN, 1, 32)
    assert sizes.absolute == pytest.approx(2 / np.pi, rel=1e-3)
    assert sizes.squared == pytest.approx(4 / np.pi**2, rel=1e-3)
    assert sizes.absolute_error >= sizes.absolute
    assert sizes.squared_error >= sizes.squared


def test_signs_of_values_with_the_mass_of_a_cell_do_not_cancel():
    """Three values, each a cell of its own: nothing is mixed, so that nothing can be lost."""
    scalar, difference = np.tile([0.1, 0.5, 0.9], 20), np.tile([1.0, -1.0, 1.0], 20)
    sizes = conditional_sizes(scalar, difference, np.full(60, 1 / 60), 1, 8)
    assert sizes == pytest.approx((1.0, 0.0, 1.0, 0.0))
