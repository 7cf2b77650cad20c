"""Calibrate the logits of a network by temperature scaling and Dirichlet calibration.

Run it with ``python examples/network_logits.py``. A linear classifier stands in for the last layer of a
network; use any model that gives an (n, K) array of logits.
"""

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from calibrant import DirichletCalibration, Identity, Predictions, TemperatureScaling
from calibrant.metrics import classwise_ece, confidence_ece, log_loss

images, digits = load_digits(return_X_y=True)
images = images / 16
train, rest, train_digits, rest_digits = train_test_split(
    images, digits, train_size=400, stratify=digits, random_state=0
)
validation, test, validation_digits, test_digits = train_test_split(
    rest, rest_digits, train_size=700, stratify=rest_digits, random_state=0
)

# Hardly regularised, so overconfident like a network trained to zero training loss.
network = LogisticRegression(C=1e4, max_iter=5000).fit(train, train_digits)

# Fit the calibrators on the calibration set, evaluate them on the test set.
validation_logits = Predictions.from_logits(network.decision_function(validation))
test_logits = Predictions.from_logits(network.decision_function(test))

for calibrator in (
    Identity(),
    TemperatureScaling(),
    DirichletCalibration(penalty="l2"),
):
    calibrator.fit(validation_logits, validation_digits)
    p = calibrator.predict_proba(test_logits)  # ndarray (n, K)
    print(
        f"{type(calibrator).__name__:20}"
        f"  log-loss {log_loss(test_digits, p):.3f}"
        f"  confidence-ECE {confidence_ece(test_digits, p):.3f}"
        f"  classwise-ECE {classwise_ece(test_digits, p):.3f}"
    )
