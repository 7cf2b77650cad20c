"""Train and calibrate a random forest in one go with CalibratedClassifier.

Run it with ``python examples/random_forest.py``. CalibratedClassifier is an ordinary scikit-learn
classifier: it trains the forest on four fifths of the rows, calibrates it on the last fifth, and does so for
each fifth in turn, so no rows have to be put aside by hand. With ``ensemble=False`` there is one forest,
trained on all rows, and one map, fitted on what forests said about rows they were not trained on.
"""

from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from calibrant import CalibratedClassifier
from calibrant.metrics import accuracy, confidence_ece, log_loss

images, digits = load_digits(return_X_y=True)
train, test, train_digits, test_digits = train_test_split(images, digits, stratify=digits, random_state=0)

forest = RandomForestClassifier(random_state=0)
models = {
    "forest alone": forest,
    "temperature": CalibratedClassifier(forest, method="temperature"),
    "temperature, one map": CalibratedClassifier(forest, method="temperature", ensemble=False),
}
for name, model in models.items():
    p = model.fit(train, train_digits).predict_proba(test)
    print(
        f"{name:20}"
        f"  log-loss {log_loss(test_digits, p):.3f}"
        f"  confidence-ECE {confidence_ece(test_digits, p):.3f}"
        f"  accuracy {accuracy(test_digits, p):.3f}"
    )
