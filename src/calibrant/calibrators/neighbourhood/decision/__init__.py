"""Decision calibration: correct predictions where decisions have the largest bias of their expected loss."""

from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant.arrays import Matrix, Vector
from calibrant.calibrator import Calibrator, Traits
from calibrant.calibrators.inner_folds import canonical_class_order
from calibrant.calibrators.neighbourhood.decision.repairs import (
    Adjustment,
    Plan,
    Repair,
    Repairs,
    SearchEffort,
    View,
    ViolationOf,
    best_decisions,
    mean_gap,
    parsed_losses,
)
from calibrant.calibrators.neighbourhood.decision.search import (
    MOST_ITERATIONS,
    losses_held_out,
    losses_without_repairs,
    still_gains,
)
from calibrant.calibrators.neighbourhood.held_out_losses import (
    PointLosses,
    as_they_came,
    better_floor,
    point_folds,
)
from calibrant.calibrators.neighbourhood.points import Crop, Points, check_crop, settled_epsilon, traced_crop
from calibrant.errors import CalibrationWarning, ParameterError
from calibrant.fit_cost import FitCost
from calibrant.graph import TracedPredictions
from calibrant.graph.apply import mapped
from calibrant.graph.order import FirstOfLeast
from calibrant.labelled_predictions import LabelledPredictions
from calibrant.notices import warn_user
from calibrant.numerics.rounding import SAME_COST
from calibrant.objective import ArraySource
from calibrant.options import (
    check_choice,
    check_flag,
    check_not_negative,
    check_whole,
    is_number,
    is_whole,
    random_source,
)
from calibrant.predictions import Predictions
from calibrant.solvers import Status
from calibrant.space import Space

__all__ = ["DecisionCalibration"]


# In squared standard errors. A gap g is one of g^2 - s^2 elsewhere, and of s^2 after a repair: equal at g^2 = 2 s^2.
WORTH_A_REPAIR = 2.0
# A rest of half a standard error adds an eighth to the standard error that remains in any case.
WELL_REPAIRED = 0.25


class Evidence(NamedTuple):
    """How far losses are from their expectation.

    Attributes
    ----------
    gap : float
        Root mean square, over losses, of the difference between mean real and mean expected loss.
    standard_error : float
        That of such differences, in the same way.
    violation : float
        Largest violation of any loss in units of what chance leads to.
    """

    gap: float
    standard_error: float
    violation: float

    def is_within(self, limit: float) -> bool:
        """Tell whether the squared gap is within a limit, in squared standard errors, and the violation explained.

        Chance explains a violation of one, and its square to the same limit if that is above one.
        """
        return self.gap**2 <= limit * self.standard_error**2 and self.violation**2 <= max(limit, 1)


class RepairsUpToChance(NamedTuple):
    """The repairs, and for 0, 1, 2, ... of them gaps, standard errors and violations as in :class:`Evidence`."""

    repairs: list[Repair]
    gaps: Vector
    standard_errors: Vector
    violations: Vector


def evidence(
    seen: Matrix, labels: Matrix, shares: Vector, n_rows: float, matrices: NDArray[np.float64]
) -> Evidence:
    """Compare losses with their expectation, and the violations of their decisions with chance.

    Parameters
    ----------
    seen, labels : ndarray of shape (u, K)
        Different predictions, and the mean labels of the rows that have them.
    shares : ndarray of shape (u,)
        Their shares in the total weight.
    n_rows : float
        Total weight: how many rows there are.
    matrices : ndarray of shape (m, n_decisions, K)
        Losses.

    Examples
    --------
    An error is expected in one row of ten, and found in one of four. Errors cost 1.

    >>> found = evidence(np.array([[0.9, 0.1]]), np.array([[0.75, 0.25]]), np.ones(1), 100.0, 1 - np.eye(2)[np.newaxis])
    >>> round(found.gap, 12), round(found.standard_error**2, 12)       # 0.25 * 0.75 / 100
    (0.15, 0.001875)
    """
    residuals = (labels - seen) * shares[:, np.newaxis]
    # Mean over the rows of a point of || label - prediction ||^2; labels are ones.
    squares = 1 - 2 * np.einsum("jk,jk->j", labels, seen) + np.einsum("jk,jk->j", seen, seen)
    squares *= shares
    gaps, variances, violations = [], [], []
    for losses in matrices:
        parts = best_decisions(seen, losses)
        own = losses[parts.argmax(axis=0)]  # (u, K): what the decision for each row costs in each class
        expected = np.einsum("jk,jk->j", own, seen)
        differences = own - expected[:, np.newaxis]
        of_points = differences * labels
        gap = float(shares @ of_points.sum(axis=1))
        gaps.append(gap)
        differences *= of_points
        variances.append(max(float(shares @ differences.sum(axis=1)) - gap**2, 0.0) / n_rows)
        violation = float(np.linalg.norm(parts @ residuals, axis=1).sum())
        chance = float(np.sqrt(np.maximum(parts @ squares, 0) / n_rows).sum())
        violations.append(violation / chance if chance > 0 else 0.0)
    return Evidence(
        float(np.linalg.norm(gaps) / np.sqrt(len(gaps))), float(np.sqrt(np.mean(variances))), max(violations)
    )


