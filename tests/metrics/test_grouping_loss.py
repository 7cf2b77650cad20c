"""The lower bound on the grouping loss: against known losses, and zero without one."""

import numpy as np
import pytest
from scipy.special import expit

from calibrant.errors import ParameterError
from calibrant.metrics import grouping_loss


def test_two_groups_with_one_score():
    """Everybody has 0.5, the groups 0.8 and 0.2: the grouping loss is 0.3 squared."""
    generator = np.random.default_rng(0)
    group = generator.integers(0, 2, 6000)
    y = (generator.random(6000) < np.where(group == 1, 0.8, 0.2)).astype(int)
    found = grouping_loss(y, np.full(6000, 0.5), group[:, np.newaxis], kind="positive")
    assert found.estimate == pytest.approx(0.09, abs=0.008)
    assert 0.07 < found.limit < 0.09
    assert "at least" in str(found)


def test_miscalibration_alone_is_no_grouping_loss():
    positive = 0
    for seed in range(40):
        generator = np.random.default_rng(seed)
        X = generator.normal(size=(600, 3))
        p = expit(X[:, 0])
        y = (generator.random(600) < p**1.5).astype(int)
        positive += grouping_loss(y, p, X, kind="positive").limit > 0
    assert positive <= 40 * 0.05 + 3 * np.sqrt(40 * 0.05 * 0.95)


def test_the_bound_is_below_the_loss():
    generator = np.random.default_rng(3)
    X = generator.normal(size=(4000, 3))
    true, p = expit(X[:, 0] + X[:, 1]), expit(X[:, 0])
    y = (generator.random(4000) < true).astype(int)
    found = grouping_loss(y, p, X, kind="positive", random_state=1)
    hidden = generator.normal(size=2000)
    loss = np.mean(expit(X[:500, :1] + hidden).var(axis=1))
    assert 0.5 * loss < found.limit < loss
    assert found.estimate == pytest.approx(loss, rel=0.3)


def test_the_predicted_class_of_several():
    generator = np.random.default_rng(4)
    p = generator.dirichlet([1.0] * 3, 2000)
    hard = generator.integers(0, 2, 2000)
    sharp = np.where(hard[:, np.newaxis] == 1, 1 / 3, p)
    y = np.array([generator.choice(3, p=row) for row in sharp])
    found = grouping_loss(y, p, hard[:, np.newaxis])
    assert found.limit > 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"features": np.zeros((100, 1)), "kind": "classwise"}, "one event"),
        ({"features": np.zeros(200)}, "shape"),
        ({"features": [["a"]] * 200}, "numbers"),
        ({"features": np.zeros((200, 1)), "min_rows": 60}, "too few"),
    ],
)
def test_invalid_input(options, words):
    p = np.linspace(0.1, 0.9, 200)
    with pytest.raises(ParameterError, match=words):
        grouping_loss((p > 0.5).astype(int), p, **options)
