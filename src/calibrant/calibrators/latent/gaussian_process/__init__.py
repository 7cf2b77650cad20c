"""Gaussian process calibration (GPcalib): one latent function of the scores, with its posterior uncertainty."""

from abc import abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from calibrant.arrays import FloatArray, Matrix
from calibrant.batches import Summary
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.identity_check import is_worse_than_identity
from calibrant.calibrators.latent.gaussian_process.fit import (
    ProcessFit,
    ProcessUpdate,
    fit_process,
)
from calibrant.calibrators.latent.gaussian_process.increasing import MonotoneProcess, fit_monotone_process
from calibrant.calibrators.latent.gaussian_process.latent_function import (
    KernelParameters,
    LatentMoments,
    LatentProcess,
    LatentScores,
    ScoreKind,
    WhitenedFeatures,
    latent_scores,
    parsed_scores,
)
from calibrant.calibrators.latent.gaussian_process.process_summary import ProcessSummary
from calibrant.calibrators.log_odds import LogOdds
from calibrant.calibrators.scaling.temperature_fit import fit_inverse_temperature
from calibrant.errors import CalibrationWarning, ConvergenceWarning, ParameterError
from calibrant.fit_cost import FitCost
from calibrant.graph import TracedPredictions
from calibrant.graph.curves import Piecewise
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.increasing_curve import Pieces
from calibrant.numerics.row_blocks import row_blocks
from calibrant.options import check_choice, check_flag, check_level, check_whole, is_number, random_source
from calibrant.predictions import Predictions
from calibrant.solvers import Solution, Status
from calibrant.space import Space

__all__ = ["GaussianProcessCalibration"]


MIN_ROWS = 64


