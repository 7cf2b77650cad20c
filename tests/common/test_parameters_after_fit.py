"""A fitted calibrator predicts from its fitted state; parameters that are set later matter in the next fit only."""

import warnings
from copy import deepcopy

import numpy as np
import pytest
from methods import NAMES, problem, settled

# Other values of parameters that are words.
WORDS = {
    "loss": ("log", "brier"),
    "penalty": ("odir", "l2", None),
    "center": ("temperature", "identity", "zero"),
    "parameters": ("abm", "am", "ab", "a"),
    "feature": ("log-odds", "probability"),
    "class_terms": ("matrix", "vector", None),
    "normalisation": ("divide", "shift", "project"),
    "inputs": ("log-probabilities", "logits"),
    "kind": ("diagonal", "invariant", "full"),
    "form": ("piecewise", "network", "one-vs-rest", "top-label"),
    "ties": ("keep", "centered"),
    "strategy": ("uniform", "quantile"),
    "value": ("posterior-mean", "accuracy"),
    "covariance": ("diagonal", "full"),
    "assumption": ("equal-errors", "equal-labels"),
    "crop": ("clip", "outside"),
    "metric": ("kl", "euclidean"),
    "kernel": ("dirichlet", "rbf"),
    "violation_of": ("clipped", "scores"),
}


def other_values(calibrator):
    """Return pairs of a parameter and another value for it."""
    for name, value in calibrator.get_params(deep=False).items():
        if name in ("random_state", "n_jobs", "cv"):
            continue
        if isinstance(value, bool):
            yield name, not value
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield name, value + 1 if isinstance(value, int) else (2 * value or 0.5)
        elif name in WORDS and (value is None or isinstance(value, str)):
            yield from ((name, word) for word in WORDS[name] if word != value)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parameters_that_are_set_after_a_fit_do_not_change_predictions(name, n_classes):
    X, y = problem(n_classes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = settled(name).fit(X, y)
    expected = fitted.predict_proba(X)
    for parameter, value in other_values(fitted):
        changed = deepcopy(fitted)  # which has no graph yet
        changed.set_params(**{parameter: value})
        assert np.array_equal(changed.predict_proba(X), expected), (
            f"{parameter}={value!r} changed a fitted map"
        )
