"""Store the outputs of all calibrators, and compare them with those of a later commit.

A restructuring must not change results. ``store`` fits every calibrator to eight synthetic data sets and writes
predictions, fitted attributes, warnings, ``partial_fit`` streams, intervals, latent functions and saved files.
``compare`` computes all of it again and prints the largest differences. ``reference`` writes the small file of
``tests/common/test_stored_outputs.py``. Usage::

    python benchmarks/stored_outputs.py store FOLDER [--names temperature,vector] [--sets two,ten-logits] [--quick]
    python benchmarks/stored_outputs.py compare FOLDER [--names ...] [--sets ...] [--quick]
    python benchmarks/stored_outputs.py reference tests/common/stored_outputs.json

The layout is ``FOLDER/SET/NAME.npz`` for a cell, that is one calibrator on one data set, and ``FOLDER/SET/saved/`` for
the files of ``Calibrator.save``. A cell is written when it is complete, so ``store`` can be interrupted and restarted.
Exceptions are results like any others: their text is stored and compared.

Differences of probabilities are absolute, those of other numbers relative to max(1, abs(stored)).
``compare`` exits with 1 if a difference exceeds 1e-9 (for float32 data 1e-6, attributes 1e-5), or if attributes, texts
or warnings changed. Numbers of solver iterations are shown but not flagged.

Some outputs depend on rounding by more than that, such as unpenalised maps of few rows, which have no unique optimum. To
measure it, compare the unchanged commit with other BLAS kernels: ``OPENBLAS_CORETYPE=SkylakeX python
benchmarks/stored_outputs.py compare FOLDER --record-noise``. With ``--allow-noise``, differences up to ten times those
recorded are counted but not flagged.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy
import sklearn
from numpy.typing import NDArray
from scipy.special import log_softmax, ndtri
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from calibrant import Predictions, load, registry
from calibrant.calibrator import Calibrator
from calibrant.calibrators import (
    BetaCalibration,
    Chain,
    IntraOrderPreserving,
    LabelShift,
    OneVsRest,
    PlattScaling,
    StructuredScaling,
    TopLabel,
    VectorScaling,
    WithIntervals,
)
from calibrant.online import Calibeating, CalibrationMonitor, OnlineBeta, OnlinePlatt
from calibrant.plots import LatentFunctionDisplay

Matrix = NDArray[np.floating]

# Names


# Fitted by minimising a smooth loss; these come first.
PARAMETRIC = (
    "temperature",
    "bias-corrected-temperature",
    "vector",
    "platt",
    "beta",
    "beta-ab",
    "beta-am",
    "quadratic",
    "piecewise-linear",
    "ets",
    "matrix",
    "matrix-l2",
    "matrix-odir",
    "dirichlet",
    "dirichlet-l2",
    "dirichlet-odir",
    "structured-vector",
    "structured-matrix",
    "shared-map",
    "shared-vector",
    "shared-matrix",
    "iop-diagonal",
    "pts",
    "scaling-binning",
)

# Options of parametric methods, and combinators of them, that have no registry name.
VARIANTS: dict[str, Callable[[], Calibrator]] = {
    "temperature-brier": lambda: registry.make("temperature", loss="brier"),
    "temperature-bounded": lambda: registry.make("temperature", bounds=(0.9, 1.1)),
    "vector-without-bias": lambda: VectorScaling(bias=False),
    "platt-smoothed": lambda: PlattScaling(smoothed_targets=True),
    "platt-probability": lambda: PlattScaling(feature="probability"),
    "beta-a": lambda: BetaCalibration(parameters="a"),
    "quadratic-free": lambda: registry.make("quadratic", monotone=False, temperature=False),
    "piecewise-linear-few": lambda: registry.make("piecewise-linear", n_segments=3, mixing=0.0),
    "ets-log": lambda: registry.make("ets", loss="log"),
    "matrix-odir-fixed": lambda: registry.make("matrix-odir", reg_lambda=1e-3, reg_mu=1e-2),
    "matrix-odir-one-fit": lambda: registry.make("matrix-odir", average_folds=False, reg_mu=None),
    "dirichlet-l2-to-identity": lambda: registry.make("dirichlet-l2", reg_lambda=1e-3, center="identity"),
    "dirichlet-l2-to-zero": lambda: registry.make("dirichlet-l2", reg_lambda=1e-3, center="zero"),
    "structured-weak": lambda: StructuredScaling(strength=0.1, n_segments=3, row_knots=2, mixing=0.0),
    "shared-map-unpenalised": lambda: registry.make("shared-map", slope_penalty=0.0, difference_penalty=0.1),
    "iop-diagonal-network": lambda: IntraOrderPreserving(form="network", weight_decay=1e-2),
    "pts-log": lambda: registry.make("pts", loss="log", inputs="logits"),
    "one-vs-rest-platt-shift": lambda: OneVsRest(PlattScaling(), normalisation="shift"),
    "one-vs-rest-beta-project": lambda: OneVsRest(BetaCalibration(), normalisation="project"),
    "top-label-platt": lambda: TopLabel(PlattScaling()),
    "temperature+vector": lambda: registry.make("temperature+vector"),
    "platt+isotonic-cross-fit": lambda: Chain([PlattScaling(), registry.make("isotonic")], cross_fit=3),
    "label-shift": LabelShift,
    "label-shift-confusion": lambda: LabelShift("temperature", method="confusion-soft"),
}

ONLINE: dict[str, Callable[[], Any]] = {
    "online-platt": OnlinePlatt,
    "online-platt-half-life": lambda: OnlinePlatt(half_life=300),
    "online-beta": OnlineBeta,
    "online-beta-small-ball": lambda: OnlineBeta(radius=1.5),
    "calibeating": Calibeating,
    "calibeating-platt": lambda: Calibeating(OnlinePlatt(), half_life=500),
    "calibeating-beta-hedged": lambda: Calibeating(OnlineBeta(), hedged=True, random_state=3),
}
MONITORS: dict[str, Callable[[], Any]] = {
    "monitor": CalibrationMonitor,
    "monitor-change": lambda: CalibrationMonitor("change", run_length=1000),
}

# Patterns of names, sets and parts that would take too long, and why. Intervals that need the bootstrap are absent, too.
LEFT_OUT: tuple[tuple[str, str, str, str], ...] = (
    (
        "dirichlet",
        "hundred-logits",
        "streams*",
        "10,100 free parameters: each of 60 fits runs out of iterations",
    ),
    ("dirichlet-*", "hundred-logits", "streams-more", "10,100 parameters; matrix scaling stands for it"),
    ("matrix-odir-*", "hundred-logits", "streams-more", "10,100 parameters; matrix-odir stands for it"),
)

PARTS = ("fit", "streams", "streams-more", "intervals", "intervals-more")


def all_names() -> list[str]:
    """Return all names, parametric methods first."""
    known = registry.calibrators()
    first = [name for name in PARAMETRIC if name in known]
    others = [name for name in known if name not in PARAMETRIC]
    return list(dict.fromkeys([*first, *VARIANTS, *ONLINE, *MONITORS, *others]))


def make(name: str) -> Calibrator:
    """Return a new calibrator with fixed seeds."""
    calibrator = VARIANTS[name]() if name in VARIANTS else registry.make(name)
    seeds = {key: 0 for key in calibrator.get_params() if key.endswith("random_state")}
    return calibrator.set_params(**seeds)


def is_left_out(name: str, set_name: str, part: str) -> bool:
    """Tell whether a part of a cell takes too long."""
    return any(
        fnmatch(name, names) and fnmatch(set_name, sets) and fnmatch(part, parts)
        for names, sets, parts, _ in LEFT_OUT
    )


def cell_exists(name: str, recipe: "Recipe") -> bool:
    """Tell whether a name is meant for a data set."""
    if name in ONLINE:
        return recipe.n_classes == 2
    if name in MONITORS:
        return recipe.n_classes <= 10
    return not is_left_out(name, recipe.name, "fit")


# Data


@dataclass(frozen=True)
class Recipe:
    """How a data set is drawn."""

    name: str
    n_classes: int
    n_rows: int
    seed: int
    dtype: str = "float64"
    logits: bool = False
    weighted: bool = False
    absent: int | None = None
    zeros: bool = False
    labels: tuple[str, ...] | None = None


RECIPES = (
    Recipe("two", 2, 400, 1),
    Recipe("two-logits32", 2, 400, 2, dtype="float32", logits=True),
    Recipe("three-weights", 3, 600, 3, weighted=True),
    Recipe("three-zeros", 3, 600, 4, zeros=True, labels=("ant", "bee", "owl")),
    Recipe("ten-logits", 10, 1500, 5, logits=True),
    Recipe("ten-32", 10, 1500, 6, dtype="float32"),
    Recipe("ten-absent", 10, 1500, 7, absent=4),
    Recipe("hundred-logits", 100, 2500, 8, logits=True),
)
QUICK_SETS = ("two", "three-weights", "ten-logits")

BATCHES = (3, 7, 15, 25, 50, 75, 100, 125, 150, 150, *[230] * 10)
SHOWN_AFTER = (1, 5, 10, 20)
SAVED_AFTER = 15
LATE_UNTIL = 13  # batches without the last class
N_HELD_OUT = 200
N_TREES = 20  # votes behind probabilities with zeros


class Rows(NamedTuple):
    """Predictions with labels and weights."""

    X: Any
    y: NDArray[Any]
    weights: NDArray[np.float64] | None

    def fit_arguments(self) -> tuple[Any, ...]:
        return (self.X, self.y) if self.weights is None else (self.X, self.y, self.weights)


class DataSet(NamedTuple):
    """Calibration rows, held-out predictions and two streams of batches."""

    recipe: Recipe
    rows: Rows
    held_out: Any
    stream: list[Rows]
    late_stream: list[Rows]


@cache
def data_set(recipe: Recipe) -> DataSet:
    """Return the data of a recipe; they depend on uniform random numbers only."""
    generator = np.random.default_rng([20240, recipe.seed])
    rows = _rows(recipe, generator, recipe.n_rows, recipe.absent)
    ordinary = _scores(recipe, _logits(recipe, generator, N_HELD_OUT - 20))
    held_out = np.concatenate([ordinary, extreme_rows(recipe, 20)])
    stream = [_rows(recipe, generator, size, recipe.absent) for size in BATCHES]
    late = recipe.n_classes - 1
    late_stream = [
        _rows(recipe, generator, size, late if number < LATE_UNTIL else recipe.absent)
        for number, size in enumerate(BATCHES)
    ]
    return DataSet(recipe, rows, _wrapped(recipe, held_out), stream, late_stream)


def _logits(recipe: Recipe, generator: np.random.Generator, n_rows: int) -> Matrix:
    """Return over-confident logits that favour one class per row."""
    shape = (n_rows, recipe.n_classes)
    logits = 1.2 * ndtri(np.clip(generator.random(shape), 1e-12, 1 - 1e-12))
    favoured = (generator.random(n_rows) * recipe.n_classes).astype(np.intp)
    logits[np.arange(n_rows), favoured] += 2.0 + np.log(recipe.n_classes)
    return 1.6 * logits


def _rows(recipe: Recipe, generator: np.random.Generator, n_rows: int, absent: int | None) -> Rows:
    """Return rows with labels from the softmax of 0.6 z + b, never of the absent class."""
    logits = _logits(recipe, generator, n_rows)
    truth = 0.6 * logits + np.linspace(-0.5, 0.5, recipe.n_classes)
    if absent is not None:
        truth[:, absent] = -np.inf
    gumbel = -np.log(-np.log(np.clip(generator.random(truth.shape), 1e-300, 1 - 1e-16)))
    labels = (truth + gumbel).argmax(axis=1)
    weights = 0.25 + 2 * generator.random(n_rows) if recipe.weighted else None
    y = labels if recipe.labels is None else np.array(recipe.labels)[labels]
    return Rows(_wrapped(recipe, _scores(recipe, logits)), y, weights)


def _scores(recipe: Recipe, logits: Matrix) -> Matrix:
    """Return what the classifier of a recipe gives."""
    if recipe.logits:
        return logits.astype(recipe.dtype)
    probabilities = np.exp(log_softmax(logits, axis=1))
    if recipe.zeros:
        votes = np.floor(N_TREES * probabilities + 0.3)
        votes[np.arange(len(votes)), probabilities.argmax(axis=1)] += N_TREES - votes.sum(axis=1)
        probabilities = votes / N_TREES
    return probabilities.astype(recipe.dtype)


def extreme_rows(recipe: Recipe, n_rows: int) -> Matrix:
    """Return rows with zeros, ties and saturated scores, the favoured class going round."""
    n_classes, rows = recipe.n_classes, []
    for number in range(n_rows):
        favoured, second = number % n_classes, (number + 1) % n_classes
        row = np.zeros(n_classes)
        kind = number % 7
        if recipe.logits:
            row[favoured] = (0.0, 50.0, -50.0, 500.0, 3.0, 1e4, 1e-8)[kind]
            row[second] = 3.0 if kind == 4 else row[second]
            row += 1000.0 if kind == 1 else 0.0
        elif kind in (0, 1):
            row[favoured] = 1.0
        elif kind == 2:
            row[:] = 1 / n_classes
        elif kind == 3:
            row[[favoured, second]] = 0.5
        else:
            rest = (1e-12, 1e-30, 1e-300)[kind - 4]
            row[:] = rest / (n_classes - 1)
            row[favoured] = 1 - rest
        rows.append(row)
    return np.array(rows).astype(recipe.dtype)


def _wrapped(recipe: Recipe, scores: Matrix) -> Any:
    if recipe.logits:
        return Predictions.from_logits(scores, classes=recipe.labels)
    if recipe.labels is not None:
        return Predictions.from_probabilities(scores, classes=recipe.labels)
    return scores


# Records


@dataclass
class Record:
    """Everything that one calibrator gives on one data set; keys start with a group such as ``streams/``."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def part(self, key: str) -> Iterator[None]:
        """Record warnings, the time, and an exception instead of raising it."""
        start = time.perf_counter()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                yield
            except Exception as error:
                self.texts[f"{key} failure"] = f"{type(error).__name__}: {error}"
        if seen:
            lines = [f"{warning.category.__name__}: {warning.message}" for warning in seen]
            self.texts[f"{key} warnings"] = json.dumps(lines, indent=0)
        self.seconds[key] = time.perf_counter() - start

    def add(self, key: str, value: Any) -> None:
        """Add a number, an array, text, or a simple object with all its parts."""
        if isinstance(value, Enum):
            self.texts[key] = str(value.value)
        elif isinstance(value, str) or value is None:
            self.texts[key] = str(value)
        elif isinstance(value, bool | int | float | np.generic):
            self._add_array(key, np.asarray(value))
        elif isinstance(value, np.ndarray):
            self._add_array(key, value)
        elif isinstance(value, Predictions):
            self.texts[f"{key}.space"] = str(value.space.value)
            self._add_array(f"{key}.scores", value.scores)
        elif isinstance(value, Calibrator):
            self.add_fitted(key, value)
        elif isinstance(value, Mapping):
            for name, part in value.items():
                self.add(f"{key}.{name}", part)
        elif isinstance(value, list | tuple):
            self._add_sequence(key, value)
        elif is_dataclass(value):
            for part in fields(value):
                self.add(f"{key}.{part.name}", getattr(value, part.name))
        else:
            self.texts[key] = f"a {type(value).__name__}"

    def add_fitted(self, key: str, calibrator: Any) -> None:
        """Add all fitted attributes, properties too; the state of ``partial_fit`` is left out."""
        for name in sorted({*dir(type(calibrator)), *vars(calibrator)}):
            if not name.endswith("_") or name.startswith("_") or name == "memory_":
                continue
            try:
                value = getattr(calibrator, name)
            except AttributeError:
                continue
            if not callable(value) or isinstance(value, Calibrator):
                self.add(f"{key}.{name}", value)

    def _add_array(self, key: str, array: NDArray[Any]) -> None:
        if array.dtype.kind in "biuf":
            self.arrays[_as_note(key)] = np.array(array)
        else:
            self.texts[key] = json.dumps(array.tolist(), default=str)

    def _add_sequence(self, key: str, values: Sequence[Any]) -> None:
        numbers = bool(values) and all(isinstance(value, bool | int | float | np.generic) for value in values)
        if numbers:
            self._add_array(key, np.asarray(values))
            return
        self.texts[f"{key}.length"] = str(len(values))
        for number, value in enumerate(values):
            self.add(f"{key}.{number}", value)

    def save(self, path: Path) -> None:
        """Write to a file that is complete or absent."""
        path.parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps({"texts": self.texts, "seconds": self.seconds})
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez_compressed(
                file, **{f"array {key}": array for key, array in self.arrays.items()}, about=about
            )
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> "Record":
        with np.load(path) as file:
            about = json.loads(str(file["about"]))
            arrays = {key.removeprefix("array "): file[key] for key in file.files if key != "about"}
        return cls(arrays, about["texts"], about["seconds"])


