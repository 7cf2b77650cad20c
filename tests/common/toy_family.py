"""A parametric method as a newcomer would write one: its formula once, and nothing else."""

from typing import Any, ClassVar

import numpy as np

from calibrant.calibrator import Traits
from calibrant.calibrators.parametric import ParametricCalibrator
from calibrant.objective import Family, LogitMap, QuadraticPenalty, logits

__all__ = ["ToyEntropyTemperature"]


class EntropyMap(LogitMap):
    r"""Scores :math:`u = (\theta_1 + \theta_2 h(x))\, x` with h the entropy of the row, as a share of log K."""

    n_parameters = 2

    def identity(self):
        return np.array([1.0, 0.0])

    def traced(self, theta, x):
        entropy = (x.softmax() * x.log_softmax()).row("sum") * (-1 / np.log(self.n_classes))
        return x * (entropy * theta[1] + theta[0])


class ToyEntropyTemperature(ParametricCalibrator):
    """One temperature for certain rows and another one for uncertain rows."""

    traits = Traits(contains_identity=True, shares_parameters=True, uses_raw_logits=True)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"toy-entropy-temperature": {}}

    def family(self, n_classes):
        entropy_costs = QuadraticPenalty(np.array([0.0, 0.03]), np.array([1.0, 0.0]))
        return Family(logits, EntropyMap(n_classes), penalty=entropy_costs)
