"""Binning of scores: equal-width, equal-mass and fixed bins."""

from calibrant.binning.bins import Bins
from calibrant.binning.cube_root import CubeRoot
from calibrant.binning.equal_mass import EqualMass
from calibrant.binning.equal_width import EqualWidth
from calibrant.binning.fixed_edges import FixedEdges
from calibrant.binning.partition import BinningScheme, Closed, Partition

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