# How a solver arrived somewhere is of interest, but nothing that must stay.
NOTED = ("n_iterations", "n_evaluations", "decrement")


def _as_note(key: str) -> str:
    last = key.rpartition(".")[2]
    is_note = last in NOTED or "second" in last
    return f"notes/{key}" if is_note else key


# Cells


def computed(name: str, data: DataSet, folder: Path) -> Record:
    """Return all outputs of a calibrator on a data set, having saved it in a folder."""
    record = Record()
    with record.part("predictions/cell"):  # so that nothing aborts the run
        add = _add_online if name in ONLINE or name in MONITORS else _add_calibrator
        add(record, name, data, folder)
    return record


def _add_calibrator(record: Record, name: str, data: DataSet, folder: Path) -> None:
    recipe, calibrator = data.recipe, None
    with record.part("predictions/fit"):
        calibrator = make(name).fit(*data.rows.fit_arguments())
    if calibrator is not None and "predictions/fit failure" not in record.texts:
        _add_predictions(record, "predictions/held-out", calibrator, data.held_out)
        with record.part("attributes/fitted"):
            record.add_fitted("attributes/fitted", calibrator)
        with record.part("files/fit"):
            calibrator.save(folder / f"{name}.npz")
        if isinstance(calibrator, LabelShift):
            with record.part("predictions/adapted"):
                record.add("predictions/estimate", calibrator.estimate(data.held_out))
                adapted = calibrator.adapt(data.held_out)
                record.add("predictions/adapted", adapted.predict_proba(data.held_out))
        _add_latent(record, calibrator, data)
        _add_intervals(record, name, data)
    if hasattr(make(name), "partial_fit") and not is_left_out(name, recipe.name, "streams"):
        _add_stream(
            record, "streams/plain", make(name), data, data.stream, saved=folder / f"{name}.stream.npz"
        )
        if not is_left_out(name, recipe.name, "streams-more"):
            _add_stream(record, "streams/half-life", make(name), data, data.stream, half_life=400.0)
            _add_stream(record, "streams/late", make(name), data, data.late_stream)


