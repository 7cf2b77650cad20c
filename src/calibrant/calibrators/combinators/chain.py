"""Chain: one calibrator after another."""

from collections.abc import Sequence
from dataclasses import replace

from sklearn.base import clone

from calibrant.calibrator import Calibrator, Traits
from calibrant.errors import ParameterError
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.predictions import Predictions

__all__ = ["Chain"]


class Chain(Calibrator):
    r"""Compose calibrators: each is fitted on what the one before gives out.

    .. math:: \hat q = g_m(\dots g_2(g_1(p)))

    The usual order is a parametric map first, then a more flexible one. All stages see the same
    calibration rows, as in the literature :cite:`valk2022`.

    Parameters
    ----------
    calibrators : sequence of Calibrator
        The stages in order; they are cloned, not changed.

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
    """

    def __init__(self, calibrators: Sequence[Calibrator]) -> None:
        self.calibrators = calibrators

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """What all stages have in common."""
        if not self._stages_are_calibrators():
            return Traits()  # a fit will refuse them
        stages = [calibrator.traits for calibrator in self.calibrators]
        return Traits(
            keeps_argmax=all(traits.keeps_argmax for traits in stages),
            contains_identity=all(traits.contains_identity for traits in stages),
            binary_only=any(traits.binary_only for traits in stages),
            commutes_with_permutations=all(traits.commutes_with_permutations for traits in stages),
            uses_raw_logits=any(traits.uses_raw_logits for traits in stages),
            shares_parameters=all(traits.shares_parameters for traits in stages),
        )

    def _fit(self, data: LabelledPredictions) -> None:
        if not self._stages_are_calibrators():
            raise ParameterError(
                f"calibrators must be a list of calibrators such as [TemperatureScaling(), VectorScaling()], not "
                f"{self.calibrators!r}; for names use registry.make('temperature+vector')."
            )
        self.calibrators_ = []
        for calibrator in self.calibrators:
            fitted = clone(calibrator).fit_labelled(data, warn_of_absent=False)
            self.calibrators_.append(fitted)
            data = replace(data, predictions=fitted.transform(data.predictions))

    def _transform(self, predictions: Predictions) -> Predictions:
        for calibrator in self.calibrators_:
            predictions = calibrator.transform(predictions)
        return predictions

    def _stages_are_calibrators(self) -> bool:
        return (
            isinstance(self.calibrators, list | tuple)
            and len(self.calibrators) > 0
            and all(isinstance(stage, Calibrator) for stage in self.calibrators)
        )