def repairs_up_to_chance(
    points: Points, plan: Plan, losses: NDArray[np.float64], most: int = MOST_ITERATIONS
) -> RepairsUpToChance:
    """Repair until gaps are small beside their standard errors and no violation is above chance.

    None at all where the first gaps are too small for a repair to help with rows not seen. If repairs do not get there,
    those with the least gap are taken.
    """
    on_points = Repairs(points, plan)

    def judged(seen: Matrix) -> Evidence:
        return evidence(seen, on_points.labels, on_points.shares, on_points.n_rows, losses)

    # Predictions that are left alone are not cropped.
    found = [judged(on_points.scores)]
    repairs: list[Repair] = []
    done = found[0].is_within(WORTH_A_REPAIR)
    while not done and len(repairs) < most and still_gains([each.gap for each in found]):
        repair = on_points.next()
        if repair is None:
            break
        repairs.append(repair)
        found.append(judged(plan.view(on_points.scores)))
        done = found[-1].is_within(WELL_REPAIRED)
    wanted = len(repairs) if done else int(np.argmin([each.gap for each in found]))
    gaps, standard_errors, violations = np.array(found).T
    return RepairsUpToChance(repairs[:wanted], gaps, standard_errors, violations)


# Differences of mean losses, relative to their size, that mean nothing.
ROUNDING = 1e-12


