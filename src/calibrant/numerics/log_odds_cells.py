"""Cells of log-odds: how fine scores are rounded where not every different score can be kept."""

import numpy as np

__all__ = ["cell_width"]

# Cells per unit of log-odds for up to so many classes; fewer for more, so that all classes together stay as large.
CELLS, CLASSES = 2**10, 16


def cell_width(n_classes: int) -> float:
    """Return the width of a cell of log-odds; scores move by at most half of it.

    >>> cell_width(10), cell_width(1000)
    (0.0009765625, 0.0625)
    """
    coarser = max(0, int(np.ceil(np.log2(n_classes / CLASSES))))
    return 2.0**coarser / CELLS
