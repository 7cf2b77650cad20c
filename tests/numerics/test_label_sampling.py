"""Labels drawn from rows of probabilities: exact shares, and zeros that never come."""

import numpy as np
import pytest
from hypothesis import given
from scipy.stats import chisquare

from calibrant.numerics.label_sampling import LabelSampler
from strategies import probability_matrices

LARGEST_UNIFORM = 1 - 2.0**-53


class Fixed:
    """In place of a generator: the same number for every row."""

    def __init__(self, number):
        self.number = number

    def random(self, size):
        return np.full(size, self.number)


def shares(probabilities, n_points):
    """Return how often each column comes for evenly spaced uniform numbers, (n, K)."""
    sampler = LabelSampler(probabilities)
    counts = np.zeros(probabilities.shape)
    rows = np.arange(len(probabilities))
    for point in range(n_points):
        counts[rows, sampler.draw(Fixed((point + 0.5) / n_points))] += 1
    return counts / n_points


@given(probabilities=probability_matrices())
def test_every_column_has_its_share_of_the_unit_interval(probabilities):
    """Each of the K cells has at most one border inside, so M points miss a share by at most K / M."""
    expected = probabilities.astype(np.float64)
    expected /= expected.sum(axis=1, keepdims=True)
    n_classes = probabilities.shape[1]
    np.testing.assert_allclose(shares(probabilities, 300), expected, rtol=0, atol=(n_classes + 1) / 300)


@given(probabilities=probability_matrices())
def test_a_column_of_probability_zero_is_never_drawn(probabilities):
    sampler = LabelSampler(probabilities)
    rows = np.arange(len(probabilities))
    for number in (0.0, LARGEST_UNIFORM, *np.linspace(0, LARGEST_UNIFORM, 101)):
        assert (probabilities[rows, sampler.draw(Fixed(number))] > 0).all()


@pytest.mark.parametrize("n_classes", [2, 3, 10, 300, 1000])
def test_a_certain_row_gives_its_one_column(n_classes):
    labels = np.arange(20) % n_classes
    sampler = LabelSampler(np.eye(n_classes, dtype=np.float32)[labels])
    for number in (0.0, 0.1, 0.5, 0.999, LARGEST_UNIFORM):
        np.testing.assert_array_equal(sampler.draw(Fixed(number)), labels)


def test_frequencies_of_three_hundred_classes():
    """Forty thousand rows alike, in blocks of rows, against the chi-square distribution."""
    weights = 1 / np.arange(1, 301.0)
    probabilities = np.broadcast_to(weights / weights.sum(), (40_000, 300))
    drawn = LabelSampler(probabilities).draw(np.random.default_rng(1))
    assert chisquare(np.bincount(drawn, minlength=300), 40_000 * probabilities[0]).pvalue > 0.01


def test_draws_of_different_rows_and_times_are_independent():
    sampler = LabelSampler(np.full((2, 2), 0.5))
    generator = np.random.default_rng(2)
    draws = np.array([sampler.draw(generator) for _ in range(4000)])
    rows = 2 * draws[:, 0] + draws[:, 1]
    times = 2 * draws[:-1:2, 0] + draws[1::2, 0]
    assert chisquare(np.bincount(rows, minlength=4)).pvalue > 0.01
    assert chisquare(np.bincount(times, minlength=4)).pvalue > 0.01


def test_rows_that_miss_one_are_divided_by_their_sum():
    """Inverting the cumulative sum gives the missing 0.001 to one of the columns; here it is shared."""
    short = np.array([[0.2997, 0.6993], [0.2997, 0.6993]])
    assert shares(short, 10_000)[0] == pytest.approx([0.3, 0.7], abs=3e-4)


def test_rows_do_not_depend_on_the_block_they_are_in():
    generator = np.random.default_rng(3)
    probabilities = generator.dirichlet(np.full(40, 0.2), 3000)
    whole = LabelSampler(probabilities)
    for start in (0, 1500, 2990):
        part = LabelSampler(probabilities[start : start + 10])
        for number in (0.05, 0.33, 0.77):
            np.testing.assert_array_equal(
                whole.draw(Fixed(number))[start : start + 10], part.draw(Fixed(number))
            )


def test_one_seed_gives_one_sequence():
    sampler = LabelSampler(np.random.default_rng(0).dirichlet(np.ones(5), 50))
    first, second = np.random.default_rng(7), np.random.default_rng(7)
    for _ in range(3):
        np.testing.assert_array_equal(sampler.draw(first), sampler.draw(second))


def test_the_probabilities_are_left_alone():
    probabilities = np.random.default_rng(0).dirichlet(np.ones(5), 50).astype(np.float32)
    before = probabilities.copy()
    probabilities.flags.writeable = False
    drawn = LabelSampler(probabilities).draw(np.random.default_rng(0))
    np.testing.assert_array_equal(probabilities, before)
    assert drawn.dtype == np.intp
    assert drawn.shape == (50,)
