"""Parts of a calibrator that are calibrators themselves and learn batch by batch with it."""

from collections.abc import Mapping
from copy import copy
from typing import Any, TypeVar

from sklearn.base import clone

from calibrant.calibrator import Calibrator
from calibrant.calibrators.partial_fitting import PartialFitting
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import held_back

__all__ = ["begun", "check_learns_batches", "learnt_further", "without_memory"]

Part = TypeVar("Part", bound=PartialFitting)


def check_learns_batches(parts: Mapping[str, Any], example: str) -> None:
    """Refuse calibrators among these parameters that have no ``partial_fit``, or parts or parameters that will not do."""
    for name, part in parts.items():
        if not isinstance(part, Calibrator):
            continue
        if not isinstance(part, PartialFitting):
            raise ParameterError(
                f"{name} is {part!r}, which cannot learn batch by batch; use fit with all rows, or a calibrator that has "
                f"partial_fit, such as {example}."
            )
        part._check_parameters()
        inner = part.get_params(deep=False)
        check_learns_batches({f"{name}__{key}": value for key, value in inner.items()}, example)


def begun(part: Part, data: LabelledPredictions, n_rows: float) -> Part:
    """Return a clone that has learnt these rows, which count as ``n_rows``; whoever fitted them has warned already."""
    learnt: Part = clone(part)
    with held_back():
        learnt._learn_rows(data, n_rows)
    return _with_sample(learnt, {}, data, 1.0)


def learnt_further(part: Part, data: LabelledPredictions, kept: float) -> Part:
    """Return a copy that has learnt one more batch; what it learnt before counts ``kept`` times as much as it did.

    Like a calibrator that stands alone it is compared with a sample of its own rows now and then. The part itself stays
    as it is.
    """
    learnt = copy(part)
    learnt.learn_batch(data, kept)
    return _with_sample(learnt, vars(part).get("memory_", {}), data, kept)


def without_memory(part: Part) -> Part:
    """Return the same map without what it needs to learn further."""
    forgetful = copy(part)
    if "memory_" in vars(part):
        del forgetful.memory_
    return forgetful


def _with_sample(learnt: Part, past: dict[str, Any], data: LabelledPredictions, kept: float) -> Part:
    beside = learnt._sampled(past, data, kept)
    learnt.memory_ = learnt.memory_ | beside
    return learnt
