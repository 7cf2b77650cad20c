"""
Consistency bars on the diagonal
================================

In this mode the bars show the range of observed frequencies for calibrated predictions. These rows are
calibrated by construction: the points leave the diagonal because of sampling error only.
"""

from calibrant.plots import ReliabilityDisplay
from calibrant.synthetic import tasks

rows = tasks()["calibrated"].sample(500, random_state=1)
ReliabilityDisplay.from_predictions(
    rows.labels, rows.predictions, mode="consistency", n_bins=10
).plot()
