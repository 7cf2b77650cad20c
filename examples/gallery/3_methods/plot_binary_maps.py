"""
Platt, beta, isotonic and binned maps of two classes
====================================================

Parametric methods are smooth and need few rows. Isotonic regression and bins follow any increasing shape
and need more rows.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import registry

generator = np.random.default_rng(0)
p = generator.beta(0.7, 0.7, 1000)
truth = p**1.5 / (p**1.5 + 0.5 * (1 - p))
y = (generator.random(1000) < truth).astype(int)

grid = np.linspace(0.001, 0.999, 400)
_, axes = plt.subplots(2, 2, figsize=(8, 8), sharex=True, sharey=True)
for ax, name in zip(
    axes.flat, ("platt", "beta", "isotonic", "width-binning"), strict=True
):
    fitted = registry.make(name).fit(p, y)
    ax.plot(grid, grid, color="grey", linestyle=":")
    ax.plot(
        grid, grid**1.5 / (grid**1.5 + 0.5 * (1 - grid)), color="grey", label="true map"
    )
    ax.plot(grid, fitted.predict_proba(grid)[:, 1], label=name)
    ax.legend()
axes[1, 0].set(xlabel="predicted probability", ylabel="calibrated probability")
