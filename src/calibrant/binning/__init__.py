"""Binning of scores: equal-width, equal-mass and fixed bins."""

from calibrant.binning.bins import BinningScheme, Bins, Closed, Partition
from calibrant.binning.schemes import CubeRoot, EqualMass, EqualWidth, FixedEdges

__all__ = [
    "BinningScheme",
    "Bins",
    "Closed",
    "CubeRoot",
    "EqualMass",
    "EqualWidth",
    "FixedEdges",
    "Partition",
]
