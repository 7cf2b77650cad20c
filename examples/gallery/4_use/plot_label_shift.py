"""
Label shift: estimate the class prior without labels
====================================================

Classes are equally frequent in the calibration set, but not where the model runs. ``LabelShift`` estimates
the class prior from unlabelled predictions. Bars show 95 % intervals.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import LabelShift


def sample(prior, n, seed):
    """Return predictions and labels of three Gaussian classes."""
    generator = np.random.default_rng(seed)
    labels = generator.choice(3, n, p=prior)
    p = np.exp(3 * (generator.normal(size=(n, 3)) + 1.5 * np.eye(3)[labels]))
    return p / p.sum(axis=1, keepdims=True), labels


prior = np.array([0.75, 0.2, 0.05])
target, _ = sample(prior, 1000, seed=1)
found = LabelShift().fit(*sample(np.full(3, 1 / 3), 2000, seed=0)).estimate(target)

_, ax = plt.subplots(layout="constrained")
position = np.arange(3)
ax.bar(
    position - 0.2, target.mean(axis=0), 0.4, label="mean prediction", color="lightgrey"
)
ax.bar(position + 0.2, found.prior, 0.4, label="estimated prior")
ax.errorbar(
    position + 0.2,
    found.prior,
    [found.prior - found.lower, found.upper - found.prior],
    fmt="none",
    color="black",
)
ax.scatter(
    position + 0.2,
    prior,
    marker="_",
    s=400,
    color="black",
    zorder=3,
    label="true prior",
)
ax.set(xticks=position, xlabel="class", ylabel="class prior in the target")
ax.legend()
