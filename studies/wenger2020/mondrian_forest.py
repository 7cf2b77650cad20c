"""Mondrian forest, and active learning with one: the forest of the paper has no library any more that installs."""

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from calibrant import Calibrator, GaussianProcessCalibration, registry
from calibrant.conventions import convention

__all__ = ["MondrianForest", "MondrianTree", "active_learning"]

NO_CHILD = -1


class MondrianTree(NamedTuple):
    """Nodes as arrays: the box of the rows of each, its children, how long it lived, shares of the classes."""

    left: NDArray[np.int64]
    right: NDArray[np.int64]
    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    life: NDArray[np.float64]
    lower: NDArray[np.float32]
    upper: NDArray[np.float32]
    shares: NDArray[np.float64]

    @classmethod
    def grow(
        cls, X: NDArray[np.float32], codes: NDArray[np.int64], n_classes: int, generator: np.random.Generator
    ) -> "MondrianTree":
        """Cut boxes at random until the rows of each are of one class.

        A box is cut after a time that is exponential with the sum of its sides as rate, across a side drawn by length, at a
        uniform place. All boxes of one depth are cut at a time.
        """
        order, starts = np.arange(len(X)), np.array([0])
        levels: list[tuple[NDArray[Any], ...]] = []
        n_nodes = 1
        while len(starts):
            rows = X[order]
            sizes = np.diff(np.append(starts, len(order)))
            node_of_row = np.repeat(np.arange(len(starts)), sizes)
            lower, upper = np.minimum.reduceat(rows, starts), np.maximum.reduceat(rows, starts)
            counts = np.zeros((len(starts), n_classes))
            np.add.at(counts, (node_of_row, codes[order]), 1.0)
            sides = (upper - lower).astype(np.float64)
            total = sides.sum(axis=1)
            cut = (counts.max(axis=1) < sizes) & (total > 0)
            life = np.where(
                cut, generator.exponential(size=len(starts)) / np.where(total > 0, total, 1.0), np.inf
            )
            place = generator.uniform(size=len(starts)) * total
            feature = np.minimum((np.cumsum(sides, axis=1) <= place[:, None]).sum(axis=1), X.shape[1] - 1)
            number = np.arange(len(starts))
            low, high = lower[number, feature], upper[number, feature]
            # A cut at the upper end would leave nothing on its other side.
            threshold = np.minimum(
                low + generator.uniform(size=len(starts)) * (high - low), np.nextafter(high, low)
            )
            cut &= high > low
            life = np.where(cut, life, np.inf)
            children = n_nodes + 2 * (np.cumsum(cut) - 1)
            levels.append(
                (
                    np.where(cut, children, NO_CHILD),
                    np.where(cut, children + 1, NO_CHILD),
                    feature,
                    threshold,
                    life,
                    lower,
                    upper,
                    counts / sizes[:, None],
                )
            )
            n_nodes += 2 * int(cut.sum())
            kept = cut[node_of_row]
            right = rows[np.arange(len(rows)), feature[node_of_row]] > threshold[node_of_row]
            side = 2 * (np.cumsum(cut) - 1)[node_of_row] + right
            order, side = order[kept], side[kept]
            sorting = np.argsort(side, kind="stable")
            order, side = order[sorting], side[sorting]
            starts = np.flatnonzero(np.diff(side, prepend=-1))
        return cls(*(np.concatenate(each) for each in zip(*levels, strict=True)))

    def predict_proba(self, X: NDArray[np.float32]) -> NDArray[np.float64]:
        """Average the shares of the boxes on the way of a row, weighted by the chance that it would branch off there."""
        result = np.zeros((len(X), self.shares.shape[1]))
        rows, node = np.arange(len(X)), np.zeros(len(X), dtype=np.int64)
        remaining = np.ones(len(X))
        while len(rows):
            inner = self.left[node] != NO_CHILD
            leaves = ~inner
            result[rows[leaves]] += remaining[leaves, None] * self.shares[node[leaves]]
            rows, node, remaining = rows[inner], node[inner], remaining[inner]
            values = X[rows]
            outside = np.maximum(values - self.upper[node], 0) + np.maximum(self.lower[node] - values, 0)
            branching = -np.expm1(-self.life[node] * outside.sum(axis=1))
            result[rows] += (remaining * branching)[:, None] * self.shares[node]
            remaining = remaining * (1 - branching)
            right = values[np.arange(len(rows)), self.feature[node]] > self.threshold[node]
            node = np.where(right, self.right[node], self.left[node])
        return result


