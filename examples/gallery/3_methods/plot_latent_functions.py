"""
Functions of one score: temperature, Gaussian process and others
================================================================

These methods apply one function to the log-probability of every class before the softmax. Temperature
scaling is a straight line.
"""

from calibrant import registry
from calibrant.plots import LatentFunctionDisplay
from calibrant.synthetic import tasks

rows = tasks()["mixed"].sample(1000, random_state=0)
names = ("temperature", "gp", "iop-diagonal", "shared-map")
fitted = {
    name: registry.make(name).fit(rows.predictions, rows.labels) for name in names
}
LatentFunctionDisplay.from_estimator(fitted, rows.predictions).plot()
