"""Measures of a unit: metrics of the calibrated test set, p-values, gains, and errors against a known truth."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.special import xlogy

from calibrant import metrics as metric_functions
from calibrant import registry
from calibrant.arrays import Float64Array, IntArray
from calibrant.conventions import convention, conventions
from calibrant.errors import ParameterError, RecipeError, StudyError
from calibrant.hypothesis_tests.consistency import consistency_tests
from calibrant.metrics import calibration_gain
from calibrant.metrics.declaration import is_declared, options_of, traits_of
from calibrant.predictions import Predictions
from calibrant.space import Space
from calibrant.studies.calibration import Calibrated
from calibrant.studies.data import Truth
from calibrant.studies.outputs import BaseOutputs
from calibrant.studies.schema import close_to
from calibrant.studies.specifications import MeasureSpec
from calibrant.synthetic import TrueErrors, true_errors
from calibrant.synthetic.level_sets import conditional_sizes
from calibrant.synthetic.task import SyntheticTask

__all__ = ["TRUE_NAMES", "check_measure", "higher_by_default", "measure", "measure_all"]


TRUE = "true."
TRUE_NAMES = tuple(
    each.name for each in fields(TrueErrors) if each.name not in ("integration_errors", "n_nodes")
)
CELLS = 128
REPLICATES = 8
FEWEST_PER_CELL = 16


class TrueValues:
    """True errors of calibrated predictions by name, computed at first use.

    Parameters
    ----------
    predictions : Predictions
        Predictions for the test set.
    truth : ndarray of shape (n, K), SyntheticTask or None
        For a task, errors are integrals, which need the map. For true probabilities of the test set they are means over
        rows; conditional errors use up to 128 cells of rows with similar scores.
    apply : function or None
        The fitted map.
    """

    def __init__(
        self,
        predictions: Predictions,
        truth: Truth | None,
        apply: Callable[[Predictions], Predictions] | None,
    ) -> None:
        self._predictions, self._truth, self._apply = predictions, truth, apply
        self._values: dict[str, float] | None = None

    def __getitem__(self, name: str) -> float:
        if self._values is None:
            self._values = self._computed()
        if name not in self._values:
            raise StudyError(
                f"true.{name} needs the task that the rows were drawn from, but only true probabilities of rows are given."
            )
        return self._values[name]

    def _computed(self) -> dict[str, float]:
        truth, apply = self._truth, self._apply
        if truth is None:
            raise StudyError(
                "true errors are known only for generated data with a truth; remove this measure."
            )
        if not isinstance(truth, SyntheticTask):
            return _over_rows(self._predictions, truth)
        if apply is None:
            raise StudyError("true errors of a task need one fitted map; use splits of kind given or random.")
        kind = self._predictions.scores.dtype

        def mapped(points: Float64Array) -> Predictions:
            return apply(Predictions.from_probabilities(points.astype(kind)))

        result = true_errors(truth, mapped)
        return {name: float(getattr(result, name)) for name in TRUE_NAMES}


def _over_rows(predictions: Predictions, truth: Float64Array) -> dict[str, float]:
    given = predictions.probabilities.astype(np.float64)
    given /= given.sum(axis=1, keepdims=True)
    if predictions.space is Space.LOGITS:
        logarithms = predictions.log_probabilities.astype(np.float64)
    else:
        with np.errstate(divide="ignore"):
            logarithms = np.log(given)
    difference = given - truth
    own = np.arange(len(given)), given.argmax(axis=1)
    with np.errstate(invalid="ignore"):
        # A zero costs nothing if the true probability is zero too.
        log_loss = float(-np.where(truth > 0, truth * logarithms, 0.0).sum(axis=1).mean())
    squares = float((difference**2).sum(axis=1).mean())
    distance = float(np.abs(difference).sum(axis=1).mean())
    values = {
        "pointwise_confidence": float(np.abs(difference[own]).mean()),
        "pointwise_classwise": distance / truth.shape[1],
        "multiclass": distance,
        "multiclass_l2": float(np.sqrt(squares)),
        "log_loss": log_loss,
        "excess_log_loss": log_loss + float(xlogy(truth, truth).sum(axis=1).mean()),
        "brier_score": squares + 1 - float((truth**2).sum(axis=1).mean()),
        "excess_brier_score": squares,
        "accuracy": float(truth[own].mean()),
        "lost_accuracy": float((truth.max(axis=1) - truth[own]).mean()),
    }
    scalars = np.column_stack([given[own], given])
    gaps = np.column_stack([difference[own], difference])
    sizes = np.array([_sizes(scalar, gap) for scalar, gap in zip(scalars.T, gaps.T, strict=True)])
    values["confidence"], values["confidence_l2"] = (float(number) for number in sizes[0])
    values["classwise"], values["classwise_l2"] = (float(number) for number in sizes[1:].mean(axis=0))
    return values


def _sizes(scalar: Float64Array, difference: Float64Array) -> tuple[float, float]:
    """Return the mean absolute and the root mean square conditional expectation of a difference given a scalar."""
    n_rows = len(scalar) - len(scalar) % REPLICATES  # replicates of the same size
    if n_rows < REPLICATES * FEWEST_PER_CELL:
        return float("nan"), float("nan")
    cells = min(CELLS, n_rows // (REPLICATES * FEWEST_PER_CELL))
    weights = np.full(n_rows, 1 / n_rows)
    found = conditional_sizes(scalar[:n_rows].copy(), difference[:n_rows].copy(), weights, REPLICATES, cells)
    return found.absolute, float(np.sqrt(max(0.0, found.squared)))


GAIN = "calibration_gain"


def measure(
    spec: MeasureSpec,
    *,
    labels: IntArray,
    predictions: Predictions,
    uncalibrated: Predictions | None = None,
    truth: Truth | None = None,
    apply: Callable[[Predictions], Predictions] | None = None,
    seed: int = 0,
) -> float:
    """Compute one measure of the calibrated test set.

    Parameters
    ----------
    spec : MeasureSpec
        ``metric`` is a name of :mod:`calibrant.metrics`; ``convention.name`` for the metrics of
        :func:`calibrant.conventions.convention`; ``calibration_gain``; or ``true.name`` with a name of
        :class:`~calibrant.synthetic.TrueErrors` if the truth is known. With ``test`` the measure is the p-value of the
        consistency test of that metric with ``resamples`` resamples; ``p_value`` and ``alternative`` among the
        ``parameters`` are options of the test.
    labels : ndarray of shape (n,)
        True classes as column numbers.
    predictions : Predictions
        Calibrated predictions.
    uncalibrated : Predictions, optional
        Uncalibrated predictions, for the gain.
    truth : ndarray or SyntheticTask, optional
        True probabilities of the rows, or the task they were drawn from; then true errors are integrals and need the
        fitted map, ``apply``.
    seed : int
        Random seed of a test.

    Examples
    --------
    >>> spec = MeasureSpec("ll", "kull2019.log_loss")
    >>> round(measure(spec, labels=np.array([0, 1]), predictions=Predictions.parse([[0.5, 0.5]] * 2)), 4)
    0.6931
    """
    if spec.metric.startswith(TRUE):
        values = TrueValues(predictions, truth, apply)
        return _true(spec, values)
    if spec.metric == GAIN:
        if uncalibrated is None:
            raise StudyError(f"measure {spec.name!r}: the gain needs the predictions before calibration.")
        return float(
            calibration_gain(labels, _nameless(uncalibrated), _nameless(predictions), **spec.parameters)
        )
    rows = _nameless(predictions)
    if spec.test:
        return _p_values([spec], labels, rows, seed)[spec.name]
    return float(_function(spec)[0](labels, rows))


def _p_values(
    specs: Iterable[MeasureSpec], labels: IntArray, rows: Predictions, seed: int
) -> dict[str, float]:
    """Return the p-values of consistency tests by name; tests with the same options share the drawn labels."""
    alike: dict[Any, dict[str, Callable[..., float]]] = {}
    for spec in specs:
        function, of_test = _function(spec)
        options = {"n_resamples": spec.resamples, **of_test}
        alike.setdefault(tuple(sorted(options.items())), {})[spec.name] = function
    found: dict[str, float] = {}
    for options, functions in alike.items():
        results = consistency_tests(
            list(functions.values()), labels, rows, random_state=seed, **dict(options)
        )
        found |= {name: float(result.p_value) for name, result in zip(functions, results, strict=True)}
    return found


def measure_all(
    specs: Sequence[MeasureSpec], outputs: BaseOutputs, calibrated: Calibrated, seed: int
) -> dict[str, float]:
    """Compute all measures of a unit, by name."""
    uncalibrated = outputs.uncalibrated() if any(spec.metric == GAIN for spec in specs) else None
    values = TrueValues(calibrated.predictions, outputs.truth, calibrated.apply)
    tests = [spec for spec in specs if spec.test]
    p_values = _p_values(tests, outputs.test_labels, _nameless(calibrated.predictions), seed)
    found = {}
    for spec in specs:
        if spec.metric.startswith(TRUE):
            found[spec.name] = _true(spec, values)
        elif spec.test:
            found[spec.name] = p_values[spec.name]
        else:
            found[spec.name] = measure(
                spec,
                labels=outputs.test_labels,
                predictions=calibrated.predictions,
                uncalibrated=uncalibrated,
                seed=seed,
            )
    return found


def check_measure(spec: MeasureSpec) -> None:
    """Refuse an unknown metric, or options that it does not have.

    >>> check_measure(MeasureSpec("ece", "confidence_ce"))
    Traceback (most recent call last):
    calibrant.errors.RecipeError: measure 'ece': there is no metric 'confidence_ce'; did you mean 'confidence_ece'?
    """
    if spec.metric.startswith(TRUE):
        name = spec.metric.removeprefix(TRUE)
        if name not in TRUE_NAMES:
            raise RecipeError(
                f"measure {spec.name!r}: there is no metric {spec.metric!r}; {close_to(name, TRUE_NAMES, brief=True)}"
            )
        if spec.test or spec.parameters:
            raise RecipeError(f"measure {spec.name!r}: {spec.metric} has no test and no parameters.")
    elif spec.metric == GAIN:
        unknown = sorted(spec.parameters.keys() - {"loss"})
        if unknown or spec.test:
            raise RecipeError(f"measure {spec.name!r}: {GAIN} has only the parameter loss, and no test.")
    else:
        _function(spec)
    if spec.test and (not isinstance(spec.resamples, int) or spec.resamples < 1):
        raise RecipeError(f"measure {spec.name!r}: resamples must be an integer of at least 1.")


def higher_by_default(metric: str, test: bool) -> bool:
    """Return whether larger values are better: for accuracies, gains and p-values.

    >>> higher_by_default("accuracy", False), higher_by_default("kull2019.log_loss", False)
    (True, False)
    """
    if test or metric in (GAIN, f"{TRUE}accuracy"):
        return True
    function = getattr(metric_functions, metric, None)
    return function is not None and is_declared(function) and traits_of(function).higher_is_better


def _function(spec: MeasureSpec) -> tuple[Callable[..., float], dict[str, Any]]:
    """Return the metric with its parameters, and the options of the test."""
    family, dot, name = spec.metric.rpartition(".")
    if not dot:
        if name not in registry.metrics():
            known = [*registry.metrics(), GAIN]
            raise RecipeError(
                f"measure {spec.name!r}: there is no metric {name!r}; {close_to(name, known, brief=True)}"
            )
        function: Callable[..., float] = getattr(metric_functions, name)
    else:
        if family not in conventions():
            raise RecipeError(
                f"measure {spec.name!r}: there is no convention {family!r}; {close_to(family, conventions(), brief=True)}"
            )
        known = sorted(convention(family).metrics)
        if name not in known:
            raise RecipeError(
                f"measure {spec.name!r}: {family} has no metric {name!r}; {close_to(name, known, brief=True)}"
            )
        function = convention(family).metrics[name]
    parameters = dict(spec.parameters)
    of_test: dict[str, Any] = {
        key: parameters.pop(key) for key in ("p_value", "alternative") if spec.test and key in parameters
    }
    chosen = partial(function, **parameters) if parameters else function
    try:
        known = sorted(options_of(function))
        options_of(chosen)
    except ParameterError as error:
        raise RecipeError(f"measure {spec.name!r}: {error}") from error
    unknown = sorted(parameters.keys() - set(known))
    if unknown:
        raise RecipeError(
            f"measure {spec.name!r}: {spec.metric} has no option {unknown[0]!r}; it has {known}."
        )
    return chosen, of_test


def _true(spec: MeasureSpec, values: TrueValues) -> float:
    try:
        return values[spec.metric.removeprefix(TRUE)]
    except StudyError as error:
        raise StudyError(f"measure {spec.name!r}: {error}") from error


def _nameless(predictions: Predictions) -> Predictions:
    return predictions if predictions.classes is None else replace(predictions, classes=None)
