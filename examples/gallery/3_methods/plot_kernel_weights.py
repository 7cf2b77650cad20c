"""
Kernel calibration: which rows count for a prediction?
======================================================

Kernel calibration averages over similar predictions. The colours show the weights of other predictions
around one point, for the RBF kernel and for the Dirichlet kernel, as in Figure 11 of Valk (2022).
"""

import matplotlib.pyplot as plt

from calibrant.plots import KernelWeightsDisplay

_, axes = plt.subplots(1, 2, figsize=(10, 4.6))
for ax, kernel, bandwidth in zip(axes, ("rbf", "dirichlet"), (30.0, 0.1), strict=True):
    KernelWeightsDisplay.from_kernel(
        [0.75, 0.2, 0.05], kernel=kernel, bandwidth=bandwidth
    ).plot(ax)
