"""Chain: one calibrator after another."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.inner_folds import check_cv_parameter, folds_of
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitPart, JointCost
from calibrant.graph import TracedPredictions
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.numerics.folds import Fold
from calibrant.options import is_whole
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["Chain"]


def cross_fitted(
    calibrator: Calibrator, data: LabelledPredictions, folds: Any, space: Space
) -> LabelledPredictions:
    """Return the rows with out-of-fold predictions of a calibrator, in the space that the fit to all rows gives.

    A row appears once for every split that holds it out, and twice if its weight is divided between two folds.
    """
    parts = [
        _held_out(calibrator, data, fold, number)
        for number, fold in enumerate(folds_of(folds, data, "cross_fit"))
    ]
    scores = [
        part.predictions.probabilities if space is Space.PROBABILITIES else part.predictions.logits
        for part in parts
    ]
    weights = None if data.weights is None else np.concatenate([part.weights for part in parts])
    return LabelledPredictions(
        Predictions(np.concatenate(scores), space, data.predictions.classes),
        np.concatenate([part.labels for part in parts]),
        data.classes,
        weights,
        None if data.groups is None else np.concatenate([part.groups for part in parts]),
    )


def _held_out(
    calibrator: Calibrator, data: LabelledPredictions, fold: Fold, number: int
) -> LabelledPredictions:
    train = data.take(fold.train_rows, fold.train_weights)
    if np.count_nonzero(train.class_weights) < 2:
        raise ParameterError(
            f"cross_fit leaves a single class in the training rows when fold {number} is held out; "
            "use fewer folds, or cross_fit=None."
        )
    fitted = clone(calibrator).fit_labelled(train, warn_of_absent=False)
    test = data.take(fold.test_rows, fold.test_weights)
    return replace(test, predictions=fitted.transform(test.predictions))


class Chain(Calibrator):
    r"""Compose calibrators: each is fitted to the output of its predecessor.

    .. math:: \hat q = g_m(\dots g_2(g_1(p)))

    The usual order is a parametric map first, then a more flexible one: neighbourhood methods :cite:`valk2022` and isotonic
    maps :cite:`zhang2020` do far better after temperature scaling than alone.

    Parameters
    ----------
    calibrators : sequence of Calibrator
        The stages in order; they are cloned, not changed.
    cross_fit : None, int, splitter or iterable of splits, default=None
        None fits all stages to the same calibration set, as the literature does. To its successor, an over-fitted stage
        then looks better calibrated than it is on new rows. With a number of folds, each later stage is fitted to
        out-of-fold predictions of its predecessor, which itself is fitted to all rows. Cross-fitting hardly matters after
        a temperature, and much after a map with many parameters. Rows that several splits hold out count several times.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted stages.

    Examples
    --------
    >>> from calibrant import TemperatureScaling, VectorScaling
    >>> p, y = [[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]], [0, 1, 0, 1]
    >>> chain = Chain([TemperatureScaling(), VectorScaling()]).fit(p, y)
    >>> chain.predict_proba(p).sum(axis=1)
    array([1., 1., 1., 1.])

    Isotonic maps of 120 rows, then a temperature. The isotonic maps look under-confident on their own training rows, and
    are over-confident on others.

    >>> import numpy as np
    >>> from calibrant import IsotonicCalibration
    >>> random = np.random.default_rng(0)
    >>> p = random.dirichlet([1, 1, 1], 120)
    >>> y = [random.choice(3, p=row) for row in p]
    >>> stages = [IsotonicCalibration(), TemperatureScaling()]
    >>> for folds in (None, 5):
    ...     print(round(Chain(stages, cross_fit=folds).fit(p, y).calibrators_[1].temperature_, 2))
    0.8
    1.17
    """

    def __init__(self, calibrators: Sequence[Calibrator], cross_fit: Any = None) -> None:
        self.calibrators = calibrators
        self.cross_fit = cross_fit

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """What all stages have in common."""
        if not self._stages_are_calibrators():
            return Traits()  # a fit will refuse them
        stages = [calibrator.traits for calibrator in self.calibrators]
        return Traits(
            keeps_argmax=all(traits.keeps_argmax for traits in stages),
            # A stage that is fitted to out-of-fold predictions may increase the loss of the predictions themselves.
            contains_identity=self.cross_fit is None and all(traits.contains_identity for traits in stages),
            binary_only=any(traits.binary_only for traits in stages),
            commutes_with_permutations=all(traits.commutes_with_permutations for traits in stages),
            uses_raw_logits=any(traits.uses_raw_logits for traits in stages),
            shares_parameters=all(traits.shares_parameters for traits in stages),
        )

    @property
    def fit_cost(self) -> JointCost | None:  # type: ignore[override]
        """That of all stages, each fitted to all rows and, with ``cross_fit``, to all folds."""
        if not self._stages_are_calibrators():
            return None
        n_folds = self.cross_fit if is_whole(self.cross_fit, 2) else 5
        times = 1.0 if self.cross_fit is None else float(n_folds)
        return JointCost([FitPart(stage.fit_cost, times) for stage in self.calibrators])

    def _fit(self, data: LabelledPredictions) -> None:
        if not self._stages_are_calibrators():
            raise ParameterError(
                f"calibrators must be a list of calibrators such as [TemperatureScaling(), VectorScaling()], not "
                f"{self.calibrators!r}; for names use registry.make('temperature+vector')."
            )
        if self.cross_fit is not None:
            check_cv_parameter(self.cross_fit, "cross_fit")
        self.calibrators_ = []
        for calibrator in self.calibrators:
            fitted = clone(calibrator).fit_labelled(data, warn_of_absent=False)
            self.calibrators_.append(fitted)
            if len(self.calibrators_) == len(self.calibrators):
                break
            if self.cross_fit is None:
                data = replace(data, predictions=fitted.transform(data.predictions))
            else:
                space = fitted.transform(data.predictions.take(slice(0, 1))).space
                data = cross_fitted(calibrator, data, self.cross_fit, space)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        for calibrator in self.calibrators_:
            given = calibrator._trace(given)
        return given

    def _stages_are_calibrators(self) -> bool:
        return (
            isinstance(self.calibrators, list | tuple)
            and len(self.calibrators) > 0
            and all(isinstance(stage, Calibrator) for stage in self.calibrators)
        )
