"""
Calibrate a neural network
==========================

Networks that are trained to zero training loss are over-confident. This tutorial calibrates the logits of a
network by temperature scaling, compares two methods with more parameters, and saves the result. It uses a
network of scikit-learn, so that it runs everywhere. :doc:`/pytorch` has the same steps for PyTorch.
"""

# %%
# Train, and collect logits
# -------------------------
#
# Split the rows into a training set, a calibration set and a test set.

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

X, y = load_digits(return_X_y=True)
X = X / 16 + np.random.default_rng(0).normal(
    0, 0.3, X.shape
)  # noise makes the task harder
X_train, X_rest, y_train, y_rest = train_test_split(
    X, y, train_size=500, stratify=y, random_state=0
)
X_cal, X_test, y_cal, y_test = train_test_split(
    X_rest, y_rest, train_size=600, random_state=0
)
network = MLPClassifier(
    (64,), max_iter=1000, tol=1e-4, learning_rate_init=0.003, random_state=0
).fit(X_train, y_train)


def logits(images):
    """Return the input of the softmax."""
    hidden = np.maximum(images @ network.coefs_[0] + network.intercepts_[0], 0)
    return hidden @ network.coefs_[1] + network.intercepts_[1]


# %%
# Declare that the scores are logits. A bare array means probabilities, and calibrant never guesses.

from calibrant import Predictions
from calibrant.metrics import accuracy, confidence_ece, log_loss

calibration = Predictions.from_logits(logits(X_cal))
test = Predictions.from_logits(logits(X_test))
print(
    f"accuracy {accuracy(y_test, test):.3f}, mean confidence {test.probabilities.max(axis=1).mean():.3f}"
)
print(f"log-loss {log_loss(y_test, test):.3f}, ECE {confidence_ece(y_test, test):.3f}")

# %%
# Fit a temperature
# -----------------

from calibrant import TemperatureScaling
from calibrant.plots import ReliabilityDisplay

temperature = TemperatureScaling().fit(calibration, y_cal)
print(f"temperature {temperature.temperature_:.2f}")
calibrated = temperature.transform(test)
print(
    f"log-loss {log_loss(y_test, calibrated):.3f}, ECE {confidence_ece(y_test, calibrated):.3f}"
)

ReliabilityDisplay.from_predictions(
    y_test, {"network": test, "temperature": calibrated}, n_bins=10
).plot()

# %%
# More parameters
# ---------------
#
# Structured scaling adds one weight and one intercept per class, or a matrix, and shrinks them by a
# penalty. The learning curve shows whether 600 rows are enough for them.

from calibrant import registry
from calibrant.plots import LearningCurveDisplay

for name in ("temperature", "structured-vector", "structured-matrix"):
    fitted = registry.make(name).fit(calibration, y_cal)
    print(f"{name:18} log-loss {log_loss(y_test, fitted.transform(test)):.3f}")

methods = ["temperature", "structured-vector", "structured-matrix"]
LearningCurveDisplay.from_predictions(
    y_cal, calibration, method=methods, sizes=(60, 120, 240, 480)
).plot()

# %%
# Save
# ----
#
# The file holds numbers and text only, never code. ``calibrator.export("calibrator.onnx")`` writes an ONNX
# model, see :doc:`/export`.

from pathlib import Path
from tempfile import TemporaryDirectory

from calibrant import load

with TemporaryDirectory() as folder:
    temperature.save(Path(folder, "calibrator.npz"))
    print(load(Path(folder, "calibrator.npz")).temperature_ == temperature.temperature_)
