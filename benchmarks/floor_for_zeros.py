"""What a zero should count as: test log-loss after calibration for several floors of log(0).

Forests, trees and nearest neighbours say exactly 0 for most classes. The table shows, averaged over data sets that
come with scikit-learn, how the choice of the floor decides what calibration can do with that. Usage::

    python benchmarks/floor_for_zeros.py
"""

import warnings

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict, train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from calibrant import Predictions, registry
from calibrant.errors import CalibrationWarning
from calibrant.metrics import log_loss

FLOORS = {
    "2.2e-308 (paper)": 2.2250738585072014e-308,
    "2.2e-16 (programs)": 2.2e-16,
    "1e-4": 1e-4,
    "default": None,
}
METHODS = ["temperature", "vector", "dirichlet-odir", "dirichlet-l2"]
CLASSIFIERS = {
    "forest": RandomForestClassifier(random_state=0),
    "neighbours": KNeighborsClassifier(10),
    "tree": DecisionTreeClassifier(min_samples_leaf=5, random_state=0),
}
DATA = {"digits": load_digits, "wine": load_wine, "iris": load_iris, "cancer": load_breast_cancer}
SPLITS = 3


def main() -> None:
    warnings.simplefilter("ignore", CalibrationWarning)
    losses: dict[tuple[str, str, str], list[float]] = {}
    for loader in DATA.values():
        X, y = loader(return_X_y=True)
        for split in range(SPLITS):
            X_train, X_test, y_train, y_test = train_test_split(
                X, y, test_size=0.4, random_state=split, stratify=y
            )
            for classifier, estimator in CLASSIFIERS.items():
                said = cross_val_predict(estimator, X_train, y_train, cv=3, method="predict_proba")
                test = estimator.fit(X_train, y_train).predict_proba(X_test)
                for floor, value in FLOORS.items():
                    calibration = Predictions.from_probabilities(said, floor=value)
                    for method in METHODS:
                        fitted = registry.make(method).fit(calibration, y_train)
                        loss = log_loss(y_test, fitted.predict_proba(test), floor=1e-300)
                        losses.setdefault((classifier, floor, method), []).append(loss)
    print(
        f"mean test log-loss over {len(DATA)} data sets x {SPLITS} splits; zeros of a true class clipped at 1e-300\n"
    )
    print(f"{'classifier':12s}{'floor':22s}" + "".join(f"{method:>16s}" for method in METHODS))
    for classifier in CLASSIFIERS:
        for floor in FLOORS:
            means = [np.mean(losses[classifier, floor, method]) for method in METHODS]
            print(f"{classifier:12s}{floor:22s}" + "".join(f"{mean:16.4f}" for mean in means))


if __name__ == "__main__":
    main()
