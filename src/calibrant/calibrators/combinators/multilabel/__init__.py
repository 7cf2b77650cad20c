"""MultilabelCalibration: calibrate the probabilities of several labels that do not exclude each other."""

import os
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Float64Array, FloatArray
from calibrant.calibrator import Calibrator
from calibrant.calibrators.combinators.identity import Identity
from calibrant.calibrators.combinators.multilabel.shared_map import fit_shared
from calibrant.calibrators.monotone.piecewise_linear import PiecewiseLinearCalibration
from calibrant.errors import LabelError, MissingClassWarning, ParameterError, PredictionError
from calibrant.label_matrix import LabelOutcomes, LabelScores, parse_labelled
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, warn_user
from calibrant.numerics.row_blocks import in_threads
from calibrant.options import check_choice, check_not_negative, check_whole

__all__ = ["MultilabelCalibration"]

SHARED = "shared"

SHOWN = 10  # labels that a warning lists


class MultilabelCalibration(BaseEstimator):  # type: ignore[misc]
    r"""Calibrate the probabilities of several labels that do not exclude each other, such as tags of an image.

    ``method="shared"`` fits one map to all labels, in which every label has a slope and a shift of its own:

    .. math:: \hat q_l = \sigma(u_l), \qquad u_l = \varphi(x_l) + v_l (x_l - c) + d_l,

    with the increasing piecewise-linear curve :math:`\varphi` of :class:`~calibrant.PiecewiseLinearCalibration` and its tempered
    log-odds x. All parameters jointly minimise the log-loss over all known outcomes, plus the penalty of
    :math:`\varphi` and :math:`\lambda \sum_l (4 v_l^2 + d_l^2)`. Labels with few rows borrow from the others: cross-validation
    chooses :math:`\lambda`. Any other method is fitted to each label separately, as a loop over binary fits.

    Parameters
    ----------
    method : str or Calibrator, default="shared"
        ``"shared"``, a name from :func:`calibrant.registry.calibrators`, or an unfitted calibrator that is cloned for each label.
    strength : float or "auto", default="auto"
        Regularisation strength :math:`\lambda` of ``"shared"``; ``"auto"`` for cross-validation.
    cv : int, default=5
        Number of folds that choose the strength.
    space : {"probabilities", "logits"}, default="probabilities"
        What the scores are: probabilities of each label, or their log-odds, such as outputs of a network before the sigmoid.

    Attributes
    ----------
    calibrators_ : list of Calibrator
        The fitted map of every label, a calibrator for two classes; it can be exported and plotted like any other.
    names_ : list of str or None
        Names of the labels, from a data frame.
    strength_ : float or None
        The chosen strength of ``"shared"``.
    strengths_, cv_losses_ : ndarray of shape (S,) or None
        Strengths that were compared, and their cross-validated log-loss per outcome.

    Notes
    -----
    *Missing outcomes* are NaN. They do not count, so labels may have different numbers of rows.

    *Labels with a single outcome* keep their probabilities if maps are separate, with a warning. The shared map covers them.

    *Order.* The shared curve is increasing, a separate slope :math:`v_l` may make the map of a label decrease if its rows
    are inverted.

    Costs L binary fits, on several threads for large data; ``"shared"`` one Newton fit of about 2L + 8 parameters in
    O(nL) per step, times the number of folds and strengths; at most 131,072 scores take part in the choice.

    Examples
    --------
    >>> generator = np.random.default_rng(0)
    >>> z = generator.normal(-1, 2, (300, 3))                         # log-odds of three labels
    >>> Y = generator.random(z.shape) < 1 / (1 + np.exp(-0.5 * z))    # over-confident
    >>> fitted = MultilabelCalibration(space="logits").fit(z, Y)
    >>> fitted.predict_proba([[0.0, 4.0, -4.0]]).shape
    (1, 3)
    >>> separate = MultilabelCalibration(method="platt", space="logits").fit(z, Y)
    >>> [round(calibrator.slope_, 1) for calibrator in separate.calibrators_]
    [0.6, 0.5, 0.5]
    """

    calibrators_: list[Calibrator]
    names_: list[str] | None
    strength_: float | None
    strengths_: Float64Array | None
    cv_losses_: Float64Array | None

    def __init__(
        self,
        method: str | Calibrator = SHARED,
        strength: float | str = "auto",
        cv: int = 5,
        space: str = "probabilities",
    ) -> None:
        self.method = method
        self.strength = strength
        self.cv = cv
        self.space = space

    def fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Fit the maps of all labels.

        Parameters
        ----------
        X : array or frame of shape (n, L), or list of L arrays (n, 2)
            Scores of the labels.
        Y : array, frame or sparse matrix of shape (n, L)
            Outcomes: 1 if the row has the label, 0 if not, NaN if the outcome is missing.
        sample_weight : array of shape (n,), optional
            A weight of two is equivalent to including the row twice.
        """
        self._check_parameters()
        scores, outcomes = parse_labelled(X, Y, sample_weight, self.space)
        return self.fit_parsed(scores, outcomes)

    def fit_parsed(self, scores: LabelScores, outcomes: LabelOutcomes) -> Self:
        """Fit to parsed scores and outcomes."""
        known, ones = outcomes.totals()
        if not ((ones > 0) & (ones < known)).any() and not 0 < ones.sum() < known.sum():
            raise LabelError("no label has both outcomes, 0 and 1; rows with both are needed to calibrate.")
        self.strength_ = self.strengths_ = self.cv_losses_ = None
        if isinstance(self.method, str) and self.method == SHARED:
            found = fit_shared(scores, outcomes, self.strength, self.cv, PiecewiseLinearCalibration())
            self.calibrators_, self.strength_ = found.calibrators, found.strength
            if len(found.strengths):
                self.strengths_, self.cv_losses_ = found.strengths, found.losses
        else:
            self.calibrators_ = self._separate(scores, outcomes)
        self.names_ = None if scores.names is None else list(scores.names)
        return self

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the calibrated probability of every label, (n, L), in the float type of the scores."""
        scores = self._parsed(X)
        columns = np.empty(scores.scores.shape, scores.scores.dtype)
        for label, calibrator in enumerate(self.calibrators_):
            columns[:, label] = calibrator.predict_proba(scores.of_label(label))[:, 1]
        return columns

    def predict(self, X: Any, threshold: float = 0.5) -> NDArray[np.intp]:
        """Return 1 for labels whose calibrated probability exceeds the threshold, else 0, (n, L)."""
        return (self.predict_proba(X) > threshold).astype(np.intp)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted maps of all labels to one file, without pickle."""
        from calibrant.persistence import save_labels

        save_labels(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read the fitted maps that :meth:`save` wrote."""
        from calibrant.persistence import load_labels

        return load_labels(cls, path)

    def _check_parameters(self) -> None:
        check_choice("space", self.space, ("probabilities", "logits"))
        check_whole("cv", self.cv, least=2)
        if self.strength != "auto":
            check_not_negative("strength", self.strength, "or 'auto'")
        if not isinstance(self.method, str | Calibrator):
            raise ParameterError(
                f"method must be 'shared', a registry name or an unfitted Calibrator, not {self.method!r}."
            )

    def _parsed(self, X: Any) -> LabelScores:
        check_is_fitted(self)
        scores = LabelScores.parse(X, self.space)
        if scores.n_labels != len(self.calibrators_):
            raise PredictionError(
                f"there are {scores.n_labels} labels, but {len(self.calibrators_)} in fit; pass the same columns."
            )
        if self.names_ is not None and scores.names is not None and list(scores.names) != self.names_:
            raise PredictionError(
                f"labels are {list(scores.names)[:SHOWN]}, but were {self.names_[:SHOWN]} in fit; pass the same columns in the "
                "same order."
            )
        return scores

    def _separate(self, scores: LabelScores, outcomes: LabelOutcomes) -> list[Calibrator]:
        base = _made(self.method)
        with gathered(scores.n_labels, "label"):
            calibrators = in_threads(
                partial(_fitted, base, scores, outcomes), range(scores.n_labels), scores.n_rows
            )
        alone = [label for label, calibrator in enumerate(calibrators) if calibrator is None]
        if alone:
            shown = ", ".join(scores.name(label) for label in alone[:SHOWN])
            more = f" and {len(alone) - SHOWN} more" if len(alone) > SHOWN else ""
            warn_user(
                f"label {shown}{more} has a single outcome in the calibration set; such labels keep their probabilities.",
                MissingClassWarning,
            )
        return [
            _unchanged(scores, label) if calibrator is None else calibrator
            for label, calibrator in enumerate(calibrators)
        ]


def _made(method: str | Calibrator) -> Calibrator:
    if isinstance(method, str):
        from calibrant.registry import make

        return make(method)
    return clone(method)  # type: ignore[no-any-return]


def _fitted(base: Calibrator, scores: LabelScores, outcomes: LabelOutcomes, label: int) -> Calibrator | None:
    """Return the map of one label; None if it has a single outcome."""
    rows, known, weights = outcomes.of_label(label)
    counted = known if weights is None else known[weights > 0]
    if len(np.unique(counted)) < 2:
        return None
    fitted: Calibrator = clone(base).fit(scores.of_label(label, rows), known, weights)
    return fitted


def _unchanged(scores: LabelScores, label: int) -> Calibrator:
    """Return the fitted identity map of one label."""
    identity = Identity()
    identity._set_inputs(
        LabelledPredictions(scores.of_label(label), np.zeros(scores.n_rows, np.intp), np.arange(2))
    )
    return identity
