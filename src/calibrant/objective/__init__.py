"""What is minimised: a loss after a logit map, plus a penalty, summed over row blocks."""

from calibrant.objective.loss import Loss
from calibrant.objective.losses import BrierLoss, CrossEntropy
from calibrant.objective.maps import DiagonalMap, FullMap, LogitMap, ScalarMap
from calibrant.objective.objective import Expansion, Objective
from calibrant.objective.penalty import QuadraticPenalty

__all__ = [
    "BrierLoss",
    "CrossEntropy",
    "DiagonalMap",
    "Expansion",
    "FullMap",
    "LogitMap",
    "Loss",
    "Objective",
    "QuadraticPenalty",
    "ScalarMap",
]
