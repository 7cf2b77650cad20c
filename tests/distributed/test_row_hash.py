"""Hashes of rows: equal for equal rows, spread evenly, independent of batches and float types."""

import numpy as np

from calibrant.distributed.layout import content_hash, part_of


def test_rows_have_the_same_hash_in_any_batch_and_float_type():
    scores = np.random.default_rng(0).random((100, 3)).astype(np.float32)
    labels = np.arange(100) % 3
    whole = content_hash(scores, labels)
    assert len(np.unique(whole)) == 100
    np.testing.assert_array_equal(whole[40:], content_hash(scores[40:].astype(np.float64), labels[40:]))
    assert (whole != content_hash(scores, (labels + 1) % 3)).all()


def test_minus_zero_is_zero():
    signed = content_hash(np.array([[-0.0, 1.0]]), np.array([0]))
    assert signed == content_hash(np.array([[0.0, 1.0]]), np.array([0]))


def test_parts_are_even_and_independent_for_different_salts():
    """Counts of 100 cells of 1,000 rows have a standard deviation of 32; five of them are never reached."""
    hashes = content_hash(np.random.default_rng(1).random((100_000, 2)), np.zeros(100_000, dtype=int))
    cells = 10 * part_of(hashes, 10, 1) + part_of(hashes, 10, 2)
    assert abs(np.bincount(cells, minlength=100) - 1000).max() < 160
