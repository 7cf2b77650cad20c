"""
Cumulative differences: neither bins nor smoothing
==================================================

The curve is the cumulative sum of outcome minus score, in the order of the scores. Read the slope: where
the curve falls, predictions are too high. The range of the curve is Kuiper's statistic.
"""

from calibrant.plots import CumulativeDifferenceDisplay
from calibrant.synthetic import tasks

rows = tasks()["over-confident"].sample(3000, random_state=0)
CumulativeDifferenceDisplay.from_predictions(rows.labels, rows.predictions).plot()
