"""
Does the ECE depend on the number of bins?
==========================================

The shaded range shows the ECE of calibrated predictions. It grows with the number of bins, because a bin
with few rows is noisy. An ECE within the range is no evidence of miscalibration.
"""

from calibrant.plots import BinSensitivityDisplay
from calibrant.synthetic import tasks

rows = tasks()["asymmetric"].sample(2000, random_state=0)
BinSensitivityDisplay.from_predictions(
    rows.labels, rows.predictions, n_resamples=50
).plot()
