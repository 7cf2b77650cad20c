"""
Before and after calibration
============================

Pass a dict of predictions to plot several models on the same axes. The calibrators are fitted on 600 rows
and evaluated on others.
"""

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant import DirichletCalibration, TemperatureScaling
from calibrant.plots import ReliabilityDisplay

X, y = load_digits(return_X_y=True)
X_train, X_rest, y_train, y_rest = train_test_split(
    X, y, train_size=600, stratify=y, random_state=0
)
X_cal, X_test, y_cal, y_test = train_test_split(
    X_rest, y_rest, train_size=600, stratify=y_rest, random_state=0
)
classifier = GaussianNB(var_smoothing=1e-2).fit(X_train, y_train)
p_cal, p_test = classifier.predict_proba(X_cal), classifier.predict_proba(X_test)

predictions = {
    "uncalibrated": p_test,
    "temperature": TemperatureScaling().fit(p_cal, y_cal).predict_proba(p_test),
    "Dirichlet": DirichletCalibration(penalty="l2")
    .fit(p_cal, y_cal)
    .predict_proba(p_test),
}
ReliabilityDisplay.from_predictions(y_test, predictions, n_bins=8).plot()
