"""
Audit the probabilities of a model
==================================

You have a file with predictions and outcomes, and no access to the model. Are its probabilities right, for
whom are they wrong, and how certain is that?
"""

# %%
# The data
# --------
#
# A clinic predicts the probability of a readmission. The model is wrong for patients above 75 of one site;
# an auditor does not know that.

import numpy as np

generator = np.random.default_rng(0)
n = 8000
columns = {
    "site": generator.choice(["east", "north", "south", "west"], n),
    "sex": generator.choice(["f", "m"], n),
    "age": generator.integers(18, 95, n),
}
p = generator.beta(1.2, 4, n)
wrong = (columns["site"] == "north") & (columns["age"] > 75)
y = (generator.random(n) < np.where(wrong, 0.5 * p, p)).astype(int)

# %%
# Is the model calibrated?
# ------------------------
#
# A calibration error alone does not answer the question, since it is positive for calibrated models too. A
# test compares it with what calibrated predictions would give.

from functools import partial

from calibrant.hypothesis_tests import calibration_slope_intercept, consistency_test
from calibrant.metrics import classwise_ece

ece = partial(classwise_ece, n_bins=10, strategy="quantile")
test = consistency_test(ece, y, p, n_resamples=1000)
print(
    f"ECE {test.statistic:.4f}, expected if calibrated {test.null_mean:.4f}, p = {test.p_value:.3f}"
)
print(calibration_slope_intercept(y, p))

# %%
# The diagram looks nearly perfect, because the error affects few patients.

from calibrant.plots import ReliabilityDisplay

ReliabilityDisplay.from_predictions(
    y, p, strategy="quantile", n_bins=10, mode="consistency"
).plot()

# %%
# For whom is it wrong?
# ---------------------
#
# The p-values of the segments are adjusted for the search: the probability of any false alarm is at most 5
# %.

from calibrant.hypothesis_tests import subgroup_calibration

found = subgroup_calibration(y, p, columns, depth=2, random_state=0)
print(found)

# %%
# The plot shows the segments with the smallest p-values, with intervals that hold for all segments
# together.

import matplotlib.pyplot as plt

worst = np.argsort(found.p_value)[:8][::-1]
difference, low, high = found.difference[worst], found.low[worst], found.high[worst]
figure, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.errorbar(
    difference, range(8), xerr=[difference - low, high - difference], fmt="o", capsize=3
)
ax.axvline(0, color="grey", linestyle=":")
ax.set(
    yticks=range(8),
    yticklabels=[found.segment[i] for i in worst],
    xlabel="observed minus predicted frequency",
)

# %%
# How certain is the result?
# --------------------------
#
# A test that does not reject may have had too few rows. This is the smallest error that 8,000 rows show
# with a power of 80 %:

from calibrant.hypothesis_tests import smallest_detectable_error

print(smallest_detectable_error(p))

# %%
# Repair
# ------
#
# ``Multicalibration`` corrects the segments whose held-out rows confirm an error.

from calibrant.multicalibration import Multicalibration

first, second = slice(0, n // 2), slice(n // 2, n)
half = {
    part: {name: values[rows] for name, values in columns.items()}
    for part, rows in enumerate((first, second))
}
fitted = Multicalibration(depth=2).fit(p[first], y[first], half[0])
corrected = fitted.predict_proba(p[second], half[1])[:, 1]
affected = wrong[second]
print(
    f"predicted {p[second][affected].mean():.3f}, corrected {corrected[affected].mean():.3f}, "
    f"observed {y[second][affected].mean():.3f}"
)

# %%
# ``calibrant report predictions.csv`` writes an audit of a file as one HTML page, see :doc:`/report`. More
# on :doc:`/hypothesis_tests` and :doc:`/subgroups`.
