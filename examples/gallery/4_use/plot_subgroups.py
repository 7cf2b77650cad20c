"""
Calibration in subgroups
========================

Each line is a segment. The interval of observed minus predicted frequency is adjusted for the number of
segments that were searched.
"""

import numpy as np

from calibrant.plots import SubgroupDisplay

generator = np.random.default_rng(0)
n = 6000
columns = {
    "site": generator.choice(["east", "north", "south", "west"], n),
    "age": generator.integers(18, 95, n),
}
p = generator.beta(1, 3, n)
true = np.where((columns["site"] == "north") & (columns["age"] > 75), 0.5 * p, p)
y = (generator.random(n) < true).astype(int)
SubgroupDisplay.from_predictions(y, p, columns, depth=2, n_segments=12).plot()
