"""Colours and sizes of all pictures, chosen so that people with any kind of colour vision can read them."""

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

# Okabe and Ito (2008); black comes last, since diagonals and intervals are drawn in it.
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Colours of several models on one axis, in their order."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Shapes that go with the colours, for print without any."""

BAR = "#9dbfdc"
OVER: dict[str, Any] = {"edgecolor": "#d55e00", "facecolor": "#f5cdb0", "hatch": "//"}
"""Where more was promised than happened."""
UNDER: dict[str, Any] = {"edgecolor": "#009e73", "facecolor": "#8ccfb9", "hatch": "\\\\"}
"""Where less was promised than happened."""

INK = "#222222"
INTERVAL = "#222222"
FAINT = "#b8b8b8"
DIAGONAL: dict[str, Any] = {"color": "#222222", "linestyle": "--", "linewidth": 1.1}

TITLE_SIZE = 11
LABEL_SIZE = 10


def look(number: int) -> tuple[str, str]:
    """Return colour and marker of one of several models; after seven they come again in other pairs.

    >>> look(0), look(7)
    (('#0072b2', 'o'), ('#0072b2', 's'))
    """
    return SERIES[number % len(SERIES)], MARKERS[(number + number // len(SERIES)) % len(MARKERS)]
