"""SimplexDisplay: predictions of three classes on the simplex, coloured by true class."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from calibrant.arrays import AnyArray, Float64Array, IntArray
from calibrant.errors import LabelError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.options import check_whole, random_source
from calibrant.plots.display import PredictionDisplay, new_axes
from calibrant.plots.simplex.triangle import ThreeClasses, draw_triangle, planar
from calibrant.plots.style import INK, LABEL_SIZE, MARKERS, SERIES, TITLE_SIZE
from calibrant.shared_parameters import documented

__all__ = ["SimplexDisplay"]

# Rows are drawn in turns, some of every class at a time, so that no class hides the others.
TURNS = 12


@dataclass(eq=False, repr=False)
class SimplexDisplay(PredictionDisplay):
    r"""Plot of predictions of three classes on the simplex, with the colour and shape of the true class.

    At a corner the probability of its class is one, in the centre all are equal. With more than three classes choose three:
    rows of these classes are shown, with probabilities conditional on the three classes,

    .. math:: \frac{p_k}{p_a + p_b + p_c}, \qquad k \in \{a, b, c\} .

    As in figure 5a of :cite:`valk2022`.

    Parameters
    ----------
    points : ndarray of shape (n, 3)
        Probabilities of the rows shown.
    labels : ndarray of shape (n,)
        True class of each row: 0, 1 or 2 for the left, right and upper corner.
    names : tuple of str
        The three classes.
    counts : ndarray of shape (3,)
        Number of rows of each class, including those not shown.

    Examples
    --------
    >>> display = SimplexDisplay.from_predictions([0, 1, 2], [[0.8, 0.1, 0.1], [0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
    >>> display.columns()["label"].tolist(), display.points[1]
    (['0', '1', '2'], array([0.2, 0.5, 0.3]))
    """

    points: Float64Array
    labels: IntArray
    names: tuple[str, ...]
    counts: IntArray

    @classmethod
    @documented
    def from_predictions(
        cls, y_true: Any, y_proba: Any, *, classes: Any = None, max_rows: int = 5000, random_state: Any = 0
    ) -> Self:
        """Create the display from predictions and true classes.

        Parameters
        ----------
        classes : sequence of three labels, optional
            The three classes, in the order left, right, top; required if there are more than three.
        max_rows : int, default=5000
            Largest number of rows shown; with more rows a random sample.
        random_state : int, Generator or None, default=0
            Seed of the sample.
        """
        check_whole("max_rows", max_rows)
        data = LabelledPredictions.parse(y_proba, y_true)
        three = ThreeClasses.of(data.classes, classes)
        place = np.full(data.n_classes, -1)
        place[three.columns] = np.arange(3)
        labels = place[data.labels]
        rows = np.flatnonzero(labels >= 0)
        if len(rows) == 0:
            raise LabelError(
                f"no row has one of the classes {', '.join(three.names)}; choose classes that occur among the labels."
            )
        counts = np.bincount(labels[rows], minlength=3)
        if len(rows) > max_rows:
            rows = np.sort(random_source(random_state).choice(rows, max_rows, replace=False))
        points = three.restricted(data.predictions.take(rows).probabilities)
        return cls(points, labels[rows], three.names, counts)

    def columns(self) -> dict[str, AnyArray]:
        """Return one row per prediction: the probabilities of the three classes and the true class."""
        named = {f"p_{name}": self.points[:, number] for number, name in enumerate(self.names)}
        return {**named, "label": np.array(self.names)[self.labels]}

    def plot(self, ax: Any = None) -> Self:
        self.ax_, self.figure_ = new_axes(ax, (5.2, 5.0))
        draw_triangle(self.ax_, self.names)
        size = float(np.clip(20_000 / len(self.labels), 8, 40))
        order = np.random.default_rng(0).permutation(len(self.labels))
        for rows in np.array_split(order, TURNS):
            for number in range(3):
                x, y = planar(self.points[rows[self.labels[rows] == number]]).T
                self.ax_.scatter(
                    x,
                    y,
                    size,
                    color=SERIES[number],
                    marker=MARKERS[number],
                    alpha=0.65,
                    linewidth=0,
                    zorder=4,
                )
        self._legend()
        drawn, total = len(self.labels), int(self.counts.sum())
        part = f"{total} rows" if drawn == total else f"{drawn} of {total} rows"
        self.ax_.set_title(f"Predictions by true class, {part}", fontsize=TITLE_SIZE, color=INK)
        return self

    def _legend(self) -> None:
        from matplotlib.lines import Line2D

        handles = [
            Line2D(
                [],
                [],
                linestyle="none",
                color=SERIES[k],
                marker=MARKERS[k],
                markersize=6,
                label=f"{name}: {count}",
            )
            for k, (name, count) in enumerate(zip(self.names, self.counts, strict=True))
        ]
        self.ax_.legend(
            handles=handles,
            title="true class: rows",
            loc="upper left",
            frameon=False,
            fontsize=LABEL_SIZE - 1,
        )
