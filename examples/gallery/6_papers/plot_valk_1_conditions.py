"""
Multiclass, classwise and confidence calibration
================================================

A classifier is calibrated if the true classes match the predictions on average over some rows. The
definitions differ in these rows: those with the same prediction, with the same probability of one class, or
with the same confidence. The dots are all predictions, the coloured ones belong together, as in Figure 1 of
Valk (2022).
"""

import matplotlib.pyplot as plt
import numpy as np

generator = np.random.default_rng(0)
p = generator.dirichlet([1, 1, 1], 40_000)
corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
conditions = {
    "the prediction is (0.6, 0.3, 0.1)": np.abs(p - [0.6, 0.3, 0.1]).max(axis=1) < 0.02,
    "the probability of class 1 is 0.6": np.abs(p[:, 0] - 0.6) < 0.006,
    "the confidence is 0.6": np.abs(p.max(axis=1) - 0.6) < 0.006,
}
_, axes = plt.subplots(1, 3, figsize=(12, 4))
for ax, (condition, chosen) in zip(axes, conditions.items(), strict=True):
    places = p @ corners
    ax.scatter(*places[::20].T, s=2, color="0.85")
    ax.scatter(*places[chosen].T, s=4)
    ax.add_patch(plt.Polygon(corners, fill=False))
    for corner, name in zip(corners, ("class 1", "class 2", "class 3"), strict=True):
        ax.annotate(name, corner, ha="center", va="bottom" if corner[1] else "top")
    ax.set_title(f"rows on which {condition}", fontsize=9)
    ax.set(xlim=(-0.1, 1.1), ylim=(-0.1, 1.0), aspect="equal")
    ax.set_axis_off()
