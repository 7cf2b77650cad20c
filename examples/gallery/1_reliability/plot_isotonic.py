"""
Reliability diagram without bins (CORP)
=======================================

The curve is the isotonic regression of outcomes on scores, so there are no bins to choose. The band shows
the curves of calibrated predictions: a curve outside the band is evidence against calibration.
"""

from calibrant.plots import ReliabilityDisplay
from calibrant.synthetic import tasks

rows = tasks()["over-confident"].sample(2000, random_state=0)
display = ReliabilityDisplay.from_predictions(
    rows.labels, rows.predictions, style="isotonic", mode="consistency", n_resamples=200
)
display.plot()
