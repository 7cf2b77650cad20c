"""
Class probabilities by true class
=================================

Boxes show the quartiles of each class probability among the rows of each true class, after vector scaling.
"""

from calibrant import VectorScaling
from calibrant.plots import ClassProbabilityBoxDisplay
from calibrant.synthetic import tasks

rows = tasks()["asymmetric"].sample(4000, random_state=0)
fitted = VectorScaling().fit(rows.predictions, rows.labels)
ClassProbabilityBoxDisplay.from_estimator(fitted, rows.predictions, rows.labels).plot()