def _add_predictions(record: Record, key: str, calibrator: Calibrator, X: Any) -> None:
    with record.part(key):
        record.add(key, calibrator.predict_proba(X))
        record.add(f"{key}.transformed", calibrator.transform(X))


def _add_latent(record: Record, calibrator: Calibrator, data: DataSet) -> None:
    for axis in ("log-probabilities", "logits"):
        with record.part(f"plots/{axis}"):
            display = LatentFunctionDisplay.from_estimator(calibrator, data.rows.X, scores=axis, n_points=50)
            record.add(f"plots/{axis}", display.columns())
            record.add(f"plots/{axis}.reference", display.reference)


def _add_intervals(record: Record, name: str, data: DataSet) -> None:
    """Add intervals where they take no bootstrap."""
    if is_left_out(name, data.recipe.name, "intervals"):
        return
    calibrator = make(name)
    own = hasattr(calibrator, "predict_interval")
    with record.part("intervals/sandwich"):
        fitted = WithIntervals(clone(calibrator), "auto" if own else "laplace", n_draws=50, random_state=1)
        fitted.fit(*data.rows.fit_arguments())
        lower, upper = fitted.predict_interval(data.held_out)
        record.add("intervals/sandwich.lower", lower)
        record.add("intervals/sandwich.upper", upper)
        if not own:
            record.add("intervals/sandwich.covariance", fitted.factor_ @ fitted.factor_.T)
            record.add("intervals/sandwich.is_cut", fitted.is_cut_)
            record.add("intervals/sandwich.draws", fitted.draws(data.held_out, 3))
    if own or "intervals/sandwich failure" in record.texts:
        return
    if is_left_out(name, data.recipe.name, "intervals-more"):
        return
    with record.part("intervals/model"):
        fitted = WithIntervals(
            clone(calibrator), "laplace", "model", level=0.8, predictive=True, n_draws=50, random_state=2
        )
        fitted.fit(*data.rows.fit_arguments())
        lower, upper = fitted.predict_interval(data.held_out)
        record.add("intervals/model.lower", lower)
        record.add("intervals/model.upper", upper)
        record.add("intervals/model.mean", fitted.predict_proba(data.held_out))


