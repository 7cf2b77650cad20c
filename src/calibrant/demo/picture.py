"""The figure of the demo: reliability diagrams before and after calibration."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calibrant.demo.compared import UNCALIBRATED, Compared
from calibrant.errors import MissingExtraError
from calibrant.plots import ReliabilityDisplay
from calibrant.plots.style import BAR, DIAGONAL, FAINT, INTERVAL, OVER, UNDER

__all__ = ["SHOWN", "draw"]

# Chosen in advance: choosing the best on the test set would be optimistic.
SHOWN = (UNCALIBRATED, "temperature", "auto")


def draw(every: Sequence[Compared], path: Path, methods: Sequence[str] = SHOWN) -> None:
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
    figure = Figure(figsize=(3.7 * len(methods) + 0.5, 4.4 * len(every) + 1.3), dpi=110)
    FigureCanvasAgg(figure)
    inches = figure.get_figheight()
    grid = figure.add_gridspec(
        len(every),
        len(methods),
        left=0.08,
        right=0.98,
        bottom=1.25 / inches,
        top=1 - 1.05 / inches,
        wspace=0.2,
        hspace=0.26,
    )
    for row, compared in enumerate(every):
        for column, method in enumerate(methods):
            cell = grid[row, column].subgridspec(2, 1, height_ratios=[4, 1], hspace=0.08)
            diagram = figure.add_subplot(cell[0])
            counts = figure.add_subplot(cell[1], sharex=diagram)
            _draw_panel(compared, method, (diagram, counts))
            if column > 0:
                diagram.tick_params(labelleft=False)
                diagram.set_ylabel("")
                counts.set_ylabel("")
            if row < len(every) - 1:
                counts.set_xlabel("")
    n_rows = every[0].comparison.n_test_rows
    figure.suptitle(
        f"Are nine in ten predictions with 90 % confidence correct? Handwritten digits, {n_rows} test rows",
        fontsize=14,
        y=1 - 0.18 / inches,
        va="top",
    )
    _draw_legend(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_panel(compared: Compared, method: str, axes: tuple[Any, Any]) -> None:
    result = compared.comparison.result(method)
    display = ReliabilityDisplay.from_predictions(
        compared.classifier.test_labels, result.predictions, kind="confidence"
    )
    display.plot(axes, legend=False, caption=False)
    axes[0].set_title(
        f"{compared.classifier.name}, {method}\n"
        f"confidence-ECE {result.scores['confidence_ece']:.3f}, log-loss {result.scores['log_loss']:.3f}",
        fontsize=11,
    )


def _draw_legend(figure: Any) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure.legend(
        handles=[
            Patch(facecolor=BAR, label="accuracy"),
            Line2D([], [], color=INTERVAL, marker="o", markersize=4, label="95 % interval of the accuracy"),
            Patch(**OVER, label="gap: confidence too high"),
            Patch(**UNDER, label="gap: confidence too low"),
            Patch(facecolor=FAINT, label="bin with fewer than ten rows"),
            Line2D([], [], label="perfectly calibrated", **DIAGONAL),
        ],
        loc="lower center",
        ncols=3,
        frameon=False,
        fontsize=11,
    )
