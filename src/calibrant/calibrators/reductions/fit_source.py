"""Fit a calibrator to rows that need not be in memory."""

from dataclasses import replace
from typing import Any

import numpy as np

from calibrant.objective.source import RowSource

__all__ = ["fit_source"]


def fit_source(calibrator: Any, source: RowSource, fit: Any, *, warn_of_absent: bool = True) -> None:
    """Fit a source of rows as :meth:`~calibrant.calibrator.Calibrator.fit_labelled` fits rows in memory."""
    present = np.flatnonzero(source.class_weights)
    calibrator._check_classes(present, source.n_rows, source.classes)
    calibrator._set_inputs(source.first)
    source = source.mapped(
        lambda data: replace(data, predictions=data.predictions.with_floor(calibrator.floor_))
    )
    if len(present) < source.n_classes:
        if warn_of_absent:
            calibrator._warn_of_absent(np.setdiff1d(np.arange(source.n_classes), present))
        if calibrator._is_restricted_to_present_classes:
            calibrator._set_present(present, source.total_weight)
            source = source.mapped(lambda data: data.restricted_to(present))
    try:
        fit(source)
    except BaseException:
        calibrator._forget()
        raise
