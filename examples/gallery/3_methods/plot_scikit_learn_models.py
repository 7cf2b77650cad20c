"""
Calibrate scikit-learn classifiers by cross-validation
======================================================

``CalibratedClassifier`` trains a classifier and calibrates it on out-of-fold predictions. Upper row:
classifiers without calibration. Lower row: the same with temperature scaling.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from calibrant import CalibratedClassifier
from calibrant.plots import ReliabilityDisplay

X, y = make_classification(
    3000, n_informative=6, n_redundant=8, n_classes=3, flip_y=0.1, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

models = {
    "naive Bayes": GaussianNB(),
    "random forest": RandomForestClassifier(50, random_state=0),
    "decision tree": DecisionTreeClassifier(max_depth=8, random_state=0),
}
_, axes = plt.subplots(
    2, 3, figsize=(12, 8.5), gridspec_kw={"wspace": 0.3, "hspace": 0.3}
)
for column, (name, model) in zip(axes.T, models.items(), strict=True):
    calibrated = CalibratedClassifier(model, method="temperature", cv=3)
    for ax, one in zip(column, (model, calibrated), strict=True):
        display = ReliabilityDisplay.from_estimator(
            one.fit(X_train, y_train), X_test, y_test, n_bins=8
        )
        display.plot(ax, counts=False, legend=False, caption=False)
    column[0].set_title(name)
