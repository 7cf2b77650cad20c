"""Colours and sizes of all plots, safe for colour blindness."""

from typing import Any

__all__ = [
    "BAR",
    "DIAGONAL",
    "FAINT",
    "INK",
    "INTERVAL",
    "LABEL_SIZE",
    "MARKERS",
    "OVER",
    "SERIES",
    "TITLE_SIZE",
    "UNDER",
    "look",
]

# Okabe and Ito (2008), without black, which is used for diagonals and intervals.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of several models on the same axes, in their order."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Markers that go with the colours, for prints in black and white."""

BAR = "#9dbfdc"
OVER: dict[str, Any] = {"edgecolor": "#d55e00", "facecolor": "#f5cdb0", "hatch": "//"}
"""Style of gaps where predictions are too high."""
UNDER: dict[str, Any] = {"edgecolor": "#009e73", "facecolor": "#8ccfb9", "hatch": "\\\\"}
"""Style of gaps where predictions are too low."""

INK = "#222222"
INTERVAL = "#222222"
FAINT = "#b8b8b8"
DIAGONAL: dict[str, Any] = {"color": "#222222", "linestyle": "--", "linewidth": 1.1}

TITLE_SIZE = 11
LABEL_SIZE = 10


def look(number: int) -> tuple[str, str]:
    """Return colour and marker of one of several models; after seven they repeat in other combinations.

    >>> look(0), look(7)
    (('#0072b2', 'o'), ('#0072b2', 's'))
    """
    return SERIES[number % len(SERIES)], MARKERS[(number + number // len(SERIES)) % len(MARKERS)]
