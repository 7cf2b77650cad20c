"""WithIntervals: confidence intervals for calibrated probabilities, by Laplace approximation or bootstrap."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import partial, singledispatch
from inspect import signature
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import Cube, Matrix
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.combinators.auto import AutoCalibration
from calibrant.calibrators.combinators.chain import Chain
from calibrant.calibrators.combinators.with_intervals.posterior import (
    Covariance,
    FittedFamily,
    fitted_family,
    is_penalised,
    laplace,
    n_parameters_of,
)
from calibrant.calibrators.log_odds import LogOdds
from calibrant.calibrators.parametric import Parametric
from calibrant.calibrators.reductions.one_vs_rest import OneVsRest
from calibrant.calibrators.scaling.ensemble_temperature import EnsembleTemperatureScaling
from calibrant.errors import ParameterError
from calibrant.fit_cost import FitPart, JointCost
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import evaluated
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import gathered, held_back
from calibrant.numerics.row_blocks import in_threads
from calibrant.numerics.row_order import restore_argmax
from calibrant.objective.losses import softmax_in_place
from calibrant.options import check_choice, check_flag, check_level, check_whole, random_source
from calibrant.predictions import Predictions
from calibrant.space import Space

__all__ = ["WithIntervals"]


# Of one array (rows, K, r): large enough for a product of matrices to pay, small enough to have several.
BLOCK_BYTES = 2**24
MIN_ROWS = 8


def first_order_interval(
    family: FittedFamily, factor: Matrix, predictions: Predictions, calibrated: Predictions, level: float
) -> tuple[Matrix, Matrix]:
    """Return both ends for every probability, (n, K), by the delta method on the log-odds of each class.

    ``factor`` (P, r) times its transpose is the covariance of the parameters. Exact for two classes. Costs O(nKr) time
    besides the product of the Jacobian with the factor, and memory for the result and a block of rows.
    """
    lower, upper = np.empty((2, predictions.n_rows, predictions.n_classes))
    for rows in _blocks(predictions, factor.shape[1]):
        log_odds = LogOdds.of(calibrated.take(rows))
        directions = family.directions(family.features(predictions.take(rows)), factor)
        lower[rows], upper[rows] = log_odds.ends(log_odds.deviations(directions), level)
    return lower, upper


def drawn_probabilities(
    family: FittedFamily, changes: Matrix, predictions: Predictions, calibrated: Predictions
) -> Iterator[tuple[slice, Cube]]:
    """Yield blocks of rows with their probabilities under every draw, (n_draws, rows, K).

    ``changes`` (n_draws, P) are differences of the parameters from the fit, whose output is ``calibrated``.
    """
    for rows in _blocks(predictions, len(changes)):
        moved = family.moved(family.features(predictions.take(rows)), changes.T)
        fitted = _logarithms(calibrated.take(rows))
        by_draw = np.ascontiguousarray((fitted[:, :, np.newaxis] + moved).transpose(2, 0, 1))
        softmax_in_place(by_draw.reshape(-1, predictions.n_classes))
        yield rows, by_draw


def percentile_interval(draws: Cube, level: float) -> tuple[Matrix, Matrix]:
    """Return the percentiles of draws (n_draws, n, K) that contain a further draw with probability ``level``.

    The interval is slightly wider than the central ``level`` of the draws themselves. Both ends are (n, K).
    """
    tail = (1 - level) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0, method="weibull")
    return lower, upper


def _logarithms(predictions: Predictions) -> Matrix:
    """Return logits of the predictions, in float64."""
    scores = predictions.scores.astype(np.float64)
    if predictions.space is Space.PROBABILITIES:
        with np.errstate(divide="ignore"):
            np.log(scores, out=scores)
    return scores


def _blocks(predictions: Predictions, width: int) -> list[slice]:
    step = max(MIN_ROWS, BLOCK_BYTES // (8 * predictions.n_classes * width))
    n_rows = predictions.n_rows
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


Ends = tuple[NDArray[np.floating], NDArray[np.floating]]

# A full matrix for 50 classes. The covariance matrix takes 50 MB, and with 5,000 rows ten to fifteen seconds of one core.
MOST_PARAMETERS = 2550

# Fewer draws do not determine a percentile.
LEAST_DRAWS = 20


class WithIntervals(Calibrator):
    r"""Confidence intervals for the probabilities of any calibrator.

    For a map with estimated parameters :math:`\hat\theta` of covariance :math:`\Sigma`, the delta method gives the log-odds
    of class k against the rest the interval

    .. math:: \ln \frac{q_k}{1 - q_k} \pm z_{1 - \alpha/2} \sqrt{a_k^\top J \Sigma J^\top a_k}, \qquad
              a_k = \frac{e_k - q}{1 - q_k}

    with J the Jacobian of the scores before the softmax. The covariance is that of the Laplace approximation,
    :math:`\Sigma = A^{-1}` for the Hessian A of the sum of losses and penalties :cite:`mackay1992`, or its robust form
    :cite:`white1982`. Calibrators without a Laplace approximation get the Bayesian bootstrap :cite:`rubin1981`.

    Parameters
    ----------
    calibrator : Calibrator or str
        An unfitted calibrator, which is cloned, or a name from :func:`calibrant.registry.calibrators` (``+`` composes).
    method : {"auto", "laplace", "bootstrap", "own"}, default="auto"
        ``"laplace"`` is for temperature (with log-loss), vector, matrix, Dirichlet and structured scaling, and for binary
        maps that are logistic in a few features, such as Platt scaling and beta calibration, also one-vs-rest.
        ``"bootstrap"`` is for any calibrator, ``"own"`` for Gaussian processes (credible intervals) and Venn-Abers
        predictors. ``"auto"`` uses the calibrator's own intervals, else the Laplace approximation if there is one, else the
        bootstrap, and gives no interval if its coverage can be below the level, see ``caution_``. Name the method to get
        that interval all the same.
    covariance : {"sandwich", "model"}, default="sandwich"
        Covariance of the Laplace approximation. ``"sandwich"`` is :math:`A^{-1} B A^{-1}`, with B the sum over rows of the
        outer products of the gradients, and holds under misspecification; ``"model"`` is :math:`A^{-1}`.
    level : float, default=0.95
        Confidence level. Venn-Abers predictors have none.
    predictive : bool, default=False
        Whether ``predict_proba`` returns the posterior predictive mean instead of the fitted map. With a small calibration
        set it is less extreme.
    n_draws : int, default=200
        Number of bootstrap refits, and of draws for predictive means and for parameters near a bound. With 200 draws the
        ends of a 95 % interval have an error of about a fifth of a standard deviation, with 1,000 a twelfth.
    random_state : int, Generator or None, default=0
        Source of draws and weights, used once in each fit.

    Attributes
    ----------
    calibrator_ : Calibrator
        Fitted to all rows.
    method_ : str
        The method used: ``"own"`` (of the calibrator), ``"laplace"`` or ``"bootstrap"``.
    factor_ : ndarray of shape (P, P)
        Laplace only, like the next two attributes. The factor times its transpose is the covariance of the parameters,
        which have the order temperature; weights, intercepts; [W | b] row by row; slope, intercept; a, b, c; for
        one-vs-rest maps class by class.
    parameter_draws_ : ndarray of shape (n_draws, P)
        Differences of drawn parameters from the fitted ones.
    is_cut_ : bool
        Whether the bound of a parameter truncates the distribution, so that intervals come from draws.
    refits_ : list of Calibrator
        Bootstrap only: the calibrators fitted to weighted rows.
    caution_ : str or None
        Why intervals may be too short; None if no reason is known. With ``method="auto"``, ``predict_interval`` then raises
        an error with this reason.

    Notes
    -----
    *Target.* The interval is for the probability under the best map of the family, the limit of an infinite calibration set.
    That is the true probability if the family contains the true map. Otherwise the interval shrinks around a biased value:
    it covers sampling error, not misspecification.

    *Venn-Abers predictors* have a pair :math:`[p_0, p_1]` instead of an interval: two predictions, one of which was fitted
    with the true outcome. The pair has no level and is no confidence interval for the true probability; it contains it in
    less than half of the cases, and less often with more rows. Passing a level is an error; ``method="bootstrap"`` has one.

    *Pointwise.* Intervals hold per row and per class, not simultaneously. Errors of different rows are dependent, since all
    rows share the map. An interval always contains the output of ``predict_proba``.

    *Bounds.* If a parameter is near its bound, as the powers of beta calibration can be and knots of ``shared-`` maps nearly
    always are, its distribution is the normal one around the unbounded optimum, truncated at the bound. Intervals are then
    percentiles of draws. *Unidentified directions* of the parameters make intervals extend from 0 to 1 for rows that
    depend on them, except for directions that the softmax ignores. A fit to separated outcomes, which has no finite
    optimum, and a fit that kept the identity have the interval of the curvature at their parameters.

    *Penalties* act as priors: where the rows have little information, the interval is as wide as the prior. They also bias
    the estimate. The robust form estimates this bias and adds its square to the variance; with few rows and true parameters
    far from the penalty's centre, coverage is still below the level, so ``"auto"`` gives no interval. The choice of the
    regularisation strength is not taken into account, and where models of several folds are averaged the curvature is taken
    at their mean parameters.

    *Step functions, smoothers and selections*, such as isotonic regression, bins, splines, kernels and
    :class:`~calibrant.AutoCalibration`, are biased by an amount that refits repeat, and the bootstrap of isotonic regression
    is inconsistent. Their intervals show the sampling error alone, so ``"auto"`` gives none. For
    :class:`~calibrant.AutoCalibration` that holds even if refits repeat the selection: its average over candidates, of which the
    identity is one, is biased, and refits repeat the bias.

    *One-vs-rest.* The K fits share their rows, so their errors are correlated. All K estimating equations are treated
    jointly, with the covariance between classes.

    *Compositions.* A :class:`~calibrant.Chain` uses the bootstrap, which refits all stages; an interval of the last stage
    given the others would be too narrow. For :class:`~calibrant.AutoCalibration` with ``method="bootstrap"`` the selected
    components are refitted, while the selection and the weights are treated as known.

    *Classes without calibration rows* keep the probability that the classifier gives them. The rows have no information on
    it, and its interval is a point. The other classes share the remainder.

    *Weights* are frequencies: a row of weight 2 is equivalent to a repeated row. Weights with a mean below 1 are rescaled to
    mean 1.

    *Cost.* Laplace: :math:`O(nP^2 + P^3)` once, for up to 2,550 parameters; intervals of m rows :math:`O(mKP)`, for full
    matrices :math:`O(mP^2)`, in blocks: 1,000 rows of 1,000 classes with 2,000 parameters take half a minute. Bootstrap:
    ``n_draws`` fits, and ``n_draws`` predictions for each call.

    Examples
    --------
    Three of four rows at 90 % are correct. The interval around 75 % shrinks with the number of rows:

    >>> from calibrant import TemperatureScaling
    >>> for copies in (10, 100, 1000):
    ...     fitted = WithIntervals(TemperatureScaling()).fit([[0.9, 0.1]] * 4 * copies, [0, 0, 0, 1] * copies)
    ...     lower, upper = fitted.predict_interval([[0.9, 0.1]])
    ...     print(round(float(lower[0, 0]), 2), round(float(upper[0, 0]), 2))
    0.59 0.86
    0.71 0.79
    0.74 0.76
    """

    calibrator_: Calibrator
    refits_: list[Calibrator]

    def __init__(
        self,
        calibrator: Calibrator | str,
        method: Literal["auto", "laplace", "bootstrap", "own"] = "auto",
        covariance: Covariance = "sandwich",
        level: float = 0.95,
        predictive: bool = False,
        n_draws: int = 200,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.calibrator = calibrator
        self.method = method
        self.covariance = covariance
        self.level = level
        self.predictive = predictive
        self.n_draws = n_draws
        self.random_state = random_state

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """Traits of the calibrator; a mean over draws does not contain the identity, and draws depend on column order."""
        try:
            inner = self._unfitted().traits
        except ParameterError:  # a fit will refuse it
            inner = Traits()
        if not self.predictive:
            return inner
        return replace(inner, contains_identity=False, commutes_with_permutations=False)

    def predict_interval(self, X: Any, level: float | None = None) -> Ends:
        r"""Return both ends of the interval of every probability, two arrays (n, K) in the float type of ``X``.

        Parameters
        ----------
        X : array, frame or Predictions
        level : float, optional
            Overrides ``self.level``. None for Venn-Abers predictors, which return their pair :math:`[p_0, p_1]`, see the
            notes.
        """
        check_is_fitted(self)
        if self.method == "auto" and self.caution_ is not None:
            raise ParameterError(
                f"{type(self.calibrator_).__name__} has no interval that is known to keep its level: {self.caution_}; set "
                f"method={self.method_!r} for an interval of the sampling error that may be too short."
            )
        if level is not None and self.method_ == "own" and not self._takes_level():
            raise ParameterError(
                f"level must be None for {type(self.calibrator_).__name__}, whose intervals have no level; "
                "use method='bootstrap' for intervals with a level."
            )
        level = self.level if level is None else level
        check_level(level)
        predictions = self._parsed(X).with_floor(self.floor_)
        probabilities = self._calibrated_rows(predictions)
        ends = []
        for inner, outermost in zip(
            self._given_seen(predictions, lambda seen: self._interval(seen, level)),
            (np.minimum, np.maximum),
            strict=True,
        ):
            # Rounding, or percentiles of a biased estimate, may exclude the estimate itself.
            ends.append(outermost(inner.astype(probabilities.dtype), probabilities))
        return ends[0], ends[1]

    def draws(self, X: Any, n: int | None = None) -> NDArray[np.float64]:
        """Return probabilities under n draws of the map, (n, rows, K); under all ``n_draws`` if n is None.

        The draws are the same in every call. For an interval of any function of several rows, compute it for every draw
        and take percentiles.
        """
        check_is_fitted(self)
        if self.method_ == "own":
            raise ParameterError(
                f"{type(self.calibrator_).__name__} has intervals of its own but no draws; use method='bootstrap'."
            )
        n = self.n_draws if n is None else n
        check_whole("n", n)
        if n > self.n_draws:
            raise ParameterError(f"n must be at most n_draws = {self.n_draws}, not {n}; fit with more draws.")

        def drawn(seen: Predictions) -> tuple[NDArray[np.float64]]:
            result = np.empty((n, seen.n_rows, seen.n_classes))
            for rows, block in self._drawn(seen):
                result[:, rows] = block[:n]
            return (result,)

        return np.asarray(self._given_seen(self._parsed(X).with_floor(self.floor_), drawn)[0])

    @property
    def fit_cost(self) -> JointCost | None:  # type: ignore[override]
        """Cost of the calibrator, times the number of bootstrap refits if there are any."""
        try:
            inner = self._unfitted().fit_cost
        except ParameterError:  # a fit will refuse it
            return None
        return JointCost([FitPart(inner, 1.0 + self.n_draws * (self.method == "bootstrap"))])

    def _fit(self, data: LabelledPredictions) -> None:
        calibrator = self._unfitted()
        self.method_ = self._chosen_method(calibrator, data.n_classes)
        self.calibrator_ = clone(calibrator).fit_labelled(data, warn_of_absent=False)
        self.caution_ = None
        if self.method_ == "own":
            self.caution_ = OWN_INTERVALS if self._takes_level() else None
            return
        generator = random_source(self.random_state)
        data = data.with_counting_weights()
        if self.method_ == "bootstrap":
            self.refits_ = refits(self.calibrator_, data, self.n_draws, generator)
            self.caution_ = None if is_maximum_likelihood(self.calibrator_) else OF_REFITS
            return
        posterior = laplace(fitted_family(self.calibrator_), data, self.covariance)
        self.factor_ = posterior.factor
        self.is_cut_ = posterior.is_cut
        self.caution_ = PENALISED if posterior.is_penalised else None
        self.parameter_draws_ = posterior.draws(generator, self.n_draws)

    def _unfitted(self) -> Calibrator:
        """Return the calibrator, made from its name if that is what was given."""
        if isinstance(self.calibrator, str):
            from calibrant.registry import make

            return make(self.calibrator)
        if not isinstance(self.calibrator, Calibrator):
            raise ParameterError(
                f"calibrator must be a registry name or a calibrator such as TemperatureScaling(), not {self.calibrator!r}."
            )
        return self.calibrator

    def _chosen_method(self, calibrator: Calibrator, n_classes: int) -> str:
        """Refuse parameters without meaning, and say what will be done."""
        check_choice("method", self.method, ("auto", "laplace", "bootstrap", "own"))
        check_choice("covariance", self.covariance, ("sandwich", "model"))
        check_level(self.level)
        check_flag("predictive", self.predictive)
        check_whole("n_draws", self.n_draws, LEAST_DRAWS)
        random_source(self.random_state)
        name = type(calibrator).__name__
        has_own = hasattr(calibrator, "predict_interval")
        if self.method == "own" and not has_own:
            raise ParameterError(f"{name} has no intervals of its own; use method='bootstrap'.")
        if self.method in ("auto", "own") and has_own:
            if self.predictive:
                raise ParameterError(
                    f"predictive must be False for {name}, which has intervals of its own; use method='bootstrap'."
                )
            return "own"
        if self.method == "bootstrap":
            return "bootstrap"
        n_parameters = n_parameters_of(calibrator, n_classes)
        if n_parameters is None:
            if self.method == "auto":
                return "bootstrap"
            raise ParameterError(f"{name} has no Laplace approximation; use method='bootstrap'.")
        if n_parameters > MOST_PARAMETERS:
            raise ParameterError(
                f"{name} has {n_parameters} parameters for {n_classes} classes, and Laplace's approximation takes "
                f"{MOST_PARAMETERS} at the most; use a method with fewer, or method='bootstrap'."
            )
        return "laplace"

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if not self.predictive:
            return self.calibrator_._trace(given)
        return self._opaque(given, "its probabilities are means over draws; set predictive=False.")

    def _transform(self, predictions: Predictions) -> Predictions:
        if not self.predictive:
            return super()._transform(predictions)
        mean = np.empty_like(predictions.scores)
        for rows, block in self._drawn(predictions):
            mean[rows] = np.maximum(block.mean(axis=0), np.finfo(mean.dtype).tiny)
        if self.traits.keeps_argmax:
            restore_argmax(mean, predictions.predicted)
        return Predictions(mean, Space.PROBABILITIES, predictions.classes)

    def _interval(self, predictions: Predictions, level: float) -> Ends:
        if self.method_ == "own":
            interval_of = self.calibrator_.predict_interval
            ends: Ends = (
                interval_of(predictions, level=level) if self._takes_level() else interval_of(predictions)
            )
            return ends
        if self.method_ == "laplace" and not self.is_cut_:
            calibrated = self.calibrator_.transform(predictions)
            return first_order_interval(
                fitted_family(self.calibrator_), self.factor_, predictions, calibrated, level
            )
        lower, upper = np.empty((2, predictions.n_rows, predictions.n_classes))
        for rows, block in self._drawn(predictions):
            lower[rows], upper[rows] = percentile_interval(block, level)
        return lower, upper

    def _takes_level(self) -> bool:
        """Return whether the calibrator's own intervals have a level."""
        return "level" in signature(self.calibrator_.predict_interval).parameters

    def _drawn(self, predictions: Predictions) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        if self.method_ == "bootstrap":
            return refitted_probabilities(self.refits_, predictions)
        calibrated = self.calibrator_.transform(predictions)
        return drawn_probabilities(
            fitted_family(self.calibrator_), self.parameter_draws_, predictions, calibrated
        )

    def _given_seen(
        self, predictions: Predictions, compute: Callable[[Predictions], tuple[NDArray[np.floating], ...]]
    ) -> list[NDArray[np.floating]]:
        """Return arrays (..., n, K) of the classes with calibration rows, times their share, beside the others as given."""
        columns = self.present_columns_
        if columns is None:
            return list(compute(predictions))
        given = evaluated(self._as_given, predictions).astype(np.float64)
        share = given[:, columns].sum(axis=1, keepdims=True)
        results: list[NDArray[np.floating]] = []
        for seen in compute(predictions.restricted_to(columns)):
            whole = np.broadcast_to(given, (*seen.shape[:-2], *given.shape)).copy()
            whole[..., columns] = share * seen
            results.append(whole)
        return results