class DecisionCalibration(Calibrator):
    r"""Decision calibration: repeatedly find the partition with the largest bias, and correct its parts.

    .. math:: f^{(t)}(p) = f^{(t-1)}(p) + \sum_{i=1}^{k} b_i \, a_i, \qquad
              b = \mathrm{softmax}\bigl(W f^{(t-1)}(p)\bigr), \qquad
              W = \arg\max_W \sum_{i=1}^{k} \Bigl\| \hat{\mathbb{E}} \, (Y - f^{(t-1)}) \, b_i \Bigr\|_2

    Decisions between k actions by least expected loss partition the simplex by linear boundaries. If predictions are
    unbiased in every part of every such partition, the mean of each loss equals its expectation, for any loss matrix:
    predictions are *decision calibrated* :cite:`zhao2021`. Each iteration (repair) finds the partition with the largest
    violation and corrects the mean in every part; this is Algorithm 1 of :cite:`valk2022`. Finally, rows are cropped to
    the simplex.

    Parameters
    ----------
    n_decisions : int, default=2
        Number k of actions, and of parts.
    n_iterations : int or "auto", default="auto"
        Number of repairs; ``"auto"`` selects the smallest number from 0 to 100 whose held-out loss is within one standard
        error of the lowest. It may select 0 without a warning: see ``n_iterations_``. All numbers are evaluated in one
        pass, which ends when six further repairs gain less than a thousandth. With ``loss_matrices`` it stops when the
        remaining gaps are within sampling error, see the notes.
    tolerance : float, default=0.0
        Stop when the violation, the maximum above, does not exceed this. Calibrated predictions have a violation of
        about :math:`1 / \sqrt n` on n rows, so much smaller ones are noise.
    adjustment : {"ratio", "least-squares"}, default="ratio"
        Whether :math:`a_i` is the mean residual of part i, :math:`\hat{\mathbb{E}}[(Y - f) b_i] / \hat{\mathbb{E}}[b_i]`, or
        the :math:`a_i` together minimise the squared error. Both are the same for hard partitions.
    loss_matrices : array of shape (n_decisions, K) or (n_losses, n_decisions, K), optional
        Loss of decision d if class k, in column order, is the true one; arrays or lists, not frames. Then only these losses
        count: parts are the rows with the same best decision, with hard boundaries, and each repair is for the loss with
        the largest violation. ``n_decisions``, ``steepness``, ``restarts``, ``loss`` and ``cv`` have no effect then.
    violation_of : {"clipped", "scores"}, default="clipped"
        Whether parts and residuals are those of f clipped to [0, 1], which is close to the output, or of f itself. With
        ``loss_matrices``, ``"clipped"`` means cropped, which is the output. See the notes.
    steepness : float, default=40.0
        Bound on the entries of W, with that of the last part fixed at zero, which limits the sharpness of boundaries.
        Sharper ones have larger violations, and over-fit single rows.
    restarts : int, default=1
        Additional searches for W besides the one from the most promising start. The violation has many local maxima.
    loss : {"brier", "log"}, default="brier"
        Loss for ``"auto"`` and ``guard`` without ``loss_matrices``.
    crop : {"clip", "outside"}, default="clip"
        Clip all entries to [epsilon, 1 - epsilon], or only those outside [0, 1]; then divide rows by their sums.
    epsilon : float or "auto", default="auto"
        Smallest probability before that division: 1e-4 for up to ten classes, :math:`0.01 / K^2` for more.
    cv : int, splitter or iterable, default=5
        Folds for ``"auto"``; a number of folds keeps rows with equal predictions together, splits of a splitter are used as
        they are. Every fold costs nearly as much as a fit.
    random_state : int, Generator or None, default=0
        Source of random starts.
    guard : bool, default=True
        Whether to keep the identity if all repairs together increase the training loss, see the notes; False always applies
        them. No effect if ``"auto"`` selects 0.

    Attributes
    ----------
    n_iterations_ : int
        Number of repairs; 0 if the identity is kept.
    partitions_ : ndarray of shape (n_iterations_, n_decisions, K)
        W of every repair; with ``loss_matrices`` the loss matrix of the repair.
    adjustments_ : ndarray of shape (n_iterations_, n_decisions, K)
        The correction :math:`a_i` of every repair and part.
    violations_ : ndarray of shape (n_iterations_,)
        Violation before every repair.
    search_ : dict of str to ndarray
        With ``"auto"`` the mean held-out ``"loss"`` for every number in ``"n_iterations"``, and the ``"standard_error"`` of
        its difference from the lowest. With ``loss_matrices`` instead the ``"gap"`` with its standard error, and the
        ``"violation"`` relative to its expectation by chance, on the calibration set. Empty without a selection.
    epsilon_ : float
        Smallest probability before rows are divided by their sums.
    is_hard_ : bool
        Whether parts are those of ``loss_matrices``.
    identity_kept_ : bool
        Whether the output is the uncalibrated predictions, except for zeros: no repair was selected, or all of them together
        increase the loss.
    floor_of_zeros_ : float
        Replacement of exact zeros in that case: ``epsilon_``, or the floor if that has a lower training loss.

    Notes
    -----
    **When to use it.** After a method with few parameters, as in ``"temperature+decision"``. The correction is constant in
    each part. That lowers the Brier score and the gap between expected and observed losses, but small probabilities fall
    below zero, are raised to ``epsilon`` and increase the log-loss. For log-loss, use ``loss="log"`` or another method.

    **Comparison with the identity.** With ``violation_of="scores"`` no repair, soft or hard, raises the squared training
    error of f: both adjustments are contractions of the residuals. With ``"clipped"`` they are contractions of other
    residuals, and the final cropping changes f. So with ``guard`` the result is compared with the uncalibrated predictions
    on the calibration set, and discarded with a warning if it raises the ``loss``, or with ``loss_matrices`` the mean of
    the absolute gaps, regardless of Brier score and log-loss. For log-loss, zeros of the uncalibrated predictions are
    raised to the floor or cropped, whichever is better.

    **Number of repairs.** Every repair lowers the training loss, and on a small calibration set the minimum of the held-out
    loss is mostly chance: selecting it costs some percent of Brier score and log-loss on a hundred rows. Hence the
    one-standard-error rule. Searches in the folds are less thorough than those of the fit.

    **Number of repairs for given losses.** Held-out losses may have little information on these gaps, so the gaps
    themselves are the criterion. Let :math:`g_l` be the gap of loss l, the mean over the calibration set of observed minus
    expected loss of the best decisions, with standard error :math:`s_l`. The violation by chance is that of labels drawn
    from the predictions, about :math:`\sum_i ( \hat{\mathbb{E}} \, b_i \| Y - f \|^2 / n )^{1/2}`.

    - No repair is made if :math:`\sum_l g_l^2 \le 2 \sum_l s_l^2` and no squared violation exceeds twice that by chance.
      On new rows, the expected squared gap is :math:`g^2 - s^2` without a repair, and about :math:`s^2` after one, so
      repairs of smaller gaps do not pay.
    - Otherwise repairs stop when :math:`\sum_l g_l^2 \le \frac14 \sum_l s_l^2` and no violation exceeds chance. The
      remaining gaps are small relative to sampling error. If 100 repairs do not suffice, or ten of them gain nothing, the
      number with the smallest sum is selected.

    This selection needs no folds: the target is the gap of the training rows, the violation by chance is known, and the gap
    of a fifth of the rows would be mostly noise. On new rows a gap of about :math:`s_l` remains.

    **Optimisation.** L-BFGS with bounds, from the most promising of several starts: the directions of largest covariance
    between scores and residuals, single classes, and random ones. The bounds replace the early stopping of the published
    program, Adam with a few small steps; between 10 and 100, held-out scores hardly depend on them. W has no offset: for
    rows that sum to one, a constant added to all weights of a part is one.

    **The published program** differs from the printed Algorithm 1. Each partition and adjustment is fitted to predictions
    clamped to [0, 1] (up to 1e-7), while the adjustments are added to unclamped ones; this corrects the effect of clamping,
    and lowers Brier score and calibration error much further. It is the default here, except that parts are always
    computed from clipped scores; ``violation_of="scores"`` is the printed algorithm. The program's adjustments are
    ``"least-squares"``. It clamps to [1e-7, 1 - 1e-7] before the cropping of :cite:`valk2022`, so ``epsilon=1e-7``
    gives comparable figures, with a large log-loss. Its number of repairs has the lowest Brier score on the *test* rows,
    which ``"auto"`` never sees. With ``loss_matrices`` rows are cropped, not only clipped, since division by their sums
    would change the gaps again.

    **Costs.** A search takes tens of passes of O(n K k) over the distinct predictions, and a repair with its starts
    O(n K (k + K)); memory is O(n K). Prediction takes O(n K k) per repair, in blocks of rows.

    Examples
    --------
    Not treating a sick patient costs 10, treating costs 1. Of ten patients with a forecast of 5 % two were sick; the
    forecast of 40 % was calibrated.

    >>> from calibrant.metrics import bayes_decisions
    >>> losses = [[0, 10],       # wait
    ...           [1, 1]]        # treat
    >>> p = [[0.95, 0.05]] * 10 + [[0.6, 0.4]] * 10
    >>> sick = [0] * 8 + [1] * 2 + [0] * 6 + [1] * 4
    >>> fitted = DecisionCalibration(n_iterations=1, loss_matrices=losses).fit(p, sick)
    >>> fitted.adjustments_.round(12)
    array([[[-0.15,  0.15], [ 0.  ,  0.  ]]])
    >>> fitted.predict_proba([[0.95, 0.05], [0.6, 0.4]]).round(12)
    array([[0.8, 0.2], [0.6, 0.4]])
    >>> bayes_decisions(p, losses)[[0, 10]], bayes_decisions(fitted.predict_proba(p), losses)[[0, 10]]
    (array([0, 1]), array([1, 1]))
    """

    fit_cost: ClassVar[FitCost | None] = FitCost(0.08, classes=0.5, copies=30.0)
    traits = Traits(contains_identity=True)
    structure: ClassVar[tuple[str, ...]] = ("violation_of", "crop")
    registry_names: ClassVar[dict[str, dict[str, Any]]] = {"decision": {}}

    partitions_: NDArray[np.float64]
    adjustments_: NDArray[np.float64]
    violations_: NDArray[np.float64]
    n_iterations_: int
    search_: dict[str, NDArray[Any]]
    epsilon_: float
    is_hard_: bool
    identity_kept_: bool
    floor_of_zeros_: float

    def __init__(
        self,
        n_decisions: int = 2,
        n_iterations: int | Literal["auto"] = "auto",
        tolerance: float = 0.0,
        adjustment: Adjustment = "ratio",
        loss_matrices: Any = None,
        violation_of: ViolationOf = "clipped",
        steepness: float = 40.0,
        restarts: int = 1,
        loss: Literal["brier", "log"] = "brier",
        crop: Crop = "clip",
        epsilon: float | Literal["auto"] = "auto",
        cv: Any = 5,
        random_state: int | np.random.Generator | None = 0,
        guard: bool = True,
    ) -> None:
        self.n_decisions = n_decisions
        self.n_iterations = n_iterations
        self.tolerance = tolerance
        self.adjustment = adjustment
        self.loss_matrices = loss_matrices
        self.violation_of = violation_of
        self.steepness = steepness
        self.restarts = restarts
        self.loss = loss
        self.crop = crop
        self.epsilon = epsilon
        self.cv = cv
        self.random_state = random_state
        self.guard = guard

    def _fit(self, data: LabelledPredictions) -> None:
        plan = self._plan(data.n_classes)
        data = data.with_counting_weights()
        points, floor = Points.of(data), data.predictions.floor
        self.epsilon_ = plan.view.epsilon
        self.is_hard_ = plan.view.hard
        self.search_ = {}
        self._set_state(plan, data.n_classes, self._repairs(data, points, plan))
        if self.guard and self.n_iterations_ > 0 and self._does_harm(points, plan, floor):
            self._set_state(plan, data.n_classes, [])
            warn_user(f"{type(self).__name__}: {Status.IDENTITY.value}.", CalibrationWarning)
        if self.identity_kept_:
            self.floor_of_zeros_ = better_floor(points, floor, self.epsilon_)

    def _traced(self, given: TracedPredictions) -> TracedPredictions:
        if self.identity_kept_:
            return as_they_came(given, self.floor_of_zeros_)
        crop, scores = self._setting("crop"), given.probabilities.widened
        for partition, adjustment in zip(self.partitions_, self.adjustments_, strict=True):
            seen = scores
            if self._setting("violation_of") != "scores":
                seen = traced_crop(scores, crop, self.epsilon_) if self.is_hard_ else scores.clip(0.0, 1.0)
            expected = seen.dense(partition.T)
            if self.is_hard_:
                parts = expected.then(FirstOfLeast(SAME_COST * float(np.abs(partition).max())))
            else:
                parts = expected.softmax()
            scores = scores + parts.dense(adjustment)
        return given.with_probabilities(traced_crop(scores, crop, self.epsilon_).narrowed())

    def _plan(self, n_classes: int) -> Plan:
        """Check all parameters before anything is computed."""
        check_whole("n_decisions", self.n_decisions, least=2)
        wanted: Any = self.n_iterations
        if not is_whole(wanted, 1) and not (isinstance(wanted, str) and wanted == "auto"):
            raise ParameterError(
                f"n_iterations must be 'auto' or a whole number of at least 1, not {wanted!r}."
            )
        check_not_negative("tolerance", self.tolerance, "such as 0.01")
        check_choice("adjustment", self.adjustment, ("ratio", "least-squares"))
        check_choice("violation_of", self.violation_of, ("clipped", "scores"))
        check_choice("loss", self.loss, ("brier", "log"))
        check_flag("guard", self.guard)
        check_crop(self.crop, self.epsilon)
        check_whole("restarts", self.restarts, least=0)
        if not is_number(self.steepness) or not 0 < self.steepness < np.inf:
            raise ParameterError(f"steepness must be a positive number, such as 40, not {self.steepness!r}.")
        source = random_source(self.random_state)
        losses = None
        if self.loss_matrices is not None:
            losses = parsed_losses(self.loss_matrices, len(self.classes_))
            if self.present_columns_ is not None:
                losses = losses[:, :, self.present_columns_]
        return Plan(
            int(self.n_decisions) if losses is None else losses.shape[1],
            losses,
            self.adjustment,
            View(losses is not None, self.violation_of, self.crop, settled_epsilon(self.epsilon, n_classes)),
            float(self.steepness),
            SearchEffort(1 + int(self.restarts)),
            float(self.tolerance),
            int(source.integers(2**63)),
        )

    def _repairs(self, data: LabelledPredictions, points: Points, plan: Plan) -> list[Repair]:
        if self.n_iterations == "auto" and plan.losses is not None:
            found = repairs_up_to_chance(points, plan, plan.losses)
            self.search_ = {
                "n_iterations": np.arange(len(found.gaps)),
                "gap": found.gaps,
                "standard_error": found.standard_errors,
                "violation": found.violations,
            }
            return found.repairs
        if plan.losses is not None:
            return _found(points, plan, int(self.n_iterations))
        # Starts of a search may be equally good, as with one-hot rows; the order of the columns decides among them.
        order = canonical_class_order(ArraySource(data))
        ordered = data.with_class_order(order)
        points = Points.of(ordered)
        wanted = (
            self._chosen(ordered, points, plan) if self.n_iterations == "auto" else int(self.n_iterations)
        )
        columns = np.argsort(order)
        return [
            Repair(repair.partition[:, columns], repair.adjustment[:, columns], repair.violation)
            for repair in _found(points, plan, wanted)
        ]

    def _chosen(self, data: LabelledPredictions, points: Points, plan: Plan) -> int:
        """Return the cross-validated number of repairs; 0 for a single point."""
        folds = point_folds(points, data, self.cv)
        if not folds:
            return 0
        splits = ((fold.train(), fold.test()) for fold in folds)
        held_out = losses_held_out(splits, plan, self.loss, data.predictions.floor)
        self.search_ = {
            "n_iterations": np.arange(len(held_out.losses)),
            "loss": held_out.losses,
            "standard_error": held_out.standard_errors,
        }
        return held_out.smallest_number()

    def _does_harm(self, points: Points, plan: Plan, floor: float) -> bool:
        """Return whether the identity has a lower training loss, or smaller gaps of given losses."""
        as_given, labels = points.probabilities.astype(np.float64), points.labels()
        rows = Predictions(as_given, Space.PROBABILITIES, None, floor)
        given = mapped(self._traced, rows).probabilities.astype(np.float64, copy=False)
        if plan.losses is not None:
            shares = (points.weights / points.weights.sum())[:, np.newaxis]
            before = mean_gap(as_given, (labels - as_given) * shares, plan.losses)
            after = mean_gap(given, (labels - given) * shares, plan.losses)
            return after > before + ROUNDING * float(np.abs(plan.losses).max())
        losses = PointLosses.of(labels, points.weights, given)
        after = float(np.average(losses.log if self.loss == "log" else losses.brier, weights=points.weights))
        before = float(
            np.average(losses_without_repairs(points, plan, self.loss, floor), weights=points.weights)
        )
        return after > before * (1 + ROUNDING)

    def _set_state(self, plan: Plan, n_classes: int, repairs: list[Repair]) -> None:
        shape = (len(repairs), plan.n_decisions, n_classes)
        self.partitions_ = np.array([repair.partition for repair in repairs]).reshape(shape)
        self.adjustments_ = np.array([repair.adjustment for repair in repairs]).reshape(shape)
        self.violations_ = np.array([repair.violation for repair in repairs])
        self.n_iterations_ = len(repairs)
        self.identity_kept_ = not repairs


def _found(points: Points, plan: Plan, n_iterations: int) -> list[Repair]:
    """Return so many repairs, or fewer if nothing is left to repair."""
    on_points = Repairs(points, plan)
    repairs: list[Repair] = []
    while len(repairs) < n_iterations and (repair := on_points.next()) is not None:
        repairs.append(repair)
    return repairs
