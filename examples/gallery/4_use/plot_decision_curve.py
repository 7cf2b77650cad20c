"""
Decision curve: is the model useful at my threshold?
====================================================

The net benefit of acting above each probability threshold, beside those of acting on all rows and on none.
An uncalibrated model can be worse than both.
"""

import numpy as np

from calibrant import PlattScaling
from calibrant.plots import DecisionCurveDisplay

generator = np.random.default_rng(0)
y = (generator.random(4000) < 0.2).astype(int)
p = 1 / (1 + np.exp(-(2.4 * generator.normal(1.2 * y, 1.0) - 2)))
calibrated = PlattScaling().fit(p[:2000], y[:2000]).predict_proba(p[2000:])

models = {"uncalibrated": p[2000:], "calibrated": calibrated}
DecisionCurveDisplay.from_predictions(
    y[2000:], models, thresholds=np.linspace(0.02, 0.7, 60)
).plot()
