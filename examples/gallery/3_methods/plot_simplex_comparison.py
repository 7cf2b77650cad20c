"""
Fitted maps beside the true map
===============================

The true map of a synthetic task is known. The kernel follows its curvature, the Dirichlet map is smoother.
"""

from calibrant import registry
from calibrant.plots import SimplexMapComparisonDisplay
from calibrant.synthetic import tasks

task = tasks()["mixed"]
rows = task.sample(3000, random_state=0)
maps = {"truth": task}
for name in ("dirichlet-l2", "kernel-dirichlet"):
    maps[name] = registry.make(name).fit(rows.predictions, rows.labels)
SimplexMapComparisonDisplay.from_maps(maps).plot()
