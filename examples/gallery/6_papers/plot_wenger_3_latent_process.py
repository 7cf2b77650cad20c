"""
A Gaussian process on 100 predictions
=====================================

The latent function that Gaussian-process calibration fits to 100 predictions of four classes, above the
distribution of their log-probabilities. Where there are few scores, the posterior returns to its prior mean,
the identity map, and its band is wide, as in Figure 3 of Wenger et al. (2020).
"""

import numpy as np

from calibrant import registry
from calibrant.plots import LatentFunctionDisplay

generator = np.random.default_rng(0)
p = generator.dirichlet([0.5, 0.5, 0.5, 0.5], 100)
truth = p**0.5 / (p**0.5).sum(axis=1, keepdims=True)
y = (generator.random((100, 1)) > truth.cumsum(axis=1)).sum(axis=1)

fitted = registry.make("gp").fit(p, y)
LatentFunctionDisplay.from_estimator({"Gaussian process": fitted}, p).plot()