class MondrianForest(ClassifierMixin, BaseEstimator):
    """Mean of Mondrian trees of all rows.

    Parameters
    ----------
    n_estimators : int, default=10
        Trees.
    classes : array, optional
        All classes, if the rows may lack some.
    random_state : int, Generator or None, default=0
        Source of the cuts.

    Notes
    -----
    A tree that is grown with rows one by one has the same distribution as one that is grown with all of them, so a
    forest that is grown anew stands for one that is trained on.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = MondrianForest().fit(X[::2], y[::2])
    >>> bool((forest.predict(X[1::2]) == y[1::2]).mean() > 0.9)
    True
    """

    def __init__(
        self,
        n_estimators: int = 10,
        classes: Any = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.n_estimators = n_estimators
        self.classes = classes
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Grow all trees."""
        rows = np.ascontiguousarray(X, dtype=np.float32)
        self.classes_ = np.unique(y) if self.classes is None else np.sort(np.asarray(self.classes))
        self.n_features_in_ = rows.shape[1]
        codes = np.searchsorted(self.classes_, y)
        generator = np.random.default_rng(self.random_state)
        self.trees_ = [
            MondrianTree.grow(rows, codes, len(self.classes_), generator) for _ in range(self.n_estimators)
        ]
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the mean of the trees."""
        rows = np.ascontiguousarray(X, dtype=np.float32)
        return np.mean([tree.predict_proba(rows) for tree in self.trees_], axis=0)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def active_learning(
    *,
    seed: int,
    data_folder: Path,
    calibrator: str = "none",
    trees: int = 10,
    pretraining: int = 500,
    batch: int = 250,
    threshold: float = 0.25,
    interval: int = 1000,
    calibration_labels: int = 250,
    measured_every: int = 4,
    rows: int | None = None,
) -> dict[str, Any]:
    """Go through the KITTI training rows once and ask for the labels of those whose entropy is high.

    Parameters
    ----------
    seed : int
        Of the order of the rows and of the forests; the same for all calibrators.
    data_folder : Path
        Folder with ``wenger/kitti_features.npz``.
    calibrator : str, default="none"
        ``"none"``, ``"GPcalib"`` (a function of probabilities, as in the paper) or a registry name.
    trees : int, default=10
        Of the forest.
    pretraining : int, default=500
        Labels at the start.
    batch : int, default=250
        Rows that are looked at with one forest.
    threshold : float, default=0.25
        Entropy over that of the uniform distribution, above which a label is asked for.
    interval : int, default=1000
        Labels between the starts of two calibrations, the first of which is after pretraining.
    calibration_labels : int, default=250
        Labels that are kept from the forest for one calibration; the calibrator is fitted to all of them so far.
    measured_every : int, default=4
        Batches between two looks at the test rows.
    rows : int, optional
        Stop after so many training rows.

    Returns
    -------
    dict
        Last values of the number of labels, ECE, error rate and over- and under-confidence on all test rows, and as ``"series"``
        the same after every so many labels, in straight lines between the batches at which they were measured.
    """
    content = np.load(Path(data_folder) / "wenger" / "kitti_features.npz")
    order = np.random.default_rng(seed).permutation(len(content["y_train"]))[:rows]
    X, y = content["X_train"][order], content["y_train"][order]
    X_test, y_test = content["X_test"], content["y_test"]
    classes = np.arange(1 + max(y.max(), y_test.max()))
    ece = convention("wenger2020").confidence_ece
    fitted: Calibrator | None = None
    training, kept = list(range(pretraining)), []
    next_calibration = pretraining if calibrator != "none" else len(X) + 1
    series: dict[str, list[float]] = {name: [] for name in SERIES}

    def probabilities(forest: MondrianForest, rows_of: NDArray[np.float32]) -> NDArray[np.floating]:
        raw = forest.predict_proba(rows_of)
        return raw if fitted is None else np.asarray(fitted.predict_proba(raw))

    def note(forest: MondrianForest) -> None:
        predicted = probabilities(forest, X_test)
        right = predicted.argmax(axis=1) == y_test
        confidence = predicted.max(axis=1)
        values = (
            len(training) + len(kept),
            ece(y_test, predicted),
            1 - right.mean(),
            confidence[~right].mean(),
            1 - confidence[right].mean(),
        )
        for name, value in zip(SERIES, values, strict=True):
            series[name].append(float(value))

    place, wanted, grown_with = pretraining, 0, 0
    for step in count():
        if len(training) > grown_with:
            forest = MondrianForest(trees, classes=classes, random_state=seed).fit(X[training], y[training])
            grown_with = len(training)
        if step % measured_every == 0 or place >= len(X):
            note(forest)
        if place >= len(X):
            break
        here = np.arange(place, min(place + batch, len(X)))
        predicted = probabilities(forest, X[here])
        logs = np.log(np.where(predicted > 0, predicted, 1.0))
        unsure = here[-(predicted * logs).sum(axis=1) / np.log(len(classes)) > threshold]
        for row in unsure.tolist():
            if len(training) + len(kept) >= next_calibration:
                wanted += calibration_labels
                next_calibration += interval
            if wanted:
                kept.append(row)
                wanted -= 1
                if not wanted:
                    fitted = _calibrator(calibrator).fit(forest.predict_proba(X[kept]), y[kept])
            else:
                training.append(row)
        place += batch
    last = {name: values[-1] for name, values in series.items()}
    # On numbers of labels that all seeds share, so that their curves can be averaged.
    grid = np.arange(pretraining, last["queries"] + 1, batch)
    curves = {name: np.interp(grid, series["queries"], values).tolist() for name, values in series.items()}
    return {**last, "series": curves}


SERIES = ("queries", "ece", "error", "overconfidence", "underconfidence")


def _calibrator(name: str) -> Calibrator:
    return GaussianProcessCalibration(scores="given") if name == "GPcalib" else registry.make(name)
