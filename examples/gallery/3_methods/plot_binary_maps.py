"""
Isotonic, binned, beta and Platt maps of two classes
====================================================

Parametric methods are smooth and need few rows. Isotonic regression and bins follow any increasing shape
and need more rows. Figure 4 of Valk (2022) shows the first three on such a task.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import registry
from calibrant.plots import BinaryMapDisplay

truth = lambda p: p**1.5 / (p**1.5 + 0.5 * (1 - p))  # noqa: E731

generator = np.random.default_rng(0)
p = generator.beta(0.7, 0.7, 3000)
y = (generator.random(3000) < truth(p)).astype(int)

fitted = {
    "isotonic": registry.make("isotonic"),
    "10 bins of equal width": registry.make("width-binning", n_bins=10),
    "beta": registry.make("beta"),
    "Platt": registry.make("platt"),
}
_, axes = plt.subplots(2, 2, figsize=(8, 8), layout="constrained")
for ax, (name, calibrator) in zip(axes.flat, fitted.items(), strict=True):
    display = BinaryMapDisplay.from_estimator({name: calibrator.fit(p, y)}, truth=truth)
    display.plot(ax)
