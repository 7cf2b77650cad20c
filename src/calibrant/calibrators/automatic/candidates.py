"""What the automatic choice tries: from nothing to a matrix, the cheap and simple first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.structured.structured_scaling import StructuredScaling
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.objective import RowSource

__all__ = ["IDENTITY", "Candidate", "chosen_candidates", "default_candidates"]

IDENTITY = "uncalibrated"

# Factors of the penalties, the strongest and so the simplest map first; chosen, with the other numbers here, on the
# odd-numbered sets of benchmarks/structured_and_auto.py. What is too weak for few rows gets no weight from them.
VECTOR_STRENGTHS: tuple[float, ...] = (10.0, 1.0)
VECTOR_STRENGTHS_OF_TWO: tuple[float, ...] = (10.0, 1.0, 0.1)
MATRIX_STRENGTHS: tuple[float, ...] = (10.0, 3.0, 1.0, 0.3, 0.1)
MOST_CLASSES_OF_MATRIX = 200

ROWS_FOR_ISOTONIC = 2000

# Maps of other shapes. On the same sets they gain nothing over those above, and take most of the time; they may where
# errors have a shape that none of the others can follow.
FURTHER = [
    "ets (loss=log)",
    "spline",
    "shared-vector+isotonic",
    "gp-monotone",
    "pts (loss=log)",
    "temperature+gp",
]
MOST_CLASSES_OF_FURTHER = 200


@dataclass(frozen=True, eq=False)
class Candidate:
    """One map to try.

    Attributes
    ----------
    name : str
        A registry name, with the strength of the penalty where there are several.
    calibrator : Calibrator
        Not fitted.
    """

    name: str
    calibrator: Calibrator

    @property
    def family(self) -> str:
        """What it has in common with candidates that differ in a strength only, or are of the same kind."""
        if isinstance(self.calibrator, StructuredScaling):
            return repr(clone(self.calibrator).set_params(strength=1.0))
        return self.name if isinstance(self.calibrator, Chain) else type(self.calibrator).__name__


def default_candidates(data: LabelledPredictions | RowSource, *, thorough: bool = False) -> list[Candidate]:
    """Return what suits the number of rows and classes, the cheap and simple first.

    From doing nothing over a temperature and increasing maps that all classes share to terms of every class at several
    strengths of their penalty. With two classes there are the maps of one event instead of matrices. ``thorough`` adds
    slower methods of other shapes.
    """
    n_classes = data.n_classes
    names = [IDENTITY, "temperature", "shared-map"]
    if n_classes == 2:
        names += ["platt", "beta", "quadratic", "piecewise-linear", "piecewise-linear (mixing=0)"]
        names += _at(VECTOR_STRENGTHS_OF_TWO, "shared-vector")
        names += ["isotonic"] if data.total_weight >= ROWS_FOR_ISOTONIC else []
    else:
        names += _at(VECTOR_STRENGTHS, "shared-vector")
        names += _at(MATRIX_STRENGTHS, "shared-matrix") if n_classes <= MOST_CLASSES_OF_MATRIX else []
    if thorough:
        names += FURTHER if n_classes <= MOST_CLASSES_OF_FURTHER else FURTHER[:1]
    return [Candidate(name, _made(name)) for name in names]


def _at(strengths: tuple[float, ...], name: str) -> list[str]:
    return [f"{name} (strength={strength:g})" for strength in strengths]


def _made(name: str) -> Calibrator:
    """Return the calibrator of a name such as ``shared-matrix (strength=0.3)``."""
    from calibrant.registry import make

    registered, _, option = name.removesuffix(")").partition(" (")
    key, _, value = option.partition("=")
    if not key:
        return make(registered)
    return make(registered, **{key: value if value.isalpha() else float(value)})


def chosen_candidates(wanted: Any) -> list[Candidate]:
    """Return the candidates that a user lists, by registry name or as calibrators; the identity is always the first."""
    from calibrant.registry import make

    if isinstance(wanted, str) or not isinstance(wanted, Sequence) or len(wanted) == 0:
        raise ParameterError(
            "candidates must be 'default', 'thorough' or a list of registry names or calibrators such as "
            f"['temperature', 'isotonic'], not {wanted!r}."
        )
    found = [Candidate(IDENTITY, make(IDENTITY))]
    for one in wanted:
        if isinstance(one, str):
            candidate = Candidate(one, make(one))
        elif isinstance(one, Calibrator):
            candidate = Candidate(repr(one), clone(one))
        else:
            raise ParameterError(f"candidates must be registry names or calibrators, but one is {one!r}.")
        if candidate.name not in [other.name for other in found]:
            found.append(candidate)
    return found
