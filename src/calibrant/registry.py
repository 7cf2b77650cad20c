"""Names for all calibrators and metrics, found rather than listed."""

from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from inspect import getdoc, getmembers, isabstract, isclass, signature
from typing import Any

from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.errors import ParameterError

__all__ = ["about", "calibrator_class", "calibrator_classes", "calibrators", "make", "metrics", "unfitted"]

ENTRY_POINT_GROUP = "calibrant.calibrators"

# What other libraries call a method, for a hint.
ELSEWHERE = {
    "sigmoid": "platt",
    "logistic": "platt",
    "histogram": "width-binning",
    "pbmc": "scaling-binning",
    "gpcalib": "gp",
    "diag": "iop-diagonal",
    "op": "iop",
    "oi": "iop-invariant",
    "knn": "knn-kl",
    "kernel": "kernel-dirichlet",
    "random-forest": "forest",
    "deccal": "decision",
}

COMPOSITIONS: dict[str, str] = {"irova-ts": "temperature+irova"}
"""Names that the literature gives to compositions: registry name -> the parts, joined by ``+``.

``irova-ts`` is the composition of :cite:`zhang2020`; their program fits the temperature to the squared error, which is
``Chain([TemperatureScaling(loss="brier"), IsotonicCalibration(ties="strict")])``.
"""


@cache
def _factories() -> dict[str, tuple[type[Calibrator], dict[str, Any]]]:
    """Return registry name -> (class, parameters it sets), our own first, then plug-ins."""
    factories: dict[str, tuple[type[Calibrator], dict[str, Any]]] = {}
    for cls in _classes().values():
        for name, parameters in cls.registry_names.items():
            factories.setdefault(name, (cls, parameters))
    return factories


@cache
def _classes() -> dict[str, type[Calibrator]]:
    """Return class name -> class for every final calibrator."""
    import calibrant.calibrators as package

    classes = {
        name: member
        for name, member in getmembers(package, isclass)
        if issubclass(member, Calibrator) and not isabstract(member)
    }
    for entry_point in entry_points(group=ENTRY_POINT_GROUP):
        plugin = entry_point.load()
        if not (isclass(plugin) and issubclass(plugin, Calibrator)):
            raise ParameterError(
                f"the plug-in {entry_point.name!r} of group {ENTRY_POINT_GROUP!r} is not a Calibrator class."
            )
        classes.setdefault(plugin.__name__, plugin)
    return classes


def calibrators() -> list[str]:
    """Return the names of all calibrators, plug-ins included, in alphabetical order.

    A package adds its own by an entry point of group ``calibrant.calibrators`` that names a
    :class:`~calibrant.calibrator.Calibrator` class with ``registry_names``.

    >>> "temperature" in calibrators()
    True
    """
    return sorted([*_factories(), *COMPOSITIONS])


def calibrator_class(name: str) -> type[Calibrator]:
    """Return the calibrator class called ``name``, as in a saved file."""
    try:
        return _classes()[name]
    except KeyError:
        raise ParameterError(
            f"there is no calibrator class {name!r}; known are {sorted(_classes())}."
        ) from None


def calibrator_classes() -> list[type[Calibrator]]:
    """Return all calibrator classes, plug-ins included."""
    return list(_classes().values())


def make(name: str, **parameters: Any) -> Calibrator:
    """Return a new calibrator by its registry name; ``+`` composes from left to right.

    Parameters
    ----------
    name : str
        One of :func:`calibrators`, or several joined by ``+``.
    **parameters
        Passed on to the class; to a composition only ``cross_fit``, see :class:`~calibrant.Chain`.

    Examples
    --------
    >>> make("temperature", loss="brier")
    TemperatureScaling(loss='brier')
    >>> make("temperature+vector")
    Chain(calibrators=[TemperatureScaling(), VectorScaling()])
    """
    if not isinstance(name, str):
        raise ParameterError(f"name must be text such as 'temperature', not {name!r}.")
    parts = [part.strip() for part in COMPOSITIONS.get(name, name).split("+")]
    if len(parts) > 1:
        cross_fit = parameters.pop("cross_fit", None)
        if parameters:
            raise ParameterError(
                f"parameters {sorted(parameters)} cannot be shared by the parts of {name!r}; "
                "make the parts one by one and put them into a Chain."
            )
        from calibrant.calibrators import Chain

        return Chain([make(part) for part in parts], cross_fit=cross_fit)
    try:
        cls, preset = _factories()[parts[0]]
    except KeyError:
        if not parts[0]:
            raise ParameterError(
                f"there is no calibrator ''; a part of {name!r} is empty; known are {calibrators()}."
            ) from None
        near = ELSEWHERE.get(parts[0]) or "".join(get_close_matches(parts[0], calibrators(), 1))
        advice = f"did you mean {near!r}? Known" if near else "known"
        raise ParameterError(f"there is no calibrator {parts[0]!r}; {advice} are {calibrators()}.") from None
    if "cross_fit" in parameters and cls.__name__ != "Chain":
        raise ParameterError(
            f"cross_fit is for names joined by +, such as 'temperature+vector', not for {name!r}."
        )
    # A copy, so that nobody can change the preset of all that are made later.
    return cls(**{**clone(preset, safe=False), **parameters})


def unfitted(method: Any) -> Calibrator:
    """Return a new calibrator from a registry name, or a clone of a calibrator."""
    if isinstance(method, str):
        return make(method)
    if not isinstance(method, Calibrator):
        raise ParameterError(f"method must be a registry name or an unfitted Calibrator, not {method!r}.")
    return clone(method)  # type: ignore[no-any-return]


def about(calibrator: Calibrator, *, parameters_too: bool = True) -> str:
    """Return what a method is in one sentence, by default with the parameters that differ from the defaults.

    >>> about(make("platt")), about(make("temperature+knn-kl"))
    ('Platt scaling: logistic regression on the log-odds of an event.',
    'TemperatureScaling, then NearestNeighbourCalibration.')
    """
    cls = type(calibrator)
    parameters = calibrator.get_params(deep=False)
    if cls.__name__ == "Chain":
        return ", then ".join(type(part).__name__ for part in parameters["calibrators"]) + "."
    first = (getdoc(cls) or "").partition("\n\n")[0].replace("\n", " ").replace("``", "")
    defaults = {
        name: parameter.default
        for name, parameter in signature(cls).parameters.items()
        if parameter.default is not parameter.empty
    }
    changed = {
        name: value
        for name, value in parameters.items()
        if name in defaults and repr(defaults[name]) != repr(value)
    }
    options = ", ".join(f"{name}={value!r}" for name, value in changed.items())
    return f"{first} ({options})" if options and parameters_too else first


def metrics() -> list[str]:
    """Return the names of all metrics in :mod:`calibrant.metrics` that need no further argument.

    >>> "log_loss" in metrics()
    True
    """
    import calibrant.metrics as package
    from calibrant.metrics.declaration import declared_metrics

    return [name for name in declared_metrics() if name in package.__all__]
