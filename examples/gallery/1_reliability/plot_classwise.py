"""
One reliability diagram per class
=================================

A classifier can be calibrated for its predicted class and miscalibrated for single classes. The worst
classes come first. A star marks errors that are significant at the 5 % level.
"""

from calibrant.plots import ClasswiseReliabilityDisplay
from calibrant.synthetic import tasks

rows = tasks()["asymmetric"].sample(5000, random_state=0)
ClasswiseReliabilityDisplay.from_predictions(rows.labels, rows.predictions).plot()
