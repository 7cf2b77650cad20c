"""
Temperature scaling: the loss against the temperature
=====================================================

Temperature scaling divides all logits by one number. The loss has one minimum, which the fit finds exactly.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant import Predictions, TemperatureScaling
from calibrant.metrics import log_loss
from calibrant.synthetic import tasks

rows = tasks()["over-confident"].sample(1000, random_state=0)
logits = rows.predictions.log_probabilities
fitted = TemperatureScaling().fit(Predictions.from_logits(logits), rows.labels)

temperatures = np.linspace(0.6, 3, 40)
losses = [
    log_loss(rows.labels, Predictions.from_logits(logits / t)) for t in temperatures
]

_, ax = plt.subplots(layout="constrained")
ax.plot(temperatures, losses)
ax.axvline(1, color="grey", linestyle=":", label="uncalibrated")
ax.axvline(
    fitted.temperature_,
    color="black",
    linestyle="--",
    label=f"fitted, T = {fitted.temperature_:.2f}",
)
ax.set(xlabel="temperature", ylabel="log-loss")
ax.legend()