def _add_stream(
    record: Record,
    key: str,
    calibrator: Any,
    data: DataSet,
    batches: Sequence[Rows],
    *,
    half_life: float | None = None,
    saved: Path | None = None,
) -> None:
    for number, batch in enumerate(batches, start=1):
        with record.part(f"{key}.{number}"):
            first = {"classes": data.recipe.labels} if number == 1 and data.recipe.labels else {}
            calibrator.partial_fit(*batch.fit_arguments(), half_life=half_life, **first)
        if number in SHOWN_AFTER:
            with record.part(f"{key}.{number} predictions"):
                record.add(f"{key}.{number}", calibrator.predict_proba(data.held_out))
        if saved is not None and number == SAVED_AFTER:
            with record.part("files/stream"):
                calibrator.save(saved)
    with record.part(f"{key}.end"):
        record.add_fitted(f"{key}.end", calibrator)


def _add_online(record: Record, name: str, data: DataSet, folder: Path) -> None:
    announced = []
    made: Any = None
    with record.part("streams/online"):
        made = (ONLINE | MONITORS)[name]()
        for batch in data.stream:
            if name in ONLINE:
                announced.append(made.update(batch.X, batch.y))
            else:
                made.update(batch.y, batch.X)
                announced.append(np.array([made.evidence]))
        record.add("streams/online.announced", np.concatenate(announced))
    with record.part("attributes/state"):
        state = made.state()
        record.add("attributes/state", state)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.json").write_text(json.dumps(state), encoding="utf-8")
    if name in ONLINE:
        with record.part("predictions/held-out"):
            record.add("predictions/held-out", made.predict_proba(data.held_out))
    else:
        with record.part("attributes/explained"):
            record.add("attributes/explained", made.explain())


