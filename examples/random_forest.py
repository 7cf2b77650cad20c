"""Train and calibrate a random forest in one step with CalibratedClassifier.

Run it with ``python examples/random_forest.py``. CalibratedClassifier is an ordinary scikit-learn
classifier: it calibrates the forest by five-fold cross-validation, so you need not hold out a calibration set.
With ``ensemble=False`` the result is one forest, trained on all rows, and one calibrator, fitted on the
out-of-fold predictions.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from calibrant import CalibratedClassifier
from calibrant.metrics import accuracy, confidence_ece, log_loss

images, digits = load_digits(return_X_y=True)
train, test, train_digits, test_digits = train_test_split(
    images, digits, stratify=digits, random_state=0
)

forest = RandomForestClassifier(random_state=0)
models = {
    "uncalibrated": forest,
    "temperature, ensemble": CalibratedClassifier(forest, method="temperature"),
    "temperature, one map": CalibratedClassifier(
        forest, method="temperature", ensemble=False
    ),
}
for name, model in models.items():
    p = model.fit(train, train_digits).predict_proba(test)
    print(
        f"{name:22}"
        f"  log-loss {log_loss(test_digits, p):.3f}"
        f"  confidence-ECE {confidence_ece(test_digits, p):.3f}"
        f"  accuracy {accuracy(test_digits, p):.3f}"
    )
