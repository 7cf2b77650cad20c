"""The picture of the demo: reliability diagrams before and after calibration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from calibrant.demo.comparison import UNCALIBRATED, Comparison
from calibrant.demo.reliability import Reliability, reliability
from calibrant.errors import MissingExtraError

__all__ = ["SHOWN", "draw"]

# Settled beforehand: to show the best on the test rows would flatter it.
SHOWN = (UNCALIBRATED, "temperature", "dirichlet-l2")

# Colours of Okabe and Ito, which people with any kind of colour vision can tell apart.
OVER: dict[str, Any] = {"edgecolor": "#d55e00", "facecolor": "#f5cdb0", "hatch": "//"}
UNDER: dict[str, Any] = {"edgecolor": "#009e73", "facecolor": "#8ccfb9", "hatch": "\\\\"}
BAR, INTERVAL = "#9dbfdc", "#222222"


def draw(comparisons: Sequence[Comparison], path: Path, methods: Sequence[str] = SHOWN) -> None:
    """Draw one row per classifier and one column per method, and write it as PNG.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError("matplotlib", "plots") from error
    figure = Figure(figsize=(3.7 * len(methods) + 0.5, 4.4 * len(comparisons) + 1.3), dpi=110)
    FigureCanvasAgg(figure)
    inches = figure.get_figheight()
    grid = figure.add_gridspec(
        len(comparisons),
        len(methods),
        left=0.08,
        right=0.98,
        bottom=1.25 / inches,
        top=1 - 1.05 / inches,
        wspace=0.12,
        hspace=0.26,
    )
    for row, comparison in enumerate(comparisons):
        for column, method in enumerate(methods):
            cell = grid[row, column].subgridspec(2, 1, height_ratios=[4, 1], hspace=0.08)
            diagram = figure.add_subplot(cell[0])
            histogram = figure.add_subplot(cell[1], sharex=diagram)
            result = comparison.result(method)
            numbers = reliability(result.calibrated, comparison.classifier.test_labels)
            _draw_diagram(diagram, numbers)
            _draw_histogram(histogram, numbers)
            diagram.set_title(
                f"{comparison.classifier.name}, {method}\n"
                f"confidence-ECE {result.scores['confidence_ece']:.3f}, log-loss {result.scores['log_loss']:.3f}",
                fontsize=11,
            )
            if column == 0:
                diagram.set_ylabel("share that was right", fontsize=11)
                histogram.set_ylabel("rows", fontsize=11)
            else:
                diagram.tick_params(labelleft=False)
                histogram.tick_params(labelleft=False)
            if row == len(comparisons) - 1:
                histogram.set_xlabel("confidence in the predicted class", fontsize=11)
    n_rows = len(comparisons[0].classifier.test_labels)
    figure.suptitle(
        f"Does a confidence of 90 % mean nine right in ten? {n_rows} test rows of handwritten digits",
        fontsize=14,
        y=1 - 0.18 / inches,
        va="top",
    )
    _draw_legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_diagram(axes: Any, numbers: Reliability) -> None:
    """Draw bars up to the accuracy and, on them, the gap to the mean confidence; empty bins stay blank."""
    bins, filled = numbers.bins, numbers.bins.filled
    left, width = bins.edges[:-1][filled], np.diff(bins.edges)[filled]
    outcome, gap = bins.mean_outcome[filled], bins.gap[filled]
    axes.bar(left, outcome, width, align="edge", color=BAR, edgecolor="white", linewidth=0.8)
    for sign, style in ((-1, OVER), (1, UNDER)):
        chosen = np.sign(gap) == sign
        axes.bar(
            left[chosen],
            -gap[chosen],
            width[chosen],
            bottom=outcome[chosen],
            align="edge",
            linewidth=0.8,
            **style,
        )
    axes.plot([0, 1], [0, 1], color="black", linestyle="--", linewidth=1.1)
    axes.errorbar(
        left + width / 2,
        outcome,
        # Rounding may put an end on the wrong side of the accuracy by 1e-17, which matplotlib refuses.
        yerr=np.maximum([outcome - numbers.low[filled], numbers.high[filled] - outcome], 0),
        fmt="o",
        markersize=3.5,
        color=INTERVAL,
        elinewidth=1.2,
        capsize=2.5,
    )
    axes.set(xlim=(0, 1), ylim=(0, 1.03))
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.tick_params(labelbottom=False, labelsize=10)


def _draw_histogram(axes: Any, numbers: Reliability) -> None:
    """Draw how many rows each bin holds; logarithmic, since the last one often holds nearly all."""
    bins, filled = numbers.bins, numbers.bins.filled
    left, width = bins.edges[:-1][filled], np.diff(bins.edges)[filled]
    axes.bar(left, bins.count[filled], width, align="edge", color="#8c8c8c", edgecolor="white", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylim(0.5, 2 * bins.count.sum())
    axes.set_yticks([1, 10, 100], labels=["1", "10", "100"])
    axes.minorticks_off()
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.tick_params(labelsize=10)


def _draw_legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=BAR, label="share that was right"),
            Line2D([], [], color=INTERVAL, marker="o", markersize=4, label="with its 95 % interval"),
            Patch(**OVER, label="gap: confidence too high"),
            Patch(**UNDER, label="gap: confidence too low"),
            Line2D([], [], color="black", linestyle="--", label="perfectly calibrated"),
        ],
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=11,
    )
