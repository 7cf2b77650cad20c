"""Scenarios of :mod:`promises`: predictions with known probabilities, labels, weights and groups."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import norm

Array = NDArray[Any]


class Rows(NamedTuple):
    """Predictions, the true probabilities, labels drawn from these, and perhaps weights and groups."""

    p: Array
    truth: Array
    y: Array
    weights: Array | None = None
    groups: Array | None = None

    @property
    def side(self) -> dict[str, Any]:
        """The keyword arguments for weights and groups."""
        return {"sample_weight": self.weights, "groups": self.groups}


def drawn(generator: np.random.Generator, truth: Array, groups: Array | None = None) -> Array:
    """Draw labels; rows of a group share half of the variance of a normal score, so that they are dependent."""
    if groups is None:
        u = generator.random(len(truth))
    else:
        common = generator.normal(size=groups.max() + 1)[groups]
        u = norm.cdf(0.7 * common + np.sqrt(1 - 0.49) * generator.normal(size=len(groups)))
    return np.minimum((u[:, np.newaxis] > truth.cumsum(axis=1)).sum(axis=1), truth.shape[1] - 1)


def of_event(p: Array) -> Array:
    """Return both columns of two classes."""
    return np.column_stack([1 - p, p])


def softmax(z: Array) -> Array:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def sizes(n_groups: int, share: float, n_rows: int) -> Array:
    """Return the group of every row; the first group has the given share of the rows."""
    first = round(share * n_rows)
    return np.concatenate([np.zeros(first, dtype=int), 1 + np.arange(n_rows - first) % (n_groups - 1)])


# Fifteen groups of 2 to 120 rows, effectively eight.
UNEQUAL = np.repeat(np.arange(15), [120, 90, 70, 50, 40, 30, 20, 15, 10, 8, 6, 5, 4, 3, 2])


def uniform(generator: np.random.Generator, n: int) -> Array:
    return of_event(generator.uniform(0.001, 0.999, n))


def rare(generator: np.random.Generator, n: int, rate: float = 1 / 200) -> Array:
    logits = generator.normal(size=n)
    return of_event(np.minimum(np.exp(logits - 0.5) * rate, 0.9))


def ten_scores(generator: np.random.Generator, n: int) -> Array:
    return of_event(generator.choice((np.arange(10) + 0.5) / 10, n))


def certain(generator: np.random.Generator, n: int) -> Array:
    p = np.clip(generator.beta(0.3, 0.02, n), 1e-6, 1 - 1e-6)
    return of_event(np.where(generator.random(n) < 0.5, p, 1 - p))


def heavy(generator: np.random.Generator, n: int) -> Array:
    p = np.maximum(softmax(2 * generator.standard_t(1.5, size=(n, 2))), 1e-9)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def dirichlet(generator: np.random.Generator, n: int, k: int, alpha: float = 0.5) -> Array:
    p = np.maximum(generator.dirichlet(np.full(k, alpha), n), 1e-9)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def rounded(generator: np.random.Generator, n: int, decimals: int) -> Array:
    p = np.round(softmax(2.5 * generator.normal(size=(n, 3))), decimals)
    p = np.maximum(p, 10.0**-decimals)
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def imbalanced(generator: np.random.Generator, n: int) -> Array:
    return softmax(np.array([3.0, 1.0, 0.0, -1.0, -2.0]) + 1.2 * generator.normal(size=(n, 5)))


Draw = Callable[[np.random.Generator], Rows]


def independent(make: Callable[..., Array], **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, **options)
        return Rows(p, p, drawn(generator, p))

    return draw


def weighted(make: Callable[..., Array], spread: float, **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, **options)
        return Rows(p, p, drawn(generator, p), generator.lognormal(0, spread, len(p)))

    return draw


def grouped(make: Callable[..., Array], groups: Array, *, dependent: bool, **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, n=len(groups), **options)
        return Rows(p, p, drawn(generator, p, groups if dependent else None), None, groups)

    return draw


CALIBRATED: dict[str, Draw] = {
    "two classes, 40 rows": independent(uniform, n=40),
    "two classes, 1,000 rows": independent(uniform, n=1000),
    "ten distinct scores, 200 rows": independent(ten_scores, n=200),
    "1:200, 1,000 rows": independent(rare, n=1000),
    "1:200, 1,500 rows": independent(rare, n=1500),
    "near-deterministic, 200 rows": independent(certain, n=200),
    "heavy tails, two classes, 40 rows": independent(heavy, n=40),
    "heavy tails, two classes, 500 rows": independent(heavy, n=500),
    "4 classes, 50 rows": independent(dirichlet, n=50, k=4),
    "4 classes, 200 rows": independent(dirichlet, n=200, k=4),
    "4 classes, 600 rows": independent(dirichlet, n=600, k=4),
    "5 imbalanced classes, 500 rows": independent(imbalanced, n=500),
    "40 classes, 1,000 rows": independent(dirichlet, n=1000, k=40, alpha=0.1),
    "rounded to 3 decimals, 500 rows": independent(rounded, n=500, decimals=3),
    "rounded to 6 decimals, 500 rows": independent(rounded, n=500, decimals=6),
    "log-normal weights (1), 500 rows": weighted(uniform, 1.0, n=500),
    "log-normal weights (1.5), 4 classes, 500 rows": weighted(dirichlet, 1.5, n=500, k=4),
    "1:200 with log-normal weights (1), 1,000 rows": weighted(rare, 1.0, n=1000),
    "60 equal groups, dependent, 600 rows": grouped(uniform, np.arange(600) % 60, dependent=True),
    "15 equal groups, dependent, 450 rows": grouped(uniform, np.arange(450) % 15, dependent=True),
    "15 unequal groups, dependent, 473 rows": grouped(uniform, UNEQUAL, dependent=True),
    "20 groups, one with 70 %, independent rows": grouped(uniform, sizes(20, 0.7, 600), dependent=False),
    "20 groups, one with 70 %, dependent rows": grouped(uniform, sizes(20, 0.7, 600), dependent=True),
    "60 groups, one with 50 %, independent rows": grouped(uniform, sizes(60, 0.5, 600), dependent=False),
    "60 groups, one with 50 %, dependent rows": grouped(uniform, sizes(60, 0.5, 600), dependent=True),
}


def distorted(p: Array, power: float) -> Array:
    q = p**power
    return np.asarray(q / q.sum(axis=1, keepdims=True))


def beta_map(p: Array) -> Array:
    return of_event(expit(2 * np.log(p[:, 1]) - 0.5 * np.log(p[:, 0]) + 0.3))


def dirichlet_map(p: Array) -> Array:
    weights = np.array([[0.9, -0.2, 0.1], [0.2, 0.6, -0.3], [-0.1, 0.3, 0.8]])
    return softmax(np.log(p) @ weights.T + np.array([0.3, 0.0, -0.3]))


def tempered(p: Array) -> Array:
    return distorted(p, 0.7)


def shifted_map(p: Array) -> Array:
    return softmax(0.7 * np.log(p) + np.array([-1.0, 0.0, 1.0]))


def wave_map(p: Array) -> Array:
    return softmax(np.log(p) + 0.8 * np.sin(2 * np.log(p)))


def with_error(kind: str, k: int, n: int) -> Draw:
    """Return rows whose true probabilities differ from the predicted ones."""

    def draw(generator: np.random.Generator) -> Rows:
        if kind == "two classes swapped":
            p = softmax(1.5 * generator.normal(size=(n, k)))
            truth = p.copy()
            truth[:, [0, 1]] = p[:, [1, 0]]
            return Rows(p, truth, drawn(generator, truth))
        p = softmax(1.5 * generator.normal(size=(n, k)))
        order = np.argsort(np.argsort(p[:, -1]))
        if kind == "over-confident":
            truth = distorted(p, 1 / 1.4)
        elif kind == "under-confident":
            truth = distorted(p, 1.4)
        else:
            sign = np.ones(n) if kind == "shifted by 6 points" else np.where(order * 6 // n % 2 == 0, 1, -1)
            size = 0.06 if kind == "shifted by 6 points" else 0.08
            last = np.clip(p[:, -1] + size * sign, 0.001, 0.999)
            truth = p * ((1 - last) / (1 - p[:, -1]))[:, np.newaxis]
            truth[:, -1] = last
        return Rows(p, truth, drawn(generator, truth))

    return draw


def with_groups(kind: str, groups: Array) -> Draw:
    """Return independent rows with an error, in groups, whose independence is not known."""
    draw = with_error(kind, 2, len(groups))
    return lambda generator: draw(generator)._replace(groups=groups)


def is_grouped(scenario: str) -> bool:
    return "groups" in scenario


def is_multiclass(scenario: str) -> bool:
    return "rounded" in scenario or ("classes" in scenario and "two classes" not in scenario)


def is_weighted(scenario: str) -> bool:
    return "weights" in scenario


# Without groups, and of these without weights.
UNGROUPED = {name: draw for name, draw in CALIBRATED.items() if not is_grouped(name)}
PLAIN = {name: draw for name, draw in UNGROUPED.items() if not is_weighted(name)}


def of_last_class(draw: Draw) -> Draw:
    """Return the same rows with two classes: the last one and the rest."""

    def binary(generator: np.random.Generator) -> Rows:
        rows = draw(generator)
        last = np.clip(rows.p[:, -1], 1e-9, 1 - 1e-9)
        return rows._replace(
            p=of_event(last), truth=of_event(last), y=(rows.y == rows.p.shape[1] - 1).astype(int)
        )

    return binary


def in_tenths(draw: Draw) -> Draw:
    """Return the probability of the last class in at most eleven steps, and outcomes that have it."""

    def discrete(generator: np.random.Generator) -> Rows:
        p = of_event(np.round(draw(generator).p[:, -1], 1))
        return Rows(p, p, drawn(generator, p))

    return discrete


# Scenarios that had no part in any choice of a method or of a threshold.


def beta_scores(generator: np.random.Generator, n: int, a: float, b: float, decimals: int = 16) -> Array:
    return of_event(np.clip(np.round(generator.beta(a, b, n), decimals), 0.005, 0.995))


def normal_logits(generator: np.random.Generator, n: int, k: int, scale: float) -> Array:
    return softmax(scale * generator.normal(size=(n, k)))


def student_logits(generator: np.random.Generator, n: int, k: int) -> Array:
    return softmax(generator.standard_t(3, size=(n, k)))


def gamma_weighted(make: Callable[..., Array], shape: float, **options: Any) -> Draw:
    def draw(generator: np.random.Generator) -> Rows:
        p = make(generator, **options)
        return Rows(p, p, drawn(generator, p), generator.gamma(shape, 1 / shape, len(p)) + 1e-3)

    return draw


FRESH: dict[str, Draw] = {
    "skewed scores, 120 rows": independent(beta_scores, n=120, a=1.2, b=4.0),
    "two decimals, 350 rows": independent(beta_scores, n=350, a=2.0, b=2.0, decimals=2),
    "1:40, 800 rows": independent(rare, n=800, rate=1 / 40),
    "nearly certain or nearly even, 700 rows": independent(beta_scores, n=700, a=0.2, b=0.2),
    "3 classes, 90 rows": independent(normal_logits, n=90, k=3, scale=1.5),
    "6 classes, 900 rows": independent(normal_logits, n=900, k=6, scale=3.0),
    "3 classes, heavy tails, 150 rows": independent(student_logits, n=150, k=3),
    "8 classes, sparse, 300 rows": independent(dirichlet, n=300, k=8, alpha=0.15),
    "gamma weights (0.5), 250 rows": gamma_weighted(beta_scores, 0.5, n=250, a=1.0, b=2.0),
    "gamma weights (2), 3 classes, 300 rows": gamma_weighted(normal_logits, 2.0, n=300, k=3, scale=2.0),
    "25 groups of 4 to 28 rows, dependent": grouped(
        uniform, np.repeat(np.arange(25), 4 + np.arange(25)), dependent=True
    ),
    "12 equal groups, 3 classes, dependent, 360 rows": grouped(
        normal_logits, np.arange(360) % 12, dependent=True, k=3, scale=1.5
    ),
    "40 groups, one with 30 %, dependent rows": grouped(uniform, sizes(40, 0.3, 500), dependent=True),
}
