"""
Predictions for three classes on the simplex
============================================

At a corner the probability of its class is one. The colour of a point is the true class.
"""

from calibrant.plots import SimplexDisplay
from calibrant.synthetic import tasks

rows = tasks()["mixed"].sample(2000, random_state=0)
SimplexDisplay.from_predictions(rows.labels, rows.predictions).plot()
