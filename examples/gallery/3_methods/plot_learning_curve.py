"""
Learning curve: would more calibration rows help?
=================================================

The loss on held-out rows against the size of the calibration set. One temperature hardly profits from more
than 200 rows. One weight and one intercept per class do.
"""

from calibrant.plots import LearningCurveDisplay
from calibrant.synthetic import tasks

rows = tasks()["asymmetric"].sample(3000, random_state=0)
display = LearningCurveDisplay.from_predictions(
    rows.labels,
    rows.predictions,
    method=["temperature", "vector"],
    sizes=(50, 200, 800, 2400),
)
display.plot()
