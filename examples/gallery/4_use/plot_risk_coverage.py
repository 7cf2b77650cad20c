"""
Selective prediction: error rate against coverage
=================================================

Accept confident rows and refer the others. The curve shows the error rate of the accepted rows. It depends
on the ranking of the confidences, which calibration hardly changes here.
"""

from calibrant import registry
from calibrant.plots import RiskCoverageDisplay
from calibrant.synthetic import tasks

task = tasks()["ten-classes"]
calibration, test = task.sample(2000, random_state=0), task.sample(3000, random_state=1)
models = {
    name: registry.make(name)
    .fit(calibration.predictions, calibration.labels)
    .transform(test.predictions)
    for name in ("uncalibrated", "structured-vector")
}
RiskCoverageDisplay.from_predictions(test.labels, models).plot()