def from_files(name: str, data: DataSet, folder: Path) -> Record:
    """Return predictions of stored files, under the keys of what they should be equal to."""
    record = Record()
    if name in ONLINE:
        with record.part("files/fit"):
            state = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
            made = type(ONLINE[name]()).from_state(state)
            record.add("predictions/held-out", made.predict_proba(data.held_out))
    path = folder / f"{name}.npz"
    if path.exists():
        with record.part("files/fit"):
            record.add("predictions/held-out", load(path).predict_proba(data.held_out))
    path = folder / f"{name}.stream.npz"
    if path.exists():
        with record.part("files/stream"):
            calibrator: Any = load(path)
            for batch in data.stream[SAVED_AFTER:]:
                calibrator.partial_fit(*batch.fit_arguments())
            record.add("streams/plain.20", calibrator.predict_proba(data.held_out))
    return record


# Comparison


GROUPS = ("predictions", "attributes", "streams", "intervals", "plots", "files")
TOLERANCES = {"float64": 1e-9, "float32": 1e-6}
NOISE_FACTOR = 10.0
ATTRIBUTE_TOLERANCES = {"float64": 1e-9, "float32": 1e-5}


@dataclass
class Verdict:
    """Largest difference of every group, and what is wrong."""

    largest: dict[str, float] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    exceeded: dict[str, float] = field(default_factory=dict)
    """Differences above the tolerance, by key."""
    n_notes: int = 0

    def all_flags(self) -> list[str]:
        """Return what changed, as text."""
        return [*self.flags, *(f"{key}: differs by {by:.2g}" for key, by in self.exceeded.items())]

    def without_noise(self, noise: Mapping[str, float]) -> "Verdict":
        """Return the verdict without differences that rounding explains."""
        left = {key: by for key, by in self.exceeded.items() if by > NOISE_FACTOR * noise.get(key, 0.0)}
        return replace(self, exceeded=left)


