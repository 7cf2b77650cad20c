"""
A calibration map on the simplex
================================

Every arrow points from a prediction to its calibrated value. Temperature scaling moves all predictions
towards the centre.
"""

from calibrant import TemperatureScaling
from calibrant.plots import SimplexMapDisplay
from calibrant.synthetic import tasks

rows = tasks()["over-confident"].sample(5000, random_state=0)
fitted = TemperatureScaling().fit(rows.predictions, rows.labels)
SimplexMapDisplay.from_estimator(fitted).plot()
