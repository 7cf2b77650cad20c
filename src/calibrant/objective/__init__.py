"""Objectives of fits: losses, score maps, penalties, families, and sources of rows."""

from calibrant.objective.family import Family, logits
from calibrant.objective.losses import BrierLoss, CrossEntropy, LogisticLoss, Loss, MultilabelLoss
from calibrant.objective.maps import DiagonalMap, EventMap, FullMap, LogitMap, ScalarMap
from calibrant.objective.objective import ConvexExpansion, Expansion, Objective
from calibrant.objective.penalty import QuadraticPenalty
from calibrant.objective.rows import ArrayRows, Block, FeatureRows, StreamedRows
from calibrant.objective.source import ArraySource, BatchSource, RowSource

__all__ = [
    "ArrayRows",
    "ArraySource",
    "BatchSource",
    "Block",
    "BrierLoss",
    "ConvexExpansion",
    "CrossEntropy",
    "DiagonalMap",
    "EventMap",
    "Expansion",
    "Family",
    "FeatureRows",
    "FullMap",
    "LogisticLoss",
    "LogitMap",
    "Loss",
    "MultilabelLoss",
    "Objective",
    "QuadraticPenalty",
    "RowSource",
    "ScalarMap",
    "StreamedRows",
    "logits",
]
