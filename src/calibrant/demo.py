"""Demo: three classifiers of handwritten digits, calibrated by every method; ``python -m calibrant.demo``."""

import argparse
import csv
import io
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier

from calibrant import registry
from calibrant.arrays import Float64Array, IntArray
from calibrant.comparison import Comparison, MethodResult, compare
from calibrant.errors import MissingExtraError
from calibrant.persistence.replacing import replacing
from calibrant.plots import ReliabilityDisplay
from calibrant.plots.style import BAR, DIAGONAL, FAINT, INTERVAL, OVER, UNDER
from calibrant.predictions import Predictions
from calibrant.presentation import decimals
from calibrant.presentation.text import table_lines
from calibrant.report import assess

__all__ = [
    "COLUMNS",
    "HIGHER_IS_BETTER",
    "LABEL",
    "PICTURE",
    "PREDICTIONS",
    "REPORT",
    "SHOWN",
    "UNCALIBRATED",
    "Compared",
    "Digits",
    "Scored",
    "as_text",
    "compare_all",
    "draw",
    "footnotes",
    "is_best",
    "main",
    "network_logits",
    "run",
    "scored_classifiers",
]

SEED = 0

# The power of ten with the best five-fold accuracy on the training set. With the default, 1e-9, a pixel that is always
# white for a digit excludes this digit.
NAIVE_BAYES_SMOOTHING = 0.1


@dataclass(frozen=True, eq=False)
class Digits:
    """Images of 8 x 8 pixels in [0, 1] with their labels, in three stratified parts of equal size."""

    train: Float64Array
    train_labels: IntArray
    calibration: Float64Array
    calibration_labels: IntArray
    test: Float64Array
    test_labels: IntArray

    @classmethod
    def split(cls) -> "Digits":
        """Return the 1,797 digits of scikit-learn, with a fixed split."""
        images, labels = load_digits(return_X_y=True)
        images = images / 16
        n_part = len(labels) // 3
        train, rest, train_labels, rest_labels = train_test_split(
            images, labels, train_size=n_part, stratify=labels, random_state=SEED
        )
        calibration, test, calibration_labels, test_labels = train_test_split(
            rest, rest_labels, train_size=n_part, stratify=rest_labels, random_state=SEED
        )
        return cls(train, train_labels, calibration, calibration_labels, test, test_labels)


@dataclass(frozen=True, eq=False)
class Scored:
    """Predictions of a trained classifier for the calibration set and the test set."""

    name: str
    about: str  # settings and the kind of scores in a few words
    n_training_rows: int  # the training set is disjoint from the other two
    calibration: Predictions
    calibration_labels: IntArray
    test: Predictions
    test_labels: IntArray

    @property
    def held_out(self) -> tuple[Predictions, IntArray]:
        """Predictions and labels of all held-out rows."""
        scores = np.concatenate([self.calibration.scores, self.test.scores])
        together = replace(self.calibration, scores=scores)
        return together, np.concatenate([self.calibration_labels, self.test_labels])


def scored_classifiers() -> Iterator[Scored]:
    """Train the classifiers one after the other and yield their predictions."""
    digits = Digits.split()
    bayes = naive_bayes(digits)
    yield _scored(
        "naive Bayes",
        f"GaussianNB(var_smoothing={bayes.var_smoothing}), probabilities",
        digits,
        lambda X: Predictions.from_probabilities(bayes.predict_proba(X)),
    )
    forest = random_forest(digits)
    yield _scored(
        "random forest",
        f"RandomForestClassifier, {forest.n_estimators} trees, probabilities",
        digits,
        lambda X: Predictions.from_probabilities(forest.predict_proba(X)),
    )
    network = neural_network(digits)
    yield _scored(
        "neural network",
        f"MLPClassifier, {network.hidden_layer_sizes[0]} hidden units, trained to 100 % training accuracy, logits",
        digits,
        lambda X: Predictions.from_logits(network_logits(network, X)),
    )


def naive_bayes(digits: Digits) -> GaussianNB:
    """Return naive Bayes, which is over-confident because it treats pixels as independent."""
    return GaussianNB(var_smoothing=NAIVE_BAYES_SMOOTHING).fit(digits.train, digits.train_labels)


def random_forest(digits: Digits) -> RandomForestClassifier:
    """Return a random forest, which is under-confident because its trees rarely agree."""
    return RandomForestClassifier(random_state=SEED).fit(digits.train, digits.train_labels)


def neural_network(digits: Digits) -> MLPClassifier:
    """Return a network with very little weight decay, which overfits the training set."""
    network = MLPClassifier(solver="lbfgs", alpha=1e-5, max_iter=2000, random_state=SEED)
    return network.fit(digits.train, digits.train_labels)