OWN_INTERVALS = "its own intervals are credible intervals, right if its prior is, and its kernel parameters are taken as known"
PENALISED = "a penalty biases the probabilities, and its strength is taken as known"
OF_REFITS = (
    "refits repeat the bias of a penalty, of smoothing or of a selection, which is then not in the interval"
)


def is_maximum_likelihood(calibrator: Calibrator) -> bool:
    """Return whether a fitted calibrator consists of smooth parametric maps without a penalty."""
    if isinstance(calibrator, (Chain, OneVsRest)):
        return all(is_maximum_likelihood(part) for part in calibrator.calibrators_)
    if "one_vs_rest_" in vars(calibrator):
        return is_maximum_likelihood(vars(calibrator)["one_vs_rest_"])
    if isinstance(calibrator, Parametric):
        return not is_penalised(calibrator)
    return isinstance(calibrator, EnsembleTemperatureScaling)


# Of the probabilities of a block of rows under all refits.
REFIT_BLOCK_BYTES = 2**25
MIN_REFIT_ROWS = 256

# Of a random weight relative to that of its row: no row, and with it no class, ever vanishes.
LEAST_WEIGHT = 1e-9


def refits(
    calibrator: Calibrator, data: LabelledPredictions, n_draws: int, generator: np.random.Generator
) -> list[Calibrator]:
    r"""Refit a calibrator ``n_draws`` times to randomly weighted rows: the Bayesian bootstrap :cite:`rubin1981`.

    Random weights are exponential, and Gamma with shape w for a row of weight w, the distribution of the sum over w rows;
    all are divided by their mean. Unlike in the ordinary bootstrap no row is dropped: no class vanishes, and no duplicates
    fall into different folds of an inner cross-validation. Every refit has its own random stream, so the result does not
    depend on the number of threads.
    """
    shapes = np.ones(data.n_rows) if data.weights is None else data.weights

    def refit(source: np.random.Generator) -> Calibrator:
        weights = np.maximum(source.standard_gamma(shapes), LEAST_WEIGHT * shapes)
        weights *= shapes.sum() / weights.sum()
        return _refitted(calibrator, replace(data, weights=weights))

    with gathered(n_draws, "refit"):
        return in_threads(refit, generator.spawn(n_draws), data.n_rows * data.n_classes)