class LatentIntervals(Calibrator):
    """A calibrator with a latent function, from whose posterior its intervals come; abstract."""

    covariance: Literal["full", "diagonal"]
    monotone: bool

    def predict_interval(self, X: Any, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        r"""Return both ends of the interval of every probability, two arrays (n, K) in the float type of ``X``.

        The latent values of a row are normal in the posterior, so the log-odds of each class against the rest are, to
        first order, with mean as predicted and a deviation that follows from their covariance C:

        .. math:: \ln \frac{q_k}{1 - q_k} \pm z \sqrt{a_k^\top C a_k}, \qquad a_k = \frac{e_k - q}{1 - q_k}

        Their coverage is right if the true map is a draw from the prior, shared by all classes. Kernel parameters are
        treated as known. With ``monotone=True`` deviations are those of :meth:`latent`. With ``identity_kept_``, intervals
        are as wide as those of the discarded map. O(nKM) for M inducing points.

        Parameters
        ----------
        X : array, frame or Predictions
        level : float, default=0.95
            Confidence level.
        """
        check_is_fitted(self)
        check_level(level)
        predictions = self._parsed(X).with_floor(self.floor_)
        calibrated = self.transform(predictions)
        probabilities = self._calibrated_rows(predictions)
        scores = self._scores_of(predictions)
        spread = self._spread()
        lower, upper = np.empty((2, *probabilities.shape), dtype=probabilities.dtype)
        for rows in row_blocks(len(lower), lower.shape[1] * spread.width, min_rows=MIN_ROWS):
            log_odds = LogOdds.of(calibrated.take(rows))
            places = scores.places[rows].astype(np.float64)
            lower[rows], upper[rows] = log_odds.ends(spread.deviations(log_odds, places), level)
        # Rounding to the float type may leave out what they are the interval of.
        return np.minimum(lower, probabilities), np.maximum(upper, probabilities)

    def posterior_features(self, X: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        r"""Return the posterior uncertainty of the latent function at every score, as a factor of its covariance.

        The latent values of row i are :math:`\varphi_i + \Phi_i w + \sqrt{r_i}\,\epsilon_i`, where :math:`w \sim N(0, I)` is
        shared by all rows and :math:`\epsilon_i \sim N(0, I)` is not. :mod:`calibrant.active` is based on them.

        Returns
        -------
        features : ndarray of shape (n, K, R)
            :math:`\Phi`, with one column per inducing point, or per knot.
        rest : ndarray of shape (n, K)
            r, the variance that inducing points do not explain.
        """
        check_is_fitted(self)
        scores = self._scores_of(self._parsed(X).with_floor(self.floor_))
        return self._spread().features(scores.places.astype(np.float64))

    def _spread(self) -> "_Spread | _MonotoneSpread":
        return _MonotoneSpread(self._increasing_process()) if self._setting("monotone") else _Spread(self)

    @abstractmethod
    def _scores_of(self, predictions: Predictions) -> LatentScores:
        """Return the arguments of the latent function."""

    @abstractmethod
    def _process(self) -> LatentProcess:
        """Return the posterior of a function that may go anywhere."""

    @abstractmethod
    def _increasing_process(self) -> MonotoneProcess:
        """Return the posterior of a function that increases."""


class _Spread:
    """How log-odds vary with a latent function that may go anywhere."""

    def __init__(self, owner: LatentIntervals) -> None:
        self.process = owner._process()
        self.full = owner.covariance == "full"
        self.width = len(self.process.mean)

    def features(self, places: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        at = WhitenedFeatures.at(places.ravel(), self.process.parameters)
        shared = (at.features @ self.process.factor).reshape(*places.shape, -1)
        return shared, at.rest.reshape(places.shape)

    def deviations(self, log_odds: LogOdds, places: Matrix) -> Matrix:
        # What inducing points do not explain belongs to every latent value by itself.
        shared, own = self.features(places)
        if not self.full:
            return log_odds.independent_deviations(own + np.einsum("ikr,ikr->ik", shared, shared))
        return np.hypot(log_odds.deviations(shared), log_odds.independent_deviations(own))


class _MonotoneSpread:
    """How log-odds vary with a latent function that increases."""

    def __init__(self, process: MonotoneProcess) -> None:
        self.pieces = Pieces(process.knots)
        values, vectors = np.linalg.eigh(process.slope_moments()[1])
        self.factor: Matrix = vectors * np.sqrt(np.maximum(values, 0.0))
        self.width = len(values)

    def features(self, places: Matrix) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.pieces.features_at(places) @ self.factor, np.zeros(places.shape)

    def deviations(self, log_odds: LogOdds, places: Matrix) -> Matrix:
        return log_odds.deviations(self.features(places)[0])


KINDS: dict[str, tuple[ScoreKind, ...]] = {
    "log-probabilities": ("log-probabilities",),
    "given": ("given",),
    "either": ("log-probabilities", "given"),
}

# Inverse temperatures at the edges of this range mean that rows are all right or say nothing.
START_SLOPES = (1e-9, 1e9)

# Logits whose best temperature is that far from one, or farther, are no log-probabilities of any classifier.
USUAL_SLOPES = (0.05, 20.0)

N_SEEDS = 2**63


class GaussianProcessCalibration(LatentIntervals):
    r"""Gaussian process calibration (GPcalib): map all scores by one latent Gaussian process.

    .. math:: \hat q = \mathrm{softmax}\bigl(g(z_1), \dots, g(z_K)\bigr), \qquad
              g \sim \mathrm{GP}\bigl(\mu, k\bigr), \quad
              k(z, z') = v \exp\Bigl(-\frac{(z - z')^2}{2 \ell^2}\Bigr) + \nu \, [z = z']

    The prior mean :math:`\mu` is that of a calibrated classifier: the identity for log-probabilities and logits, the
    logarithm for probabilities. The posterior of g is approximated by a normal distribution of its values at a few inducing
    points, which maximises the variational bound to second order. The kernel parameters maximise it as well
    :cite:`wenger2020`.

    Parameters
    ----------
    n_inducing : int, default=10
        Largest number of inducing points, at most 64, the resolution of the grid. They are placed where rows have most
        information and the other points explain least, and there are fewer if a smooth function needs no more.
    covariance : {"full", "diagonal"}, default="full"
        Whether the latent values of a row have their full covariance, as values of one function do, or are treated as
        independent, as in the authors' program.
    prediction : {"mean", "monte-carlo"}, default="mean"
        The softmax of the mean of g, or of its mode if ``monotone``; or the mean softmax over draws of g.
    monotone : bool, default=False
        Whether g is constrained to be increasing, which is order-preserving and does not change the predicted class.
    scores : {"log-probabilities", "given", "either"}, default="log-probabilities"
        Input of g: log-probabilities, for logits those of their softmax; or the scores as given, as in the paper:
        probabilities, or raw logits including a constant per row. With ``"either"`` both are fitted and the one with the
        higher bound is kept.
    n_samples : int, default=100
        Draws for Monte Carlo predictions.
    max_iterations : int, default=500
        Largest number of optimisation steps.
    kernel : tuple of float or None, default=None
        Prior standard deviation of the slope of g, and length scale, instead of fitted ones; of g itself with
        ``scores="given"`` for probabilities. The evidence of a hundred rows says little about the kernel, and is often highest
        for a function that is certain. Then ``(0.5, 5)`` suits most classifiers.
    random_state : int, Generator or None, default=0
        Source of ``seed_``, used once in each fit. The map, and predictions by the mean, do not depend on it.

    Attributes
    ----------
    inducing_inputs_ : ndarray of shape (M,)
        Scores of the inducing points, increasing.
    inducing_mean_ : ndarray of shape (M,)
        Mean m of the whitened inducing variables.
    inducing_factor_ : ndarray of shape (M, M)
        Lower triangular, times its transpose their covariance S; see the notes on deviations.
    kernel_variance_, length_scale_, noise_variance_ : float
        v, :math:`\ell` and :math:`\nu`. The last is zero unless noise raises the bound.
    elbo_ : float
        The second-order approximation of the variational bound, in nats, summed over rows. It approximates a lower bound of
        the log evidence, and may exceed it if deviations of g are large.
    inference_ : Solution
        Result of the solver; ``theta`` is m, and values are nats per row.
    seed_ : int
        Seed of all Monte Carlo predictions, so that equal rows have equal predictions.
    scores_ : str
        The input of g, if it was selected.
    score_factor_ : float
        Factor of the scores: 1, or an inverse temperature for logits of an unusual scale.
    identity_kept_ : bool
        Whether the identity is used because the uncalibrated predictions have a lower log-loss on the calibration set.
    knots_ : ndarray of shape (m,)
        Only with ``monotone=True``, like the following attributes: knots between which the slope of g is linear.
    slopes_ : ndarray of shape (m,)
        Posterior mode of the slopes of g at the knots.
    slope_centre_, slope_covariance_ : ndarray of shape (m,) and (m, m)
        Normal distribution that, truncated at the least slope, approximates the posterior of the slopes; see
        :class:`MonotoneProcess`.
    level_weights_, level_variance_ : ndarray of shape (m,) and float
        Regression of the value of g at the last knot on the slopes, and its residual variance.
    slope_inference_ : Solution
        Result of the solver for the slopes.

    Notes
    -----
    *Bound.* For :math:`q(g_i) = N(\varphi_i, C_i)` of the latent values of a row, and
    :math:`\sigma = \mathrm{softmax}(\varphi_i)`, the expected log-likelihood is taken to second order as in the paper,

    .. math:: E \ln p(y_i \mid g_i) \approx \ln \sigma_{y_i}
              + \tfrac12 \bigl(\sigma^\top C_i \sigma - \mathrm{diag}(C_i)^\top \sigma\bigr).

    The objective is an approximation of the bound, not a bound. The optimal covariance S of the inducing variables has a
    closed form, the inverse of one plus the curvature, a full matrix. The authors' program optimises a diagonal S,
    which the paper does not require and which cannot increase the approximation. It also moves inducing points by the
    gradient; here they are selected again for the fitted kernel :cite:`burt2020`, which is equivalent if there are enough.

    *Deviations.* To second order, scores far below the largest of their row have no information, since the softmax hardly
    depends on them; but draws of g with large values there would take probability from likely classes. So deviations and
    draws use an S with the curvature averaged over the posterior, the condition of the optimal normal approximation
    :cite:`opper2009`. The mean and ``elbo_`` are not affected.

    *Paper and program.* The paper's :math:`\sigma_{\text{noise}} = 0.01` is a variance of 0.01 in the program; the fitted
    noise is zero in both. For probabilities the program bounds the variance by 5, as here. It has only the
    diagonal covariance, which treats equal scores of a row as independent and so overestimates the uncertainty of rows
    with many similar classes.

    *Scores.* Functions of probabilities do not contain temperature scaling, above all near zero, and may have a much higher
    loss; functions of log-probabilities do. Raw logits may have more information than their softmax, and often, though not
    always, give a better map.

    *Scale.* Log-probabilities and logits whose best temperature is above 20 or below 1/20 are divided by it first, since
    the prior mean of a calibrated classifier would be far off.

    *Increasing functions.* With ``monotone=True`` the process with the fitted kernel is conditioned on positive slopes
    (:class:`MonotoneProcess`); a function of probabilities is then one of log-probabilities. Every draw is increasing, so
    Monte Carlo predictions are order-preserving as well, ties included; rounding errors are repaired.

    *Contains the identity.* If the training log-loss exceeds that of the uncalibrated predictions, as can happen with a
    few rows, the identity is used, with a warning. Far from all calibration scores g returns to the prior mean; an
    increasing g is linear there.

    *Batches.* ``partial_fit`` is streaming variational inference :cite:`bui2017`. The kernel and the inducing points, or knots,
    are those of the first 1,000 rows. Later, the posterior given all earlier rows is the prior of the next batch. Earlier rows
    are known only to second order around the mean at their time: log-odds differ from those of the posterior of all rows at
    once, for the same kernel, by a small part of their posterior deviation; ``benchmarks/online_gp.py`` prints it. A batch
    costs as much as a fit of its rows for a known kernel, and every 500 rows a fit of a sample of at most 1,000 rows, against
    which function and kernel are tested.

    *Cost.* Scores are scalars, so g is tabulated at a few hundred nodes; rows are distributed over the nodes once, and each
    of about 100 passes then costs six products with a matrix of at most four entries per score, O(nK) in
    total. Memory is bounded for many rows. Prediction costs O(nK) by the mean, ``n_samples`` times as much by Monte Carlo.

    Examples
    --------
    A classifier whose probabilities are proportional to the squares of the true ones:

    >>> generator = np.random.default_rng(0)
    >>> honest = generator.dirichlet(np.ones(4), size=1000)
    >>> y = (honest.cumsum(axis=1) < generator.uniform(size=(1000, 1))).sum(axis=1)
    >>> p = honest**2 / (honest**2).sum(axis=1, keepdims=True)
    >>> fitted = GaussianProcessCalibration().fit(p, y)
    >>> honest[:2].round(2)
    array([[0.39, 0.59, 0.01, 0.  ], [0.15, 0.45, 0.19, 0.21]])
    >>> fitted.predict_proba(p[:2]).round(2)
    array([[0.39, 0.61, 0.  , 0.  ], [0.16, 0.45, 0.19, 0.21]])

    The latent function relative to its value at a probability of one half; the true one is half of the logarithms.

    >>> mean, deviation = fitted.latent(np.log([0.01, 0.1, 0.9]), reference=np.log(0.5))
    >>> mean.round(1), deviation.round(2)
    (array([-2. , -0.8,  0.4]), array([0.15, 0.06, 0.06]))
    >>> np.log([0.02, 0.2, 1.8]).round(1) / 2
    array([-1.95, -0.8 ,  0.3 ])
    """

    batches: ClassVar[Summary | None] = ProcessSummary()
    fit_cost: ClassVar[FitCost | None] = FitCost(0.15, copies=4.0)
    structure: ClassVar[tuple[str, ...]] = ("monotone",)
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"gp": {}, "gp-monotone": {"monotone": True}}

    def __init__(
        self,
        n_inducing: int = 10,
        covariance: Literal["full", "diagonal"] = "full",
        prediction: Literal["mean", "monte-carlo"] = "mean",
        monotone: bool = False,
        scores: Literal["log-probabilities", "given", "either"] = "log-probabilities",
        n_samples: int = 100,
        max_iterations: int = 500,
        kernel: tuple[float, float] | None = None,
        random_state: int | np.random.Generator | None = 0,
    ) -> None:
        self.n_inducing = n_inducing
        self.covariance = covariance
        self.prediction = prediction
        self.monotone = monotone
        self.scores = scores
        self.n_samples = n_samples
        self.max_iterations = max_iterations
        self.kernel = kernel
        self.random_state = random_state

    @property
    def traits(self) -> Traits:  # type: ignore[override]
        """What follows from the parameters: draws belong to columns unless they are of increasing functions."""
        return Traits(
            keeps_argmax=bool(self._setting("monotone")),
            contains_identity=True,
            commutes_with_permutations=bool(self._setting("monotone")) or self.prediction == "mean",
            uses_raw_logits=self.scores != "log-probabilities",
            shares_parameters=True,
        )

    def latent(self, z: Any, reference: float | None = None) -> LatentMoments:
        """Return mean and standard deviation of the latent function at scores.

        Parameters
        ----------
        z : float or array of any shape
            Scores of the kind that g is a function of, ``scores_``: log-probabilities, which are not above zero, or
            logits or probabilities if they are taken as given.
        reference : float, optional
            Give those of g(z) - g(reference), on which probabilities depend. Without it the deviation contains the doubt
            about the level of g, about which labels say nothing.

        Returns
        -------
        mean, standard_deviation : ndarray
            In the shape of z.

        Notes
        -----
        With ``monotone=True`` the mean is the posterior mode of g, which predictions use; where its slope is near zero it
        is less steep than the posterior mean. The deviation is that of the Laplace approximation, and can be too small
        where slopes are at their bound.

        With ``identity_kept_`` the map is the prior mean, with deviations of zero.
        """
        check_is_fitted(self)
        places = parsed_scores("z", z, self.scores_)
        origin = parsed_scores("reference", 0.0 if reference is None else reference, self.scores_)
        if origin.ndim > 0:
            raise ParameterError(f"reference must be one finite number or None, not {reference!r}.")
        if self.identity_kept_:
            mean = self._prior_mean(places)
            return LatentMoments(
                mean if reference is None else mean - self._prior_mean(origin), np.zeros(places.shape)
            )
        places, origin = self.score_factor_ * places, self.score_factor_ * origin
        reference = None if reference is None else float(origin)
        if self._setting("monotone"):
            increasing = self._increasing_process()
            mode, deviation = increasing.mode(places), increasing.standard_deviation(places, reference)
            return LatentMoments(mode if reference is None else mode - increasing.mode(origin), deviation)
        above, deviation = self._process().moments(places, reference)
        mean = above + self._prior_mean(places)
        return LatentMoments(mean if reference is None else mean - self._prior_mean(origin), deviation)

    def _fit(self, data: LabelledPredictions) -> None:
        self._check_parameters()
        self.seed_ = int(random_source(self.random_state).integers(N_SEEDS))
        data = data.with_counting_weights()
        kinds = KINDS[self.scores]
        if self._setting("monotone") and data.predictions.space is Space.PROBABILITIES:
            kinds = ("log-probabilities",)
        start = fit_inverse_temperature(data, bounds=START_SLOPES)
        slope = 1.0 if start.status is Status.AT_BOUND else float(start.theta[0])
        self.score_factor_ = 1.0 if USUAL_SLOPES[0] <= slope <= USUAL_SLOPES[1] else slope
        fits = [(self._fitted(data, kind, slope), kind) for kind in kinds]
        best, self.scores_ = max(fits, key=lambda fit: fit[0].elbo)
        inducing, variance, length_scale, noise = best.parameters
        self.inducing_inputs_ = inducing
        self.inducing_mean_ = best.mean
        self.inducing_factor_ = np.linalg.cholesky(best.covariance).astype(np.float64, copy=False)
        self.kernel_variance_, self.length_scale_, self.noise_variance_ = variance, length_scale, noise
        self.elbo_ = best.elbo
        if self._setting("monotone"):
            increasing = fit_monotone_process(
                self._scores_of(data.predictions).places,
                data.labels,
                data.weights,
                variance=variance,
                length_scale=length_scale,
                slope=slope / self.score_factor_,
            )
            self._use_increasing(increasing)
        self.identity_kept_ = False
        calibrated = self._transform(data.predictions)
        self.identity_kept_ = is_worse_than_identity(data, lambda _: calibrated)
        nothing = data.log_loss(data.predictions.without_zeros())
        self.inference_ = Solution(
            theta=self.inducing_mean_,
            value=-self.elbo_ / data.total_weight,
            loss=nothing if self.identity_kept_ else data.log_loss(calibrated),
            identity_loss=nothing,
            decrement=best.decrement / data.total_weight,
            n_iterations=best.n_iterations,
            n_evaluations=best.n_evaluations,
            status=Status.IDENTITY if self.identity_kept_ else best.status,
        )
        if self.identity_kept_:
            warn_user(f"GaussianProcessCalibration: {Status.IDENTITY.value}.", CalibrationWarning)
        if self.inference_.status is Status.OUT_OF_ITERATIONS:
            warn_user(
                f"GaussianProcessCalibration: the search was stopped before its end, after {best.n_iterations} steps; "
                "raise max_iterations.",
                ConvergenceWarning,
            )
        else:
            self.inference_.warn_unless_converged("GaussianProcessCalibration")

    def _use_increasing(self, process: MonotoneProcess) -> None:
        self.knots_, self.slopes_ = process.knots, process.slopes
        self.slope_centre_, self.slope_covariance_ = process.centre, process.covariance
        self.level_weights_, self.level_variance_ = process.level_weights, process.level_variance
        self.slope_inference_ = process.solution

    def _use_update(
        self,
        found: ProcessUpdate,
        elbo: float,
        increasing: MonotoneProcess | None,
        batch: LabelledPredictions,
    ) -> None:
        """Set the fitted attributes after a batch; kernel, inducing points and knots stay."""
        self.inducing_mean_ = found.posterior.mean
        self.inducing_factor_ = np.linalg.cholesky(found.covariance).astype(np.float64, copy=False)
        self.elbo_ = elbo
        if increasing is not None:
            self._use_increasing(increasing)
        self.inference_ = Solution(
            theta=self.inducing_mean_,
            value=-found.gain / batch.total_weight,
            loss=batch.log_loss(self._transform(batch.predictions)),
            identity_loss=batch.log_loss(batch.predictions.without_zeros()),
            decrement=found.decrement / batch.total_weight,
            n_iterations=found.n_iterations,
            n_evaluations=found.n_evaluations,
            status=found.status,
        )

    def _check_parameters(self) -> None:
        check_whole("n_inducing", self.n_inducing)
        check_choice("covariance", self.covariance, ("full", "diagonal"))
        check_choice("prediction", self.prediction, ("mean", "monte-carlo"))
        check_flag("monotone", self._setting("monotone"))
        check_choice("scores", self.scores, KINDS)
        check_whole("n_samples", self.n_samples)
        check_whole("max_iterations", self.max_iterations)
        if self.kernel is not None and not (
            isinstance(self.kernel, tuple | list)
            and len(self.kernel) == 2
            and all(is_number(part) and 0 < part < np.inf for part in self.kernel)
        ):
            raise ParameterError(
                "kernel must be two positive numbers, the deviation of the slope and the length scale, such as (0.5, 5), or "
                f"None, but is {self.kernel!r}."
            )
        random_source(self.random_state)

    def _fitted(self, data: LabelledPredictions, kind: ScoreKind, slope: float) -> ProcessFit:
        scores = latent_scores(data.predictions, kind, self.score_factor_)
        return fit_process(
            scores,
            data.labels,
            np.ones(data.n_rows) if data.weights is None else data.weights,
            slope / self.score_factor_ if scores.prior_is_identity else 1.0,
            n_inducing=self.n_inducing,
            full=self.covariance == "full",
            max_iterations=self.max_iterations,
            kernel=None if self.kernel is None else (float(self.kernel[0]), float(self.kernel[1])),
        )

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        kept: Literal["order"] | None = "order" if self._setting("monotone") else None
        if self.identity_kept_:
            without = given.without_zeros()
            # Scores below the floor have become equal.
            return without if kept is None else replace(without, kept=kept, reference=given.scores)
        if self.prediction == "monte-carlo":
            opaque = self._opaque(given, "its probabilities are means over draws; set prediction='mean'.")
            return given.with_probabilities(opaque.raw, kept)
        scores = latent_scores(given, self.scores_, self.score_factor_)
        if kept is None:
            values = (
                scores.places.widened.then(Piecewise.cubic(self._process().table())) + scores.prior.widened
            )
            latent = values - values.row("max")
        else:
            latent = scores.places.widened.then(self._increasing_process().curve())
        return given.with_logits(latent.narrowed(), kept)

    def _transform(self, predictions: Predictions) -> Predictions:
        if self.identity_kept_ or self.prediction != "monte-carlo":
            return super()._transform(predictions)
        scores = self._scores_of(predictions)
        averaged = self._averaged(scores).astype(scores.prior.dtype, copy=False)
        return Predictions(averaged, Space.LOGITS, predictions.classes)

    def _averaged(self, scores: LatentScores) -> NDArray[np.float64]:
        """Return logarithms of probabilities that are averages over draws."""
        generator = np.random.default_rng(self.seed_)
        if self._setting("monotone"):
            averages = self._increasing_process().draws(generator, self.n_samples).mean_softmax(scores.places)
        else:
            averages = self._process().mean_softmax(
                scores, full=self.covariance == "full", n_draws=self.n_samples, generator=generator
            )
        return np.log(np.maximum(averages, np.finfo(np.float64).tiny, out=averages), out=averages)

    def _scores_of(self, predictions: Predictions) -> LatentScores:
        return latent_scores(predictions, self.scores_, self.score_factor_)

    def _prior_mean(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.scores_ == "given" and self.space_ == Space.PROBABILITIES:
            return np.log(np.maximum(places, self.floor_))
        return places

    def _process(self) -> LatentProcess:
        kernel = KernelParameters(
            self.inducing_inputs_, self.kernel_variance_, self.length_scale_, self.noise_variance_
        )
        return LatentProcess(kernel, self.inducing_mean_, self.inducing_factor_)

    def _increasing_process(self) -> MonotoneProcess:
        return MonotoneProcess(
            knots=self.knots_,
            slopes=self.slopes_,
            centre=self.slope_centre_,
            covariance=self.slope_covariance_,
            level_weights=self.level_weights_,
            level_variance=self.level_variance_,
            solution=self.slope_inference_,
        )
