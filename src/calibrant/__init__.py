"""calibrant: measure, repair and prove the calibration of probabilistic classifiers.

Names are imported when first used, so that ``import calibrant`` itself takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from calibrant.calibrator import Calibrator as Calibrator
    from calibrant.calibrator import Traits as Traits
    from calibrant.calibrators import *  # noqa: F403
    from calibrant.labelled_predictions import LabelledPredictions as LabelledPredictions
    from calibrant.persistence import load as load
    from calibrant.persistence import load_graph as load_graph
    from calibrant.predictions import Predictions as Predictions
    from calibrant.report.assess import assess as assess

# Names that are no calibrators. Those of calibrators are listed in calibrators/__init__.py only.
_HOMES = {
    "Calibrator": "calibrant.calibrator",
    "LabelledPredictions": "calibrant.labelled_predictions",
    "Predictions": "calibrant.predictions",
    "Traits": "calibrant.calibrator",
    "assess": "calibrant.report",
    "load": "calibrant.persistence",
    "load_graph": "calibrant.persistence",
}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted([*_HOMES, *import_module("calibrant.calibrators").__all__])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name[:1].isupper():
        calibrators = import_module("calibrant.calibrators")
        if name in calibrators.__all__:
            return getattr(calibrators, name)
    elif not name.startswith("_"):
        # Sub-modules too can be reached without an import of their own: calibrant.metrics and so on.
        try:
            return import_module(f"calibrant.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"calibrant.{name}":
                raise
    raise AttributeError(f"module 'calibrant' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
