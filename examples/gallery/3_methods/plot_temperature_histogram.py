"""
Parameterized temperature scaling: one temperature per row
==========================================================

A small network computes the temperature from the largest logits of the row. This classifier is
overconfident on confident rows and calibrated on uncertain ones.
"""

import numpy as np

from calibrant import ParameterizedTemperatureScaling, Predictions
from calibrant.plots import TemperatureHistogramDisplay

generator = np.random.default_rng(0)
true_logits = generator.normal(scale=2.0, size=(6000, 5))
y = (true_logits + generator.gumbel(size=true_logits.shape)).argmax(axis=1)
gaps = true_logits - true_logits.max(axis=1, keepdims=True)
predictions = Predictions.from_logits(gaps - 0.15 * gaps**2)

fitted = ParameterizedTemperatureScaling(loss="log", random_state=0).fit(predictions, y)
TemperatureHistogramDisplay.from_estimator(fitted, predictions, y).plot()