def tolerance_of(group: str, key: str, dtype: str) -> float:
    """Return the largest difference that is no change."""
    is_attribute = group == "attributes" or ".end." in key
    return (ATTRIBUTE_TOLERANCES if is_attribute else TOLERANCES)[dtype]


def difference(stored: NDArray[Any], now: NDArray[Any]) -> float:
    """Return the largest difference relative to max(1, |stored|), infinity if shapes differ.

    >>> difference(np.array([1.0, np.nan]), np.array([1.5, np.nan]))
    0.5
    """
    if stored.shape != now.shape:
        return float("inf")
    before, after = stored.astype(np.float64).ravel(), now.astype(np.float64).ravel()
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    before, after = before[~same], after[~same]
    if not len(before):
        return 0.0
    with np.errstate(invalid="ignore"):
        parts = np.abs(after - before) / np.maximum(1.0, np.abs(before))
    return float(np.where(np.isfinite(parts), parts, np.inf).max())


def compared(stored: Record, now: Record, files: Record, dtype: str) -> Verdict:
    """Return all differences between a stored cell and one that was just computed."""
    verdict = Verdict()
    _compare_arrays(verdict, stored.arrays, now.arrays, dtype)
    _compare_texts(verdict, stored.texts, now.texts)
    of_files = {key: stored.arrays[key] for key in files.arrays if key in stored.arrays}
    _compare_arrays(verdict, of_files, files.arrays, dtype, group="files")
    # A loaded calibrator gives no warnings of its fit, so only its failures count.
    failures = {key: text for key, text in files.texts.items() if key.endswith("failure")}
    _compare_texts(verdict, {}, {f"{key} of a stored file": text for key, text in failures.items()})
    return verdict


def _compare_arrays(
    verdict: Verdict,
    stored: dict[str, NDArray[Any]],
    now: dict[str, NDArray[Any]],
    dtype: str,
    *,
    group: str | None = None,
) -> None:
    for key in sorted({*stored, *now}):
        own_group = group or key.partition("/")[0]
        if own_group == "notes":
            same = key in stored and key in now and difference(stored[key], now[key]) == 0
            verdict.n_notes += not same and "second" not in key  # durations always differ
            continue
        if key not in now or key not in stored:
            verdict.flags.append(f"{key}: {'added' if key in now else 'vanished'}")
            continue
        if stored[key].dtype != now[key].dtype:
            verdict.flags.append(f"{key}: {stored[key].dtype} became {now[key].dtype}")
        by = difference(stored[key], now[key])
        verdict.largest[own_group] = max(by, verdict.largest.get(own_group, 0.0))
        if by > tolerance_of(own_group, key, dtype):
            verdict.exceeded[f"{key}{' of a stored file' if group else ''}"] = by


def _compare_texts(verdict: Verdict, stored: dict[str, str], now: dict[str, str]) -> None:
    for key in sorted({*stored, *now}):
        before, after = stored.get(key), now.get(key)
        if before != after:
            verdict.flags.append(f"{key}: {_shortened(before)} became {_shortened(after)}")


def _shortened(text: str | None, most: int = 300) -> str:
    if text is None:
        return "nothing"
    flat = " ".join(text.split())
    return repr(flat if len(flat) <= most else f"{flat[:most]}...")


# Commands