def network_logits(network: MLPClassifier, X: Float64Array) -> Float64Array:
    """Return the logits, (n, K), which scikit-learn's networks do not expose."""
    layers = list(zip(network.coefs_, network.intercepts_, strict=True))
    for weights, intercept in layers[:-1]:
        X = np.maximum(X @ weights + intercept, 0.0)
    weights, intercept = layers[-1]
    logits: Float64Array = X @ weights + intercept
    return logits


def _scored(name: str, about: str, digits: Digits, ask: Callable[[Any], Predictions]) -> Scored:
    return Scored(
        name,
        about,
        len(digits.train_labels),
        ask(digits.calibration),
        digits.calibration_labels,
        ask(digits.test),
        digits.test_labels,
    )


UNCALIBRATED = "uncalibrated"

COLUMNS = {
    "log_loss": "log-loss",
    "brier_score": "Brier",
    "confidence_ece": "conf-ECE",
    "classwise_ece": "class-ECE",
    "accuracy": "accuracy",
}
"""Metrics of the table with their column headings."""

HIGHER_IS_BETTER = {"accuracy"}


@dataclass(frozen=True, eq=False)
class Compared:
    """A classifier with the results of all methods, and the methods that do not support its number of classes."""

    classifier: Scored
    comparison: Comparison
    left_out: tuple[str, ...]

    @property
    def results(self) -> tuple[MethodResult, ...]:
        """Results: the uncalibrated predictions first, then by increasing log-loss."""
        return self.comparison.measured

    def best(self, metric: str) -> MethodResult:
        """Return the result with the best value on the test set; the first of ties."""
        sign = -1.0 if metric in HIGHER_IS_BETTER else 1.0
        return min(self.results, key=lambda result: sign * result.scores[metric])


def compare_all(classifier: Scored) -> Compared:
    """Fit every method of the registry on the calibration set and evaluate it on the test set."""
    makers = {name: registry.make(name) for name in registry.calibrators()}
    n_classes = classifier.calibration.n_classes
    fitting = [name for name, maker in makers.items() if n_classes == 2 or not maker.traits.binary_only]
    comparison = compare(
        classifier.calibration_labels,
        classifier.calibration,
        fitting,
        test=(classifier.test_labels, classifier.test),
    )
    return Compared(classifier, comparison, tuple(name for name in makers if name not in fitting))


WIDTH = 88
BEST = "*"


def as_text(compared: Compared) -> str:
    """Return the heading, table, notes and summary of one classifier."""
    heading = f"{compared.classifier.name}: {compared.classifier.about}"
    lines = [*_wrapped(heading), "", *_table(compared), *_notes(compared), ""]
    return "\n".join([*lines, *_wrapped(summary(compared), indent="")])


def is_best(compared: Compared, result: MethodResult, metric: str) -> bool:
    """Return whether a result prints like the best of its column; ties are all marked."""
    return decimals(result.scores[metric]) == decimals(compared.best(metric).scores[metric])


def summary(compared: Compared) -> str:
    """Summarise which method has the lowest log-loss, which are close to it, and which are worse than uncalibrated."""
    classifier = compared.classifier
    before = compared.comparison.result(UNCALIBRATED).scores["log_loss"]
    best = compared.best("log_loss")
    after = best.scores["log_loss"]
    n_test, n_calibration = len(classifier.test_labels), len(classifier.calibration_labels)
    if best.name == UNCALIBRATED:
        sentences = [
            f"No method fitted on {n_calibration} calibration rows has a lower log-loss on {n_test} test "
            f"rows than the uncalibrated predictions, {decimals(before)}."
        ]
    else:
        gain = "" if math.isinf(before) else f", {100 * (1 - after / before):.0f} % less"
        sentences = [
            f"Fitted on {n_calibration} calibration rows, {best.name} has the lowest log-loss on {n_test} "
            f"test rows: {decimals(after)}, against {decimals(before)} uncalibrated{gain}."
        ]
    near = [result.name for result in compared.comparison.equally_good()]
    if near:
        sentences.append(f"Within two standard errors of the lowest: {', '.join(near)}.")
    else:
        sentences.append("All others are more than two standard errors above it.")
    harmful = [result.name for result in compared.results if result.scores["log_loss"] > before]
    if harmful:
        sentences.append(f"Worse than uncalibrated here: {', '.join(harmful)}.")
    return " ".join(sentences)


