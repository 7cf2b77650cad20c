"""
Dirichlet calibration: interpretation points
============================================

The images of a few points describe the complete map: each arrow starts near the middle of a side or at the
centre of the simplex.
"""

from calibrant import DirichletCalibration
from calibrant.plots import InterpretationPointsDisplay
from calibrant.synthetic import tasks

rows = tasks()["log-linear"].sample(5000, random_state=0)
fitted = DirichletCalibration(penalty="l2").fit(rows.predictions, rows.labels)
InterpretationPointsDisplay.from_estimator(fitted).plot()
