"""
Active calibration: which rows to label
=======================================

Labels cost money. A Gaussian process calibrator states its expected excess log-loss, so that you can stop in time,
and names the rows whose labels reduce it most.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import Predictions
from calibrant.active import ActiveCalibration

generator = np.random.default_rng(0)
logits = generator.normal(0, 4, (3000, 4))
labels = (0.4 * logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
pool = Predictions.from_logits(logits)

_, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
for rule in ("random", "excess-loss"):
    active = ActiveCalibration(pool, rule=rule, max_labels=300, tolerance=0.002)
    while not active.stopped:
        rows = active.ask()
        active.tell(rows, labels[rows])
    sizes = [each.n_labels for each in active.history_]
    left.plot(
        sizes,
        [each.excess_log_loss for each in active.history_],
        marker=".",
        label=rule,
    )
    confidence = pool.probabilities[active.rows_[50:]].max(axis=1)
    right.hist(
        confidence, bins=np.linspace(0.25, 1, 16), histtype="step", lw=2, label=rule
    )
left.axhline(0.002, color="grey", linestyle=":", label="tolerance")
left.set(xlabel="labels", ylabel="expected excess log-loss", yscale="log")
left.legend()
right.set(xlabel="confidence of the selected rows", ylabel="rows")
right.legend()
