"""Measures of a unit: metrics of calibrated test rows, p-values, gains, and errors against a known truth."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

from calibrant import metrics as metric_functions
from calibrant import registry
from calibrant.arrays import IntArray
from calibrant.conventions import convention, conventions
from calibrant.errors import ParameterError, RecipeError, StudyError
from calibrant.hypothesis_tests import consistency_test
from calibrant.metrics import calibration_gain
from calibrant.metrics.declaration import is_declared, options_of, traits_of
from calibrant.predictions import Predictions
from calibrant.studies.calibration import Calibrated
from calibrant.studies.data_rows import Truth
from calibrant.studies.outputs_parts import BaseOutputs
from calibrant.studies.specifications import MeasureSpec
from calibrant.studies.true_measures import TRUE, TRUE_NAMES, TrueValues

__all__ = ["check_measure", "higher_by_default", "measure", "measure_all"]

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
    """Return one number about calibrated test rows.

    Parameters
    ----------
    spec : MeasureSpec
        ``metric`` is a name of :mod:`calibrant.metrics`; ``convention.name`` for the metrics of
        :func:`calibrant.conventions.convention`; ``calibration_gain``; or ``true.name`` with a name of
        :class:`~calibrant.synthetic.TrueErrors` for data whose truth is known. With ``test`` it is the p-value of the
        consistency test of that metric, with ``resamples`` draws; ``parameters`` that the metric does not have, such as
        ``p_value``, are options of the test.
    labels : ndarray of shape (n,)
        True classes as column numbers.
    predictions : Predictions
        After calibration.
    uncalibrated : Predictions, optional
        Before it, for the gain.
    truth : ndarray or SyntheticTask, optional
        True probabilities of the rows, or the task they were drawn from: then true errors are integrals over all
        predictions, for which ``apply`` is needed, the fitted map.
    seed : int
        Of the draws of a test.

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
    function, of_test = _function(spec)
    rows = _nameless(predictions)
    if spec.test:
        result = consistency_test(
            function, labels, rows, n_resamples=spec.resamples, random_state=seed, **of_test
        )
        return float(result.p_value)
    return float(function(labels, rows))


def measure_all(
    specs: Sequence[MeasureSpec], outputs: BaseOutputs, calibrated: Calibrated, seed: int
) -> dict[str, float]:
    """Return all measures of a unit by name."""
    uncalibrated = outputs.uncalibrated() if any(spec.metric == GAIN for spec in specs) else None
    values = TrueValues(calibrated.predictions, outputs.truth, calibrated.apply)
    found = {}
    for spec in specs:
        if spec.metric.startswith(TRUE):
            found[spec.name] = _true(spec, values)
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
    """Refuse a measure that does not exist, or options that it does not have.

    >>> check_measure(MeasureSpec("ece", "confidence_ce"))
    Traceback (most recent call last):
    calibrant.errors.RecipeError: measure 'ece': there is no metric 'confidence_ce'; did you mean 'confidence_ece'?
    """
    if spec.metric.startswith(TRUE):
        name = spec.metric.removeprefix(TRUE)
        if name not in TRUE_NAMES:
            raise RecipeError(
                f"measure {spec.name!r}: there is no metric {spec.metric!r}; {_hint(name, TRUE_NAMES)}"
            )
        if spec.test or spec.parameters:
            raise RecipeError(f"measure {spec.name!r}: {spec.metric} has no test and no parameters.")
    elif spec.metric == GAIN:
        unknown = sorted(spec.parameters.keys() - {"loss"})
        if unknown or spec.test:
            raise RecipeError(f"measure {spec.name!r}: {GAIN} has the parameter loss alone, and no test.")
    else:
        _function(spec)
    if spec.test and (not isinstance(spec.resamples, int) or spec.resamples < 1):
        raise RecipeError(f"measure {spec.name!r}: resamples must be a whole number of at least 1.")


def higher_by_default(metric: str, test: bool) -> bool:
    """Tell whether more is better: accuracies, gains and p-values.

    >>> higher_by_default("accuracy", False), higher_by_default("kull2019.log_loss", False)
    (True, False)
    """
    if test or metric in (GAIN, f"{TRUE}accuracy"):
        return True
    function = getattr(metric_functions, metric, None)
    return function is not None and is_declared(function) and traits_of(function).higher_is_better


def _function(spec: MeasureSpec) -> tuple[Callable[..., float], dict[str, Any]]:
    """Return the metric with its parameters, and those parameters that are options of the test."""
    family, dot, name = spec.metric.rpartition(".")
    if not dot:
        if name not in registry.metrics():
            known = [*registry.metrics(), GAIN]
            raise RecipeError(f"measure {spec.name!r}: there is no metric {name!r}; {_hint(name, known)}")
        function: Callable[..., float] = getattr(metric_functions, name)
    else:
        if family not in conventions():
            raise RecipeError(
                f"measure {spec.name!r}: there is no convention {family!r}; {_hint(family, conventions())}"
            )
        known = sorted(convention(family).metrics)
        if name not in known:
            raise RecipeError(f"measure {spec.name!r}: {family} has no metric {name!r}; {_hint(name, known)}")
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


def _hint(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}."