@singledispatch
def _refitted(calibrator: Calibrator, data: LabelledPredictions) -> Calibrator:
    """Return a calibrator refitted to these rows."""
    fitted: Calibrator = clone(calibrator).fit_labelled(data, warn_of_absent=False)
    return fitted


@_refitted.register
def _(calibrator: AutoCalibration, data: LabelledPredictions) -> Calibrator:
    """Keep the selection and its weights; a full refit would cost several times as much."""
    refitted = copy(calibrator)
    with held_back():
        refitted.calibrators_ = [_refitted(part, data) for part in calibrator.calibrators_]
    return refitted


def refitted_probabilities(
    calibrators: list[Calibrator], predictions: Predictions
) -> Iterator[tuple[slice, Cube]]:
    """Yield blocks of rows with their probabilities by every calibrator, (n_draws, rows, K)."""
    step = max(MIN_REFIT_ROWS, REFIT_BLOCK_BYTES // (8 * predictions.n_classes * len(calibrators)))
    for start in range(0, predictions.n_rows, step):
        rows = slice(start, min(start + step, predictions.n_rows))
        block = predictions.take(rows)
        by_refit = in_threads(partial(_probabilities, block), calibrators, block.n_rows * block.n_classes)
        yield rows, np.stack(by_refit)


def _probabilities(predictions: Predictions, calibrator: Calibrator) -> NDArray[np.float64]:
    return calibrator.transform(predictions).probabilities.astype(np.float64)
