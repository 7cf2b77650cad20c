"""
Calibrate a model of tabular data
=================================

A random forest ranks cells well, but its probabilities are too cautious. This tutorial measures the error,
calibrates the forest, and checks the result on a test set.
"""

# %%
# Data and model
# --------------
#
# Calibration needs rows that the model was not trained on. Keep a test set as well, to check the result.

from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

X, y = make_classification(
    4000,
    n_features=20,
    n_informative=8,
    n_classes=3,
    n_clusters_per_class=2,
    flip_y=0.05,
    random_state=0,
)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, test_size=0.5, stratify=y, random_state=0
)
forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(
    X_train, y_train
)

# %%
# Measure
# -------
#
# The log-loss and the Brier score are proper scores: no probabilities beat the true ones on average. The
# calibration error (ECE) measures calibration alone. A test tells whether the error could be noise.

from calibrant.hypothesis_tests import cumulative_test
from calibrant.metrics import accuracy, brier_score, confidence_ece, log_loss

p = forest.predict_proba(X_test)
for metric in (accuracy, log_loss, brier_score, confidence_ece):
    print(f"{metric.__name__:15} {metric(y_test, p):.3f}")
print(f"p-value         {cumulative_test(y_test, p).p_value:.2g}")

# %%
# The reliability diagram shows the kind of the error. Bars above the diagonal are predictions that are too
# low: the forest is under-confident, because it averages the votes of many trees.

from calibrant.plots import ReliabilityDisplay

ReliabilityDisplay.from_predictions(y_test, {"random forest": p}, n_bins=10).plot()

# %%
# Calibrate
# ---------
#
# ``CalibratedClassifier`` trains the forest and calibrates it on out-of-fold predictions, so no extra
# calibration set is needed. With ``ensemble=False`` the result is one forest, trained on all training rows,
# and one calibrator.

from calibrant import CalibratedClassifier

calibrated = CalibratedClassifier(
    forest, method="temperature", cv=3, ensemble=False
).fit(X_train, y_train)
q = calibrated.predict_proba(X_test)
for metric in (accuracy, log_loss, brier_score, confidence_ece):
    print(f"{metric.__name__:15} {metric(y_test, p):.3f} -> {metric(y_test, q):.3f}")

# %%
# Temperature scaling divides all logits by one number, so the predicted class and the accuracy stay the
# same.

ReliabilityDisplay.from_predictions(
    y_test, {"uncalibrated": p, "temperature": q}, n_bins=10
).plot()

# %%
# Does another method do better?
# ------------------------------
#
# ``compare`` cross-validates methods on the same folds and pairs their losses row by row. Give it
# out-of-fold predictions of the training rows: the test set must not choose the method.

from sklearn.model_selection import cross_val_predict

from calibrant.comparison import compare

out_of_fold = cross_val_predict(forest, X_train, y_train, method="predict_proba", cv=3)
print(
    compare(
        y_train,
        out_of_fold,
        ["temperature", "shared-vector", "dirichlet-l2", "isotonic"],
    )
)

# %%
# Next: :doc:`/methods` says when to use which method, :doc:`/scikit_learn` has pipelines, groups and grid
# search, and :doc:`/saving` and :doc:`/export` bring the calibrator to where the model runs.
