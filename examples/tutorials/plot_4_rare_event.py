"""
Predict the probability of a rare event
=======================================

Two per cent of the rows are positive. The model was trained with class weights, so its probabilities are
far too high. This tutorial calibrates them, chooses a threshold by costs, and shows for which thresholds
the model is useful.
"""

# %%
# Data and model
# --------------

from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

X, y = make_classification(
    30_000, n_informative=5, weights=[0.98], flip_y=0.005, class_sep=0.8, random_state=3
)
X_train, X_rest, y_train, y_rest = train_test_split(
    X, y, train_size=10_000, stratify=y, random_state=0
)
X_cal, X_test, y_cal, y_test = train_test_split(
    X_rest, y_rest, train_size=10_000, stratify=y_rest, random_state=0
)
model = LogisticRegression(class_weight="balanced").fit(X_train, y_train)
p_cal, p_test = model.predict_proba(X_cal)[:, 1], model.predict_proba(X_test)[:, 1]
print(f"mean prediction {p_test.mean():.3f}, observed frequency {y_test.mean():.3f}")

# %%
# Calibrate
# ---------
#
# Do not resample the calibration set: the calibrator learns the true frequency from it. With 200 positive
# rows, a method with two or three parameters is enough.

from calibrant import BetaCalibration
from calibrant.metrics import brier_score, classwise_ece, log_loss

calibrator = BetaCalibration().fit(p_cal, y_cal)
q_test = calibrator.predict_proba(p_test)[:, 1]
print(f"mean prediction {q_test.mean():.3f}, observed frequency {y_test.mean():.3f}")
for metric in (log_loss, brier_score, classwise_ece):
    print(
        f"{metric.__name__:14} {metric(y_test, p_test):.4f} -> {metric(y_test, q_test):.4f}"
    )

# %%
# Bins of equal width would put nearly all rows into the first bin. Use bins with equal numbers of rows, and
# logarithmic axes.

from calibrant.plots import ReliabilityDisplay

display = ReliabilityDisplay.from_predictions(
    y_test,
    {"class weights": p_test, "beta calibration": q_test},
    strategy="quantile",
    n_bins=10,
).plot(counts=False, caption=False)
display.ax_.set(xscale="log", yscale="log", xlim=(1e-3, 1), ylim=(1e-4, 1))

# %%
# Choose a threshold by costs
# ---------------------------
#
# A missed event costs 50, a false alarm 1. With calibrated probabilities, acting is right above 1 / 51,
# about 0.02. The expected costs are then right too, so you can plan with them.

from calibrant.metrics import expected_cost, realised_cost

costs = [[0, 50], [1, 0]]  # rows: do nothing, act; columns: no event, event
for name, p in {"class weights": p_test, "calibrated": q_test}.items():
    print(
        f"{name:14} expected {expected_cost(p, costs):.3f}, realised {realised_cost(y_test, p, costs=costs):.3f}"
    )

# %%
# If the costs are unknown, a decision curve shows for which thresholds the model is useful.

import numpy as np

from calibrant.plots import DecisionCurveDisplay

thresholds = np.linspace(0.005, 0.3, 60)
models = {"class weights": p_test, "calibrated": q_test}
DecisionCurveDisplay.from_predictions(y_test, models, thresholds=thresholds).plot()

# %%
# See :doc:`/imbalanced` and :doc:`/decision_curves`. If the event is rarer or more frequent where the model
# runs, see :doc:`/label_shift`.
