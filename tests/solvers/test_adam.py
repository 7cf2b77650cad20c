"""Adam: steps worked by hand, and batches that cover all rows."""

import numpy as np
import pytest

from calibrant.solvers.adam import adam, shuffled_batches


def test_two_steps_by_hand():
    """Gradients 2 and 4: after bias correction the first step is 1, and the second the ratio of weighted means."""
    gradients = iter([np.array([2.0]), np.array([4.0])])
    found = adam(
        lambda _theta, _rows: next(gradients), np.zeros(1), [None, None], learning_rate=0.5, epsilon=0.0
    )
    first = (0.9 * 0.1 * 2 + 0.1 * 4) / (1 - 0.9**2)
    second = (0.999 * 0.001 * 4 + 0.001 * 16) / (1 - 0.999**2)
    assert found[0] == pytest.approx(-0.5 - 0.5 * first / np.sqrt(second), rel=1e-12)


def test_it_finds_the_mean_of_the_rows_and_leaves_its_start_unchanged():
    generator = np.random.default_rng(0)
    values, start = generator.normal(3.0, 1.0, (200, 2)), np.zeros(2)
    batches = shuffled_batches(200, 50, 4000, generator)
    found = adam(lambda theta, rows: theta - values[rows].mean(axis=0), start, batches, learning_rate=0.01)
    assert found == pytest.approx(values.mean(axis=0), abs=0.05)
    assert not start.any()


@pytest.mark.parametrize(("n_rows", "size", "n_batches"), [(7, 3, 6), (4, 10, 2), (6, 2, 3)])
def test_every_round_of_batches_has_all_rows_once(n_rows, size, n_batches):
    batches = list(shuffled_batches(n_rows, size, n_batches, np.random.default_rng(1)))
    assert len(batches) == n_batches
    per_round = -(-n_rows // size)
    for first in range(0, n_batches - per_round + 1, per_round):
        np.testing.assert_array_equal(
            np.sort(np.concatenate(batches[first : first + per_round])), np.arange(n_rows)
        )
