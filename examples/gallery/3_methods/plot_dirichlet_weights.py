"""
Dirichlet calibration: weights and confusion matrix
===================================================

The left panel shows the fitted matrix, which says which classes the map takes probability from. The right
panel shows how the confusion matrix changes.
"""

from calibrant import DirichletCalibration
from calibrant.plots import LinearMapDisplay
from calibrant.synthetic import tasks

rows = tasks()["confused"].sample(5000, random_state=0)
fitted = DirichletCalibration(penalty="l2").fit(rows.predictions, rows.labels)
LinearMapDisplay.from_estimator(fitted, rows.predictions, rows.labels).plot()
