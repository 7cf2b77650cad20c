"""
Calibration in subgroups
========================

Each line is a segment. The interval of observed minus predicted frequency is adjusted for the number of
segments that were searched.
"""

import matplotlib.pyplot as plt
import numpy as np

from calibrant.hypothesis_tests import subgroup_calibration

generator = np.random.default_rng(0)
n = 6000
columns = {
    "site": generator.choice(["east", "north", "south", "west"], n),
    "age": generator.integers(18, 95, n),
}
p = generator.beta(1, 3, n)
true = np.where((columns["site"] == "north") & (columns["age"] > 75), 0.5 * p, p)
y = (generator.random(n) < true).astype(int)
found = subgroup_calibration(y, p, columns, depth=2, random_state=0)

order = np.argsort(found.p_value)[:10][::-1]
difference, low, high = found.difference[order], found.low[order], found.high[order]
_, ax = plt.subplots(figsize=(7, 4))
ax.errorbar(
    difference,
    range(len(order)),
    xerr=[difference - low, high - difference],
    fmt="o",
    capsize=3,
)
ax.axvline(0, color="grey", linestyle=":")
ax.set(
    yticks=range(len(order)),
    yticklabels=[found.segment[i] for i in order],
    xlabel="observed minus predicted frequency",
)
ax.figure.tight_layout()
