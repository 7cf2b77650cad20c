"""
Similar errors or similar labels?
=================================

Nearest neighbours and kernels average over rows with similar predictions. If they average the calibration
errors, all predictions nearby move in the same direction. If they average the labels, as histogram binning
does, all move to the same point. The true map of this task supports the first assumption, as in Figure 8 of
Valk (2022).
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.synthetic import tasks

task = tasks()["mixed"]
rows = task.sample(20_000, random_state=0)
p, y = np.asarray(rows.predictions.probabilities), np.asarray(rows.labels)
centre, radius = np.array([0.35, 0.4, 0.25]), 0.12
near = np.linalg.norm(p - centre, axis=1) < radius
error = (p[near] - np.eye(3)[y[near]]).mean(axis=0)
label = np.eye(3)[y[near]].mean(axis=0)

corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(0.75)]])
shown = p[near][:60]
moves = {
    "similar errors": shown - error,
    "similar labels": np.tile(label, (len(shown), 1)),
    "the true map": task.calibration_map(shown),
}
_, axes = plt.subplots(1, 3, figsize=(12, 4))
for ax, (title, ends) in zip(axes, moves.items(), strict=True):
    start = shown @ corners
    step = ends @ corners - start
    ax.quiver(*start.T, *step.T, angles="xy", scale_units="xy", scale=1, width=0.004)
    ax.set_title(title)
    ax.set_aspect("equal")
    ax.set_axis_off()
