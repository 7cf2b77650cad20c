"""
Murphy diagram: better under every proper score?
================================================

The mean regret of acting above every threshold. A model whose curve is nowhere above that of another is at
least as good under every proper score.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import PlattScaling
from calibrant.metrics import murphy_curve

generator = np.random.default_rng(0)
y = (generator.random(4000) < 0.2).astype(int)
p = 1 / (1 + np.exp(-(2.4 * generator.normal(1.2 * y, 1.0) - 2)))
calibrated = PlattScaling().fit(p[:2000], y[:2000]).predict_proba(p[2000:])[:, 1]

thresholds = np.linspace(0.005, 0.995, 199)
_, ax = plt.subplots(layout="constrained")
for name, q in {"uncalibrated": p[2000:], "calibrated": calibrated}.items():
    curve = murphy_curve(y[2000:], q, kind="positive")
    ax.plot(
        thresholds, curve.at(thresholds), label=f"{name}, Brier score {curve.brier:.3f}"
    )
ax.set(xlabel="threshold", ylabel="mean regret")
ax.legend()