def about() -> dict[str, str]:
    """Return the commit and the versions that outputs depend on."""
    here = Path(__file__).resolve().parent
    git = ["git", "-C", str(here)]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "../src"], capture_output=True, text=True, check=False
    )
    return {
        "commit": commit.stdout.strip() + (" with changes" if changed.stdout.strip() else ""),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "sklearn": sklearn.__version__,
        "machine": platform.machine(),
    }


def chosen(arguments: argparse.Namespace) -> list[tuple[str, Recipe]]:
    """Return the cells that the command line asks for, data set by data set."""
    names = arguments.names.split(",") if arguments.names else all_names()
    recipes = list(RECIPES)
    if arguments.sets:
        recipes = [recipe for recipe in recipes if recipe.name in arguments.sets.split(",")]
    elif arguments.quick:
        recipes = [recipe for recipe in recipes if recipe.name in QUICK_SETS]
    if arguments.quick and not arguments.names:
        names = [name for name in names if name in (*PARAMETRIC, *VARIANTS, *ONLINE)]
    # Parametric methods of all sets come first.
    early = [name for name in names if name in (*PARAMETRIC, *VARIANTS, *ONLINE, *MONITORS)]
    late = [name for name in names if name not in early]
    return [
        (name, recipe)
        for part in (early, late)
        for recipe in recipes
        for name in part
        if cell_exists(name, recipe)
    ]


def store(arguments: argparse.Namespace) -> int:
    """Compute all cells that are not stored yet."""
    folder = Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "about.json").exists():
        (folder / "about.json").write_text(json.dumps(about(), indent=2) + "\n", encoding="utf-8")
    seconds: dict[str, float] = defaultdict(float)
    for name, recipe in chosen(arguments):
        path = folder / recipe.name / f"{name}.npz"
        if path.exists():
            continue
        saved = folder / recipe.name / "saved"
        saved.mkdir(parents=True, exist_ok=True)
        for leftover in (f"{name}.npz", f"{name}.stream.npz", f"{name}.json"):  # of an interrupted run
            (saved / leftover).unlink(missing_ok=True)
        start = time.perf_counter()
        record = computed(name, data_set(recipe), saved)
        record.save(path)
        taken = time.perf_counter() - start
        seconds[name] += taken
        failed = [key.removesuffix(" failure") for key in record.texts if key.endswith(" failure")]
        record.seconds.pop("predictions/cell")
        slowest = max(record.seconds, key=record.seconds.__getitem__, default="")
        print(
            f"{name:26} {recipe.name:15} {taken:7.1f} s   slowest {slowest} {record.seconds.get(slowest, 0.0):.1f} s"
            f"   {len(record.arrays)} arrays   failures: {', '.join(failed) or 'none'}",
            flush=True,
        )
    print_seconds(seconds)
    return 0


def compare(arguments: argparse.Namespace) -> int:
    """Compute all cells again and print how they differ from the stored ones."""
    folder = Path(arguments.folder)
    stored_about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    print("stored:", stored_about, "\nnow:   ", about(), "\n")
    columns = "".join(f"{group:>12}" for group in GROUPS)
    print(f"{'name':26} {'set':15}{columns}  iterations  flags")
    seconds: dict[str, float] = defaultdict(float)
    flagged: list[str] = []
    n_cells, n_noisy = 0, 0
    noise_file = folder / "noise.json"
    noise = json.loads(noise_file.read_text(encoding="utf-8")) if noise_file.exists() else {}
    for name, recipe in cells_to_compare(arguments, folder):
        start = time.perf_counter()
        verdict = compared_cell(name, recipe, folder)
        seconds[name] += time.perf_counter() - start
        n_cells += 1
        cell = f"{name} on {recipe.name}"
        if arguments.record_noise:
            known = noise.setdefault(cell, {})
            known.update({key: max(by, known.get(key, 0.0)) for key, by in verdict.exceeded.items()})
        if arguments.allow_noise:
            strict, verdict = verdict, verdict.without_noise(noise.get(cell, {}))
            n_noisy += len(strict.exceeded) - len(verdict.exceeded)
        numbers = "".join(
            f"{verdict.largest[group]:12.1e}" if group in verdict.largest else f"{'-':>12}"
            for group in GROUPS
        )
        iterations = f"{verdict.n_notes} differ" if verdict.n_notes else "same"
        flags = verdict.all_flags()
        print(f"{name:26} {recipe.name:15}{numbers}  {iterations:10}  {len(flags) or ''}", flush=True)
        flagged += [f"{cell}: {flag}" for flag in flags]
    if arguments.record_noise:
        noise_file.write_text(json.dumps(noise, indent=0, sort_keys=True) + "\n", encoding="utf-8")
    if arguments.allow_noise:
        print(
            f"\n{n_noisy} differences within {NOISE_FACTOR:g} times the recorded rounding noise, not flagged"
        )
    print(f"\n{len(flagged)} flagged in {n_cells} cells")
    print("\n".join(flagged))
    print_seconds(seconds)
    return 1 if flagged else 0


