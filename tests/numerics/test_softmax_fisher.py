"""Fisher matrix of a softmax, against the sum over rows of Kronecker products."""

import numpy as np
import pytest

from calibrant.numerics.softmax_fisher import SoftmaxFisher


@pytest.mark.parametrize(("n_classes", "n_features", "n_rows"), [(2, 1, 1), (3, 5, 700), (6, 2, 512)])
def test_it_is_the_sum_of_kronecker_products(n_classes, n_features, n_rows):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(n_classes), size=n_rows)
    weights, x = generator.uniform(0, 2, n_rows), generator.normal(size=(n_rows, n_features))
    rows = zip(weights, p, x, strict=True)
    expected = sum(w * np.kron(np.diag(q) - np.outer(q, q), np.outer(z, z)) for w, q, z in rows)
    fisher = SoftmaxFisher(n_classes, n_features, n_rows, np.float64)
    for _ in range(2):  # the memory of the first call serves again
        np.testing.assert_allclose(fisher(p.T, (p * weights[:, np.newaxis]).T, x.T), expected, atol=1e-11)


def test_float32_stays_float32():
    p = np.full((3, 4), 1 / 3, dtype=np.float32)
    assert SoftmaxFisher(3, 2, 4, np.float32)(p, p, np.ones((2, 4), np.float32)).dtype == np.float32
