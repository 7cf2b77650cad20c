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