def cells_to_compare(arguments: argparse.Namespace, folder: Path) -> list[tuple[str, Recipe]]:
    """Return the chosen cells, and stored ones whose name is no longer known."""
    cells = chosen(arguments)
    if arguments.names or arguments.quick:
        return cells
    recipes = {recipe.name: recipe for recipe in RECIPES}
    wanted = arguments.sets.split(",") if arguments.sets else list(recipes)
    for set_name in wanted:
        for path in sorted((folder / set_name).glob("*.npz")):
            cell = (path.name.removesuffix(".npz"), recipes[set_name])
            if cell not in cells and cell_exists(*cell):
                cells.append(cell)
    return cells


def compared_cell(name: str, recipe: Recipe, folder: Path) -> Verdict:
    """Return how one cell differs from what is stored of it."""
    path = folder / recipe.name / f"{name}.npz"
    if not path.exists():
        return Verdict(flags=["not stored"])
    stored, data = Record.load(path), data_set(recipe)
    with TemporaryDirectory() as temporary:
        now = computed(name, data, Path(temporary))
    files = from_files(name, data, folder / recipe.name / "saved")
    return compared(stored, now, files, recipe.dtype)


# A small file for the tests

REFERENCE_RECIPE = Recipe("reference", 3, 300, 9)
REFERENCE_ROWS = (0, 1, 2, 3, 4, 5, 180, 182, 183, 184)  # the last four are extreme: one-hot, ties, saturated
REFERENCE_AFTER = (5, 20)  # rows are kept after the former, summary statistics after the latter
REFERENCE_LEFT_OUT = ("iop-diagonal-network", "pts", "pts-log")  # networks, whose optimum is not unique


def reference_names() -> list[str]:
    """Return the names in the file for the tests: parametric methods and their variants."""
    return [name for name in (*PARAMETRIC, *VARIANTS) if name not in REFERENCE_LEFT_OUT]


def reference_outputs(name: str) -> dict[str, list[list[float]]]:
    """Return probabilities of a few held-out rows after a fit and along a stream."""
    data = data_set(REFERENCE_RECIPE)
    held_out = data.held_out[list(REFERENCE_ROWS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        outputs = {"fit": make(name).fit(*data.rows.fit_arguments()).predict_proba(held_out).tolist()}
        calibrator: Any = make(name)
        if hasattr(calibrator, "partial_fit"):
            for number, batch in enumerate(data.stream, start=1):
                calibrator.partial_fit(*batch.fit_arguments())
                if number in REFERENCE_AFTER:
                    outputs[f"batch {number}"] = calibrator.predict_proba(held_out).tolist()
    return outputs


def reference(arguments: argparse.Namespace) -> int:
    """Write the reference file of the tests."""
    path = Path(arguments.path)
    outputs = {name: reference_outputs(name) for name in reference_names()}
    lines = [f"{json.dumps(name)}: {json.dumps(_rounded(parts))}" for name, parts in outputs.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


def _rounded(parts: dict[str, list[list[float]]]) -> dict[str, list[list[float]]]:
    return {key: [[float(f"{value:.11g}") for value in row] for row in rows] for key, rows in parts.items()}


def print_seconds(seconds: dict[str, float]) -> None:
    """Print the time that every name took over all data sets."""
    print("\nseconds per name, all sets")
    for name, taken in sorted(seconds.items(), key=lambda item: -item[1]):
        print(f"{name:26} {taken:8.1f}")
    print(f"{'total':26} {sum(seconds.values()):8.1f}")


def parsed_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in (("store", "write outputs"), ("compare", "compute again and compare")):
        command = commands.add_parser(name, help=text)
        command.add_argument("folder", help="folder of stored outputs")
        command.add_argument("--names", help="calibrators, separated by commas")
        command.add_argument("--sets", help="data sets, separated by commas")
        command.add_argument("--quick", action="store_true", help="parametric methods on three data sets")
        if name == "compare":
            either = command.add_mutually_exclusive_group()
            either.add_argument("--record-noise", action="store_true", help="add differences to noise.json")
            either.add_argument("--allow-noise", action="store_true", help="flag no rounding noise")
    command = commands.add_parser("reference", help="write the reference file of the tests")
    command.add_argument("path", help="JSON file")
    return parser.parse_args()


def main() -> int:
    arguments = parsed_arguments()
    # Sums in another order differ in the last digit, so the number of threads is fixed.
    os.environ["CALIBRANT_NUM_THREADS"] = "1"
    with threadpool_limits(1):
        return {"store": store, "compare": compare, "reference": reference}[arguments.command](arguments)


if __name__ == "__main__":
    sys.exit(main())
