"""
Calibration belt
================

The belt contains all polynomial recalibration curves that a likelihood-ratio test does not reject. Predictions are
wrong where it excludes the diagonal: here low probabilities are too low, and high ones too high.
"""

from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB

from calibrant.plots import CalibrationBeltDisplay

X, y = make_classification(
    3000, n_features=12, n_redundant=6, flip_y=0.1, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
p_test = GaussianNB().fit(X_train, y_train).predict_proba(X_test)

CalibrationBeltDisplay.from_predictions(y_test, p_test, name="naive Bayes").plot()
