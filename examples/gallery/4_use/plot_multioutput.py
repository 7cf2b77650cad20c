"""
Several class labels per row
============================

One forest predicts the digit in an image and whether the digit is odd. Each output has a calibrator of its own; the
forest is under-confident in both, and more so in the digit.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from calibrant import MultioutputCalibration
from calibrant.plots import ReliabilityDisplay

X, digit = load_digits(return_X_y=True)
Y = np.column_stack([digit, digit % 2])
X_train, X_rest, Y_train, Y_rest = train_test_split(X, Y, test_size=0.6, random_state=0)
X_fit, X_test, Y_fit, Y_test = train_test_split(
    X_rest, Y_rest, test_size=0.5, random_state=0
)

forest = RandomForestClassifier(min_samples_leaf=3, random_state=0).fit(
    X_train, Y_train
)
calibration = MultioutputCalibration("temperature").fit(
    forest.predict_proba(X_fit), Y_fit
)
before = forest.predict_proba(X_test)
after = calibration.predict_proba(before)

figure, axes = plt.subplots(1, 2, figsize=(9, 4.5), layout="constrained")
for k, (ax, name) in enumerate(zip(axes, ["digit", "odd"], strict=True)):
    ReliabilityDisplay.from_predictions(
        Y_test[:, k],
        {f"{name}, forest": before[k], f"{name}, temperature": after[k]},
        n_bins=8,
    ).plot(ax=ax)
