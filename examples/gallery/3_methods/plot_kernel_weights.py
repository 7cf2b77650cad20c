"""
Kernel calibration: which rows count for a prediction?
======================================================

Kernel calibration averages over similar predictions. The colours show the weights of other predictions
around one point.
"""

from calibrant.plots import KernelWeightsDisplay

KernelWeightsDisplay.from_kernel(
    [0.75, 0.2, 0.05], kernel="dirichlet", bandwidth=0.1
).plot()