def footnotes(every: Iterable[Compared]) -> str:
    """Return explanations of the columns and of special values in the table."""
    every = list(every)
    notes = [
        f"{BEST} best of its column, to the digits shown. All metrics are from the test set; lower is better, "
        "except for accuracy.",
        "conf-ECE: mean gap between the confidence in the predicted class and the accuracy; class-ECE: the same "
        "for the probability of each class, averaged over classes; 15 equal-width bins. Both are positive even "
        "for perfect probabilities, because bins have few rows.",
    ]
    scores = [result.scores["log_loss"] for compared in every for result in compared.results]
    if any(math.isinf(score) for score in scores):
        notes.append(
            "inf: the true class of at least one test row has probability zero, so the log-loss is infinite. It is not "
            "clipped here."
        )
    if any(compared.classifier.calibration.space == "probabilities" for compared in every):
        notes.append("For probabilities, matrix and dirichlet are the same method; they differ for logits.")
    left_out = sorted({name for compared in every for name in compared.left_out})
    if left_out:
        notes.append(f"Not shown, since they are for two classes only: {', '.join(left_out)}.")
    return "\n".join(line for note in notes for line in _wrapped(note))


def _table(compared: Compared) -> list[str]:
    headings = list(COLUMNS.values())
    rows = [["method", *headings, "fit ms"]]
    for result in compared.results:
        marked = [
            decimals(result.scores[metric]) + (BEST if is_best(compared, result, metric) else " ")
            for metric in COLUMNS
        ]
        milliseconds = 1000 * result.seconds
        rows.append([result.name, *marked, f"{milliseconds:.{1 if milliseconds < 9999 else 0}f}"])
    # Headings are aligned with the digits; one character is reserved for the mark.
    rows[0][1:-1] = [f"{heading} " for heading in headings]
    is_numeric = [place > 0 for place in range(len(rows[0]))]
    return table_lines(rows[0], rows[1:], is_numeric, WIDTH)


def _notes(compared: Compared) -> list[str]:
    """Return the warnings of the fits, grouped by message."""
    methods: dict[str, list[str]] = {}
    for result in compared.results:
        for note in result.notes:
            # Warnings begin with the class name, which repeats the registry name.
            methods.setdefault(re.sub(r"^[A-Z]\w+: ", "", note), []).append(result.name)
    notes = [f"Note on {', '.join(names)}: {note}" for note, names in methods.items()]
    return [line for note in notes for line in ["", *_wrapped(note)]]


def _wrapped(text: str, indent: str = "  ") -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent=indent, break_on_hyphens=False)


PREDICTIONS = "predictions.csv"
LABEL = "digit"


def write_predictions(path: Path, predictions: Predictions, labels: NDArray[np.intp]) -> None:
    """Write the true class of every row and its scores, one column per class, as CSV."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([LABEL, *range(predictions.n_classes)])
        writer.writerows(
            [label, *row] for label, row in zip(labels.tolist(), predictions.scores.tolist(), strict=True)
        )
        text.detach()  # the caller closes the stream


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


FOLDER = "calibrant-demo"
PICTURE = "reliability.png"
REPORT = "report.html"


def run(output: Path, write: Callable[[str], object] = print) -> list[Compared]:
    """Compare all methods on all classifiers of the demo, and write the figure, the predictions and the report of the last.

    ``write`` is called with each piece of text as soon as it is available.
    """
    every = []
    for classifier in scored_classifiers():
        compared = compare_all(classifier)
        every.append(compared)
        write(as_text(compared) + "\n\n")
    write(footnotes(every) + "\n")
    _draw(every, output / PICTURE, write)
    _report(every[-1].classifier, output, write)
    return every


def _draw(every: list[Compared], path: Path, write: Callable[[str], object]) -> None:
    try:
        draw(every, path)
    except MissingExtraError as error:
        write(f"No figure was written: {error}")
    else:
        write(f"The figure is in {path}.")


def _report(classifier: Scored, output: Path, write: Callable[[str], object]) -> None:
    """Write the held-out predictions and their report."""
    predictions, labels = classifier.held_out
    path = output / PREDICTIONS
    write_predictions(path, predictions, labels)
    title = f"{classifier.name.capitalize()} on handwritten digits"
    assessment = assess(labels, predictions, title=title)
    write(f"\n{assessment}\n")
    assessment.to_html(output / REPORT)
    write(f"The report is in {output / REPORT}. To create it from a file of predictions:")
    write(f"  {_command(path, predictions)}")


def _command(path: Path, predictions: Predictions) -> str:
    return f"calibrant report {path} --label {LABEL} --space {predictions.space.value} -o {REPORT}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        prog="python -m calibrant.demo",
        description="Train three classifiers on handwritten digits, calibrate them with every method, compare the "
        "methods, plot reliability diagrams and write a report.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(FOLDER),
        metavar="FOLDER",
        help="output folder for the figure and the report (default: %(default)s)",
    )
    output = parser.parse_args(arguments).output
    if output.exists() and not output.is_dir():
        parser.error(f"{output} is a file, not a folder; give a folder.")
    try:
        run(output)
    except OSError as error:
        if error.filename is None:  # not about a file, for example a closed pipe
            raise
        parser.exit(1, f"The files of the demo could not be written: {error}.\n")


if __name__ == "__main__":
    main()
