"""WithIntervals: where coverage can be below the level, ``caution_`` says so."""

import numpy as np
import pytest

from calibrant import WithIntervals, load


def rows(n_classes, n_rows=80):
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.ones(n_classes), n_rows)
    return p, np.minimum((generator.random((n_rows, 1)) > p.cumsum(axis=1)).sum(axis=1), n_classes - 1)


@pytest.mark.parametrize("method", ["temperature", "vector", "platt", "dirichlet"])
def test_maximum_likelihood_needs_no_caution(method):
    assert WithIntervals(method).fit(*rows(3)).caution_ is None


@pytest.mark.parametrize(
    ("method", "n_classes", "reason"),
    [
        ("dirichlet-l2", 3, "a penalty biases the probabilities"),
        ("gp", 2, "kernel parameters are taken as known"),
    ],
)
def test_penalties_and_gaussian_processes_have_a_reason(method, n_classes, reason, tmp_path):
    fitted = WithIntervals(method).fit(*rows(n_classes))
    assert reason in fitted.caution_
    fitted.save(tmp_path / "fitted.npz")
    assert load(tmp_path / "fitted.npz").caution_ == fitted.caution_


def test_a_parameter_at_its_bound_has_a_reason():
    """With b = 0 the event depends on log p alone; half of the fits press b against its bound."""
    generator = np.random.default_rng(1)
    p = generator.uniform(0.05, 0.95, 100)
    y = (generator.random(100) < p).astype(int)
    q = 1 - (1 - p) ** 0.01  # log(1 - q) hardly varies
    assert "within reach of its bound" in WithIntervals("beta").fit(q, y).caution_
